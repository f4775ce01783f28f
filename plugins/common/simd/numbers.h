/* SPDX-License-Identifier: Apache-2.0 */
/* simd/numbers.h - numbers of 16 bits as float32, and unaligned loads, in plain C. */
#ifndef KT_PLUGINS_COMMON_SIMD_NUMBERS_H
#define KT_PLUGINS_COMMON_SIMD_NUMBERS_H

#include <stdint.h>
#include <string.h>

static inline uint16_t load_u16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint32_t load_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline float load_f32(const void *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void store_u16(void *to, uint16_t value)
{
    memcpy(to, &value, sizeof value);
}

static inline void store_u32(void *to, uint32_t value)
{
    memcpy(to, &value, sizeof value);
}

static inline float bits_to_float(uint32_t bits)
{
    return load_f32(&bits);
}

static inline uint32_t float_to_bits(float value)
{
    return load_u32(&value);
}

static inline float bf16_to_float(uint16_t bits)
{
    return bits_to_float((uint32_t)bits << 16);
}

/* As vcvtph2ps does it: exact, a signalling NaN becomes a quiet one. */
static inline float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t fraction = half & 0x3ff;
    if (exponent == 0x1f)
        return bits_to_float(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    if (exponent)
        return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
    /* zero and subnormals: fraction * 2^-24 is exact */
    return bits_to_float(sign | float_to_bits((float)fraction * 0x1p-24f));
}

/* The float16 that a float32 was made of by half_to_float. */
static inline uint16_t float_to_half(float value)
{
    uint32_t bits = float_to_bits(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude >= 0x7f800000)
        return (uint16_t)(sign | 0x7c00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x38800000)
        return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
    return (uint16_t)(sign | (uint16_t)(bits_to_float(magnitude) * 0x1p24f));
}

/* The nearest float16, ties to even; NaN stays NaN. */
static inline uint16_t round_to_half(float value)
{
    uint32_t bits = float_to_bits(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000)
        return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
    float units = bits_to_float(magnitude) * 0x1p24f + 0x1p23f; /* rounded to a whole number */
    return (uint16_t)(sign | (uint16_t)(units - 0x1p23f));
}

/* 2^(e - 127), subnormal for e = 0, NaN for 255. */
static inline float e8m0_to_float(uint8_t e)
{
    return bits_to_float(e == 255 ? 0x7fc00000 : e ? (uint32_t)e << 23 : 0x00400000);
}

/* Half of 2^(e - 127), the scale of MXFP4 whose table holds doubled values; subnormal for e < 2. */
static inline float e8m0_half_to_float(uint8_t e)
{
    return bits_to_float(e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23);
}

#endif
