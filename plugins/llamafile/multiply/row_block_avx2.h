/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_block_avx2.h - the products of a half panel with 2 to 4 rows of a block, or with 5 to 32 of several,
 * for vectors of 8 rows: AVX2, whose dot products are gathered in int16, and AVX-VNNI. The same numbers in
 * the same order as few_rows.h's, so a row has the same bits.
 *
 * The register tile is 16 rows of weights by 4 of activations: 8 sums, which stay in registers for a group or
 * half of one, while the float sums of a superblock wait in memory. With several blocks the first one leaves
 * the codes of the superblock in L1, as it has decoded them, for the others.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_AVX2_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_ROW_BLOCK_AVX2_H

#include "plugins/llamafile/multiply/row_block.h"
#include "plugins/llamafile/multiply/few_rows.h"

#define DECODED_QUAD (4 * TILE_ROWS) /* bytes of 4 columns of 16 rows */
#define DECODED_GROUP (8 * DECODED_QUAD)

/* Whose codes a block multiplies: the packed ones; those, leaving them decoded; the decoded ones. */
enum codes_use { CODES_PACKED, CODES_LEFT, CODES_DECODED };

/* A group of a block and what it is multiplied with. */
struct block_group {
    struct group weights;
    enum codes_use use;
    uint8_t *decoded; /* of the group, unless CODES_PACKED */
    const uint8_t *acts;
    float *sums; /* of row 0; rows are `stride` numbers apart */
    unsigned stride;
};

/* Columns 8c..8c+7 of both parts. */
INLINE void take_codes(struct traits t, const struct block_group *group, const struct planes planes[2], int c,
                       vi w[2][2])
{
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        uint8_t *at = group->decoded + 2 * c * DECODED_QUAD + part * 4 * VEC_ROWS;
        if (group->use != CODES_DECODED)
            decode_weights(t, group->weights, &planes[part], c, part, w[part]);
        UNROLL_FOR (int i = 0; i < 2; i++) {
            if (group->use == CODES_DECODED)
                w[part][i] = vi_load(at + i * DECODED_QUAD);
            else if (group->use == CODES_LEFT)
                vi_store(at + i * DECODED_QUAD, w[part][i]);
        }
    }
}

/* The start of row r's dot products over half a group where these have scales of their own, or over a group:
 * minus what the offset of the codes adds. int32 begin at START_BASE, so that they are float32 (dots.h). */
INLINE vdot start_row(struct traits t, const uint8_t *acts, int r, int half)
{
#if VEC_DOT_WIDE
    const int offset = is_signed(t) ? 128 : t.offset;
    if (offset == 0)
        return vi_set32(START_BITS);
    if (has_half_groups(t.dtype))
        return vi_dot_start_at(START_BITS, acts + BLOCK_NEG16 + 8 * r + 4 * half, offset);
    return vi_dot_start_at(START_BITS, acts + BLOCK_NEG32 + 4 * r, offset);
#else
    if (t.offset == 0 || is_signed(t))
        return vi_dot_zero();
    if (has_half_groups(t.dtype))
        return vi_dot_start_times(acts + BLOCK_NEG16 + 8 * r + 4 * half, t.offset);
    return half ? vi_dot_zero() : vi_dot_start_times(acts + BLOCK_NEG32 + 4 * r, t.offset);
#endif
}

/* Adds columns 8c..8c+7 to the dot products of each row. Compilers would add a long sum of int16 up as a
 * tree, with every product in a register or on the stack: hence vi_keep. */
INLINE void add_codes(struct traits t, int rows, vi w[2][2], const uint8_t *acts, int c, vdot dots[4][2])
{
    UNROLL_FOR (int i = 0; i < 2; i++) {
        UNROLL_FOR (int r = 0; r < rows; r++) {
            const vi quad = vi_keep(vi_splat4(acts + BLOCK_Q + GROUP * r + 8 * c + 4 * i));
            UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
                dots[r][part] = vi_keep(is_signed(t) ? vi_signed_add_quad(dots[r][part], w[part][i], quad)
                                                     : vi_dot_add_quad(dots[r][part], w[part][i], quad));
        }
    }
}

#if VEC_DOT_WIDE
typedef struct based_scales block_scales;

INLINE block_scales load_block_scales(struct traits t, struct group view, int part)
{
    return load_based_scales(t, view, part);
}

INLINE vf scale_dots(struct traits t, struct dots dots, const block_scales *scales, struct group view,
                     int part)
{
    (void)view;
    (void)part;
    return scale_based(t, dots.half[0], dots.half[1], scales);
}
#else
typedef struct {
    vi scale[2];
} block_scales;

INLINE block_scales load_block_scales(struct traits t, struct group view, int part)
{
    block_scales scales;
    load_scale(t, view, part, scales.scale);
    return scales;
}

INLINE vf scale_dots(struct traits t, struct dots dots, const block_scales *scales, struct group view,
                     int part)
{
    if (is_bounded(t))
        return vf_from_int(dots.half[0]);
    return finish_dots(t, dots, scales->scale, view, part);
}
#endif

/* Applies the scales of a group and adds its dot products to the float sums. */
INLINE void add_scaled(struct traits t, int rows, const struct block_group *group, struct dots dots[4][2])
{
    const struct group view = group->weights;
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        vf d = vf_set(0.0f), m = vf_set(0.0f);
        const block_scales scales = load_block_scales(t, view, part);
        if (t.block == GROUP)
            d = load_d(t, view.scales, view.g, part);
        if (has_offsets(t))
            m = vf_from_half(view.scales + (4 * view.g + 2) * TILE_ROWS + (unsigned)part * 2 * VEC_ROWS);
        UNROLL_FOR (int r = 0; r < rows; r++) {
            float *to = group->sums + (unsigned)r * group->stride + part * VEC_ROWS;
            const vf x = vf_splat(group->acts + BLOCK_SCALE + 4 * r);
            vf sum = vf_fma(scale_dots(t, dots[r][part], &scales, view, part),
                            t.block == GROUP ? vf_mul(d, x) : x, vf_load(to));
            if (has_offsets(t))
                sum = vf_fma(m, vf_splat(group->acts + BLOCK_SUM32 + 4 * r), sum);
            vf_store(to, sum);
        }
    }
}

#ifdef ROWS_BOUNDED
/* As add_block_group of rows whose sums are bounded. */
INLINE void add_bounded_group(struct traits t, int rows, const struct block_group *group)
{
    const struct planes none[2] = {{{vi_dot_zero(), vi_dot_zero()}, vi_dot_zero()}};
    struct dots dots[4][2];
    vi scale[2][2];
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        load_scale(t, group->weights, part, scale[part]);
        UNROLL_FOR (int r = 0; r < rows; r++)
            dots[r][part].half[0] = vi_dot_zero();
    }
    UNROLL_FOR (int c = 0; c < 4; c++) {
        vi w[2][2];
        take_codes(t, group, none, c, w);
        UNROLL_FOR (int r = 0; r < rows; r++) {
            const struct bounded_quads quads = load_bounded(group->acts + BLOCK_Q + GROUP * r + 8 * c,
                                                            group->acts + BLOCK_BOUNDED + 16 * r + 4 * c);
            UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
                dots[r][part].half[0] =
                    add_bounded(t, dots[r][part].half[0], c == 0, w[part], quads, scale[part][0]);
        }
    }
    add_scaled(t, rows, group, dots);
}
#endif

INLINE void add_block_group(struct traits t, int rows, const struct block_group *group)
{
#ifdef ROWS_BOUNDED
    if (is_bounded(t)) {
        add_bounded_group(t, rows, group);
        return;
    }
#endif
    struct planes planes[2] = {{{vi_dot_zero(), vi_dot_zero()}, vi_dot_zero()}};
    struct dots dots[4][2];
    vdot sum[4][2];
    if (group->use != CODES_DECODED) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            planes[part] = load_planes(t, group->weights, part);
    }
    UNROLL_FOR (int half = 0; half < 2; half++) {
        UNROLL_FOR (int r = 0; r < rows; r++) {
            if (half && !has_two_sums(t))
                break;
            sum[r][0] = sum[r][1] = start_row(t, group->acts, r, half);
        }
        UNROLL_FOR (int c = 2 * half; c < 2 * half + 2; c++) {
            vi w[2][2];
            take_codes(t, group, planes, c, w);
            add_codes(t, rows, w, group->acts, c, sum);
        }
        UNROLL_FOR (int r = 0; r < rows; r++) {
            UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
                dots[r][part].half[has_two_sums(t) ? half : 0] = sum[r][part];
        }
    }
    add_scaled(t, rows, group, dots);
}

/* Of a superblock, whose groups' activations are at `acts`. */
INLINE void add_block_minima(struct traits t, int rows, const uint8_t *scales, const uint8_t *acts, int part,
                             vf minima[4])
{
    UNROLL_FOR (int r = 0; r < rows; r++)
        minima[r] = vf_set(0.0f);
    for (unsigned g = 0; g < 8; g++, acts += BLOCK_GROUP) {
        if (t.dtype == KT_DTYPE_Q2_K) {
            vf low = vf_from_high4(scales + 32 * g, part), high = vf_from_high4(scales + 32 * g + 16, part);
            UNROLL_FOR (int r = 0; r < rows; r++) {
                minima[r] = vf_fma(low, vf_splat(acts + BLOCK_SUM16 + 8 * r), minima[r]);
                minima[r] = vf_fma(high, vf_splat(acts + BLOCK_SUM16 + 8 * r + 4), minima[r]);
            }
        } else {
            vf min = vf_from_int(vi_widen_u8(scales + 128 + 16 * g, part));
            UNROLL_FOR (int r = 0; r < rows; r++)
                minima[r] = vf_fma(min, vf_splat(acts + BLOCK_SUM32 + 4 * r), minima[r]);
        }
    }
}

/* Adds a superblock's sums to `out`, where totals wait. */
INLINE void end_superblock(struct traits t, int rows, const uint8_t *head, const uint8_t *scales,
                           const uint8_t *acts, const float *sums, float *out)
{
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        vf d = vf_from_half(head + part * 2 * VEC_ROWS), dmin = vf_set(0.0f), minima[4];
        if (format_unit(t.dtype) != 1.0f)
            d = vf_mul(d, vf_set(format_unit(t.dtype)));
        if (has_minima(t.dtype)) {
            add_block_minima(t, rows, scales, acts, part, minima);
            dmin = vf_from_half(head + 2 * TILE_ROWS + part * 2 * VEC_ROWS);
        }
        UNROLL_FOR (int r = 0; r < rows; r++) {
            float *to = out + r * PANEL_ROWS + part * VEC_ROWS;
            vf total = vf_fma(d, vf_load(sums + r * TILE_ROWS + part * VEC_ROWS), vf_load(to));
            vf_store(to, has_minima(t.dtype) ? vf_fnma(dmin, minima[r], total) : total);
        }
    }
}

INLINE void clear_rows(int rows, float *to, unsigned stride)
{
    UNROLL_FOR (int r = 0; r < rows; r++) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
            vf_store(to + (unsigned)r * stride + part * VEC_ROWS, vf_set(0.0f));
    }
}

/* A superblock of n groups with one block of rows. */
INLINE void multiply_superblock(struct traits t, int rows, struct group weights, unsigned n,
                                const uint8_t *head, enum codes_use use, uint8_t *decoded,
                                const uint8_t *acts, uint64_t distance, float *out)
{
    _Alignas(32) float sums[4 * TILE_ROWS];
    const bool waits = t.block == SUPERBLOCK;
    struct block_group group = {.weights = weights,
                                .use = use,
                                .decoded = decoded,
                                .acts = acts,
                                .sums = waits ? sums : out,
                                .stride = waits ? TILE_ROWS : PANEL_ROWS};
    if (waits)
        clear_rows(rows, sums, TILE_ROWS);
    for (unsigned g = 0; g < n; g++) {
        if (use != CODES_DECODED)
            bring(group.weights.codes, distance, t.bits);
        group.weights.g = g;
        add_block_group(t, rows, &group);
        group.weights.codes += 64 * t.bits;
        group.decoded += DECODED_GROUP;
        group.acts += BLOCK_GROUP;
    }
    if (waits)
        end_superblock(t, rows, head, weights.scales, acts, sums, out);
}

/* A superblock with the rows behind the first 4 of `rows`, whose codes these have left: blocks of 4, `size`
 * bytes apart, and what is left of them. */
INLINE void multiply_others(struct traits t, unsigned rows, struct group weights, unsigned n,
                            const uint8_t *head, uint8_t *decoded, const uint8_t *acts, uint64_t size,
                            float *out)
{
    for (unsigned row = 4; row < rows; row += 4) {
        acts += size;
        out += 4 * PANEL_ROWS;
        switch (rows - row) {
        case 1:
            multiply_superblock(t, 1, weights, n, head, CODES_DECODED, decoded, acts, 0, out);
            break;
        case 2:
            multiply_superblock(t, 2, weights, n, head, CODES_DECODED, decoded, acts, 0, out);
            break;
        case 3:
            multiply_superblock(t, 3, weights, n, head, CODES_DECODED, decoded, acts, 0, out);
            break;
        default:
            multiply_superblock(t, 4, weights, n, head, CODES_DECODED, decoded, acts, 0, out);
        }
    }
}

/* `all` rows, of which the first block has `first`: all, or 4 if it leaves its codes for others (`use`). */
INLINE void multiply_blocked(struct traits t, int first, enum codes_use use, const uint8_t *half_panel,
                             uint64_t k, const uint8_t *block, unsigned all, uint64_t distance, float *out)
{
    _Alignas(64) uint8_t decoded[SUPERBLOCK / GROUP * DECODED_GROUP];
    const uint8_t *scales = half_panel, *head = NULL;
    uint64_t groups = k / GROUP;
    for (unsigned row = 0; row < all; row++)
        clear_rows(1, out + row * PANEL_ROWS, PANEL_ROWS);
    for (uint64_t s = 0; groups > 0; s++, block += 8 * BLOCK_GROUP) {
        unsigned n = groups < 8 ? (unsigned)groups : 8;
        const uint8_t *heads = scales + size_scales(t, n), *codes = heads + size_heads(t, s);
        const struct group weights = {.codes = codes, .scales = scales};
        head = codes > heads ? heads : head + t.head_bytes * TILE_ROWS;
        for (const uint8_t *line = scales; line < codes; line += 64)
            bring(line, distance, 1);
        multiply_superblock(t, first, weights, n, head, use, decoded, block, distance, out);
        if (use == CODES_LEFT)
            multiply_others(t, all, weights, n, head, decoded, block, size_block(k), out);
        scales = codes + n * 64 * t.bits;
        groups -= n;
    }
}

#endif
