/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_avx512.h - codes to bfloat16 with AVX-512: a number is looked up in 128; and the vectors of
 * shifted_tmpl.h.
 */
#ifndef KT_PLUGINS_AVX512_FP8_DECODE_AVX512_H
#define KT_PLUGINS_AVX512_FP8_DECODE_AVX512_H

#include "plugins/avx512_fp8/avx512_fp8.h"

#include "plugins/common/simd/simd.h"

#define SCALED_TABLES 1

struct decoder {
    __m512i table[4];
};

INLINE struct decoder make_decoder(int encoding)
{
    struct decoder decoder;
    (void)encoding;
    UNROLL_FOR (int i = 0; i < 4; i++)
        decoder.table[i] = _mm512_loadu_si512(bf16_of_codes + 32 * i);
    return decoder;
}

INLINE struct decoder make_scaled(float scale)
{
    _Alignas(64) uint16_t table[128];
    struct decoder decoder;

    UNROLL_FOR (int i = 0; i < 8; i++)
        vf_store_bf16((uint8_t *)(table + 16 * i),
                      vf_mul(vf_from_bf16(bf16_of_codes + 16 * i), vf_set(scale)));
    UNROLL_FOR (int i = 0; i < 4; i++)
        decoder.table[i] = _mm512_loadu_si512(table + 32 * i);
    return decoder;
}

/* Codes in both bytes of a half: the instruction takes 6 bits as index. */
INLINE vi look_up(vi codes, const struct decoder *decoder)
{
    __m512i low = _mm512_permutex2var_epi16(decoder->table[0], codes, decoder->table[1]);
    __m512i high = _mm512_permutex2var_epi16(decoder->table[2], codes, decoder->table[3]);
    __mmask32 upper = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
    __m512i number = _mm512_mask_blend_epi16(upper, low, high);
    return _mm512_ternarylogic_epi32(number, codes, _mm512_set1_epi16((short)0x8000), 0x78);
}

INLINE void decode(vi codes, const struct decoder *decoder, int encoding, vi *w)
{
    (void)encoding;
    w[0] = look_up(_mm512_unpacklo_epi8(codes, codes), decoder);
    w[1] = look_up(_mm512_unpackhi_epi8(codes, codes), decoder);
}

INLINE vi shift_codes(vi codes, int odd)
{
    return _mm512_maddubs_epi16(_mm512_set1_epi16(odd ? 16 << 8 : 16), codes);
}

INLINE vf vf_from_shifted(vi shifted, int high)
{
    shifted = high ? shifted : _mm512_slli_epi32(shifted, 16);
    return _mm512_castsi512_ps(_mm512_and_si512(shifted, _mm512_set1_epi32((int)0x87f00000)));
}

INLINE vf vf_from_nan(vi shifted, int high)
{
    const __m512i most = _mm512_set1_epi32(0x07f00000);
    __m512i number = _mm512_castps_si512(vf_from_shifted(shifted, high));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(_mm512_and_si512(number, most), most);
    return _mm512_castsi512_ps(_mm512_mask_set1_epi32(number, nan, 0x7fc00000));
}

INLINE vf vf_load_columns(const float *from, int odd)
{
    vf four = _mm512_broadcast_f32x4(_mm_loadu_ps(from));
    return odd ? _mm512_shuffle_ps(four, four, 0xf5) : _mm512_shuffle_ps(four, four, 0xa0);
}

INLINE vf vf_fold_columns(vf low, vf high)
{
    return vf_add(_mm512_unpacklo_ps(low, high), _mm512_unpackhi_ps(low, high));
}

#endif
