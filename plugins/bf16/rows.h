/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - activation rows: rounded, and where they lie. Include an int8_*.h first. PAIRS is 1 where they
 * are kept as bfloat16, 0 as float32; TILED is 1 where products read tiles of 16 rows (level amx).
 */
#ifndef KT_PLUGINS_BF16_ROWS_H
#define KT_PLUGINS_BF16_ROWS_H

#include "plugins/bf16/bf16.h"
#include "plugins/common/quantize8.h"

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

/* Nothing stands behind a row's columns. */
INLINE void copy_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, const void *from)
{
    (void)act;
    (void)row_size;
    (void)tiles;
    (void)row;
    (void)from;
}

/* 32 numbers as this level keeps them. */
INLINE void store_columns(const float *x, uint8_t *to)
{
    UNROLL
    for (unsigned i = 0; i < TILE_COLUMNS; i += VEC_ROWS) {
#if PAIRS
        vf_store_bf16(to + 2 * i, vf_load(x + i));
#else
        uint8_t half[2 * VEC_ROWS];
        vf_store_bf16(half, vf_load(x + i));
        vf_store(to + 4 * i, vf_from_bf16(half));
#endif
    }
}

/* h is float32 in rows, so both stages read alike; tiles of 16 rows are made of h only. */
static void pack_rows(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    bool down = job->stage == KT_STAGE_DOWN, tiled = TILED && down;
    uint32_t dtype = down ? (uint32_t)KT_DTYPE_F32 : job->source_dtype;
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2, size = job->layout->act_row_size[job->stage];
    uint64_t k = stage_k(job->layout, job->stage);
    int64_t stride = down ? (int64_t)job->layout->h_row_size : job->source_stride;
    _Alignas(64) float x[Q8_STEP];

    for (uint32_t row = job->row_begin; row < job->row_end; row++) {
        const uint8_t *from = (const uint8_t *)job->source + (int64_t)row * stride;
        for (uint64_t c = 0; c < k; c += Q8_STEP) {
            q8_read(from + c * element, dtype, k - c, x);
            store_columns(x, find_columns(job->packed, size, row, c / TILE_COLUMNS, tiled));
            store_columns(x + TILE_COLUMNS,
                          find_columns(job->packed, size, row, c / TILE_COLUMNS + 1, tiled));
        }
    }
}

#endif
