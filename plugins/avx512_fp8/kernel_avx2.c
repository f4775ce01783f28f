/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx2.c - AVX2, FMA and F16C. */
#define SIMD avx2
#define PREFETCH_FAR 1

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = 2
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 4
#define MR_PANEL 0
#define MR_TILE 6
#define SHIFTED_VECS 1
#define SUM_SCALES 1
#define DECODER_H "plugins/avx512_fp8/decode_avx2.h"

#include "plugins/avx512_fp8/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, avx2);
