/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dots.h - from packed codes to the dot products of a group of 32 columns, integers, which are exact on all
 * levels; and the float parts of a product, scales and minima of a group, applied to them.
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_DOTS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_DOTS_H

#include "plugins/llamafile/multiply/grids.h"

/* scales_size of `groups` groups. */
INLINE uint64_t size_scales(struct traits t, uint64_t groups)
{
    return round_up((t.block == SUPERBLOCK ? 1 : groups / group_share(t)) * t.scale_bytes * TILE_ROWS, 64);
}

/* Bytes of heads in superblock s, not shared with the one before. */
INLINE uint64_t size_heads(struct traits t, uint64_t s)
{
    return heads_size(t.head_bytes, s + 1) - heads_size(t.head_bytes, s);
}

/* ---- codes ---- */

/* The planes of high bits of a group, for the rows of `part`; of 2 and 3 bits also the low ones. */
struct planes {
    vi two[2]; /* columns 0..15 and 16..31; of trits: signs, and the last columns' codes */
    vi one;    /* of triples: columns 24..31, as in the low 6 bits of a chunk; of grids: their signs; of
                * trits: numbers */
};

INLINE struct planes load_planes(struct traits t, struct group group, int part)
{
    unsigned bits = t.bits;
    struct planes planes = {0};
    const uint8_t *plane = group.codes + part * 4 * VEC_ROWS + (bits >= 4 ? 256 : 0);
    if (has_points(t)) {
        planes.one = load_signs(t, group, part);
#ifdef VEC_TURNS
        if (has_turns(t)) {
            planes.two[0] = vi_turns_low(planes.one);
            planes.two[1] = vi_turns_high(planes.one);
        }
#endif
        return planes;
    }
    if (has_trits(t)) {
        vi pairs = vi_load_turned(find_trit_pairs(group), part);
        planes.one = vi_load_turned(group.codes, part);
        planes.two[0] = vi_load_turned(find_trit_signs(group), part);
        planes.two[1] = group.g % 2 ? vi_high4(pairs) : pairs;
        return planes;
    }
    if (bits == 1) {
        planes.one = vi_load_turned(group.codes, part);
        return planes;
    }
    if (format_has_triples(t.dtype, bits)) {
        vi high = vi_select(vi_set_u8(0x0c), vi_shr(vi_load(plane + 64), 4), vi_shr(vi_load(plane + 128), 2));
        planes.one = vi_select(vi_set_u8(0x03), vi_shr(vi_load(plane), 6), high);
        return planes;
    }

    if (bits == 2 || bits == 3 || bits == 6) {
        planes.two[0] = vi_load(plane);
        planes.two[1] = vi_load(plane + 64);
        plane += 128;
    }
    if (bits % 2 == 1)
        planes.one = vi_load(plane);
    return planes;
}

INLINE vi shift_left(vi v, int bits)
{
    return bits >= 0 ? vi_shl(v, bits) : vi_shr(v, -bits);
}

/* Codes i of 8 with the bits that stand in other planes than the nibbles. */
INLINE vi add_planes(unsigned bits, const struct planes *planes, int i, vi low)
{
    if (bits == 2 || bits == 3)
        low = vi_and(vi_shr(planes->two[i / 4], 2 * (i % 4)), vi_set_u8(3));
    if (bits == 6)
        low = vi_or(low, vi_and(shift_left(planes->two[i / 4], 4 - 2 * (i % 4)), vi_set_u8(0x30)));
    if (bits == 3)
        low = vi_or(low, vi_and(shift_left(planes->one, 2 - i), vi_set_u8(4)));
    if (bits == 1) /* 0 and 2, less an offset of 1 */
        low = vi_and(shift_left(planes->one, 1 - i), vi_set_u8(2));
    if (bits == 5)
        low = vi_or(low, vi_and(shift_left(planes->one, 4 - i), vi_set_u8(16)));
    return low;
}

/* Codes of columns 8c..8c+3 and 8c+4..8c+7. */
INLINE void decode(unsigned bits, const uint8_t *group, const struct planes *planes, int c, int part, vi w[2])
{
    const uint8_t *from = group + part * 4 * VEC_ROWS;
    if (bits == 8) {
        w[0] = vi_load(from + 128 * c);
        w[1] = vi_load(from + 128 * c + 64);
        return;
    }
    if (bits >= 4) {
        vi v = vi_keep(vi_load(from + 64 * c));
        w[0] = vi_and(v, vi_set_u8(15));
        w[1] = vi_high4(v);
    } else {
        w[0] = w[1] = vi_set_u8(0);
    }
    w[0] = add_planes(bits, planes, 2 * c, w[0]);
    w[1] = add_planes(bits, planes, 2 * c + 1, w[1]);
}

/* The table of MXFP4, plus 12. */
static const int8_t mxfp4_codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* The table of IQ4, plus BOUNDED_OFFSET, as bytes without sign. */
static const uint8_t bounded_codes[16] = {0,   23,  44,  62,  78,  92,  105, 117,
                                          128, 140, 152, 165, 180, 196, 216, 240};

/* Are the sums of its rows bounded (bounded_sums.h)? */
INLINE bool is_bounded(struct traits t)
{
    return t.offset == BOUNDED_OFFSET;
}

INLINE bool is_signed(struct traits t)
{
    return !t.offset &&
           (t.dtype == KT_DTYPE_Q8_0 || t.dtype == KT_DTYPE_IQ4_NL || t.dtype == KT_DTYPE_NVFP4 ||
            t.dtype == KT_DTYPE_MXFP4 || format_table(t.dtype) != NULL);
}

INLINE bool has_half_groups(uint32_t dtype)
{
    return dtype == KT_DTYPE_Q2_K || dtype == KT_DTYPE_Q3_K || dtype == KT_DTYPE_Q6_K ||
           dtype == KT_DTYPE_IQ1_M || dtype == KT_DTYPE_IQ2_XS || dtype == KT_DTYPE_IQ2_S ||
           dtype == KT_DTYPE_NVFP4;
}

INLINE bool has_minima(uint32_t dtype)
{
    return dtype == KT_DTYPE_Q2_K || dtype == KT_DTYPE_Q4_K || dtype == KT_DTYPE_Q5_K;
}

/* The table in which codes of 3 or 4 bits are looked up, or NULL. */
INLINE const int8_t *find_values(struct traits t)
{
    if (t.dtype == KT_DTYPE_MXFP4)
        return t.offset ? mxfp4_codes : llamafile_mxfp4_values;
    if (is_bounded(t))
        return (const int8_t *)bounded_codes;
    return t.dtype == KT_DTYPE_IQ4_NL  ? llamafile_iq4_values
           : t.dtype == KT_DTYPE_NVFP4 ? llamafile_mxfp4_values
                                       : format_table(t.dtype);
}

INLINE void decode_weights(struct traits t, struct group group, const struct planes *planes, int c, int part,
                           vi w[2])
{
    const int8_t *values = find_values(t);
    if (has_points(t)) {
        decode_points(t, group, planes->one, c, part, w);
        if (has_turns(t))
            return;
        UNROLL_FOR (int i = 0; i < 2; i++) {
            if (compact_has_signs(t.dtype))
                w[i] = vi_signed_ready(vi_negate(w[i], planes->one, 2 * c + i));
        }
        return;
    }
    if (has_trits(t)) {
        UNROLL_FOR (int i = 0; i < 2; i++)
            w[i] = decode_trits(group, planes->one, planes->two[0], planes->two[1], 2 * c + i);
        return;
    }
    if (!values) {
        decode(t.bits, group.codes, planes, c, part, w);
        if (is_signed(t)) {
            w[0] = vi_signed_ready(w[0]);
            w[1] = vi_signed_ready(w[1]);
        }
        return;
    }
    /* values are made ready in the table, once for all of a half panel */
    vi table = is_signed(t) ? vi_signed_ready(vi_table(values)) : vi_table(values);
    vi codes =
        t.bits == 3 && c == 3 ? planes->one : vi_keep(vi_load(group.codes + part * 4 * VEC_ROWS + 64 * c));
    if (t.bits == 3) {
        w[0] = vi_lookup_low3(table, codes);
        w[1] = vi_lookup_next3(table, codes);
    } else {
        w[0] = vi_lookup_low4(table, codes);
        w[1] = vi_lookup_high4(table, codes);
    }
}

/* ---- dot products of a group: int32 for each row, exact on all levels ---- */

/* Scales of the group; those of half groups are two. */
INLINE void load_scale(struct traits t, struct group group, int part, vi scale[2])
{
    if (t.dtype == KT_DTYPE_NVFP4 || has_trits(t))
        return; /* finish_dots; none */
    const uint8_t *from = find_scales(t, group, has_half_groups(t.dtype));
    if (has_turns(t)) {
        UNROLL_FOR (int half = 0; half < 1 + has_half_groups(t.dtype); half++, from += 16)
            scale[half] = vi_scale_s8(from, part);
        return;
    }
    if (has_half_groups(t.dtype)) {
        UNROLL_FOR (int half = 0; half < 2; half++, from += 16)
            scale[half] = t.dtype == KT_DTYPE_Q2_K ? vi_scale_u4(from, part)
                          : is_signed(t)           ? vi_wide_scale_s8(from, part)
                                                   : vi_scale_s8(from, part);
    } else if (is_signed(t) && t.block == SUPERBLOCK) {
        scale[0] = vi_wide_scale_s8(from, part);
    } else if (is_bounded(t) && t.block == SUPERBLOCK) {
        scale[0] = vi_scale_s8(from, part);
    } else if (t.block == SUPERBLOCK && t.scale_bytes) {
        scale[0] = vi_scale_u8(from, part);
    }
}

/* Sums of a row of activations with the rows of `part`: of the group, or of its halves where these
 * have scales of their own, or where int16 could not hold all of them: 31 * 127 * 2 a step lets four
 * steps of unsigned 5-bit codes add up. */
struct dots {
    vdot half[2];
};

INLINE bool has_two_sums(struct traits t)
{
    return has_half_groups(t.dtype) || (t.bits == 5 && !t.offset && !VEC_DOT_WIDE);
}

INLINE struct dots begin_dots(struct traits t, const uint8_t *x, unsigned g)
{
    struct dots dots;
    if (has_turns(t)) {
        dots.half[0] = dots.half[1] = vi_dot_zero();
        return dots;
    }
    if (is_signed(t) && has_half_groups(t.dtype)) {
        dots.half[0] = vi_signed_start(x + ACT_PAIR16 + 8 * g);
        dots.half[1] = vi_signed_start(x + ACT_PAIR16 + 8 * g + 4);
        return dots;
    } else if (is_signed(t)) {
        dots.half[0] = vi_signed_start(x + ACT_PAIR32 + 4 * g);
    } else if (!t.offset) {
        dots.half[0] = vi_dot_zero();
    } else if (has_half_groups(t.dtype)) {
        dots.half[0] = vi_dot_start(x + ACT_PAIR16 + 8 * g, t.offset);
        dots.half[1] = vi_dot_start(x + ACT_PAIR16 + 8 * g + 4, t.offset);
        return dots;
    } else {
        dots.half[0] = vi_dot_start(x + ACT_PAIR32 + 4 * g, t.offset);
    }
    dots.half[1] = vi_dot_zero();
    return dots;
}

/* The activations of a group: where they are, or registers of 16, of which an instruction takes a quad. */
#ifdef VEC_QUADS
typedef vec_quads activations;

INLINE activations load_activations(const uint8_t *x, unsigned g)
{
    return vec_load_quads((const int8_t *)x + ACT_Q + GROUP * g);
}

INLINE vdot add_quad(struct traits t, vdot sum, vi w, activations q, int i)
{
    (void)t;
    return dot4_quad(sum, w, q.of[i / 4], (unsigned)i % 4);
}
#else
typedef const int8_t *activations;

INLINE activations load_activations(const uint8_t *x, unsigned g)
{
    return (const int8_t *)x + ACT_Q + GROUP * g;
}

INLINE vdot add_quad(struct traits t, vdot sum, vi w, activations q, int i)
{
    return is_signed(t) ? vi_signed_add(sum, w, q + 4 * i) : vi_dot_add(sum, w, q + 4 * i);
}
#endif

#ifdef VEC_TURNS
/* Adds columns 8c..8c+7 with their scale. int16 hold 16 columns of points of 4 weights, which are at most 31,
 * and 8 of the others. */
INLINE void add_turned(struct traits t, struct dots *dots, const vi w[2], const struct planes *planes,
                       const vi scale[2], activations q, int c)
{
    vdot sum = vi_turned_dot(w, planes->two[c / 2], 2 * c % 4, q + 8 * c);
    if (compact_points(t.dtype) == 8 && c % 2 == 0) {
        dots->half[1] = sum;
        return;
    }
    if (compact_points(t.dtype) == 8)
        sum = vi_dot_join(dots->half[1], sum);
    dots->half[0] = vi_add32(dots->half[0], vi_dot_scale(sum, scale[has_half_groups(t.dtype) ? c / 2 : 0]));
}
#endif

/* Adds columns 8c..8c+7. */
INLINE void add_dots(struct traits t, struct dots *dots, const vi w[2], const struct planes *planes,
                     const vi scale[2], activations q, int c)
{
    vdot *sum = &dots->half[has_two_sums(t) ? c / 2 : 0];
#ifdef VEC_TURNS
    if (has_turns(t)) {
        add_turned(t, dots, w, planes, scale, q, c);
        return;
    }
#endif
    (void)planes;
    (void)scale;
    UNROLL_FOR (int i = 0; i < 2; i++)
        *sum = add_quad(t, *sum, w[i], q, 2 * c + i);
}

/* The group's int32 for each row, scaled where the format has integer scales. */
INLINE vi end_dots(struct traits t, struct dots dots, const vi scale[2])
{
    if (has_turns(t) || (is_signed(t) && t.block == GROUP))
        return dots.half[0];
    if (is_signed(t)) {
        vi sum = vi_mul32(dots.half[0], scale[0]);
        return has_two_sums(t) ? vi_add32(sum, vi_mul32(dots.half[1], scale[1])) : sum;
    }
    if (t.scale_bytes == 0 || t.block == GROUP || has_trits(t)) {
        vi sum = vi_dot_sum(dots.half[0]);
        return has_two_sums(t) ? vi_add32(sum, vi_dot_sum(dots.half[1])) : sum;
    }
    vi sum = vi_dot_scale(dots.half[0], scale[0]);
    if (has_two_sums(t))
        sum = vi_add32(sum, vi_dot_scale(dots.half[1], scale[has_half_groups(t.dtype)]));
    return sum;
}

/* The same as floats; NVFP4's halves with their float scales. */
INLINE vf finish_dots(struct traits t, struct dots dots, const vi scale[2], struct group group, int part)
{
    if (t.dtype != KT_DTYPE_NVFP4)
        return vf_from_int(end_dots(t, dots, scale));
    const uint8_t *scales = group.scales + 4 * TILE_ROWS * group.g + (unsigned)part * 2 * VEC_ROWS;
    vf low = vf_mul(vf_from_int(dots.half[0]), vf_from_half(scales));
    return vf_fma(vf_from_int(dots.half[1]), vf_from_half(scales + 2 * TILE_ROWS), low);
}

/* vpdpbusd has a latency of 4 cycles: where a vector has all 16 rows, one row takes two chains of
 * additions, and several rows take turns. Shorter vectors have chains enough, and too few registers. */
#define LONG_CHAINS (VEC_PARTS == 1 && VEC_DOT_WIDE)

/* The sums of a group for all rows of x. One row goes over both parts at once, and each code is used as
 * soon as it is decoded; several rows share the codes of one part after the other. */
INLINE void dot_one(struct traits t, struct group group, const vi scale[][2], const uint8_t *x,
                    vf out[VEC_PARTS])
{
    struct planes planes[VEC_PARTS];
    struct dots dots[VEC_PARTS], second = {{vi_dot_zero(), vi_dot_zero()}};
    const bool two_chains = LONG_CHAINS && !has_two_sums(t);
    activations q = load_activations(x, group.g);

    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
        planes[part] = load_planes(t, group, part);
        dots[part] = begin_dots(t, x, group.g);
    }
    UNROLL_FOR (int c = 0; c < 4; c++) {
        UNROLL_FOR (int part = 0; part < VEC_PARTS; part++) {
            vi w[2];
            decode_weights(t, group, &planes[part], c, part, w);
            add_dots(t, c % 2 && two_chains ? &second : &dots[part], w, &planes[part], scale[part], q, c);
        }
    }
    if (two_chains)
        dots[0].half[0] = vi_add32(dots[0].half[0], second.half[0]);
    UNROLL_FOR (int part = 0; part < VEC_PARTS; part++)
        out[part] = finish_dots(t, dots[part], scale[part], group, part);
}

INLINE void dot_rows_abreast(struct traits t, int rows, struct group group, const vi scale[2],
                             const uint8_t *const *x, uint64_t at, vf out[][VEC_PARTS])
{
    struct planes planes = load_planes(t, group, 0);
    struct dots dots[8];
    UNROLL_FOR (int r = 0; r < rows; r++)
        dots[r] = begin_dots(t, x[r] + at, group.g);
    UNROLL_FOR (int c = 0; c < 4; c++) {
        vi w[2];
        decode_weights(t, group, &planes, c, 0, w);
        UNROLL_FOR (int r = 0; r < rows; r++)
            add_dots(t, &dots[r], w, &planes, scale, load_activations(x[r] + at, group.g), c);
    }
    UNROLL_FOR (int r = 0; r < rows; r++)
        out[r][0] = finish_dots(t, dots[r], scale, group, 0);
}

INLINE void dot_rows(struct traits t, int rows, struct group group, const vi scale[2],
                     const uint8_t *const *x, uint64_t at, int part, vf out[][VEC_PARTS])
{
    struct planes planes;
    vi w[8];
    if (LONG_CHAINS) {
        dot_rows_abreast(t, rows, group, scale, x, at, out);
        return;
    }
    planes = load_planes(t, group, part);
    UNROLL_FOR (int c = 0; c < 4; c++)
        decode_weights(t, group, &planes, c, part, w + 2 * c);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        struct dots dots = begin_dots(t, x[r] + at, group.g);
        activations q = load_activations(x[r] + at, group.g);
        UNROLL_FOR (int c = 0; c < 4; c++)
            add_dots(t, &dots, w + 2 * c, &planes, scale, q, c);
        out[r][part] = finish_dots(t, dots, scale, group, part);
    }
}

/* ---- half panels of 32-column formats: total += dot * (d_weight * d_x), + m * sum(x) ---- */

/* Has each group a number that is added to its weights? */
INLINE bool has_offsets(struct traits t)
{
    return t.dtype == KT_DTYPE_Q4_1 || t.dtype == KT_DTYPE_Q5_1;
}

INLINE vf load_d(struct traits t, const uint8_t *scales, unsigned g, int part)
{
    const uint8_t *from = scales + g / group_share(t) * t.scale_bytes * TILE_ROWS;
    if (t.dtype == KT_DTYPE_MXFP4)
        return vf_from_e8m0_half(from, part);
    if (t.dtype == KT_DTYPE_NVFP4) /* in the dots already */
        return vf_set(1.0f);
    return vf_from_half(from + part * 2 * VEC_ROWS);
}

INLINE void add_group_32(struct traits t, int rows, const uint8_t *scales, unsigned g,
                         const uint8_t *const *x, uint64_t at, int part, vf dots[][VEC_PARTS],
                         vf total[][VEC_PARTS])
{
    vf d = load_d(t, scales, g, part), m = vf_set(0.0f);
    if (has_offsets(t))
        m = vf_from_half(scales + (4 * g + 2) * TILE_ROWS + (unsigned)part * 2 * VEC_ROWS);
    UNROLL_FOR (int r = 0; r < rows; r++) {
        const uint8_t *block = x[r] + at;
        vf factor = vf_mul(d, vf_splat(block + ACT_SCALE + 4 * g));
        total[r][part] = vf_fma(dots[r][part], factor, total[r][part]);
        if (has_offsets(t))
            total[r][part] = vf_fma(m, vf_splat(block + ACT_SUM32 + 4 * g), total[r][part]);
    }
}

/* ---- half panels of 256-column formats: total += d * sum(dot * d_x) - dmin * sum(min * sum(x)) ---- */

INLINE void add_minima(struct traits t, int rows, const uint8_t *scales, unsigned g, const uint8_t *const *x,
                       uint64_t at, int part, vf minima[][VEC_PARTS])
{
    if (t.dtype == KT_DTYPE_Q2_K) {
        vf low = vf_from_high4(scales + 32 * g, part);
        vf high = vf_from_high4(scales + 32 * g + 16, part);
        UNROLL_FOR (int r = 0; r < rows; r++) {
            const uint8_t *sums = x[r] + at + ACT_SUM16 + 8 * g;
            minima[r][part] = vf_fma(low, vf_splat(sums), minima[r][part]);
            minima[r][part] = vf_fma(high, vf_splat(sums + 4), minima[r][part]);
        }
    } else {
        vf min = vf_from_int(vi_widen_u8(scales + 128 + 16 * g, part));
        UNROLL_FOR (int r = 0; r < rows; r++)
            minima[r][part] = vf_fma(min, vf_splat(x[r] + at + ACT_SUM32 + 4 * g), minima[r][part]);
    }
}

INLINE void add_group_256(struct traits t, int rows, const uint8_t *scales, unsigned g,
                          const uint8_t *const *x, uint64_t at, int part, vf dots[][VEC_PARTS],
                          vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    UNROLL_FOR (int r = 0; r < rows; r++)
        sums[r][part] = vf_fma(dots[r][part], vf_splat(x[r] + at + ACT_SCALE + 4 * g), sums[r][part]);
    if (has_minima(t.dtype))
        add_minima(t, rows, scales, g, x, at, part, minima);
}

INLINE void add_floats(struct traits t, int rows, const uint8_t *scales, unsigned g, const uint8_t *const *x,
                       uint64_t at, int part, vf dots[][VEC_PARTS], vf total[][VEC_PARTS],
                       vf sums[][VEC_PARTS], vf minima[][VEC_PARTS])
{
    if (t.block == SUPERBLOCK)
        add_group_256(t, rows, scales, g, x, at, part, dots, sums, minima);
    else
        add_group_32(t, rows, scales, g, x, at, part, dots, total);
}

/* ---- dot products of int32 in several rows: they become float32 by where they start ---- */

/* 1.5 * 2^23, where the next numbers of float32 are the next integers, and its bits. */
#define START_BASE 12582912
#define START_BITS 0x4b400000

INLINE vf take_as_float(vi v)
{
    vf f;
    memcpy(&f, &v, sizeof f);
    return f;
}

/* Scales of a group's dot products, two of those of halves; false: it has none. */
INLINE bool load_float_scales(struct traits t, struct group view, int part, vf scale[2])
{
    const uint8_t *halves = view.scales + 4 * TILE_ROWS * view.g + part * 2 * VEC_ROWS;
    vi whole[2];
    if (t.dtype == KT_DTYPE_NVFP4) {
        scale[0] = vf_from_half(halves);
        scale[1] = vf_from_half(halves + 2 * TILE_ROWS);
        return true;
    }
    if (t.block == GROUP || t.scale_bytes == 0 || has_trits(t))
        return false;
    load_scale(t, view, part, whole);
    scale[0] = vf_from_int(whole[0]);
    if (has_half_groups(t.dtype))
        scale[1] = vf_from_int(whole[1]);
    return true;
}

/* The scales of dot products that begin at START_BITS. */
struct based_scales {
    vf scale[2], less; /* less: minus the first scale times START_BASE */
    bool scaled;
};

INLINE struct based_scales load_based_scales(struct traits t, struct group view, int part)
{
    struct based_scales scales = {{vf_set(0.0f), vf_set(0.0f)}, vf_set(0.0f), false};
    scales.scaled = load_float_scales(t, view, part, scales.scale);
    scales.less = vf_mul(scales.scale[0], vf_set(-(float)START_BASE));
    return scales;
}

/* A group's dot products, or those of its halves, scaled: exact but for NVFP4, whose scales are floats. */
INLINE vf scale_based(struct traits t, vi first, vi second, const struct based_scales *scales)
{
    const vf base = vf_set((float)START_BASE);
    vf out = take_as_float(first);
    if (t.dtype == KT_DTYPE_NVFP4)
        out = vf_mul(vf_sub(out, base), scales->scale[0]);
    else
        out = scales->scaled ? vf_fma(out, scales->scale[0], scales->less) : vf_sub(out, base);
    if (has_half_groups(t.dtype))
        out = vf_fma(vf_sub(take_as_float(second), base), scales->scale[1], out);
    return out;
}

/* ---- half panels of floats ---- */

/* Two columns of a float half panel. */
INLINE void load_floats(uint32_t dtype, const uint8_t *from, int part, vf w[2])
{
    if (dtype == KT_DTYPE_BF16) {
        vi both = vi_load(from + part * 4 * VEC_ROWS);
        w[0] = vf_from_bf16_even(both);
        w[1] = vf_from_bf16_odd(both);
    } else if (dtype == KT_DTYPE_F16) {
        w[0] = vf_from_half(from + part * 2 * VEC_ROWS);
        w[1] = vf_from_half(from + 2 * TILE_ROWS + part * 2 * VEC_ROWS);
    } else {
        w[0] = vf_load(from + part * 4 * VEC_ROWS);
        w[1] = vf_load(from + 4 * TILE_ROWS + part * 4 * VEC_ROWS);
    }
}

#endif
