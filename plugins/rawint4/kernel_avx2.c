/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx2.c - AVX2, FMA and F16C. Few rows are multiplied as fixed-point numbers (fixed_point_tmpl.h),
 * which takes a third of the time of float32. For a pair of tiles and a row that is 64 vpmaddubsw on two
 * ports. Lines are prefetched as far ahead as the machine likes, into L2; into L1 is slower. Figures:
 * README.
 */
#define SIMD avx2
#define PREFETCH_FAR 1

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = 4
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 2
#define MR_PANEL 0
#define MR_TILE 4

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(rawint4, avx2);
