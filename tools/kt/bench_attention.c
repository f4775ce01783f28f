/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_attention.c - kt bench --attention: attention over caches that come from memory, as a fraction of
 * what reading them and the level's multiply instruction allow.
 */
#include "tools/kt/bench.h"
#include "tools/kt/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_LAYERS 1024
#define MOST_SEQUENCES 1024
#define MOST_CONTEXT (1 << 20)

static const struct kt_column columns[] = {
    {"backend", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, 0},
    {"cache", "CACHE", KT_COLUMN_TEXT, 0, 0},
    {"context", "CONTEXT", KT_COLUMN_UINT, 0, 0},
    {"sequences", "SEQUENCES", KT_COLUMN_UINT, 0, 0},
    {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
    {"n_threads", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"layers", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"ms_median", "MS", KT_COLUMN_REAL, 3, 0},
    {"ms_min", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"repeats", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"tokens_per_s", NULL, KT_COLUMN_REAL, 1, KT_COLUMN_HIDDEN},
    {"cache_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"cache_gbps", "GB/s", KT_COLUMN_REAL, 1, 0},
    {"read_gbps", NULL, KT_COLUMN_REAL, 1, KT_COLUMN_HIDDEN},
    {"tops", "TOPS", KT_COLUMN_REAL, 3, 0},
    {"peak_tops", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"roofline_fraction", "ROOFLINE", KT_COLUMN_REAL, 3, 0},
};

static const struct kt_column limit_columns[] = {
    {"limit", "LIMIT", KT_COLUMN_TEXT, 0, 0},
    {"rate", "RATE", KT_COLUMN_REAL, -1, 0},
    {"unit", "UNIT", KT_COLUMN_TEXT, 0, 0},
    {"way", "WAY", KT_COLUMN_TEXT, 0, 0},
};

/* Heads of queries and keys, sizes; latent: values are the keys' first numbers. */
struct shape {
    char name[64];
    uint32_t n_heads, kv_heads, key_size, value_size;
    bool latent;
};

static const struct shape known[] = {
    {"qwen3-30b-a3b", 32, 4, 128, 128, false}, {"gpt-oss", 64, 8, 64, 64, false},
    {"qwen3-next", 16, 2, 256, 256, false},    {"deepseek-v3", 128, 1, 576, 512, true},
    {"kimi-k2", 64, 1, 576, 512, true},
};

struct form {
    const char *name;
    uint32_t dtype;
};
static const struct form forms[] = {{"bf16", KT_DTYPE_BF16}, {"q8_0", KT_DTYPE_Q8_0}, {"f32", KT_DTYPE_F32}};

/* One row's work: layers of one cache in turn, all of the same sequences. */
struct work {
    struct kt_cli *cli;
    struct kt_context *context;
    const struct shape *shape;
    const struct form *form;
    uint32_t n_context, n_sequences, n_tokens, n_layers;
    struct kt_kv *kv;
    struct kt_kv_sequence **sequences;
    struct kt_attention **layers;
    struct kt_attention_item *items;
    float *queries, *outputs, *numbers;
};

/* ---- the command line ---- */

static int parse_shape(const struct kt_cli *cli, const char *text, struct shape *shape)
{
    const char *names[COUNT(known)];
    int end = 0, fields;
    char mark[2] = "";
    for (size_t i = 0; i < COUNT(known); i++) {
        names[i] = known[i].name;
        if (strcmp(text, known[i].name) == 0) {
            *shape = known[i];
            return KT_EXIT_OK;
        }
    }
    *shape = (struct shape){.n_heads = 0};
    fields = sscanf(text, "%5" SCNu32 "/%5" SCNu32 "x%5" SCNu32 "%n%1[x:]%5" SCNu32 "%n", &shape->n_heads,
                    &shape->kv_heads, &shape->key_size, &end, mark, &shape->value_size, &end);
    if (fields == 3)
        shape->value_size = shape->key_size;
    shape->latent = *mark == ':';
    (void)snprintf(shape->name, sizeof shape->name, "%s", text);
    if ((fields == 3 || fields == 5) && text[end] == 0 && shape->n_heads > 0 && shape->kv_heads > 0 &&
        shape->n_heads % shape->kv_heads == 0 && shape->key_size > 0 && shape->value_size > 0 &&
        (!shape->latent || shape->value_size <= shape->key_size))
        return KT_EXIT_OK;
    const char *near = kt_cli_nearest(text, names, COUNT(known));
    return kt_cli_usage(cli,
                        "--attention %s is no shape%s%s%s; shapes are qwen3-30b-a3b, gpt-oss, qwen3-next, "
                        "deepseek-v3, kimi-k2, HEADS/KVxSIZE such as 32/4x128, HEADS/KVxKEYxVALUE, and "
                        "HEADS/KVxKEY:VALUE where values are the first numbers of keys",
                        text, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
}

static int parse_form(const struct kt_cli *cli, const char *text, const struct form **form)
{
    for (size_t i = 0; i < COUNT(forms); i++)
        if (strcmp(text, forms[i].name) == 0) {
            *form = &forms[i];
            return KT_EXIT_OK;
        }
    return kt_cli_usage(cli, "--cache %s is not known; bf16, q8_0 and f32 are", text);
}

static int check_numbers(const struct kt_cli *cli, const char *option, const uint64_t *n, size_t count,
                         uint64_t least, uint64_t most)
{
    for (size_t i = 0; i < count; i++)
        if (n[i] < least || n[i] > most)
            return kt_cli_usage(cli, "--%s %" PRIu64 ": %" PRIu64 " to %" PRIu64 " are possible", option,
                                n[i], least, most);
    return count > 0 ? KT_EXIT_OK : KT_EXIT_USAGE;
}

/* ---- a cache ---- */

static uint64_t layer_bytes(const struct work *work)
{
    const struct shape *shape = work->shape;
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
static void write_layer(struct work *work, uint32_t layer)
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
    struct work *work = data;
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

static enum kt_status make_cache(struct work *work, struct kt_error *error)
{
    const struct shape *shape = work->shape;
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

static enum kt_status make_layers(struct work *work, const char *backend, struct kt_error *error)
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

static void free_work(struct work *work)
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

static enum kt_status make_work(struct work *work, const char *backend, struct kt_error *error)
{
    const struct shape *shape = work->shape;
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

/* ---- timing ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum kt_status run_layer(const struct work *work, uint64_t i, double *time, struct kt_error *error)
{
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    batch.items = work->items;
    batch.n_items = work->n_sequences;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    double begin = bench_now();
    enum kt_status status = kt_attention_forward(work->layers[i % work->n_layers], &batch, error);
    *time = bench_now() - begin;
    return status;
}

/* The run with the smallest median of all counts. */
static enum kt_status time_layers(const struct work *work, const struct bench_schedule *schedule,
                                  struct bench_result *result, struct kt_error *error)
{
    uint64_t calls = schedule->repeats, warm = work->n_layers > 3 ? work->n_layers : 3, next = 0;
    enum kt_status status = KT_OK;
    double sum = 0, time;
    for (; next < warm && status == KT_OK && (next < 3 || sum < 2e9); next++, sum += time)
        status = run_layer(work, next, &time, error);
    if (calls == 0 && status == KT_OK)
        calls = (uint64_t)(schedule->min_time * 1e9 / (sum / (double)next));
    calls = calls < 5 ? 5 : calls > 1000000 ? 1000000 : calls;
    double *times = kt_cli_alloc(work->cli, calls, sizeof *times);
    *result = (struct bench_result){0};
    for (uint64_t run = 0; run < schedule->runs && status == KT_OK; run++) {
        for (uint64_t i = 0; i < calls && status == KT_OK; i++)
            status = run_layer(work, next++, &times[i], error);
        qsort(times, calls, sizeof *times, compare);
        if (run == 0 || times[calls / 2] < result->median)
            result->median = times[calls / 2];
        if (run == 0 || times[0] < result->best)
            result->best = times[0];
        result->repeats += calls;
    }
    free(times);
    return status;
}

static void add_row(struct kt_table *table, const struct work *work, uint32_t n_threads,
                    const struct kt_attention_info *info, const struct bench_roofline *limits,
                    const struct bench_result *result)
{
    const struct shape *shape = work->shape;
    double tokens = (double)work->n_sequences * work->n_tokens;
    /* Pairs of a query and a key that it sees. */
    double pairs = tokens * shape->n_heads * (work->n_context + (work->n_tokens + 1) / 2.0);
    double operations = 2 * pairs * (shape->key_size + shape->value_size), bytes = (double)layer_bytes(work);
    kt_table_row(table);
    kt_table_text(table, "backend", info->backend);
    kt_table_text(table, "level", info->level);
    kt_table_text(table, "shape", shape->name);
    kt_table_text(table, "cache", work->form->name);
    kt_table_uint(table, "context", work->n_context);
    kt_table_uint(table, "sequences", work->n_sequences);
    kt_table_uint(table, "n_tokens", work->n_tokens);
    kt_table_uint(table, "n_threads", n_threads);
    kt_table_uint(table, "layers", work->n_layers);
    kt_table_real(table, "ms_median", result->median / 1e6);
    kt_table_real(table, "ms_min", result->best / 1e6);
    kt_table_uint(table, "repeats", result->repeats);
    kt_table_real(table, "tokens_per_s", tokens / (result->median / 1e9));
    kt_table_uint(table, "cache_bytes", layer_bytes(work));
    kt_table_real(table, "cache_gbps", bytes / result->median);
    kt_table_real(table, "read_gbps", limits->read.rate);
    kt_table_real(table, "tops", operations / result->median / 1e3);
    if (limits->peak.rate > 0)
        kt_table_real(table, "peak_tops", limits->peak.rate / 1e3);
    kt_table_real(table, "roofline_fraction",
                  bench_roofline_time(limits, bytes, operations) / result->median);
}

/* ---- all rows ---- */

struct run {
    struct kt_cli *cli;
    const struct bench_attention *what;
    struct kt_context *context;
    struct kt_context_info info;
    struct kt_table *rows;
    struct bench_roofline limits;
    bool has_limits;
};

/* So many layers that each comes from memory. */
static uint32_t count_layers(const struct run *run, const struct work *work)
{
    uint64_t size = layer_bytes(work), available = kt_memory_available() / 3;
    uint64_t goal = run->what->cycle_size ? run->what->cycle_size : bench_cycle_size();
    goal = available && available < goal ? available : goal;
    uint64_t n = size ? goal / size + 1 : 1;
    return (uint32_t)(n > MOST_LAYERS ? MOST_LAYERS : n);
}

static enum kt_status measure_limits(struct run *run, const struct kt_attention_info *info,
                                     struct kt_error *error)
{
    const struct bench_set set = {.level = info->level,
                                  .instruction = info->instruction,
                                  .backend = info->backend,
                                  .packed_size = bench_cycle_size(),
                                  .n_copies = 1};
    enum kt_status status = KT_OK;
    if (!run->has_limits)
        status =
            bench_roofline_create(run->cli, run->info.cpu, &set, &run->what->schedule, &run->limits, error);
    run->has_limits = true;
    return status == KT_OK ? bench_roofline_measure(run->context, &run->limits, error) : status;
}

static int run_row(struct run *run, struct work *work)
{
    struct bench_result result;
    struct kt_attention_info info;
    struct kt_error error;
    char title[160];
    work->cli = run->cli;
    work->context = run->context;
    work->n_layers = count_layers(run, work);
    (void)snprintf(title, sizeof title, "timing %s, %s, context %" PRIu32, work->shape->name,
                   work->form->name, work->n_context);
    kt_progress_show(run->cli, title);
    enum kt_status status = make_work(work, run->what->backend, &error);
    if (status == KT_OK) {
        kt_attention_info(work->layers[0], &info);
        status = measure_limits(run, &info, &error);
    }
    if (status == KT_OK)
        status = time_layers(work, &run->what->schedule, &result, &error);
    if (status == KT_OK)
        status = measure_limits(run, &info, &error);
    kt_progress_clear();
    if (status == KT_OK)
        add_row(run->rows, work, run->info.n_threads, &info, &run->limits, &result);
    free_work(work);
    if (status == KT_E_NOT_FOUND || status == KT_E_UNSUPPORTED)
        return kt_cli_usage(run->cli, "%s", error.message);
    return status == KT_OK ? kt_table_flush(run->rows) : kt_cli_fail(run->cli, &error);
}

static int run_shape(struct run *run, const struct shape *shape, const struct form *form)
{
    const struct bench_attention *what = run->what;
    int code = KT_EXIT_OK;
    for (size_t c = 0; c < what->n_contexts && code == KT_EXIT_OK; c++)
        for (size_t s = 0; s < what->n_sequences && code == KT_EXIT_OK; s++)
            for (size_t t = 0; t < what->n_tokens && code == KT_EXIT_OK; t++) {
                struct work work = {.shape = shape,
                                    .form = form,
                                    .n_context = (uint32_t)what->contexts[c],
                                    .n_sequences = (uint32_t)what->sequences[s],
                                    .n_tokens = (uint32_t)what->tokens[t]};
                code = run_row(run, &work);
            }
    return code;
}

static void add_limit(struct kt_table *table, const char *name, const struct bench_limit *limit, double scale,
                      const char *unit)
{
    kt_table_row(table);
    kt_table_text(table, "limit", name);
    kt_table_real(table, "rate", limit->rate / scale);
    kt_table_text(table, "unit", unit);
    kt_table_text(table, "way", limit->way);
}

static int run_all(struct run *run, const struct shape *shapes, size_t n_shapes, const struct form **caches,
                   size_t n_caches)
{
    struct kt_output *output = kt_output_create(run->cli, "kt.bench.attention", 1);
    kt_output_fact_uint(output, "threads", "threads", run->info.n_threads);
    run->rows = kt_output_table(output, "rows", columns, COUNT(columns));
    struct kt_table *limits = kt_output_table(output, "limits", limit_columns, COUNT(limit_columns));
    kt_table_title(limits, "What the machine could do, measured beside the rows:");
    int code = KT_EXIT_OK;
    for (size_t s = 0; s < n_shapes && code == KT_EXIT_OK; s++)
        for (size_t f = 0; f < n_caches && code == KT_EXIT_OK; f++)
            code = run_shape(run, &shapes[s], caches[f]);
    if (code == KT_EXIT_OK) {
        add_limit(limits, "read", &run->limits.read, 1, "GB/s");
        if (run->limits.peak.rate > 0)
            add_limit(limits, "multiply", &run->limits.peak, 1e3, "TOPS");
        code = kt_output_finish(output, code);
    } else {
        kt_output_free(output);
    }
    if (run->has_limits)
        bench_buffer_destroy(&run->limits.buffer);
    return code;
}

int bench_attention(struct kt_cli *cli, const struct bench_attention *what)
{
    struct shape shapes[BENCH_ATTENTION_MOST];
    const struct form *caches[BENCH_ATTENTION_MOST];
    struct run run = {.cli = cli, .what = what};
    int code = check_numbers(cli, "context", what->contexts, what->n_contexts, 0, MOST_CONTEXT);
    if (code == KT_EXIT_OK)
        code = check_numbers(cli, "sequences", what->sequences, what->n_sequences, 1, MOST_SEQUENCES);
    if (code == KT_EXIT_OK)
        code = check_numbers(cli, "tokens", what->tokens, what->n_tokens, 1, 65536);
    for (size_t i = 0; i < what->n_shapes && code == KT_EXIT_OK; i++)
        code = parse_shape(cli, what->shapes[i], &shapes[i]);
    for (size_t i = 0; i < what->n_caches && code == KT_EXIT_OK; i++)
        code = parse_form(cli, what->caches[i], &caches[i]);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(cli, &run.context);
    if (code != KT_EXIT_OK)
        return code;
    kt_context_info(run.context, &run.info);
    code = run_all(&run, shapes, what->n_shapes, caches, what->n_caches);
    kt_context_destroy(run.context);
    return code;
}
