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
 * The sums of `rows` rows and vectors first..first+n-1 of a panel. rows, first and n are constants in
 * each instance, so sum is registers. The step over the 4 columns of a line: `rows` broadcasts, n loads
 * of weights, rows * n products. Of the weights only one vector is held at a time: with 16 registers
 * there is no room for more beside the sums.
 */
INLINE void multiply8(const struct panel8 *panel, const struct rows8 *x, unsigned rows,
                      unsigned first, unsigned n, bool near, struct stream *stream,
                      int32_t out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vi sum[MAX_ROWS][VECS];

    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            sum[r][v] = vi_splat32(0);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        if (near) {
            stream_near(pair);
            stream_near(pair + TILE_SIZE);
        } else {
            stream_step(stream);
        }
        for (unsigned q = 0; q < 16; q++) {
            x8 a[MAX_ROWS];
            UNROLL
            for (unsigned r = 0; r < rows; r++)
                a[r] = x8_splat(x->x[r] + t * X_STEP + 4 * q);
            UNROLL
            for (unsigned v = 0; v < n; v++) {
                vi w = w8_ready(vi_load(find_vector(pair, first + v) + 64 * q));
                UNROLL
                for (unsigned r = 0; r < rows; r++)
                    sum[r][v] = w8_add(sum[r][v], w, a[r]);
            }
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            vi_store(&out[r][(first + v) * VEC_ROWS], sum[r][v]);
}

#define MULTIPLY multiply8
#include "plugins/common/passes8.h"

#endif
