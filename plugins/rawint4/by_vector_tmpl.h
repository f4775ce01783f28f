/* SPDX-License-Identifier: Apache-2.0 */
/*
 * by_vector_tmpl.h - a panel of codes with a few rows of integers (fixed_point_rows.h, int8_rows_tmpl.h), one
 * vector of 8 rows of weights after the other: for sets of 16 registers. Sums of 4 rows and both parts of
 * their activations, codes and a quad stay in 13 registers over a tile, so codes are unpacked once for 4 rows
 * and nothing waits in memory. A quad is broadcast for each vector again: load ports have room for it.
 *
 * Up to CHUNK_TILES tiles of a group are passed with a vector before the next one; then its sums leave their
 * registers. No int16 gathers more than fits: fixed_point_tmpl.h.
 *
 * Parameters  those of coded/gemv_tmpl.h
 */
#ifndef KT_PLUGINS_RAWINT4_BY_VECTOR_TMPL_H
#define KT_PLUGINS_RAWINT4_BY_VECTOR_TMPL_H

#include "plugins/rawint4/fixed_point_tmpl.h"

#define DECODER_H "plugins/rawint4/encoding.h"
#include "plugins/common/coded/gemv_tmpl.h"

#define CHUNK_TILES 4

/* A line of 8 columns: a vector of codes with rows whose columns stand at x[row] + from, added to
 * dot[part][row]. */
INLINE void add_code_vector(const uint8_t *line, const int8_t *const *x, unsigned from, unsigned rows,
                            int encoding, const struct decoder *decoder, vdot dot[2][MAX_ROWS])
{
    const unsigned parts = IS_INT8(encoding) ? 1 : 2;
    vi w[2];
    unpack_nibbles(vi_keep(vi_load(line)), decoder, encoding, w);
    UNROLL_FOR (unsigned i = 0; i < 2; i++)
        UNROLL_FOR (unsigned n = 0; n < parts * rows; n++) {
            unsigned r = n / parts, part = n % parts;
            dot[part][r] =
                vi_in_order(vi_dot_add(dot[part][r], w[i], x[r] + from + part * TILE_COLUMNS + 4 * i));
        }
}

/* Lines begin..end-1 of a tile, no more than an int16 holds: their sums are added to whole[row]. */
INLINE void add_lines(const uint8_t *codes, unsigned begin, unsigned end, const int8_t *const *x,
                      unsigned rows, int encoding, const struct decoder *decoder, vi whole[MAX_ROWS])
{
    const unsigned parts = IS_INT8(encoding) ? 1 : 2;
    const vi ones = vi_splat32(0x00010001), high = parts == 2 ? vi_splat32(0x01000100) : ones;
    vdot dot[2][MAX_ROWS];

    UNROLL_FOR (unsigned i = 0; i < parts * rows; i++)
        dot[i % parts][i / parts] = vi_dot_zero();
    if (HAS_SUBTILE_GROUPS(encoding)) {
        for (unsigned q = begin; q < end; q++)
            add_code_vector(codes + 128 * q, x, 8 * q, rows, encoding, decoder, dot);
    } else {
        UNROLL_FOR (unsigned q = begin; q < end; q++)
            add_code_vector(codes + 128 * q, x, 8 * q, rows, encoding, decoder, dot);
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        whole[r] = vi_add32(whole[r], vi_dot_scale(dot[0][r], high));
        if (parts == 2)
            whole[r] = vi_add32(whole[r], vi_dot_scale(dot[1][r], ones));
    }
}

/* Lines begin..end-1 of a tile, all of them except in groups that end inside a tile: their products with rows
 * whose bytes stand at x[row], times a unit, are added to sum[row]. */
INLINE void add_vector_lines(const uint8_t *codes, unsigned begin, unsigned end, const int8_t *const *x,
                             const float *const *unit, unsigned rows, int encoding,
                             const struct decoder *decoder, vf sum[MAX_ROWS])
{
    vi whole[MAX_ROWS];
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        whole[r] = vi_splat32(0);
    if (HAS_SUBTILE_GROUPS(encoding)) {
        add_lines(codes, begin, end, x, rows, encoding, decoder, whole);
    } else if ((encoding & 1) == ENCODING_INT4) {
        add_lines(codes, 0, 4, x, rows, encoding, decoder, whole);
    } else {
        add_lines(codes, 0, 2, x, rows, encoding, decoder, whole);
        add_lines(codes, 2, 4, x, rows, encoding, decoder, whole);
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        sum[r] = vf_fma(vf_from_int(whole[r]), vf_splat(unit[r]), sum[r]);
}

/* Where rows have their bytes and units of the tile that has step t. */
struct row_places {
    const int8_t *x[MAX_ROWS];
    const float *unit[MAX_ROWS];
};

INLINE void find_places(const struct act_rows *x, uint64_t tile, uint64_t filled, unsigned rows, int encoding,
                        struct row_places *places)
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        const float *units =
            FIND_SUMS(encoding, x, r, filled) + (HAS_SUBTILE_GROUPS(encoding) ? CODE_VECTORS : 1) * filled;
        places->unit[r] = units + tile;
        places->x[r] = IS_INT8(encoding) ? x->x[r] + tile * TILE_COLUMNS
                                         : (const int8_t *)(units + filled) + tile * FIXED_POINT_BYTES;
    }
}

/* Steps t..end-1 of a group (lines of codes where groups end inside a tile, else tiles) with vector v: their
 * products are added to sum[row]. */
INLINE void add_vector_steps(const struct coded_panel *panel, unsigned v, uint64_t t, uint64_t end,
                             struct row_places at, unsigned rows, int encoding, const struct decoder *decoder,
                             vf sum[MAX_ROWS])
{
    const unsigned lines = HAS_SUBTILE_GROUPS(encoding) ? CODE_VECTORS : 1; /* of a tile's steps */
    for (const uint8_t *codes = find_codes(panel->codes + t / lines * 2 * CODES_SIZE, v); t < end;
         codes += 2 * CODES_SIZE) {
        unsigned first = (unsigned)(t % lines);
        unsigned stop = end - t < lines - first ? first + (unsigned)(end - t) : lines;
        add_vector_lines(codes, first, stop, at.x, at.unit, rows, encoding, decoder, sum);
        t += stop - first;
        UNROLL_FOR (unsigned r = 0; r < rows; r++) {
            at.x[r] += IS_INT8(encoding) ? TILE_COLUMNS : FIXED_POINT_BYTES;
            at.unit[r]++;
        }
    }
}

/* What a group's sums of vector v add to the results. */
INLINE void scale_vector(const struct coded *coded, const uint8_t *scales, const uint8_t *zeros, unsigned v,
                         const float *sums, unsigned rows, int encoding, const vf *group,
                         float out[MAX_ROWS][PANEL_ROWS])
{
    vf scale = load_scale(coded->form, scales, v);
    vf offset = load_offset(coded, zeros, v, encoding);
    if (DOUBLED(encoding))
        scale = vf_mul(scale, vf_set(0.5f));
    UNROLL_FOR (unsigned r = 0; r < rows; r++) {
        float *to = &out[r][v * VEC_ROWS];
        vf add = group[r];
        if (OFFSETS(encoding))
            add = vf_fnma(vf_splat(sums + r), offset, add);
        vf_store(to, vf_fma(add, scale, vf_load(to)));
    }
}

/* Else compilers keep what is broadcast for one vector for the next ones, in memory. */
INLINE void forget_places(unsigned rows, struct row_places *places)
{
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        __asm__ volatile("" : "+r"(places->x[r]));
}

/* A group that is a tile: all its vectors. */
INLINE void add_tile_group(const struct coded_panel *panel, const uint8_t *scales, const uint8_t *zeros,
                           uint64_t t, const struct act_rows *x, const float *sums, unsigned rows,
                           int encoding, const struct decoder *decoder, float out[MAX_ROWS][PANEL_ROWS])
{
    const uint8_t *codes = panel->codes + t * 2 * CODES_SIZE;
    struct row_places at;
    find_places(x, t, panel->coded.tiles + panel->coded.tiles % 2, rows, encoding, &at);
    for (unsigned v = 0; v < VECS; v++) {
        vf group[MAX_ROWS];
        forget_places(rows, &at);
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            group[r] = vf_set(0.0f);
        add_vector_lines(find_codes(codes, v), 0, CODE_VECTORS, at.x, at.unit, rows, encoding, decoder,
                         group);
        scale_vector(&panel->coded, scales, zeros, v, sums, rows, encoding, group, out);
    }
}

/* Steps steps[1]..steps[2]-1 of a group that begins at steps[0] and ends at steps[3]; in between its sums
 * wait in `waiting`. */
INLINE void add_chunk(const struct coded_panel *panel, const uint8_t *scales, const uint8_t *zeros,
                      const uint64_t *steps, const struct act_rows *x, const float *sums, unsigned rows,
                      int encoding, const struct decoder *decoder, float (*waiting)[PANEL_ROWS],
                      float out[MAX_ROWS][PANEL_ROWS])
{
    const unsigned lines = HAS_SUBTILE_GROUPS(encoding) ? CODE_VECTORS : 1;
    struct row_places at;
    find_places(x, steps[1] / lines, panel->coded.tiles + panel->coded.tiles % 2, rows, encoding, &at);
    for (unsigned v = 0; v < VECS; v++) {
        vf group[MAX_ROWS];
        forget_places(rows, &at);
        UNROLL_FOR (unsigned r = 0; r < rows; r++)
            group[r] = steps[1] == steps[0] ? vf_set(0.0f) : vf_load(&waiting[r][v * VEC_ROWS]);
        add_vector_steps(panel, v, steps[1], steps[2], at, rows, encoding, decoder, group);
        if (steps[2] == steps[3])
            scale_vector(&panel->coded, scales, zeros, v, sums, rows, encoding, group, out);
        else
            UNROLL_FOR (unsigned r = 0; r < rows; r++)
                vf_store(&waiting[r][v * VEC_ROWS], group[r]);
    }
}

/* Tiles that begin among steps t..end-1 fetch what lies `distance` ahead, from tile `last` on behind the next
 * panel's scales. */
INLINE void bring_ahead(const struct coded_panel *panel, uint64_t t, uint64_t end, unsigned lines)
{
    const uint64_t size = panel->coded.tiles * 2 * CODES_SIZE,
                   skip = panel->coded.scales_size + panel->coded.zeros_size;
    const uint64_t last = panel->distance < size ? (size - panel->distance) / (2 * CODES_SIZE) : 0;
    for (t = (t + lines - 1) / lines; t * lines < end; t++)
        bring_pair(panel->codes + t * 2 * CODES_SIZE, panel->distance + (t < last ? 0 : skip));
}

INLINE void multiply_by_vector(const struct coded_panel *panel, const struct act_rows *x, unsigned rows,
                               int encoding, float out[MAX_ROWS][PANEL_ROWS])
{
    const struct coded *coded = &panel->coded;
    const uint8_t *scales = panel->scales, *zeros = panel->zeros;
    const struct decoder decoder = make_decoder(encoding);
    const uint64_t next = coded->scales_size + coded->zeros_size + coded->tiles * 2 * CODES_SIZE;
    const uint64_t filled = coded->tiles + coded->tiles % 2;
    const unsigned lines = HAS_SUBTILE_GROUPS(encoding) ? CODE_VECTORS : 1;
    const uint64_t all = coded->tiles * lines;
    _Alignas(64) float waiting[MAX_ROWS][PANEL_ROWS];

    for (unsigned r = 0; r < rows; r++)
        memset(out[r], 0, sizeof out[r]);
    for (uint64_t t = 0; t < all; scales += coded->scales_step, zeros += PANEL_ROWS) {
        uint64_t steps[4] = {t, t, t, all - t < coded->group_steps ? all : t + coded->group_steps};
        float sums[MAX_ROWS] = {0};
        PREFETCH(scales + next);
        for (uint64_t s = t; s < steps[3]; s++)
            add_sums(x, s, filled, rows, encoding, sums);
        t = steps[3];
        if (!HAS_SUBTILE_GROUPS(encoding) && t == steps[0] + 1) {
            bring_ahead(panel, steps[0], t, lines);
            add_tile_group(panel, scales, zeros, steps[0], x, sums, rows, encoding, &decoder, out);
            continue;
        }
        for (; steps[1] < steps[3]; steps[1] = steps[2]) {
            uint64_t left = steps[3] - steps[1];
            steps[2] = left < CHUNK_TILES * lines ? steps[3] : steps[1] + CHUNK_TILES * lines;
            bring_ahead(panel, steps[1], steps[2], lines);
            add_chunk(panel, scales, zeros, steps, x, sums, rows, encoding, &decoder, waiting, out);
        }
    }
}

#endif
