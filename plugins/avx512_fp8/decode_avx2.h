/* SPDX-License-Identifier: Apache-2.0 */
/* decode_avx2.h - codes to bfloat16 with AVX2, and the vectors of shifted_tmpl.h. */
#ifndef KT_PLUGINS_AVX512_FP8_DECODE_AVX2_H
#define KT_PLUGINS_AVX512_FP8_DECODE_AVX2_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/simd/simd.h"

#define SCALED_TABLES 0

/* What turns a number's bits into those of a subnormal one, by its last 3 bits. */
struct decoder {
    vi low, high;
};

INLINE struct decoder make_decoder(int encoding)
{
    uint8_t low[16] = {0}, high[16] = {0};
    (void)encoding;
    for (unsigned i = 0; i < 8; i++) {
        unsigned turn = bf16_of_codes[i] ^ (0x3c00u | i << 4);
        low[8 + i] = (uint8_t)turn;
        high[8 + i] = (uint8_t)(turn >> 8);
    }
    return (struct decoder){vi_table(low), vi_table(high)};
}

/* A code in the high byte of a half, shifted 4 bits down, has exponent and fraction where bfloat16 has them;
 * then the bias is added. */
INLINE vi decode_normal(vi half)
{
    half = _mm256_and_si256(_mm256_srai_epi16(half, 4), _mm256_set1_epi16((short)0x87f0));
    return _mm256_add_epi16(half, _mm256_set1_epi16(0x3c00));
}

/* Two lines. Subnormal numbers, 0 too, are replaced, and NaN gets all bits: of 32 codes of a model's weights
 * one in some 100 times is such a one. */
INLINE void decode(vi codes, const struct decoder *decoder, int encoding, vi *w)
{
    const vi zero = _mm256_setzero_si256();
    vi number = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
    vi place = _mm256_adds_epu8(number, _mm256_set1_epi8(0x78)); /* 128 and more: not subnormal */
    if (encoding == ENCODING_NUMBERS && __builtin_expect(_mm256_movemask_epi8(place) == -1, 1)) {
        w[0] = decode_normal(_mm256_unpacklo_epi8(zero, codes));
        w[1] = decode_normal(_mm256_unpackhi_epi8(zero, codes));
        return;
    }
    vi nan = _mm256_cmpeq_epi8(number, _mm256_set1_epi8(0x7f));
    vi low = _mm256_shuffle_epi8(decoder->low, place), high = _mm256_shuffle_epi8(decoder->high, place);
    high = _mm256_or_si256(high, _mm256_and_si256(nan, _mm256_set1_epi8(0x7f - 0x43)));
    UNROLL_FOR (int i = 0; i < 2; i++) {
        vi half = i ? _mm256_unpackhi_epi8(zero, codes) : _mm256_unpacklo_epi8(zero, codes);
        vi turn = i ? _mm256_unpackhi_epi8(low, high) : _mm256_unpacklo_epi8(low, high);
        w[i] = _mm256_xor_si256(decode_normal(half), turn);
    }
}

INLINE vi shift_codes(vi codes, int odd)
{
    return _mm256_maddubs_epi16(_mm256_set1_epi16(odd ? 16 << 8 : 16), codes);
}

INLINE vf vf_from_shifted(vi shifted, int high)
{
    shifted = high ? shifted : _mm256_slli_epi32(shifted, 16);
    return _mm256_castsi256_ps(_mm256_and_si256(shifted, _mm256_set1_epi32((int)0x87f00000)));
}

INLINE vf vf_from_nan(vi shifted, int high)
{
    const vi most = _mm256_set1_epi32(0x07f00000);
    vi number = _mm256_castps_si256(vf_from_shifted(shifted, high));
    vi nan = _mm256_cmpeq_epi32(_mm256_and_si256(number, most), most);
    return _mm256_castsi256_ps(_mm256_or_si256(number, _mm256_and_si256(nan, _mm256_set1_epi32(0x7fc00000))));
}

INLINE vf vf_load_columns(const float *from, int odd)
{
    vf four = _mm256_broadcast_ps((const void *)from);
    return odd ? _mm256_movehdup_ps(four) : _mm256_moveldup_ps(four);
}

INLINE vf vf_fold_columns(vf low, vf high)
{
    return vf_add(_mm256_unpacklo_ps(low, high), _mm256_unpackhi_ps(low, high));
}

#endif
