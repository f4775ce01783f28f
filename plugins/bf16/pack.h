/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - 16 rows of a source view to a tile of each pair. */
#ifndef KT_PLUGINS_BF16_PACK_H
#define KT_PLUGINS_BF16_PACK_H

#include "plugins/bf16/bf16.h"
#include "plugins/common/gemm/pack_tmpl.h"
#include "plugins/common/gemm/piece.h"

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
                                  struct piece_rows *rows, struct kt_error *error)
{
    rows->n = begin < view->rows ? view->rows - begin : 0;
    rows->n = rows->n < TILE_ROWS ? rows->n : TILE_ROWS;
    rows->block_stride = sizeof(uint16_t);
    if (view->dtype == KT_DTYPE_BF16 && is_plain(view)) {
        rows->first = (const uint8_t *)view->data + (int64_t)begin * view->row_stride;
        rows->stride = view->row_stride;
        rows->size = 2 * packing->k;
        return KT_OK;
    }
    rows->first = (const uint8_t *)packing->rows;
    rows->stride = (int64_t)(packing->stride * sizeof(float));
    rows->size = 2 * packing->width;
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

static enum kt_status pack_tiles(const struct packing *packing, const struct kt_view *view, uint64_t begin,
                                 const struct target *target, struct kt_error *error)
{
    _Alignas(64) uint8_t piece[PIECE_SIZE];
    uint8_t *to = target->panel + target->tile * TILE_SIZE;
    uint64_t bytes = round_up(packing->k, TILE_COLUMNS) * sizeof(uint16_t);
    struct piece_rows rows;
    enum kt_status status = find_halves(packing, view, begin, &rows, error);

    if (status)
        return status;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        read_piece(&rows, sizeof(uint16_t), at, n, piece);
        for (uint64_t t = 0; t < n; t += TILE_LINE, to += PAIR_SIZE)
            stream_tile(piece + t, PIECE_STRIDE, to);
    }
    vec_stream_end();
    return KT_OK;
}

#endif
