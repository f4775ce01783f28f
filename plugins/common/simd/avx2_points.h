/* SPDX-License-Identifier: Apache-2.0 */
/* simd/avx2_points.h - weights that are points of a grid, and lines by columns, for AVX2.
 * simd/scalar_points.h says what each function does. */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX2_POINTS_H
#define KT_PLUGINS_COMMON_SIMD_AVX2_POINTS_H

#include "plugins/common/simd/avx2.h"
#include "plugins/common/simd/points.h"

/* The numbers of the 8 rows of `part`, four taken out of a register at once: loads are the limit, and points
 * need one each. Compilers take the upper two of four bytes from the first ones by two instructions each,
 * unless these are hidden from them; the constraint is for those registers whose second byte has a name. */
INLINE void take_numbers(struct numbers index, int part, uint64_t number[8])
{
    UNROLL_FOR (int i = 0; i < 8; i += 4) {
        if (index.words) {
            uint64_t four;
            memcpy(&four, index.words + 8 * part + i, 8);
            uint32_t low = (uint32_t)four, high = (uint32_t)(four >> 32);
            number[i] = (uint16_t)low;
            number[i + 1] = low >> 16;
            number[i + 2] = (uint16_t)high;
            number[i + 3] = high >> 16;
        } else {
            uint32_t four;
            memcpy(&four, index.bytes + 8 * part + i, 4);
            number[i] = (uint8_t)four;
            number[i + 1] = (uint8_t)(four >> 8);
            four >>= 16;
            __asm__("" : "+Q"(four));
            number[i + 2] = (uint8_t)four;
            number[i + 3] = four >> 8;
        }
    }
}

/* The points of four rows. */
INLINE __m256 join_points8(const double *a, const double *b, const double *c, const double *d)
{
    __m128d low = _mm_loadh_pd(_mm_load_sd(a), b), high = _mm_loadh_pd(_mm_load_sd(c), d);
    return _mm256_castpd_ps(_mm256_set_m128d(high, low));
}

INLINE void vi_points8(const uint64_t *points, struct numbers index, int part, vi w[2])
{
    const double *point = (const double *)(const void *)points;
    uint64_t n[8];
    take_numbers(index, part, n);
    __m256 a = join_points8(point + n[0], point + n[1], point + n[4], point + n[5]);
    __m256 b = join_points8(point + n[2], point + n[3], point + n[6], point + n[7]);
    w[0] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    w[1] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
}

/* Loads one by one: vpgatherdd takes longer. */
INLINE __m128i join_points4(const uint32_t *points, const uint64_t number[4])
{
    __m128i v = _mm_cvtsi32_si128((int)points[number[0]]);
    v = _mm_insert_epi32(v, (int)points[number[1]], 1);
    v = _mm_insert_epi32(v, (int)points[number[2]], 2);
    return _mm_insert_epi32(v, (int)points[number[3]], 3);
}

INLINE vi vi_points4(const uint32_t *points, struct numbers index, int part)
{
    uint64_t n[8];
    take_numbers(index, part, n);
    return _mm256_set_m128i(join_points4(points, n + 4), join_points4(points, n));
}

INLINE vi vi_negate(vi w, vi bits, int bit)
{
    vi set = _mm256_cmpgt_epi8(_mm256_setzero_si256(), vi_shl(bits, 7 - bit));
    return _mm256_sub_epi8(_mm256_xor_si256(w, set), set);
}

/* Signs are cheaper applied to activations: vpsignb takes them as they come, shifted to the top of each byte.
 */
#define VEC_TURNS

/* Bits 0 to 3 and 4 to 7 as the upper four of each byte: with bit 3 set no byte is 0 when the bit that counts
 * is shifted to its top. */
INLINE vi vi_turns_low(vi bits)
{
    return vi_or(vi_shl(vi_and(bits, vi_set_u8(15)), 4), vi_set_u8(8));
}

INLINE vi vi_turns_high(vi bits)
{
    return vi_or(vi_and(bits, vi_set_u8(0xf0)), vi_set_u8(8));
}

/* The sums of 8 columns of w, at most 64, with the other sign where bit `bit` of four is set, of the next 4
 * bit + 1. */
INLINE vdot vi_turned_dot(const vi w[2], vi turns, int bit, const int8_t *x)
{
    vi low = _mm256_sign_epi8(splat4(x), vi_shl(turns, 3 - bit));
    vi high = _mm256_sign_epi8(splat4(x + 4), bit == 2 ? turns : vi_shl(turns, 2 - bit));
    return _mm256_add_epi16(_mm256_maddubs_epi16(w[0], low), _mm256_maddubs_epi16(w[1], high));
}

INLINE vdot vi_dot_join(vdot a, vdot b)
{
    return _mm256_add_epi16(a, b);
}

INLINE vi vi_spread_bit(const uint8_t *p, int bit, int part)
{
    return _mm256_srai_epi32(_mm256_slli_epi32(vi_widen_u8(p, part), 31 - bit), 31);
}

INLINE vi vi_add8(vi a, vi b)
{
    return _mm256_add_epi8(a, b);
}

INLINE vi vi_load_turned(const uint8_t *line, int part)
{
    const __m128i order = _mm_add_epi8(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0),
                                       _mm_set1_epi8((char)(2 * part)));
    __m128i rows[4];
    UNROLL_FOR (int i = 0; i < 4; i++)
        rows[i] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(line + 16 * i)), order);
    rows[0] = _mm_unpacklo_epi8(rows[0], rows[1]);
    rows[2] = _mm_unpacklo_epi8(rows[2], rows[3]);
    return _mm256_set_m128i(_mm_unpackhi_epi16(rows[0], rows[2]), _mm_unpacklo_epi16(rows[0], rows[2]));
}

#endif
