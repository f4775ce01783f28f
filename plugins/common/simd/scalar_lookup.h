/* SPDX-License-Identifier: Apache-2.0 */
/* simd/scalar_lookup.h - what panels of codes need of vectors, in plain C: each function says what the other
 * levels' must do. */
#ifndef KT_PLUGINS_COMMON_SIMD_SCALAR_LOOKUP_H
#define KT_PLUGINS_COMMON_SIMD_SCALAR_LOOKUP_H

#include "plugins/common/simd/scalar_int8.h"

/* Lanes to the right, by a constant. */
INLINE vi vi_shr32(vi v, int bits)
{
    for (int i = 0; i < 16; i++)
        v.u32[i] >>= bits;
    return v;
}

/* (v & mask) | bits */
INLINE vi vi_and_or(vi v, vi mask, vi bits)
{
    return vi_or(vi_and(v, mask), bits);
}

/* What is loaded here is not loaded again for each use: shifts would, and loads are what is scarce. */
INLINE vi vi_load_once(const void *from)
{
    return vi_load(from);
}

/* 2^(e - 127) of the 16 bytes at p; NaN for 255. */
INLINE vf vf_from_e8m0(const uint8_t *p, int part)
{
    (void)part;
    VF_EACH(e8m0_to_float(p[i]));
}

/* Two numbers a lane as bfloat16, the first one low, to nearest, ties to even. A NaN stays one if its
 * low 16 bits are 0, as those of bfloat16 are. */
INLINE vi vf_make_pairs(vf even, vf odd)
{
    vi pairs;
    for (int i = 0; i < 16; i++) {
        uint32_t low = float_to_bits(even.f[i]), high = float_to_bits(odd.f[i]);
        low += 0x7fff + (low >> 16 & 1);
        high += 0x7fff + (high >> 16 & 1);
        pairs.u32[i] = low >> 16 | (high & 0xffff0000);
    }
    return pairs;
}

/* A table of 16 bfloat16 whose first is 0. */
typedef struct {
    uint16_t value[16];
} lookup16;

INLINE lookup16 make_lookup16(const uint16_t *table)
{
    lookup16 lookup;
    memcpy(lookup.value, table, sizeof lookup.value);
    return lookup;
}

/* What the low 4 bits of each half stand for. */
INLINE vi vi_lookup16(lookup16 table, vi index)
{
    for (int i = 0; i < 16; i++)
        index.u32[i] = table.value[index.u32[i] & 15] | (uint32_t)table.value[index.u32[i] >> 16 & 15] << 16;
    return index;
}

#endif
