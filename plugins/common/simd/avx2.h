/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx2.h - the vector functions for AVX2, FMA and F16C: 8 rows a vector, two vectors for a tile's
 * line. simd/scalar.h says what each does.
 *
 * No instruction adds products to int32, so dot products of unsigned weights are gathered in pairs of int16
 * (vpmaddubsw, vpaddw), which wrap: only the final value of each int16 must fit, and each single
 * vpmaddubsw, which saturates. AVX-VNNI (VEC_VNNI) has one.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX2_H
#define KT_PLUGINS_COMMON_SIMD_AVX2_H

#include "plugins/common/simd/features.h"
#include "plugins/common/simd/x86.h"

#define VEC_ROWS 8
#define VEC_PARTS 2
#define VEC_DOT_WIDE VEC_VNNI
#define VEC_INT8_DOT (VEC_VNNI ? "vpdpbusd" : "vpmaddubsw") /* what vi_dot_add multiplies with */
#define VEC_FLOAT_FMA "vfmadd"                              /* what vf_fma does */
/* Into L1, or into L2 where a kernel prefetches far ahead. */
#define PREFETCH(address) _mm_prefetch((const char *)(address), PREFETCH_FAR ? _MM_HINT_T1 : _MM_HINT_T0)

typedef __m256i vi;
typedef __m256 vf;
typedef __m256i vdot; /* 16 int16, or 8 int32 */

/* ---- integers ---- */

INLINE vi vi_load(const void *from)
{
    return _mm256_loadu_si256(from);
}

/* Keeps a vector that is used twice in a register: compilers tend to fold its load into both uses, and load
 * ports are the limit here. */
INLINE vi vi_keep(vi v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* As in simd/avx512.h. */
INLINE vi vi_in_order(vi v)
{
    return vi_keep(v);
}

INLINE vi vi_set_u8(uint8_t value)
{
    return _mm256_set1_epi8((char)value);
}

INLINE vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return _mm256_or_si256(a, b);
}

INLINE vi vi_select(vi mask, vi a, vi b)
{
    return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
}

INLINE vi vi_shr(vi v, int bits)
{
    return bits ? _mm256_srli_epi16(v, bits) : v;
}

INLINE vi vi_high4(vi v)
{
    return vi_and(vi_shr(v, 4), vi_set_u8(15));
}

INLINE vi vi_shl(vi v, int bits)
{
    return bits ? _mm256_slli_epi16(v, bits) : v;
}

INLINE vi vi_add32(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

INLINE vi vi_table(const void *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(table));
}

/* pshufb wants only the index in its byte, apart from bits 4 to 6. */
INLINE vi vi_lookup_low4(vi table, vi codes)
{
    return _mm256_shuffle_epi8(table, vi_and(codes, vi_set_u8(15)));
}

INLINE vi vi_lookup_high4(vi table, vi codes)
{
    return vi_lookup_low4(table, vi_shr(codes, 4));
}

INLINE vi vi_lookup_low3(vi table, vi codes)
{
    return vi_lookup_low4(table, codes);
}

INLINE vi vi_lookup_next3(vi table, vi codes)
{
    return vi_lookup_low4(table, vi_shr(codes, 3));
}

INLINE vi vi_widen_u8(const uint8_t *p, int part)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p + 8 * part)));
}

/* ---- dot products ---- */

INLINE __m256i splat4(const void *p)
{
    return _mm256_set1_epi32((int)load_u32(p));
}

INLINE vdot vi_dot_zero(void)
{
    return _mm256_setzero_si256();
}

INLINE vi vi_splat4(const void *p)
{
    return splat4(p);
}

INLINE vi vi_wide_scale_s8(const uint8_t *p, int part)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p + 8 * part)));
}

INLINE vi vi_mul32(vi a, vi b)
{
    return _mm256_mullo_epi32(a, b);
}

#if VEC_VNNI

INLINE vi vi_scale_u8(const uint8_t *p, int part)
{
    return vi_widen_u8(p, part);
}

INLINE vi vi_scale_s8(const uint8_t *p, int part)
{
    return vi_wide_scale_s8(p, part);
}

INLINE vi vi_scale_u4(const uint8_t *p, int part)
{
    return _mm256_and_si256(vi_widen_u8(p, part), _mm256_set1_epi32(15));
}

INLINE vdot vi_dot_start(const void *pair, int offset)
{
    return _mm256_madd_epi16(splat4(pair), _mm256_set1_epi16((short)offset));
}

INLINE vdot vi_dot_add_quad(vdot sum, vi w, vi quad)
{
    return _mm256_dpbusd_avx_epi32(sum, w, quad);
}

INLINE vdot vi_dot_add(vdot sum, vi w, const int8_t *x)
{
    return vi_dot_add_quad(sum, w, splat4(x));
}

/* As vi_dot_start, with `base` added. */
INLINE vi vi_dot_start_at(int32_t base, const void *pair, int offset)
{
    return _mm256_dpwssd_avx_epi32(_mm256_set1_epi32(base), splat4(pair), _mm256_set1_epi16((short)offset));
}

INLINE vi vi_set32(int32_t value)
{
    return _mm256_set1_epi32(value);
}

INLINE vi vi_dot_sum(vdot sum)
{
    return sum;
}

INLINE vi vi_dot_scale(vdot sum, vi scale)
{
    return _mm256_mullo_epi32(sum, scale);
}

/* Signed weights as w + 128; the start subtracts what that adds. */
INLINE vi vi_signed_ready(vi w)
{
    return _mm256_xor_si256(w, _mm256_set1_epi8(-128));
}

INLINE vi vi_signed_start(const void *pair)
{
    return vi_dot_start(pair, 128);
}

INLINE vi vi_signed_add_quad(vi sum, vi w, vi quad)
{
    return vi_dot_add_quad(sum, w, quad);
}

INLINE vi vi_signed_add(vi sum, vi w, const int8_t *x)
{
    return vi_dot_add(sum, w, x);
}

#else

static const int8_t spread_low[2][32] = {{SPREAD_LOW(0), SPREAD_LOW(4)}, {SPREAD_LOW(8), SPREAD_LOW(12)}};
static const int8_t spread_high[2][32] = {{SPREAD_HIGH(0), SPREAD_HIGH(4)},
                                          {SPREAD_HIGH(8), SPREAD_HIGH(12)}};

INLINE vi spread_scales(const uint8_t *p, const int8_t *index)
{
    return _mm256_shuffle_epi8(vi_table(p), vi_load(index));
}

INLINE vi vi_scale_u8(const uint8_t *p, int part)
{
    return spread_scales(p, spread_low[part]);
}

INLINE vi vi_scale_s8(const uint8_t *p, int part)
{
    return _mm256_srai_epi16(spread_scales(p, spread_high[part]), 8);
}

INLINE vi vi_scale_u4(const uint8_t *p, int part)
{
    return _mm256_and_si256(spread_scales(p, spread_low[part]), _mm256_set1_epi8(15));
}

INLINE vdot vi_dot_start(const void *pair, int offset)
{
    return _mm256_mullo_epi16(splat4(pair), _mm256_set1_epi16((short)offset));
}

INLINE vdot vi_dot_add(vdot sum, vi w, const int8_t *x)
{
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, splat4(x)));
}

/* The same with the quad in a register: several vectors of weights share it. */
INLINE vdot vi_dot_add_quad(vdot sum, vi w, vi quad)
{
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, quad));
}

/* As vi_dot_start; of a power of two by a shift, which leaves the multipliers free. */
INLINE vdot vi_dot_start_times(const void *pair, int offset)
{
    if ((offset & (offset - 1)) == 0)
        return _mm256_slli_epi16(splat4(pair), __builtin_ctz((unsigned)offset));
    return vi_dot_start(pair, offset);
}

INLINE vi vi_dot_sum(vdot sum)
{
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

INLINE vi vi_dot_scale(vdot sum, vi scale)
{
    return _mm256_madd_epi16(sum, scale);
}

INLINE vi vi_signed_ready(vi w)
{
    return w;
}

INLINE vi vi_signed_start(const void *pair)
{
    (void)pair;
    return _mm256_setzero_si256();
}

/* |w| * (x with w's sign): 2 * 128 * 127 fits in an int16, so a step cannot saturate. */
INLINE vi vi_signed_add_quad(vi sum, vi w, vi quad)
{
    __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(quad, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}

INLINE vi vi_signed_add(vi sum, vi w, const int8_t *x)
{
    return vi_signed_add_quad(sum, w, splat4(x));
}

#endif

/* ---- floats ---- */

INLINE vf vf_set(float value)
{
    return _mm256_set1_ps(value);
}

INLINE vf vf_splat(const void *p)
{
    return _mm256_broadcast_ss(p);
}

INLINE vf vf_load(const void *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void vf_store(void *p, vf v)
{
    _mm256_storeu_ps(p, v);
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

INLINE vf vf_fma_bf16(vf a, vf b, vf c)
{
    return vf_fma(a, b, c);
}

INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINE uint32_t vf_at_least(vf a, vf b)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ));
}

INLINE vf vf_from_int(vi v)
{
    return _mm256_cvtepi32_ps(v);
}

INLINE vf vf_from_high4(const uint8_t *p, int part)
{
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(vi_widen_u8(p, part), 4));
}

INLINE vf vf_from_half(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

INLINE void vf_store_half(void *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vf vf_swap(vf v)
{
    return _mm256_permute_ps(v, 0xb1);
}

INLINE float vf_fold(vf v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE vf vf_from_bf16_even(vi v)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}

INLINE vf vf_from_bf16_odd(vi v)
{
    return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000)));
}

INLINE vf vf_from_s8(vi v, unsigned byte)
{
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * (int)byte), 24));
}

INLINE vf vf_from_e8m0_half(const uint8_t *p, int part)
{
    __m256i e = vi_widen_u8(p, part);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

INLINE vf vf_scale_magic(vf v, vf magic)
{
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(magic), _mm256_set1_epi32(0x4b400000));
    __m256i half = _mm256_srai_epi32(n, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);
    v = _mm256_mul_ps(v, _mm256_castsi256_ps(first));
    return _mm256_mul_ps(v, _mm256_castsi256_ps(second));
}

INLINE vf vf_scale_power(vf v, vf magic)
{
    __m256i power = _mm256_slli_epi32(_mm256_castps_si256(magic), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(v), power));
}

#endif
