/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8_rows_tmpl.h - rows of activations as int8, for option activations = int8: 32 columns are scale * q,
 * scale their largest / 127, q the nearest integer. Behind the columns, filled up to 64, stand the sums
 * scale * (sum of q) of each 32 columns, or of each 8 if groups end inside a tile, then the scales. Each 8
 * columns are in the order of their codes: 0 4 1 5 2 6 3 7.
 *
 * Parameters  those of bf16/activations_tmpl.h
 */
#ifndef KT_PLUGINS_RAWINT4_INT8_ROWS_TMPL_H
#define KT_PLUGINS_RAWINT4_INT8_ROWS_TMPL_H

#include "plugins/rawint4/rawint4.h"

#include "plugins/common/bf16/activations_tmpl.h"

/* 32 columns of x, and their n sums. */
INLINE void store_int8(const float *x, uint8_t *to, unsigned n, float *sums, float *scale)
{
    static const uint8_t place[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    struct q8_scale made = q8_make_scale((int32_t)vec_absmax32(x));
    int8_t q[TILE_COLUMNS] = {0};
    int32_t whole[TILE_COLUMNS / CODE_COLUMNS] = {0};
    if (made.inverse > 0.0f)
        vec_quantize32(x, made.inverse, q);
    for (unsigned i = 0; i < TILE_COLUMNS; i++) {
        to[i / 8 * 8 + place[i % 8]] = (uint8_t)q[i];
        whole[i * n / TILE_COLUMNS] += q[i];
    }
    for (unsigned i = 0; i < n; i++)
        sums[i] = made.scale * (float)whole[i];
    *scale = made.scale;
}

static void pack_int8_rows(const struct kt_act_pack *job)
{
    const struct act_source source = find_act_source(job);
    uint64_t element = source.dtype == KT_DTYPE_F32 ? 4 : 2, size = job->layout->act_row_size[job->stage];
    uint64_t k = stage_k(job->layout, job->stage), tiles = stage_tiles(job->layout, job->stage);
    uint64_t filled = tiles + tiles % 2;
    unsigned n = COUNT_SUMS(job->layout, job->stage);
    _Alignas(64) float x[Q8_STEP];

    for (uint32_t row = job->row_begin; row < job->row_end; row++) {
        const uint8_t *from = source.first + (int64_t)row * source.stride;
        uint8_t *to = (uint8_t *)job->packed + row * size;
        float *sums = (float *)(void *)(to + filled * TILE_COLUMNS);
        for (uint64_t t = 0; t < filled; t += 2) {
            uint64_t c = t * TILE_COLUMNS;
            q8_read(from + c * element, source.dtype, k - c, x);
            for (unsigned i = 0; i < 2; i++)
                store_int8(x + i * TILE_COLUMNS, to + c + i * TILE_COLUMNS, n, sums + n * (t + i),
                           sums + n * filled + t + i);
        }
    }
}

static void pack_any_rows(void *instance, const struct kt_act_pack *job)
{
    if (job->layout->words[WORD_INT8_ROWS])
        pack_int8_rows(job);
    else
        pack_rows(instance, job);
}
#define PACK_ROWS pack_any_rows

#endif
