/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum.c - each function is compiled twice on x86-64, as any CPU of it runs it and for AVX2, since sums over
 * experts are a tenth of a prompt's time otherwise. Both give the same bits: nothing is fused, and each
 * number is added up alone.
 */
#include "core/forward/sum.h"

#include "core/weights/decode/decode.h"
#include "core/weights/decode/encode.h"

#include <kt/types.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Vectors of the compiler's own: it makes of them what the CPU has. */
#define WIDTH 8
typedef float floats __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t words __attribute__((vector_size(4 * WIDTH)));
typedef uint16_t halves __attribute__((vector_size(2 * WIDTH)));

/* ---- numbers as float32, and back ---- */

INLINE void read_floats(floats *to, const void *y, uint32_t dtype, uint64_t i)
{
    if (dtype == KT_DTYPE_BF16) {
        halves half;
        memcpy(&half, (const uint16_t *)y + i, sizeof half);
        words wide = __builtin_convertvector(half, words) << 16;
        memcpy(to, &wide, sizeof wide);
    } else {
        memcpy(to, (const float *)y + i, sizeof *to);
    }
}

INLINE float read_float(const void *y, uint32_t dtype, uint64_t i)
{
    return dtype == KT_DTYPE_F32    ? ((const float *)y)[i]
           : dtype == KT_DTYPE_BF16 ? kt_bf16_float(((const uint16_t *)y)[i])
                                    : kt_f16_float(((const uint16_t *)y)[i]);
}

/* kt_to_bf16 of each. */
INLINE void store_bf16(uint16_t *out, const float *sum)
{
    words bits, nan;
    memcpy(&bits, sum, sizeof bits);
    nan = (words)((bits & 0x7fffffff) > 0x7f800000);
    words rounded = bits + 0x7fff + (bits >> 16 & 1), kept = bits | 0x400000;
    halves half = __builtin_convertvector(((kept & nan) | (rounded & ~nan)) >> 16, halves);
    memcpy(out, &half, sizeof half);
}

/* ---- the functions, for any CPU ---- */

INLINE void add(float *sum, const void *y, uint32_t dtype, float weight, uint64_t n)
{
    uint64_t i = 0;
    for (; n - i >= WIDTH; i += WIDTH) {
        floats before, more;
        read_floats(&more, y, dtype, i);
        memcpy(&before, sum + i, sizeof before);
        before += weight * more;
        memcpy(sum + i, &before, sizeof before);
    }
    for (; i < n; i++)
        sum[i] += weight * read_float(y, dtype, i);
}

INLINE void add_any(float *sum, const void *y, uint32_t y_dtype, float weight, uint64_t n)
{
    if (y_dtype == KT_DTYPE_BF16)
        add(sum, y, KT_DTYPE_BF16, weight, n);
    else
        add(sum, y, KT_DTYPE_F32, weight, n);
}

INLINE void add_before(float *sum, const void *before, uint32_t dtype, uint64_t n)
{
    uint64_t i = 0;
    for (; n - i >= WIDTH; i += WIDTH) {
        floats more, old;
        read_floats(&old, before, dtype, i);
        memcpy(&more, sum + i, sizeof more);
        old += more;
        memcpy(sum + i, &old, sizeof old);
    }
    for (; i < n; i++)
        sum[i] = read_float(before, dtype, i) + sum[i];
}

INLINE void add_before_any(float *sum, const void *before, uint32_t dtype, uint64_t n)
{
    if (dtype == KT_DTYPE_BF16)
        add_before(sum, before, KT_DTYPE_BF16, n);
    else
        add_before(sum, before, KT_DTYPE_F32, n);
}

INLINE void round_bf16(uint16_t *out, const float *sum, uint64_t n)
{
    uint64_t i = 0;
    for (; n - i >= WIDTH; i += WIDTH)
        store_bf16(out + i, sum + i);
    for (; i < n; i++)
        out[i] = kt_to_bf16(sum[i]);
}

/* ---- the same for AVX2 ---- */

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define HAS_AVX2 __builtin_cpu_supports("avx2")
#else
#define AVX2
#define HAS_AVX2 0
#endif

static AVX2 void add_avx2(float *sum, const void *y, uint32_t y_dtype, float weight, uint64_t n)
{
    add_any(sum, y, y_dtype, weight, n);
}

static AVX2 void add_before_avx2(float *sum, const void *before, uint32_t dtype, uint64_t n)
{
    add_before_any(sum, before, dtype, n);
}

static AVX2 void round_bf16_avx2(uint16_t *out, const float *sum, uint64_t n)
{
    round_bf16(out, sum, n);
}

void kt_sum_add(float *sum, const void *y, uint32_t y_dtype, float weight, uint64_t n)
{
    if (HAS_AVX2)
        add_avx2(sum, y, y_dtype, weight, n);
    else
        add_any(sum, y, y_dtype, weight, n);
}

void kt_sum_add_before(float *sum, const void *before, uint32_t dtype, uint64_t n)
{
    if (dtype == KT_DTYPE_F16)
        for (uint64_t i = 0; i < n; i++)
            sum[i] = kt_f16_float(((const uint16_t *)before)[i]) + sum[i];
    else if (HAS_AVX2)
        add_before_avx2(sum, before, dtype, n);
    else
        add_before_any(sum, before, dtype, n);
}

void kt_sum_fetch(const void *at, uint64_t size)
{
    for (uint64_t i = 0; i < size; i += 64)
        __builtin_prefetch((const char *)at + i, 0, 3);
}

void kt_sum_store(float *sum, void *out, uint32_t dtype, bool accumulate, uint64_t n)
{
    if (accumulate)
        kt_sum_add_before(sum, out, dtype, n);
    if (dtype == KT_DTYPE_F32)
        memcpy(out, sum, n * sizeof *sum);
    else if (dtype == KT_DTYPE_BF16 && HAS_AVX2)
        round_bf16_avx2(out, sum, n);
    else if (dtype == KT_DTYPE_BF16)
        round_bf16(out, sum, n);
    else
        for (uint64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = kt_to_f16(sum[i]);
}
