/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/neon.h - the vector vocabulary for ARM: 4 rows a vector, four for a panel. With VEC_DOTPROD defined as
 * 1, sdot adds products to int32. simd/scalar.h says what each function does.
 *
 * Without sdot, products of int8 are int16 (smull), two of which fit in one sum, added pair by pair (addp,
 * sadalp): four instructions for the 16 products that sdot does in one.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_NEON_H
#define KT_PLUGINS_COMMON_SIMD_NEON_H

#include "plugins/common/simd/numbers.h"
#include "plugins/common/simd/attributes.h"
#include "plugins/common/simd/features.h"

#include <arm_neon.h>

#define VEC_ROWS 4
#define VEC_PARTS 4
#define VEC_DOT_WIDE 1
#define VEC_FLOAT_FMA "fmla" /* what vf_fma does */
/* Into L2: the hardware prefetcher continues from there. */
#define PREFETCH(address) __builtin_prefetch((address), 0, 2)

typedef int32x4_t vi;
typedef float32x4_t vf;
typedef int32x4_t vdot;

/* ---- integers ---- */

INLINE uint8x16_t vi_bytes(vi v)
{
    return vreinterpretq_u8_s32(v);
}

INLINE vi vi_from_bytes(uint8x16_t v)
{
    return vreinterpretq_s32_u8(v);
}

INLINE vi vi_load(const void *from)
{
    return vi_from_bytes(vld1q_u8(from));
}

INLINE vi vi_keep(vi v)
{
    return v;
}

INLINE vi vi_in_order(vi v)
{
    return v;
}

INLINE vi vi_set_u8(uint8_t value)
{
    return vi_from_bytes(vdupq_n_u8(value));
}

INLINE vi vi_and(vi a, vi b)
{
    return vandq_s32(a, b);
}

INLINE vi vi_or(vi a, vi b)
{
    return vorrq_s32(a, b);
}

INLINE vi vi_select(vi mask, vi a, vi b)
{
    return vbslq_s32(vreinterpretq_u32_s32(mask), a, b);
}

INLINE vi vi_shr(vi v, int bits)
{
    return vi_from_bytes(vi_bytes(v) >> (uint8_t)bits);
}

INLINE vi vi_high4(vi v)
{
    return vi_shr(v, 4);
}

INLINE vi vi_shl(vi v, int bits)
{
    return vi_from_bytes(vi_bytes(v) << (uint8_t)bits);
}

INLINE vi vi_add32(vi a, vi b)
{
    return vaddq_s32(a, b);
}

INLINE vi vi_table(const void *table)
{
    return vi_load(table);
}

INLINE vi vi_lookup(vi table, vi index)
{
    return vi_from_bytes(vqtbl1q_u8(vi_bytes(table), vi_bytes(index)));
}

INLINE vi vi_lookup_low4(vi table, vi codes)
{
    return vi_lookup(table, vi_and(codes, vi_set_u8(15)));
}

INLINE vi vi_lookup_high4(vi table, vi codes)
{
    return vi_lookup(table, vi_high4(codes));
}

INLINE vi vi_lookup_low3(vi table, vi codes)
{
    return vi_lookup_low4(table, codes);
}

INLINE vi vi_lookup_next3(vi table, vi codes)
{
    return vi_lookup_low4(table, vi_shr(codes, 3));
}

/* For parts that a compiler knows, all 16 bytes are loaded and widened by halves: it does that once. */
INLINE vi vi_widen_u8(const uint8_t *p, int part)
{
    if (!__builtin_constant_p(part)) {
        uint16x8_t quarter = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(load_u32(p + 4 * part))));
        return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(quarter)));
    }
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t half = part < 2 ? vmovl_u8(vget_low_u8(bytes)) : vmovl_high_u8(bytes);
    return vreinterpretq_s32_u32(part % 2 ? vmovl_high_u16(half) : vmovl_u16(vget_low_u16(half)));
}

INLINE vi vi_wide_scale_s8(const uint8_t *p, int part)
{
    int16x8_t halves = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(load_u32(p + 4 * part))));
    return vmovl_s16(vget_low_s16(halves));
}

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
    return vi_widen_u8(p, part) & vdupq_n_s32(15);
}

/* ---- dot products ---- */

/* The same 4 bytes in all lanes, by one load. */
INLINE int8x16_t splat4(const int8_t *p)
{
    return vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)p));
}

/* Adds the 4 products in each lane. */
INLINE vi dot4(vi sum, vi w, int8x16_t x)
{
    int8x16_t bytes = vreinterpretq_s8_s32(w);
#if VEC_DOTPROD
    return vdotq_s32(sum, bytes, x);
#else
    int16x8_t low = vmull_s8(vget_low_s8(bytes), vget_low_s8(x)), high = vmull_high_s8(bytes, x);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}

#if VEC_DOTPROD
#define VEC_QUADS

/* 32 activations, which sdot takes four at a time out of registers. */
typedef struct {
    int8x16_t of[2];
} vec_quads;

INLINE vec_quads vec_load_quads(const int8_t *x)
{
    return (vec_quads){{vld1q_s8(x), vld1q_s8(x + 16)}};
}

/* Adds the products of w with quad `quad` of 16 activations. */
INLINE vi dot4_quad(vi sum, vi w, int8x16_t x, unsigned quad)
{
    int8x16_t bytes = vreinterpretq_s8_s32(w);
    switch (quad) {
    case 0:
        return vdotq_laneq_s32(sum, bytes, x, 0);
    case 1:
        return vdotq_laneq_s32(sum, bytes, x, 1);
    case 2:
        return vdotq_laneq_s32(sum, bytes, x, 2);
    default:
        return vdotq_laneq_s32(sum, bytes, x, 3);
    }
}
#endif

INLINE vdot vi_dot_zero(void)
{
    return vdupq_n_s32(0);
}

INLINE vdot vi_dot_start(const void *pair, int offset)
{
    int32_t sum = (int16_t)load_u16(pair) + (int16_t)load_u16((const uint8_t *)pair + 2);
    return vdupq_n_s32(offset * sum);
}

/* Weights are 64 at most: as signed numbers they are the same. */
INLINE vdot vi_dot_add(vdot sum, vi w, const int8_t *x)
{
    return dot4(sum, w, splat4(x));
}

INLINE vi vi_dot_sum(vdot sum)
{
    return sum;
}

INLINE vi vi_mul32(vi a, vi b)
{
    return vmulq_s32(a, b);
}

INLINE vi vi_dot_scale(vdot sum, vi scale)
{
    return vi_mul32(sum, scale);
}

INLINE vi vi_signed_ready(vi w)
{
    return w;
}

INLINE vi vi_signed_start(const void *pair)
{
    (void)pair;
    return vi_dot_zero();
}

INLINE vi vi_signed_add(vi sum, vi w, const int8_t *x)
{
    return dot4(sum, w, splat4(x));
}

/* ---- floats ---- */

INLINE vf vf_set(float value)
{
    return vdupq_n_f32(value);
}

INLINE vf vf_splat(const void *p)
{
    return vld1q_dup_f32(p);
}

INLINE vf vf_load(const void *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

INLINE void vf_store(void *p, vf v)
{
    vst1q_u8(p, vreinterpretq_u8_f32(v));
}

INLINE vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

INLINE vf vf_fma_bf16(vf a, vf b, vf c)
{
    return vf_fma(a, b, c);
}

INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

/* fmin and fmax of ARM treat NaN in another way. */
INLINE vf vf_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

INLINE vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

INLINE uint32_t vf_at_least(vf a, vf b)
{
    const uint32x4_t lanes = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_f32(a, b), lanes));
}

INLINE vf vf_from_int(vi v)
{
    return vcvtq_f32_s32(v);
}

INLINE vf vf_from_high4(const uint8_t *p, int part)
{
    return vcvtq_f32_u32(vshrq_n_u32(vreinterpretq_u32_s32(vi_widen_u8(p, part)), 4));
}

INLINE vf vf_from_half(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE void vf_store_half(void *p, vf v)
{
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)));
}

INLINE vf vf_swap(vf v)
{
    return vrev64q_f32(v);
}

INLINE float vf_fold(vf v)
{
    float32x2_t s = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}

INLINE vf vf_from_bits(uint32x4_t bits)
{
    return vreinterpretq_f32_u32(bits);
}

INLINE vf vf_from_bf16_even(vi v)
{
    return vf_from_bits(vshlq_n_u32(vreinterpretq_u32_s32(v), 16));
}

INLINE vf vf_from_bf16_odd(vi v)
{
    return vf_from_bits(vandq_u32(vreinterpretq_u32_s32(v), vdupq_n_u32(0xffff0000)));
}

INLINE vf vf_from_s8(vi v, unsigned byte)
{
    return vcvtq_f32_s32(vshrq_n_s32(vshlq_s32(v, vdupq_n_s32(24 - 8 * (int)byte)), 24));
}

INLINE vf vf_from_e8m0_half(const uint8_t *p, int part)
{
    uint32x4_t e = vreinterpretq_u32_s32(vi_widen_u8(p, part));
    uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    uint32x4_t small = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
    return vf_from_bits(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
}

INLINE vf vf_scale_magic(vf v, vf magic)
{
    int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(magic), vdupq_n_s32(0x4b400000));
    int32x4_t half = vshrq_n_s32(n, 1), bias = vdupq_n_s32(127);
    int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(n, half), bias), 23);
    v = vmulq_f32(v, vreinterpretq_f32_s32(first));
    return vmulq_f32(v, vreinterpretq_f32_s32(second));
}

INLINE vf vf_scale_power(vf v, vf magic)
{
    int32x4_t power = vshlq_n_s32(vreinterpretq_s32_f32(magic), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(v), power));
}

/* ---- quantizing 32 activations ---- */

INLINE uint32_t vec_absmax32(const float *x)
{
    uint32x4_t max = vdupq_n_u32(0);
    UNROLL_FOR (int i = 0; i < 32; i += 4) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
        max = vmaxq_u32(max, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
    }
    return vmaxvq_u32(max);
}

/* n is a multiple of 64. Without their sign they are ordered like integers. */
INLINE uint32_t vec_absmax_bf16(const uint8_t *from, uint64_t n)
{
    uint16x8_t max[4] = {vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0), vdupq_n_u16(0)};
    for (uint64_t c = 0; c < n; c += 32) {
        UNROLL_FOR (unsigned i = 0; i < 4; i++) {
            uint16x8_t x = vreinterpretq_u16_u8(vld1q_u8(from + 2 * c + 16 * i));
            max[i] = vmaxq_u16(max[i], vandq_u16(x, vdupq_n_u16(0x7fff)));
        }
    }
    max[0] = vmaxq_u16(vmaxq_u16(max[0], max[1]), vmaxq_u16(max[2], max[3]));
    return (uint32_t)vmaxvq_u16(max[0]) << 16;
}

INLINE void vec_flip64(int8_t *q)
{
    UNROLL_FOR (int i = 0; i < 64; i += 16)
        vst1q_s8(q + i, veorq_s8(vld1q_s8(q + i), vdupq_n_s8(-128)));
}

INLINE int16x4_t quantize4(const float *x, float scale)
{
    float32x4_t magic = vdupq_n_f32(12582912.0f);
    float32x4_t sum = vaddq_f32(vmulq_f32(vld1q_f32(x), vdupq_n_f32(scale)), magic);
    return vmovn_s32(vsubq_s32(vreinterpretq_s32_f32(sum), vreinterpretq_s32_f32(magic)));
}

/* Adding 1.5 * 2^23 rounds to an integer in the low bits, ties to even. */
INLINE void vec_quantize32(const float *x, float scale, int8_t *q)
{
    UNROLL_FOR (int i = 0; i < 32; i += 8) {
        int16x8_t whole = vcombine_s16(quantize4(x + i, scale), quantize4(x + i + 4, scale));
        vst1_s8(q + i, vmovn_s16(whole));
    }
}

/* The low byte of a sum is q + 128. */
INLINE uint16x8_t code8(uint16x8_t x, float scale)
{
    float32x4_t magic = vdupq_n_f32(12582912.0f + 128.0f), scales = vdupq_n_f32(scale);
    float32x4_t low = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16));
    float32x4_t high = vreinterpretq_f32_u32(vshll_high_n_u16(x, 16));
    low = vaddq_f32(vmulq_f32(low, scales), magic);
    high = vaddq_f32(vmulq_f32(high, scales), magic);
    return vuzp1q_u16(vreinterpretq_u16_f32(low), vreinterpretq_u16_f32(high));
}

INLINE void vec_codes64_bf16(const uint8_t *from, float scale, uint8_t *codes)
{
    UNROLL_FOR (int i = 0; i < 64; i += 16) {
        uint16x8_t low = code8(vreinterpretq_u16_u8(vld1q_u8(from + 2 * i)), scale);
        uint16x8_t high = code8(vreinterpretq_u16_u8(vld1q_u8(from + 2 * i + 16)), scale);
        vst1q_u8(codes + i, vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
    }
}

INLINE void vec_pair_sums32(const int8_t *q, int16_t *pair)
{
    int16x8_t low = vpaddlq_s8(vld1q_s8(q)), high = vpaddlq_s8(vld1q_s8(q + 16));
    int16x8_t sums = vpaddq_s16(vuzp1q_s16(low, high), vuzp2q_s16(low, high));
    sums = vpaddq_s16(sums, sums); /* first and second of the low half's, of the high half's, ... */
    pair[0] = vgetq_lane_s16(sums, 0);
    pair[1] = vgetq_lane_s16(sums, 2);
    pair[2] = vgetq_lane_s16(sums, 1);
    pair[3] = vgetq_lane_s16(sums, 3);
}

#endif
