/* SPDX-License-Identifier: Apache-2.0 */
/* simd/x86_int8.h - what simd/avx2_int8.h and simd/avx512_int8.h share. */
#ifndef KT_PLUGINS_COMMON_SIMD_X86_INT8_H
#define KT_PLUGINS_COMMON_SIMD_X86_INT8_H

#include "plugins/common/simd/x86.h"

/* vpsadbw adds unsigned bytes: of q + 128. */
INLINE int32_t vec_sum32(const int8_t *q)
{
    __m256i codes = _mm256_xor_si256(_mm256_loadu_si256((const void *)q), _mm256_set1_epi8(-128));
    __m256i sums = _mm256_sad_epu8(codes, _mm256_setzero_si256());
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2) - 32 * 128;
}

INLINE void vec_stream_end(void)
{
    _mm_sfence();
}

INLINE void vec_part_halves(const uint8_t *line, uint8_t *to)
{
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    __m128i r[4];
    UNROLL_FOR (int i = 0; i < 4; i++)
        r[i] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(line + 16 * i)), order);
    UNROLL_FOR (int i = 0; i < 2; i++) {
        _mm_storeu_si128((__m128i *)(void *)(to + 16 * i), _mm_unpacklo_epi64(r[2 * i], r[2 * i + 1]));
        _mm_storeu_si128((__m128i *)(void *)(to + 16 * i + 32), _mm_unpackhi_epi64(r[2 * i], r[2 * i + 1]));
    }
}

/* Bytes of 4 rows in order, then 4 by 4 of these turned. */
INLINE void vec_part_bytes(const uint8_t *line, uint8_t *to)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m128i r[4], s[4];
    UNROLL_FOR (int i = 0; i < 4; i++)
        r[i] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(line + 16 * i)), order);
    s[0] = _mm_unpacklo_epi32(r[0], r[1]);
    s[1] = _mm_unpackhi_epi32(r[0], r[1]);
    s[2] = _mm_unpacklo_epi32(r[2], r[3]);
    s[3] = _mm_unpackhi_epi32(r[2], r[3]);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi64(s[0], s[2]));
    _mm_storeu_si128((__m128i *)(void *)(to + 16), _mm_unpackhi_epi64(s[0], s[2]));
    _mm_storeu_si128((__m128i *)(void *)(to + 32), _mm_unpacklo_epi64(s[1], s[3]));
    _mm_storeu_si128((__m128i *)(void *)(to + 48), _mm_unpackhi_epi64(s[1], s[3]));
}

#endif
