/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - exact decoding of numbers and of GGUF's blocks to float32.
 *
 * Every product here is exact or rounded once, so neither vectorisation nor a fused multiply-add
 * can change a result: decoders give the same bits on every machine.
 */
#ifndef KT_CORE_DECODE_H
#define KT_CORE_DECODE_H

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

/* Works on integers except for subnormals, which become normal floats: a thread that flushes
 * denormals to zero gets the same value. */
static inline float kt_f16_float(uint16_t half)
{
    uint32_t magnitude = half & 0x7fffu;
    uint32_t small = kt_float_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = (magnitude << 13) + (magnitude >= 0x7c00 ? 224u << 23 : 112u << 23);
    bits |= magnitude > 0x7c00 ? 0x00400000u : 0;
    bits = magnitude < 0x0400 ? small : bits;
    return kt_bits_float(bits | (uint32_t)(half & 0x8000u) << 16);
}

/* No infinities; 0x7f and 0xff are NaN (OCP FP8, "E4M3FN"). */
static inline float kt_e4m3_float(uint8_t code)
{
    uint32_t magnitude = code & 0x7fu;
    uint32_t small = kt_float_bits((float)(int32_t)magnitude * 0x1p-9f);
    uint32_t bits = (magnitude << 20) + (120u << 23);
    bits = magnitude < 0x08 ? small : bits;
    bits = magnitude == 0x7f ? 0x7fc00000u : bits;
    return kt_bits_float(bits | (uint32_t)(code & 0x80u) << 24);
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

/* n plain numbers, dense, from unaligned memory. */
void kt_decode_f32(const uint8_t *source, uint64_t n, float *out);
void kt_decode_f16(const uint8_t *source, uint64_t n, float *out);
void kt_decode_bf16(const uint8_t *source, uint64_t n, float *out);
void kt_decode_f64(const uint8_t *source, uint64_t n, float *out);
void kt_decode_e4m3(const uint8_t *source, uint64_t n, float *out);
void kt_decode_e5m2(const uint8_t *source, uint64_t n, float *out);
void kt_decode_e8m0(const uint8_t *source, uint64_t n, float *out);

/* n whole blocks, `stride` bytes from one to the next. */
void kt_decode_q4_0(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q4_1(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q5_0(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q5_1(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q8_0(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_iq4_nl(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_mxfp4(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q2_k(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q3_k(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q4_k(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q5_k(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_q6_k(const uint8_t *block, int64_t stride, uint64_t n, float *out);
void kt_decode_iq4_xs(const uint8_t *block, int64_t stride, uint64_t n, float *out);

/* The 16 values of IQ4_NL and IQ4_XS (kvalues_iq4nl of ggml). */
extern const int8_t kt_iq4_values[16];

#endif
