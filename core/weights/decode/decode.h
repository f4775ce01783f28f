/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - exact decoding of numbers and of GGUF's blocks to float32.
 *
 * Every product here is exact or rounded once, so neither vectorization nor a fused multiply-add
 * can change a result: decoders give the same bits on every machine.
 */
#ifndef KT_CORE_WEIGHTS_DECODE_DECODE_H
#define KT_CORE_WEIGHTS_DECODE_DECODE_H

#include <stdint.h>
#include <string.h>

static inline float kt_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t kt_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint16_t kt_load16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline float kt_bf16_float(uint16_t bits)
{
    return kt_bits_float((uint32_t)bits << 16);
}

/* All ones if a < b, else 0, for numbers below 2^31: loops without branches can be vectorized. */
static inline uint32_t kt_mask_below(uint32_t a, uint32_t b)
{
    return (uint32_t)((int32_t)(a - b) >> 31);
}

/* Works on integers except for subnormals, which become normal floats: a thread that flushes
 * denormals to zero gets the same value. */
static inline float kt_f16_float(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t subnormal = kt_mask_below(magnitude, 0x0400), finite = kt_mask_below(magnitude, 0x7c00);
    uint32_t number = kt_mask_below(magnitude, 0x7c01);
    uint32_t small = kt_float_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = (magnitude << 13) + (112u << 23) + (~finite & 112u << 23);
    bits |= ~number & 0x00400000u;
    return kt_bits_float(sign | (bits & ~subnormal) | (small & subnormal));
}

/* No infinities; 0x7f and 0xff are NaN (OCP FP8, "E4M3FN"). */
static inline float kt_e4m3_float(uint8_t code)
{
    uint32_t magnitude = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t subnormal = kt_mask_below(magnitude, 0x08), number = kt_mask_below(magnitude, 0x7f);
    uint32_t small = kt_float_bits((float)(int32_t)magnitude * 0x1p-9f);
    uint32_t bits = (magnitude << 20) + (120u << 23);
    bits |= ~number & 0x7fc00000u;
    return kt_bits_float(sign | (bits & ~subnormal) | (small & subnormal));
}

/* The upper half of a float16. */
static inline float kt_e5m2_float(uint8_t code)
{
    return kt_f16_float((uint16_t)(code << 8));
}

/* 2^(code - 127); 0xff is NaN (OCP MX). */
static inline float kt_e8m0_float(uint8_t code)
{
    uint32_t bits = code == 0 ? 0x00400000u : code == 0xff ? 0x7fc00000u : (uint32_t)code << 23;
    return kt_bits_float(bits);
}

/* n plain numbers, dense, from unaligned memory. Here and below, source and out must not overlap. */
void kt_decode_f32(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_f16(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_bf16(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_f64(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_i8(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_e4m3(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_e5m2(const uint8_t *restrict source, uint64_t n, float *restrict out);
void kt_decode_e8m0(const uint8_t *restrict source, uint64_t n, float *restrict out);

/* n whole blocks, `stride` bytes from one to the next. */
void kt_decode_q4_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q4_1(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q5_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q5_1(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q8_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq4_nl(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_mxfp4(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q2_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q3_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q4_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q5_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q6_k(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq4_xs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq1_s(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq1_m(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq2_xxs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq2_xs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq2_s(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq3_xxs(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_iq3_s(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_tq1_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_tq2_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_nvfp4(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q1_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_q2_0(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_int4(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);
void kt_decode_e2m1(const uint8_t *restrict block, int64_t stride, uint64_t n, float *restrict out);

/* The zero point of int4 weights without zero points. */
enum { KT_INT4_ZERO = 8 };

/* The 16 values of IQ4_NL and IQ4_XS (kvalues_iq4nl of ggml). */
extern const int8_t kt_iq4_values[16];

#endif
