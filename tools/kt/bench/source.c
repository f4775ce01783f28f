/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - expert weights in a source format: Gaussian with deviation 1 / sqrt(columns). */
#include "tools/check/format.h"
#include "tools/check/number.h"
#include "tools/kt/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of those with one dtype the usual one is first. Blocks are called after their dtype, see name_types. */
#define BLOCK_TYPE(dtype_, ...) {.dtype = KT_DTYPE_##dtype_},
static struct bench_source_type types[] =
    {{.name = "f32", .dtype = KT_DTYPE_F32},
     {.name = "f16", .dtype = KT_DTYPE_F16},
     {.name = "bf16", .dtype = KT_DTYPE_BF16},
     {"fp8_block", KT_DTYPE_F8_E4M3, KT_DTYPE_F32, KT_DTYPE_NONE, 128, 128, false},
     {"fp8_channel", KT_DTYPE_F8_E4M3, KT_DTYPE_F32, KT_DTYPE_NONE, 1, 0, false},
     {"mxfp8", KT_DTYPE_F8_E4M3, KT_DTYPE_F8_E8M0, KT_DTYPE_NONE, 1, 32, false},
     {"fp4_g32", KT_DTYPE_F4_E2M1, KT_DTYPE_F8_E8M0, KT_DTYPE_NONE, 1, 32, false},
     {"int4_g32", KT_DTYPE_INT4, KT_DTYPE_BF16, KT_DTYPE_NONE, 1, 32, false},
     {"int4_g16", KT_DTYPE_INT4, KT_DTYPE_BF16, KT_DTYPE_NONE, 1, 16, false},
     {"int4_g128", KT_DTYPE_INT4, KT_DTYPE_BF16, KT_DTYPE_NONE, 1, 128, false},
     {"int4_channel", KT_DTYPE_INT4, KT_DTYPE_BF16, KT_DTYPE_NONE, 1, 0, false},
     {"gptq_g128", KT_DTYPE_INT4, KT_DTYPE_F16, KT_DTYPE_NONE, 1, 128, true},
     {"awq_g128", KT_DTYPE_INT4, KT_DTYPE_F16, KT_DTYPE_U8, 1, 128, false},
     BLOCK_FORMATS(BLOCK_TYPE)};
#define N_TYPES (sizeof types / sizeof *types)

#define N_SAMPLES 65536
#define MAX_DISTINCT 8
#define MAX_SOURCE_SIZE (UINT64_C(512) << 20)

static void name_types(void)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (!types[i].name)
            types[i].name = kt_dtype_name(types[i].dtype);
}

const struct bench_source_type *bench_source_find(const char *name)
{
    name_types();
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static const struct bench_source_type *find_dtype(uint32_t dtype)
{
    name_types();
    for (size_t i = 0; i < N_TYPES && dtype != KT_DTYPE_NONE; i++)
        if (types[i].dtype == dtype)
            return &types[i];
    return NULL;
}

const struct bench_source_type *bench_source_usual(const char *formats)
{
    const struct bench_source_type *bf16 = NULL, *first = NULL;
    for (const char *at = formats + strspn(formats, " "); *at; at += strspn(at, " ")) {
        char word[32];
        size_t length = strcspn(at, " ");
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : 0), at);
        uint32_t dtype = kt_dtype_parse(word);
        if (dtype == KT_DTYPE_Q4_K)
            return find_dtype(dtype);
        bf16 = dtype == KT_DTYPE_BF16 ? find_dtype(dtype) : bf16;
        first = first ? first : find_dtype(dtype);
        at += length;
    }
    return bf16 ? bf16 : first ? first : find_dtype(KT_DTYPE_BF16);
}

const char *bench_source_names(void)
{
    static char names[512];
    size_t used = 0;
    name_types();
    for (size_t i = 0; i < N_TYPES && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : " ", types[i].name);
    return names;
}

/* ---- sizes ---- */

static uint64_t group_count(uint64_t n, uint32_t group)
{
    return group == 0 ? 1 : (n + group - 1) / group;
}

/* Bytes of a matrix and of its scales and zeros; 0: overflow, or columns are not whole blocks. */
static uint64_t matrix_size(const struct bench_source_type *type, uint64_t rows, uint64_t cols,
                            uint64_t *scale_size)
{
    uint32_t elements, bytes, scale_bytes;
    uint64_t size;
    kt_dtype_block(type->dtype, &elements, &bytes);
    kt_dtype_block(type->scale_dtype, NULL, &scale_bytes);
    *scale_size = 0;
    if (elements == 0 || cols % elements != 0 || __builtin_mul_overflow(rows, cols / elements, &size) ||
        __builtin_mul_overflow(size, (uint64_t)bytes, &size) || size > UINT64_MAX / 64)
        return 0;
    if (type->scale_dtype != KT_DTYPE_NONE)
        *scale_size = group_count(rows, type->group_rows) * group_count(cols, type->group_cols) *
                      (scale_bytes + (type->zero_dtype != KT_DTYPE_NONE));
    return size;
}

uint64_t bench_source_size(const struct bench_source_type *type, uint64_t hidden_size,
                           uint64_t intermediate_size, uint32_t n_experts, uint32_t activation,
                           uint32_t *n_distinct)
{
    uint64_t up_scales, down_scales;
    uint64_t up = matrix_size(type, intermediate_size, hidden_size, &up_scales);
    uint64_t down = matrix_size(type, hidden_size, intermediate_size, &down_scales);
    if (up == 0 || down == 0)
        return 0;
    uint64_t expert = (KT_DOWN - kt_activation_first(activation)) * (up + up_scales) + down + down_scales;
    uint64_t n = MAX_SOURCE_SIZE / expert;
    n = n < 1 ? 1 : n > MAX_DISTINCT ? MAX_DISTINCT : n;
    *n_distinct = n < n_experts ? (uint32_t)n : n_experts;
    return expert * *n_distinct;
}

uint64_t bench_source_matrix_size(const struct bench_source_type *type, uint64_t rows, uint64_t cols)
{
    uint64_t scales, size = matrix_size(type, rows, cols, &scales);
    return size != 0 ? size + scales : 0;
}

/* ---- numbers ---- */

/* Weights of a plain format, or of one with separate scales, are drawn from a table of Gaussian numbers
 * that is already in the format, which is fast enough for layers of gigabytes. */
struct codes {
    const struct bench_source_type *type;
    float sigma;
    uint32_t code[N_SAMPLES];
};

static void make_codes(const struct bench_source_type *type, float sigma, const float *samples,
                       struct codes *codes)
{
    bool coded = bench_has_codes(type->dtype);
    float step = coded ? bench_code_step(type, sigma) : 0;
    codes->type = type;
    codes->sigma = sigma;
    for (size_t i = 0; i < N_SAMPLES; i++)
        if (coded)
            codes->code[i] = bench_code(type->dtype, samples[i] * step); /* its scale gives sigma */
        else
            write_number(&codes->code[i], type->dtype, samples[i] * sigma);
}

/* The two last tables are kept: an expert's matrices have two widths. */
static const uint32_t *find_codes(const struct bench_source_type *type, float sigma, const float *samples)
{
    static struct codes kept[2];
    static unsigned last;
    for (unsigned i = 0; i < 2; i++)
        if (kept[i].type == type && memcmp(&kept[i].sigma, &sigma, sizeof sigma) == 0)
            return kept[i].code;
    last = 1 - last;
    make_codes(type, sigma, samples, &kept[last]);
    return kept[last].code;
}

/* Four weights of `bytes` each, a constant, for 64 random bits. */
static inline void draw_weights(struct bench_random *random, const uint32_t *codes, uint64_t n,
                                uint32_t bytes, unsigned char *out)
{
    for (uint64_t i = 0; i < n; i += 4) {
        uint64_t bits = bench_random_next(random);
        for (uint64_t j = i; j < n && j < i + 4; j++, bits >>= 16)
            memcpy(out + j * bytes, &codes[bits & 0xffff], bytes);
    }
}

/* Two to a byte. */
static void draw_pairs(struct bench_random *random, const uint32_t *codes, uint64_t n, unsigned char *out)
{
    for (uint64_t i = 0; i < n; i += 2) {
        uint64_t bits = bench_random_next(random);
        for (uint64_t j = i; j < n && j < i + 2; j++, bits >>= 32)
            out[j] = (unsigned char)(codes[bits & 0xffff] | codes[bits >> 16 & 0xffff] << 4);
    }
}

static void fill_plain(const struct bench_source_type *type, struct bench_random *random, float sigma,
                       const float *samples, uint64_t n, unsigned char *out)
{
    const uint32_t *codes = find_codes(type, sigma, samples);
    uint32_t elements, bytes;
    kt_dtype_block(type->dtype, &elements, &bytes);
    if (elements > 1)
        draw_pairs(random, codes, n / 2, out);
    else if (bytes == 1)
        draw_weights(random, codes, n, 1, out);
    else if (bytes == 2)
        draw_weights(random, codes, n, 2, out);
    else
        draw_weights(random, codes, n, 4, out);
}

/* ---- matrices ---- */

static void *keep(struct bench_source *source, uint64_t size)
{
    void *memory = size < SIZE_MAX ? malloc((size_t)size) : NULL;
    if (memory != NULL)
        source->memory[source->n_memory++] = memory;
    return memory;
}

/* Fills `scales` and the zeros behind them, if any, and sets the view to both. */
static void add_scales(const struct bench_source_type *type, struct bench_random *random, float sigma,
                       unsigned char *scales, struct kt_view *view)
{
    uint64_t lines = group_count(view->rows, type->group_rows);
    uint64_t columns = group_count(view->cols, type->group_cols), n = lines * columns;
    uint32_t bytes;
    kt_dtype_block(type->scale_dtype, NULL, &bytes);
    bench_scales_fill(type, random, sigma, n, scales);
    view->scales = (struct kt_scales){
        .data = scales,
        .size = n * bytes,
        .dtype = type->scale_dtype,
        .group_rows = type->group_rows,
        .group_cols = type->group_cols != 0 ? type->group_cols : view->cols,
        .row_stride = (int64_t)((type->turned ? 1 : columns) * bytes),
        .col_stride = (int64_t)((type->turned ? lines : 1) * bytes),
    };
    if (type->turned) { /* blocks of 8 columns, the rows of each side by side */
        uint32_t block;
        kt_dtype_block(type->dtype, NULL, &block);
        view->row_stride = block;
        view->block_stride = (int64_t)(view->rows * block);
    }
    if (type->zero_dtype == KT_DTYPE_NONE)
        return;
    view->zeros = view->scales;
    view->zeros.data = scales + view->scales.size;
    view->zeros.size = n;
    view->zeros.dtype = type->zero_dtype;
    view->zeros.row_stride /= (int64_t)bytes;
    view->zeros.col_stride /= (int64_t)bytes;
    bench_zeros_fill(random, n, scales + view->scales.size);
}

static enum kt_status make_matrix(struct bench_source *source, struct bench_random *random,
                                  const float *samples, uint64_t rows, uint64_t cols, struct kt_view *view,
                                  struct kt_error *error)
{
    const struct bench_source_type *type = source->type;
    uint64_t scale_size, size = matrix_size(type, rows, cols, &scale_size);
    float sigma = 1.0f / sqrtf((float)cols);
    unsigned char *data = keep(source, size);
    unsigned char *scales = scale_size != 0 ? keep(source, scale_size) : NULL;
    if (data == NULL || (scale_size != 0 && scales == NULL)) {
        error->status = KT_E_NOMEM;
        snprintf(error->message, sizeof error->message, "no %llu bytes for the source weights",
                 (unsigned long long)(size + scale_size));
        return KT_E_NOMEM;
    }
    uint32_t elements, bytes;
    kt_dtype_block(type->dtype, &elements, &bytes);
    if (elements > 1 && !bench_has_codes(type->dtype))
        bench_blocks_fill(type->dtype, random, sigma, rows * (cols / elements), samples, data);
    else
        fill_plain(type, random, sigma, samples, rows * cols, data);
    enum kt_status status = kt_view_dense(view, type->dtype, data, size, rows, cols, error);
    if (status != KT_OK || scale_size == 0)
        return status;
    add_scales(type, random, sigma, scales, view);
    return KT_OK;
}

static enum kt_status make_experts(struct bench_source *source, const float *samples, struct kt_error *error)
{
    struct bench_random random;
    bench_random_seed(&random, 1);
    uint64_t hidden = source->hidden_size, intermediate = source->intermediate_size;
    enum kt_projection first = kt_activation_first(source->activation);
    for (uint32_t i = 0; i < source->n_distinct; i++) {
        struct kt_expert *expert = &source->experts[i];
        enum kt_status status = KT_OK;
        if (first == KT_GATE)
            status = make_matrix(source, &random, samples, intermediate, hidden, &expert->gate, error);
        if (status == KT_OK && first <= KT_UP)
            status = make_matrix(source, &random, samples, intermediate, hidden, &expert->up, error);
        if (status == KT_OK)
            status = make_matrix(source, &random, samples, hidden, intermediate, &expert->down, error);
        if (status != KT_OK)
            return status;
    }
    for (uint32_t i = source->n_distinct; i < source->n_experts; i++)
        source->experts[i] = source->experts[i % source->n_distinct];
    return KT_OK;
}

/* Gaussian numbers, drawn once. */
static const float *draw_samples(void)
{
    static float samples[N_SAMPLES];
    static bool drawn;
    struct bench_random random;
    bench_random_seed(&random, 2);
    for (size_t i = 0; i < N_SAMPLES && !drawn; i++)
        samples[i] = bench_random_gauss(&random);
    drawn = true;
    return samples;
}

/* Makes the weights that `made` describes; on failure it is empty. */
static enum kt_status make(struct bench_source *made, struct kt_error *error)
{
    (void)snprintf(made->name, sizeof made->name, "%s", made->type->name);
    made->experts = calloc(made->n_experts, sizeof *made->experts);
    made->memory = calloc((size_t)made->n_distinct * 6, sizeof *made->memory);
    enum kt_status status = KT_E_NOMEM;
    if (made->experts != NULL && made->memory != NULL) {
        status = make_experts(made, draw_samples(), error);
    } else {
        error->status = status;
        snprintf(error->message, sizeof error->message, "no memory for the source weights");
    }
    if (status != KT_OK)
        bench_source_destroy(made);
    return status;
}

enum kt_status bench_source_create(const struct bench_source_type *type, uint64_t hidden_size,
                                   uint64_t intermediate_size, uint32_t n_experts, uint32_t activation,
                                   struct bench_source *source, struct kt_error *error)
{
    static const struct {
        float limit, alpha;
    } usual[] = {[KT_ACTIVATION_SWIGLU] = {10, 0},
                 [KT_ACTIVATION_SWIGLUOAI] = {7, 1.702f},
                 [KT_ACTIVATION_SWIGLUSTEP] = {7, 0},
                 [KT_ACTIVATION_SITU] = {25, 4},
                 [KT_ACTIVATION_RELU2] = {0, 0}};
    *source = (struct bench_source){.type = type,
                                    .hidden_size = hidden_size,
                                    .intermediate_size = intermediate_size,
                                    .n_experts = n_experts,
                                    .activation = activation,
                                    .limit = usual[activation].limit,
                                    .alpha = usual[activation].alpha};
    bench_source_size(type, hidden_size, intermediate_size, n_experts, activation, &source->n_distinct);
    return make(source, error);
}

enum kt_status bench_source_matrix(const struct bench_source_type *type, uint64_t rows, uint64_t cols,
                                   struct bench_source *source, struct kt_error *error)
{
    *source = (struct bench_source){.type = type,
                                    .hidden_size = rows,
                                    .intermediate_size = cols,
                                    .n_experts = 1,
                                    .n_distinct = 1,
                                    .activation = KT_ACTIVATION_NONE};
    return make(source, error);
}

void bench_source_destroy(struct bench_source *source)
{
    for (size_t i = 0; i < source->n_memory; i++)
        free(source->memory[i]);
    free(source->memory);
    free(source->experts);
    *source = (struct bench_source){0};
}
