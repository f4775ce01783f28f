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

#endif
