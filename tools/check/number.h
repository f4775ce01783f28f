/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - numbers of F32, BF16 and F16. To fewer bits: to the nearest, ties to even, NaN stays NaN, and
 * what is too large becomes infinite.
 */
#ifndef KT_CHECK_NUMBER_H
#define KT_CHECK_NUMBER_H

#include <kt/types.h>
#include <stdbool.h>
#include <string.h>

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float from_bf16(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

static inline uint16_t to_f16(float value)
{
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* subnormal: the sum with 1/2 is rounded to 2^-24 */
        return (uint16_t)(sign | (float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

static inline float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00)
        return bits_float(sign | 0x7f800000 | magnitude << 13);
    if (magnitude >= 0x400)
        return bits_float(sign | ((magnitude << 13) + 0x38000000));
    return bits_float(sign | float_bits((float)magnitude * 0x1p-24f));
}

static inline float load_float(const void *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Bytes of a number. */
static inline uint32_t number_size(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 4 : 2;
}

static inline float read_number(const void *from, uint32_t dtype)
{
    uint16_t half;
    if (dtype == KT_DTYPE_F32)
        return load_float(from);
    memcpy(&half, from, sizeof half);
    return dtype == KT_DTYPE_F16 ? from_f16(half) : from_bf16(half);
}

static inline void write_number(void *to, uint32_t dtype, float value)
{
    uint16_t half = dtype == KT_DTYPE_F16 ? to_f16(value) : to_bf16(value);
    if (dtype == KT_DTYPE_F32)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &half, sizeof half);
}

#endif
