/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multiply8.h - passes over panels of int8 tiles, on vectors. Include pass8.h first. A level says
 *
 *   ROWS_WIDE    rows that share one pass over a panel (8), 0: no such pass
 *   ROWS_TILE    rows that share one pass over one tile of each pair of a panel, 0: no such pass.
 *                With 16 registers, 4 rows of 16 columns cost fewer loads and less making ready of
 *                codes than 2 rows of 32, but read a panel in two passes: for L2, not for memory.
 *
 * A pass of few rows costs loads of weights, one of many registers for sums: 2 per row at 512 bits, 4 at
 * 256. All sums must stay in registers over the whole of K.
 */
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

#define DEFINE_PASS8(name, rows, near)                                                        \
    static void name(const struct panel8 *panel, const struct rows8 *x, struct stream *stream, \
                     int32_t out[MAX_ROWS][PANEL_ROWS])                                        \
    {                                                                                          \
        multiply8(panel, x, rows, 0, VECS, near, stream, out);                                 \
    }
#define DEFINE_TILE_PASS8(name, rows)                                                          \
    static void name(const struct panel8 *panel, const struct rows8 *x, struct stream *stream, \
                     int32_t out[MAX_ROWS][PANEL_ROWS])                                        \
    {                                                                                          \
        multiply8(panel, x, rows, 0, VEC_PARTS, false, stream, out);                           \
        multiply8(panel, x, rows, VEC_PARTS, VEC_PARTS, false, stream, out);                   \
    }

DEFINE_PASS8(pass8_1_near, 1, true)
DEFINE_PASS8(pass8_2_near, 2, true)
DEFINE_PASS8(pass8_1, 1, false)
DEFINE_PASS8(pass8_2, 2, false)
#if ROWS_WIDE
DEFINE_PASS8(pass8_4_near, 4, true)
DEFINE_PASS8(pass8_8_near, 8, true)
DEFINE_PASS8(pass8_4, 4, false)
DEFINE_PASS8(pass8_8, 8, false)
#endif
#if ROWS_TILE
DEFINE_TILE_PASS8(pass8_tile, ROWS_TILE)
#endif

static const struct pass passes8[] = {
#if ROWS_WIDE
    { 8, 1, { pass8_8, pass8_8_near } },
    { 4, 1, { pass8_4, pass8_4_near } },
#endif
#if ROWS_TILE
    { ROWS_TILE, 2, { pass8_tile, pass8_tile } },
#endif
    { 2, 1, { pass8_2, pass8_2_near } },
    { 1, 1, { pass8_1, pass8_1_near } },
};

#endif
