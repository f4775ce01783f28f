/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bf16/activations_tmpl.h - rows of bfloat16 activations: rounded, and where they lie. They are kept as
 * bfloat16 where products take pairs of them (VEC_BF16), else as float32.
 *
 * Parameters  TILED      1: products read tiles of 16 rows (level amx); 0: row after row
 *             ROW_SUMS   1: a row is followed by the sum of each 32 columns, float32; sums of tiled rows
 *                        stand row after row behind the tiles of the 16 rows
 *             COUNT_SUMS(layout, stage)   into how many equal parts the 32 columns are cut, each with a sum
 *                 of its own; default: ROW_SUMS
 *             ROW_EXTRA  1: store_extra writes what the backend wants beside the columns; default 0. Where
 *                        rows are tiled, only products of less than tuned[TUNED_ROWS] rows have it
 * Wanted      store_extra, where ROW_EXTRA is 1
 */
#ifndef KT_PLUGINS_COMMON_BF16_ACTIVATIONS_TMPL_H
#define KT_PLUGINS_COMMON_BF16_ACTIVATIONS_TMPL_H

#ifndef TILED
#error "bf16/activations_tmpl.h: define TILED"
#endif
#ifndef ROW_SUMS
#error "bf16/activations_tmpl.h: define ROW_SUMS"
#endif
#ifndef ROW_EXTRA
#define ROW_EXTRA 0
#endif
#ifndef COUNT_SUMS
#define COUNT_SUMS(layout, stage) ((void)(layout), (void)(stage), ROW_SUMS)
#endif

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/quantize.h"
#include "plugins/common/gemm/tunables.h"

#if ROW_EXTRA
/* Tile t of a row: x has its columns, bfloat16 as float32, sums its n sums; `units` is the memory behind
 * the sums of the row's `filled` tiles. */
INLINE void store_extra(const float *x, unsigned n, float *sums, float *units, uint64_t filled, uint64_t t);
#endif

#define SUM float
#define ROW_STEP (TILE_COLUMNS * (VEC_BF16 ? 2 : 4)) /* bytes of a row for a tile */
#define X_STEP (TILED ? TILE_SIZE : ROW_STEP)

/* Where column 32 * t of packed row `row` is. */
INLINE uint8_t *find_columns(void *act, uint64_t row_size, uint64_t row, uint64_t t, bool tiled)
{
    if (tiled)
        return (uint8_t *)act + row / TILE_ROWS * TILE_ROWS * row_size + t * TILE_SIZE +
               row % TILE_ROWS * TILE_LINE;
    return (uint8_t *)act + row * row_size + t * ROW_STEP;
}

/* The sums of packed row `row`; K is filled up to 64, so that tiles come in twos. */
INLINE float *find_sums(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, bool tiled)
{
    uint64_t filled = tiles + tiles % 2;
    if (tiled)
        return (float *)(void *)(find_columns(act, row_size, row / TILE_ROWS * TILE_ROWS, filled, true) +
                                 row % TILE_ROWS * (row_size - filled * TILE_LINE));
    return (float *)(void *)find_columns(act, row_size, row, filled, false);
}

INLINE const float *read_sums(const void *act, uint64_t row_size, uint64_t tiles, uint64_t row, bool tiled)
{
    return find_sums((void *)(uintptr_t)act, row_size, tiles, row, tiled);
}

/* What stands behind the columns of a packed row, to row `row` of tiled ones. */
INLINE void copy_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, const void *from)
{
    if (ROW_SUMS)
        memcpy(find_sums(act, row_size, tiles, row, true), read_sums(from, row_size, tiles, 0, false),
               row_size - (tiles + tiles % 2) * TILE_LINE);
}

/* 32 numbers as this level keeps them, also to `rounded`; n sums of equal parts, in the order that every
 * level has. */
INLINE void store_columns(const float *x, uint8_t *to, unsigned n, float *sums, float *rounded)
{
    UNROLL_FOR (unsigned i = 0; i < TILE_COLUMNS; i += VEC_ROWS) {
        uint8_t half[2 * VEC_ROWS];
        vf_store_bf16(half, vf_load(x + i));
        vf_store(rounded + i, vf_from_bf16(half));
        if (VEC_BF16)
            memcpy(to + 2 * i, half, sizeof half);
        else
            memcpy(to + 4 * i, rounded + i, 4 * VEC_ROWS);
    }
    for (unsigned s = 0, i = 0; s < n; s++) {
        float sum = 0.0f;
        for (unsigned end = i + TILE_COLUMNS / n; i < end; i++)
            sum += rounded[i];
        sums[s] = sum;
    }
}

#if ROW_EXTRA
/* In stage 1 the rows of a product are known; in stage 0, rows that are tiled later. */
INLINE bool takes_extra(const struct kt_act_pack *job)
{
    return !TILED || job->stage == KT_STAGE_GATE_UP ||
           (job->n_rows < job->layout->tuned[TUNED_ROWS] && !job->layout->deterministic);
}
#endif

/* h is float32 in rows, so both stages read alike; tiles of 16 rows are made in stage 1 only. */
static void pack_rows(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    bool tiled = TILED && job->stage == KT_STAGE_DOWN;
    const struct act_source source = find_act_source(job);
    uint64_t element = source.dtype == KT_DTYPE_F32 ? 4 : 2, size = job->layout->act_row_size[job->stage];
    uint64_t k = stage_k(job->layout, job->stage), tiles = stage_tiles(job->layout, job->stage);
    unsigned n = COUNT_SUMS(job->layout, job->stage);
    _Alignas(64) float x[Q8_STEP], rounded[TILE_COLUMNS];

    for (uint32_t row = job->row_begin; row < job->row_end; row++) {
        const uint8_t *from = source.first + (int64_t)row * source.stride;
        float *sums = find_sums(job->packed, size, tiles, row, tiled);
        for (uint64_t t = 0; t < tiles; t += 2) {
            uint64_t c = t * TILE_COLUMNS;
            q8_read(from + c * element, source.dtype, k - c, x);
            for (unsigned i = 0; i < 2; i++) {
                uint8_t *to = find_columns(job->packed, size, row, t + i, tiled);
                store_columns(x + i * TILE_COLUMNS, to, n, sums + n * (t + i), rounded);
#if ROW_EXTRA
                if (takes_extra(job))
                    store_extra(rounded, n, sums + n * (t + i), sums + n * (tiles + tiles % 2),
                                tiles + tiles % 2, t + i);
#endif
            }
        }
    }
}

#endif
