/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rope.c - tables of rotary positions. Angles are double: in float32 a position of 100000 times a frequency
 * near 1 would lose the bits that tell neighbors apart.
 */
#include "core/base/error.h"
#include "core/rows/operand.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#define MAX_PAIRS 512
#define PI 3.14159265358979323846

static bool is_positive(double x)
{
    return x > 0.0 && isfinite(x);
}

static double or_default(double x, double value)
{
    return x != 0.0 ? x : value;
}

static enum kt_status check_scaling(const struct kt_rope_params *p, struct kt_error *error)
{
    static const char function[] = "kt_rope_table";
    double low = or_default(p->low_frequency, 1.0), high = or_default(p->high_frequency, 4.0);
    double fast = or_default(p->beta_fast, 32.0), slow = or_default(p->beta_slow, 1.0);
    if (p->scaling != KT_ROPE_PLAIN && !is_positive(p->factor))
        return kt_fail(error, KT_E_INVALID, "%s: the factor is %g, it must be above 0", function, p->factor);
    if (p->scaling != KT_ROPE_YARN && p->scaling != KT_ROPE_LLAMA3)
        return KT_OK;
    if (!is_positive(p->original_positions))
        return kt_fail(error, KT_E_INVALID, "%s: original_positions is %g, it must be above 0", function,
                       p->original_positions);
    if (p->scaling == KT_ROPE_LLAMA3 && !(is_positive(low) && is_positive(high) && high > low))
        return kt_fail(error, KT_E_INVALID,
                       "%s: low_frequency is %g, high_frequency %g: the first must be above 0, the second "
                       "above the first",
                       function, low, high);
    if (p->scaling == KT_ROPE_YARN && !(is_positive(fast) && is_positive(slow)))
        return kt_fail(error, KT_E_INVALID, "%s: beta_fast is %g, beta_slow %g: they must be above 0",
                       function, fast, slow);
    if (p->attention_factor < 0.0 || p->mscale < 0.0 || p->mscale_all_dim < 0.0 ||
        !isfinite(p->attention_factor + p->mscale + p->mscale_all_dim))
        return kt_fail(error, KT_E_INVALID,
                       "%s: attention_factor %g, mscale %g and mscale_all_dim %g must not be below 0",
                       function, p->attention_factor, p->mscale, p->mscale_all_dim);
    return KT_OK;
}

static enum kt_status check_params(const struct kt_rope_params *p, struct kt_error *error)
{
    static const char function[] = "kt_rope_table";
    if (!p || p->struct_size < sizeof *p)
        return kt_fail(error, KT_E_INVALID,
                       "%s: params is NULL, or its struct_size is too small; start with KT_ROPE_PARAMS_INIT",
                       function);
    enum kt_status status = kt_rows_check_number(function, "scaling", p->scaling, 0, KT_ROPE_LLAMA3, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "size", p->size, 2, 2 * MAX_PAIRS, error);
    if (status != KT_OK)
        return status;
    if (p->size % 2)
        return kt_fail(error, KT_E_INVALID, "%s: size is %" PRIu32 ", but must be even", function, p->size);
    if (!(p->base > 1.0 && isfinite(p->base)))
        return kt_fail(error, KT_E_INVALID, "%s: the base is %g, it must be above 1", function, p->base);
    for (uint32_t i = 0; p->divisors && i < p->size / 2; i++)
        if (!is_positive(p->divisors[i]))
            return kt_fail(error, KT_E_INVALID, "%s: divisor %" PRIu32 " is %g, it must be above 0", function,
                           i, (double)p->divisors[i]);
    return check_scaling(p, error);
}

/* The pair whose angle turns b times within the original positions. */
static double find_correction(const struct kt_rope_params *p, double b)
{
    return p->size * log(p->original_positions / (b * 2.0 * PI)) / (2.0 * log(p->base));
}

static void scale_yarn(const struct kt_rope_params *p, double *frequency)
{
    double low = find_correction(p, or_default(p->beta_fast, 32.0));
    double high = find_correction(p, or_default(p->beta_slow, 1.0));
    if (!p->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, p->size - 1.0);
    for (uint32_t i = 0; i < p->size / 2; i++) {
        double t = fmin(fmax((i - low) / fmax(0.001, high - low), 0.0), 1.0);
        frequency[i] *= t / p->factor + (1.0 - t);
    }
}

static void scale_llama3(const struct kt_rope_params *p, double *frequency)
{
    double low = or_default(p->low_frequency, 1.0), high = or_default(p->high_frequency, 4.0);
    for (uint32_t i = 0; i < p->size / 2; i++) {
        double turns = p->original_positions * frequency[i] / (2.0 * PI); /* L / w */
        double u = fmin(fmax((turns - low) / (high - low), 0.0), 1.0);
        frequency[i] *= u + (1.0 - u) / p->factor;
    }
}

static void find_frequencies(const struct kt_rope_params *p, double *frequency)
{
    for (uint32_t i = 0; i < p->size / 2; i++)
        frequency[i] = pow(p->base, -2.0 * i / p->size) / (p->divisors ? (double)p->divisors[i] : 1.0);
    if (p->scaling == KT_ROPE_YARN)
        scale_yarn(p, frequency);
    else if (p->scaling == KT_ROPE_LLAMA3)
        scale_llama3(p, frequency);
    else if (p->scaling == KT_ROPE_LINEAR)
        for (uint32_t i = 0; i < p->size / 2; i++)
            frequency[i] /= p->factor;
}

static double find_mscale(const struct kt_rope_params *p, double c)
{
    return p->factor <= 1.0 ? 1.0 : 0.1 * c * log(p->factor) + 1.0;
}

static double find_amplitude(const struct kt_rope_params *p)
{
    if (p->scaling != KT_ROPE_YARN)
        return 1.0;
    if (p->attention_factor > 0.0)
        return p->attention_factor;
    if (p->mscale > 0.0 && p->mscale_all_dim > 0.0)
        return find_mscale(p, p->mscale) / find_mscale(p, p->mscale_all_dim);
    return find_mscale(p, 1.0);
}

enum kt_status kt_rope_table(const struct kt_rope_params *params, uint64_t first, uint32_t n_rows,
                             float *table, int64_t stride, struct kt_error *error)
{
    enum kt_status status = check_params(params, error);
    if (status != KT_OK || n_rows == 0)
        return status;
    status = kt_rows_check_floats((struct kt_rows_name){"kt_rope_table", "the table"}, table, &stride,
                                  params->size, error);
    if (status != KT_OK)
        return status;
    /* Above, doubles no longer tell positions apart. */
    if (first > (UINT64_C(1) << 52))
        return kt_fail(error, KT_E_RANGE, "kt_rope_table: position %" PRIu64 " is above 2^52", first);
    double frequency[MAX_PAIRS], amplitude = find_amplitude(params);
    find_frequencies(params, frequency);
    for (uint32_t r = 0; r < n_rows; r++) {
        float *row = (float *)(void *)((char *)table + (int64_t)r * stride);
        for (uint32_t i = 0; i < params->size / 2; i++) {
            double angle = (double)(first + r) * frequency[i];
            row[2 * i] = (float)(cos(angle) * amplitude);
            row[2 * i + 1] = (float)(sin(angle) * amplitude);
        }
    }
    return KT_OK;
}

enum kt_status kt_rope_softmax_factor(const struct kt_rope_params *params, double *factor,
                                      struct kt_error *error)
{
    enum kt_status status = check_params(params, error);
    if (status != KT_OK)
        return status;
    if (!factor)
        return kt_fail(error, KT_E_INVALID, "kt_rope_softmax_factor: factor must not be NULL");
    double m = params->scaling == KT_ROPE_YARN && params->mscale_all_dim > 0.0
                   ? find_mscale(params, params->mscale_all_dim)
                   : 1.0;
    *factor = m * m;
    return KT_OK;
}
