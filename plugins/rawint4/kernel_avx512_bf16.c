/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_bf16.c - AVX-512 with vdpbf16ps. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = 24
#define GEMV_MAX_ROWS 8
#define MR_PANEL 8
#define MR_TILE 0

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(rawint4, avx512_bf16);
