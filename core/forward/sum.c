/* SPDX-License-Identifier: Apache-2.0 */
/* sum.c - the loops are simple, so that the compiler vectorises them. */
#include "core/forward/sum.h"

#include "core/weights/decode/decode.h"
#include "core/weights/decode/encode.h"

#include <kt/types.h>
#include <string.h>

static void add_f32(float *sum, const float *y, float weight, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += weight * y[i];
}

static void add_bf16(float *sum, const uint16_t *y, float weight, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] += weight * kt_bf16_float(y[i]);
}

void kt_sum_add(float *sum, const void *y, uint32_t y_dtype, float weight, uint64_t n)
{
    if (y_dtype == KT_DTYPE_BF16)
        add_bf16(sum, y, weight, n);
    else
        add_f32(sum, y, weight, n);
}

static void load(float *sum, const void *out, uint32_t dtype, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        sum[i] = dtype == KT_DTYPE_F32    ? ((const float *)out)[i]
                 : dtype == KT_DTYPE_BF16 ? kt_bf16_float(((const uint16_t *)out)[i])
                                          : kt_f16_float(((const uint16_t *)out)[i]);
}

void kt_sum_add_before(float *sum, const void *rows, uint32_t dtype, uint64_t n)
{
    float before[KT_SUM_BLOCK];
    load(before, rows, dtype, n);
    for (uint64_t i = 0; i < n; i++)
        sum[i] = before[i] + sum[i];
}

void kt_sum_store(float *sum, void *out, uint32_t dtype, bool accumulate, uint64_t n)
{
    if (accumulate)
        kt_sum_add_before(sum, out, dtype, n);
    if (dtype == KT_DTYPE_F32)
        memcpy(out, sum, n * sizeof *sum);
    else if (dtype == KT_DTYPE_BF16)
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = kt_to_bf16(sum[i]);
    else
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = kt_to_f16(sum[i]);
}
