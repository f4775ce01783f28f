/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx2_sums.h - weights of one or two bits without multiplying, for AVX2: a table of 16 entries has the
 * sums that a few weights can make of their activations, and vpshufb looks up those of 16 rows at once.
 * Tables are made once for a row of activations, and all rows of weights share them.
 *
 * A sum is 32 * high + low, each an int8: what is looked up can be added up in bytes.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX2_SUMS_H
#define KT_PLUGINS_COMMON_SIMD_AVX2_SUMS_H

#include "plugins/common/simd/avx2.h"

#include <stdbool.h>

#define VEC_SUMS

/* The weights that the 16 codes of a table stand for, those of codes 0 to 7 before the others: of the first
 * two activations, and of the other two. */
struct sum_weights {
    int8_t first[2][16], second[2][16];
};

/* Two tables, each of activations `column`, column + 4, column + 8 and column + 12 of its 16: 64 bytes, the
 * low bytes of both, then the high ones. low is 0 to 31 or, where sums are turned, -16 to 15. No sum may be
 * above 508. */
INLINE void vec_make_sums(const int8_t *const x[2], const unsigned column[2],
                          const struct sum_weights *weights, bool turned, uint8_t *to)
{
    const vi activations =
        _mm256_set_m128i(_mm_loadu_si128((const void *)x[1]), _mm_loadu_si128((const void *)x[0]));
    const vi columns =
        _mm256_add_epi8(_mm256_set_m128i(_mm_set1_epi8((char)column[1]), _mm_set1_epi8((char)column[0])),
                        _mm256_set1_epi16(4 << 8));
    const vi a = _mm256_shuffle_epi8(activations, columns);
    const vi b = _mm256_shuffle_epi8(activations, _mm256_add_epi8(columns, vi_set_u8(8)));
    vi low[2], high[2];
    UNROLL_FOR (int i = 0; i < 2; i++) {
        vi first = _mm256_sign_epi8(a, vi_table(weights->first[i]));
        vi second = _mm256_sign_epi8(b, vi_table(weights->second[i]));
        vi sum = _mm256_add_epi16(_mm256_maddubs_epi16(vi_set_u8(1), first),
                                  _mm256_maddubs_epi16(vi_set_u8(1), second));
        high[i] = _mm256_srai_epi16(turned ? _mm256_add_epi16(sum, _mm256_set1_epi16(16)) : sum, 5);
        low[i] = _mm256_sub_epi16(sum, _mm256_slli_epi16(high[i], 5));
    }
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_packs_epi16(low[0], low[1]));
    _mm256_storeu_si256((__m256i *)(void *)(to + 32), _mm256_packs_epi16(high[0], high[1]));
}

/* Sums of 16 rows, of the columns of the first table and of those of the other. A byte holds 8 sums that are
 * not turned, and 6 of those that are. */
struct byte_sums {
    vi low, high;
};

/* Adds what the tables have for the codes. Compilers would add everything up as a tree, with all of it in
 * registers or on the stack: hence vi_keep. */
INLINE struct byte_sums vi_add_sums(struct byte_sums sums, const uint8_t *tables, vi codes)
{
    vi low = _mm256_shuffle_epi8(vi_load(tables), codes),
       high = _mm256_shuffle_epi8(vi_load(tables + 32), codes);
    return (struct byte_sums){vi_keep(_mm256_add_epi8(sums.low, low)),
                              vi_keep(_mm256_add_epi8(sums.high, high))};
}

/* The same with the other sign where a byte of `signs` has its highest bit set; none of them is 0. */
INLINE struct byte_sums vi_add_turned_sums(struct byte_sums sums, const uint8_t *tables, vi codes, vi signs)
{
    vi low = _mm256_shuffle_epi8(vi_load(tables), codes),
       high = _mm256_shuffle_epi8(vi_load(tables + 32), codes);
    return (struct byte_sums){vi_keep(_mm256_add_epi8(sums.low, _mm256_sign_epi8(low, signs))),
                              vi_keep(_mm256_add_epi8(sums.high, _mm256_sign_epi8(high, signs)))};
}

/* The codes in the low 4 bits of each byte, moved there from `shift` on. */
INLINE vi vi_code4(vi v, unsigned shift)
{
    v = __builtin_constant_p(shift) ? vi_shr(v, (int)shift)
                                    : _mm256_srl_epi16(v, _mm_cvtsi32_si128((int)shift));
    return vi_and(v, vi_set_u8(15));
}

/* Bit `bit` of each byte as a sign for vi_add_turned_sums, and bit + 1. */
INLINE void vi_take_signs(vi bits, unsigned bit, vi signs[2])
{
    signs[1] = _mm256_sll_epi16(bits, _mm_cvtsi32_si128((int)(6 - bit)));
    signs[1] = vi_or(signs[1], vi_set_u8(1));
    signs[0] = _mm256_add_epi8(signs[1], signs[1]);
}

/* 16 codes for the first table at p, and for the other at q. */
INLINE vi vi_load_codes(const uint8_t *p, const uint8_t *q)
{
    return _mm256_set_m128i(_mm_loadu_si128((const void *)q), _mm_loadu_si128((const void *)p));
}

/* Sums of the first table's columns as int16, and of the other's: even bytes, then odd ones. */
INLINE void end_sums(struct byte_sums sums, bool turned, vi out[2])
{
    vi both[2];
    UNROLL_FOR (int odd = 0; odd < 2; odd++) {
        vi one = _mm256_set1_epi16(odd ? 1 << 8 : 1), unit = _mm256_set1_epi16(odd ? 32 << 8 : 32);
        vi low = turned ? _mm256_maddubs_epi16(one, sums.low) : _mm256_maddubs_epi16(sums.low, one);
        both[odd] = _mm256_add_epi16(low, _mm256_maddubs_epi16(unit, sums.high));
    }
    out[0] = _mm256_permute2x128_si256(both[0], both[1], 0x20);
    out[1] = _mm256_permute2x128_si256(both[0], both[1], 0x31);
}

/* As int32, of rows 0 to 7 and of rows 8 to 15: row r's byte is number 4 * (r % 4) + r / 4, so that these
 * are even and odd int16 of both halves. */
INLINE void widen_sums(vi sums, vi out[2])
{
    out[0] = _mm256_madd_epi16(sums, _mm256_set1_epi32(1));
    out[1] = _mm256_madd_epi16(sums, _mm256_set1_epi32(1 << 16));
}

/* The sums of each table's columns, of rows 0 to 7 and 8 to 15. */
INLINE void vi_end_sums(struct byte_sums sums, vi first[2], vi second[2])
{
    vi both[2];
    end_sums(sums, false, both);
    widen_sums(both[0], first);
    widen_sums(both[1], second);
}

/* ... of both tables' columns together, turned. */
INLINE void vi_end_turned_sums(struct byte_sums sums, vi out[2])
{
    vi both[2];
    end_sums(sums, true, both);
    widen_sums(_mm256_add_epi16(both[0], both[1]), out);
}

#endif
