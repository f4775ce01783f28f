/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/avx512.h - the vector functions for AVX-512 F, BW, VL and DQ: a line of a tile is one vector. With
 * VEC_VNNI, vpdpbusd adds products to int32; else pairs of int16 as in simd/avx2.h. With VEC_VBMI, vpermb
 * looks codes up. simd/scalar.h says what each function does.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_AVX512_H
#define KT_PLUGINS_COMMON_SIMD_AVX512_H

#include "plugins/common/simd/features.h"
#include "plugins/common/simd/x86.h"

#define VEC_ROWS 16
#define VEC_PARTS 1
#define VEC_DOT_WIDE VEC_VNNI
#define VEC_INT8_DOT (VEC_VNNI ? "vpdpbusd" : "vpmaddubsw") /* what vi_dot_add multiplies with */
#define VEC_FLOAT_FMA "vfmadd"                              /* what vf_fma does */
/* Into L2: the hardware prefetcher continues from there. */
#define PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T1)

typedef __m512i vi;
typedef __m512 vf;
typedef __m512i vdot;

/* ---- integers ---- */

INLINE vi vi_load(const void *from)
{
    return _mm512_loadu_si512(from);
}

INLINE vi vi_keep(vi v)
{
#ifdef __AVX512F__
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* A sum that is to be made now: compilers put sums of integers off, and keep what waits in memory. */
INLINE vi vi_in_order(vi v)
{
#ifdef __AVX512F__ /* where it is emulated, v is not a register */
    __asm__("" : "+v"(v));
#endif
    return v;
}

INLINE vi vi_set_u8(uint8_t value)
{
    return _mm512_set1_epi8((char)value);
}

INLINE vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

INLINE vi vi_select(vi mask, vi a, vi b)
{
    return _mm512_ternarylogic_epi32(a, b, mask, 0xe4);
}

/* Shifts by constants, also without optimization. */
INLINE vi vi_shr(vi v, int bits)
{
    switch (bits) {
    case 1:
        return _mm512_srli_epi16(v, 1);
    case 2:
        return _mm512_srli_epi16(v, 2);
    case 3:
        return _mm512_srli_epi16(v, 3);
    case 4:
        return _mm512_srli_epi16(v, 4);
    case 5:
        return _mm512_srli_epi16(v, 5);
    case 6:
        return _mm512_srli_epi16(v, 6);
    default:
        return v;
    }
}

INLINE vi vi_high4(vi v)
{
    return vi_and(vi_shr(v, 4), vi_set_u8(15));
}

INLINE vi vi_shl(vi v, int bits)
{
    switch (bits) {
    case 1:
        return _mm512_slli_epi16(v, 1);
    case 2:
        return _mm512_slli_epi16(v, 2);
    case 3:
        return _mm512_slli_epi16(v, 3);
    case 4:
        return _mm512_slli_epi16(v, 4);
    default:
        return v;
    }
}

INLINE vi vi_add32(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

INLINE vi vi_table(const void *table)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128(table));
}

#if VEC_VBMI

/* vpermb reads 6 bits of an index: where the table repeats for all values of the bits beside a code, these
 * need no mask, and codes in higher bits no shift. */
static const uint8_t octets[64] = {OCTET(0), OCTET(1), OCTET(2), OCTET(3),
                                   OCTET(4), OCTET(5), OCTET(6), OCTET(7)};

INLINE vi vi_lookup_low4(vi table, vi codes)
{
    return _mm512_permutexvar_epi8(codes, table);
}

INLINE vi vi_lookup_high4(vi table, vi codes)
{
    return _mm512_permutexvar_epi8(vi_shr(codes, 4), table);
}

INLINE vi vi_lookup_low3(vi table, vi codes)
{
    return _mm512_permutexvar_epi8(codes, table);
}

INLINE vi vi_lookup_next3(vi table, vi codes)
{
    return _mm512_permutexvar_epi8(codes, _mm512_permutexvar_epi8(vi_load(octets), table));
}

#else

/* pshufb wants only the index in its byte, apart from bits 4 to 6. */
INLINE vi vi_lookup_low4(vi table, vi codes)
{
    return _mm512_shuffle_epi8(table, vi_and(codes, vi_set_u8(15)));
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

#endif

INLINE vi vi_widen_u8(const uint8_t *p, int part)
{
    (void)part;
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}

INLINE vi vi_wide_scale_s8(const uint8_t *p, int part)
{
    (void)part;
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p));
}

INLINE vi vi_mul32(vi a, vi b)
{
    return _mm512_mullo_epi32(a, b);
}

INLINE __m512i splat4(const void *p)
{
    return _mm512_set1_epi32((int)load_u32(p));
}

/* ---- dot products ---- */

INLINE vdot vi_dot_zero(void)
{
    return _mm512_setzero_si512();
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
    return _mm512_and_si512(vi_widen_u8(p, part), _mm512_set1_epi32(15));
}

INLINE vdot vi_dot_start(const void *pair, int offset)
{
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), splat4(pair), _mm512_set1_epi16((short)offset));
}

INLINE vdot vi_dot_add(vdot sum, vi w, const int8_t *x)
{
    return _mm512_dpbusd_epi32(sum, w, splat4(x));
}

INLINE vi vi_dot_sum(vdot sum)
{
    return sum;
}

INLINE vi vi_dot_scale(vdot sum, vi scale)
{
    return _mm512_mullo_epi32(sum, scale);
}

/* `times` of the int32 at p in all lanes; most are powers of two, and a shift leaves the multiplier free. */
INLINE vi vi_broadcast_times(const void *p, int times)
{
    vi v = splat4(p);
    if ((times & (times - 1)) == 0)
        return _mm512_slli_epi32(v, (unsigned)__builtin_ctz((unsigned)times));
    return _mm512_mullo_epi32(v, _mm512_set1_epi32(times));
}

/* As vi_dot_add, with the quad as an operand in memory: gcc broadcasts it to a register first, an instruction
 * for each product. */
INLINE vdot vi_dot_add_at(vdot sum, vi w, const int8_t *x)
{
#if defined __GNUC__ && !defined __clang__ && !defined VEC_OUT_OF_LINE
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const int8_t(*)[4])x));
    return sum;
#else
    return _mm512_dpbusd_epi32(sum, w, splat4(x));
#endif
}

/* As vi_dot_add, with quads that are there already. */
INLINE vdot vi_dot_add_quads(vdot sum, vi w, vi quads)
{
    return _mm512_dpbusd_epi32(sum, w, quads);
}

INLINE vi vi_broadcast(const void *p)
{
    return splat4(p);
}

INLINE vi vi_set32(int32_t value)
{
    return _mm512_set1_epi32(value);
}

INLINE vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}

/* The low 16 bits of each lane, as its high ones. */
INLINE vi vi_to_upper16(vi v)
{
    return _mm512_slli_epi32(v, 16);
}

/* The low 16 bits of both in each lane. */
INLINE vi vi_join16(vi high, vi low)
{
    return _mm512_mask_blend_epi16(0x55555555, vi_to_upper16(high), low);
}

INLINE vi vi_mul16(vi a, vi b)
{
    return _mm512_mullo_epi16(a, b);
}

/* Adds both products of int16 of each lane. */
INLINE vi vi_add_products16(vi sum, vi a, vi b)
{
    return _mm512_dpwssd_epi32(sum, a, b);
}

/* The high 4 bits of 16 bytes, one in each lane. */
INLINE vi vi_high_u4(const uint8_t *p)
{
    return _mm512_srli_epi32(vi_widen_u8(p, 0), 4);
}

/* Signed weights as w + 128; the start subtracts what that adds. */
INLINE vi vi_signed_ready(vi w)
{
    return _mm512_xor_si512(w, _mm512_set1_epi8(-128));
}

INLINE vi vi_signed_start(const void *pair)
{
    return vi_dot_start(pair, 128);
}

INLINE vi vi_signed_add(vi sum, vi w, const int8_t *x)
{
    return _mm512_dpbusd_epi32(sum, w, splat4(x));
}

#else

static const int8_t spread_low[64] = {SPREAD_LOW(0), SPREAD_LOW(4), SPREAD_LOW(8), SPREAD_LOW(12)};
static const int8_t spread_high[64] = {SPREAD_HIGH(0), SPREAD_HIGH(4), SPREAD_HIGH(8), SPREAD_HIGH(12)};

INLINE vi vi_scale_u8(const uint8_t *p, int part)
{
    (void)part;
    return _mm512_shuffle_epi8(vi_table(p), vi_load(spread_low));
}

INLINE vi vi_scale_s8(const uint8_t *p, int part)
{
    (void)part;
    return _mm512_srai_epi16(_mm512_shuffle_epi8(vi_table(p), vi_load(spread_high)), 8);
}

INLINE vi vi_scale_u4(const uint8_t *p, int part)
{
    return _mm512_and_si512(vi_scale_u8(p, part), _mm512_set1_epi8(15));
}

INLINE vdot vi_dot_start(const void *pair, int offset)
{
    return _mm512_mullo_epi16(splat4(pair), _mm512_set1_epi16((short)offset));
}

INLINE vdot vi_dot_add(vdot sum, vi w, const int8_t *x)
{
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(w, splat4(x)));
}

INLINE vi vi_dot_sum(vdot sum)
{
    return _mm512_madd_epi16(sum, _mm512_set1_epi16(1));
}

INLINE vi vi_dot_scale(vdot sum, vi scale)
{
    return _mm512_madd_epi16(sum, scale);
}

INLINE vi vi_signed_ready(vi w)
{
    return w;
}

INLINE vi vi_signed_start(const void *pair)
{
    (void)pair;
    return _mm512_setzero_si512();
}

/* |w| * (x with w's sign): AVX-512 has no vpsignb, a mask of w's signs does the same. */
INLINE vi vi_signed_add(vi sum, vi w, const int8_t *x)
{
    __m512i q = splat4(x);
    q = _mm512_mask_sub_epi8(q, _mm512_movepi8_mask(w), _mm512_setzero_si512(), q);
    __m512i products = _mm512_maddubs_epi16(_mm512_abs_epi8(w), q);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(products, _mm512_set1_epi16(1)));
}

#endif

/* ---- floats ---- */

INLINE vf vf_set(float value)
{
    return _mm512_set1_ps(value);
}

INLINE vf vf_splat(const void *p)
{
    return _mm512_set1_ps(load_f32(p));
}

INLINE vf vf_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void vf_store(void *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vf vf_fma_bf16(vf a, vf b, vf c)
{
    return vf_fma(a, b, c);
}

INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINE uint32_t vf_at_least(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

INLINE vf vf_from_int(vi v)
{
    return _mm512_cvtepi32_ps(v);
}

INLINE vf vf_from_high4(const uint8_t *p, int part)
{
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(vi_widen_u8(p, part), 4));
}

INLINE vf vf_from_half(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

INLINE void vf_store_half(void *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vf vf_swap(vf v)
{
    return _mm512_permute_ps(v, 0xb1);
}

INLINE float vf_fold(vf v)
{
    __m256d upper = _mm512_extractf64x4_pd(_mm512_castps_pd(v), 1); /* extractf32x8 SIMDe lacks */
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(upper));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE vf vf_from_bf16_even(vi v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}

INLINE vf vf_from_bf16_odd(vi v)
{
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000)));
}

INLINE vf vf_from_s8(vi v, unsigned byte)
{
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(v, 24 - 8 * byte), 24));
}

INLINE vf vf_from_e8m0_half(const uint8_t *p, int part)
{
    __m512i e = vi_widen_u8(p, part);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __mmask16 is_small = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(2), e);
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_small, normal, small));
}

INLINE vf vf_scale_magic(vf v, vf magic)
{
    __m512i n = _mm512_sub_epi32(_mm512_castps_si512(magic), _mm512_set1_epi32(0x4b400000));
    __m512i half = _mm512_srai_epi32(n, 1);
    __m512i bias = _mm512_set1_epi32(127);
    __m512i first = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    __m512i second = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);
    v = _mm512_mul_ps(v, _mm512_castsi512_ps(first));
    return _mm512_mul_ps(v, _mm512_castsi512_ps(second));
}

INLINE vf vf_scale_power(vf v, vf magic)
{
    __m512i power = _mm512_slli_epi32(_mm512_castps_si512(magic), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v), power));
}

#endif
