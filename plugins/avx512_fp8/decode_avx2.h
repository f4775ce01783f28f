/* SPDX-License-Identifier: Apache-2.0 */
/* decode_avx2.h - codes to bfloat16 with AVX2, and halves.h's vectors. Include int8_avx2.h first. */
#ifndef KT_PLUGINS_AVX512_FP8_DECODE_AVX2_H
#define KT_PLUGINS_AVX512_FP8_DECODE_AVX2_H

#define SCALED_TABLES 0

/* What turns a number's bits into those of a subnormal one, by its last 3 bits. */
struct decoder {
    vi low, high;
};

INLINE struct decoder make_decoder(int kind)
{
    uint8_t low[16] = { 0 }, high[16] = { 0 };

    (void)kind;
    for (unsigned i = 0; i < 8; i++) {
        unsigned turn = bf16_of_codes[i] ^ (0x3c00u | i << 4);
        low[8 + i] = (uint8_t)turn;
        high[8 + i] = (uint8_t)(turn >> 8);
    }
    return (struct decoder){ vi_table(low), vi_table(high) };
}

/* Two lines. A code in the high byte of a half, moved 4 bits down, has exponent and fraction where
 * bfloat16 has them; then the bias is added, subnormal numbers are turned to what they are, and NaN gets
 * all bits. */
INLINE void decode(vi codes, const struct decoder *decoder, int kind, vi *w)
{
    const vi zero = _mm256_setzero_si256();
    vi number = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
    vi nan = _mm256_cmpeq_epi8(number, _mm256_set1_epi8(0x7f));
    vi place = _mm256_adds_epu8(number, _mm256_set1_epi8(0x78)); /* 128 and more: not subnormal */
    vi low = _mm256_shuffle_epi8(decoder->low, place), high = _mm256_shuffle_epi8(decoder->high, place);

    (void)kind;
    high = _mm256_or_si256(high, _mm256_and_si256(nan, _mm256_set1_epi8(0x7f - 0x43)));
    UNROLL
    for (int i = 0; i < 2; i++) {
        vi half = i ? _mm256_unpackhi_epi8(zero, codes) : _mm256_unpacklo_epi8(zero, codes);
        vi turn = i ? _mm256_unpackhi_epi8(low, high) : _mm256_unpacklo_epi8(low, high);
        half = _mm256_and_si256(_mm256_srai_epi16(half, 4), _mm256_set1_epi16((short)0x87f0));
        w[i] = _mm256_xor_si256(_mm256_add_epi16(half, _mm256_set1_epi16(0x3c00)), turn);
    }
}

INLINE vi vi_interleave(vi a, vi b, int high)
{
    return high ? _mm256_unpackhi_epi8(a, b) : _mm256_unpacklo_epi8(a, b);
}

INLINE vi make_half(vi codes, int kind)
{
    vi half = _mm256_and_si256(_mm256_srai_epi16(codes, 1), _mm256_set1_epi16((short)0xbf80));

    if (kind == KIND_NAN) {
        vi ones = _mm256_set1_epi16(0x3f80);
        vi nan = _mm256_cmpeq_epi16(_mm256_and_si256(half, ones), ones);
        half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    }
    return half;
}

INLINE vf vf_from_halves(vi halves, int high)
{
    return _mm256_cvtph_ps(high ? _mm256_extracti128_si256(halves, 1) : _mm256_castsi256_si128(halves));
}

INLINE vf vf_splat_pair(const void *from)
{
    double pair;
    memcpy(&pair, from, sizeof pair);
    return _mm256_castpd_ps(_mm256_set1_pd(pair));
}

INLINE vf vf_fold_pairs(vf low, vf high)
{
    vf sums = _mm256_hadd_ps(low, high);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(sums), 0xd8));
}

#endif
