/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - numbers of F32, BF16 and F16, for plugins of tests. */
#ifndef KT_TESTS_PLUGINS_NUMBERS_H
#define KT_TESTS_PLUGINS_NUMBERS_H

#include <kt/types.h>
#include <math.h>
#include <string.h>

static inline float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fff;
    uint32_t bits = sign | (size < 0x7c00 ? size << 13 : 0x7f800000 | size << 13);
    float value;
    memcpy(&value, &bits, sizeof value);
    return size < 0x7c00 ? value * 0x1p112f : value;
}

static inline float read_number(const char *from, uint32_t dtype)
{
    uint16_t half;
    uint32_t bits;
    float value;
    memcpy(&half, from, sizeof half);
    if (dtype == KT_DTYPE_F16)
        return from_half(half);
    if (dtype == KT_DTYPE_F32)
        memcpy(&bits, from, sizeof bits);
    else
        bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t round_half(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    if (isnan(value))
        return 0x7e00;
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
    int exponent;
    float fraction = frexpf(size, &exponent);
    uint32_t bits = (uint32_t)lrintf(fraction * 2048) + (uint32_t)(exponent + 13) * 1024;
    return (uint16_t)(sign | bits);
}

static inline uint16_t round_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return isnan(value) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void write_number(char *to, uint32_t dtype, float value)
{
    uint16_t half = dtype == KT_DTYPE_F16 ? round_half(value) : round_bf16(value);
    if (dtype == KT_DTYPE_F32)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &half, sizeof half);
}

static inline int64_t size_of(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 4 : 2;
}

#endif
