/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx2.c - AVX2, FMA and F16C. Few rows go by bytes (fixed.h). Per pair of tiles of 32 columns and
 * row: 16 loads and 32 vpand of codes, 16 vpsrlw, 32 broadcasts, 64 vpmaddubsw, 56 vpaddw and 32 for sums
 * and scales; two ports for vpmaddubsw are the least, 36 cycles. On a Zen 4 core a pair takes 108 from L2,
 * 35 G weights a second, where products of float32 gave 13. With 1 token and both cores 0.80 to 0.90 of a
 * read limit of 38 GB/s, 0.50 of one of 65 (0.46 and 0.26 by float32): prefetched as far ahead as the machine
 * likes, into L2. Into L1, or 2 KB ahead, it is a quarter slower.
 */
#define SIMD avx2
#define PREFETCH_FAR 1

#define TILED 0
#define PREFETCH_BYTES 0
#define ROW_EXTRA 1
#define GEMV_MAX_ROWS 2
#define DEQUANT_MIN_ROWS 4
#define MR_PANEL 0
#define MR_TILE 4

#include "plugins/rawint4/product_tmpl.h"

#include "plugins/common/coded/kernel_tmpl.h"

CODED_LEVEL(rawint4, avx2);
