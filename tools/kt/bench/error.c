/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c - the error of a layer's output against float64 arithmetic: on the weights that the kernel
 * uses (the error of its arithmetic) and on the source (that of packing, too).
 */
#include "tools/kt/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WEIGHTS 120e6 /* that are multiplied to check a row of the bench */
#define MAX_CHECKED 4
#define CHUNK_ROWS 64

/* Rows of weights of the packed layer, or of the source. */
struct reader {
    const struct bench_set *set;       /* its first copy, or NULL */
    const struct bench_source *source; /* or NULL */
};

static enum kt_status read_rows(const struct reader *reader, uint32_t expert, enum kt_projection projection,
                                uint64_t row, uint64_t n, uint64_t cols, float *out, struct kt_error *error)
{
    if (reader->set != NULL && reader->set->linears != NULL)
        return kt_linear_weights(reader->set->linears[0], row, n, out, error);
    if (reader->set != NULL)
        return kt_layer_weights(reader->set->layers[0], expert, projection, row, n, out, error);
    const struct kt_expert *weights = &reader->source->experts[expert];
    const struct kt_view *view = projection == KT_GATE ? &weights->gate
                                 : projection == KT_UP ? &weights->up
                                                       : &weights->down;
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < n && status == KT_OK; i++)
        status = kt_view_row(view, row + i, out + i * cols, error);
    return status;
}

/* Four sums at once: one chain of additions would take most of the time. */
static double dot(const float *row, const double *x, uint64_t n)
{
    double sum[4] = {0};
    for (uint64_t i = 0; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += (double)row[i + (uint64_t)j] * x[i + (uint64_t)j];
    for (uint64_t i = n & ~UINT64_C(3); i < n; i++)
        sum[0] += (double)row[i] * x[i];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

static enum kt_status multiply(const struct reader *reader, uint32_t expert, enum kt_projection projection,
                               uint64_t rows, uint64_t cols, const double *x, float *chunk, double *out,
                               struct kt_error *error)
{
    for (uint64_t row = 0; row < rows; row += CHUNK_ROWS) {
        uint64_t n = rows - row < CHUNK_ROWS ? rows - row : CHUNK_ROWS;
        enum kt_status status = read_rows(reader, expert, projection, row, n, cols, chunk, error);
        if (status != KT_OK)
            return status;
        for (uint64_t i = 0; i < n; i++)
            out[row + i] = dot(chunk + i * cols, x, cols);
    }
    return KT_OK;
}

struct check {
    const struct bench_set *set;
    const struct bench_source *source;
    uint64_t intermediate_size;
    double *x, *gate, *up, *part, *want;
    float *chunk;
};

static double input_number(const struct kt_forward *forward, uint64_t i)
{
    const uint16_t *halves = forward->input;
    uint32_t bits;
    float value;
    if (forward->input_dtype == KT_DTYPE_F32)
        return (double)((const float *)forward->input)[i];
    if (forward->input_dtype == KT_DTYPE_F16) {
        int exponent = halves[i] >> 10 & 31, fraction = halves[i] & 1023;
        double size = exponent == 0    ? ldexp(fraction, -24)
                      : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                       : ldexp(1024 + fraction, exponent - 25);
        return halves[i] & 0x8000 ? -size : size;
    }
    bits = (uint32_t)halves[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* What goes into down, by the formulas of enum kt_activation. */
static double activate(const struct bench_source *source, double gate, double up)
{
    double limit = (double)source->limit, alpha = 1;
    if (source->activation != KT_ACTIVATION_SILU) {
        gate = fmin(gate, limit);
        up = fmax(fmin(up, limit), -limit);
    }
    if (source->activation == KT_ACTIVATION_SWIGLUOAI) {
        alpha = (double)source->alpha;
        up += 1;
    }
    return up * gate / (1.0 + exp(-alpha * gate));
}

static void add_bias(const float *bias, uint64_t n, double *out)
{
    for (uint64_t i = 0; i < n && bias != NULL; i++)
        out[i] += (double)bias[i];
}

/* Computes check->want, the exact output for one token of the call. */
static enum kt_status expect(struct check *check, const struct reader *reader,
                             const struct kt_forward *forward, uint64_t token, struct kt_error *error)
{
    const int64_t *ids = forward->expert_ids + token * forward->top_k;
    const float *weights = forward->router_weights + token * forward->top_k;
    uint64_t hidden = check->set->output_size, intermediate = check->intermediate_size;
    for (uint64_t i = 0; i < check->set->input_size; i++)
        check->x[i] = input_number(forward, token * check->set->input_size + i);
    for (uint64_t i = 0; i < hidden; i++)
        check->want[i] = 0;
    if (check->set->linears != NULL)
        return multiply(reader, 0, KT_DOWN, hidden, intermediate, check->x, check->chunk, check->want, error);
    for (uint32_t k = 0; k < forward->top_k; k++) {
        if (ids[k] < 0)
            continue;
        uint32_t expert = (uint32_t)ids[k];
        const struct kt_expert *biases = &check->source->experts[expert];
        enum kt_status status = multiply(reader, expert, KT_GATE, intermediate, hidden, check->x,
                                         check->chunk, check->gate, error);
        if (status == KT_OK)
            status = multiply(reader, expert, KT_UP, intermediate, hidden, check->x, check->chunk, check->up,
                              error);
        if (status == KT_OK) {
            add_bias(biases->gate_bias, intermediate, check->gate);
            add_bias(biases->up_bias, intermediate, check->up);
        }
        for (uint64_t i = 0; i < intermediate && status == KT_OK; i++)
            check->up[i] = activate(check->source, check->gate[i], check->up[i]);
        if (status == KT_OK)
            status = multiply(reader, expert, KT_DOWN, hidden, intermediate, check->up, check->chunk,
                              check->part, error);
        if (status != KT_OK)
            return status;
        add_bias(biases->down_bias, hidden, check->part);
        for (uint64_t i = 0; i < hidden; i++)
            check->want[i] += (double)weights[k] * check->part[i];
    }
    return KT_OK;
}

/* Adds a token's share to the sums of a relative L2 error. */
static void compare(const struct check *check, const float *output, double *wrong, double *size)
{
    for (uint64_t i = 0; i < check->set->output_size; i++) {
        double difference = (double)output[i] - check->want[i];
        *wrong += difference * difference;
        *size += check->want[i] * check->want[i];
    }
}

static enum kt_status check_tokens(struct check *check, const struct bench_source *source,
                                   const struct kt_forward *forward, double *errors, struct kt_error *error)
{
    uint32_t n_tokens = forward->n_tokens;
    const float *output = forward->output;
    const struct bench_set *set = check->set;
    double matrices = set->linears != NULL ? 1 : 3.0 * set->top_k;
    double per_token = matrices * (double)set->output_size * (double)check->intermediate_size;
    double affordable = MAX_WEIGHTS / per_token;
    uint32_t n = affordable < 1 ? 1 : affordable > MAX_CHECKED ? MAX_CHECKED : (uint32_t)affordable;
    n = n > n_tokens ? n_tokens : n;
    double wrong[2] = {0, 0}, size[2] = {0, 0};
    const struct reader readers[2] = {{.set = set}, {.source = source}};
    for (uint32_t i = 0; i < n; i++) {
        /* The first, the last and some between. */
        uint64_t token = n == 1 ? n_tokens - 1 : (uint64_t)i * (n_tokens - 1) / (n - 1);
        for (int r = 0; r < 2; r++) {
            enum kt_status status = expect(check, &readers[r], forward, token, error);
            if (status != KT_OK)
                return status;
            compare(check, output + token * set->output_size, &wrong[r], &size[r]);
        }
    }
    for (int r = 0; r < 2; r++)
        errors[r] = sqrt(wrong[r] / size[r]);
    return KT_OK;
}

int bench_errors(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                 const struct bench_source *source, uint32_t n_tokens, double *kernel_error,
                 double *total_error)
{
    size_t hidden = set->output_size, intermediate = source->intermediate_size;
    size_t widest = hidden > intermediate ? hidden : intermediate;
    struct check check = {.set = set, .source = source, .intermediate_size = intermediate};
    double *numbers = kt_cli_alloc(cli, 2 * hidden + 2 * intermediate + widest, sizeof *numbers);
    check.x = numbers;
    check.part = numbers + widest;
    check.want = check.part + hidden;
    check.gate = check.want + hidden;
    check.up = check.gate + intermediate;
    check.chunk = kt_cli_alloc(cli, widest * CHUNK_ROWS, sizeof *check.chunk);
    float *output = kt_cli_alloc(cli, n_tokens * hidden, sizeof *output);
    struct bench_calls calls;
    struct kt_error error;
    double errors[2] = {0, 0};
    bench_calls_create(cli, set, trace, 1, n_tokens, &calls);
    bench_calls_next(&calls);
    calls.forward.output = output;
    calls.forward.output_dtype = KT_DTYPE_F32;
    kt_progress_start(cli, "checking against float64");
    enum kt_status status = bench_set_forward(set, 0, &calls.forward, &error);
    if (status == KT_OK)
        status = check_tokens(&check, source, &calls.forward, errors, &error);
    kt_progress_stop();
    *kernel_error = errors[0];
    *total_error = errors[1];
    free(numbers);
    free(check.chunk);
    free(output);
    bench_calls_destroy(&calls);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}
