/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - times a layer's weights on a backend, and writes a row for each batch size. */
#include "tools/kt/bench/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct kt_column columns[] = {
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE | KT_COLUMN_LIST},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(9)},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"source_type", "TYPE", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(4)},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE},
    {"hidden_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"intermediate_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_experts", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"top_k", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
    {"n_threads", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"ms_median", "MS", KT_COLUMN_REAL, 3, KT_COLUMN_WIDTH(8)},
    {"ms_min", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"ms_max", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"repeats", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"tokens_per_s", NULL, KT_COLUMN_REAL, 1, KT_COLUMN_HIDDEN},
    {"weight_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"packed_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"weight_gbps", "GB/s", KT_COLUMN_REAL, 1, KT_COLUMN_WIDTH(5)},
    {"read_gbps", NULL, KT_COLUMN_REAL, 1, KT_COLUMN_HIDDEN},
    {"tops", "TOPS", KT_COLUMN_REAL, 3, KT_COLUMN_WIDTH(5)},
    {"peak_tops", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"roofline_fraction", "ROOFLINE", KT_COLUMN_REAL, 3, 0},
    {"kernel_error", NULL, KT_COLUMN_REAL, -1, KT_COLUMN_HIDDEN},
    {"total_error", "ERROR", KT_COLUMN_REAL, -1, KT_COLUMN_WIDTH(7)},
    {"model_layers", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"kind", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"activation", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

static const struct kt_column limit_columns[] = {
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE | KT_COLUMN_LIST},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"source_type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"copies", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"cycled_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, 0},
    {"limit", "LIMIT", KT_COLUMN_TEXT, 0, 0},
    {"rate", "RATE", KT_COLUMN_REAL, -1, 0},
    {"unit", "UNIT", KT_COLUMN_TEXT, 0, 0},
    {"way", "WAY", KT_COLUMN_TEXT, 0, 0},
    {"model_layers", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
};

/* Writes the row; returns an exit code. */
static int add_row(struct bench *bench, const struct bench_set *set, const char *type,
                   const struct bench_roofline *limits, uint32_t n_tokens, const struct bench_result *result,
                   double kernel_error, double total_error)
{
    char text[80] = "";
    const struct bench_shape *shape = &bench->shape;
    struct kt_table *table = bench->rows;
    double weight_bytes = result->experts * (double)set->nominal_size;
    double packed_bytes = result->experts * (double)set->packed_size / set->n_experts;
    double numbers = (double)shape->hidden_size * (double)shape->intermediate_size * set->n_matrices;
    double operations = 2 * numbers * result->rows;
    kt_table_row(table);
    kt_table_text(table, "layers", bench->layers != NULL ? bench->layers : "");
    kt_table_text(table, "backend", set->backend);
    kt_table_text(table, "level", set->level);
    kt_table_text(table, "source_type", type);
    if (bench->has_shapes && shape->linear)
        (void)snprintf(text, sizeof text, "%s", shape->name);
    else if (bench->has_shapes)
        (void)snprintf(text, sizeof text, "%" PRIu32 "x%" PRIu64 "x%" PRIu64, set->n_experts,
                       shape->hidden_size, shape->intermediate_size);
    kt_table_text(table, "shape", text);
    kt_table_uint(table, "hidden_size", shape->hidden_size);
    kt_table_uint(table, "intermediate_size", shape->intermediate_size);
    kt_table_uint(table, "n_experts", set->n_experts);
    kt_table_uint(table, "top_k", shape->top_k);
    kt_table_uint(table, "n_tokens", n_tokens);
    kt_table_uint(table, "n_threads", bench->info.n_threads);
    kt_table_real(table, "ms_median", result->median / 1e6);
    kt_table_real(table, "ms_min", result->best / 1e6);
    kt_table_real(table, "ms_max", result->worst / 1e6);
    kt_table_uint(table, "repeats", result->repeats);
    kt_table_real(table, "tokens_per_s", n_tokens / (result->median / 1e9));
    kt_table_uint(table, "weight_bytes", (uint64_t)(weight_bytes + 0.5));
    kt_table_uint(table, "packed_bytes", (uint64_t)(packed_bytes + 0.5));
    kt_table_real(table, "weight_gbps", weight_bytes / result->median);
    kt_table_real(table, "read_gbps", limits->read.rate);
    kt_table_real(table, "tops", operations / result->median / 1e3);
    if (limits->peak.rate > 0)
        kt_table_real(table, "peak_tops", limits->peak.rate / 1e3);
    kt_table_real(table, "roofline_fraction",
                  bench_roofline_time(limits, weight_bytes, operations) / result->median);
    kt_table_real(table, "kernel_error", kernel_error);
    kt_table_real(table, "total_error", total_error);
    kt_table_text(table, "model_layers", bench->layers != NULL ? bench->layers : "");
    kt_table_text(table, "kind", shape->linear ? "linear" : "experts");
    kt_table_text(table, "activation", kt_activation_name(set->activation));
    bench->n_rows++;
    int code = kt_table_flush(table);
    bench->has_ended = code != KT_EXIT_OK;
    return code;
}

static void add_limit(struct bench *bench, const struct bench_set *set, const char *type, const char *name,
                      const struct bench_limit *limit, double scale, const char *unit)
{
    struct kt_table *table = bench->limits;
    const char *layers = bench->layers != NULL ? bench->layers : "";
    kt_table_row(table);
    kt_table_text(table, "layers", bench->has_shapes ? layers : ""); /* else the formats tell them apart */
    kt_table_text(table, "model_layers", layers);
    kt_table_text(table, "backend", set->backend);
    kt_table_text(table, "level", set->level);
    kt_table_text(table, "source_type", type);
    kt_table_uint(table, "copies", set->n_copies);
    kt_table_uint(table, "cycled_bytes", set->packed_size * set->n_copies);
    kt_table_text(table, "limit", name);
    kt_table_real(table, "rate", limit->rate / scale);
    kt_table_text(table, "unit", unit);
    kt_table_text(table, "way", limit->way);
}

/* Runs one batch size; with --record all copies record as layer 0. */
static int time_calls(struct bench *bench, const struct bench_set *set, uint32_t n_tokens,
                      struct bench_result *result)
{
    int code = KT_EXIT_OK;
    for (uint32_t i = 0; i < set->n_copies && set->layers != NULL && code == KT_EXIT_OK; i++)
        code = kt_keeping_begin(&bench->keeping, bench->context, set->layers[i], 0);
    if (code == KT_EXIT_OK)
        code = bench_set_time(bench->cli, set, bench->trace, bench->info.n_threads, &bench->schedule,
                              n_tokens, result);
    for (uint32_t i = 0; i < set->n_copies && set->layers != NULL && code == KT_EXIT_OK; i++)
        code = kt_keeping_end(&bench->keeping, set->layers[i], 0);
    return code;
}

/* Times a batch size, measures the limits again, then the errors, and writes the row. */
static int measure_row(struct bench *bench, const struct bench_set *set, const struct bench_source *source,
                       uint32_t n_tokens, struct bench_roofline *limits)
{
    struct bench_result result;
    double kernel_error, total_error;
    char title[160];
    struct kt_error error;
    (void)snprintf(title, sizeof title, "timing %s with %s, tokens: %" PRIu32, set->backend, source->name,
                   n_tokens);
    kt_progress_show(bench->cli, title);
    int code = time_calls(bench, set, n_tokens, &result);
    if (code != KT_EXIT_OK)
        return code;
    if (bench_roofline_measure(bench->context, limits, &error) != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    kt_progress_clear();
    code = bench_errors(bench->cli, set, bench->trace, source, n_tokens, &kernel_error, &total_error);
    if (code == KT_EXIT_OK)
        code = add_row(bench, set, source->name, limits, n_tokens, &result, kernel_error, total_error);
    return code;
}

static int measure(struct bench *bench, const struct bench_set *set, const struct bench_source *source,
                   struct bench_roofline *limits)
{
    struct kt_error error;
    int code = KT_EXIT_OK;
    kt_progress_show(bench->cli, "measuring the limits of this machine");
    if (bench_roofline_measure(bench->context, limits, &error) != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    for (size_t i = 0; i < bench->n_token_counts && code == KT_EXIT_OK; i++)
        code = measure_row(bench, set, source, (uint32_t)bench->tokens[i], limits);
    if (code != KT_EXIT_OK)
        return code;
    add_limit(bench, set, source->name, "read", &limits->read, 1, "GB/s");
    if (limits->n_loops != 0)
        add_limit(bench, set, source->name, "multiply", &limits->peak, 1e3, "TOPS");
    add_limit(bench, set, source->name, "load",
              &(struct bench_limit){.rate = set->load_rate, .way = "source packed when loaded"}, 1, "GB/s");
    return KT_EXIT_OK;
}

int bench_refuse(const struct bench *bench, const char *backend, const struct bench_source *source)
{
    if (!bench->explicit_backends)
        return KT_EXIT_OK;
    if (bench->layers == NULL)
        return kt_cli_usage(bench->cli, "backend %s does not take %s weights of this shape", backend,
                            source->name);
    (void)kt_cli_error(bench->cli, "layers %s: backend %s does not take %s weights of their shape",
                       bench->layers, backend, source->name);
    return BENCH_REFUSED;
}

static int bench_one(struct bench *bench, const char *backend, const struct bench_source *source)
{
    struct bench_want want = {.backend = backend,
                              .shape = &bench->shape,
                              .source = source,
                              .cycle_size = bench->cycle_size};
    struct bench_set set;
    struct kt_error error;
    for (size_t i = 0; i < bench->n_token_counts; i++)
        if (bench->tokens[i] > want.max_tokens)
            want.max_tokens = (uint32_t)bench->tokens[i];
    int code = bench_set_create(bench->cli, bench->context, &want, &set);
    if (code == BENCH_REFUSED)
        return bench_refuse(bench, backend, source);
    if (code != KT_EXIT_OK)
        return code;
    if (bench->trace != NULL)
        code = bench_trace_fit(bench->cli, bench->trace, bench->tokens, bench->n_token_counts, set.n_experts);
    if (code != KT_EXIT_OK) {
        bench_set_destroy(&set);
        return code;
    }
    struct bench_roofline limits;
    if (bench_roofline_create(bench->cli, bench->info.cpu, &set, &bench->schedule, &limits, &error) != KT_OK)
        code = kt_cli_fail(bench->cli, &error);
    else
        code = measure(bench, &set, source, &limits);
    bench_buffer_destroy(&limits.buffer);
    bench_set_destroy(&set);
    return code;
}

/* Run by bench_each_level. */
struct level_run {
    struct bench *bench;
    const char *backend;
    const struct bench_source *source;
};

static int bench_level(void *data, struct kt_context *context)
{
    const struct level_run *run = data;
    struct kt_context *before = run->bench->context;
    run->bench->context = context;
    int code = (run->bench->loads ? bench_load : bench_one)(run->bench, run->backend, run->source);
    run->bench->context = before;
    return code;
}

int bench_backend(struct bench *bench, const char *backend, const struct bench_source *source)
{
    struct level_run run = {bench, backend, source};
    return bench->levels
               ? bench_each_level(bench->cli, bench->context, backend, bench->tells_levels, bench_level, &run)
               : (bench->loads ? bench_load : bench_one)(bench, backend, source);
}

/* What all rows share stands above them. */
static void add_facts(struct bench *bench)
{
    const struct bench_shape *shape = &bench->shape;
    char text[160];
    bool is_usual = bench->activation == KT_ACTIVATION_SILU; /* or one of a model's layers */
    if (shape->linear)
        (void)snprintf(text, sizeof text, "%s", shape->name);
    else
        (void)snprintf(text, sizeof text,
                       "%" PRIu64 " x %" PRIu64 ", %" PRIu32 " experts, %" PRIu32 " a token%s%s%s%s",
                       shape->hidden_size, shape->intermediate_size, shape->n_experts, shape->top_k,
                       *shape->name != 0 ? ": " : "", shape->name, is_usual ? "" : ", activation ",
                       is_usual ? "" : kt_activation_name(bench->activation));
    kt_output_fact_text(bench->output, "shape", shape->linear ? "linear" : "layer",
                        bench->has_shapes ? "" : text);
    kt_output_fact_uint(bench->output, "threads", "threads", bench->info.n_threads);
}

/* Rows are written before the widest is known: these are the texts that may come. */
static void expect_backends(struct bench *bench)
{
    for (size_t i = 0; i < bench->n_backends; i++) {
        struct kt_backend_info info;
        kt_table_expect(bench->rows, "backend", bench->backends[i]);
        for (size_t c = 0; c < kt_context_backend_count(bench->context); c++) {
            if (kt_context_backend(bench->context, c, &info, NULL) != KT_OK ||
                strcmp(info.name, bench->backends[i]) != 0)
                continue;
            for (const char *name = bench->levels ? info.levels : info.level; *name != 0;) {
                char text[64];
                size_t n = strcspn(name, " ");
                (void)snprintf(text, sizeof text, "%.*s", (int)n, name);
                kt_table_expect(bench->rows, "level", text);
                name += n + strspn(name + n, " ");
            }
        }
    }
}

void bench_begin(struct bench *bench)
{
    bench->output = kt_output_create(bench->cli, bench->loads ? "kt.bench.load" : "kt.bench", 1);
    add_facts(bench);
    if (bench->loads) {
        bench_load_begin(bench);
        return;
    }
    bench->rows = kt_output_table(bench->output, "rows", columns, COUNT(columns));
    bench->limits = kt_output_table(bench->output, "limits", limit_columns, COUNT(limit_columns));
    kt_table_title(bench->limits,
                   "What the machine could do, measured beside the layer; load: what packing did:");
    expect_backends(bench);
    for (size_t i = 0; i < bench->n_types; i++)
        kt_table_expect(bench->rows, "source_type", bench->types[i]->name);
}
