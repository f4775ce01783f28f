/* SPDX-License-Identifier: Apache-2.0 */
/* simd/avx512_points.h - weights that are points of a grid, and lines by columns, for AVX-512 (F, BW, VL,
 * DQ). simd/scalar_points.h says what each function does. */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_POINTS_H

#include "plugins/common/simd/avx512.h"
#include "plugins/common/simd/points.h"

/* Rows first, first + 1, first + 4, first + 5, first + 8 ...: so that one shuffle within 128 bits puts all in
 * order. */
INLINE __m512 pick_points8(const uint64_t *points, struct numbers index, int first)
{
    uint64_t point[8];
    UNROLL_FOR (int i = 0; i < 8; i++)
        point[i] = points[number_of(index, first + i + i / 2 * 2)];
    return _mm512_castsi512_ps(_mm512_setr_epi64((long long)point[0], (long long)point[1],
                                                 (long long)point[2], (long long)point[3],
                                                 (long long)point[4], (long long)point[5],
                                                 (long long)point[6], (long long)point[7]));
}

INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    (void)part;
    __m512 a = pick_points8(points, index, 0), b = pick_points8(points, index, 2);
    w[0] = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88));
    w[1] = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd));
}

INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    (void)part;
    int point[16];
    UNROLL_FOR (int i = 0; i < 16; i++)
        point[i] = (int)points[number_of(index, i)];
    return _mm512_setr_epi32(point[0], point[1], point[2], point[3], point[4], point[5], point[6], point[7],
                             point[8], point[9], point[10], point[11], point[12], point[13], point[14],
                             point[15]);
}

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
