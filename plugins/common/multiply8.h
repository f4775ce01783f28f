/* SPDX-License-Identifier: Apache-2.0 */
/* multiply8.h - passes over panels of int8 tiles, on vectors. Include pass8.h first. */
#ifndef KT_PLUGINS_MULTIPLY8_H
#define KT_PLUGINS_MULTIPLY8_H

/* Where vector v of a line of a pair of tiles is. */
INLINE const uint8_t *find_vector(const uint8_t *pair, unsigned v)
{
    return pair + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS);
}

/*
 * Vectors first..first+n-1 of a pair of tiles with `rows` rows. rows, first and n are constants in each
 * instance, so sum is registers. The step over the 4 columns of a line: `rows` broadcasts, n loads of
 * weights, rows * n products. Of the weights only one vector is held at a time: with 16 registers there is
 * no room for more beside the sums.
 */
INLINE void add_pair8(const uint8_t *pair, const struct rows8 *x, uint64_t at, unsigned rows,
                      unsigned first, unsigned n, vi sum[MAX_ROWS][VECS])
{
    for (unsigned q = 0; q < 16; q++) {
        x8 a[MAX_ROWS];
        UNROLL
        for (unsigned r = 0; r < rows; r++)
            a[r] = x8_splat(x->x[r] + at + 4 * q);
        UNROLL
        for (unsigned v = first; v < first + n; v++) {
            vi w = w8_ready(vi_load(find_vector(pair, v) + 64 * q));
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                sum[r][v] = w8_add(sum[r][v], w, a[r]);
        }
    }
}

/* The sums of `rows` rows and vectors first..first+n-1 of a panel. From memory, it is read as it lies,
 * tile after tile: taking turns between the lines of both is two streams, and a tenth slower. */
INLINE void multiply8(const struct panel8 *panel, const struct rows8 *x, unsigned rows,
                      unsigned first, unsigned n, bool near, struct stream *stream,
                      int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vi sum[MAX_ROWS][VECS];

    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = first; v < first + n; v++)
            sum[r][v] = vi_splat32(0);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        if (near) {
            stream_near(pair);
            add_pair8(pair, x, t * X_STEP, rows, 0, VEC_PARTS, sum);
            stream_near(pair + TILE_SIZE);
            add_pair8(pair, x, t * X_STEP, rows, VEC_PARTS, VEC_PARTS, sum);
        } else {
            stream_step(stream);
            add_pair8(pair, x, t * X_STEP, rows, first, n, sum);
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = first; v < first + n; v++)
            vi_store(&out[r][v * VEC_ROWS], sum[r][v]);
}

#define MULTIPLY multiply8
#include "plugins/common/passes8.h"

#endif
