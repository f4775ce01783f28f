/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - kt bench --attention: attention over caches that come from memory, as a fraction of
 * what reading them and the level's multiply instruction allow.
 */
#include "tools/kt/bench/delta.h"
#include "tools/kt/base/table.h"

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

/* What a row is of. */
struct subject {
    const struct bench_heads *shape;
    const char *cache, *backend, *level, *instruction;
    uint32_t context, n_sequences, n_tokens, n_layers;
    uint64_t cache_bytes;
    double bytes, operations; /* of a call */
    void *work;
    enum kt_status (*call)(void *work, uint64_t layer, double *time, struct kt_error *error);
};

/* The run with the smallest median of all counts. */
static enum kt_status time_layers(const struct kt_cli *cli, const struct subject *subject,
                                  const struct bench_schedule *schedule, struct bench_result *result,
                                  struct kt_error *error)
{
    uint64_t calls = schedule->repeats, warm = subject->n_layers > 3 ? subject->n_layers : 3, next = 0;
    enum kt_status status = KT_OK;
    double sum = 0, time;
    for (; next < warm && status == KT_OK && (next < 3 || sum < 2e9); next++, sum += time)
        status = subject->call(subject->work, next, &time, error);
    if (calls == 0 && status == KT_OK)
        calls = (uint64_t)(schedule->min_time * 1e9 / (sum / (double)next));
    calls = calls < 5 ? 5 : calls > 1000000 ? 1000000 : calls;
    double *times = kt_cli_alloc(cli, calls, sizeof *times);
    *result = (struct bench_result){0};
    for (uint64_t run = 0; run < schedule->runs && status == KT_OK; run++) {
        for (uint64_t i = 0; i < calls && status == KT_OK; i++)
            status = subject->call(subject->work, next++, &times[i], error);
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

static void add_row(struct kt_table *table, const struct subject *subject, uint32_t n_threads,
                    const struct bench_roofline *limits, const struct bench_result *result)
{
    double tokens = (double)subject->n_sequences * subject->n_tokens;
    kt_table_row(table);
    kt_table_text(table, "backend", subject->backend);
    kt_table_text(table, "level", subject->level);
    kt_table_text(table, "shape", subject->shape->name);
    kt_table_text(table, "cache", subject->cache);
    if (!subject->shape->delta)
        kt_table_uint(table, "context", subject->context);
    kt_table_uint(table, "sequences", subject->n_sequences);
    kt_table_uint(table, "n_tokens", subject->n_tokens);
    kt_table_uint(table, "n_threads", n_threads);
    kt_table_uint(table, "layers", subject->n_layers);
    kt_table_real(table, "ms_median", result->median / 1e6);
    kt_table_real(table, "ms_min", result->best / 1e6);
    kt_table_uint(table, "repeats", result->repeats);
    kt_table_real(table, "tokens_per_s", tokens / (result->median / 1e9));
    kt_table_uint(table, "cache_bytes", subject->cache_bytes);
    kt_table_real(table, "cache_gbps", subject->bytes / result->median);
    kt_table_real(table, "read_gbps", limits->read.rate);
    kt_table_real(table, "tops", subject->operations / result->median / 1e3);
    if (limits->peak.rate > 0)
        kt_table_real(table, "peak_tops", limits->peak.rate / 1e3);
    kt_table_real(table, "roofline_fraction",
                  bench_roofline_time(limits, subject->bytes, subject->operations) / result->median);
}

/* ---- all rows ---- */

struct run {
    struct kt_cli *cli;
    const struct bench_attention *what;
    struct kt_context *context;
    struct kt_context_info info;
    struct kt_table *rows, *limit_rows;
    struct bench_roofline limits;
    char instruction[64]; /* of the limits; "": there are none yet */
};

static void add_limit(struct kt_table *table, const char *name, const struct bench_limit *limit, double scale,
                      const char *unit)
{
    kt_table_row(table);
    kt_table_text(table, "limit", name);
    kt_table_real(table, "rate", limit->rate / scale);
    kt_table_text(table, "unit", unit);
    kt_table_text(table, "way", limit->way);
}

static void end_limits(struct run *run)
{
    if (!*run->instruction)
        return;
    add_limit(run->limit_rows, "read", &run->limits.read, 1, "GB/s");
    if (run->limits.peak.rate > 0)
        add_limit(run->limit_rows, "multiply", &run->limits.peak, 1e3, "TOPS");
    bench_buffer_destroy(&run->limits.buffer);
    *run->instruction = '\0';
}

/* Those of the subject's instruction: better ones than before, or the first. */
static enum kt_status measure_limits(struct run *run, const struct subject *subject, struct kt_error *error)
{
    const struct bench_set set = {.level = subject->level,
                                  .instruction = subject->instruction,
                                  .backend = subject->backend,
                                  .packed_size =
                                      run->what->cycle_size ? run->what->cycle_size : bench_cycle_size(),
                                  .n_copies = 1};
    char name[sizeof run->instruction];
    enum kt_status status = KT_OK;
    (void)snprintf(name, sizeof name, "%s %s", subject->level, subject->instruction);
    if (strcmp(name, run->instruction) != 0) {
        end_limits(run);
        status =
            bench_roofline_create(run->cli, run->info.cpu, &set, &run->what->schedule, &run->limits, error);
        memcpy(run->instruction, name, sizeof name);
    }
    return status == KT_OK ? bench_roofline_measure(run->context, &run->limits, error) : status;
}

static int run_subject(struct run *run, const struct subject *subject, enum kt_status status,
                       struct kt_error *error)
{
    struct bench_result result;
    if (status == KT_OK)
        status = measure_limits(run, subject, error);
    if (status == KT_OK)
        status = time_layers(run->cli, subject, &run->what->schedule, &result, error);
    if (status == KT_OK)
        status = measure_limits(run, subject, error);
    kt_progress_clear();
    if (status == KT_E_NOT_FOUND || status == KT_E_UNSUPPORTED)
        return kt_cli_usage(run->cli, "%s", error->message);
    if (status != KT_OK)
        return kt_cli_fail(run->cli, error);
    add_row(run->rows, subject, run->info.n_threads, &run->limits, &result);
    return kt_table_flush(run->rows);
}

static void show_progress(const struct run *run, const struct subject *subject)
{
    char title[160];
    (void)snprintf(title, sizeof title, "timing %.64s, %.8s, context %" PRIu32, subject->shape->name,
                   subject->cache, subject->context);
    kt_progress_show(run->cli, title);
}

static int run_cache(struct run *run, struct subject *subject, const struct bench_form *form)
{
    struct kt_attention_info info = {.backend = ""};
    struct kt_error error;
    struct bench_cache work = {.cli = run->cli,
                               .context = run->context,
                               .shape = subject->shape,
                               .form = form,
                               .n_context = subject->context,
                               .n_sequences = subject->n_sequences,
                               .n_tokens = subject->n_tokens};
    work.n_layers = subject->n_layers = bench_cache_layers(&work, run->what->cycle_size);
    subject->cache = form->name;
    show_progress(run, subject);
    enum kt_status status = bench_cache_create(&work, run->what->backend, &error);
    if (status == KT_OK)
        kt_attention_info(work.layers[0], &info);
    /* Pairs of a query and a key that it sees. */
    double pairs = (double)work.n_sequences * work.n_tokens * work.shape->n_heads *
                   (work.n_context + (work.n_tokens + 1) / 2.0);
    subject->backend = info.backend;
    subject->level = info.level;
    subject->instruction = info.instruction;
    subject->cache_bytes = bench_cache_bytes(&work);
    subject->bytes = (double)subject->cache_bytes;
    subject->operations = 2 * pairs * (work.shape->key_size + work.shape->value_size);
    subject->work = &work;
    subject->call = bench_cache_run;
    int code = run_subject(run, subject, status, &error);
    bench_cache_destroy(&work);
    return code;
}

/* Which multiplies float32 on every level. */
static const char *float_instruction(const char *level)
{
    return strcmp(level, "scalar") == 0                                      ? "scalar"
           : strncmp(level, "neon", 4) == 0 || strncmp(level, "arm", 3) == 0 ? "fmla"
                                                                             : "vfmadd";
}

static int run_delta(struct run *run, struct subject *subject)
{
    struct kt_rows_info info = {.backend = ""};
    struct kt_error error;
    struct bench_delta work = {.cli = run->cli,
                               .context = run->context,
                               .shape = subject->shape,
                               .n_sequences = subject->n_sequences,
                               .n_tokens = subject->n_tokens};
    work.n_layers = subject->n_layers = bench_delta_layers(&work, run->what->cycle_size);
    subject->cache = "f32";
    show_progress(run, subject);
    enum kt_status status = bench_delta_create(&work, run->what->backend, &error);
    if (status == KT_OK) {
        kt_rows_info(work.rows, &info);
        subject->instruction = float_instruction(info.level);
    }
    subject->backend = info.backend;
    subject->level = info.level;
    subject->cache_bytes = bench_delta_bytes(&work);
    subject->bytes = 2 * (double)subject->cache_bytes; /* read and written */
    subject->operations = bench_delta_operations(&work);
    subject->work = &work;
    subject->call = bench_delta_run;
    int code = run_subject(run, subject, status, &error);
    bench_delta_destroy(&work);
    return code;
}

/* A state does not grow with the context, and has one form. */
static int run_shape(struct run *run, const struct bench_heads *shape, const struct bench_form *form)
{
    const struct bench_attention *what = run->what;
    const size_t n_contexts = shape->delta ? 1 : what->n_contexts;
    int code = KT_EXIT_OK;
    for (size_t c = 0; c < n_contexts && code == KT_EXIT_OK; c++)
        for (size_t s = 0; s < what->n_sequences && code == KT_EXIT_OK; s++)
            for (size_t t = 0; t < what->n_tokens && code == KT_EXIT_OK; t++) {
                struct subject subject = {.shape = shape,
                                          .context = (uint32_t)what->contexts[c],
                                          .n_sequences = (uint32_t)what->sequences[s],
                                          .n_tokens = (uint32_t)what->tokens[t]};
                code = shape->delta ? run_delta(run, &subject) : run_cache(run, &subject, form);
            }
    return code;
}

static int run_all(struct run *run, const struct bench_heads *shapes, size_t n_shapes,
                   const struct bench_form **caches, size_t n_caches)
{
    struct kt_output *output = kt_output_create(run->cli, "kt.bench.attention", 1);
    kt_output_fact_uint(output, "threads", "threads", run->info.n_threads);
    run->rows = kt_output_table(output, "rows", columns, COUNT(columns));
    run->limit_rows = kt_output_table(output, "limits", limit_columns, COUNT(limit_columns));
    kt_table_title(run->limit_rows, "What the machine could do, measured beside the rows:");
    int code = KT_EXIT_OK;
    for (size_t s = 0; s < n_shapes && code == KT_EXIT_OK; s++)
        for (size_t f = 0; f < (shapes[s].delta ? 1 : n_caches) && code == KT_EXIT_OK; f++)
            code = run_shape(run, &shapes[s], caches[f]);
    end_limits(run);
    if (code == KT_EXIT_OK)
        code = kt_output_finish(output, code);
    else
        kt_output_free(output);
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
