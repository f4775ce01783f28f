/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx512_int8.h - int8 products for AVX-512 (F, BW, VL, DQ), and with VEC_VNNI defined as 1 for
 * AVX512_VNNI. simd/scalar_int8.h says what each function does.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_INT8_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_INT8_H

#include "plugins/common/simd/x86_int8.h"
#include "plugins/common/simd/avx512.h"

typedef __m512i x8;

INLINE x8 x8_splat(const int8_t *p)
{
    return _mm512_set1_epi32((int)load_u32(p));
}

#if VEC_VNNI
#define W8_SUMS_CODES 1

INLINE vi w8_ready(vi code)
{
    return code;
}

INLINE vi w8_add(vi sum, vi w, x8 x)
{
    return _mm512_dpbusd_epi32(sum, w, x);
}
#else
#define W8_SUMS_CODES 0

INLINE vi w8_ready(vi code)
{
    return _mm512_xor_si512(code, _mm512_set1_epi8(-128));
}

/* vpmaddubsw saturates, see simd/avx2_int8.h. There is no vpsignb here: x is turned where w is negative,
 * and where w is 0 its sign does not matter. */
INLINE vi w8_add(vi sum, vi w, x8 x)
{
    __m512i turned = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    __m512i products = _mm512_maddubs_epi16(_mm512_abs_epi8(w), turned);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(products, _mm512_set1_epi16(1)));
}
#endif

/* Adds the products of pairs of bf16; needs AVX512_BF16. */
#define vf_add_pairs(sum, w, x) _mm512_dpbf16_ps((sum), (__m512bh)(w), (__m512bh)(x))

static const int8_t g4_spread[64] = {SPREAD_LOW(0), SPREAD_LOW(4), SPREAD_LOW(8), SPREAD_LOW(12)};

/* A byte in both int16 of its row's lane. */
INLINE vi g4_bytes(const uint8_t *p, int part)
{
    (void)part;
    return _mm512_shuffle_epi8(vi_table(p), vi_load(g4_spread));
}

INLINE vi g4_zeros(const uint8_t *p, int part)
{
    return _mm512_srli_epi16(g4_bytes(p, part), 4);
}

INLINE vi g4_scales(const uint8_t *p, int part)
{
    vi low = _mm512_and_si512(g4_bytes(p, part), _mm512_set1_epi16(15));
    return _mm512_add_epi16(low, _mm512_set1_epi16(1));
}

typedef vi g4_sum;

#if VEC_VNNI
INLINE vi g4_start(vi zeros, const int16_t *sums)
{
    return _mm512_madd_epi16(zeros, _mm512_set1_epi32((int)load_u32(sums)));
}

INLINE vi g4_add(vi sum, vi code, x8 x)
{
    return _mm512_dpbusd_epi32(sum, code, x);
}

INLINE vi g4_finish(vi total, vi sum, vi scales)
{
    return _mm512_add_epi32(total, _mm512_mullo_epi32(sum, _mm512_srli_epi32(scales, 16)));
}

/* Codes as w + 128, what w8_ready takes: no product of a code and a scale leaves its byte, so one
 * multiplication does for two. offsets: 128 - scale * zero in each byte. */
INLINE vi g4_offsets(vi zeros, vi scales)
{
    vi offset = _mm512_sub_epi16(_mm512_set1_epi16(128), _mm512_mullo_epi16(zeros, scales));
    return _mm512_mullo_epi16(offset, _mm512_set1_epi16(0x0101));
}

INLINE vi g4_dequantize(vi code, vi scales, vi offsets)
{
    return _mm512_add_epi8(_mm512_mullo_epi16(code, scales), offsets);
}
#else
/* See simd/avx2_int8.h. */
INLINE vi g4_keep(vi v)
{
#ifndef VEC_OUT_OF_LINE
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* In two int16: 16 products of up to 15 * 127 fit, whatever wraps on the way. */
INLINE vi g4_start(vi zeros, const int16_t *sums)
{
    return g4_keep(_mm512_mullo_epi16(zeros, _mm512_set1_epi32((int)load_u32(sums))));
}

INLINE vi g4_add(vi sum, vi code, x8 x)
{
    return g4_keep(_mm512_add_epi16(sum, _mm512_maddubs_epi16(code, x)));
}

INLINE vi g4_finish(vi total, vi sum, vi scales)
{
    return _mm512_add_epi32(total, _mm512_madd_epi16(sum, scales));
}
#endif

INLINE vi vi_shl32(vi v, int bits)
{
    return _mm512_slli_epi32(v, (unsigned)bits);
}

INLINE vi vi_from_bits(vf v)
{
    return _mm512_castps_si512(v);
}

INLINE vf vf_pick(vf a, vf b, vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

INLINE void vi_store(void *p, vi v)
{
    _mm512_storeu_si512(p, v);
}

INLINE vi vi_splat32(int32_t value)
{
    return _mm512_set1_epi32(value);
}

INLINE vi vi_sub32(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

INLINE vi vi_max32(vi a, vi b)
{
    return _mm512_max_epi32(a, b);
}

INLINE vf vf_from_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

INLINE void vf_store_bf16(void *p, vf v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

INLINE void vec_stream64(void *to, const void *from)
{
    _mm512_stream_si512(to, _mm512_loadu_si512(from));
}

/* 4 lanes of each of 16 rows are 4 lines: transposed in quarters of 128 bits, then the quarters. */
INLINE void turn4(const uint8_t *rows, uint64_t stride, uint8_t *to)
{
    __m512i r[4], s[4];
    UNROLL_FOR (int i = 0; i < 4; i++) {
        __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)rows));
        v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows + 4 * stride)), 1);
        v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows + 8 * stride)), 2);
        v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows + 12 * stride)), 3);
        r[i] = v;
        rows += stride;
    }
    s[0] = _mm512_unpacklo_epi32(r[0], r[1]);
    s[1] = _mm512_unpackhi_epi32(r[0], r[1]);
    s[2] = _mm512_unpacklo_epi32(r[2], r[3]);
    s[3] = _mm512_unpackhi_epi32(r[2], r[3]);
    vi_store(to, _mm512_unpacklo_epi64(s[0], s[2]));
    vi_store(to + 64, _mm512_unpackhi_epi64(s[0], s[2]));
    vi_store(to + 128, _mm512_unpacklo_epi64(s[1], s[3]));
    vi_store(to + 192, _mm512_unpackhi_epi64(s[1], s[3]));
}

INLINE void vec_make_tile(const uint8_t *rows, uint64_t stride, uint8_t *tile)
{
    for (unsigned q = 0; q < 16; q += 4)
        turn4(rows + 4 * q, stride, tile + 64 * q);
}

#endif
