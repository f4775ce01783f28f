/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx512_lookup.h - what panels of codes need of vectors, for AVX-512 (F, BW, VL, DQ), and where
 * VEC_BF16 is 1 for AVX512_BF16. simd/scalar_lookup.h says what each function does.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_LOOKUP_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_LOOKUP_H

#include "plugins/common/simd/avx512_int8.h"

INLINE vi vi_shr32(vi v, int bits)
{
    return _mm512_srli_epi32(v, (unsigned)bits);
}

/* With the constants as its other operands, the instruction overwrites nothing that must be copied. */
INLINE vi vi_and_or(vi v, vi mask, vi bits)
{
    return _mm512_ternarylogic_epi32(v, mask, bits, 0xea);
}

INLINE vi vi_load_once(const void *from)
{
    vi v = _mm512_loadu_si512(from);
#ifndef VEC_OUT_OF_LINE
    __asm__("" : "+v"(v));
#endif
    return v;
}

INLINE vf vf_from_e8m0(const uint8_t *p, int part)
{
    __m512i e = vi_widen_u8(p, part);
    __m512i bits = _mm512_slli_epi32(e, 23);
    __mmask16 zero = _mm512_testn_epi32_mask(e, e);
    __mmask16 nan = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
    bits = _mm512_mask_set1_epi32(bits, zero, 0x00400000);
    return _mm512_castsi512_ps(_mm512_mask_set1_epi32(bits, nan, 0x7fc00000));
}

#if VEC_BF16
/* The instruction puts all even columns before all odd ones. It makes subnormal numbers 0. */
INLINE vi vf_make_pairs(vf even, vf odd)
{
    static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(vi_load(order), (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}
#else
INLINE __m512i round_pairs(vf v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), lowest);
}

INLINE vi vf_make_pairs(vf even, vf odd)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(round_pairs(even), 16), round_pairs(odd));
}
#endif

/* Twice, since the instruction looks at 5 bits. */
typedef __m512i lookup16;

INLINE lookup16 make_lookup16(const uint16_t *table)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)table));
}

INLINE vi vi_lookup16(lookup16 table, vi index)
{
    return _mm512_permutexvar_epi16(index, table);
}

#endif
