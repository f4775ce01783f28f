/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - activation rows: quantised, and where they lie. Include an int8_*.h first. TILED is 1 where
 * products read tiles of 16 rows (level amx), 0 where they read row after row.
 */
#ifndef KT_PLUGINS_AMX_INT8_ROWS_H
#define KT_PLUGINS_AMX_INT8_ROWS_H

#include "plugins/amx_int8/amx_int8.h"
#include "plugins/common/quantize8.h"

/* Where column 64 * t of packed row `row` is; TILED: 16 rows are one object. */
INLINE uint8_t *find_columns(void *act, uint64_t row_size, uint64_t row, uint64_t t, bool tiled)
{
    if (tiled)
        return (uint8_t *)act + row / TILE_ROWS * TILE_ROWS * row_size + t * TILE_SIZE +
               row % TILE_ROWS * TILE_COLUMNS;
    return (uint8_t *)act + row * row_size + t * TILE_COLUMNS;
}

INLINE struct row_meta *find_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row,
                                  bool tiled)
{
    uint8_t *start = find_columns(act, row_size, tiled ? row / TILE_ROWS * TILE_ROWS : row, tiles,
                                  tiled);
    return (struct row_meta *)(void *)(start + (tiled ? row % TILE_ROWS * sizeof(struct row_meta) : 0));
}

/* The same, to read. */
INLINE const struct row_meta *read_meta(const void *act, uint64_t row_size, uint64_t tiles,
                                        uint64_t row, bool tiled)
{
    return find_meta((void *)(uintptr_t)act, row_size, tiles, row, tiled);
}

static void pack_input(const struct kt_act_pack *job, uint32_t row)
{
    uint64_t k = job->layout->shape.hidden_size, tiles = stage_tiles(job->layout, job->stage);
    uint64_t element = job->source_dtype == KT_DTYPE_F32 ? 4 : 2;
    const uint8_t *from = (const uint8_t *)job->source + (int64_t)row * job->source_stride;
    uint64_t size = job->layout->act_row_size[0];
    float x[Q8_STEP];
    int32_t max[Q8_STEP] = { 0 }, sum = 0;

    for (uint64_t c = 0; c < k; c += Q8_STEP) {
        q8_read(from + c * element, job->source_dtype, k - c, x);
        q8_max(x, max);
    }
    struct q8_scale scale = q8_make_scale(q8_fold(max));
    for (uint64_t t = 0; t < tiles; t++) {
        int8_t *q = (int8_t *)find_columns(job->packed, size, row, t, false);
        q8_read(from + t * Q8_STEP * element, job->source_dtype, k - t * Q8_STEP, x);
        q8_quantize(x, scale.inverse, q);
        sum += q8_sum(q);
    }
    *find_meta(job->packed, size, tiles, row, false) = (struct row_meta){ scale.scale, 128 * sum };
}

/* 64 columns of row `row` of h, which stand in up to 4 panels. */
INLINE void read_h(const struct kt_act_pack *job, uint64_t padded, uint64_t panels, uint32_t row,
                   uint64_t t, float *x)
{
    const float *h = job->source;
    uint64_t first = 4 * t;

    for (uint64_t p = first; p < first + 4; p++, x += TILE_ROWS) {
        if (p < panels)
            memcpy(x, h + (p * padded + row) * TILE_ROWS, TILE_ROWS * sizeof *x);
        else
            memset(x, 0, TILE_ROWS * sizeof *x);
    }
}

/* Behind the last row of weights h is 0 or, in a row of NaN, NaN: it does no harm to read it. */
static void pack_h(const struct kt_act_pack *job, uint32_t row, bool tiled)
{
    uint64_t panels = (job->layout->shape.intermediate_size + TILE_ROWS - 1) / TILE_ROWS;
    uint64_t tiles = stage_tiles(job->layout, job->stage), padded = round_up(job->n_rows, TILE_ROWS);
    uint64_t size = job->layout->act_row_size[1];
    float x[Q8_STEP];
    int32_t max[Q8_STEP] = { 0 }, sum = 0;

    for (uint64_t t = 0; t < tiles; t++) {
        read_h(job, padded, panels, row, t, x);
        q8_max(x, max);
    }
    struct q8_scale scale = q8_make_scale(q8_fold(max));
    for (uint64_t t = 0; t < tiles; t++) {
        int8_t *q = (int8_t *)find_columns(job->packed, size, row, t, tiled);
        read_h(job, padded, panels, row, t, x);
        q8_quantize(x, scale.inverse, q);
        sum += q8_sum(q);
    }
    *find_meta(job->packed, size, tiles, row, tiled) = (struct row_meta){ scale.scale, 128 * sum };
}

static void pack_rows(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    for (uint32_t row = job->row_begin; row < job->row_end; row++)
        if (job->stage == KT_STAGE_GATE_UP)
            pack_input(job, row);
        else
            pack_h(job, row, TILED);
}

#endif
