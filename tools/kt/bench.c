/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - kt bench: how fast a layer runs, as a fraction of what this machine could do. */
#include "tools/kt/bench.h"
#include "tools/kt/record.h"
#include "tools/kt/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_TOKEN_COUNTS 64
#define MAX_NAMES 32

struct args {
    const char *backend, *shape, *source_type, *tokens, *level, *trace, *record;
    uint64_t repeats, runs, cycle, record_size;
    double min_time;
    bool levels, dispatch, latency, limits;
};

static const struct kt_cli_option options[] = {
    {.name = "backend",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, backend),
     .argument = "LIST",
     .help = "backends, \"llamafile,reference\", or all (default: every loaded "
             "one but the reference)"},
    {.name = "shape",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, shape),
     .argument = "NAME",
     .help = "qwen3-30b-a3b (default), deepseek-v3, mixtral-8x7b, kimi-k2, or "
             "H,I,E,K: hidden size, intermediate size, experts, experts a token"},
    {.name = "source-type",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, source_type),
     .argument = "LIST",
     .help = "weight formats such as q4_k,q8_0 (default: the backend's usual one)"},
    {.name = "tokens",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, tokens),
     .argument = "LIST",
     .help = "tokens of a call, such as 1,8,32 (default: 1, or all sizes of the trace's batches)"},
    {.name = "trace",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, trace),
     .argument = "FILE",
     .help = "routing, router weights and hidden states of this trace, not drawn ones"},
    {.name = "record",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, record),
     .argument = "FILE",
     .help = "write the batches that are timed to this trace"},
    {.name = "record-size",
     .type = KT_CLI_UINT,
     .offset = offsetof(struct args, record_size),
     .argument = "MIB",
     .minimum = 1,
     .maximum = 1 << 20,
     .help = "buffer of --record, in MiB; what does not fit is left out (default: 64)"},
    KT_CLI_THREADS,
    KT_CLI_NUMA_NODES,
    {.name = "level",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, level),
     .argument = "NAME",
     .help = "level that the backends named by --backend must take, such as avx2"},
    {.name = "levels",
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, levels),
     .help = "a row for every level that this CPU can run of the backends named by --backend"},
    {.name = "runs",
     .type = KT_CLI_UINT,
     .offset = offsetof(struct args, runs),
     .argument = "N",
     .minimum = 1,
     .maximum = 1000,
     .help = "runs; the one with the smallest median counts (default: 3)"},
    {.name = "repeats",
     .type = KT_CLI_UINT,
     .offset = offsetof(struct args, repeats),
     .argument = "N",
     .minimum = 1,
     .maximum = 10000000,
     .help = "calls of a run (default: as many as --min-time takes)"},
    {.name = "min-time",
     .type = KT_CLI_REAL,
     .offset = offsetof(struct args, min_time),
     .argument = "SECONDS",
     .help = "length of a run, at least 5 calls (default: 1)"},
    {.name = "cycle",
     .type = KT_CLI_UINT,
     .offset = offsetof(struct args, cycle),
     .argument = "MIB",
     .minimum = 2,
     .maximum = 1 << 24,
     .help = "weights to cycle over, in MiB (default: 1536 or three times the last-level cache)"},
    {.name = "dispatch",
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, dispatch),
     .help = "measure starting the threads and their idling instead of a layer"},
    {.name = "latency",
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, latency),
     .help = "measure how long submitted work waits before all threads are at it"},
    {.name = "limits",
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, limits),
     .help = "measure every way of reading and every multiply instruction instead of a layer"},
    {.name = NULL},
};

static const struct kt_cli_command command = {
    .usage = "[--backend LIST] [--shape NAME|H,I,E,K] [--source-type LIST] [--tokens LIST] "
             "[--trace FILE] [--threads N]",
    .about = "Runs a layer whose weights come from memory, and says how near that is to the limits "
             "measured in the same run on the same threads: the machine's read bandwidth and the "
             "peak of the multiply instruction that the backend uses. roofline_fraction is the time "
             "that these limits allow, divided by the time that the layer took.",
    .options = options,
    .opens_checkpoint = true,
};

static const struct kt_column columns[] = {
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"source_type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"hidden_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"intermediate_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_experts", "EXPERTS", KT_COLUMN_UINT, 0, 0},
    {"top_k", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
    {"n_threads", "THREADS", KT_COLUMN_UINT, 0, 0},
    {"ms_median", "MS", KT_COLUMN_REAL, 3, 0},
    {"ms_min", "MIN", KT_COLUMN_REAL, 3, 0},
    {"ms_max", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"repeats", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"tokens_per_s", "TOKENS/s", KT_COLUMN_REAL, 1, 0},
    {"weight_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"packed_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"weight_gbps", "GB/s", KT_COLUMN_REAL, 2, 0},
    {"read_gbps", "OF", KT_COLUMN_REAL, 2, 0},
    {"tops", "TOPS", KT_COLUMN_REAL, 3, 0},
    {"peak_tops", "OF", KT_COLUMN_REAL, 3, 0},
    {"roofline_fraction", "ROOFLINE", KT_COLUMN_REAL, 3, 0},
    {"kernel_error", "KERNEL ERR", KT_COLUMN_REAL, -1, 0},
    {"total_error", "TOTAL ERR", KT_COLUMN_REAL, -1, 0},
};

static const struct kt_column limit_columns[] = {
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"source_type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"copies", "COPIES", KT_COLUMN_UINT, 0, 0},
    {"cycled_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, 0},
    {"limit", "LIMIT", KT_COLUMN_TEXT, 0, 0},
    {"rate", "RATE", KT_COLUMN_REAL, -1, 0},
    {"unit", "UNIT", KT_COLUMN_TEXT, 0, 0},
    {"way", "WAY", KT_COLUMN_TEXT, 0, 0},
};

/* The command line's requests, checked. */
struct bench {
    struct kt_cli *cli;
    struct kt_context *context;
    struct kt_context_info info;
    struct bench_shape shape;
    struct bench_schedule schedule;
    uint64_t cycle_size;
    uint64_t tokens[MAX_TOKEN_COUNTS];
    size_t n_token_counts;
    const struct bench_source_type *types[MAX_NAMES]; /* none: the backend's usual one */
    size_t n_types;
    const char *backends[MAX_NAMES];
    size_t n_backends;
    bool explicit_backends, levels;
    char *names;               /* the text that `backends` points into */
    struct bench_trace *trace; /* NULL: calls are drawn */
    struct kt_keeping keeping;
    struct kt_table *rows, *limits;
    size_t n_rows;
};

/* ---- the command line ---- */

static int choose_tokens(struct bench *bench, const char *text)
{
    if (text == NULL)
        return KT_EXIT_OK;
    size_t n = kt_cli_list(bench->cli, "tokens", text, bench->tokens, MAX_TOKEN_COUNTS);
    for (size_t i = 0; i < n; i++)
        if (bench->tokens[i] < 1 || bench->tokens[i] > 65536)
            return kt_cli_usage(bench->cli, "--tokens %s: a call has 1 to 65536 tokens", text);
    bench->n_token_counts = n;
    return n != 0 ? KT_EXIT_OK : KT_EXIT_USAGE;
}

/* Splits "a,b" in place; the count, or 0 if a name is empty or there are too many. */
static size_t split(char *text, const char **names, size_t max)
{
    size_t n = 0;
    for (char *rest = text, *name; (name = strsep(&rest, ",")) != NULL;) {
        if (*name == 0 || n == max)
            return 0;
        names[n++] = name;
    }
    return n;
}

static int choose_types(struct bench *bench, const char *text)
{
    const char *names[MAX_NAMES];
    if (text == NULL)
        return KT_EXIT_OK;
    char *copy = kt_cli_format(bench->cli, "%s", text);
    size_t n = split(copy, names, MAX_NAMES);
    int code = n != 0 ? KT_EXIT_OK
                      : kt_cli_usage(bench->cli,
                                     "--source-type %s: names such as "
                                     "q4_k,q8_0 are needed",
                                     text);
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++) {
        bench->types[i] = bench_source_find(names[i]);
        if (bench->types[i] == NULL)
            code = kt_cli_usage(bench->cli, "--source-type %s is not known; types are %s", names[i],
                                bench_source_names());
    }
    bench->n_types = n;
    free(copy);
    return code;
}

/* Reads the names of --backend, and turns --level into a setting of each. */
static int choose_backends(struct bench *bench, const char *text, const char *level)
{
    bench->explicit_backends = text != NULL && strcmp(text, "all") != 0;
    if (!bench->explicit_backends)
        return level == NULL
                   ? KT_EXIT_OK
                   : kt_cli_usage(bench->cli, "--level %s: say of which backend, by --backend", level);
    bench->names = kt_cli_format(bench->cli, "%s", text);
    bench->n_backends = split(bench->names, bench->backends, MAX_NAMES);
    if (bench->n_backends == 0)
        return kt_cli_usage(bench->cli,
                            "--backend %s: names such as llamafile,reference, or all, are "
                            "needed",
                            text);
    for (size_t i = 0; i < bench->n_backends; i++) {
        bench->backends[i] = kt_cli_backend(bench->cli, "backend", bench->backends[i]);
        if (bench->backends[i] == NULL)
            return KT_EXIT_USAGE;
    }
    for (size_t i = 0; i < bench->n_backends && level != NULL; i++)
        kt_cli_set(bench->cli, "plugin.%s.level=%s", bench->backends[i], level);
    return KT_EXIT_OK;
}

/* ---- backends ---- */

static int check_backend(const struct bench *bench, const char *name)
{
    static const char *const states[] = {"loaded", "disabled", "unfit", "refused", "failed"};
    const char *known[MAX_NAMES];
    size_t n_known = 0;
    for (size_t i = 0; i < kt_context_backend_count(bench->context); i++) {
        struct kt_backend_info info;
        if (kt_context_backend(bench->context, i, &info, NULL) != KT_OK)
            continue;
        if (n_known < MAX_NAMES)
            known[n_known++] = info.name;
        if (strcmp(info.name, name) != 0)
            continue;
        if (info.state == KT_BACKEND_LOADED)
            return KT_EXIT_OK;
        return kt_cli_usage(bench->cli, "backend %s is %s: %s", name,
                            (size_t)info.state < COUNT(states) ? states[info.state] : "not loaded",
                            info.reason);
    }
    const char *near = kt_cli_nearest(name, known, n_known);
    return kt_cli_usage(bench->cli, "no backend %s is configured%s%s%s; `kt backends` lists them", name,
                        near != NULL ? ", did you mean " : "", near != NULL ? near : "",
                        near != NULL ? "?" : "");
}

static int find_backends(struct bench *bench, bool with_reference)
{
    for (size_t i = 0; bench->explicit_backends && i < bench->n_backends; i++) {
        int code = check_backend(bench, bench->backends[i]);
        if (code != KT_EXIT_OK)
            return code;
    }
    for (size_t i = 0; !bench->explicit_backends && i < kt_context_backend_count(bench->context); i++) {
        struct kt_backend_info info;
        if (kt_context_backend(bench->context, i, &info, NULL) != KT_OK || info.state != KT_BACKEND_LOADED ||
            bench->n_backends == MAX_NAMES)
            continue;
        if (with_reference || strcmp(info.name, "reference") != 0)
            bench->backends[bench->n_backends++] = info.name;
    }
    return bench->n_backends != 0
               ? KT_EXIT_OK
               : kt_cli_usage(bench->cli, "no backend but the reference is loaded "
                                          "(`kt backends` says why): name it by --backend");
}

/* ---- measuring ---- */

static void add_row(struct bench *bench, const struct bench_set *set, const char *type,
                    const struct bench_roofline *limits, uint32_t n_tokens, const struct bench_result *result,
                    double kernel_error, double total_error)
{
    const struct bench_shape *shape = &bench->shape;
    struct kt_table *table = bench->rows;
    double weight_bytes = result->experts * (double)set->nominal_size;
    double packed_bytes = result->experts * (double)set->packed_size / set->n_experts;
    double operations = 6.0 * (double)shape->hidden_size * (double)shape->intermediate_size * result->rows;
    kt_table_row(table);
    kt_table_text(table, "backend", set->backend);
    kt_table_text(table, "level", set->level);
    kt_table_text(table, "source_type", type);
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
    bench->n_rows++;
}

static void add_limit(struct bench *bench, const struct bench_set *set, const char *type, const char *name,
                      const struct bench_limit *limit, double scale, const char *unit)
{
    struct kt_table *table = bench->limits;
    kt_table_row(table);
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

/* Runs every batch size; with --record all copies record as layer 0. */
static int time_calls(struct bench *bench, const struct bench_set *set, struct bench_result *results)
{
    int code = KT_EXIT_OK;
    for (uint32_t i = 0; i < set->n_copies && code == KT_EXIT_OK; i++)
        code = kt_keeping_begin(&bench->keeping, bench->context, set->layers[i], 0);
    for (size_t i = 0; i < bench->n_token_counts && code == KT_EXIT_OK; i++)
        code = bench_set_time(bench->cli, set, bench->trace, bench->info.n_threads, &bench->schedule,
                              (uint32_t)bench->tokens[i], &results[i]);
    for (uint32_t i = 0; i < set->n_copies && code == KT_EXIT_OK; i++)
        code = kt_keeping_end(&bench->keeping, set->layers[i], 0);
    return code;
}

/* Measures limits, every batch size and limits again, then the errors, while nothing is timed. */
static int measure(struct bench *bench, const struct bench_set *set, const struct bench_source *source,
                   struct bench_roofline *limits)
{
    struct bench_result results[MAX_TOKEN_COUNTS];
    const char *type = source->type->name;
    struct kt_error error;
    if (bench_roofline_measure(bench->context, limits, &error) != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    int code = time_calls(bench, set, results);
    if (code != KT_EXIT_OK)
        return code;
    if (bench_roofline_measure(bench->context, limits, &error) != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    add_limit(bench, set, type, "read", &limits->read, 1, "GB/s");
    if (limits->n_loops != 0)
        add_limit(bench, set, type, "multiply", &limits->peak, 1e3, "TOPS");
    add_limit(bench, set, type, "load",
              &(struct bench_limit){.rate = set->load_rate, .way = "source packed when loaded"}, 1, "GB/s");
    for (size_t i = 0; i < bench->n_token_counts && code == KT_EXIT_OK; i++) {
        double kernel_error, total_error;
        code = bench_errors(bench->cli, set, bench->trace, source, (uint32_t)bench->tokens[i], &kernel_error,
                            &total_error);
        if (code == KT_EXIT_OK)
            add_row(bench, set, type, limits, (uint32_t)bench->tokens[i], &results[i], kernel_error,
                    total_error);
    }
    return code;
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
        return bench->explicit_backends
                   ? kt_cli_usage(bench->cli, "backend %s does not take %s weights of this shape", backend,
                                  source->type->name)
                   : KT_EXIT_OK;
    if (code != KT_EXIT_OK)
        return code;
    if (bench->trace != NULL)
        code = bench_trace_fit(bench->cli, bench->trace, bench->tokens, bench->n_token_counts, set.n_experts);
    if (code != KT_EXIT_OK) {
        bench_set_destroy(&set);
        return code;
    }
    struct bench_roofline limits;
    if (bench_roofline_create(bench->cli, bench->info.cpu, &set, &limits, &error) != KT_OK)
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
    int code = bench_one(run->bench, run->backend, run->source);
    run->bench->context = before;
    return code;
}

static int bench_type(struct bench *bench, const char *backend, const struct bench_source_type *type)
{
    const struct bench_shape *shape = &bench->shape;
    struct bench_source source;
    struct kt_error error;
    uint32_t n_distinct;
    char need[24];
    uint64_t size =
        bench_source_size(type, shape->hidden_size, shape->intermediate_size, shape->n_experts, &n_distinct);
    uint64_t available = bench_memory_available();
    if (size == 0)
        return kt_cli_usage(bench->cli,
                            "hidden size %" PRIu64 " or intermediate size %" PRIu64
                            " is not a whole number of blocks of %s",
                            shape->hidden_size, shape->intermediate_size, type->name);
    if (available != 0 && size > available / 2)
        return kt_cli_error(bench->cli, "the source weights need %s of memory: take a smaller shape",
                            kt_bytes_text(size, need, sizeof need));
    kt_progress_start(bench->cli, "making weights");
    enum kt_status status = bench_source_create(type, shape->hidden_size, shape->intermediate_size,
                                                shape->n_experts, &source, &error);
    kt_progress_stop();
    if (status != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    struct level_run run = {bench, backend, &source};
    int code = bench->levels ? bench_each_level(bench->cli, bench->context, backend, bench_level, &run)
                             : bench_one(bench, backend, &source);
    bench_source_destroy(&source);
    return code;
}

static const char *find_formats(const struct kt_context *context, const char *backend)
{
    struct kt_backend_info info;
    struct kt_error error;
    for (size_t i = 0; i < kt_context_backend_count(context); i++)
        if (kt_context_backend(context, i, &info, &error) == KT_OK && strcmp(info.name, backend) == 0)
            return info.formats;
    return "";
}

static int bench_all(struct bench *bench)
{
    struct kt_output *output = kt_output_create(bench->cli, "kt.bench", 1);
    bench->rows = kt_output_table(output, "rows", columns, COUNT(columns));
    bench->limits = kt_output_table(output, "limits", limit_columns, COUNT(limit_columns));
    kt_table_title(bench->limits,
                   "What the machine could do, measured beside the layer; load: what packing did:");
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < bench->n_backends && code == KT_EXIT_OK; i++) {
        const char *backend = bench->backends[i];
        if (bench->n_types == 0)
            code = bench_type(bench, backend, bench_source_usual(find_formats(bench->context, backend)));
        for (size_t t = 0; t < bench->n_types && code == KT_EXIT_OK; t++)
            code = bench_type(bench, backend, bench->types[t]);
    }
    if (code == KT_EXIT_OK && bench->n_rows != 0)
        code = kt_keeping_write(&bench->keeping);
    if (code == KT_EXIT_OK && bench->n_rows == 0)
        code = kt_cli_usage(bench->cli, "no backend takes such weights");
    if (bench->n_rows != 0)
        return kt_output_finish(output, code);
    kt_output_free(output);
    return code;
}

int kt_cmd_bench(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.shape = "qwen3-30b-a3b", .runs = 3, .min_time = 1.0, .record_size = 64};
    struct bench_trace trace = {.n_layers = 0};
    if (!kt_cli_parse(cli, &command, argc, argv, &args))
        return cli->exit_code;
    if (args.tokens == NULL && args.trace == NULL)
        args.tokens = "1";
    struct bench bench = {.cli = cli,
                          .levels = args.levels,
                          .trace = args.trace != NULL ? &trace : NULL,
                          .keeping = {.cli = cli,
                                      .record_path = args.record,
                                      .record_size = args.record_size << 20},
                          .cycle_size = args.cycle << 20,
                          .schedule = {args.repeats, args.runs, args.min_time}};
    if (args.dispatch + args.latency + args.limits > 1)
        return kt_cli_usage(cli, "--dispatch, --latency and --limits are different measurements");
    if (args.levels &&
        (args.level != NULL || args.record != NULL || args.dispatch || args.latency || args.limits))
        return kt_cli_usage(cli,
                            "--levels goes with none of --level, --record, --dispatch, --latency, --limits");
    if (args.levels && (args.backend == NULL || strcmp(args.backend, "all") == 0))
        return kt_cli_usage(cli, "--levels: say of which backend, by --backend");
    if (args.dispatch)
        return bench_dispatch(cli);
    if (args.latency)
        return bench_latency(cli);
    if (args.limits)
        return bench_limits(cli, args.cycle != 0 ? bench.cycle_size : bench_cycle_size());
    int code = bench_shape_choose(cli, args.shape, &bench.shape);
    if (code == KT_EXIT_OK)
        code = choose_tokens(&bench, args.tokens);
    if (code == KT_EXIT_OK && args.trace != NULL)
        code = bench_trace_choose(cli, args.trace, &trace, &bench.shape, bench.tokens, MAX_TOKEN_COUNTS,
                                  &bench.n_token_counts);
    if (code == KT_EXIT_OK)
        code = choose_types(&bench, args.source_type);
    if (code == KT_EXIT_OK)
        code = choose_backends(&bench, args.backend, args.level);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(cli, &bench.context);
    if (code == KT_EXIT_OK) {
        kt_context_info(bench.context, &bench.info);
        code = find_backends(&bench, args.backend != NULL);
        if (code == KT_EXIT_OK)
            code = bench_all(&bench);
        kt_keeping_free(&bench.keeping);
        kt_context_destroy(bench.context);
    }
    bench_trace_close(&trace);
    free(bench.names);
    return code;
}
