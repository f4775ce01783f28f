/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx512.c - AVX-512 without BF16. Few rows go by bytes (fixed.h): with 1 token 0.74 of a Zen 4's read
 * limit of 66 GB/s, where products of float32 reached 0.44. A pass of 8 rows would not stay in registers.
 */
#define SIMD avx512

#define TILED 0
#define PREFETCH_BYTES 0
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 4
#define DEQUANT_MIN_ROWS 24
#define MR_PANEL 8
#define MR_TILE 0

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(rawint4, avx512);
