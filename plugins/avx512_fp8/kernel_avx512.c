/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512.c - AVX-512 without VBMI and BF16. */
#define SIMD avx512

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = 6
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 4
#define MR_PANEL 8
#define MR_TILE 0
#define SHIFTED_VECS 2
#define DECODER_H "plugins/avx512_fp8/decode_avx512.h"

#include "plugins/avx512_fp8/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, avx512);
