/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dequantize.h - half panels to tiles of bfloat16 (bf16/layout_tmpl.h), with their scales, for many rows.
 * For sets whose vectors have all 16 rows. A weight is what llamafile_codes_dequantize makes of it, to the
 * bit, rounded once.
 */
#ifndef KT_PLUGINS_LLAMAFILE_DEQUANTIZE_H
#define KT_PLUGINS_LLAMAFILE_DEQUANTIZE_H

#include "plugins/llamafile/bring.h"
#include "plugins/llamafile/dots.h"
#include "plugins/llamafile/scale.h"

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

/* Byte i of each lane, less `zero`, as a weight. */
INLINE vf make_weight(struct traits t, vi codes, int i, vf zero, struct factors factors)
{
    vi shifted = i ? vi_shr32(codes, 8 * i) : codes;
    vf code = vf_from_int(i < 3 ? vi_and(shifted, vi_splat32(255)) : shifted);
    if (is_signed(t) || t.offset)
        code = vf_sub(code, zero);
    code = vf_mul(code, factors.scale);
    return has_minima(t.dtype) || has_offsets(t) ? vf_sub(code, factors.minimum) : code;
}

/* A group of 32 columns to a tile. */
INLINE void dequantize_group(struct traits t, const uint8_t *head, struct group group, uint8_t *to)
{
    const uint8_t *scales = group.scales;
    const unsigned g = group.g;
    const vf zero = vf_set(is_signed(t) ? 128.0f : (float)t.offset); /* see vi_signed_ready */
    const struct planes planes = load_planes(t, group, 0);
    UNROLL_FOR (unsigned half = 0; half < 2; half++) {
        struct factors factors = t.block == SUPERBLOCK ? find_factors_256(t, head, group, half)
                                                       : find_factors_32(t, scales, g, half);
        UNROLL_FOR (unsigned c = 2 * half; c < 2 * half + 2; c++) {
            vi w[2];
            decode_weights(t, group, &planes, (int)c, 0, w);
            UNROLL_FOR (int i = 0; i < 4; i++, to += 64)
                vi_store(to, vf_make_pairs(make_weight(t, w[i / 2], i % 2 * 2, zero, factors),
                                           make_weight(t, w[i / 2], i % 2 * 2 + 1, zero, factors)));
        }
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
