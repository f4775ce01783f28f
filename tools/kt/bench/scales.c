/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scales.c - numbers of 8 and 4 bits, and the scales and zeros beside them. The numbers are Gaussian
 * with a deviation that suits their format; scales bring it to the requested one.
 */
#include "tools/check/number.h"
#include "tools/kt/bench/bench.h"

#include <math.h>

#define E4M3_MAX 448.0f
#define E2M1_MAX 6.0f
#define LOWEST_ZERO 7u /* of 7, 8 and 9 */

/* ---- numbers ---------------------------------------------------------------------------------- */

/* A float format without infinities. */
struct small_float {
    float largest;
    int mantissa_bits, bias;
    unsigned sign; /* the bit of negative numbers */
};
static const struct small_float e4m3 = {E4M3_MAX, 3, 7, 0x80}, e2m1 = {E2M1_MAX, 1, 1, 8};

/* The nearest code, of two the smaller. */
static uint32_t code_of(const struct small_float *format, float value)
{
    int exponent = 1 - format->bias;
    float size = fminf(fabsf(value), format->largest);
    if (size > 0 && ilogbf(size) > exponent)
        exponent = ilogbf(size);
    unsigned steps = (unsigned)ceilf(ldexpf(size, format->mantissa_bits - exponent) - 0.5f);
    unsigned code = ((unsigned)(exponent + format->bias - 1) << format->mantissa_bits) + steps;
    return code | (value < 0 ? format->sign : 0);
}

uint32_t bench_code(uint32_t dtype, float value)
{
    if (dtype == KT_DTYPE_F8_E4M3)
        return code_of(&e4m3, value);
    if (dtype == KT_DTYPE_F4_E2M1)
        return code_of(&e2m1, value);
    float code = rintf(value) + 8.0f;
    return code < 0 ? 0 : code > 15 ? 15 : (uint32_t)code; /* KT_DTYPE_INT4 */
}

bool bench_has_codes(uint32_t dtype)
{
    return dtype == KT_DTYPE_F8_E4M3 || dtype == KT_DTYPE_F4_E2M1 || dtype == KT_DTYPE_INT4;
}

float bench_code_step(const struct bench_source_type *type, float sigma)
{
    float step = type->dtype == KT_DTYPE_INT4      ? 2.5f
                 : type->dtype == KT_DTYPE_F8_E4M3 ? E4M3_MAX / 5.0f
                                                   : E2M1_MAX / 3.0f;
    /* Scales that are powers of 2 are inexact; the numbers make up for it. */
    return type->scale_dtype == KT_DTYPE_F8_E8M0 ? sigma / exp2f(ceilf(log2f(sigma / step))) : step;
}

/* ---- scales and zeros ------------------------------------------------------------------------- */

/* Powers of 2 whose squares are 1 on average: half of them 1/2, an eighth 2. */
static int draw_exponent(struct bench_random *random)
{
    static const int exponents[8] = {-1, -1, -1, -1, 0, 0, 0, 1};
    return exponents[bench_random_below(random, 8)];
}

void bench_scales_fill(const struct bench_source_type *type, struct bench_random *random, float sigma,
                       uint64_t n, unsigned char *out)
{
    uint32_t bytes;
    float size = bench_code_step(type, sigma);
    kt_dtype_block(type->scale_dtype, NULL, &bytes);
    if (type->dtype == KT_DTYPE_INT4) /* rounding and the zeros widen what was drawn */
        size = sqrtf(size * size + 1.0f / 12 + (type->zero_dtype != KT_DTYPE_NONE ? 2.0f / 3 : 0));
    for (uint64_t i = 0; i < n; i++, out += bytes) {
        float spread = 0.75f + 0.5f * (float)(bench_random_next(random) >> 40) * 0x1p-24f;
        if (type->scale_dtype == KT_DTYPE_F8_E8M0)
            *out = (unsigned char)(127 + (int)lrintf(log2f(sigma / size)) + draw_exponent(random));
        else
            write_number(out, type->scale_dtype, sigma / size * spread);
    }
}

void bench_zeros_fill(struct bench_random *random, uint64_t n, unsigned char *out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = (unsigned char)(LOWEST_ZERO + bench_random_below(random, 3));
}
