/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delta.c - the gated delta rule over states that come from memory, for kt bench --attention. A task is
 * a head of a sequence, as an engine divides them.
 */
#include "tools/kt/bench/delta.h"

#include <math.h>
#include <stdlib.h>

#define ALIGNMENT 64 /* of a thread's scratch */

uint64_t bench_delta_bytes(const struct bench_delta *work)
{
    const struct bench_heads *shape = work->shape;
    return (uint64_t)work->n_sequences * shape->n_heads * shape->key_size * shape->value_size * sizeof(float);
}

double bench_delta_operations(const struct bench_delta *work)
{
    return 6.0 * work->n_tokens * (double)bench_delta_bytes(work) / sizeof(float);
}

uint32_t bench_delta_layers(const struct bench_delta *work, uint64_t cycle_size)
{
    return bench_cache_copies(bench_delta_bytes(work), cycle_size);
}

/* Rows of n numbers, each with a sum of squares near 1. */
static float *draw(const struct kt_cli *cli, uint64_t rows, uint64_t n, uint64_t seed)
{
    struct bench_random random;
    float *numbers = kt_cli_alloc(cli, rows * n, sizeof *numbers), scale = 1 / sqrtf((float)n);
    bench_random_seed(&random, seed);
    for (uint64_t i = 0; i < rows * n; i++)
        numbers[i] = bench_random_gauss(&random) * scale;
    return numbers;
}

/* A cache has rows of some layer: of one more, which is not used. */
static enum kt_status make_states(struct bench_delta *work, struct kt_error *error)
{
    const struct bench_heads *shape = work->shape;
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    const struct kt_kv_field row = {.kind = KT_KV_ROWS, .dtype = KT_DTYPE_F32, .heads = 1, .width = 1};
    const struct kt_kv_field states = {.kind = KT_KV_STATE,
                                       .dtype = KT_DTYPE_F32,
                                       .heads = shape->n_heads,
                                       .width = shape->key_size * shape->value_size};
    struct kt_kv_layer *layers = kt_cli_alloc(work->cli, work->n_layers + 1, sizeof *layers);
    for (uint32_t l = 0; l < work->n_layers; l++)
        layers[l] = (struct kt_kv_layer){&states, 1, 0};
    layers[work->n_layers] = (struct kt_kv_layer){&row, 1, 0};
    params.layers = layers;
    params.n_layers = work->n_layers + 1;
    params.max_sequences = work->n_sequences;
    params.tokens = KT_KV_PAGE;
    enum kt_status status = kt_kv_create(work->context, &params, &work->kv, error);
    free(layers);
    for (uint32_t s = 0; s < work->n_sequences && status == KT_OK; s++)
        status = kt_kv_sequence_open(work->kv, &work->sequences[s], error);
    return status;
}

enum kt_status bench_delta_create(struct bench_delta *work, const char *backend, struct kt_error *error)
{
    const struct bench_heads *shape = work->shape;
    const uint64_t n = work->n_tokens;
    struct kt_context_info info;
    kt_context_info(work->context, &info);
    work->n_threads = info.n_threads;
    work->errors = kt_cli_alloc(work->cli, info.n_threads, sizeof *work->errors);
    work->sequences = kt_cli_alloc(work->cli, work->n_sequences, sizeof *work->sequences);
    work->keys = draw(work->cli, n * shape->kv_heads, shape->key_size, 1);
    work->values = draw(work->cli, n * shape->n_heads, shape->value_size, 2);
    work->factors = kt_cli_alloc(work->cli, 2 * n * shape->n_heads, sizeof *work->factors);
    for (uint64_t i = 0; i < n * shape->n_heads; i++) {
        work->factors[i] = -0.1f;                     /* log_decay */
        work->factors[n * shape->n_heads + i] = 0.5f; /* beta */
    }
    work->outputs = kt_cli_alloc(work->cli, bench_delta_bytes(work) / shape->key_size * n, 1);
    enum kt_status status = kt_rows_find(work->context, backend, &work->rows, error);
    if (status == KT_OK)
        status =
            kt_rows_delta_scratch(work->rows, shape->key_size, shape->value_size, &work->scratch_size, error);
    if (status != KT_OK)
        return status;
    work->scratch_size = (work->scratch_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    work->memory = kt_cli_alloc(work->cli, work->scratch_size * work->n_threads + ALIGNMENT, 1);
    work->scratch = work->memory + (ALIGNMENT - (uintptr_t)work->memory % ALIGNMENT) % ALIGNMENT;
    return make_states(work, error);
}

void bench_delta_destroy(struct bench_delta *work)
{
    for (uint32_t s = 0; work->sequences && s < work->n_sequences; s++)
        kt_kv_sequence_close(work->sequences[s]);
    kt_kv_destroy(work->kv);
    free(work->errors);
    free(work->sequences);
    free(work->keys);
    free(work->values);
    free(work->factors);
    free(work->outputs);
    free(work->memory);
}

/* ---- a call ---- */

/* The next head of the call: all rows of one sequence. */
static enum kt_status run_head(const struct bench_delta *work, uint32_t layer, uint32_t sequence,
                               uint32_t head, void *scratch, struct kt_error *error)
{
    const struct bench_heads *shape = work->shape;
    const uint64_t key = (uint64_t)(head / (shape->n_heads / shape->kv_heads)) * shape->key_size,
                   value = (uint64_t)head * shape->value_size,
                   width = (uint64_t)shape->n_heads * sizeof(float);
    struct kt_rows_delta job = KT_ROWS_DELTA_INIT;
    void *state;
    enum kt_status status = kt_kv_sequence_state(work->sequences[sequence], layer, 0, head, &state, error);
    if (status != KT_OK)
        return status;
    job.n_rows = work->n_tokens;
    job.n_heads = job.n_key_heads = job.end_head = 1;
    job.key_size = shape->key_size;
    job.value_size = shape->value_size;
    job.query = job.key = work->keys + key;
    job.value = work->values + value;
    job.log_decay = work->factors + head;
    job.beta = job.log_decay + (uint64_t)work->n_tokens * shape->n_heads;
    job.state = state;
    job.output =
        work->outputs + (uint64_t)sequence * work->n_tokens * shape->n_heads * shape->value_size + value;
    job.query_stride = job.key_stride = (int64_t)(shape->kv_heads * shape->key_size * sizeof(float));
    job.value_stride = job.output_stride = (int64_t)(width * shape->value_size);
    job.log_decay_stride = job.beta_stride = (int64_t)width;
    job.scratch = scratch;
    job.scratch_size = work->scratch_size;
    return kt_rows_delta(work->rows, &job, error);
}

struct call {
    struct bench_delta *work;
    uint32_t layer;
};

static void run_heads(void *data, uint32_t thread, uint32_t n_threads)
{
    const struct call *call = data;
    const struct bench_delta *work = call->work;
    const uint64_t n = (uint64_t)work->n_sequences * work->shape->n_heads;
    struct kt_error *error = &work->errors[thread];
    error->status = KT_OK;
    for (uint64_t i = n * thread / n_threads; i < n * (thread + 1) / n_threads && error->status == KT_OK; i++)
        (void)run_head(work, call->layer, (uint32_t)(i / work->shape->n_heads),
                       (uint32_t)(i % work->shape->n_heads), work->scratch + thread * work->scratch_size,
                       error);
}

enum kt_status bench_delta_run(void *data, uint64_t i, double *time, struct kt_error *error)
{
    struct call call = {.work = data, .layer = (uint32_t)(i % ((struct bench_delta *)data)->n_layers)};
    double begin = bench_now();
    enum kt_status status = kt_context_run(call.work->context, run_heads, &call, error);
    *time = bench_now() - begin;
    for (uint32_t t = 0; t < call.work->n_threads && status == KT_OK; t++)
        if (call.work->errors[t].status != KT_OK) {
            *error = call.work->errors[t];
            status = error->status;
        }
    return status;
}
