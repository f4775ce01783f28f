/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx2_int8.h - int8 products for AVX2, and with VEC_VNNI defined as 1 for AVX-VNNI. simd/scalar_int8.h
 * says what each function does.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX2_INT8_H
#define KT_PLUGINS_COMMON_SIMD_AVX2_INT8_H

#include "plugins/common/simd/x86_int8.h"
#include "plugins/common/simd/avx2.h"

typedef __m256i x8;

INLINE x8 x8_splat(const int8_t *p)
{
    return _mm256_set1_epi32((int)load_u32(p));
}

#if VEC_VNNI
#define W8_SUMS_CODES 1

INLINE vi w8_ready(vi code)
{
    return code;
}

INLINE vi w8_add(vi sum, vi w, x8 x)
{
    return _mm256_dpbusd_avx_epi32(sum, w, x);
}
#else
#define W8_SUMS_CODES 0

INLINE vi w8_ready(vi code)
{
    return _mm256_xor_si256(code, _mm256_set1_epi8(-128));
}

/* vpmaddubsw saturates: two codes of up to 255 times 127 would not fit in its int16, but two |w| of up
 * to 127 times 127 do, and no int16 is added to before it is widened. */
INLINE vi w8_add(vi sum, vi w, x8 x)
{
    __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}
#endif

static const int8_t g4_spread[2][32] = {{SPREAD_LOW(0), SPREAD_LOW(4)}, {SPREAD_LOW(8), SPREAD_LOW(12)}};

/* A byte in both int16 of its row's lane. */
INLINE vi g4_bytes(const uint8_t *p, int part)
{
    return _mm256_shuffle_epi8(vi_table(p), vi_load(g4_spread[part]));
}

INLINE vi g4_zeros(const uint8_t *p, int part)
{
    return _mm256_srli_epi16(g4_bytes(p, part), 4);
}

INLINE vi g4_scales(const uint8_t *p, int part)
{
    vi low = _mm256_and_si256(g4_bytes(p, part), _mm256_set1_epi16(15));
    return _mm256_add_epi16(low, _mm256_set1_epi16(1));
}

typedef vi g4_sum;

#if VEC_VNNI
INLINE vi g4_start(vi zeros, const int16_t *sums)
{
    return _mm256_madd_epi16(zeros, _mm256_set1_epi32((int)load_u32(sums)));
}

INLINE vi g4_add(vi sum, vi code, x8 x)
{
    return _mm256_dpbusd_avx_epi32(sum, code, x);
}

INLINE vi g4_finish(vi total, vi sum, vi scales)
{
    return _mm256_add_epi32(total, _mm256_mullo_epi32(sum, _mm256_srli_epi32(scales, 16)));
}

/* Codes as w + 128, what w8_ready takes: no product of a code and a scale leaves its byte, so one
 * multiplication does for two. offsets: 128 - scale * zero in each byte. */
INLINE vi g4_offsets(vi zeros, vi scales)
{
    vi offset = _mm256_sub_epi16(_mm256_set1_epi16(128), _mm256_mullo_epi16(zeros, scales));
    return _mm256_mullo_epi16(offset, _mm256_set1_epi16(0x0101));
}

INLINE vi g4_dequantize(vi code, vi scales, vi offsets)
{
    return _mm256_add_epi8(_mm256_mullo_epi16(code, scales), offsets);
}
#else
/* In two int16: 16 products of up to 15 * 127 fit, whatever wraps before. Compilers tend to add a long sum
 * of int16 up as a tree, with every product in a register or on the stack: hence vi_keep. */
INLINE vi g4_start(vi zeros, const int16_t *sums)
{
    return vi_keep(_mm256_mullo_epi16(zeros, _mm256_set1_epi32((int)load_u32(sums))));
}

INLINE vi g4_add(vi sum, vi code, x8 x)
{
    return vi_keep(_mm256_add_epi16(sum, _mm256_maddubs_epi16(code, x)));
}

INLINE vi g4_finish(vi total, vi sum, vi scales)
{
    return _mm256_add_epi32(total, _mm256_madd_epi16(sum, scales));
}
#endif

INLINE vi vi_shl32(vi v, int bits)
{
    return _mm256_slli_epi32(v, bits);
}

INLINE vi vi_from_bits(vf v)
{
    return _mm256_castps_si256(v);
}

INLINE vf vf_pick(vf a, vf b, vf x, vf y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

INLINE void vi_store(void *p, vi v)
{
    _mm256_storeu_si256(p, v);
}

INLINE vi vi_splat32(int32_t value)
{
    return _mm256_set1_epi32(value);
}

INLINE vi vi_sub32(vi a, vi b)
{
    return _mm256_sub_epi32(a, b);
}

INLINE vi vi_max32(vi a, vi b)
{
    return _mm256_max_epi32(a, b);
}

INLINE vf vf_from_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

INLINE void vf_store_bf16(void *p, vf v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan)), 16);
    __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128((__m128i *)p, half);
}

INLINE void vec_stream64(void *to, const void *from)
{
    _mm256_stream_si256((__m256i *)to, _mm256_load_si256((const __m256i *)from));
    _mm256_stream_si256((__m256i *)to + 1, _mm256_load_si256((const __m256i *)from + 1));
}

/* Lanes q..q+7 of 8 rows turned into 8 lines' halves. */
INLINE void turn8(const uint8_t *rows, uint64_t stride, uint8_t *to)
{
    __m256i r[8], s[8];
    UNROLL_FOR (int i = 0; i < 8; i++)
        r[i] = vi_load(rows + (uint64_t)i * stride);
    UNROLL_FOR (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL_FOR (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(s[i], s[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(s[i], s[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(s[i + 1], s[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(s[i + 1], s[i + 3]);
    }
    UNROLL_FOR (int i = 0; i < 4; i++) {
        vi_store(to + 64 * i, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
        vi_store(to + 64 * (i + 4), _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
}

INLINE void vec_make_tile(const uint8_t *rows, uint64_t stride, uint8_t *tile)
{
    for (unsigned c = 0; c < 16; c += 8)
        for (unsigned q = 0; q < 16; q += 8)
            turn8(rows + c * stride + 4 * q, stride, tile + 64 * q + 4 * c);
}

#endif
