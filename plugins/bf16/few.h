/* SPDX-License-Identifier: Apache-2.0 */
/* few.h - a panel of bfloat16 with 1 or 2 rows. Include multiply16.h first. */
#ifndef KT_PLUGINS_BF16_FEW_H
#define KT_PLUGINS_BF16_FEW_H

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
