/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dequantize.h - half panels to tiles of bfloat16 (bf16/layout_tmpl.h), with their scales, for many rows.
 * For sets whose vectors have all 16 rows.
 *
 * Parameter  EXPANDS_CODES  if defined: by simd/avx512_expand.h. Of formats with minima, what is added to a
 *                           scaled code is rounded then: by 2^-16 of the scale and 2^-24 of the minimum at
 *                           most. Else a weight is what llamafile_codes_dequantize makes of it, to the bit,
 *                           rounded once
 */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_DEQUANTIZE_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_DEQUANTIZE_H

#include "plugins/llamafile/multiply/prefetch.h"
#include "plugins/llamafile/multiply/dots.h"

#ifdef EXPANDS_CODES
#include "plugins/common/simd/avx512_expand.h"
#endif

#if VEC_PARTS != 1
#error "llamafile/dequantize.h: wants a set of vectors with all 16 rows in one: scalar or avx512"
#endif

/* Weights of half a group are code * scale - minimum. */
struct factors {
    vf scale, minimum;
};

INLINE struct factors find_factors_256(struct traits t, const uint8_t *head, struct group group,
                                       unsigned half)
{
    const uint8_t *scales = group.scales;
    const unsigned g = group.g;
    struct factors factors = {vf_from_half(head), vf_set(0.0f)};
    vi scale[2];
    if (format_unit(t.dtype) != 1.0f)
        factors.scale = vf_mul(factors.scale, vf_set(format_unit(t.dtype)));
    if (t.scale_bytes && !has_trits(t)) {
        load_scale(t, group, 0, scale);
        factors.scale = vf_mul(factors.scale, vf_from_int(scale[has_half_groups(t.dtype) ? half : 0]));
    }
    if (has_minima(t.dtype)) {
        vf minimum = t.dtype == KT_DTYPE_Q2_K ? vf_from_high4(scales + 16 * (2 * g + half), 0)
                                              : vf_from_int(vi_widen_u8(scales + 128 + 16 * g, 0));
        factors.minimum = vf_mul(vf_from_half(head + 2 * TILE_ROWS), minimum);
    }
    return factors;
}

INLINE struct factors find_factors_32(struct traits t, const uint8_t *scales, unsigned g, unsigned half)
{
    struct factors factors = {load_d(t, scales, g, 0), vf_set(0.0f)};
    if (t.dtype == KT_DTYPE_NVFP4)
        factors.scale = vf_from_half(scales + (4 * g + 2 * half) * TILE_ROWS);
    if (has_offsets(t))
        factors.minimum = vf_sub(vf_set(0.0f), vf_from_half(scales + (4 * g + 2) * TILE_ROWS));
    return factors;
}

/* What codes are taken from before they are scaled: see vi_signed_ready. */
INLINE float find_zero(struct traits t)
{
    return is_signed(t) ? 128.0f : (float)t.offset;
}

#ifdef EXPANDS_CODES
/* Bits of a code, and where it is brought to in a float32's fraction. */
#define CODE_BITS(t) (is_signed(t) ? 8u : 7u)
#define CODE_PLACE(t) (23 - CODE_BITS(t))

/* What is added to (code + CODE_BASE(bit)) * scale. */
INLINE vf find_offset(struct traits t, struct factors factors, unsigned bit)
{
    vf offset = vf_mul(vf_set(-CODE_BASE(bit) - find_zero(t)), factors.scale);
    return has_minima(t.dtype) || has_offsets(t) ? vf_sub(offset, factors.minimum) : offset;
}

/* 8 columns of nibbles as they lie, or of bytes, to 4 lines. */
INLINE void dequantize_nibbles(struct traits t, vi codes, struct factors factors, uint8_t *to)
{
    const vf offset[2] = {find_offset(t, factors, NIBBLE_LOW), find_offset(t, factors, NIBBLE_HIGH)};
    UNROLL_FOR (unsigned i = 0; i < 4; i++, to += 64) {
        vf w[2];
        UNROLL_FOR (unsigned odd = 0; odd < 2; odd++)
            w[odd] = vf_fma(vf_nibble(codes, i % 2 * 4 + i / 2 + 2 * odd), factors.scale, offset[i / 2]);
        vi_store(to, vf_round_pairs(w[0], w[1]));
    }
}

INLINE void dequantize_bytes(struct traits t, const vi codes[2], struct factors factors, uint8_t *to)
{
    const unsigned bit = CODE_PLACE(t);
    const vf offset = find_offset(t, factors, bit);
    UNROLL_FOR (unsigned i = 0; i < 4; i++, to += 64) {
        vf w[2];
        UNROLL_FOR (unsigned odd = 0; odd < 2; odd++)
            w[odd] = vf_fma(vf_code(vi_move(codes[i / 2], 8 * (i % 2 * 2 + odd), bit), bit, CODE_BITS(t)),
                            factors.scale, offset);
        vi_store(to, vf_round_pairs(w[0], w[1]));
    }
}

INLINE bool has_plain_nibbles(struct traits t)
{
    return t.bits == 4 && !has_points(t) && !has_trits(t) && !find_values(t) && !is_signed(t);
}

INLINE struct factors quiet_factors(struct factors factors)
{
    return (struct factors){vf_quiet(factors.scale), vf_quiet(factors.minimum)};
}
#else
/* Byte i of each lane, less `zero`, as a weight. */
INLINE vf make_weight(struct traits t, vi codes, int i, struct factors factors)
{
    vi shifted = i ? vi_shr32(codes, 8 * i) : codes;
    vf code = vf_from_int(i < 3 ? vi_and(shifted, vi_splat32(255)) : shifted);
    if (is_signed(t) || t.offset)
        code = vf_sub(code, vf_set(find_zero(t)));
    code = vf_mul(code, factors.scale);
    return has_minima(t.dtype) || has_offsets(t) ? vf_sub(code, factors.minimum) : code;
}

INLINE void dequantize_bytes(struct traits t, const vi codes[2], struct factors factors, uint8_t *to)
{
    UNROLL_FOR (int i = 0; i < 4; i++, to += 64)
        vi_store(to, vf_make_pairs(make_weight(t, codes[i / 2], i % 2 * 2, factors),
                                   make_weight(t, codes[i / 2], i % 2 * 2 + 1, factors)));
}

#define has_plain_nibbles(t) false
#define dequantize_nibbles(...) (void)0
#define quiet_factors(factors) (factors)
#endif

/* A group of 32 columns to a tile. */
INLINE void dequantize_group(struct traits t, const uint8_t *head, struct group group, uint8_t *to)
{
    const struct planes planes = load_planes(t, group, 0);
    struct factors factors[2];
    UNROLL_FOR (unsigned half = 0; half < 2; half++) {
        factors[half] = t.block == SUPERBLOCK ? find_factors_256(t, head, group, half)
                                              : find_factors_32(t, group.scales, group.g, half);
        factors[half] = half && !has_half_groups(t.dtype) ? factors[0] : quiet_factors(factors[half]);
    }
    UNROLL_FOR (unsigned c = 0; c < 4; c++, to += 4 * 64) {
        vi w[2];
        if (has_plain_nibbles(t)) {
            dequantize_nibbles(t, vi_load(group.codes + 64 * c), factors[c / 2], to);
            continue;
        }
        decode_weights(t, group, &planes, (int)c, 0, w);
        dequantize_bytes(t, w, factors[c / 2], to);
    }
}

/* The half panel's groups begin..stop-1; `distance`: of prefetches, 0: the half panel is in a cache. */
INLINE void dequantize_quants(struct traits t, uint64_t distance, const uint8_t *half_panel, uint64_t k,
                              uint64_t begin, uint64_t stop, uint8_t *to)
{
    const uint64_t scales_step = size_scales(t, 8) + size_groups(t, 8);
    for (uint64_t i = begin; i < stop; i++, to += PAIR_SIZE) {
        uint64_t s = i / 8, left = k / GROUP - 8 * s;
        const uint8_t *scales = half_panel + s * scales_step + heads_size(t.head_bytes, s);
        const uint8_t *heads = scales + size_scales(t, left < 8 ? left : 8), *head = heads;
        const uint8_t *group = heads + size_heads(t, s) + size_groups(t, i % 8);
        if (t.head_bytes && size_heads(t, s) == 0) /* the second of a pair */
            head = heads - scales_step - 64 + t.head_bytes * TILE_ROWS;
        bring(group, distance, t.bits);
        struct found found;
        struct group view = {.codes = group, .scales = scales, .g = (unsigned)(i % 8), .found = &found};
        if (t.compact && i % 8 < compact_coded(t.dtype)) {
            find_points(make_coded(t), view, &found);
            dequantize_group(make_coded(t), head, view, to);
        } else {
            find_points(t, view, &found);
            dequantize_group(t, head, view, to);
        }
    }
}

/* Columns behind the last are 0. */
INLINE void dequantize_floats(uint32_t dtype, uint64_t distance, const uint8_t *half_panel, uint64_t k,
                              uint64_t begin, uint64_t stop, uint8_t *to)
{
    const unsigned step = dtype == KT_DTYPE_F32 ? 128 : 64; /* of two columns */
    for (uint64_t c = begin * TILE_COLUMNS; c < stop * TILE_COLUMNS; c += 2) {
        const uint8_t *from = half_panel + c / 2 * step;
        uint8_t *line = to + (c / TILE_COLUMNS - begin) * PAIR_SIZE + c % TILE_COLUMNS / 2 * 64;
        vi pairs = vi_splat32(0);
        bring(from, distance, 1);
        if (c < k && dtype == KT_DTYPE_BF16) {
            pairs = vi_load(from);
        } else if (c < k) {
            vf w[2];
            load_floats(dtype, from, 0, w);
            pairs = vf_make_pairs(w[0], w[1]);
        }
        vi_store(line, pairs);
    }
}

#endif
