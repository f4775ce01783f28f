/* SPDX-License-Identifier: Apache-2.0 */
/* bench_source.c - expert weights in a source format: Gaussian with deviation 1 / sqrt(columns). */
#include "tools/kt/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct bench_source_type types[] = {
    {"f32", KT_DTYPE_F32, 0, 0, 0},       {"f16", KT_DTYPE_F16, 0, 0, 0},
    {"bf16", KT_DTYPE_BF16, 0, 0, 0},     {"fp8_block", KT_DTYPE_F8_E4M3, KT_DTYPE_F32, 128, 128},
    {"q4_0", KT_DTYPE_Q4_0, 0, 0, 0},     {"q4_1", KT_DTYPE_Q4_1, 0, 0, 0},
    {"q5_0", KT_DTYPE_Q5_0, 0, 0, 0},     {"q5_1", KT_DTYPE_Q5_1, 0, 0, 0},
    {"q8_0", KT_DTYPE_Q8_0, 0, 0, 0},     {"q2_k", KT_DTYPE_Q2_K, 0, 0, 0},
    {"q3_k", KT_DTYPE_Q3_K, 0, 0, 0},     {"q4_k", KT_DTYPE_Q4_K, 0, 0, 0},
    {"q5_k", KT_DTYPE_Q5_K, 0, 0, 0},     {"q6_k", KT_DTYPE_Q6_K, 0, 0, 0},
    {"iq4_nl", KT_DTYPE_IQ4_NL, 0, 0, 0}, {"iq4_xs", KT_DTYPE_IQ4_XS, 0, 0, 0},
    {"mxfp4", KT_DTYPE_MXFP4, 0, 0, 0},
};
#define N_TYPES (sizeof types / sizeof *types)

#define N_SAMPLES 65536
#define MAX_DISTINCT 8
#define MAX_SOURCE_SIZE (UINT64_C(512) << 20)
#define E4M3_MAX 448.0f

const struct bench_source_type *bench_source_find(const char *name)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const char *bench_source_names(void)
{
    static char names[256];
    size_t used = 0;
    for (size_t i = 0; i < N_TYPES && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : " ",
                                 types[i].name);
    return names;
}

/* ---- sizes ------------------------------------------------------------------------------------
 */

static uint64_t group_count(uint64_t n, uint32_t group)
{
    return (n + group - 1) / group;
}

/* Bytes of a matrix and of its scales; 0: overflow, or columns that are no whole blocks. */
static uint64_t matrix_size(const struct bench_source_type *type, uint64_t rows, uint64_t cols,
                            uint64_t *scale_size)
{
    uint32_t elements, bytes;
    uint64_t size;
    kt_dtype_block(type->dtype, &elements, &bytes);
    *scale_size = 0;
    if (elements == 0 || cols % elements != 0 ||
        __builtin_mul_overflow(rows, cols / elements, &size) ||
        __builtin_mul_overflow(size, (uint64_t)bytes, &size) || size > UINT64_MAX / 64)
        return 0;
    if (type->scale_dtype != KT_DTYPE_NONE)
        *scale_size = group_count(rows, type->group_rows) * group_count(cols, type->group_cols) * 4;
    return size;
}

uint64_t bench_source_size(const struct bench_source_type *type, uint64_t hidden_size,
                           uint64_t intermediate_size, uint32_t n_experts, uint32_t *n_distinct)
{
    uint64_t up_scales, down_scales;
    uint64_t up = matrix_size(type, intermediate_size, hidden_size, &up_scales);
    uint64_t down = matrix_size(type, hidden_size, intermediate_size, &down_scales);
    if (up == 0 || down == 0)
        return 0;
    uint64_t expert = 2 * (up + up_scales) + down + down_scales;
    uint64_t n = MAX_SOURCE_SIZE / expert;
    n = n < 1 ? 1 : n > MAX_DISTINCT ? MAX_DISTINCT : n;
    *n_distinct = n < n_experts ? (uint32_t)n : n_experts;
    return expert * *n_distinct;
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

static float e4m3_value(unsigned code)
{
    int exponent = (int)(code >> 3 & 15);
    float mantissa = (float)(code & 7) / 8.0f;
    return exponent == 0 ? ldexpf(mantissa, -6) : ldexpf(1.0f + mantissa, exponent - 7);
}

/* The nearest code of 0 .. 448; what is negative gets the sign bit. */
static uint8_t e4m3_code(float value)
{
    unsigned low = 0, high = 0x7e;
    float size = fminf(fabsf(value), E4M3_MAX);
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (e4m3_value(middle) <= size)
            low = middle;
        else
            high = middle;
    }
    unsigned code = size - e4m3_value(low) <= e4m3_value(high) - size ? low : high;
    return (uint8_t)(code | (value < 0 ? 0x80u : 0));
}

/* Weights of a plain format are drawn from a table of Gaussian numbers that is already in the
 * format: quick enough for layers of gigabytes. */
static bool fill_plain(uint32_t dtype, struct bench_random *random, float sigma,
                       const float *samples, uint64_t n, unsigned char *out)
{
    static uint32_t codes[N_SAMPLES];
    uint32_t elements, bytes;
    kt_dtype_block(dtype, &elements, &bytes);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        float value = samples[i] * sigma;
        if (dtype == KT_DTYPE_F32)
            memcpy(&codes[i], &value, sizeof value);
        else if (dtype == KT_DTYPE_F16)
            codes[i] = bench_f16(value);
        else if (dtype == KT_DTYPE_BF16)
            codes[i] = bench_bf16(value);
        else if (dtype == KT_DTYPE_F8_E4M3)
            codes[i] = e4m3_code(samples[i] * (E4M3_MAX / 5.0f)); /* its scale brings sigma */
        else
            return false;
    }
    for (uint64_t i = 0; i < n; i += 4) {
        uint64_t bits = bench_random_next(random);
        for (uint64_t j = i; j < n && j < i + 4; j++, bits >>= 16)
            memcpy(out + j * bytes, &codes[bits & 0xffff], bytes);
    }
    return true;
}

/* ---- matrices ---------------------------------------------------------------------------------
 */

static void *keep(struct bench_source *source, uint64_t size)
{
    void *memory = size < SIZE_MAX ? malloc((size_t)size) : NULL;
    if (memory != NULL)
        source->memory[source->n_memory++] = memory;
    return memory;
}

static enum kt_status make_matrix(struct bench_source *source, struct bench_random *random,
                                  const float *samples, uint64_t rows, uint64_t cols,
                                  struct kt_view *view, struct kt_error *error)
{
    const struct bench_source_type *type = source->type;
    uint64_t scale_size, size = matrix_size(type, rows, cols, &scale_size);
    float sigma = 1.0f / sqrtf((float)cols);
    unsigned char *data = keep(source, size);
    float *scales = scale_size != 0 ? keep(source, scale_size) : NULL;
    if (data == NULL || (scale_size != 0 && scales == NULL)) {
        error->status = KT_E_NOMEM;
        snprintf(error->message, sizeof error->message, "no %llu bytes for the source weights",
                 (unsigned long long)(size + scale_size));
        return KT_E_NOMEM;
    }
    uint32_t elements, bytes;
    kt_dtype_block(type->dtype, &elements, &bytes);
    if (elements > 1)
        bench_blocks_fill(type->dtype, random, sigma, rows * (cols / elements), samples, data);
    else
        fill_plain(type->dtype, random, sigma, samples, rows * cols, data);
    enum kt_status status = kt_view_dense(view, type->dtype, data, size, rows, cols, error);
    if (status != KT_OK || scale_size == 0)
        return status;
    for (uint64_t i = 0; i < scale_size / 4; i++) {
        float spread = 0.75f + 0.5f * (float)(bench_random_next(random) >> 40) * 0x1p-24f;
        scales[i] = sigma / (E4M3_MAX / 5.0f) * spread;
    }
    view->scales = (struct kt_scales){
        .data = scales,
        .size = scale_size,
        .dtype = type->scale_dtype,
        .group_rows = type->group_rows,
        .group_cols = type->group_cols,
        .row_stride = (int64_t)(group_count(cols, type->group_cols) * 4),
        .col_stride = 4,
    };
    return KT_OK;
}

static enum kt_status make_experts(struct bench_source *source, const float *samples,
                                   struct kt_error *error)
{
    struct bench_random random;
    bench_random_seed(&random, 1);
    uint64_t hidden = source->hidden_size, intermediate = source->intermediate_size;
    for (uint32_t i = 0; i < source->n_distinct; i++) {
        struct kt_expert *expert = &source->experts[i];
        enum kt_status status;
        status = make_matrix(source, &random, samples, intermediate, hidden, &expert->gate, error);
        if (status == KT_OK)
            status =
                make_matrix(source, &random, samples, intermediate, hidden, &expert->up, error);
        if (status == KT_OK)
            status =
                make_matrix(source, &random, samples, hidden, intermediate, &expert->down, error);
        if (status != KT_OK)
            return status;
    }
    for (uint32_t i = source->n_distinct; i < source->n_experts; i++)
        source->experts[i] = source->experts[i % source->n_distinct];
    return KT_OK;
}

enum kt_status bench_source_create(const struct bench_source_type *type, uint64_t hidden_size,
                                   uint64_t intermediate_size, uint32_t n_experts,
                                   struct bench_source *source, struct kt_error *error)
{
    struct bench_source made = {.type = type,
                                .hidden_size = hidden_size,
                                .intermediate_size = intermediate_size,
                                .n_experts = n_experts};
    float *samples = malloc(N_SAMPLES * sizeof *samples);
    bench_source_size(type, hidden_size, intermediate_size, n_experts, &made.n_distinct);
    made.experts = calloc(n_experts, sizeof *made.experts);
    made.memory = calloc((size_t)made.n_distinct * 6, sizeof *made.memory);
    enum kt_status status = KT_E_NOMEM;
    if (samples != NULL && made.experts != NULL && made.memory != NULL) {
        struct bench_random random;
        bench_random_seed(&random, 2);
        for (size_t i = 0; i < N_SAMPLES; i++)
            samples[i] = bench_random_gauss(&random);
        status = make_experts(&made, samples, error);
    } else {
        error->status = status;
        snprintf(error->message, sizeof error->message, "no memory for the source weights");
    }
    free(samples);
    if (status != KT_OK)
        bench_source_destroy(&made);
    else
        *source = made;
    return status;
}

void bench_source_destroy(struct bench_source *source)
{
    for (size_t i = 0; i < source->n_memory; i++)
        free(source->memory[i]);
    free(source->memory);
    free(source->experts);
    *source = (struct bench_source){0};
}
