/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm/quantize.h - rows of numbers to int8 with one scale: q = x / scale to the nearest integer, scale =
 * max|x| / 127. Each step is one IEEE operation, so levels agree to the bit.
 *
 * A row with an infinity or NaN gets q = 0 and a scale of NaN, so that all its products, and no others,
 * become NaN. Below 2^-118, where 127 / max|x| would overflow, a row counts as zero.
 */
#ifndef KT_PLUGINS_COMMON_GEMM_QUANTIZE_H
#define KT_PLUGINS_COMMON_GEMM_QUANTIZE_H

#include "plugins/common/simd/simd.h"

#include <kt/plugin.h>
#include <string.h>

#define Q8_STEP 64 /* numbers that a call of the functions below takes */

struct q8_scale {
    float scale;
    float inverse; /* 0: all q are 0 */
};

/* The largest |x| so far in each of VEC_ROWS lanes, as bits: above 0x7f7fffff if one is infinite or NaN. */
INLINE vi q8_max(const float *x, vi max)
{
    UNROLL_FOR (int i = 0; i < Q8_STEP; i += VEC_ROWS)
        max = vi_max32(max, vi_and(vi_load(x + i), vi_splat32(0x7fffffff)));
    return max;
}

INLINE int32_t q8_fold(vi max)
{
    int32_t lane[VEC_ROWS], most = 0;
    vi_store(lane, max);
    for (int i = 0; i < VEC_ROWS; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

static inline struct q8_scale q8_make_scale(int32_t max_bits)
{
    float max = bits_to_float((uint32_t)max_bits);
    if (max_bits > 0x7f7fffff)
        return (struct q8_scale){bits_to_float(0x7fc00000), 0.0f};
    if (max < 0x1p-118f)
        return (struct q8_scale){0.0f, 0.0f};
    return (struct q8_scale){max / 127.0f, 127.0f / max};
}

INLINE void q8_quantize(const float *x, float inverse, int8_t *q)
{
    if (inverse > 0.0f) {
        vec_quantize32(x, inverse, q);
        vec_quantize32(x + 32, inverse, q + 32);
    } else {
        memset(q, 0, Q8_STEP);
    }
}

INLINE int32_t q8_sum(const int8_t *q)
{
    return vec_sum32(q) + vec_sum32(q + 32);
}

/* Q8_STEP numbers of a plain format to float32; `n` of them are there, the rest become 0. */
INLINE void q8_read(const uint8_t *from, uint32_t dtype, uint64_t n, float *x)
{
    _Alignas(64) uint8_t part[Q8_STEP * sizeof(float)];

    if (n < Q8_STEP) {
        memset(part, 0, sizeof part);
        memcpy(part, from, n * (dtype == KT_DTYPE_F32 ? 4 : 2));
        from = part;
    }
    UNROLL_FOR (int i = 0; i < Q8_STEP; i += VEC_ROWS) {
        vf v = dtype == KT_DTYPE_F32    ? vf_load(from + 4 * i)
               : dtype == KT_DTYPE_BF16 ? vf_from_bf16(from + 2 * i)
                                        : vf_from_half(from + 2 * i);
        vf_store(x + i, v);
    }
}

#endif
