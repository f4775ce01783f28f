/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd/neon_int8.h - int8 products for ARM: with VEC_DOTPROD defined as 1 by sdot, with VEC_I8MM as 1 by
 * usdot and usmmla, which take codes as they are; with VEC_BF16 as 1 products of bfloat16 by bfdot and
 * bfmmla. simd/scalar_int8.h says what each function does.
 */
#ifndef KT_PLUGINS_COMMON_SIMD_NEON_INT8_H
#define KT_PLUGINS_COMMON_SIMD_NEON_INT8_H

#include "plugins/common/simd/neon.h"

typedef int8x16_t x8;

INLINE x8 x8_splat(const int8_t *p)
{
    return splat4(p);
}

#if VEC_I8MM
#define W8_SUMS_CODES 1

INLINE vi w8_ready(vi code)
{
    return code;
}

INLINE vi w8_add(vi sum, vi w, x8 x)
{
    return vusdotq_s32(sum, vi_bytes(w), x);
}

/* Two rows of weights and two of activations, 8 columns of each: see gemm/mmla_tmpl.h. */
INLINE vi mm_add(vi sum, vi w, vi x)
{
    return vusmmlaq_s32(sum, vi_bytes(w), vreinterpretq_s8_s32(x));
}
#else
#define W8_SUMS_CODES 0

INLINE vi w8_ready(vi code)
{
    return vi_from_bytes(veorq_u8(vi_bytes(code), vdupq_n_u8(128)));
}

INLINE vi w8_add(vi sum, vi w, x8 x)
{
    return dot4(sum, w, x);
}
#endif

/* ---- weights of 4 bits in groups ---- */

#if VEC_DOTPROD
/* Codes become int8 in registers, by one instruction, so there are no sums of groups:
 * int4_group/microkernel_sdot_tmpl.h. */
#define G4_DIRECT

#define FOUR_TIMES(i) i, i, i, i
#define SPREAD_FOUR(i) FOUR_TIMES(i), FOUR_TIMES(i + 1), FOUR_TIMES(i + 2), FOUR_TIMES(i + 3)
static const uint8_t g4_spread[4][16] = {{SPREAD_FOUR(0)},
                                         {SPREAD_FOUR(4)},
                                         {SPREAD_FOUR(8)},
                                         {SPREAD_FOUR(12)}};

/* In all bytes of a row's lane. */
INLINE vi g4_zeros(const uint8_t *p, int part)
{
    return vi_from_bytes(vqtbl1q_u8(vshrq_n_u8(vld1q_u8(p), 4), vld1q_u8(g4_spread[part])));
}

INLINE vi g4_scales(const uint8_t *p, int part)
{
    uint8x16_t scales = vaddq_u8(vandq_u8(vld1q_u8(p), vdupq_n_u8(15)), vdupq_n_u8(1));
    return vi_from_bytes(vqtbl1q_u8(scales, vld1q_u8(g4_spread[part])));
}

/* -scale * zero: what makes w of code * scale. */
INLINE vi g4_minus(vi zeros, vi scales)
{
    return vi_from_bytes(vmlsq_u8(vdupq_n_u8(0), vi_bytes(zeros), vi_bytes(scales)));
}

/* The same for w + 128, what w8_ready takes. */
INLINE vi g4_offsets(vi zeros, vi scales)
{
    return vi_from_bytes(vmlsq_u8(vdupq_n_u8(128), vi_bytes(zeros), vi_bytes(scales)));
}

INLINE vi g4_dequantize(vi code, vi scales, vi offsets)
{
    return vi_from_bytes(vmlaq_u8(vi_bytes(offsets), vi_bytes(code), vi_bytes(scales)));
}
#else
INLINE vi g4_zeros(const uint8_t *p, int part)
{
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(vi_widen_u8(p, part)), 4));
}

INLINE vi g4_scales(const uint8_t *p, int part)
{
    return vaddq_s32(vi_scale_u4(p, part), vdupq_n_s32(1));
}

/* Rows 0 and 1, rows 2 and 3: a sum for each of their four columns. 8 products of up to 15 * 127 fit in 16
 * bits, also beside another 8 (addp), whatever wraps on the way: half the instructions of dot4. */
typedef struct {
    int16x8_t low, high;
} g4_sum;

INLINE g4_sum g4_start(vi zeros, const int16_t *sums)
{
    int16x8_t pair = vreinterpretq_s16_s32(vld1q_dup_s32((const int32_t *)(const void *)sums));
    int16x8_t places = vzip1q_s16(pair, pair); /* of places 0 and 1 in both, then of 2 and 3 */
    return (g4_sum){vmulq_s16(vreinterpretq_s16_s32(vzip1q_s32(zeros, zeros)), places),
                    vmulq_s16(vreinterpretq_s16_s32(vzip2q_s32(zeros, zeros)), places)};
}

INLINE g4_sum g4_add(g4_sum sum, vi code, x8 x)
{
    int8x16_t bytes = vreinterpretq_s8_s32(code);
    sum.low = vmlal_s8(sum.low, vget_low_s8(bytes), vget_low_s8(x));
    sum.high = vmlal_high_s8(sum.high, bytes, x);
    return sum;
}

INLINE vi g4_finish(vi total, g4_sum sum, vi scales)
{
    return vmlaq_s32(total, vpaddlq_s16(vpaddq_s16(sum.low, sum.high)), scales);
}
#endif

/* ---- for packing ---- */

INLINE vi vi_shl32(vi v, int bits)
{
    return v << bits;
}

INLINE vi vi_from_bits(vf v)
{
    return vreinterpretq_s32_f32(v);
}

INLINE vf vf_pick(vf a, vf b, vf x, vf y)
{
    return vbslq_f32(vcltq_f32(a, b), x, y);
}

INLINE void vi_store(void *p, vi v)
{
    vst1q_u8(p, vi_bytes(v));
}

INLINE vi vi_splat32(int32_t value)
{
    return vdupq_n_s32(value);
}

INLINE vi vi_sub32(vi a, vi b)
{
    return vsubq_s32(a, b);
}

INLINE vi vi_max32(vi a, vi b)
{
    return vmaxq_s32(a, b);
}

INLINE vf vf_from_bf16(const void *p)
{
    return vf_from_bits(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

INLINE int32_t vec_sum32(const int8_t *q)
{
    return vaddlvq_s16(vpadalq_s8(vpaddlq_s8(vld1q_s8(q)), vld1q_s8(q + 16)));
}

/* Bits of float32 whose upper half is the nearest bf16, ties to even; NaN stays NaN. */
INLINE uint32x4_t round_bf16(vf v)
{
    uint32x4_t bits = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(v, v), rounded, quiet);
}

INLINE void vf_store_bf16(void *p, vf v)
{
    vst1_u8(p, vreinterpret_u8_u16(vshrn_n_u32(round_bf16(v), 16)));
}

#if VEC_BF16
/* Adds the products of pairs of bf16. */
INLINE vf vf_add_pairs(vf sum, vi w, vi x)
{
    return vbfdotq_f32(sum, vreinterpretq_bf16_s32(w), vreinterpretq_bf16_s32(x));
}

INLINE vi mm_add(vi sum, vi w, vi x)
{
    vf total = vbfmmlaq_f32(vreinterpretq_f32_s32(sum), vreinterpretq_bf16_s32(w), vreinterpretq_bf16_s32(x));
    return vreinterpretq_s32_f32(total);
}
#endif

/* stnp, which says as much, has no intrinsic. */
INLINE void vec_stream64(void *to, const void *from)
{
    memcpy(to, from, 64);
}

INLINE void vec_stream_end(void)
{
}

/* Lanes of 4 rows turned into 4 lines' quarters. */
INLINE void turn4(const uint8_t *rows, uint64_t stride, uint8_t *to)
{
    uint32x4_t r[4], s[4];

    UNROLL_FOR (unsigned i = 0; i < 4; i++)
        r[i] = vreinterpretq_u32_u8(vld1q_u8(rows + i * stride));
    UNROLL_FOR (unsigned i = 0; i < 4; i += 2) {
        s[i] = vtrn1q_u32(r[i], r[i + 1]);
        s[i + 1] = vtrn2q_u32(r[i], r[i + 1]);
    }
    UNROLL_FOR (unsigned i = 0; i < 2; i++) {
        uint64x2_t a = vreinterpretq_u64_u32(s[i]), b = vreinterpretq_u64_u32(s[i + 2]);
        vst1q_u8(to + 64 * i, vreinterpretq_u8_u64(vtrn1q_u64(a, b)));
        vst1q_u8(to + 64 * (i + 2), vreinterpretq_u8_u64(vtrn2q_u64(a, b)));
    }
}

INLINE void vec_make_tile(const uint8_t *rows, uint64_t stride, uint8_t *tile)
{
    for (unsigned c = 0; c < 16; c += 4)
        for (unsigned q = 0; q < 16; q += 4)
            turn4(rows + c * stride + 4 * q, stride, tile + 64 * q + 4 * c);
}

INLINE void vec_part_halves(const uint8_t *line, uint8_t *to)
{
    uint16x8_t r[4];
    UNROLL_FOR (int i = 0; i < 4; i++)
        r[i] = vreinterpretq_u16_u8(vld1q_u8(line + 16 * i));
    UNROLL_FOR (int i = 0; i < 2; i++) {
        vst1q_u8(to + 16 * i, vreinterpretq_u8_u16(vuzp1q_u16(r[2 * i], r[2 * i + 1])));
        vst1q_u8(to + 16 * i + 32, vreinterpretq_u8_u16(vuzp2q_u16(r[2 * i], r[2 * i + 1])));
    }
}

INLINE void vec_part_bytes(const uint8_t *line, uint8_t *to)
{
    const uint8x16x4_t part = vld4q_u8(line);
    UNROLL_FOR (int i = 0; i < 4; i++)
        vst1q_u8(to + 16 * i, part.val[i]);
}

#endif
