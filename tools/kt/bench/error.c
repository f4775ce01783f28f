/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c - the error of a layer's output against float64 arithmetic: on the weights that the kernel
 * uses (the error of its arithmetic) and on the source (that of packing, too).
 */
#include "tools/check/exact.h"
#include "tools/check/number.h"
#include "tools/kt/bench/bench.h"

#include <stdlib.h>

#define MAX_WEIGHTS 120e6 /* that are multiplied to check a row of the bench */
#define MAX_CHECKED 4

/* Rows of weights of a packed layer or linear. */
static enum kt_status read_packed(void *data, uint32_t expert, enum kt_projection projection, uint64_t row,
                                  uint64_t n, float *out, struct kt_error *error)
{
    const struct bench_set *set = data; /* its first copy */
    if (set->linears != NULL)
        return kt_linear_weights(set->linears[0], row, n, out, error);
    return kt_layer_weights(set->layers[0], expert, projection, row, n, out, error);
}

/* x, what an expert makes of it, and the sum of what all make: the exact output for one token. */
struct numbers {
    double *x, *part, *want;
};

static enum kt_status expect(const struct exact_layer *layer, const struct bench_set *set,
                             const struct kt_forward *forward, uint64_t token, const struct numbers *numbers,
                             struct kt_error *error)
{
    const int64_t *ids = forward->expert_ids + token * forward->top_k;
    const float *weights = forward->router_weights + token * forward->top_k;
    const uint32_t element = number_size(forward->input_dtype);
    const unsigned char *input = (const unsigned char *)forward->input + token * set->input_size * element;
    for (uint64_t i = 0; i < set->input_size; i++)
        numbers->x[i] = (double)read_number(input + i * element, forward->input_dtype);
    if (set->linears != NULL)
        return exact_expert(layer, 0, 1, numbers->x, numbers->want, error);
    for (uint64_t i = 0; i < set->output_size; i++)
        numbers->want[i] = 0;
    for (uint32_t k = 0; k < forward->top_k; k++) {
        if (ids[k] < 0)
            continue;
        enum kt_status status = exact_expert(layer, (uint32_t)ids[k], 1, numbers->x, numbers->part, error);
        if (status != KT_OK)
            return status;
        for (uint64_t i = 0; i < set->output_size; i++)
            numbers->want[i] += (double)weights[k] * numbers->part[i];
    }
    return KT_OK;
}

static enum kt_status check_tokens(const struct bench_set *set, const struct bench_source *source,
                                   const struct kt_forward *forward, const struct numbers *numbers,
                                   double *errors, struct kt_error *error)
{
    const struct kt_shape shape = {.hidden_size = set->output_size,
                                   .intermediate_size = source->intermediate_size,
                                   .activation = source->activation,
                                   .limit = source->limit,
                                   .alpha = source->alpha};
    const struct exact_layer layers[2] = {{shape, source->experts, read_packed, (void *)(uintptr_t)set},
                                          {shape, source->experts, NULL, NULL}};
    uint32_t n_tokens = forward->n_tokens;
    double matrices = set->linears != NULL ? 1 : (double)set->n_matrices * set->top_k;
    double affordable =
        MAX_WEIGHTS / (matrices * (double)set->output_size * (double)source->intermediate_size);
    uint32_t n = affordable < 1 ? 1 : affordable > MAX_CHECKED ? MAX_CHECKED : (uint32_t)affordable;
    n = n > n_tokens ? n_tokens : n;
    struct deviation deviations[2] = {{0, 0}, {0, 0}};
    for (uint32_t i = 0; i < n; i++) {
        /* The first, the last and some between. */
        uint64_t token = n == 1 ? n_tokens - 1 : (uint64_t)i * (n_tokens - 1) / (n - 1);
        const float *output = (const float *)forward->output + token * set->output_size;
        for (int l = 0; l < 2; l++) {
            enum kt_status status = expect(&layers[l], set, forward, token, numbers, error);
            if (status != KT_OK)
                return status;
            for (uint64_t o = 0; o < set->output_size; o++)
                deviation_add(&deviations[l], (double)output[o], numbers->want[o]);
        }
    }
    for (int l = 0; l < 2; l++)
        errors[l] = deviation_error(&deviations[l]);
    return KT_OK;
}

int bench_errors(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                 const struct bench_source *source, uint32_t n_tokens, double *kernel_error,
                 double *total_error)
{
    size_t hidden = set->output_size;
    struct numbers numbers = {.x = kt_cli_alloc(cli, set->input_size + 2 * hidden, sizeof *numbers.x)};
    numbers.part = numbers.x + set->input_size;
    numbers.want = numbers.part + hidden;
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
        status = check_tokens(set, source, &calls.forward, &numbers, errors, &error);
    kt_progress_stop();
    *kernel_error = errors[0];
    *total_error = errors[1];
    free(numbers.x);
    free(output);
    bench_calls_destroy(&calls);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}
