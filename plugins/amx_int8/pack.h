/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.h - 16 rows of a source view to a tile of each pair. Include an int8_*.h first.
 *
 * A row is read twice: for its largest number, which brings it into the cache, and a tile at a time for
 * its codes, which then go from registers to the tile through 1 KB that never leaves L1.
 */
#ifndef KT_PLUGINS_AMX_INT8_PACK_H
#define KT_PLUGINS_AMX_INT8_PACK_H

#include "plugins/amx_int8/amx_int8.h"
#include "plugins/common/pack8.h"

/* 16 rows of plain numbers. */
struct plain_rows {
    const uint8_t *first;
    int64_t stride;
    uint32_t dtype;
    uint64_t n; /* that are there */
};

/* The view's own rows, or what the core makes of them. */
static enum kt_status find_source(const struct bench *bench, const struct kt_view *view, uint64_t begin,
                                struct plain_rows *rows, struct kt_error *error)
{
    rows->n = begin < view->rows ? view->rows - begin : 0;
    rows->n = rows->n < TILE_ROWS ? rows->n : TILE_ROWS;
    if (is_plain(view)) {
        rows->first = (const uint8_t *)view->data + (int64_t)begin * view->row_stride;
        rows->stride = view->row_stride;
        rows->dtype = view->dtype;
        return KT_OK;
    }
    rows->first = (const uint8_t *)bench->rows;
    rows->stride = (int64_t)(bench->stride * sizeof(float));
    rows->dtype = KT_DTYPE_F32;
    for (uint64_t i = 0; i < rows->n; i++) {
        enum kt_status status =
            read_row(bench, view, begin + i, bench->rows + i * bench->stride, error);
        if (status)
            return status;
    }
    return KT_OK;
}

static struct q8_scale scale_plain(const struct bench *bench, const uint8_t *row, uint32_t dtype)
{
    uint64_t whole = bench->k / Q8_STEP * Q8_STEP, c = 0;
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;
    uint32_t most = 0;
    vi max = vi_splat32(0);

    if (dtype == KT_DTYPE_BF16) {
        most = vec_absmax_bf16(row, whole);
        c = whole;
    }
    for (; c < bench->width; c += Q8_STEP) {
        _Alignas(64) float x[Q8_STEP];
        q8_read(row + c * element, dtype, bench->k - c, x);
        max = q8_max(x, max);
    }
    uint32_t rest = (uint32_t)q8_fold(max);
    return q8_make_scale((int32_t)(most > rest ? most : rest));
}

/* 64 columns of all rows. */
INLINE void pack_tile(const struct bench *bench, const struct plain_rows *rows, uint32_t dtype,
                      const float *inverse, uint64_t column, uint8_t *tile)
{
    _Alignas(64) int8_t codes[TILE_ROWS][TILE_COLUMNS];
    uint64_t element = dtype == KT_DTYPE_F32 ? 4 : 2;

    for (unsigned i = 0; i < TILE_ROWS; i++) {
        _Alignas(64) float x[Q8_STEP];
        if (inverse[i] > 0.0f) {
            const uint8_t *row = rows->first + (int64_t)i * rows->stride;
            q8_read(row + column * element, dtype, bench->k - column, x);
            q8_quantize(x, inverse[i], codes[i]);
            vec_flip64(codes[i]);
        } else {
            memset(codes[i], 128, sizeof codes[i]);
        }
    }
    vec_make_tile((const uint8_t *)codes, TILE_COLUMNS, tile);
}

static enum kt_status pack_tiles(const struct bench *bench, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    uint8_t *to = target->panel + target->tile * TILE_SIZE;
    float inverse[TILE_ROWS] = { 0 };
    struct plain_rows rows;
    enum kt_status status = find_source(bench, view, begin, &rows, error);

    if (status)
        return status;
    for (unsigned i = 0; i < TILE_ROWS; i++) {
        struct q8_scale scale = { 0.0f, 0.0f };
        if (i < rows.n)
            scale = scale_plain(bench, rows.first + (int64_t)i * rows.stride, rows.dtype);
        inverse[i] = scale.inverse;
        memcpy(target->scales + 4 * i, &scale.scale, sizeof scale.scale);
    }
    for (uint64_t c = 0; c < bench->width; c += TILE_COLUMNS, to += PAIR_SIZE) {
        if (rows.dtype == KT_DTYPE_BF16) /* the usual source: without a branch for every number */
            pack_tile(bench, &rows, KT_DTYPE_BF16, inverse, c, to);
        else
            pack_tile(bench, &rows, rows.dtype, inverse, c, to);
    }
    return KT_OK;
}

#endif
