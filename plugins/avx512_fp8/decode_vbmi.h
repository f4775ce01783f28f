/* SPDX-License-Identifier: Apache-2.0 */
/* decode_vbmi.h - codes to bfloat16 with AVX512_VBMI: each of its bytes is looked up in 128. */
#ifndef KT_PLUGINS_AVX512_FP8_DECODE_VBMI_H
#define KT_PLUGINS_AVX512_FP8_DECODE_VBMI_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/simd/simd.h"

#define SCALED_TABLES 1

/* Bytes of the numbers without their sign: the instruction takes 7 bits as index, so the sign is not
 * looked at there. */
struct decoder {
    __m512i low[2], high[2];
};

/* Of 128 bfloat16 in 4 vectors. */
INLINE struct decoder split_table(const __m512i *table)
{
    static const uint8_t even[64] = {
        0,  2,  4,  6,  8,  10, 12,  14,  16,  18,  20,  22,  24,  26,  28,  30,  32,  34,  36,  38,  40, 42,
        44, 46, 48, 50, 52, 54, 56,  58,  60,  62,  64,  66,  68,  70,  72,  74,  76,  78,  80,  82,  84, 86,
        88, 90, 92, 94, 96, 98, 100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126,
    };
    __m512i low = _mm512_loadu_si512(even), high = _mm512_or_si512(low, _mm512_set1_epi8(1));
    struct decoder decoder;
    UNROLL_FOR (int i = 0; i < 2; i++) {
        decoder.low[i] = _mm512_permutex2var_epi8(table[2 * i], low, table[2 * i + 1]);
        decoder.high[i] = _mm512_permutex2var_epi8(table[2 * i], high, table[2 * i + 1]);
    }
    return decoder;
}

INLINE struct decoder make_decoder(int encoding)
{
    __m512i table[4];
    (void)encoding;
    UNROLL_FOR (int i = 0; i < 4; i++)
        table[i] = _mm512_loadu_si512(bf16_of_codes + 32 * i);
    return split_table(table);
}

/* The same of numbers times scale. */
INLINE struct decoder make_scaled(float scale)
{
    __m512i table[4];
    UNROLL_FOR (int i = 0; i < 4; i++) {
        vf low = vf_mul(vf_from_bf16(bf16_of_codes + 32 * i), vf_set(scale));
        vf high = vf_mul(vf_from_bf16(bf16_of_codes + 32 * i + 16), vf_set(scale));
        table[i] = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    }
    return split_table(table);
}

/* The sign turns that of the table, which a scale below 0 makes negative. */
INLINE void decode(vi codes, const struct decoder *decoder, int encoding, vi *w)
{
    __m512i low = _mm512_permutex2var_epi8(decoder->low[0], codes, decoder->low[1]);
    __m512i high = _mm512_permutex2var_epi8(decoder->high[0], codes, decoder->high[1]);
    (void)encoding;
    high = _mm512_ternarylogic_epi32(high, codes, _mm512_set1_epi8(-128), 0x78);
    w[0] = _mm512_unpacklo_epi8(low, high);
    w[1] = _mm512_unpackhi_epi8(low, high);
}

#endif
