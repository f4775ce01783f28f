/* SPDX-License-Identifier: Apache-2.0 */
/* simd/avx2_lookup.h - what panels of codes need of vectors, for AVX2. simd/scalar_lookup.h says what each
 * function does. */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX2_LOOKUP_H
#define KT_PLUGINS_COMMON_SIMD_AVX2_LOOKUP_H

#include "plugins/common/simd/avx2_int8.h"

INLINE vi vi_shr32(vi v, int bits)
{
    return _mm256_srli_epi32(v, bits);
}

INLINE vi vi_and_or(vi v, vi mask, vi bits)
{
    return vi_or(vi_and(v, mask), bits);
}

INLINE vi vi_load_once(const void *from)
{
    return vi_load(from);
}

INLINE vf vf_from_e8m0(const uint8_t *p, int part)
{
    __m256i e = vi_widen_u8(p, part);
    __m256i bits = _mm256_slli_epi32(e, 23);
    __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
    __m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
    bits = _mm256_or_si256(bits, _mm256_and_si256(zero, _mm256_set1_epi32(0x00400000)));
    return _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000))));
}

INLINE __m256i round_pairs(vf v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), lowest);
}

INLINE vi vf_make_pairs(vf even, vf odd)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(round_pairs(even), 16), round_pairs(odd), 0xaa);
}

/* Low and high bytes. */
typedef struct {
    __m256i low, high;
} lookup16;

INLINE lookup16 make_lookup16(const uint16_t *table)
{
    uint8_t low[16], high[16];
    for (int i = 0; i < 16; i++) {
        low[i] = (uint8_t)table[i];
        high[i] = (uint8_t)(table[i] >> 8);
    }
    return (lookup16){vi_table(low), vi_table(high)};
}

/* The high byte of a half is index 0, which stands for 0. */
INLINE vi vi_lookup16(lookup16 table, vi index)
{
    index = _mm256_and_si256(index, _mm256_set1_epi16(15));
    __m256i high = _mm256_slli_epi16(_mm256_shuffle_epi8(table.high, index), 8);
    return _mm256_or_si256(_mm256_shuffle_epi8(table.low, index), high);
}

#endif
