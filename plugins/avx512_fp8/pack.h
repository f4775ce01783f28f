/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packs rows of 8-bit codes into tiles. */
#ifndef KT_PLUGINS_AVX512_FP8_PACK_H
#define KT_PLUGINS_AVX512_FP8_PACK_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/coded/pack_tmpl.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A row's columns 4i..4i+3 to their places in a line. */
static inline void pack_four(const uint8_t *from, uint64_t row, uint8_t *line)
{
    memcpy(line + find_code(row, 0), from, 2);
    memcpy(line + find_code(row, 2), from + 2, 2);
}

/* Rows row..row+3, `columns` columns, byte by byte. */
static void pack_rows_of_four(const uint8_t *const *from, int64_t stride, uint64_t columns, uint64_t row,
                              uint8_t *to)
{
    for (uint64_t i = row; i < row + 4; i++) {
        uint8_t codes[TILE_COLUMNS] = {0};
        for (uint64_t c = 0; from[i] && c < columns; c++)
            codes[c] = from[i][(int64_t)c * stride];
        for (unsigned q = 0; q < TILE_COLUMNS / 4; q++)
            pack_four(codes + 4 * q, i, to + 128 * q);
    }
}

#ifdef __SSE2__
/* The same of rows that are there, with all 32 columns side by side: pairs of columns, then pairs of
 * these, are what interleaving words and double words makes of 4 rows. */
static void pack_whole_four(const uint8_t *const *from, uint64_t row, uint8_t *to)
{
    for (unsigned c = 0; c < TILE_COLUMNS; c += 16, to += 4 * 128) {
        __m128i r[4];
        for (unsigned i = 0; i < 4; i++)
            r[i] = _mm_loadu_si128((const void *)(from[row + i] + c));
        __m128i low[2] = {_mm_unpacklo_epi16(r[0], r[1]), _mm_unpacklo_epi16(r[2], r[3])};
        __m128i high[2] = {_mm_unpackhi_epi16(r[0], r[1]), _mm_unpackhi_epi16(r[2], r[3])};
        uint8_t *lane = to + 4 * row;
        _mm_storeu_si128((void *)lane, _mm_unpacklo_epi32(low[0], low[1]));
        _mm_storeu_si128((void *)(lane + 128), _mm_unpackhi_epi32(low[0], low[1]));
        _mm_storeu_si128((void *)(lane + 256), _mm_unpacklo_epi32(high[0], high[1]));
        _mm_storeu_si128((void *)(lane + 384), _mm_unpackhi_epi32(high[0], high[1]));
    }
}
#else
static void pack_whole_four(const uint8_t *const *from, uint64_t row, uint8_t *to)
{
    pack_rows_of_four(from, 1, TILE_COLUMNS, row, to);
}
#endif

static void pack_codes(const struct source_rows *rows, uint64_t t, uint8_t *to)
{
    const struct kt_view *view = rows->view;
    uint64_t begin = t * TILE_COLUMNS, left = view->cols - begin;
    uint64_t n = left < TILE_COLUMNS ? left : TILE_COLUMNS;
    const uint8_t *from[TILE_ROWS] = {NULL};
    for (uint64_t i = 0; i < rows->n; i++)
        from[i] = (const uint8_t *)view->data + (int64_t)(rows->begin + i) * view->row_stride +
                  (int64_t)begin * view->block_stride;
    for (uint64_t row = 0; row < TILE_ROWS; row += 4) {
        if (row + 4 <= rows->n && n == TILE_COLUMNS && view->block_stride == 1)
            pack_whole_four(from, row, to);
        else
            pack_rows_of_four(from, view->block_stride, n, row, to);
    }
}

#endif
