/* SPDX-License-Identifier: Apache-2.0 */
/* simd/avx2_points.h - weights that are points of a grid, or digits of base 3, for AVX2. simd/scalar_points.h
 * says what each function does. */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX2_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_AVX2_POINTS_H

#include "plugins/common/simd/avx2.h"
#include "plugins/common/simd/points.h"

/* Rows first, first + 1, first + 4 and first + 5. Loads one by one: vpgatherdd takes twice as long. Blends
 * take any port, inserts one of two. */
INLINE __m256 pick_points8(const uint64_t *points, struct numbers index, int first)
{
    __m256d v[4];
    UNROLL_FOR (int i = 0; i < 4; i++) {
        const uint64_t *point = points + number_of(index, first + i + i / 2 * 2);
        v[i] = _mm256_broadcast_sd((const double *)(const void *)point);
    }
    v[0] = _mm256_blend_pd(v[0], v[1], 0xa);
    v[2] = _mm256_blend_pd(v[2], v[3], 0xa);
    return _mm256_castpd_ps(_mm256_blend_pd(v[0], v[2], 0xc));
}

INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    __m256 a = pick_points8(points, index, 8 * part), b = pick_points8(points, index, 8 * part + 2);
    w[0] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    w[1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
}

INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    __m256 v[8];
    uint64_t n = 0; /* half of the numbers are taken out of a register, since loads are the limit */
    if (index.words)
        memcpy(&n, index.words + 8 * part + 4, 8);
    else
        memcpy(&n, index.bytes + 8 * part + 4, 4);
    UNROLL_FOR (int i = 0; i < 8; i++) {
        unsigned number = i < 4         ? number_of(index, 8 * part + i)
                          : index.words ? (unsigned)(n >> 16 * (i % 4) & 0xffff)
                                        : (unsigned)(n >> 8 * (i % 4) & 0xff);
        v[i] = _mm256_broadcast_ss((const float *)(const void *)(points + number));
    }
    v[0] = _mm256_blend_ps(v[0], v[1], 0xaa);
    v[2] = _mm256_blend_ps(v[2], v[3], 0xaa);
    v[4] = _mm256_blend_ps(v[4], v[5], 0xaa);
    v[6] = _mm256_blend_ps(v[6], v[7], 0xaa);
    v[0] = _mm256_blend_ps(v[0], v[2], 0xcc);
    v[4] = _mm256_blend_ps(v[4], v[6], 0xcc);
    return _mm256_castps_si256(_mm256_blend_ps(v[0], v[4], 0xf0));
}

INLINE vi vi_negate(vi w, vi bits, int bit)
{
    vi set = _mm256_cmpgt_epi8(_mm256_setzero_si256(), vi_shl(bits, 7 - bit));
    return _mm256_sub_epi8(_mm256_xor_si256(w, set), set);
}

/* Signs are cheaper applied to activations: vpsignb takes them as they come, shifted to the top of each byte.
 */
#define VEC_TURNS

/* Adds 8 columns of w, at most 64, with the other sign where bit `bit` is set, of the next 4 bit + 1. */
INLINE vi vi_turned_add(vi sum, const vi w[2], vi bits, int bit, const int8_t *x)
{
    vi one = vi_set_u8(1);
    vi low = _mm256_sign_epi8(splat4(x), vi_or(vi_shl(bits, 7 - bit), one));
    vi high = _mm256_sign_epi8(splat4(x + 4), vi_or(vi_shl(bits, 6 - bit), one));
    vi pair = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], low), _mm256_maddubs_epi16(w[1], high));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pair, _mm256_set1_epi16(1)));
}

INLINE vi vi_spread_bit(const uint8_t *p, int bit, int part)
{
    return _mm256_srai_epi32(_mm256_slli_epi32(vi_widen_u8(p, part), 31 - bit), 31);
}

INLINE vi vi_add8(vi a, vi b)
{
    return _mm256_add_epi8(a, b);
}

/* With 128 less, bytes can be compared as signed numbers; times 3 they still have 128 less. Times 3 a byte
 * leaves 8 bits from 86 on, and 9 from 171 on. */
INLINE vi vi_trits_ready(vi v)
{
    return _mm256_xor_si256(v, _mm256_set1_epi8(-128));
}

INLINE vi vi_take_trit(vi *state)
{
    vi v = *state;
    vi one = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(85 - 128)),
       two = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(170 - 128));
    *state = _mm256_add_epi8(v, _mm256_add_epi8(v, v));
    return _mm256_sub_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), one), two);
}

#endif
