/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_attention.c - kt bench --attention: attention over caches that come from memory, as a fraction of
 * what reading them and the level's multiply instruction allow.
 */
#include "tools/kt/bench_cache.h"
#include "tools/kt/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
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

/* ---- the command line ---- */

static int check_numbers(const struct kt_cli *cli, const char *option, const uint64_t *n, size_t count,
                         uint64_t least, uint64_t most)
{
    for (size_t i = 0; i < count; i++)
        if (n[i] < least || n[i] > most)
            return kt_cli_usage(cli, "--%s %" PRIu64 ": %" PRIu64 " to %" PRIu64 " are possible", option,
                                n[i], least, most);
    return count > 0 ? KT_EXIT_OK : KT_EXIT_USAGE;
}

/* ---- timing ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The run with the smallest median of all counts. */
static enum kt_status time_layers(const struct bench_cache *work, const struct bench_schedule *schedule,
                                  struct bench_result *result, struct kt_error *error)
{
    uint64_t calls = schedule->repeats, warm = work->n_layers > 3 ? work->n_layers : 3, next = 0;
    enum kt_status status = KT_OK;
    double sum = 0, time;
    for (; next < warm && status == KT_OK && (next < 3 || sum < 2e9); next++, sum += time)
        status = bench_cache_run(work, next, &time, error);
    if (calls == 0 && status == KT_OK)
        calls = (uint64_t)(schedule->min_time * 1e9 / (sum / (double)next));
    calls = calls < 5 ? 5 : calls > 1000000 ? 1000000 : calls;
    double *times = kt_cli_alloc(work->cli, calls, sizeof *times);
    *result = (struct bench_result){0};
    for (uint64_t run = 0; run < schedule->runs && status == KT_OK; run++) {
        for (uint64_t i = 0; i < calls && status == KT_OK; i++)
            status = bench_cache_run(work, next++, &times[i], error);
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

static void add_row(struct kt_table *table, const struct bench_cache *work, uint32_t n_threads,
                    const struct kt_attention_info *info, const struct bench_roofline *limits,
                    const struct bench_result *result)
{
    const struct bench_heads *shape = work->shape;
    double tokens = (double)work->n_sequences * work->n_tokens;
    /* Pairs of a query and a key that it sees. */
    double pairs = tokens * shape->n_heads * (work->n_context + (work->n_tokens + 1) / 2.0);
    double operations = 2 * pairs * (shape->key_size + shape->value_size),
           bytes = (double)bench_cache_bytes(work);
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
    kt_table_uint(table, "cache_bytes", bench_cache_bytes(work));
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

static int run_row(struct run *run, struct bench_cache *work)
{
    struct bench_result result;
    struct kt_attention_info info;
    struct kt_error error;
    char title[160];
    work->cli = run->cli;
    work->context = run->context;
    work->n_layers = bench_cache_layers(work, run->what->cycle_size);
    (void)snprintf(title, sizeof title, "timing %s, %s, context %" PRIu32, work->shape->name,
                   work->form->name, work->n_context);
    kt_progress_show(run->cli, title);
    enum kt_status status = bench_cache_create(work, run->what->backend, &error);
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
    bench_cache_destroy(work);
    if (status == KT_E_NOT_FOUND || status == KT_E_UNSUPPORTED)
        return kt_cli_usage(run->cli, "%s", error.message);
    return status == KT_OK ? kt_table_flush(run->rows) : kt_cli_fail(run->cli, &error);
}

static int run_shape(struct run *run, const struct bench_heads *shape, const struct bench_form *form)
{
    const struct bench_attention *what = run->what;
    int code = KT_EXIT_OK;
    for (size_t c = 0; c < what->n_contexts && code == KT_EXIT_OK; c++)
        for (size_t s = 0; s < what->n_sequences && code == KT_EXIT_OK; s++)
            for (size_t t = 0; t < what->n_tokens && code == KT_EXIT_OK; t++) {
                struct bench_cache work = {.shape = shape,
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

static int run_all(struct run *run, const struct bench_heads *shapes, size_t n_shapes,
                   const struct bench_form **caches, size_t n_caches)
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
    struct bench_heads shapes[BENCH_ATTENTION_MOST];
    const struct bench_form *caches[BENCH_ATTENTION_MOST];
    struct run run = {.cli = cli, .what = what};
    int code = check_numbers(cli, "context", what->contexts, what->n_contexts, 0, MOST_CONTEXT);
    if (code == KT_EXIT_OK)
        code = check_numbers(cli, "sequences", what->sequences, what->n_sequences, 1, MOST_SEQUENCES);
    if (code == KT_EXIT_OK)
        code = check_numbers(cli, "tokens", what->tokens, what->n_tokens, 1, 65536);
    for (size_t i = 0; i < what->n_shapes && code == KT_EXIT_OK; i++)
        code = bench_heads_choose(cli, what->shapes[i], &shapes[i]);
    for (size_t i = 0; i < what->n_caches && code == KT_EXIT_OK; i++)
        code = bench_form_choose(cli, what->caches[i], &caches[i]);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(cli, &run.context);
    if (code != KT_EXIT_OK)
        return code;
    kt_context_info(run.context, &run.info);
    code = run_all(&run, shapes, what->n_shapes, caches, what->n_caches);
    kt_context_destroy(run.context);
    return code;
}
