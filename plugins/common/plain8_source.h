/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain8_source.h - 16 rows of a source view and their scales. Include an int8_*.h and the backend's
 * header first.
 */
#ifndef KT_PLUGINS_PLAIN8_SOURCE_H
#define KT_PLUGINS_PLAIN8_SOURCE_H

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

/* The rows from `begin` on, and their scales; inverse[i] is 0 where row i is 0, or not there. */
static enum kt_status scale_rows(const struct bench *bench, const struct kt_view *view, uint64_t begin,
                                 uint8_t *scales, struct plain_rows *rows, float inverse[TILE_ROWS],
                                 struct kt_error *error)
{
    enum kt_status status = find_source(bench, view, begin, rows, error);

    if (status)
        return status;
    for (unsigned i = 0; i < TILE_ROWS; i++) {
        struct q8_scale scale = { 0.0f, 0.0f };
        if (i < rows->n)
            scale = scale_plain(bench, rows->first + (int64_t)i * rows->stride, rows->dtype);
        inverse[i] = scale.inverse;
        memcpy(scales + 4 * i, &scale.scale, sizeof scale.scale);
    }
    return KT_OK;
}

#endif
