/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx512_groups.h - 256 numbers as 16 half groups of 16, one in each lane of a vector: what is computed
 * of a group takes as many instructions for all of them as for one. Both lanes of a group of 32 may be the
 * same.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_GROUPS_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_GROUPS_H

#include "plugins/common/simd/avx512_int8.h"

#define VEC_GROUPS

/* ---- lanes of 16 vectors to one lane each ---- */

/* Quarters of two vectors. */
#define QUARTERS(a, b, which) \
    _mm512_castsi512_ps(_mm512_shuffle_i32x4(_mm512_castps_si512(a), _mm512_castps_si512(b), which))

/* Steps of it: halves of two vectors, quarters, and the two last ones of each quarter. */
INLINE vf vf_first_parts(int step, vf a, vf b)
{
    switch (step) {
    case 0:
        return QUARTERS(a, b, 0x44);
    case 1:
        return QUARTERS(a, b, 0x88);
    case 2:
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    default:
        return _mm512_shuffle_ps(a, b, 0x88);
    }
}

INLINE vf vf_second_parts(int step, vf a, vf b)
{
    switch (step) {
    case 0:
        return QUARTERS(a, b, 0xee);
    case 1:
        return QUARTERS(a, b, 0xdd);
    case 2:
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    default:
        return _mm512_shuffle_ps(a, b, 0xdd);
    }
}

/* How lanes are brought together. */
enum together { ADD_FLOATS, LARGEST_FLOAT, ADD_INT16 };

INLINE vf vf_together(enum together how, int step, vf a, vf b)
{
    const vf first = vf_first_parts(step, a, b), second = vf_second_parts(step, a, b);
    if (how == ADD_FLOATS)
        return _mm512_add_ps(first, second);
    const vi ints[2] = {_mm512_castps_si512(first), _mm512_castps_si512(second)};
    return _mm512_castsi512_ps(how == ADD_INT16 ? _mm512_add_epi16(ints[0], ints[1])
                                                : _mm512_max_epi32(ints[0], ints[1])); /* without sign */
}

/* Lane i: all of v[i], in the order of vec_abs_sum16. */
INLINE vf vf_lanes_together(enum together how, const vf v[16])
{
    vf quarters[4];
    UNROLL_FOR (int i = 0; i < 4; i++)
        quarters[i] = vf_together(how, 1, vf_together(how, 0, v[i], v[i + 4]),
                                  vf_together(how, 0, v[i + 8], v[i + 12]));
    return vf_together(how, 3, vf_together(how, 2, quarters[0], quarters[1]),
                       vf_together(how, 2, quarters[2], quarters[3]));
}

/* ---- both lanes of a group, and all lanes ---- */

/* As vf_swap: lanes 0 and 1 change places, 2 and 3, ... */
INLINE vi vi_swap(vi v)
{
    return _mm512_castps_si512(vf_swap(_mm512_castsi512_ps(v)));
}

/* Lane 0 of each 4 to all of them: what the first of two groups has. */
INLINE vi vi_first_of_4(vi v)
{
    return _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(v), _mm512_castsi512_ps(v), 0x00));
}

/* The largest lane, in all. */
INLINE vf vf_largest(vf v)
{
    v = _mm512_max_ps(v, QUARTERS(v, v, 0x4e));
    v = _mm512_max_ps(v, QUARTERS(v, v, 0xb1));
    v = _mm512_max_ps(v, _mm512_shuffle_ps(v, v, 0x4e));
    return _mm512_max_ps(v, vf_swap(v));
}

INLINE float vf_lowest_lane(vf v)
{
    return _mm_cvtss_f32(_mm512_castps512_ps128(v));
}

/* v, and 0 where bits of `clear` are set. */
INLINE vf vf_clear(uint32_t clear, vf v)
{
    return _mm512_maskz_mov_ps((__mmask16)~clear, v);
}

INLINE vi vi_add16(vi a, vi b)
{
    return _mm512_add_epi16(a, b);
}

INLINE vi vi_minus16(vi v)
{
    return _mm512_sub_epi16(_mm512_setzero_si512(), v);
}

/* To the next integer; v within 2^22. */
INLINE vf vf_round_up(vf v)
{
    const vf magic = _mm512_set1_ps(12582912.0f);
    vf near = _mm512_sub_ps(_mm512_add_ps(v, magic), magic);
    return _mm512_mask_add_ps(near, _mm512_cmp_ps_mask(near, v, _CMP_LT_OQ), near, _mm512_set1_ps(1.0f));
}

/* Of whole numbers within 2^22. */
INLINE vi vi_from_whole(vf v)
{
    const vf magic = _mm512_set1_ps(12582912.0f);
    return _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(v, magic)), _mm512_castps_si512(magic));
}

/* ---- 256 numbers ---- */

/* Of each half group the sum of |x| * factor, and the largest |x|. */
INLINE void vf_measure_halves(const float *x, float factor, vf *sums, vf *largest)
{
    const vi mask = _mm512_set1_epi32(0x7fffffff);
    vf sizes[16], scaled[16];
    UNROLL_FOR (int i = 0; i < 16; i++) {
        sizes[i] = _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(x + 16 * i), mask));
        scaled[i] = _mm512_mul_ps(sizes[i], _mm512_set1_ps(factor));
    }
    *sums = vf_lanes_together(ADD_FLOATS, scaled);
    *largest = vf_lanes_together(LARGEST_FLOAT, sizes);
}

/* As vec_quantize32, each half group by its own scale. */
INLINE void vec_quantize_halves(const float *x, vf scales, int8_t *q)
{
    _Alignas(64) float scale[16];
    const vf magic = _mm512_set1_ps(12582912.0f);
    _mm512_store_ps(scale, scales);
    UNROLL_FOR (int i = 0; i < 16; i++) {
        vf sum = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), _mm512_set1_ps(scale[i])), magic);
        vi whole = _mm512_sub_epi32(_mm512_castps_si512(sum), _mm512_castps_si512(magic));
        _mm_storeu_si128((__m128i *)(void *)(q + 16 * i), _mm512_cvtsepi32_epi8(whole));
    }
}

/* Of each half group two int16: sums of q at places 0 and 1 of 4, and 2 and 3. */
INLINE vi vi_pair_sums_halves(const int8_t *q)
{
    const vi turned = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    vf pairs[4];
    UNROLL_FOR (int i = 0; i < 4; i++)
        pairs[i] =
            _mm512_castsi512_ps(_mm512_maddubs_epi16(_mm512_set1_epi8(1), _mm512_loadu_si512(q + 64 * i)));
    vf sums = vf_together(ADD_INT16, 3, vf_together(ADD_INT16, 2, pairs[0], pairs[1]),
                          vf_together(ADD_INT16, 2, pairs[2], pairs[3]));
    return _mm512_permutexvar_epi32(turned, _mm512_castps_si512(sums));
}

/* Both int16 of each lane added up. */
INLINE vi vi_add_pairs16(vi v)
{
    return _mm512_madd_epi16(v, _mm512_set1_epi16(1));
}

/* ---- what lanes become in memory ---- */

/* 16 int16. */
INLINE void vi_store_int16(void *p, vi v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtsepi32_epi16(v));
}

/* Lanes 0, 2, 4, ... first. */
INLINE vi vi_even_first(vi v)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0), v);
}

/* Those 8 lanes; as 8 bytes. */
INLINE void vi_store_even(void *p, vi v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_castsi512_si256(vi_even_first(v)));
}

INLINE void vf_store_even(void *p, vf v)
{
    vi_store_even(p, _mm512_castps_si512(v));
}

INLINE void vi_store_even_bytes(void *p, vi v)
{
    _mm_storel_epi64((__m128i *)p, _mm512_cvtsepi32_epi8(vi_even_first(v)));
}

/* Lanes 0, 1 of a, then those of b, lanes 2, 3, ...: 8 times 16 bytes. */
INLINE void vi_store_twos(void *p, vi a, vi b)
{
    const vi first = _mm512_setr_epi32(0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    const vi second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_si512(p, _mm512_permutex2var_epi32(a, first, b));
    _mm512_storeu_si512((uint8_t *)p + 64, _mm512_permutex2var_epi32(a, second, b));
}

/* Even lanes of a, odd ones of b. */
INLINE vi vi_even_odd(vi a, vi b)
{
    return _mm512_mask_blend_epi32(0xaaaa, a, b);
}

#endif
