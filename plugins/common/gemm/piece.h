/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/piece.h - a piece of each of 16 rows, side by side. Rows that are read a line of each in turns wait
 * for memory, and rows of 4 KB compete for one set of the cache; so memory is read a kilobyte at a time, and
 * in the copy rows are a line further apart.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_PIECE_H
#define KT_PLUGINS_COMMON_GEMM_PIECE_H

#include "plugins/common/gemm/geometry.h"
#include "plugins/common/simd/simd.h"

#include <string.h>

#define PIECE_BYTES 1024
#define PIECE_STRIDE (PIECE_BYTES + 64)
#define PIECE_SIZE (TILE_ROWS * PIECE_STRIDE + 64) /* what tiles may read behind the last row */

/* While a row is read, one further on is fetched into L2. */
#define PIECE_ROWS_AHEAD 4

struct piece_rows {
    const uint8_t *first;
    int64_t stride, block_stride;
    uint64_t n;    /* rows that are there, of 16 */
    uint64_t size; /* bytes of a row that are there, without the gaps between its blocks */
};

/* The row PIECE_ROWS_AHEAD behind; it need not exist. */
INLINE void fetch_ahead(const uint8_t *from, int64_t stride, uint64_t size)
{
    const uintptr_t row = (uintptr_t)from + (uintptr_t)(PIECE_ROWS_AHEAD * stride);
    for (uint64_t at = 0; at < size; at += 64)
        PREFETCH((const void *)(row + at));
}

/* Bytes at..at + n - 1 of each row, whose blocks have `block` bytes; what is not there is 0. */
INLINE void read_piece(const struct piece_rows *rows, unsigned block, uint64_t at, uint64_t n, uint8_t *piece)
{
    const uint64_t left = at < rows->size ? rows->size - at : 0, there = left < n ? left : n;
    const uint8_t *from = rows->first + (int64_t)(at / block) * rows->block_stride;
    for (uint64_t i = 0; i < TILE_ROWS; i++, from += rows->stride, piece += PIECE_STRIDE) {
        uint64_t size = i < rows->n ? there : 0;
        if (rows->block_stride == (int64_t)block && size) {
            fetch_ahead(from, rows->stride, size);
            memcpy(piece, from, size);
        }
        for (uint64_t b = 0; rows->block_stride != (int64_t)block && b < size / block; b++)
            memcpy(piece + b * block, from + (int64_t)b * rows->block_stride, block);
        memset(piece + size, 0, n - size);
    }
}

#endif
