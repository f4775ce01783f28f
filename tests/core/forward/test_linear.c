/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_linear.c - linears of every backend: against a product in float64 of the weights that the kernel says
 * it uses, in every form of inputs and outputs, alone and together, on any number of threads and nodes.
 */
#include "core/layer/linear.h"
#include "core/layer/linear_buffers.h"
#include "core/weights/decode/decode.h"
#include "core/weights/decode/encode.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/random_view.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 8 }; /* bytes between rows of inputs and outputs, which nothing writes */

/* ---- weights ---- */

struct source {
    struct random_source weights;
    double activation_error; /* of an input: as a fraction of the largest of its row, and of itself */
    double product_error;
};

/* 8 bits: half of 1/127 of the largest; bfloat16: 2^-9 of itself, of activations and, where weights are kept
 * wider, of these. float32 sums of up to 1000 products differ by less than 2^-14 of the sum of their
 * magnitudes. */
#define ROUNDED_INT8 (0.5 / 127), 0x1p-8
#define ROUNDED_BF16 0, 0x1p-7
static const struct source sources[] = {
    {{"reference", KT_DTYPE_F32, 1, 4, 3, 0x3d, 0}, 0, 0x1p-23},
    {{"reference", KT_DTYPE_Q8_0, 32, 34, 1, 0x10, 0}, 0, 0x1p-23},
    {{"llamafile", KT_DTYPE_Q8_0, 32, 34, 1, 0x10, 0}, ROUNDED_INT8},
    {{"llamafile", KT_DTYPE_F32, 1, 4, 3, 0x3d, 0}, 0, 0x1p-14},
    {{"bf16", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, ROUNDED_BF16},
    {{"rawint4", KT_DTYPE_INT4, 8, 4, 0, 0x77, 32}, ROUNDED_BF16},
    {{"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, 0, 0x33, 32}, ROUNDED_BF16},
    {{"amx_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, ROUNDED_INT8},
    {{"amx_int4", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, ROUNDED_INT8},
    {{"blis_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, ROUNDED_INT8},
    {{"kml_arm", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0}, ROUNDED_INT8},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

/* ---- contexts and linears ---- */

/* NULL: the backend is not built, or KT_TEST_QUICK leaves it out. */
static struct kt_context *make_context(const struct source *source, unsigned threads, const char *nodes)
{
    if (getenv("KT_TEST_QUICK") && (source - sources) % 3 != 0)
        return NULL;
    return random_view_context(&source->weights, NULL, threads, nodes, NULL);
}

static struct kt_linear *make_linear(struct kt_context *context, const struct source *source, uint64_t rows,
                                     uint64_t cols, uint32_t max_tokens, enum kt_split split)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear *linear;
    params.rows = rows;
    params.cols = cols;
    params.max_tokens = max_tokens;
    params.split = split;
    params.backend = source->weights.backend;
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));
    return linear;
}

static struct kt_linear *load(struct kt_context *context, const struct source *source,
                              const struct kt_view *view, const float *bias, uint32_t max_tokens,
                              enum kt_split split)
{
    struct kt_linear *linear = make_linear(context, source, view->rows, view->cols, max_tokens, split);
    ck_ok(kt_linear_load(linear, view, bias, &ck_error));
    return linear;
}

/* ---- numbers in their forms ---- */

static uint64_t size_of(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 4 : 2;
}

static void put(uint8_t *at, uint32_t dtype, float value)
{
    uint16_t half = dtype == KT_DTYPE_BF16 ? kt_to_bf16(value) : kt_to_f16(value);
    memcpy(at, dtype == KT_DTYPE_F32 ? (const void *)&value : &half, size_of(dtype));
}

static double get(const uint8_t *at, uint32_t dtype)
{
    float value;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    memcpy(&value, at, dtype == KT_DTYPE_F32 ? sizeof value : sizeof half);
    return (double)(dtype == KT_DTYPE_F32    ? value
                    : dtype == KT_DTYPE_BF16 ? kt_bf16_float(half)
                                             : kt_f16_float(half));
}

struct matrix {
    uint32_t dtype, n;
    uint64_t cols;
    int64_t stride;
    uint8_t *data;
};

static struct matrix make_matrix(uint32_t dtype, uint32_t n, uint64_t cols)
{
    struct matrix made = {dtype, n, cols, (int64_t)(cols * size_of(dtype) + GAP), NULL};
    made.data = malloc((uint64_t)made.stride * n);
    ck_assert_ptr_nonnull(made.data);
    memset(made.data, 0x5a, (uint64_t)made.stride * n);
    return made;
}

static uint8_t *at(const struct matrix *matrix, uint32_t row, uint64_t col)
{
    return matrix->data + row * matrix->stride + (int64_t)(col * size_of(matrix->dtype));
}

static struct matrix make_input(uint32_t dtype, uint32_t n, uint64_t cols)
{
    struct matrix made = make_matrix(dtype, n, cols);
    uint64_t state = 99;
    for (uint32_t t = 0; t < n; t++)
        for (uint64_t c = 0; c < cols; c++)
            put(at(&made, t, c), dtype, (float)fixture_gaussian(&state));
    return made;
}

/* Nothing was written between the rows. An assertion for each byte, which check writes to a file, would take
 * longer than the products; likewise below. */
static void check_gaps(const struct matrix *matrix)
{
    for (uint32_t t = 0; t < matrix->n; t++)
        for (int64_t i = matrix->stride - GAP; i < matrix->stride; i++)
            if (matrix->data[t * matrix->stride + i] != 0x5a)
                ck_abort_msg("byte %lld of row %u is 0x%x", (long long)i, t,
                             matrix->data[t * matrix->stride + i]);
}

static struct kt_linear_output output_of(const struct kt_linear *linear, const struct matrix *output)
{
    return (struct kt_linear_output){.linear = linear,
                                     .output = output->data,
                                     .output_stride = output->stride,
                                     .output_dtype = output->dtype};
}

static struct kt_linear_batch batch_of(const struct matrix *input, const struct kt_linear_output *outputs,
                                       uint32_t n)
{
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    batch.outputs = outputs;
    batch.n_outputs = n;
    batch.n_tokens = input->n;
    batch.input = input->data;
    batch.input_stride = input->stride;
    batch.input_dtype = input->dtype;
    return batch;
}

static void run(const struct kt_linear *linear, const struct matrix *input, const struct matrix *output)
{
    struct kt_linear_output to = output_of(linear, output);
    struct kt_linear_batch batch = batch_of(input, &to, 1);
    ck_ok(kt_linear_forward(&batch, &ck_error));
    check_gaps(output);
}

/* ---- the product in float64 ---- */

/* Largest error of rounding outputs to a form, as a fraction. */
static double output_error(uint32_t dtype)
{
    return dtype == KT_DTYPE_F32 ? 0x1p-24 : dtype == KT_DTYPE_BF16 ? 0x1p-8 : 0x1p-10;
}

/* Compares tokens 0, step, 2 step ... */
static void check_values(const struct source *source, const struct kt_linear *linear, const float *bias,
                         const struct matrix *input, const struct matrix *output, double before,
                         uint32_t step)
{
    float *weights = malloc(output->cols * input->cols * sizeof *weights);
    struct kt_linear_info info;
    kt_linear_info(linear, &info);
    bool tiles = source->activation_error == 0 && strcmp(info.level, "amx") == 0; /* of bfloat16 */
    double product_error = tiles ? fmax(source->product_error, 0x1p-7) : source->product_error;
    ck_ok(kt_linear_weights(linear, 0, output->cols, weights, &ck_error));
    for (uint32_t t = 0; t < input->n; t += step) {
        double largest = 0;
        for (uint64_t c = 0; c < input->cols; c++)
            largest = fmax(largest, fabs(get(at(input, t, c), input->dtype)));
        for (uint64_t r = 0; r < output->cols; r++) {
            double sum = bias ? (double)bias[r] : 0, bound = fabs(sum) * 0x1p-22;
            for (uint64_t c = 0; c < input->cols; c++) {
                double w = (double)weights[r * input->cols + c], x = get(at(input, t, c), input->dtype);
                sum += w * x;
                bound += fabs(w) * (source->activation_error * largest + product_error * fabs(x));
            }
            bound += fabs(sum + before) * output_error(output->dtype) + fabs(before) * 0x1p-8;
            double got = get(at(output, t, r), output->dtype);
            if (!(fabs(got - sum - before) <= bound))
                ck_abort_msg("%s, %s: token %u of %u, row %llu is %g, not %g within %g",
                             source->weights.backend, kt_dtype_name(source->weights.dtype), t, input->n,
                             (unsigned long long)r, got, sum + before, bound);
        }
    }
    free(weights);
}

START_TEST(every_form)
{
    static const uint32_t dtypes[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};
    static const uint32_t tokens[] = {1, 2, 5, 33};
    const struct source *source = &sources[_i];
    struct kt_context *context = make_context(source, 2, NULL);
    if (!context)
        return;
    struct kt_view view = random_view(&source->weights, 103, 320);
    float bias[103];
    for (unsigned i = 0; i < 103; i++)
        bias[i] = (float)i / 16 - 3;
    struct kt_linear *linear = load(context, source, &view, bias, 64, KT_SPLIT_ROWS);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned o = 0; o < 3; o++) {
            struct matrix input = make_input(dtypes[i], tokens[(i + o) % 4], view.cols);
            struct matrix output = make_matrix(dtypes[o], input.n, view.rows);
            run(linear, &input, &output);
            check_values(source, linear, bias, &input, &output, 0, 1);

            struct kt_linear_output to = output_of(linear, &output);
            struct kt_linear_batch batch = batch_of(&input, &to, 1);
            for (uint32_t t = 0; t < input.n; t++)
                for (uint64_t r = 0; r < view.rows; r++)
                    put(at(&output, t, r), output.dtype, -2.5f);
            to.accumulate = 1;
            ck_ok(kt_linear_forward(&batch, &ck_error));
            check_gaps(&output);
            check_values(source, linear, bias, &input, &output, -2.5, 1);
            free(output.data);
            free(input.data);
        }
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    random_view_free(&view);
}
END_TEST

/* More tokens than are multiplied at once, and than there are buffers for. */
START_TEST(many_tokens)
{
    static const uint32_t most[] = {7, 4096};
    const struct source *source = &sources[_i / 2];
    struct kt_context *context = make_context(source, 3, NULL);
    if (!context)
        return;
    struct kt_view view = random_view(&source->weights, 40, 64);
    struct kt_linear *linear = load(context, source, &view, NULL, most[_i % 2], KT_SPLIT_ROWS);
    struct matrix input = make_input(KT_DTYPE_BF16, most[_i % 2] == 7 ? 50 : 2100, view.cols);
    struct matrix output = make_matrix(KT_DTYPE_F32, input.n, view.rows);
    run(linear, &input, &output);
    check_values(source, linear, NULL, &input, &output, 0, 13);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    free(input.data);
    free(output.data);
    random_view_free(&view);
}
END_TEST

/* Panels whose outputs of 1024 tokens are more than a thread keeps of its own. */
START_TEST(large_panels)
{
    static const struct source source = {{"fake", KT_DTYPE_F32, 1, 4, 3, 0x3d, 0}, 0, 0x1p-14};
    char module[512];
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    struct kt_context *context =
        fixture_context_with((const char *const[]){module, "plugin.fake.panel_rows=128", "core.strict=yes",
                                                   "core.threads=2"},
                             4);
    struct kt_view view = random_view(&source.weights, 300, 16);
    struct kt_linear *linear = load(context, &source, &view, NULL, 1024, KT_SPLIT_ROWS);
    ck_assert(!kt_linear_fits_tile(linear->layer, &linear->layer->shard[0].layout));
    struct matrix input = make_input(KT_DTYPE_F32, 1030, view.cols);
    struct matrix output = make_matrix(KT_DTYPE_BF16, input.n, view.rows);
    run(linear, &input, &output);
    check_values(&source, linear, NULL, &input, &output, 0, 7);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    free(input.data);
    free(output.data);
    random_view_free(&view);
}
END_TEST

/* The outputs of `n` linears over one input, in one forward or each in its own. */
static void run_together(struct kt_linear *const *linear, struct matrix *output, uint32_t n,
                         const struct matrix *input, bool together)
{
    struct kt_linear_output to[KT_MAX_LINEARS];
    for (uint32_t l = 0; l < n; l++)
        to[l] = output_of(linear[l], &output[l]);
    for (uint32_t l = 0; l < (together ? 1 : n); l++) {
        struct kt_linear_batch batch = batch_of(input, to + l, together ? n : 1);
        ck_ok(kt_linear_forward(&batch, &ck_error));
    }
    for (uint32_t l = 0; l < n; l++)
        check_gaps(&output[l]);
}

static const uint32_t split_tokens[] = {1, 6, 70};

/* Threads, nodes that split rows, and company change no bit. */
START_TEST(same_bits)
{
    static const uint64_t rows[] = {96, 5, 320, 33, 1, 64, 200, 17};
    const struct source *source = &sources[_i / 3];
    struct matrix input = make_input(KT_DTYPE_F32, split_tokens[_i % 3], 256);
    struct matrix first[KT_MAX_LINEARS], other[KT_MAX_LINEARS];
    struct kt_view view[KT_MAX_LINEARS];
    for (uint32_t l = 0; l < KT_MAX_LINEARS; l++) {
        view[l] = random_view(&source->weights, rows[l], 256);
        first[l] = make_matrix(l % 2 ? KT_DTYPE_BF16 : KT_DTYPE_F32, input.n, rows[l]);
        other[l] = make_matrix(first[l].dtype, input.n, rows[l]);
    }
    static const char *const machines[] = {NULL, NULL, NULL, "numa:2 core:1 pu:1", "numa:3 core:1 pu:1"};
    static const unsigned threads[] = {1, 2, 3, 2, 3};
    for (unsigned m = 0; m < 5; m++) {
        struct kt_linear *linear[KT_MAX_LINEARS];
        struct kt_context *context = make_context(source, threads[m], machines[m]);
        if (!context)
            break;
        for (uint32_t l = 0; l < KT_MAX_LINEARS; l++)
            linear[l] = load(context, source, &view[l], NULL, 8 + l, KT_SPLIT_ROWS);
        if (m == 0)
            run_together(linear, first, KT_MAX_LINEARS, &input, false);
        for (int again = 0; again < 2; again++) {
            run_together(linear, other, KT_MAX_LINEARS, &input, input.n <= 8 && again > 0);
            for (uint32_t l = 0; l < KT_MAX_LINEARS; l++)
                ck_assert_msg(memcmp(first[l].data, other[l].data, (uint64_t)first[l].stride * input.n) == 0,
                              "%s: %llu rows, machine %u, try %d", source->weights.backend,
                              (unsigned long long)rows[l], m, again);
        }
        for (uint32_t l = 0; l < KT_MAX_LINEARS; l++)
            kt_linear_destroy(linear[l]);
        kt_context_destroy(context);
    }
    for (uint32_t l = 0; l < KT_MAX_LINEARS; l++) {
        free(first[l].data);
        free(other[l].data);
        random_view_free(&view[l]);
    }
    free(input.data);
}
END_TEST

/* Columns split over nodes: what each node's columns give alone, added in their order. */
START_TEST(split_columns)
{
    const struct source *source = &sources[_i / 3];
    struct kt_context *context = make_context(source, 4, "numa:2 core:2 pu:1");
    if (!context)
        return;
    struct kt_view view = random_view(&source->weights, 130, 512);
    struct kt_linear *linear = load(context, source, &view, NULL, 16, KT_SPLIT_COLS);
    struct matrix input = make_input(KT_DTYPE_F32, split_tokens[_i % 3], view.cols);
    struct matrix output = make_matrix(KT_DTYPE_F32, input.n, view.rows);
    struct matrix again = make_matrix(KT_DTYPE_F32, input.n, view.rows);
    ck_assert_uint_eq(linear->layer->n_shards, 2);
    ck_assert_uint_gt(linear->layer->shard[1].end, linear->layer->shard[1].begin);
    run(linear, &input, &output);
    run(linear, &input, &again);
    ck_assert_mem_eq(output.data, again.data, (uint64_t)output.stride * input.n);
    check_values(source, linear, NULL, &input, &output, 0, 1);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    free(input.data);
    free(output.data);
    free(again.data);
    random_view_free(&view);
}
END_TEST

START_TEST(nan_stays_in_its_token)
{
    const struct source *source = &sources[_i];
    struct kt_context *context = make_context(source, 2, NULL);
    if (!context)
        return;
    struct kt_view view = random_view(&source->weights, 70, 96);
    struct kt_linear *linear = load(context, source, &view, NULL, 32, KT_SPLIT_ROWS);
    struct matrix input = make_input(KT_DTYPE_F32, 20, view.cols);
    struct matrix clean = make_matrix(KT_DTYPE_F32, 20, view.rows),
                  output = make_matrix(KT_DTYPE_F32, 20, 70);
    run(linear, &input, &clean);
    put(at(&input, 9, 50), KT_DTYPE_F32, (float)NAN);
    run(linear, &input, &output);
    for (uint32_t t = 0; t < 20; t++)
        for (uint64_t r = 0; r < view.rows; r++)
            if (t == 9 ? !isnan(get(at(&output, t, r), KT_DTYPE_F32))
                       : memcmp(at(&output, t, r), at(&clean, t, r), 4) != 0)
                ck_abort_msg("a NaN in token 9: token %u, row %llu", t, (unsigned long long)r);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    free(input.data);
    free(clean.data);
    free(output.data);
    random_view_free(&view);
}
END_TEST

/* ---- plans and errors ---- */

START_TEST(a_plan_is_what_loading_takes)
{
    const struct source *source = &sources[_i];
    struct kt_context *context = make_context(source, 4, "numa:2 core:2 pu:1");
    if (!context)
        return;
    struct kt_view view = random_view(&source->weights, 160, 256);
    struct kt_linear *linear = make_linear(context, source, 160, 256, 4, KT_SPLIT_ROWS);
    struct kt_plan *plan = calloc(1, sizeof *plan);
    struct kt_linear_info info;
    ck_ok(kt_linear_plan(linear, &view, 1, plan, &ck_error));
    kt_linear_info(linear, &info);
    ck_assert_str_eq(info.backend, "");
    ck_ok(kt_linear_load(linear, &view, NULL, &ck_error));
    kt_linear_info(linear, &info);
    ck_assert_str_eq(info.backend, source->weights.backend);
    ck_assert_uint_eq(info.rows, 160);
    ck_assert_uint_eq(info.cols, 256);
    ck_assert_uint_eq(info.packed_size, plan->weight_size);
    ck_assert_uint_eq(info.nominal_size, plan->nominal_size);
    ck_assert_str_eq(info.rounding, plan->rounding);
    ck_assert_uint_eq(plan->n_nodes, 2);
    ck_assert_uint_eq(plan->node[0].intermediate_begin, 0);
    ck_assert_uint_eq(plan->node[1].intermediate_begin, plan->node[0].intermediate_end);
    ck_assert_uint_eq(plan->node[1].intermediate_end, 160);
    free(plan);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    random_view_free(&view);
}
END_TEST

START_TEST(wrong_calls)
{
    const struct source *source = &sources[0];
    struct kt_context *context = make_context(source, 1, NULL), *other = make_context(source, 1, NULL);
    struct kt_view view = random_view(&source->weights, 8, 16), wide = random_view(&source->weights, 8, 32);
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear *linear = NULL;
    params.rows = 8;
    params.cols = 16;
    params.max_tokens = 4;
    params.name = "blk.3.attn_q";
    params.rows = 0;
    ck_fails(kt_linear_create(context, &params, &linear, &ck_error), KT_E_INVALID, "blk.3.attn_q: rows is 0");
    params.rows = 8;
    params.cols = UINT64_C(1) << 40;
    ck_fails(kt_linear_create(context, &params, &linear, &ck_error), KT_E_INVALID, "cols is 1099511627776");
    params.cols = 16;
    params.split = 2;
    ck_fails(kt_linear_create(context, &params, &linear, &ck_error), KT_E_INVALID, "split is 2");
    params.split = 0;
    params.struct_size = 8;
    ck_fails(kt_linear_create(context, &params, &linear, &ck_error), KT_E_INVALID, "KT_LINEAR_PARAMS_INIT");
    params.struct_size = sizeof params;
    ck_fails(kt_linear_create(NULL, &params, &linear, &ck_error), KT_E_INVALID, "must not be NULL");
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));

    struct matrix input = make_input(KT_DTYPE_F32, 3, 16), output = make_matrix(KT_DTYPE_F32, 3, 8);
    struct kt_linear_output to[2] = {output_of(linear, &output), output_of(linear, &output)};
    struct kt_linear_batch batch = batch_of(&input, to, 1);
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_STATE, "blk.3.attn_q has no weights");
    ck_fails(kt_linear_load(linear, &wide, NULL, &ck_error), KT_E_INVALID,
             "blk.3.attn_q is 8 x 32; the linear needs 8 x 16");
    ((float *)(uintptr_t)view.data)[3] = 1;
    ck_ok(kt_linear_load(linear, &view, NULL, &ck_error));

    batch.n_outputs = 0;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "1 to 8 outputs");
    batch.n_outputs = 9;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "there are 9");
    batch.n_outputs = 2;
    batch.input = NULL;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "input is NULL");
    batch.input = input.data;
    batch.input_stride = 60;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "input_stride 60 does not fit");
    batch.input_stride = input.stride;
    batch.input_dtype = KT_DTYPE_Q8_0;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "input_dtype is q8_0");
    batch.input_dtype = KT_DTYPE_F32;
    batch.input = (const char *)input.data + 2;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID,
             "input is at an address that is not a multiple of its numbers' 4 bytes");
    batch.input = input.data;
    to[1].output = (char *)output.data + 1;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "output is at an address");
    to[1].output = output.data;
    to[1].output_stride = 33;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "output_stride 33 does not fit");
    to[1].linear = load(context, source, &wide, NULL, 4, KT_SPLIT_ROWS);
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "blk.3.attn_q has 16 columns, linear 32");
    kt_linear_destroy((struct kt_linear *)(uintptr_t)to[1].linear);
    to[1].linear = load(other, source, &view, NULL, 4, KT_SPLIT_ROWS);
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "not of one context");
    kt_linear_destroy((struct kt_linear *)(uintptr_t)to[1].linear);
    to[1].linear = NULL;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "output 1 must not be NULL");
    for (int64_t i = 0; i < output.stride * 3; i++)
        if (output.data[i] != 0x5a)
            ck_abort_msg("byte %lld is 0x%x", (long long)i, output.data[i]);
    batch.n_outputs = 1;
    batch.n_tokens = 0;
    ck_ok(kt_linear_forward(&batch, &ck_error));

    kt_linear_destroy(linear);
    kt_linear_destroy(NULL);
    kt_context_destroy(context);
    kt_context_destroy(other);
    free(input.data);
    free(output.data);
    random_view_free(&view);
    random_view_free(&wide);
}
END_TEST

/* A layer of experts cannot be one without gate and up. */
START_TEST(no_layer_is_a_linear)
{
    struct kt_context *context = make_context(&sources[0], 1, NULL);
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    params.n_experts = params.top_k = params.max_tokens = 1;
    params.hidden_size = params.intermediate_size = 8;
    params.activation = KT_ACTIVATION_NONE;
    ck_fails(kt_layer_create(context, &params, &layer, &ck_error), KT_E_INVALID, "activation 3 is unknown");
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("linear");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, every_form, 0, SOURCES);
    tcase_add_loop_test(tests, many_tokens, 0, 2 * SOURCES);
    tcase_add_test(tests, large_panels);
    tcase_add_loop_test(tests, same_bits, 0, 3 * SOURCES);
    tcase_add_loop_test(tests, split_columns, 0, 3 * SOURCES);
    tcase_add_loop_test(tests, nan_stays_in_its_token, 0, SOURCES);
    tcase_add_loop_test(tests, a_plan_is_what_loading_takes, 0, SOURCES);
    tcase_add_test(tests, wrong_calls);
    tcase_add_test(tests, no_layer_is_a_linear);
    return run_tests("linear", tests);
}
