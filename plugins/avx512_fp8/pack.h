/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - rows of 8 bits to tiles. Include an int8_*.h first. */
#ifndef KT_PLUGINS_AVX512_FP8_PACK_H
#define KT_PLUGINS_AVX512_FP8_PACK_H

#include "plugins/common/coded_pack.h"

/* A row's columns 4i..4i+3 to their places in a line. */
static inline void pack_four(const uint8_t *from, uint64_t row, uint8_t *line)
{
    memcpy(line + find_code(row, 0), from, 2);
    memcpy(line + find_code(row, 2), from + 2, 2);
}

static void pack_codes(const struct source_rows *rows, uint64_t t, uint8_t *to)
{
    const struct kt_view *view = rows->view;
    uint64_t begin = t * TILE_COLUMNS, left = view->cols - begin;
    uint64_t n = left < TILE_COLUMNS ? left : TILE_COLUMNS;
    bool plain = view->block_stride == 1 && n == TILE_COLUMNS;

    for (unsigned q = 0; rows->n < TILE_ROWS && q < TILE_COLUMNS / 4; q++)
        memset(to + 128 * q, 0, 64);
    for (uint64_t i = 0; i < rows->n; i++) {
        const uint8_t *from = (const uint8_t *)view->data + (int64_t)(rows->begin + i) * view->row_stride +
                              (int64_t)begin * view->block_stride;
        uint8_t row[TILE_COLUMNS] = { 0 };
        for (uint64_t c = 0; !plain && c < n; c++)
            row[c] = from[(int64_t)c * view->block_stride];
        const uint8_t *source = plain ? from : row;
        for (unsigned q = 0; q < TILE_COLUMNS / 4; q++)
            pack_four(source + 4 * q, i, to + 128 * q);
    }
}

#endif
