/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx2.c - AVX2, FMA and F16C. Any number of rows is multiplied as fixed-point numbers, 4 rows and a
 * vector of codes at a time (by_vector_tmpl.h): vpmaddubsw and vpaddw take 1.3 cycles for 32 weights and a
 * row, where float32 takes 2 and has to be made first. Lines are prefetched as far ahead as the machine
 * likes, into L2; into L1 is slower. Figures: README.
 */
#define SIMD avx2
#define PREFETCH_FAR 1

#define TILED 0
#define TUNING .prefetch_bytes = 0, .dequant_min_rows = UINT32_MAX
#define ROW_EXTRA 1
#define BY_VECTOR 1
#define GEMV_MAX_ROWS 4
#define MR_PANEL 0
#define MR_TILE 6

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(rawint4, avx2);
