/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_amx.c - attention on AMX tiles of bfloat16; caches in float32 take AVX-512. */
#define SIMD avx512
#define VEC_VNNI 1
#define VEC_BF16 1

#define MOST_ROWS 8
#define MOST_PAIR_ROWS 8
#define MOST_QUERIES 64
#define MOST_PAIR_QUERIES 256
#define MOST_LATENT_QUERIES 128
#define TILES_H "plugins/attention/tiles_amx.h"
#define THREAD_FUNCTIONS .thread_enter = enter_thread, .thread_leave = leave_thread,

#include "plugins/attention/pairs_tmpl.h"
#include "plugins/attention/rows_split.h"
#define ROWS_MULTIPLY rows_multiply_long
#include "plugins/attention/rows_tmpl.h"

static void enter_thread(void *instance)
{
    (void)instance;
    amx_enter();
}

static void leave_thread(void *instance)
{
    (void)instance;
    amx_leave();
}

PAIRS_OPS(amx);
ROWS_LEVEL(amx);
