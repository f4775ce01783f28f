/* SPDX-License-Identifier: Apache-2.0 */
/* simd/avx512_points.h - weights that are points of a grid, and lines by columns, for AVX-512 (F, BW, VL,
 * DQ). simd/scalar_points.h says what each function does. */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_POINTS_H

#include "plugins/common/simd/avx512.h"
#include "plugins/common/simd/points.h"

#if VEC_GATHERS
INLINE __m512i load_numbers(struct numbers index)
{
    if (index.words)
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)index.words));
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)index.bytes));
}

INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (void)part;
    __m512i number = load_numbers(index);
    __m512i a = _mm512_i32gather_epi64(_mm512_castsi512_si256(number), points, 8);
    __m512i b = _mm512_i32gather_epi64(_mm512_extracti64x4_epi64(number, 1), points, 8);
    w[0] = _mm512_permutex2var_epi32(a, even, b);
    w[1] = _mm512_permutex2var_epi32(a, odd, b);
}

INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    (void)part;
    return _mm512_i32gather_epi32(load_numbers(index), points, 4);
}
#else
/* Broadcast loads are blended: only joining halves takes a shuffle, for which there is one port, while blends
 * have two. */
INLINE __m256i join_points8(const uint64_t *points, const unsigned number[4])
{
    __m256i v = _mm256_set1_epi64x((long long)points[number[0]]);
    UNROLL_FOR (int i = 1; i < 4; i++)
        v = _mm256_mask_blend_epi64((__mmask8)(1 << i), v, _mm256_set1_epi64x((long long)points[number[i]]));
    return v;
}

/* Rows first, first + 1, first + 4, first + 5, first + 8 ...: so that one shuffle within 128 bits puts all in
 * order. */
INLINE __m512 pick_points8(const uint64_t *points, struct numbers index, int first)
{
    unsigned number[8];
    UNROLL_FOR (int i = 0; i < 8; i++)
        number[i] = number_of(index, first + i + i / 2 * 2);
    __m512i low = _mm512_castsi256_si512(join_points8(points, number));
    return _mm512_castsi512_ps(_mm512_inserti64x4(low, join_points8(points, number + 4), 1));
}

INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    (void)part;
    __m512 a = pick_points8(points, index, 0), b = pick_points8(points, index, 2);
    w[0] = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88));
    w[1] = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd));
}

INLINE __m256i join_points4(const uint32_t *points, struct numbers index, int first)
{
    __m256i v = _mm256_set1_epi32((int)points[number_of(index, first)]);
    UNROLL_FOR (int i = 1; i < 8; i++)
        v = _mm256_mask_blend_epi32((__mmask8)(1 << i), v,
                                    _mm256_set1_epi32((int)points[number_of(index, first + i)]));
    return v;
}

INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    (void)part;
    return _mm512_inserti64x4(_mm512_castsi256_si512(join_points4(points, index, 0)),
                              join_points4(points, index, 8), 1);
}
#endif

INLINE vi vi_negate(vi w, vi bits, int bit)
{
    __mmask64 set = _mm512_test_epi8_mask(bits, vi_set_u8((uint8_t)(1u << bit)));
    return _mm512_mask_sub_epi8(w, set, _mm512_setzero_si512(), w);
}

INLINE vi vi_spread_bit(const uint8_t *p, int bit, int part)
{
    return _mm512_srai_epi32(_mm512_slli_epi32(vi_widen_u8(p, part), (unsigned)(31 - bit)), 31);
}

INLINE vi vi_add8(vi a, vi b)
{
    return _mm512_add_epi8(a, b);
}

INLINE vi vi_load_turned(const uint8_t *line, int part)
{
    const __m512i rows = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i turned =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    (void)part;
    vi v = _mm512_permutexvar_epi32(rows, _mm512_shuffle_epi8(vi_load(line), turned));
    return _mm512_shuffle_epi8(v, turned);
}

#endif
