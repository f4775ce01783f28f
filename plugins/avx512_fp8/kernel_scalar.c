/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c - plain C: any CPU, and what the other levels are checked against. */
#define SIMD scalar

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = 8
#define GEMV_MAX_ROWS 2
#define MR_PANEL 0
#define MR_TILE 0
#define DECODER_H "plugins/avx512_fp8/decode_scalar.h"

#include "plugins/avx512_fp8/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(avx512_fp8, scalar);
