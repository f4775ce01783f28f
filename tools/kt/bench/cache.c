/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - caches of attention that come from memory, for kt bench --attention and kt tune
 * --attention.
 */
#include "tools/kt/bench/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_LAYERS 1024

static const struct bench_heads known[] = {
    {"qwen3-30b-a3b", 32, 4, 128, 128, false, false}, {"gpt-oss", 64, 8, 64, 64, false, false},
    {"qwen3-next", 16, 2, 256, 256, false, false},    {"deepseek-v3", 128, 1, 576, 512, true, false},
    {"kimi-k2", 64, 1, 576, 512, true, false},        {"qwen3-next-delta", 32, 16, 128, 128, false, true},
};

static const struct bench_form forms[] = {{"bf16", KT_DTYPE_BF16},
                                          {"q8_0", KT_DTYPE_Q8_0},
                                          {"f32", KT_DTYPE_F32}};

/* ---- the command line ---- */

/* Sizes of states are what <kt/rows.h> takes. */
static bool is_shape(const struct bench_heads *shape)
{
    if (shape->n_heads == 0 || shape->kv_heads == 0 || shape->n_heads % shape->kv_heads != 0 ||
        shape->key_size == 0 || shape->value_size == 0)
        return false;
    if (shape->delta)
        return !shape->latent && shape->key_size % 16 == 0 && shape->value_size % 16 == 0;
    return !shape->latent || shape->value_size <= shape->key_size;
}

int bench_heads_choose(const struct kt_cli *cli, const char *text, struct bench_heads *shape)
{
    static const char delta[] = "delta:";
    const char *names[COUNT(known)], *sizes = text;
    int end = 0, fields;
    char mark[2] = "";
    for (size_t i = 0; i < COUNT(known); i++) {
        names[i] = known[i].name;
        if (strcmp(text, known[i].name) == 0) {
            *shape = known[i];
            return KT_EXIT_OK;
        }
    }
    *shape = (struct bench_heads){.delta = strncmp(text, delta, sizeof delta - 1) == 0};
    sizes += shape->delta ? sizeof delta - 1 : 0;
    fields = sscanf(sizes, "%5" SCNu32 "/%5" SCNu32 "x%5" SCNu32 "%n%1[x:]%5" SCNu32 "%n", &shape->n_heads,
                    &shape->kv_heads, &shape->key_size, &end, mark, &shape->value_size, &end);
    if (fields == 3)
        shape->value_size = shape->key_size;
    shape->latent = *mark == ':';
    (void)snprintf(shape->name, sizeof shape->name, "%s", text);
    if ((fields == 3 || fields == 5) && sizes[end] == 0 && is_shape(shape))
        return KT_EXIT_OK;
    return kt_cli_usage(cli,
                        "--attention %s is not a shape%s; shapes are qwen3-30b-a3b, gpt-oss, qwen3-next, "
                        "deepseek-v3, kimi-k2, qwen3-next-delta, HEADS/KVxSIZE such as 32/4x128, "
                        "HEADS/KVxKEYxVALUE, HEADS/KVxKEY:VALUE where values are the first numbers of keys, "
                        "and delta:VALUES/KEYSxSIZE or xKEYxVALUE, heads of Gated DeltaNet, multiples of 16",
                        text, kt_cli_hint(text, names, COUNT(known)).text);
}

int bench_form_choose(const struct kt_cli *cli, const char *text, const struct bench_form **form)
{
    for (size_t i = 0; i < COUNT(forms); i++)
        if (strcmp(text, forms[i].name) == 0) {
            *form = &forms[i];
            return KT_EXIT_OK;
        }
    return kt_cli_usage(cli, "--cache %s is not known%s; bf16, q8_0 and f32 are", text,
                        kt_cli_hint_of(text, "bf16 q8_0 f32").text);
}

/* ---- a cache ---- */

uint64_t bench_cache_bytes(const struct bench_cache *work)
{
    const struct bench_heads *shape = work->shape;
    uint64_t numbers =
        (uint64_t)shape->kv_heads * (shape->key_size + (shape->latent ? 0 : shape->value_size));
    uint64_t tokens = (uint64_t)work->n_sequences * (work->n_context + work->n_tokens);
    return numbers * tokens *
           (work->form->dtype == KT_DTYPE_Q8_0  ? 34
            : work->form->dtype == KT_DTYPE_F32 ? 128
                                                : 64) /
           32;
}

/* The same numbers for all layers and sequences. */
static void write_layer(struct bench_cache *work, uint32_t layer)
{
    uint32_t n = work->n_context + work->n_tokens;
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    rows.layer = layer;
    rows.n_heads = work->shape->kv_heads;
    rows.dtype = KT_DTYPE_F32;
    for (uint32_t s = 0; s < work->n_sequences; s++)
        for (rows.field = 0; rows.field < (work->shape->latent ? 1 : 2); rows.field++)
            for (rows.row = 0; rows.row < n; rows.row += rows.n_rows) {
                rows.n_rows = n - rows.row < KT_KV_PAGE ? n - rows.row : KT_KV_PAGE;
                (void)kt_kv_sequence_write(work->sequences[s], &rows, work->numbers, NULL);
            }
}

static void write_layers(void *data, uint32_t thread, uint32_t n_threads)
{
    struct bench_cache *work = data;
    for (uint32_t l = thread; l < work->n_layers; l += n_threads)
        write_layer(work, l);
}

static float *draw(const struct kt_cli *cli, uint64_t n, uint64_t seed)
{
    struct bench_random random;
    float *numbers = kt_cli_alloc(cli, n, sizeof *numbers);
    bench_random_seed(&random, seed);
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = bench_random_gauss(&random);
    return numbers;
}

static enum kt_status make_cache(struct bench_cache *work, struct kt_error *error)
{
    const struct bench_heads *shape = work->shape;
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_kv_layer *layers = kt_cli_alloc(work->cli, work->n_layers, sizeof *layers);
    const struct kt_kv_field fields[] = {
        {KT_KV_ROWS, KT_KV_KEY, work->form->dtype, shape->kv_heads, shape->key_size, 1, {0}},
        {KT_KV_ROWS, KT_KV_VALUE, work->form->dtype, shape->kv_heads, shape->value_size, 1, {0}},
    };
    for (uint32_t l = 0; l < work->n_layers; l++)
        layers[l] = (struct kt_kv_layer){fields, shape->latent ? 1 : 2, 0};
    params.layers = layers;
    params.n_layers = work->n_layers;
    params.max_sequences = work->n_sequences;
    params.tokens = (uint64_t)work->n_sequences * (work->n_context + work->n_tokens + KT_KV_PAGE);
    enum kt_status status = kt_kv_create(work->context, &params, &work->kv, error);
    free(layers);
    uint64_t n = work->n_context + work->n_tokens;
    for (uint32_t s = 0; s < work->n_sequences && status == KT_OK; s++) {
        status = kt_kv_sequence_open(work->kv, &work->sequences[s], error);
        if (status == KT_OK)
            status = kt_kv_sequence_reserve(work->sequences[s], 0, n, error);
    }
    if (status == KT_OK)
        status = kt_context_run(work->context, write_layers, work, error);
    for (uint32_t s = 0; s < work->n_sequences && status == KT_OK; s++)
        status = kt_kv_sequence_commit(work->sequences[s], n, error);
    return status;
}

static enum kt_status make_layers(struct bench_cache *work, const char *backend, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint32_t l = 0; l < work->n_layers && status == KT_OK; l++) {
        struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
        params.layer = l;
        params.value_field = work->shape->latent ? 0 : 1;
        params.n_heads = work->shape->n_heads;
        params.value_size = work->shape->value_size;
        params.max_sequences = work->n_sequences;
        params.backend = backend;
        params.name = "the bench's attention";
        status = kt_attention_create(work->kv, &params, &work->layers[l], error);
    }
    return status;
}

void bench_cache_destroy(struct bench_cache *work)
{
    for (uint32_t l = 0; l < work->n_layers; l++)
        kt_attention_destroy(work->layers[l]);
    for (uint32_t s = 0; s < work->n_sequences; s++)
        kt_kv_sequence_close(work->sequences[s]);
    kt_kv_destroy(work->kv);
    free(work->layers);
    free(work->sequences);
    free(work->items);
    free(work->queries);
    free(work->outputs);
    free(work->numbers);
}

enum kt_status bench_cache_create(struct bench_cache *work, const char *backend, struct kt_error *error)
{
    const struct bench_heads *shape = work->shape;
    uint64_t width = shape->key_size > shape->value_size ? shape->key_size : shape->value_size;
    uint64_t outputs = (uint64_t)work->n_tokens * shape->n_heads * shape->value_size;
    work->sequences = kt_cli_alloc(work->cli, work->n_sequences, sizeof *work->sequences);
    work->layers = kt_cli_alloc(work->cli, work->n_layers, sizeof *work->layers);
    work->items = kt_cli_alloc(work->cli, work->n_sequences, sizeof *work->items);
    work->numbers = draw(work->cli, KT_KV_PAGE * width * shape->kv_heads, 1);
    work->queries = draw(work->cli, (uint64_t)work->n_tokens * shape->n_heads * shape->key_size, 2);
    work->outputs = kt_cli_alloc(work->cli, outputs * work->n_sequences, sizeof *work->outputs);
    enum kt_status status = make_cache(work, error);
    if (status == KT_OK)
        status = make_layers(work, backend, error);
    for (uint32_t s = 0; s < work->n_sequences && status == KT_OK; s++)
        work->items[s] = (struct kt_attention_item){work->sequences[s], work->n_context,
                                                    work->n_tokens,     0,
                                                    work->queries,      work->outputs + s * outputs};
    return status;
}

/* So many that each comes from memory. */
uint32_t bench_cache_copies(uint64_t bytes, uint64_t cycle_size)
{
    uint64_t available = kt_memory_available() / 3, goal = cycle_size ? cycle_size : bench_cycle_size();
    goal = available && available < goal ? available : goal;
    uint64_t n = bytes ? goal / bytes + 1 : 1;
    return (uint32_t)(n > MOST_LAYERS ? MOST_LAYERS : n);
}

uint32_t bench_cache_layers(const struct bench_cache *work, uint64_t cycle_size)
{
    return bench_cache_copies(bench_cache_bytes(work), cycle_size);
}

enum kt_status bench_cache_run(void *data, uint64_t i, double *time, struct kt_error *error)
{
    const struct bench_cache *work = data;
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    batch.items = work->items;
    batch.n_items = work->n_sequences;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    double begin = bench_now();
    enum kt_status status = kt_attention_forward(work->layers[i % work->n_layers], &batch, error);
    *time = bench_now() - begin;
    return status;
}
