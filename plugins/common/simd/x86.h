/* SPDX-License-Identifier: Apache-2.0 */
/* simd/x86.h - what simd/avx2.h and simd/avx512.h share. */
#ifndef KT_PLUGINS_COMMON_SIMD_X86_H
#define KT_PLUGINS_COMMON_SIMD_X86_H

#include "plugins/common/simd/numbers.h"
#include "plugins/common/simd/attributes.h"

#include <immintrin.h>

/* Byte `row` of the 16 goes to both int16 of its lane: as their low bytes, or as the high ones. */
#define SPREAD_LOW(a) a, -1, a, -1, a + 1, -1, a + 1, -1, a + 2, -1, a + 2, -1, a + 3, -1, a + 3, -1
#define SPREAD_HIGH(a) -1, a, -1, a, -1, a + 1, -1, a + 1, -1, a + 2, -1, a + 2, -1, a + 3, -1, a + 3

/* Eight times the same byte. */
#define OCTET(a) a, a, a, a, a, a, a, a

/* ---- quantizing 32 activations: 256 bits on AVX-512 too; it takes too little time to matter ---- */

INLINE uint32_t vec_absmax32(const float *x)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_and_si256(_mm256_loadu_si256((const void *)x), mask);
    UNROLL_FOR (int i = 1; i < 4; i++)
        max = _mm256_max_epi32(max, _mm256_and_si256(_mm256_loadu_si256((const void *)(x + 8 * i)), mask));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* The sum of |x| * factor of 16 numbers. */
INLINE float vec_abs_sum16(const float *x, float factor)
{
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 low = _mm256_mul_ps(_mm256_and_ps(_mm256_loadu_ps(x), mask), _mm256_set1_ps(factor));
    __m256 high = _mm256_mul_ps(_mm256_and_ps(_mm256_loadu_ps(x + 8), mask), _mm256_set1_ps(factor));
    __m256 both = _mm256_add_ps(low, high);
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

/* The largest of |x0 + x1| * two and (|x0| + |x1| + |x4| + |x5|) * four, where x0 stands at an even place of
 * each 4 and x4 four further on, in the same 8. */
INLINE float vec_abs_fours32(const float *x, float two, float four)
{
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 most = _mm256_setzero_ps();
    UNROLL_FOR (int i = 0; i < 4; i++) {
        __m256 v = _mm256_loadu_ps(x + 8 * i), pairs = _mm256_mul_ps(v, _mm256_set1_ps(two));
        __m256 sums = _mm256_mul_ps(_mm256_and_ps(v, mask), _mm256_set1_ps(four));
        pairs = _mm256_and_ps(_mm256_add_ps(pairs, _mm256_permute_ps(pairs, 0xb1)), mask);
        sums = _mm256_add_ps(sums, _mm256_permute_ps(sums, 0xb1));
        sums = _mm256_add_ps(sums, _mm256_permute2f128_ps(sums, sums, 1));
        most = _mm256_max_ps(most, _mm256_max_ps(pairs, sums));
    }
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    max = _mm_max_ps(max, _mm_movehl_ps(max, max));
    return _mm_cvtss_f32(_mm_max_ss(max, _mm_movehdup_ps(max)));
}

/* As vec_absmax32 of n bfloat16, a multiple of 64. Without their sign they are ordered like integers. */
INLINE uint32_t vec_absmax_bf16(const uint8_t *from, uint64_t n)
{
    const __m256i mask = _mm256_set1_epi16(0x7fff);
    __m256i max[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                      _mm256_setzero_si256()};
    for (uint64_t c = 0; c < n; c += 64) {
        UNROLL_FOR (unsigned i = 0; i < 4; i++) {
            __m256i x = _mm256_loadu_si256((const void *)(from + 2 * c + 32 * i));
            max[i] = _mm256_max_epu16(max[i], _mm256_and_si256(x, mask));
        }
    }
    max[0] = _mm256_max_epu16(_mm256_max_epu16(max[0], max[1]), _mm256_max_epu16(max[2], max[3]));
    __m128i m = _mm_max_epu16(_mm256_castsi256_si128(max[0]), _mm256_extracti128_si256(max[0], 1));
    m = _mm_minpos_epu16(_mm_xor_si128(m, _mm_set1_epi16(-1)));
    return (~(uint32_t)_mm_cvtsi128_si32(m) & 0xffff) << 16;
}

/* 64 int8 q to q + 128. */
INLINE void vec_flip64(int8_t *q)
{
    UNROLL_FOR (int i = 0; i < 64; i += 32) {
        __m256i codes = _mm256_loadu_si256((const void *)(q + i));
        codes = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
        _mm256_storeu_si256((__m256i *)(void *)(q + i), codes);
    }
}

/* Adding 1.5 * 2^23 rounds to an integer in the low bits, with ties to even whatever the rounding
 * instructions of other levels do. */
INLINE void vec_quantize32(const float *x, float scale, int8_t *q)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f);
    __m256i whole[4];
    UNROLL_FOR (int i = 0; i < 4; i++) {
        __m256 sum = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(scale)), magic);
        whole[i] = _mm256_sub_epi32(_mm256_castps_si256(sum), _mm256_castps_si256(magic));
    }
    /* packs work in halves of 16 bytes: the permutation puts the fours in order */
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)q, bytes);
}

/* 64 bfloat16 to q + 128, which is what the low half of a sum holds. */
INLINE void vec_codes64_bf16(const uint8_t *from, float scale, uint8_t *codes)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f + 128.0f), scales = _mm256_set1_ps(scale);
    const __m256i high = _mm256_set1_epi32((int)0xffff0000);
    UNROLL_FOR (int i = 0; i < 64; i += 32) {
        __m256i pair[2];
        UNROLL_FOR (int j = 0; j < 2; j++) {
            __m256i x = _mm256_loadu_si256((const void *)(from + 2 * (i + 16 * j)));
            __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
            __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(x, high));
            even = _mm256_add_ps(_mm256_mul_ps(even, scales), magic);
            odd = _mm256_add_ps(_mm256_mul_ps(odd, scales), magic);
            pair[j] = _mm256_blend_epi16(_mm256_castps_si256(even),
                                         _mm256_slli_epi32(_mm256_castps_si256(odd), 16), 0xaa);
        }
        __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(pair[0], pair[1]), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(codes + i), bytes);
    }
}

INLINE void vec_pair_sums32(const int8_t *q, int16_t *pair)
{
    __m256i sums = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const void *)q));
    sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xb1));
    int32_t low = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums));
    int32_t high = _mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1));
    memcpy(pair, &low, 4);
    memcpy(pair + 2, &high, 4);
}

/* For each 8 of 32: factor times the sums of those at places 0, 1, 4, 5 and 2, 3, 6, 7. */
INLINE void vec_four_sums32(const int8_t *q, int16_t factor, int16_t sums[8])
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const void *)q));
    __m256i fours = _mm256_add_epi16(pairs, _mm256_srli_epi64(pairs, 32));
    fours = _mm256_mullo_epi16(fours, _mm256_set1_epi16(factor));
    fours = _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0));
    _mm_storeu_si128((__m128i *)(void *)sums, _mm256_castsi256_si128(fours));
}

#endif
