/* SPDX-License-Identifier: Apache-2.0 */
/*
 * immintrin.h - found instead of the compiler's by the tests that run the kernels of AVX-512 and
 * AVX-VNNI on a CPU without them: SIMDe puts the same functions together from smaller ones.
 */
#ifndef KT_TESTS_SIMDE_IMMINTRIN_H
#define KT_TESTS_SIMDE_IMMINTRIN_H

#include_next <immintrin.h>
#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wpointer-arith"
#pragma GCC diagnostic ignored "-Wextra"
#include <simde/x86/avx512.h>
#pragma GCC diagnostic pop

/* What SIMDe 0.7 lacks or gets wrong. */
#undef _mm512_srai_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_max_epi32
#undef _mm512_cvtepi32_epi16
#undef _mm512_stream_si512
#undef _mm512_inserti32x4
#undef _mm256_dpbusd_avx_epi32
#undef _mm512_madd_epi16
#undef _mm512_cvtepi32_ps
#define _mm512_srai_epi32 model_srai_epi32
#define _mm512_cvtph_ps model_cvtph
#define _mm512_cvtepu16_epi32 model_cvtepu16_epi32
#define _mm512_max_epi32(a, b) simde_mm512_max_epi32((a), (b))
#define _mm512_cvtepi32_epi16 model_cvtepi32_epi16
#define _mm512_stream_si512(to, v) _mm512_storeu_si512((to), (v))
#define _mm512_inserti32x4 model_inserti32x4
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32
#define _mm512_cvtepi32_ps model_cvtepi32_ps
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16((a), (b))

static inline __m512i model_srai_epi32(__m512i v, int bits)
{
    __m256i x[2];
    _mm512_storeu_si512(x, v);
    x[0] = _mm256_srai_epi32(x[0], bits);
    x[1] = _mm256_srai_epi32(x[1], bits);
    return _mm512_loadu_si512(x);
}

static inline __m512 model_cvtph(__m256i half)
{
    float x[16];
    _mm256_storeu_ps(x, _mm256_cvtph_ps(_mm256_castsi256_si128(half)));
    _mm256_storeu_ps(x + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)));
    return _mm512_loadu_ps(x);
}

static inline __m512i model_cvtepu16_epi32(__m256i v)
{
    __m256i x[2] = { _mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                     _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)) };
    return _mm512_loadu_si512(x);
}

static inline __m256i model_cvtepi32_epi16(__m512i v)
{
    int x[16];
    short half[16];
    _mm512_storeu_si512(x, v);
    for (int i = 0; i < 16; i++)
        half[i] = (short)x[i];
    return _mm256_loadu_si256((const __m256i *)(const void *)half);
}

static inline __m512 model_cvtepi32_ps(__m512i v)
{
    int x[16];
    float y[16];
    _mm512_storeu_si512(x, v);
    for (int i = 0; i < 16; i++)
        y[i] = (float)x[i];
    return _mm512_loadu_ps(y);
}

static inline __m512i model_inserti32x4(__m512i v, __m128i quarter, int place)
{
    __m128i x[4];
    _mm512_storeu_si512(x, v);
    x[place] = quarter;
    return _mm512_loadu_si512(x);
}

#endif
