/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain8_pack.h - 16 rows of a source view to a tile of each pair. Include an int8_*.h and the
 * backend's header first.
 *
 * A row is read twice: for its largest number, and a tile at a time for its codes, which then go from
 * registers to the tile through 1 KB that never leaves L1. Meanwhile the next 16 rows are on their way to L2: a
 * row's largest number waited for memory for a third of the time.
 */
#ifndef KT_PLUGINS_PLAIN8_PACK_H
#define KT_PLUGINS_PLAIN8_PACK_H

#include "plugins/common/plain8_source.h"

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
            const uint8_t *next = row + TILE_ROWS * rows->stride + column * element;
            for (uint64_t line = 0; line < TILE_COLUMNS * element; line += 64)
                PREFETCH(next + line);
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
    float inverse[TILE_ROWS];
    struct plain_rows rows;
    enum kt_status status = scale_rows(bench, view, begin, target->scales, &rows, inverse, error);

    if (status)
        return status;
    for (uint64_t c = 0; c < bench->width; c += TILE_COLUMNS, to += PAIR_SIZE) {
        if (rows.dtype == KT_DTYPE_BF16) /* the usual source: without a branch for every number */
            pack_tile(bench, &rows, KT_DTYPE_BF16, inverse, c, to);
        else
            pack_tile(bench, &rows, rows.dtype, inverse, c, to);
    }
    return KT_OK;
}

#endif
