/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/amx_stored_tmpl.h - products with tiles that are multiplied as they are stored.
 *
 * Parameters  those of gemm/driver_amx_tmpl.h
 */
#ifndef KT_PLUGINS_COMMON_GEMM_AMX_STORED_TMPL_H
#define KT_PLUGINS_COMMON_GEMM_AMX_STORED_TMPL_H

#include "plugins/common/gemm/driver_amx_tmpl.h"

#define STREAMED_ROWS TILE_ROWS /* that multiply_streamed takes */

static const uint8_t *ready_pairs(const struct part *part, uint64_t t, uint64_t stop, uint8_t *to)
{
    (void)stop;
    (void)to;
    return part->panel_data + t * PAIR_SIZE;
}

/* The tile that is `distance` ahead of b, and where the level says so a near one. */
INLINE void prefetch_tile(const uint8_t *b, uint64_t distance)
{
    UNROLL_FOR (unsigned i = 0; i < TILE_SIZE; i += 64)
        PREFETCH_AHEAD(PREFETCH_LINE, b + i, distance);
}

/* Up to 16 rows with all of K, as fast as memory. */
static NOINLINE void multiply_streamed(const struct part *part, const uint8_t *a, struct block *block)
{
    const uint8_t *b = part->panel_data;
    const uint64_t distance = part->job->layout->tuned[TUNED_PREFETCH];
    AMX_ZERO(0);
    AMX_ZERO(1);
    for (uint64_t t = 0; t < part->tiles; t++, a += TILE_SIZE, b += PAIR_SIZE) {
        prefetch_tile(b, distance);
        AMX_LOAD(4, a);
        AMX_LOAD(6, b);
        AMX_DOT(0, 4, 6);
        prefetch_tile(b + TILE_SIZE, distance);
        AMX_LOAD(7, b + TILE_SIZE);
        AMX_DOT(1, 4, 7);
    }
    prefetch_tile(b, distance); /* memory goes on meanwhile */
    AMX_STORE(0, &block->sum[0]);
    AMX_STORE(1, &block->sum[1]);
}

#endif
