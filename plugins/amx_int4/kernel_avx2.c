/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx2.c - AVX2, FMA and F16C.
 *
 * Per 8 columns, 4 rows of activations and a tile: 8 broadcasts and 4 loads, 4 vpand, 2 vpsrlw and 2
 * more vpand, 16 vpmaddubsw and 16 vpaddw. The products share two ports of four, the loads two of their
 * own: 9 to 10 cycles, of which 13 are reached (37 products of a weight a cycle; int8 has 25, since it
 * must take signs off and widen each product). The totals wait in memory while a group is added up,
 * once for its 32 columns: sums of 4 rows and 2 vectors, broadcasts and codes take all 16 registers.
 * 1 row from L2 runs at 40 GB/s a thread, more than memory gives. Two cores of a Zen 4, Qwen3-30B-A3B's
 * shape, reading alone at 56 to 65 GB/s: 1 token 0.53 ms (38 GB/s), 8 tokens 3.4 ms (38), 32 9.8 ms,
 * 128 25 ms. With lines prefetched 1 KB ahead instead of 8: 0.94, 6.1, 15.5 and 28 ms.
 */
#define SIMD avx2

#define MR_PANEL 0
#define MR_TILE 4
#define STREAMED_MAX_ROWS 3
#define PREFETCH_BYTES 0
#define DEQUANT_MIN_ROWS 0

#include "plugins/amx_int4/amx_int4.h"

#include "plugins/common/int4_group/kernel_tmpl.h"

INT4_LEVEL(avx2);
