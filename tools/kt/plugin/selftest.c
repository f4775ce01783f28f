/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - a small random layer through a backend, compared with float64 on the same weights. */
#include "tools/check/check.h"
#include "tools/kt/bench/bench.h"
#include "tools/kt/plugin/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 4, TOP_K = 2, HIDDEN = 256, INTERMEDIATE = 512, TOKENS = 7 };

#define REFERENCE_LIMIT 1e-5 /* float32 sums against float64 */
#define BACKEND_LIMIT 2e-2   /* activations may be rounded to 8 bits */
#define WEIGHT_LIMIT 0.2     /* 4 bits lose up to 0.15; weights in wrong places differ by 1 and more */

const uint32_t kt_selftest_dtypes[] = {KT_DTYPE_F32,  KT_DTYPE_BF16,    KT_DTYPE_Q8_0, KT_DTYPE_F8_E4M3,
                                       KT_DTYPE_INT4, KT_DTYPE_F4_E2M1, KT_DTYPE_NONE};

/* A layer's weights, input and routing. */
struct layer_data {
    uint32_t dtype;
    struct bench_source source;
    float input[TOKENS * HIDDEN];
    int64_t ids[TOKENS * TOP_K];
    float router[TOKENS * TOP_K];
};

/* ---- data ----------------------------------------------------------------------------------- */

/* The same layer on every machine; it is kept for the next run of the same dtype. */
static enum kt_status fill(struct layer_data *data, uint32_t dtype, struct kt_error *error)
{
    uint64_t state = 1;
    if (data->dtype == dtype)
        return KT_OK;
    bench_source_destroy(&data->source);
    data->dtype = KT_DTYPE_NONE;
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        data->input[i] = (float)(2 * (double)random_next(&state) * 0x1p-64 - 1);
    for (int t = 0; t < TOKENS; t++) {
        uint32_t first = random_below(&state, EXPERTS), step = 1 + random_below(&state, EXPERTS - 1);
        data->ids[TOP_K * t] = first;
        data->ids[TOP_K * t + 1] = (first + step) % EXPERTS;
        data->router[TOP_K * t] = 0.75f;
        data->router[TOP_K * t + 1] = 0.25f;
    }
    enum kt_status status =
        bench_source_create(bench_source_usual(kt_dtype_name(dtype)), HIDDEN, INTERMEDIATE, EXPERTS,
                            KT_ACTIVATION_SILU, &data->source, error);
    data->dtype = status == KT_OK ? dtype : KT_DTYPE_NONE;
    return status;
}

/* ---- float64 arithmetic --------------------------------------------------------------------- */

/* The backend's weights, and how far they are from their source. */
struct packed {
    const struct kt_layer *layer;
    const struct kt_expert *experts;
    struct deviation deviation;
};

static enum kt_status read_packed(void *data, uint32_t expert, enum kt_projection projection, uint64_t row,
                                  uint64_t n, float *out, struct kt_error *error)
{
    struct packed *packed = data;
    const struct kt_view *view = expert_view(&packed->experts[expert], projection);
    float source[INTERMEDIATE];
    enum kt_status status = kt_layer_weights(packed->layer, expert, projection, row, n, out, error);
    for (uint64_t r = 0; r < n && status == KT_OK; r++, out += view->cols) {
        status = kt_view_row(view, row + r, source, error);
        for (uint64_t i = 0; i < view->cols && status == KT_OK; i++)
            deviation_add(&packed->deviation, (double)out[i], (double)source[i]);
    }
    return status;
}

/* Adds what an expert makes of its tokens to the outputs of all. */
static enum kt_status add_expert(const struct exact_layer *layer, uint32_t expert,
                                 const struct layer_data *data, double *out, struct kt_error *error)
{
    double x[TOKENS * HIDDEN], y[TOKENS * HIDDEN], weight[TOKENS];
    uint32_t n = 0, token[TOKENS];
    for (uint32_t i = 0; i < TOKENS * TOP_K; i++) {
        if (data->ids[i] != expert)
            continue;
        token[n] = i / TOP_K;
        weight[n] = (double)data->router[i];
        for (uint32_t c = 0; c < HIDDEN; c++)
            x[n * HIDDEN + c] = (double)data->input[token[n] * HIDDEN + c];
        n++;
    }
    enum kt_status status = exact_expert(layer, expert, n, x, y, error);
    for (uint32_t t = 0; t < n && status == KT_OK; t++)
        for (uint32_t c = 0; c < HIDDEN; c++)
            out[token[t] * HIDDEN + c] += weight[t] * y[t * HIDDEN + c];
    return status;
}

static enum kt_status compute(const struct layer_data *data, struct packed *packed, double *out,
                              struct kt_error *error)
{
    const struct exact_layer layer = {.shape = {.hidden_size = HIDDEN,
                                                .intermediate_size = INTERMEDIATE,
                                                .activation = KT_ACTIVATION_SILU},
                                      .experts = data->source.experts,
                                      .read = read_packed,
                                      .data = packed};
    enum kt_status status = KT_OK;
    for (uint32_t e = 0; e < EXPERTS && status == KT_OK; e++)
        status = add_expert(&layer, e, data, out, error);
    return status;
}

/* ---- through a backend ---------------------------------------------------------------------- */

/* KT_E_UNSUPPORTED if another backend than the requested one would run. */
static enum kt_status check_plan(const struct kt_cli *cli, struct kt_layer *layer,
                                 const struct layer_data *data, const char *backend, struct kt_error *error)
{
    struct kt_plan *plan = kt_cli_alloc(cli, 1, sizeof(*plan));
    enum kt_status status = kt_layer_plan(layer, data->source.experts, plan, error);
    for (uint32_t c = 0; status == KT_OK && c < plan->n_candidates; c++) {
        const struct kt_candidate *candidate = &plan->candidate[c];
        if (strcmp(candidate->backend, backend) != 0 || candidate->chosen)
            continue;
        status = error->status = KT_E_UNSUPPORTED;
        snprintf(error->message, sizeof(error->message), "%s",
                 *candidate->reason ? candidate->reason : "it was not asked");
    }
    free(plan);
    return status;
}

static enum kt_status make_layer(const struct kt_cli *cli, struct kt_context *context, const char *backend,
                                 const struct layer_data *data, struct kt_layer **layer,
                                 struct kt_error *error)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    params.n_experts = EXPERTS;
    params.top_k = TOP_K;
    params.hidden_size = HIDDEN;
    params.intermediate_size = INTERMEDIATE;
    params.max_tokens = TOKENS;
    params.activation = KT_ACTIVATION_SILU;
    params.backend = backend;
    params.name = "self-test";
    enum kt_status status = kt_layer_create(context, &params, layer, error);
    if (status != KT_OK)
        return status;
    status = check_plan(cli, *layer, data, backend, error);
    if (status == KT_OK)
        status = kt_layer_load(*layer, data->source.experts, EXPERTS, error);
    return status;
}

static enum kt_status run_layer(struct kt_layer *layer, const struct layer_data *data, float *out,
                                struct kt_error *error)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    forward.n_tokens = TOKENS;
    forward.expert_ids = data->ids;
    forward.router_weights = data->router;
    forward.input = data->input;
    forward.input_dtype = KT_DTYPE_F32;
    forward.output = out;
    forward.output_dtype = KT_DTYPE_F32;
    return kt_layer_forward(layer, &forward, error);
}

static void judge(struct kt_selftest *result, const struct deviation *weights, const float *values,
                  const double *expected)
{
    struct deviation deviation = {0, 0};
    double lost = deviation_error(weights);
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        deviation_add(&deviation, (double)values[i], expected[i]);
    result->error = deviation_error(&deviation);
    if (!(lost <= WEIGHT_LIMIT)) {
        result->error = lost;
        result->limit = WEIGHT_LIMIT;
    }
    result->state = result->error <= result->limit ? KT_SELFTEST_PASSED : KT_SELFTEST_WRONG;
}

/* FNV-1a */
static uint64_t hash(const float *values, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)values;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n * sizeof(*values); i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

void kt_selftest_run(const struct kt_cli *cli, struct kt_context *context, const char *backend,
                     bool is_reference, uint32_t dtype, const struct kt_selftest *passed,
                     struct kt_selftest *result)
{
    float values[TOKENS * HIDDEN];
    double expected[TOKENS * HIDDEN] = {0};
    static struct layer_data kept, *const data = &kept;
    struct kt_layer *layer = NULL;
    struct kt_error error;
    *result = (struct kt_selftest){.limit = is_reference ? REFERENCE_LIMIT : BACKEND_LIMIT};
    enum kt_status status = fill(data, dtype, &error);
    if (status == KT_OK)
        status = make_layer(cli, context, backend, data, &layer, &error);
    bool refused = status == KT_E_UNSUPPORTED;
    if (status == KT_OK)
        status = run_layer(layer, data, values, &error);
    bool same = status == KT_OK && passed && passed->hash == hash(values, TOKENS * HIDDEN);
    struct packed packed = {.layer = layer, .experts = data->source.experts};
    if (status == KT_OK && !same)
        status = compute(data, &packed, expected, &error);
    if (same) {
        *result = *passed;
    } else if (status == KT_OK) {
        judge(result, &packed.deviation, values, expected);
        result->hash = hash(values, TOKENS * HIDDEN);
    } else {
        result->state = refused ? KT_SELFTEST_REFUSED : KT_SELFTEST_FAILED;
        snprintf(result->message, sizeof(result->message), "%s", error.message);
    }
    kt_layer_destroy(layer);
}
