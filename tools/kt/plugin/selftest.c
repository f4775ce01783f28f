/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - a small random layer through a backend, compared with float64 on the same weights. */
#include "tools/kt/plugin/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 4, TOP_K = 2, HIDDEN = 256, INTERMEDIATE = 512, TOKENS = 7 };

#define REFERENCE_LIMIT 1e-5 /* float32 sums against float64 */
#define BACKEND_LIMIT 2e-2   /* activations may be rounded to 8 bits */
#define WEIGHT_LIMIT 0.2     /* 4 bits lose up to 0.15; weights in wrong places differ by 1 and more */
#define MATRIX ((uint64_t)HIDDEN * INTERMEDIATE)

const uint32_t kt_selftest_dtypes[] = {KT_DTYPE_F32,  KT_DTYPE_BF16,    KT_DTYPE_Q8_0, KT_DTYPE_F8_E4M3,
                                       KT_DTYPE_INT4, KT_DTYPE_F4_E2M1, KT_DTYPE_NONE};

/* Separate scales of published formats; they follow their matrix in memory. */
static const struct scaling {
    uint32_t dtype, scale_dtype;
    uint64_t rows, cols; /* of a group */
} scalings[] = {
    {KT_DTYPE_F8_E4M3, KT_DTYPE_F32, 128, 128},
    {KT_DTYPE_INT4, KT_DTYPE_BF16, 1, 32},
    {KT_DTYPE_F4_E2M1, KT_DTYPE_F8_E8M0, 1, 32},
};

/* A layer's weights, input and routing. */
struct layer_data {
    void *weights; /* gate, up and down of each expert, each with its scales behind it */
    uint64_t matrix_size, scales_size;
    const struct scaling *scaling; /* NULL: no scales beside them */
    struct kt_expert experts[EXPERTS];
    float input[TOKENS * HIDDEN];
    int64_t ids[TOKENS * TOP_K];
    float router[TOKENS * TOP_K];
};

/* ---- data ----------------------------------------------------------------------------------- */

/* xorshift64*: the same layer on every machine. */
static uint32_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(0x2545F4914F6CDD1D)) >> 32);
}

/* In -1..1. */
static float draw_real(uint64_t *state)
{
    return (float)((double)draw(state) / 2147483648.0 - 1.0);
}

/* A Q8_0 block is a float16 scale and 32 int8; 0x1000 is 2^-11, 0x0C00 is 2^-12. */
static void fill_q8_0(uint64_t *state, unsigned char *to)
{
    for (uint64_t block = 0; block < MATRIX / 32; block++) {
        *to++ = 0;
        *to++ = draw(state) & 1 ? 0x10 : 0x0C;
        for (int i = 0; i < 32; i++) {
            int value = (int)(draw(state) % 255) - 127;
            *to++ = (unsigned char)(signed char)value;
        }
    }
}

/* Random codes, except the two NaNs of E4M3. */
static void fill_codes(uint64_t *state, uint32_t dtype, uint64_t size, unsigned char *to)
{
    for (uint64_t i = 0; i < size; i++) {
        to[i] = (unsigned char)draw(state);
        if (dtype == KT_DTYPE_F8_E4M3 && (to[i] & 0x7f) == 0x7f)
            to[i] = 0;
    }
}

/* Scales that make weights of about 1/16, like the other formats': codes reach 448, 8 and 6. */
static void fill_scales(uint64_t *state, const struct scaling *scaling, uint64_t size, unsigned char *to)
{
    for (uint64_t i = 0; i < size;) {
        float value = (1 + draw_real(state) / 2) / (scaling->scale_dtype == KT_DTYPE_F32 ? 4096 : 128);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint16_t high = (uint16_t)(bits >> 16);
        if (scaling->scale_dtype == KT_DTYPE_F32) {
            memcpy(to + i, &bits, sizeof bits);
            i += sizeof bits;
        } else if (scaling->scale_dtype == KT_DTYPE_BF16) {
            memcpy(to + i, &high, sizeof high);
            i += sizeof high;
        } else {
            to[i++] = draw(state) % 8 ? 120 : 121; /* 2^-7, 2^-6 */
        }
    }
}

static void fill_matrix(uint64_t *state, uint32_t dtype, unsigned char *to)
{
    if (dtype == KT_DTYPE_Q8_0) {
        fill_q8_0(state, to);
        return;
    }
    for (uint64_t i = 0; i < MATRIX; i++) {
        float value = draw_real(state) / 16;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        uint16_t high = (uint16_t)(bits >> 16);
        if (dtype == KT_DTYPE_BF16)
            memcpy(to + 2 * i, &high, 2);
        else
            memcpy(to + 4 * i, &value, 4);
    }
}

static enum kt_status make_view(const struct layer_data *data, uint32_t dtype, uint64_t rows, uint64_t cols,
                                const unsigned char **at, struct kt_view *view, struct kt_error *error)
{
    const struct scaling *scaling = data->scaling;
    uint32_t bytes;
    enum kt_status status = kt_view_dense(view, dtype, *at, data->matrix_size, rows, cols, error);
    *at += data->matrix_size;
    if (status != KT_OK || !scaling)
        return status;
    kt_dtype_block(scaling->scale_dtype, NULL, &bytes);
    view->scales = (struct kt_scales){.data = *at,
                                      .size = data->scales_size,
                                      .dtype = scaling->scale_dtype,
                                      .group_rows = scaling->rows,
                                      .group_cols = scaling->cols,
                                      .row_stride = (int64_t)(cols / scaling->cols * bytes),
                                      .col_stride = bytes};
    *at += data->scales_size;
    return KT_OK;
}

static enum kt_status make_views(struct layer_data *data, uint32_t dtype, struct kt_error *error)
{
    const unsigned char *at = data->weights;
    enum kt_status status = KT_OK;
    for (int e = 0; e < EXPERTS && status == KT_OK; e++) {
        struct kt_expert *expert = &data->experts[e];
        status = make_view(data, dtype, INTERMEDIATE, HIDDEN, &at, &expert->gate, error);
        if (status == KT_OK)
            status = make_view(data, dtype, INTERMEDIATE, HIDDEN, &at, &expert->up, error);
        if (status == KT_OK)
            status = make_view(data, dtype, HIDDEN, INTERMEDIATE, &at, &expert->down, error);
    }
    return status;
}

static void find_scaling(struct layer_data *data, uint32_t dtype)
{
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
        if (scalings[i].dtype == dtype) {
            uint32_t bytes;
            kt_dtype_block(scalings[i].scale_dtype, NULL, &bytes);
            data->scaling = &scalings[i];
            data->scales_size = MATRIX / (scalings[i].rows * scalings[i].cols) * bytes;
        }
}

static void fill_weights(const struct kt_cli *cli, struct layer_data *data, uint32_t dtype, uint64_t *state)
{
    uint32_t elements, bytes;
    kt_dtype_block(dtype, &elements, &bytes);
    data->matrix_size = MATRIX / elements * bytes;
    find_scaling(data, dtype);
    unsigned char *at = data->weights = kt_cli_alloc(cli, 3 * EXPERTS, data->matrix_size + data->scales_size);
    for (int m = 0; m < 3 * EXPERTS; m++) {
        if (data->scaling) {
            fill_codes(state, dtype, data->matrix_size, at);
            fill_scales(state, data->scaling, data->scales_size, at + data->matrix_size);
        } else {
            fill_matrix(state, dtype, at);
        }
        at += data->matrix_size + data->scales_size;
    }
}

static enum kt_status fill(const struct kt_cli *cli, struct layer_data *data, uint32_t dtype,
                           struct kt_error *error)
{
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
    fill_weights(cli, data, dtype, &state);
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        data->input[i] = draw_real(&state);
    for (int t = 0; t < TOKENS; t++) {
        data->ids[TOP_K * t] = draw(&state) % EXPERTS;
        data->ids[TOP_K * t + 1] = (data->ids[TOP_K * t] + 1 + draw(&state) % (EXPERTS - 1)) % EXPERTS;
        data->router[TOP_K * t] = 0.75f;
        data->router[TOP_K * t + 1] = 0.25f;
    }
    return make_views(data, dtype, error);
}

/* ---- float64 arithmetic --------------------------------------------------------------------- */

/* Sums for a relative L2 error. */
struct deviation {
    double difference, size;
};

static void add_deviation(struct deviation *deviation, const float *values, const float *expected, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)values[i] - (double)expected[i];
        deviation->difference += d * d;
        deviation->size += (double)expected[i] * (double)expected[i];
    }
}

static double find_error(const struct deviation *deviation)
{
    return sqrt(deviation->difference / deviation->size);
}

/* Tokens that an expert computes. */
struct chosen {
    int n, token[TOKENS];
    double weight[TOKENS];
};

static struct chosen find_tokens(const struct layer_data *data, uint32_t expert)
{
    struct chosen chosen = {.n = 0};
    for (int i = 0; i < TOKENS * TOP_K; i++)
        if (data->ids[i] == expert) {
            chosen.token[chosen.n] = i / TOP_K;
            chosen.weight[chosen.n++] = (double)data->router[i];
        }
    return chosen;
}

/* Computes n times y = W x with the backend's weights, which are read once, and their error against the
 * source.
 */
static enum kt_status multiply(const struct kt_layer *layer, uint32_t expert, enum kt_projection projection,
                               const struct kt_view *source, int n, const double *x, double *y,
                               struct deviation *weights, struct kt_error *error)
{
    float row[INTERMEDIATE], original[INTERMEDIATE];
    for (uint64_t r = 0; r < source->rows; r++) {
        enum kt_status status = kt_layer_weights(layer, expert, projection, r, 1, row, error);
        if (status == KT_OK)
            status = kt_view_row(source, r, original, error);
        if (status != KT_OK)
            return status;
        add_deviation(weights, row, original, source->cols);
        for (int t = 0; t < n; t++) {
            const double *at = x + (uint64_t)t * source->cols;
            double sum = 0;
            for (uint64_t c = 0; c < source->cols; c++)
                sum += (double)row[c] * at[c];
            y[(uint64_t)t * source->rows + r] = sum;
        }
    }
    return KT_OK;
}

/* Adds what an expert makes of its tokens to the sums of all. */
static enum kt_status add_expert(const struct kt_layer *layer, uint32_t e, const struct layer_data *data,
                                 double *sums, struct deviation *weights, struct kt_error *error)
{
    double x[TOKENS * HIDDEN], gate[TOKENS * INTERMEDIATE], up[TOKENS * INTERMEDIATE], y[TOKENS * HIDDEN];
    const struct kt_expert *source = &data->experts[e];
    const struct chosen chosen = find_tokens(data, e);
    for (int i = 0; i < chosen.n * HIDDEN; i++)
        x[i] = (double)data->input[chosen.token[i / HIDDEN] * HIDDEN + i % HIDDEN];
    enum kt_status status = multiply(layer, e, KT_GATE, &source->gate, chosen.n, x, gate, weights, error);
    if (status == KT_OK)
        status = multiply(layer, e, KT_UP, &source->up, chosen.n, x, up, weights, error);
    for (int i = 0; i < chosen.n * INTERMEDIATE && status == KT_OK; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    if (status == KT_OK)
        status = multiply(layer, e, KT_DOWN, &source->down, chosen.n, gate, y, weights, error);
    for (int i = 0; i < chosen.n * HIDDEN && status == KT_OK; i++)
        sums[chosen.token[i / HIDDEN] * HIDDEN + i % HIDDEN] += chosen.weight[i / HIDDEN] * y[i];
    return status;
}

static enum kt_status compute(const struct kt_layer *layer, const struct layer_data *data, float *out,
                              struct deviation *weights, struct kt_error *error)
{
    double sums[TOKENS * HIDDEN] = {0};
    for (uint32_t e = 0; e < EXPERTS; e++) {
        enum kt_status status = add_expert(layer, e, data, sums, weights, error);
        if (status != KT_OK)
            return status;
    }
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        out[i] = (float)sums[i];
    return KT_OK;
}

/* ---- through a backend ---------------------------------------------------------------------- */

/* KT_E_UNSUPPORTED if another backend than the requested one would run. */
static enum kt_status check_plan(const struct kt_cli *cli, struct kt_layer *layer,
                                 const struct layer_data *data, const char *backend, struct kt_error *error)
{
    struct kt_plan *plan = kt_cli_alloc(cli, 1, sizeof(*plan));
    enum kt_status status = kt_layer_plan(layer, data->experts, plan, error);
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
        status = kt_layer_load(*layer, data->experts, EXPERTS, error);
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
                  const float *expected)
{
    struct deviation deviation = {0};
    double lost = find_error(weights);
    add_deviation(&deviation, values, expected, TOKENS * HIDDEN);
    result->error = find_error(&deviation);
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
    float values[TOKENS * HIDDEN], expected[TOKENS * HIDDEN];
    struct layer_data *data = kt_cli_alloc(cli, 1, sizeof(*data));
    struct kt_layer *layer = NULL;
    struct deviation weights = {0};
    struct kt_error error;
    *result = (struct kt_selftest){.limit = is_reference ? REFERENCE_LIMIT : BACKEND_LIMIT};
    enum kt_status status = fill(cli, data, dtype, &error);
    if (status == KT_OK)
        status = make_layer(cli, context, backend, data, &layer, &error);
    bool refused = status == KT_E_UNSUPPORTED;
    if (status == KT_OK)
        status = run_layer(layer, data, values, &error);
    bool same = status == KT_OK && passed && passed->hash == hash(values, TOKENS * HIDDEN);
    if (status == KT_OK && !same)
        status = compute(layer, data, expected, &weights, &error);
    if (same) {
        *result = *passed;
    } else if (status == KT_OK) {
        judge(result, &weights, values, expected);
        result->hash = hash(values, TOKENS * HIDDEN);
    } else {
        result->state = refused ? KT_SELFTEST_REFUSED : KT_SELFTEST_FAILED;
        snprintf(result->message, sizeof(result->message), "%s", error.message);
    }
    kt_layer_destroy(layer);
    free(data->weights);
    free(data);
}
