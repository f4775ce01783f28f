/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantize8.h - rows of numbers to int8 with one scale: q = x / scale to the nearest whole number,
 * scale = max|x| / 127. Plain C in loops of fixed length, which compilers turn into the vectors of the
 * level that includes this; one IEEE operation after the other, so that levels agree to the bit.
 *
 * A row with an infinity or NaN gets q = 0 and a scale of NaN, which makes all that it touches NaN and
 * nothing else. Below 2^-118, where 127 / max|x| would overflow, a row is zero.
 */
#ifndef KT_PLUGINS_QUANTIZE8_H
#define KT_PLUGINS_QUANTIZE8_H

#include "plugins/common/half.h"

#include <kt/plugin.h>

#define Q8_STEP 64 /* numbers that a call of the functions below takes */

struct q8_scale {
    float scale;
    float inverse; /* 0: all q are 0 */
};

/* The larger of each max[i] and |x[i]|, as bits: above 0x7f7fffff if one is infinite or NaN. */
static inline void q8_max(const float *x, int32_t *max)
{
    for (int i = 0; i < Q8_STEP; i++) {
        int32_t bits = (int32_t)(float_to_bits(x[i]) & 0x7fffffff);
        max[i] = bits > max[i] ? bits : max[i];
    }
}

static inline struct q8_scale q8_make_scale(int32_t max_bits)
{
    float max = bits_to_float((uint32_t)max_bits);

    if (max_bits > 0x7f7fffff)
        return (struct q8_scale){ bits_to_float(0x7fc00000), 0.0f };
    if (max < 0x1p-118f)
        return (struct q8_scale){ 0.0f, 0.0f };
    return (struct q8_scale){ max / 127.0f, 127.0f / max };
}

/* Adding 1.5 * 2^23 leaves the nearest whole number in the low bits, ties to even. NaN, whose inverse
 * is 0, is masked away. */
static inline void q8_quantize(const float *x, float inverse, int8_t *q)
{
    int32_t mask = inverse > 0.0f ? 0xff : 0;
    for (int i = 0; i < Q8_STEP; i++) {
        uint32_t bits = float_to_bits(x[i] * inverse + 12582912.0f);
        q[i] = (int8_t)(bits & (uint32_t)mask);
    }
}

static inline int32_t q8_sum(const int8_t *q)
{
    int32_t sum = 0;
    for (int i = 0; i < Q8_STEP; i++)
        sum += q[i];
    return sum;
}

static inline int32_t q8_fold(const int32_t *max)
{
    int32_t most = 0;
    for (int i = 0; i < Q8_STEP; i++)
        most = max[i] > most ? max[i] : most;
    return most;
}

/* Q8_STEP numbers of a plain format to float32; `n` of them are there, the rest become 0. */
static inline void q8_read(const uint8_t *from, uint32_t dtype, uint64_t n, float *x)
{
    uint16_t half[Q8_STEP];

    if (dtype == KT_DTYPE_F32) {
        if (n >= Q8_STEP) {
            memcpy(x, from, Q8_STEP * sizeof *x);
            return;
        }
        memcpy(x, from, n * sizeof *x);
        memset(x + n, 0, (Q8_STEP - n) * sizeof *x);
        return;
    }
    if (n >= Q8_STEP) {
        memcpy(half, from, sizeof half);
    } else {
        memset(half, 0, sizeof half);
        memcpy(half, from, n * sizeof *half);
    }
    if (dtype == KT_DTYPE_BF16)
        for (int i = 0; i < Q8_STEP; i++)
            x[i] = bf16_to_float(half[i]);
    else
        for (int i = 0; i < Q8_STEP; i += VEC_ROWS)
            vf_store(x + i, vf_from_half(half + i));
}

#endif
