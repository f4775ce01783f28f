/* SPDX-License-Identifier: Apache-2.0 */
/* selftest_attention.c - a prompt and a decode through a plugin for attention, compared with float64. */
#include "tools/check/check.h"
#include "tools/kt/plugin/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 6, KV_HEADS = 2, SIZE = 64, TOKENS = 300, LAST = 5 };

#define LIMIT 2e-2 /* queries and weights may be rounded to bfloat16 */

const uint32_t kt_selftest_caches[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_Q8_0, KT_DTYPE_NONE};

struct data {
    float rows[2][TOKENS][KV_HEADS][SIZE]; /* keys and values */
    float queries[LAST][HEADS][SIZE], output[LAST][HEADS][SIZE];
};

static void draw(float *numbers, size_t n, uint64_t state)
{
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)(2 * (double)random_next(&state) * 0x1p-64 - 1);
}

/* Writes keys and values, and reads back what the cache has. */
static enum kt_status fill(struct kt_kv_sequence *sequence, struct data *data, struct kt_error *error)
{
    enum kt_status status = kt_kv_sequence_reserve(sequence, 0, TOKENS, error);
    for (uint32_t field = 0; field < 2 && status == KT_OK; field++) {
        struct kt_kv_rows rows = KT_KV_ROWS_INIT;
        rows.field = field;
        rows.n_heads = KV_HEADS;
        rows.n_rows = TOKENS;
        rows.dtype = KT_DTYPE_F32;
        draw(&data->rows[field][0][0][0], TOKENS * KV_HEADS * SIZE, field + 1);
        status = kt_kv_sequence_write(sequence, &rows, data->rows[field], error);
        if (status == KT_OK)
            status = kt_kv_sequence_read(sequence, &rows, data->rows[field], error);
    }
    return status == KT_OK ? kt_kv_sequence_commit(sequence, TOKENS, error) : status;
}

static enum kt_status run(struct kt_kv *kv, const char *backend, struct data *data, struct kt_error *error)
{
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    struct kt_kv_sequence *sequence = NULL;
    struct kt_attention *attention = NULL;
    params.value_field = 1;
    params.n_heads = HEADS;
    params.backend = backend;
    params.name = "self-test";
    draw(&data->queries[0][0][0], LAST * HEADS * SIZE, 3);
    enum kt_status status = kt_kv_sequence_open(kv, &sequence, error);
    if (status == KT_OK)
        status = fill(sequence, data, error);
    if (status == KT_OK)
        status = kt_attention_create(kv, &params, &attention, error);
    if (status == KT_OK) {
        const struct kt_attention_item item = {sequence, TOKENS - LAST, LAST, 0, data->queries, data->output};
        batch.items = &item;
        batch.n_items = 1;
        batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
        status = kt_attention_forward(attention, &batch, error);
    }
    kt_attention_destroy(attention);
    kt_kv_sequence_close(sequence);
    return status;
}

/* The error of the outputs of a head of the query at `position`. */
static void add_error(const struct data *data, uint32_t position, uint32_t head, struct deviation *deviation)
{
    const uint32_t query = position + LAST - TOKENS, kv_head = head / (HEADS / KV_HEADS);
    const struct exact_attention attention = {.query = data->queries[query][head],
                                              .keys = data->rows[0][0][kv_head],
                                              .n = position + 1,
                                              .stride = KV_HEADS * SIZE,
                                              .size = SIZE,
                                              .scale = 1 / sqrt(SIZE),
                                              .sink = -INFINITY};
    double weight[TOKENS], size, sum = exact_weights(&attention, weight, &size);
    for (uint32_t i = 0; i < SIZE; i++) {
        struct terms terms = exact_mean(weight, &data->rows[1][0][kv_head][i], attention.n, attention.stride);
        deviation_add(deviation, (double)data->output[query][head][i], terms.sum / sum);
    }
}

static double find_error(const struct data *data)
{
    struct deviation deviation = {0, 0};
    for (uint32_t t = 0; t < LAST; t++)
        for (uint32_t h = 0; h < HEADS; h++)
            add_error(data, TOKENS - LAST + t, h, &deviation);
    return deviation_error(&deviation);
}

void kt_selftest_attention(const struct kt_cli *cli, struct kt_context *context, const char *backend,
                           uint32_t dtype, struct kt_selftest *result)
{
    const struct kt_kv_field fields[] = {{KT_KV_ROWS, KT_KV_KEY, dtype, KV_HEADS, SIZE, 1, {0}},
                                         {KT_KV_ROWS, KT_KV_VALUE, dtype, KV_HEADS, SIZE, 1, {0}}};
    const struct kt_kv_layer layer = {fields, 2, 0};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct data *data = kt_cli_alloc(cli, 1, sizeof(*data));
    struct kt_kv *kv = NULL;
    struct kt_error error;
    params.layers = &layer;
    params.n_layers = 1;
    params.max_sequences = 1;
    params.tokens = TOKENS;
    *result = (struct kt_selftest){.limit = LIMIT};
    enum kt_status status = kt_kv_create(context, &params, &kv, &error);
    if (status == KT_OK)
        status = run(kv, backend, data, &error);
    if (status == KT_OK) {
        result->error = find_error(data);
        result->state = result->error <= result->limit ? KT_SELFTEST_PASSED : KT_SELFTEST_WRONG;
    } else {
        result->state = status == KT_E_UNSUPPORTED ? KT_SELFTEST_REFUSED : KT_SELFTEST_FAILED;
        snprintf(result->message, sizeof(result->message), "%s", error.message);
    }
    kt_kv_destroy(kv);
    free(data);
}
