/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx512.c - AVX-512 without BF16. Few rows are multiplied as fixed-point numbers
 * (fixed_point_tmpl.h); sums of 8 rows would not stay in registers. Figures: README.
 */
#define SIMD avx512

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = 24
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 4
#define MR_PANEL 8
#define MR_TILE 0

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(rawint4, avx512);
