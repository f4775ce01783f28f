/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_avx2.c - AVX2, FMA and F16C.
 *
 * Per 8 columns, 4 rows of activations and a tile: 8 broadcasts and 4 loads, 4 vpand, 2 vpsrlw and 2
 * more vpand, 16 vpmaddubsw and 16 vpaddw. The products share two ports of four, the loads two of their
 * own: 9 to 10 cycles, of which 13 are reached (37 products of a weight a cycle; int8 has 25, since it
 * must take signs off and widen each product). The totals wait in memory while a group is added up,
 * once for its 32 columns: sums of 4 rows and 2 vectors, broadcasts and codes take all 16 registers.
 * 1 row from L2 runs at 40 GB/s a thread, more than memory gives. Two cores of a Zen 3, Qwen3-30B-A3B's
 * shape, other work beside it, reading alone at 50 to 57 GB/s: 1 token 0.65 ms (31 GB/s), 8 tokens
 * 4.1 ms (32 GB/s), 32 13.9 ms, 128 39 ms. Prefetching 1 KB ahead gives 27 GB/s, 1.5 KB 29 to 31, 2 and
 * 3 KB 28 to 29; prefetcht0 the same.
 */
#include "plugins/amx_int4/amx_int4.h"

#define VEC_VNNI 0
#include "plugins/common/int8_avx2.h"

#define ROWS_WIDE 0
#define ROWS_TILE 4
#define NEAR_ROWS 3
#define AHEAD 1024
#define EXPAND_ROWS 0

#include "plugins/common/group4_product.h"

LEVEL_OPS(avx2);
