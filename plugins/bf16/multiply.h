/* SPDX-License-Identifier: Apache-2.0 */
/* multiply.h - a pass over a panel of bfloat16 tiles, on vectors. Include pass8.h first. */
#ifndef KT_PLUGINS_BF16_MULTIPLY_H
#define KT_PLUGINS_BF16_MULTIPLY_H

/* Where vector v of a line of a pair of tiles is. */
INLINE const uint8_t *find_vector(const uint8_t *pair, unsigned v)
{
    return pair + v / VEC_PARTS * TILE_SIZE + v % VEC_PARTS * (4 * VEC_ROWS);
}

#if PAIRS
/* Two columns of `rows` rows and n vectors: their products are added in one instruction. */
INLINE void add_columns(const uint8_t *line, const struct rows8 *x, uint64_t at, unsigned rows,
                        unsigned first, unsigned n, vf even[MAX_ROWS][VECS], vf odd[MAX_ROWS][VECS])
{
    vi w[VECS];

    (void)odd;
    UNROLL
    for (unsigned v = 0; v < n; v++)
        w[v] = vi_load(find_vector(line, first + v));
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        vi pair = vi_splat32((int32_t)load_u32(x->x[r] + at));
        UNROLL
        for (unsigned v = 0; v < n; v++)
            even[r][v] = _mm512_dpbf16_ps(even[r][v], (__m512bh)w[v], (__m512bh)pair);
    }
}
#else
/* Two columns of `rows` rows and n vectors, the even one first; both sums may be the same. */
INLINE void add_columns(const uint8_t *line, const struct rows8 *x, uint64_t at, unsigned rows,
                        unsigned first, unsigned n, vf even[MAX_ROWS][VECS], vf odd[MAX_ROWS][VECS])
{
    vf w[VECS];

    UNROLL
    for (unsigned v = 0; v < n; v++)
        w[v] = vf_from_bf16_even(vi_load(find_vector(line, first + v)));
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        vf one = vf_splat(x->x[r] + at);
        UNROLL
        for (unsigned v = 0; v < n; v++)
            even[r][v] = vf_fma(w[v], one, even[r][v]);
    }
    UNROLL
    for (unsigned v = 0; v < n; v++)
        w[v] = vf_from_bf16_odd(vi_load(find_vector(line, first + v)));
    UNROLL
    for (unsigned r = 0; r < rows; r++) {
        vf one = vf_splat(x->x[r] + at + 4);
        UNROLL
        for (unsigned v = 0; v < n; v++)
            odd[r][v] = vf_fma(w[v], one, odd[r][v]);
    }
}
#endif

#define LINES (TILE_COLUMNS / 2)
#define LINE_STEP (PAIRS ? 4u : 8u) /* of activations */

INLINE void clear(unsigned rows, unsigned n, vf sum[MAX_ROWS][VECS])
{
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            sum[r][v] = vf_set(0.0f);
}

/* The sums of `rows` rows and vectors first..first+n-1 of a panel, all constants in each instance, so
 * sum is registers. */
INLINE void multiply16(const struct panel8 *panel, const struct rows8 *x, unsigned rows, unsigned first,
                       unsigned n, bool near, struct stream *stream,
                       float out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vf sum[MAX_ROWS][VECS];

    clear(rows, n, sum);
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        if (!near)
            stream_step(stream);
        for (unsigned q = 0; q < LINES; q++) {
            if (near) {
                PREFETCH(pair + 64 * q + AHEAD);
                PREFETCH(pair + 64 * q + AHEAD + TILE_SIZE);
            }
            add_columns(pair + 64 * q, x, t * X_STEP + q * LINE_STEP, rows, first, n, sum, sum);
        }
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < n; v++)
            vf_store(&out[r][(first + v) * VEC_ROWS], sum[r][v]);
}

/* One tile with sums of their own for even and odd columns, or lines: additions do not wait for each
 * other, which would hold up the loads. */
INLINE void add_tile(const uint8_t *tile, const struct rows8 *x, uint64_t at, unsigned rows,
                     vf even[MAX_ROWS][VECS], vf odd[MAX_ROWS][VECS])
{
    for (unsigned q = 0; q < LINES; q += 2) {
        PREFETCH(tile + 64 * q + AHEAD);
        add_columns(tile + 64 * q, x, at + q * LINE_STEP, rows, 0, VEC_PARTS, even, odd);
        PREFETCH(tile + 64 * q + 64 + AHEAD);
        if (PAIRS)
            add_columns(tile + 64 * q + 64, x, at + (q + 1) * LINE_STEP, rows, 0, VEC_PARTS, odd, even);
        else
            add_columns(tile + 64 * q + 64, x, at + (q + 1) * LINE_STEP, rows, 0, VEC_PARTS, even, odd);
    }
}

/* 1 or 2 rows at the speed of memory: it is read line after line. Taking turns between the lines of both
 * tiles, AHEAD bytes in one go for each tile or farther ahead cost a third on a Zen 3. */
INLINE void multiply_lines(const struct panel8 *panel, const struct rows8 *x, unsigned rows,
                           float out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *pair = panel->codes;
    vf even[2][MAX_ROWS][VECS], odd[2][MAX_ROWS][VECS];

    UNROLL
    for (unsigned i = 0; i < 2; i++) {
        clear(rows, VEC_PARTS, even[i]);
        clear(rows, VEC_PARTS, odd[i]);
    }
    for (uint64_t t = 0; t < panel->tiles; t++, pair += PAIR_SIZE) {
        add_tile(pair, x, t * X_STEP, rows, even[0], odd[0]);
        add_tile(pair + TILE_SIZE, x, t * X_STEP, rows, even[1], odd[1]);
    }
    UNROLL
    for (unsigned r = 0; r < rows; r++)
        UNROLL
        for (unsigned v = 0; v < VECS; v++)
            vf_store(&out[r][v * VEC_ROWS], vf_add(even[v / VEC_PARTS][r][v % VEC_PARTS],
                                                   odd[v / VEC_PARTS][r][v % VEC_PARTS]));
}

static void lines_1(const struct panel8 *panel, const struct rows8 *x, struct stream *stream,
                    float out[MAX_ROWS][PANEL_ROWS])
{
    (void)stream;
    multiply_lines(panel, x, 1, out);
}

static void lines_2(const struct panel8 *panel, const struct rows8 *x, struct stream *stream,
                    float out[MAX_ROWS][PANEL_ROWS])
{
    (void)stream;
    multiply_lines(panel, x, 2, out);
}

/* One pass is all that so few rows take, so none comes after the near one. */
#define FEW_ROWS 2
static const struct pass few_passes[] = { { 2, 1, { NULL, lines_2 } }, { 1, 1, { NULL, lines_1 } } };

#endif
