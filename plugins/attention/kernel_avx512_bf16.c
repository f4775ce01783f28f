/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_avx512_bf16.c - attention by products of pairs of bfloat16; caches in float32 take float32. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define MOST_ROWS 8
#define MOST_PAIR_ROWS 8
#define MOST_QUERIES 64
#define MOST_PAIR_QUERIES 128
#define MOST_LATENT_QUERIES 128
#define TILES_H "plugins/attention/tiles_bf16.h"

#include "plugins/attention/pairs_tmpl.h"
#include "plugins/attention/rows_tmpl.h"

PAIRS_OPS(avx512_bf16);
ROWS_LEVEL(avx512_bf16);
