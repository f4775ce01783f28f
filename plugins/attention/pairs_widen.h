/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention/pairs_widen.h - keys and values of Q8_0 as pairs of bfloat16, in the order of a cache that holds
 * these. Parameters: those of simd/simd.h.
 */
#ifndef KT_PLUGINS_ATTENTION_PAIRS_WIDEN_H
#define KT_PLUGINS_ATTENTION_PAIRS_WIDEN_H

#include "plugins/attention/tiles.h"
#include "plugins/attention/unpack_tmpl.h"

#define WIDEN_AHEAD 2048 /* bytes: these loads are what reads memory */

/* A line of 16 times 4 codes: two of 16 pairs, `apart` bytes apart. */
INLINE void widen_line(const uint8_t *from, const vf scale[4], uint8_t *to, uint64_t apart)
{
    vi codes = vi_load(from);
    vf number[4];
    PREFETCH(from + WIDEN_AHEAD);
    UNROLL_FOR (unsigned k = 0; k < 4; k++)
        number[k] = vf_mul(vf_from_s8(codes, k), scale[k]);
    _mm512_storeu_si512(to, vf_make_pairs(number[0], number[1]));
    _mm512_storeu_si512(to + apart, vf_make_pairs(number[2], number[3]));
}

/* A block of 16 keys; their width is a multiple of KT_KV_GROUP. */
static NOINLINE void widen_keys(const struct kt_kv_place *place, const uint8_t *page, uint32_t block,
                                uint8_t *to)
{
    const uint32_t groups = place->field.width / KT_KV_GROUP;
    const uint8_t *from = page + block * key_block_size(&place->field);
    const uint8_t *scales = page + place->scales + (uint64_t)block * groups * (2 * LINE);
    for (uint32_t g = 0; g < groups; g++, scales += 2 * LINE) {
        const vf one = vf_from_half(scales), scale[4] = {one, one, one, one};
        for (uint32_t l = 0; l < KT_KV_GROUP / 4; l++, from += 64, to += 128)
            widen_line(from, scale, to, 64);
    }
}

/* The first `columns` of 32 values, those of token `first` of a page and after it; a multiple of 16. */
static NOINLINE void widen_values(const struct kt_kv_place *place, const uint8_t *page, uint32_t first,
                                  uint32_t columns, uint8_t *to)
{
    const uint64_t line = (uint64_t)place->field.width * 4, pair_line = (uint64_t)columns * 4;
    const uint8_t *from = page + first / 4 * line, *scales = page + place->scales + 2 * first;
    float scale[1024 / KT_KV_GROUP][STEP];
    for (uint32_t g = 0; g * KT_KV_GROUP < columns; g++, scales += 2 * KT_KV_PAGE)
        for (uint32_t t = 0; t < STEP; t += LINE)
            vf_store(scale[g] + t, vf_from_half(scales + 2 * t));
    for (uint32_t t = 0; t < STEP; t += 4, from += line, to += 2 * pair_line)
        for (uint32_t c = 0; c < columns; c += LINE) {
            const float *at = scale[c / KT_KV_GROUP] + t;
            const vf four[4] = {vf_splat(at), vf_splat(at + 1), vf_splat(at + 2), vf_splat(at + 3)};
            widen_line(from + c * 4, four, to + c * 4, pair_line);
        }
}

#endif
