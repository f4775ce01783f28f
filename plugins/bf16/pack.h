/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - 16 rows of a source view to a tile of each pair. */
#ifndef KT_PLUGINS_BF16_PACK_H
#define KT_PLUGINS_BF16_PACK_H

#include "plugins/bf16/bf16.h"
#include "plugins/common/gemm/pack_tmpl.h"

/* 16 rows of bfloat16. */
struct half_rows {
    const uint8_t *first;
    int64_t stride;
    uint64_t n;     /* rows that are there */
    uint64_t width; /* columns that are there */
};

/* Rounds n float32, a multiple of 16, to bfloat16 in place. */
static void round_row(float *row, uint64_t n)
{
    for (uint64_t c = 0; c < n; c += VEC_ROWS)
        vf_store_bf16((uint8_t *)row + 2 * c, vf_load(row + c));
}

/* A row of bfloat16 that do not lie side by side, as they are: rounding would make NaN quiet. */
static void copy_row(const struct packing *packing, const struct kt_view *view, uint64_t row, float *to)
{
    const uint8_t *from = (const uint8_t *)view->data + (int64_t)row * view->row_stride;
    for (uint64_t c = 0; c < packing->k; c++)
        memcpy((uint8_t *)to + 2 * c, from + (int64_t)c * view->block_stride, 2);
    memset((uint8_t *)to + 2 * packing->k, 0, 2 * (packing->width - packing->k));
}

/* The view's own rows, or those that are made of it. */
static enum kt_status find_halves(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                  struct half_rows *rows, struct kt_error *error)
{
    rows->n = begin < view->rows ? view->rows - begin : 0;
    rows->n = rows->n < TILE_ROWS ? rows->n : TILE_ROWS;
    if (view->dtype == KT_DTYPE_BF16 && is_plain(view)) {
        rows->first = (const uint8_t *)view->data + (int64_t)begin * view->row_stride;
        rows->stride = view->row_stride;
        rows->width = packing->k;
        return KT_OK;
    }
    rows->first = (const uint8_t *)packing->rows;
    rows->stride = (int64_t)(packing->stride * sizeof(float));
    rows->width = packing->width;
    for (uint64_t i = 0; i < rows->n; i++) {
        float *row = packing->rows + i * packing->stride;
        if (view->dtype == KT_DTYPE_BF16) {
            copy_row(packing, view, begin + i, row);
            continue;
        }
        enum kt_status status = read_row(packing, view, begin + i, row, error);
        if (status)
            return status;
        round_row(row, packing->width);
    }
    return KT_OK;
}

/* A piece of each row, side by side: rows of 4 KB, read a line of each in turns, would wait for memory and
 * compete for one set of the cache. Each has a line more, for the same reason. */
#define PIECE_COLUMNS 512
#define PIECE_STRIDE (2 * PIECE_COLUMNS + 64)

/* Columns column..column+n-1; what is not there is 0. n is a multiple of a tile's. */
static void read_piece(const struct half_rows *rows, uint64_t column, uint64_t n, uint8_t *piece)
{
    uint64_t left = rows->width - column, there = left < n ? left : n;
    for (uint64_t i = 0; i < TILE_ROWS; i++, piece += PIECE_STRIDE) {
        uint64_t size = i < rows->n ? 2 * there : 0;
        if (size)
            memcpy(piece, rows->first + (int64_t)i * rows->stride + 2 * column, size);
        memset(piece + size, 0, 2 * n - size);
    }
}

static enum kt_status pack_tiles(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    _Alignas(64) uint8_t piece[TILE_ROWS * PIECE_STRIDE];
    uint8_t *to = target->panel + target->tile * TILE_SIZE;
    uint64_t k = round_up(packing->k, TILE_COLUMNS);
    struct half_rows rows;
    enum kt_status status = find_halves(packing, view, begin, &rows, error);

    if (status)
        return status;
    for (uint64_t c = 0; c < k; c += PIECE_COLUMNS) {
        uint64_t n = k - c < PIECE_COLUMNS ? k - c : PIECE_COLUMNS;
        read_piece(&rows, c, n, piece);
        for (uint64_t t = 0; t < n; t += TILE_COLUMNS, to += PAIR_SIZE)
            stream_tile(piece + 2 * t, PIECE_STRIDE, to);
    }
    vec_stream_end();
    return KT_OK;
}

#endif
