/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx512_expand.h - weights of bfloat16 from integer codes, in fewer cycles than conversions take where
 * AVX512_BF16 rounds slowly: on Intel's CPUs vcvtne2ps2bf16 and the vpermw behind it take as long as six
 * additions.
 *
 *   code + 2^(23 - bit)   is float32 without a conversion: the code stands at a bit of the fraction, and an
 *                         exponent is put before it
 *   (code - zero) * scale is one fused product: the offset, -(2^(23 - bit) + zero) * scale, is exact in
 *                         float32 where scales have up to 15 bits
 *   nibbles               a shift brings two neighbors to bits NIBBLE_LOW and NIBBLE_HIGH: 4 shifts for 8
 *   rounding              to nearest, of even columns halves away from zero, of odd ones towards it: at most
 *                         half a unit of bfloat16, as by the instruction, and without a bias in sums, which
 *                         made results a tenth less exact when all halves went one way
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_EXPAND_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_EXPAND_H

#include "plugins/common/simd/avx512_lookup.h"

/* What a code at `bit` of the fraction has more than its value. */
#define CODE_BASE(bit) ((float)(1u << (23 - (bit))))

/* The code of `bits` bits at bit `bit` of each lane, plus CODE_BASE(bit). */
INLINE vf vf_code(vi v, unsigned bit, unsigned bits)
{
    return _mm512_castsi512_ps(
        vi_and_or(v, vi_splat32((int)(((1u << bits) - 1) << bit)), vi_splat32((int)((150 - bit) << 23))));
}

#define NIBBLE_LOW 15u
#define NIBBLE_HIGH 19u

/* Nibble n of each lane, plus CODE_BASE(NIBBLE_LOW) of even n or CODE_BASE(NIBBLE_HIGH) of odd n. */
INLINE vf vf_nibble(vi v, unsigned n)
{
    unsigned left = NIBBLE_LOW, right = n / 2 * 8;
    vi moved = left > right   ? _mm512_slli_epi32(v, left - right)
               : left < right ? _mm512_srli_epi32(v, right - left)
                              : v;
    return vf_code(moved, n % 2 ? NIBBLE_HIGH : NIBBLE_LOW, 4);
}

/* v shifted so that its bit `from` stands at bit `to`. */
INLINE vi vi_move(vi v, unsigned from, unsigned to)
{
    return from < to ? _mm512_slli_epi32(v, to - from) : from > to ? _mm512_srli_epi32(v, from - to) : v;
}

/* Pairs of bfloat16. No NaN may have all upper bits of its fraction set: see vf_quiet. */
INLINE vi vf_round_pairs(vf even, vf odd)
{
    __m512i low = _mm512_add_epi32(_mm512_castps_si512(even), _mm512_set1_epi32(0x8000));
    __m512i high = _mm512_add_epi32(_mm512_castps_si512(odd), _mm512_set1_epi32(0x7fff));
    return _mm512_mask_alignr_epi8(high, 0x3333333333333333, low, low, 2);
}

/* v, with one kind of NaN. */
INLINE vf vf_quiet(vf v)
{
    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm512_set1_ps(__builtin_nanf("")));
}

#endif
