/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packs rows of 4-bit codes into tiles. */
#ifndef KT_PLUGINS_RAWINT4_PACK_H
#define KT_PLUGINS_RAWINT4_PACK_H

#include "plugins/rawint4/rawint4.h"

#include "plugins/common/coded/pack_tmpl.h"

/* Codes 0 1 2 3 4 5 6 7 of a word, first lowest, to 0 2 4 6 1 3 5 7. */
static inline uint32_t split_columns(uint32_t word)
{
    uint32_t swap = (word ^ word >> 4) & 0x00f000f0;
    word ^= swap ^ swap << 4;
    swap = (word ^ word >> 8) & 0x0000ff00;
    return word ^ swap ^ swap << 8;
}

static void pack_codes(const struct source_rows *rows, uint64_t t, uint8_t *to)
{
    const struct kt_view *view = rows->view;
    uint64_t begin = t * TILE_COLUMNS / 8, blocks = (view->cols + 7) / 8;
    uint64_t n = blocks - begin < 4 ? blocks - begin : 4;
    for (uint64_t b = 0; (rows->n < TILE_ROWS || n < 4) && b < 4; b++)
        memset(to + 128 * b, 0, 64);
    for (uint64_t i = 0; i < rows->n; i++) {
        const uint8_t *from = (const uint8_t *)view->data + (int64_t)(rows->begin + i) * view->row_stride +
                              (int64_t)begin * view->block_stride;
        for (uint64_t b = 0; b < n; b++, from += view->block_stride) {
            uint32_t lane = split_columns(load_u32(from));
            memcpy(to + 128 * b + 4 * i, &lane, sizeof lane);
        }
    }
}

#endif
