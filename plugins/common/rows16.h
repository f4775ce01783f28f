/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows16.h - rows of bfloat16 activations: rounded, and where they lie. Include an int8_*.h and the
 * backend's header (layout16.h) first. PAIRS is 1 where they are kept as bfloat16, 0 as float32; TILED is 1
 * where products read tiles of 16 rows (level amx). ROW_SUMS is 1 where the sum of each 32 columns follows,
 * float32; of tiled rows they stand row after row behind the 16 rows' tiles. FIXED is 1 where the backend
 * has store_fixed, which puts there what it wants beside the columns.
 */
#ifndef KT_PLUGINS_ROWS16_H
#define KT_PLUGINS_ROWS16_H

#include "plugins/common/quantize8.h"
#include "plugins/common/tiles8.h"

#ifndef FIXED
#define FIXED 0
#endif

#define SUM float
#define ROW_STEP (TILE_COLUMNS * (PAIRS ? 2 : 4)) /* bytes of a row for a tile */
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
        return (float *)(void *)find_columns(act, row_size, row / TILE_ROWS * TILE_ROWS, filled, true) +
               row % TILE_ROWS * filled;
    return (float *)(void *)find_columns(act, row_size, row, filled, false);
}

INLINE const float *read_sums(const void *act, uint64_t row_size, uint64_t tiles, uint64_t row,
                              bool tiled)
{
    return find_sums((void *)(uintptr_t)act, row_size, tiles, row, tiled);
}

/* What stands behind the columns of a packed row, to row `row` of tiled ones. */
INLINE void copy_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, const void *from)
{
    if (ROW_SUMS)
        memcpy(find_sums(act, row_size, tiles, row, true), read_sums(from, row_size, tiles, 0, false),
               tiles * sizeof(float));
}

/* 32 numbers as this level keeps them; their sum, in the order that every level has. */
INLINE float store_columns(const float *x, uint8_t *to)
{
    float rounded[TILE_COLUMNS], sum = 0.0f;

    UNROLL
    for (unsigned i = 0; i < TILE_COLUMNS; i += VEC_ROWS) {
        uint8_t half[2 * VEC_ROWS];
        vf_store_bf16(half, vf_load(x + i));
        vf_store(rounded + i, vf_from_bf16(half));
        if (PAIRS)
            memcpy(to + 2 * i, half, sizeof half);
        else
            memcpy(to + 4 * i, rounded + i, 4 * VEC_ROWS);
    }
    for (unsigned i = 0; ROW_SUMS && i < TILE_COLUMNS; i++)
        sum += rounded[i];
    return sum;
}

/* h is float32 in rows, so both stages read alike; tiles of 16 rows are made of h only. */
static void pack_rows(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    bool down = job->stage == KT_STAGE_DOWN, tiled = TILED && down;
    uint32_t dtype = down ? (uint32_t)KT_DTYPE_F32 : job->source_dtype;
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2, size = job->layout->act_row_size[job->stage];
    uint64_t k = stage_k(job->layout, job->stage);
#if ROW_SUMS || FIXED
    uint64_t tiles = stage_tiles(job->layout, job->stage);
#endif
    int64_t stride = down ? (int64_t)job->layout->h_row_size : job->source_stride;
    _Alignas(64) float x[Q8_STEP];

    for (uint32_t row = job->row_begin; row < job->row_end; row++) {
        const uint8_t *from = (const uint8_t *)job->source + (int64_t)row * stride;
        for (uint64_t c = 0; c < k; c += Q8_STEP) {
            uint64_t t = c / TILE_COLUMNS;
            q8_read(from + c * element, dtype, k - c, x);
            float first = store_columns(x, find_columns(job->packed, size, row, t, tiled));
            float second = store_columns(x + TILE_COLUMNS,
                                         find_columns(job->packed, size, row, t + 1, tiled));
            (void)first;
            (void)second;
#if ROW_SUMS || FIXED
            float *sums = find_sums(job->packed, size, tiles, row, tiled);
#endif
#if ROW_SUMS
            sums[t] = first;
            sums[t + 1] = second;
#endif
#if FIXED
            for (uint64_t i = t; i < t + 2; i++)
                store_fixed(find_columns(job->packed, size, row, i, false), sums, tiles + tiles % 2, i);
#endif
        }
    }
}

#endif
