/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coded/gemv_tmpl.h - GEMV: a panel of codes with a few rows, whose codes are decoded in registers.
 *
 * The products of a group are added up without its scale, which multiplies their sum: only float32 rounds.
 * For each vector of codes and row that is CODE_LINES products, and three more operations for each group.
 * The tiles take turns at each vector, so that a pair of a row's numbers is loaded once for both. Products
 * of 32 columns are one chain of additions, whose sum is added to the group's: so chains of successive
 * tiles overlap, and a row has the same sums in a microkernel of one row as in one of eight.
 *
 * Parameters  DECODER_H          the header that has struct decoder and make_decoder(encoding): what
 *                                decoding keeps in registers; and decode(codes, decoder, encoding, w): a
 *                                vector of codes to CODE_LINES vectors of pairs of bfloat16
 *             OFFSETS(encoding)  must something be subtracted from each number that decode makes?
 *             CODE_ZERO(encoding), NO_ZERO(encoding)   what: the zero or, if there are none, NO_ZERO, plus
 *                 CODE_ZERO
 *             TUNING             prefetch_bytes: gemm/tuning_tmpl.h
 *             IS_FIXED_POINT(encoding)   are activations integers, which add_fixed_point and
 *                 add_fixed_point_lines multiply? default 0
 *             DOUBLED(encoding)  do codes then stand for half of what is multiplied?
 *             HAS_SUBTILE_GROUPS(encoding)   do groups end inside a tile (coded/geometry_tmpl.h)? Rows then
 *                 have a sum for each line of codes; default 0
 *             FIND_SUMS(encoding, x, r, filled)   where the sums of row r stand, behind `filled` tiles;
 *                 default: x->sums[r]
 * and those of coded/geometry_tmpl.h and bf16/microkernel_tmpl.h.
 * Wanted      panel_size
 */
#ifndef KT_PLUGINS_COMMON_CODED_GEMV_TMPL_H
#define KT_PLUGINS_COMMON_CODED_GEMV_TMPL_H

#ifndef DECODER_H
#error "coded/gemv_tmpl.h: define DECODER_H"
#endif
#ifndef OFFSETS
#error "coded/gemv_tmpl.h: define OFFSETS"
#endif
#ifndef CODE_ZERO
#error "coded/gemv_tmpl.h: define CODE_ZERO"
#endif
#ifndef NO_ZERO
#error "coded/gemv_tmpl.h: define NO_ZERO"
#endif
#ifndef FIND_SUMS
#define FIND_SUMS(encoding, x, r, filled) ((x)->sums[r])
#endif
#ifndef IS_FIXED_POINT
#define IS_FIXED_POINT(encoding) 0
#define DOUBLED(encoding) 0
#define add_fixed_point(...) (void)0
#define add_fixed_point_lines(...) (void)0
#endif
#ifndef HAS_SUBTILE_GROUPS
#define HAS_SUBTILE_GROUPS(encoding) 0
#endif

#define PANEL_OWN struct coded_panel
#include "plugins/common/coded/geometry_tmpl.h"

#include "plugins/common/bf16/microkernel_tmpl.h"
#include "plugins/common/gemm/tunables.h"
#include "plugins/common/gemm/tuning_tmpl.h"

#if SIMD_NUMBER(SIMD) == SIMD_neon
#error "coded/gemv_tmpl.h: NEON has no functions for codes yet: see simd/scalar_lookup.h"
#endif

#include DECODER_H

#define CODE_LINES (LINES / CODE_VECTORS)

static struct coded_panel find_own_panel(const struct kt_product *job, enum kt_stage stage, uint64_t number)
{
    struct coded_panel panel = {.coded = find_coded(job->layout, stage)};
    uint64_t size = panel_size(job->layout, stage);
    panel.distance = prefetch_distance(job->layout, tuning.prefetch_bytes);
    panel.scales = (const uint8_t *)job->packed + number * size;
    panel.zeros = panel.scales + panel.coded.scales_size;
    panel.codes = panel.zeros + panel.coded.zeros_size;
    return panel;
}

/* The scales of vector v in the group whose scales stand at `scales`. */
INLINE vf load_scale(enum scale_form form, const uint8_t *scales, unsigned v)
{
    unsigned place = v * VEC_ROWS;
    switch (form) {
    case SCALE_ONE:
        return vf_splat(scales + place / TILE_ROWS * 4);
    case SCALE_F16:
        return vf_from_half(scales + 2 * place);
    case SCALE_BF16:
        return vf_from_bf16(scales + 2 * place);
    case SCALE_E8M0:
        return vf_from_e8m0(scales + place / TILE_ROWS * TILE_ROWS, (int)(v % VEC_PARTS));
    default:
        return vf_load(scales + 4 * place);
    }
}

/* What is to be subtracted from the numbers of vector v. */
INLINE vf load_offset(const struct coded *coded, const uint8_t *zeros, unsigned v, int encoding)
{
    if (!coded->has_zeros)
        return vf_set(CODE_ZERO(encoding) + NO_ZERO(encoding));
    vi zero = vi_widen_u8(zeros + v / VEC_PARTS * TILE_ROWS, (int)(v % VEC_PARTS));
    return vf_add(vf_from_int(zero), vf_set(CODE_ZERO(encoding)));
}

/* The columns of a line of codes of both tiles, added to sums. */
INLINE void add_code_line(const uint8_t *codes, const struct act_rows *x, uint64_t at, unsigned rows,
                          int encoding, const struct decoder *decoder, vf sum[MAX_ROWS][VECS])
{
    vi w[CODE_LINES][VECS];
    UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
        vi line[CODE_LINES];
        decode(vi_load_once(find_codes(codes, v)), decoder, encoding, line);
        UNROLL_FOR (unsigned i = 0; i < CODE_LINES; i++)
            w[i][v] = line[i];
    }
    UNROLL_FOR (unsigned i = 0; i < CODE_LINES; i++)
        add_line(w[i], x, at + i * LINE_STEP, rows, VECS, sum, sum);
}

/* All lines at once, which is faster than in turns with what is read. */
INLINE void bring_pair(const uint8_t *codes, uint64_t distance)
{
    UNROLL_FOR (unsigned i = 0; i < 2 * CODES_SIZE; i += 64)
        PREFETCH_AHEAD(PREFETCH, codes + i, distance);
}

/* The sums of 32 columns of a pair of tiles; what lies `distance` ahead is prefetched meanwhile. */
INLINE void add_codes(const uint8_t *codes, uint64_t distance, const struct act_rows *x, uint64_t at,
                      unsigned rows, int encoding, const struct decoder *decoder, vf sum[MAX_ROWS][VECS])
{
    bring_pair(codes, distance);
    clear(rows, VECS, sum);
    for (unsigned q = 0; q < CODE_VECTORS; q++)
        add_code_line(codes + 128 * q, x, at + q * CODE_LINES * LINE_STEP, rows, encoding, decoder, sum);
}

/* The same, added to the sums of the tiles before. */
INLINE void add_tile(const uint8_t *codes, uint64_t distance, const struct act_rows *x, uint64_t at,
                     unsigned rows, int encoding, const struct decoder *decoder, vf sum[MAX_ROWS][VECS])
{
    vf own[MAX_ROWS][VECS];
    add_codes(codes, distance, x, at, rows, encoding, decoder, own);
    add_tile_sums(rows, VECS, own, sum);
}

/* The sums of the columns of step t, which offsets multiply. */
INLINE void add_sums(const struct act_rows *x, uint64_t t, uint64_t filled, unsigned rows, int encoding,
                     float sums[MAX_ROWS])
{
    (void)encoding;
    (void)filled;
    if (!OFFSETS(encoding))
        return;
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        sums[r] += FIND_SUMS(encoding, x, r, filled)[t];
}

/* A group that may end inside a tile: lines begin..end-1 of a panel, tile by tile. With the first lines of
 * a tile comes the prefetch, `distance` ahead up to tile `last`, and `skip` farther from there on. */
INLINE void add_subtile(const struct coded_panel *panel, uint64_t begin, uint64_t end, uint64_t last,
                        const struct act_rows *x, uint64_t filled, unsigned rows, int encoding,
                        const struct decoder *decoder, vf sum[MAX_ROWS][VECS], float sums[MAX_ROWS])
{
    const uint64_t skip = panel->coded.scales_size + panel->coded.zeros_size;
    clear(rows, VECS, sum);
    while (begin < end) {
        uint64_t t = begin / CODE_VECTORS, line = begin % CODE_VECTORS, left = CODE_VECTORS - line;
        uint64_t n = left < end - begin ? left : end - begin;
        const uint8_t *codes = panel->codes + t * 2 * CODES_SIZE;
        if (line == 0)
            bring_pair(codes, panel->distance + (t < last ? 0 : skip));
        if (IS_FIXED_POINT(encoding))
            add_fixed_point_lines(codes, x, t, filled, (unsigned)line, (unsigned)n, rows, encoding, decoder,
                                  sum);
        for (uint64_t q = line; q < line + n && !IS_FIXED_POINT(encoding); q++)
            add_code_line(codes + 128 * q, x, t * X_STEP + q * CODE_LINES * LINE_STEP, rows, encoding,
                          decoder, sum);
        for (; n > 0; n--)
            add_sums(x, begin++, filled, rows, encoding, sums);
    }
}

INLINE void multiply_codes(const struct coded_panel *panel, const struct act_rows *x, unsigned rows,
                           int encoding, float out[MAX_ROWS][PANEL_ROWS])
{
    const struct coded *coded = &panel->coded;
    const uint8_t *codes = panel->codes, *scales = panel->scales, *zeros = panel->zeros;
    const struct decoder decoder = make_decoder(encoding);
    /* The next panel's scales stand before its codes: they are prefetched group by group, a panel ahead. */
    const uint64_t skip = coded->scales_size + coded->zeros_size;
    const uint64_t size = coded->tiles * 2 * CODES_SIZE, next = skip + size, distance = panel->distance;
    const uint64_t last = distance < size ? (size - distance) / (2 * CODES_SIZE) : 0;
    const uint64_t filled = coded->tiles + coded->tiles % 2;
    const uint64_t steps = HAS_SUBTILE_GROUPS(encoding) ? coded->tiles * CODE_VECTORS : coded->tiles;
    vf sum[MAX_ROWS][VECS], group[MAX_ROWS][VECS];

    clear(rows, VECS, sum);
    for (uint64_t t = 0; t < steps; scales += coded->scales_step, zeros += PANEL_ROWS) {
        uint64_t end = steps - t < coded->group_steps ? steps : t + coded->group_steps;
        float sums[MAX_ROWS] = {0};
        PREFETCH(scales + next);
        if (HAS_SUBTILE_GROUPS(encoding)) {
            add_subtile(panel, t, end, last, x, filled, rows, encoding, &decoder, group, sums);
            t = end;
        } else if (IS_FIXED_POINT(encoding)) {
            clear(rows, VECS, group);
        } else {
            add_codes(codes, t < last ? distance : distance + skip, x, t * X_STEP, rows, encoding, &decoder,
                      group);
            add_sums(x, t++, filled, rows, encoding, sums);
            codes += 2 * CODES_SIZE;
        }
        for (; t < end; t++, codes += 2 * CODES_SIZE) {
            uint64_t reach = t < last ? distance : distance + skip;
            if (IS_FIXED_POINT(encoding))
                add_fixed_point(codes, reach, x, t, filled, rows, encoding, &decoder, group);
            else
                add_tile(codes, reach, x, t * X_STEP, rows, encoding, &decoder, group);
            add_sums(x, t, filled, rows, encoding, sums);
        }
        UNROLL_FOR (unsigned v = 0; v < VECS; v++) {
            vf scale = load_scale(coded->form, scales, v);
            if (DOUBLED(encoding))
                scale = vf_mul(scale, vf_set(0.5f));
            vf offset = load_offset(coded, zeros, v, encoding);
            UNROLL_FOR (unsigned r = 0; r < rows; r++) {
                vf add = group[r][v];
                if (OFFSETS(encoding))
                    add = vf_fnma(vf_set(sums[r]), offset, add);
                sum[r][v] = vf_fma(add, scale, sum[r][v]);
            }
        }
    }
    UNROLL_FOR (unsigned r = 0; r < rows; r++)
        UNROLL_FOR (unsigned v = 0; v < VECS; v++)
            vf_store(&out[r][v * VEC_ROWS], sum[r][v]);
}

#define DEFINE_GEMV(name, rows, encoding)                                                                \
    static void name(const struct panel *panel, const struct act_rows *x, struct prefetcher *prefetcher, \
                     float out[MAX_ROWS][PANEL_ROWS])                                                    \
    {                                                                                                    \
        (void)prefetcher;                                                                                \
        multiply_codes(&panel->own, x, rows, encoding, out);                                             \
    }

#endif
