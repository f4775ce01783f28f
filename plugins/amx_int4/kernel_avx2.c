/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx2.c - AVX2, FMA and F16C.
 *
 * For 8 columns, 4 rows of activations and a tile: 8 broadcasts and 4 loads, 4 vpand, 2 vpsrlw and 2 more
 * vpand, 16 vpmaddubsw and 16 vpaddw. That is more products a cycle than with int8, which must handle signs
 * and widen each product. The totals wait in memory while a group is added up, once for its 32 columns:
 * sums of 4 rows and 2 vectors, broadcasts and codes take all 16 registers. Figures: README.
 */
#define SIMD avx2

#define MR_PANEL 0
#define MR_TILE 4
#define TUNING .prefetch_bytes = 0, .streamed_max_rows = 3
#define DEQUANT_MIN_ROWS 0

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(avx2);
