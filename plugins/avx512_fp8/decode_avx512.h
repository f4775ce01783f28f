/* SPDX-License-Identifier: Apache-2.0 */
/* decode_avx512.h - codes to bfloat16 with AVX-512: a number is looked up in 128. And halves.h's vectors.
 * Include int8_avx512.h first. */
#ifndef KT_PLUGINS_AVX512_FP8_DECODE_AVX512_H
#define KT_PLUGINS_AVX512_FP8_DECODE_AVX512_H

#define SCALED_TABLES 1

struct decoder {
    __m512i table[4];
};

INLINE struct decoder make_decoder(int kind)
{
    struct decoder decoder;

    (void)kind;
    UNROLL
    for (int i = 0; i < 4; i++)
        decoder.table[i] = _mm512_loadu_si512(bf16_of_codes + 32 * i);
    return decoder;
}

INLINE struct decoder make_scaled(float scale)
{
    _Alignas(64) uint16_t table[128];
    struct decoder decoder;

    UNROLL
    for (int i = 0; i < 8; i++)
        vf_store_bf16((uint8_t *)(table + 16 * i),
                      vf_mul(vf_from_bf16(bf16_of_codes + 16 * i), vf_set(scale)));
    UNROLL
    for (int i = 0; i < 4; i++)
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

INLINE void decode(vi codes, const struct decoder *decoder, int kind, vi *w)
{
    (void)kind;
    w[0] = look_up(_mm512_unpacklo_epi8(codes, codes), decoder);
    w[1] = look_up(_mm512_unpackhi_epi8(codes, codes), decoder);
}

INLINE vi vi_interleave(vi a, vi b, int high)
{
    return high ? _mm512_unpackhi_epi8(a, b) : _mm512_unpacklo_epi8(a, b);
}

INLINE vi make_half(vi codes, int kind)
{
    __m512i half = _mm512_and_si512(_mm512_srai_epi16(codes, 1), _mm512_set1_epi16((short)0xbf80));

    if (kind == KIND_NAN) {
        __m512i ones = _mm512_set1_epi16(0x3f80);
        __mmask32 nan = _mm512_cmpeq_epi16_mask(_mm512_and_si512(half, ones), ones);
        half = _mm512_mask_blend_epi16(nan, half, _mm512_set1_epi16(0x7e00));
    }
    return half;
}

INLINE vf vf_from_halves(vi halves, int high)
{
    return _mm512_cvtph_ps(high ? _mm512_extracti64x4_epi64(halves, 1) : _mm512_castsi512_si256(halves));
}

INLINE vf vf_splat_pair(const void *from)
{
    double pair;
    memcpy(&pair, from, sizeof pair);
    return _mm512_castpd_ps(_mm512_set1_pd(pair));
}

INLINE vf vf_fold_pairs(vf low, vf high)
{
    static const int32_t even[16] = { 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 };
    __m512i place = vi_load(even);
    vf odd = _mm512_permutex2var_ps(low, _mm512_or_si512(place, _mm512_set1_epi32(1)), high);
    return vf_add(_mm512_permutex2var_ps(low, place, high), odd);
}

#endif
