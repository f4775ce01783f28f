/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8/activations_tmpl.h - rows of int8 activations: quantized, and where they lie.
 *
 * Parameters  TILED     1: products read tiles of 16 rows (level amx); 0: row after row
 *             ROW_SUMS  1: a row_meta is followed by sums of q: for each 32 columns two int16, negated: of
 *                       places 0 and 1, and of 2 and 3, of each four. Those of tiled rows stand row after
 *                       row behind the 16 row_meta
 */
#ifndef KT_PLUGINS_COMMON_INT8_ACTIVATIONS_TMPL_H
#define KT_PLUGINS_COMMON_INT8_ACTIVATIONS_TMPL_H

#ifndef TILED
#error "int8/activations_tmpl.h: define TILED"
#endif
#ifndef ROW_SUMS
#error "int8/activations_tmpl.h: define ROW_SUMS"
#endif

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/gemm/quantize.h"
#include "plugins/common/int8/rows.h"

#define TILE_SUMS (TILE_COLUMNS / SUM_COLUMNS * 2) /* int16 of a row for a tile */

/* Where column 64 * t of packed row `row` is; TILED: 16 rows are one object. */
INLINE uint8_t *find_columns(void *act, uint64_t row_size, uint64_t row, uint64_t t, bool tiled)
{
    if (tiled)
        return (uint8_t *)act + row / TILE_ROWS * TILE_ROWS * row_size + t * TILE_SIZE +
               row % TILE_ROWS * TILE_COLUMNS;
    return (uint8_t *)act + row * row_size + t * TILE_COLUMNS;
}

INLINE struct row_meta *find_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, bool tiled)
{
    uint8_t *start = find_columns(act, row_size, tiled ? row / TILE_ROWS * TILE_ROWS : row, tiles, tiled);
    return (struct row_meta *)(void *)(start + (tiled ? row % TILE_ROWS * sizeof(struct row_meta) : 0));
}

/* The same, to read. */
INLINE const struct row_meta *read_meta(const void *act, uint64_t row_size, uint64_t tiles, uint64_t row,
                                        bool tiled)
{
    return find_meta((void *)(uintptr_t)act, row_size, tiles, row, tiled);
}

INLINE int16_t *find_sums(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, bool tiled)
{
    struct row_meta *meta = find_meta(act, row_size, tiles, tiled ? row / TILE_ROWS * TILE_ROWS : row, tiled);
    return (int16_t *)(void *)(meta + (tiled ? TILE_ROWS : 1)) +
           (tiled ? row % TILE_ROWS * tiles * TILE_SUMS : 0);
}

INLINE const int16_t *read_sums(const void *act, uint64_t row_size, uint64_t tiles, uint64_t row, bool tiled)
{
    return find_sums((void *)(uintptr_t)act, row_size, tiles, row, tiled);
}

/* What stands behind the columns of a packed row, to row `row` of tiled ones. */
INLINE void copy_meta(void *act, uint64_t row_size, uint64_t tiles, uint64_t row, const void *from)
{
    *find_meta(act, row_size, tiles, row, true) = *read_meta(from, row_size, tiles, 0, false);
    if (ROW_SUMS)
        memcpy(find_sums(act, row_size, tiles, row, true), read_sums(from, row_size, tiles, 0, false),
               tiles * TILE_SUMS * sizeof(int16_t));
}

/* The sums of the 64 numbers at q. */
INLINE void sum_columns(const int8_t *q, int16_t *to)
{
    int16_t pair[4];
    for (unsigned c = 0; c < TILE_COLUMNS; c += SUM_COLUMNS, to += 2) {
        vec_pair_sums32(q + c, pair);
        to[0] = (int16_t)(-pair[0] - pair[2]);
        to[1] = (int16_t)(-pair[1] - pair[3]);
    }
}

/* A row of plain numbers. */
static void pack_plain(const struct kt_act_pack *job, uint32_t row, bool tiled)
{
    uint64_t k = stage_k(job->layout, job->stage), tiles = stage_tiles(job->layout, job->stage);
    uint64_t element = job->source_dtype == KT_DTYPE_F32 ? 4 : 2;
    const uint8_t *from = (const uint8_t *)job->source + (int64_t)row * job->source_stride;
    uint64_t size = job->layout->act_row_size[job->stage];
    _Alignas(64) float x[Q8_STEP];
    vi max = vi_splat32(0);
    int32_t sum = 0;

    for (uint64_t c = 0; c < k; c += Q8_STEP) {
        q8_read(from + c * element, job->source_dtype, k - c, x);
        max = q8_max(x, max);
    }
    struct q8_scale scale = q8_make_scale(q8_fold(max));
    for (uint64_t t = 0; t < tiles; t++) {
        int8_t *q = (int8_t *)find_columns(job->packed, size, row, t, tiled);
        q8_read(from + t * Q8_STEP * element, job->source_dtype, k - t * Q8_STEP, x);
        q8_quantize(x, scale.inverse, q);
        sum += q8_sum(q);
        if (ROW_SUMS)
            sum_columns(q, find_sums(job->packed, size, tiles, row, tiled) + t * TILE_SUMS);
    }
    *find_meta(job->packed, size, tiles, row, tiled) = (struct row_meta){scale.scale, 128 * sum};
}

/* 64 columns of row `row` of h, which stand in up to 4 panels. */
INLINE void read_h(const struct kt_act_pack *job, uint64_t padded, uint64_t panels, uint32_t row, uint64_t t,
                   float *x)
{
    const float *h = (const float *)job->source + (4 * t * padded + row) * TILE_ROWS;
    for (uint64_t p = 4 * t; p < 4 * t + 4; p++, x += TILE_ROWS, h += padded * TILE_ROWS)
        UNROLL_FOR (unsigned i = 0; i < TILE_ROWS; i += VEC_ROWS)
            vf_store(x + i, p < panels ? vf_load(h + i) : vf_set(0.0f));
}

/* The scales of rows first..last-1, which are of one 16; h is read as it lies in memory. */
static void scale_h(const struct kt_act_pack *job, uint64_t padded, uint64_t panels, uint32_t first,
                    uint32_t last, struct q8_scale *scale)
{
    vi max[TILE_ROWS];
    for (uint32_t r = 0; r < last - first; r++)
        max[r] = vi_splat32(0);
    for (uint64_t p = 0; p < panels; p++) {
        const float *h = (const float *)job->source + (p * padded + first) * TILE_ROWS;
        for (uint32_t r = 0; r < last - first; r++, h += TILE_ROWS)
            UNROLL_FOR (unsigned i = 0; i < TILE_ROWS; i += VEC_ROWS)
                max[r] = vi_max32(max[r], vi_and(vi_load(h + i), vi_splat32(0x7fffffff)));
    }
    for (uint32_t r = 0; r < last - first; r++)
        scale[r] = q8_make_scale(q8_fold(max[r]));
}

/* Behind the last row of weights h is 0 or, in a row of NaN, NaN: it does no harm to read it. */
static void pack_h(const struct kt_act_pack *job, uint32_t first, uint32_t last, bool tiled)
{
    uint64_t panels = (job->layout->shape.intermediate_size + TILE_ROWS - 1) / TILE_ROWS;
    uint64_t tiles = stage_tiles(job->layout, job->stage), padded = round_up(job->n_rows, TILE_ROWS);
    uint64_t size = job->layout->act_row_size[1];
    _Alignas(64) float x[Q8_STEP];
    struct q8_scale scale[TILE_ROWS];
    int32_t sum[TILE_ROWS] = {0};

    scale_h(job, padded, panels, first, last, scale);
    for (uint64_t t = 0; t < tiles; t++)
        for (uint32_t row = first; row < last; row++) {
            int8_t *q = (int8_t *)find_columns(job->packed, size, row, t, tiled);
            read_h(job, padded, panels, row, t, x);
            q8_quantize(x, scale[row - first].inverse, q);
            sum[row - first] += q8_sum(q);
            if (ROW_SUMS)
                sum_columns(q, find_sums(job->packed, size, tiles, row, tiled) + t * TILE_SUMS);
        }
    for (uint32_t row = first; row < last; row++)
        *find_meta(job->packed, size, tiles, row, tiled) =
            (struct row_meta){scale[row - first].scale, 128 * sum[row - first]};
}

static void pack_rows(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    for (uint32_t row = job->row_begin, end; row < job->row_end; row = end) {
        end = row + 1;
        if (job->source_dtype) {
            pack_plain(job, row, TILED && job->stage == KT_STAGE_DOWN);
            continue;
        }
        end = row / TILE_ROWS * TILE_ROWS + TILE_ROWS;
        end = end < job->row_end ? end : job->row_end;
        pack_h(job, row, end, TILED);
    }
}

#endif
