/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - kt tune: finds values of the backends' tunables that are faster on this machine, and keeps them.
 */
#include "tools/kt/bench/options.h"
#include "tools/kt/tune/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *model, *layers, *backend, *shape, *linear, *attention, *cache, *source_type, *tokens, *level;
    uint64_t context, cycle;
    double minutes, min_time;
    bool levels, show, reset;
};

static const struct kt_cli_option options[] = {
    BENCH_MODEL(NULL),
    OPTION_TEXT("backend", 0, backend, "LIST",
                "backends, such as llamafile,bf16, or all (default: all loaded ones except the reference; "
                "for a MODEL, the one that would run each layer)"),
    BENCH_SHAPE,
    OPTION_UINT("context", 0, context, 1, 1 << 20, "N",
                "for --attention: tokens already in the cache (default: 4096)"),
    OPTION_TEXT("cache", 0, cache, "LIST",
                "for --attention: data types of the cache: bf16, q8_0, f32 (default: bf16)"),
    OPTION_TEXT("tokens", 0, tokens, "LIST",
                "numbers of tokens per call to optimize for, with equal "
                "weight (default: 1,8,32,128)"),
    OPTION_REAL("minutes", 0, minutes, "N",
                "time limit for each backend and format, without packing (default: 5)"),
    OPTION_REAL("min-time", 0, min_time, "SECONDS",
                "length of a burst of calls; two bursts are a pair (default: 0.02)"),
    KT_CLI_THREADS,
    KT_CLI_NUMA_NODES,
    OPTION_FLAG("levels", 0, levels,
                "tune the backends in --backend at every level that this CPU supports, and keep the "
                "fastest level"),
    OPTION_FLAG("show", 0, show, "list all tunables and the values in effect, without measuring"),
    OPTION_FLAG("reset", 0, reset, "remove the file with the values"),
    {.name = NULL},
};

const struct kt_cli_command kt_tune_command = {
    .usage = "[MODEL] [OPTION]...\n"
             "--show\n"
             "--reset",
    .about = "Finds values of a backend's tunables, such as prefetch distances, that are faster on this "
             "machine, and writes them to tuned.ini in the folder of kt.ini, where every program reads "
             "them. Values are only kept if they are not slower for any number of tokens and faster on "
             "the whole, based on at least 9 pairs of measurements with 95 % confidence. If other "
             "programs use the machine, the defaults are kept.",
    .options = options,
    .opens_checkpoint = true,
};

static const struct kt_column columns[] = {
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_RARE | KT_COLUMN_LIST},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(9)},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"source_type", "TYPE", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(4)},
    {"kind", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"heads", "HEADS", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"hidden_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"intermediate_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_threads", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"n_candidates", "TRIED", KT_COLUMN_UINT, 0, 0},
    {"verdict", "RESULT", KT_COLUMN_TEXT, 0, KT_COLUMN_WIDTH(8)},
    {"gain", "GAIN", KT_COLUMN_REAL, 3, 0},
    {"gain_low", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"gain_high", NULL, KT_COLUMN_REAL, 3, KT_COLUMN_HIDDEN},
    {"gains", "BY TOKENS", KT_COLUMN_TEXT, 0, KT_COLUMN_LIST},
    {"values", "VALUES", KT_COLUMN_TEXT, 0, KT_COLUMN_LIST},
    {"n_pairs", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
};

/* ---- a row ---------------------------------------------------------------------------------- */

static const char *const verdicts[] = {
    [TUNE_STANDARD] = "standard", [TUNE_FASTER] = "tuned",  [TUNE_NOISY] = "noisy",
    [TUNE_NO_TIME] = "no time",   [TUNE_FAILED] = "failed",
};

/* "prefetch_bytes 2048 (1024)": the values that are not standards. */
static void list_values(const struct tune_space *space, const struct tune_measure *measure,
                        const struct tune_result *result, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (size_t k = 0; k < space->n_knobs && used < size; k++)
        if (result->values.value[k] != space->knob[k].standard)
            used += (size_t)snprintf(text + used, size - used, "%s%s %" PRIu64 " (%" PRIu64 ")",
                                     used ? ", " : "", tune_measure_knob(measure, k)->name,
                                     result->values.value[k], space->knob[k].standard);
}

/* "1: 1.08, 8: 1.05" */
static void list_gains(const struct bench *bench, const struct tune_result *result, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (size_t p = 0; p < bench->n_token_counts && used < size && result->all.n > 0; p++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64 ": %.3f", used ? ", " : "",
                                 bench->tokens[p], result->point[p].median);
}

/* The fields that all rows have. */
static void begin_row(struct tuning *tuning, const char *backend, const char *level, const char *type,
                      const struct tune_result *result)
{
    struct bench *bench = &tuning->bench;
    const struct bench_shape *shape = &bench->shape;
    struct kt_table *table = bench->rows;
    char text[512];
    kt_table_row(table);
    kt_table_text(table, "layers", bench->layers != NULL ? bench->layers : "");
    kt_table_text(table, "backend", backend);
    kt_table_text(table, "level", level);
    kt_table_text(table, "source_type", type);
    kt_table_text(table, "kind", tuning->heads ? "attention" : shape->linear ? "linear" : "experts");
    if (tuning->heads) {
        kt_table_text(table, "heads", tuning->heads);
    } else {
        kt_table_uint(table, "hidden_size", shape->hidden_size);
        kt_table_uint(table, "intermediate_size", shape->intermediate_size);
    }
    kt_table_uint(table, "n_threads", bench->info.n_threads);
    kt_table_uint(table, "n_candidates", result->n_tried);
    if (result->all.n > 0) {
        kt_table_real(table, "gain", result->all.median);
        kt_table_real(table, "gain_low", result->all.low);
        kt_table_real(table, "gain_high", result->all.high);
    }
    list_gains(bench, result, text, sizeof text);
    kt_table_text(table, "gains", text);
    kt_table_uint(table, "n_pairs", result->all.n);
    bench->n_rows++;
}

static void add_row(struct tuning *tuning, const struct tune_subject *subject, const struct tune_space *space,
                    const struct tune_measure *measure, const struct tune_result *result)
{
    struct kt_table *table = tuning->bench.rows;
    char text[512];
    begin_row(tuning, subject->backend, subject->level, subject->format, result);
    kt_table_text(table, "verdict", space->n_knobs == 0 ? "nothing" : verdicts[result->verdict]);
    list_values(space, measure, result, text, sizeof text);
    kt_table_text(table, "values", text);
}

void tune_add_level(struct tuning *tuning, const char *backend, const char *const level[2], const char *type,
                    const struct tune_result *result)
{
    struct kt_table *table = tuning->bench.rows;
    char text[64];
    begin_row(tuning, backend, level[1], type, result);
    kt_table_text(table, "verdict", result->verdict == TUNE_FASTER ? "faster" : verdicts[result->verdict]);
    (void)snprintf(text, sizeof text, "compared with %s", level[0]);
    kt_table_text(table, "values", text);
}

/* ---- one backend and format ----------------------------------------------------------------- */

static int keep(struct bench *bench, const struct tune_space *space, const struct tune_measure *measure,
                const struct tune_result *result)
{
    struct tune_found found = {.n_knobs = space->n_knobs,
                               .result = result,
                               .tokens = bench->tokens,
                               .n_points = bench->n_token_counts,
                               .n_threads = bench->info.n_threads};
    for (size_t k = 0; k < space->n_knobs; k++)
        found.knob[k] = tune_measure_knob(measure, k);
    return tune_file_put(bench->cli, &bench->info, &found);
}

int tune_subject(struct tuning *tuning, const struct tune_subject *subject)
{
    struct bench *bench = &tuning->bench;
    struct tune_space space;
    struct tune_result result = {.verdict = TUNE_STANDARD};
    const double burst_time = bench->schedule.min_time * 1e9, time = tuning->seconds * 1e9;
    struct tune_measure *measure = tune_measure_create(bench->cli, subject, bench->n_token_counts, false,
                                                       burst_time, bench_now() + time);
    if (!measure)
        return KT_EXIT_PROBLEM;
    char *title = kt_cli_format(bench->cli, "tuning %s at %s with %s", subject->backend, subject->level,
                                subject->format);
    kt_progress_show(bench->cli, title);
    free(title);
    tune_measure_space(measure, &space);
    if (space.n_knobs > 0)
        tune_search(&space, &result);
    int code = result.verdict == TUNE_FAILED ? KT_EXIT_PROBLEM : KT_EXIT_OK;
    kt_progress_clear();
    /* Without time or quiet, what an earlier run found stays. */
    if (result.verdict == TUNE_FASTER || (result.verdict == TUNE_STANDARD && space.n_knobs > 0))
        code = keep(bench, &space, measure, &result);
    if (code == KT_EXIT_OK)
        add_row(tuning, subject, &space, measure, &result);
    if (result.verdict == TUNE_NOISY)
        kt_cli_warn(bench->cli,
                    "%s, %s: candidates have no stable order, the values stay: something else "
                    "runs on this machine",
                    subject->backend, subject->format);
    tune_measure_destroy(measure);
    return code;
}

int tune_set(struct tuning *tuning, const struct bench_set *set, const char *type)
{
    const struct bench *bench = &tuning->bench;
    struct tune_subject subject;
    tune_weights_create(bench->cli, set, type, bench->tokens, bench->n_token_counts, &subject);
    int code = tune_subject(tuning, &subject);
    tune_weights_destroy(&subject);
    return code;
}

int tune_make_set(struct bench *bench, const char *backend, const struct bench_source *source,
                  struct bench_set *set)
{
    struct bench_want want = {.backend = backend,
                              .shape = &bench->shape,
                              .source = source,
                              .cycle_size = bench->cycle_size};
    for (size_t i = 0; i < bench->n_token_counts; i++)
        if (bench->tokens[i] > want.max_tokens)
            want.max_tokens = (uint32_t)bench->tokens[i];
    return bench_set_create(bench->cli, bench->context, &want, set);
}

/* Run for each source type on each backend. */
static int tune_backend(struct bench *bench, const char *backend, const struct bench_source *source)
{
    struct tuning *tuning = (struct tuning *)bench;
    struct bench_set set;
    int code =
        tuning->levels ? tune_levels(tuning, backend, source) : tune_make_set(bench, backend, source, &set);
    if (code == BENCH_REFUSED && !bench->explicit_backends)
        return KT_EXIT_OK;
    if (code == BENCH_REFUSED)
        return kt_cli_usage(bench->cli, "backend %s does not take %s weights of this shape", backend,
                            source->name);
    if (code != KT_EXIT_OK || tuning->levels)
        return code;
    code = tune_set(tuning, &set, source->name);
    bench_set_destroy(&set);
    return code;
}

/* The level of each backend whose levels were compared. */
static int keep_levels(const struct tuning *tuning)
{
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < tuning->n_choices && code == KT_EXIT_OK; i++)
        code = tune_file_level(tuning->bench.cli, &tuning->bench.info, tuning->choices[i].backend,
                               tuning->choices[i].level);
    return code;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int run(struct bench *bench, const struct bench_model *model)
{
    bench->output = kt_output_create(bench->cli, "kt.tune", 1);
    kt_output_fact_uint(bench->output, "threads", "threads", bench->info.n_threads);
    bench->rows = kt_output_table(bench->output, "rows", columns, COUNT(columns));
    struct tuning *tuning = (struct tuning *)bench;
    int code = tuning->attention.shapes    ? tune_attention(tuning)
               : model->checkpoint != NULL ? bench_model_run(bench, model)
               : bench->n_linears != 0     ? bench_run_linears(bench)
                                           : bench_run_types(bench);
    if (code == KT_EXIT_OK)
        code = keep_levels(tuning);
    if (code == KT_EXIT_OK && bench->n_rows == 0)
        code = kt_cli_usage(bench->cli, "no backend takes such weights");
    if (bench->n_rows != 0)
        return kt_output_finish(bench->output, code);
    kt_output_free(bench->output);
    return code;
}

/* What belongs to --attention, and what does not. */
static int check_attention(struct kt_cli *cli, const struct args *args)
{
    bool other =
        args->model || args->layers || args->shape || args->linear || args->source_type || args->levels;
    if (args->attention == NULL && (args->context || args->cache))
        return kt_cli_usage(cli, "%s is for --attention", args->context ? "--context" : "--cache");
    if (args->attention != NULL && other)
        return kt_cli_usage(cli,
                            "--attention %s goes with --context, --cache, --tokens, --backend, --level, "
                            "--minutes, --min-time, --threads and --cycle only",
                            args->attention);
    return KT_EXIT_OK;
}

static int check_args(struct kt_cli *cli, const struct args *args)
{
    bool measures = args->model || args->layers || args->backend || args->shape || args->linear ||
                    args->attention || args->context || args->cache || args->source_type || args->tokens ||
                    args->level || args->levels;
    if (args->show && args->reset)
        return kt_cli_usage(cli, "--show and --reset are different things to do");
    if ((args->show || args->reset) && measures)
        return kt_cli_usage(cli, "--show and --reset go with no MODEL and no other option of kt tune");
    if (args->layers != NULL && args->model == NULL)
        return kt_cli_usage(cli, "--layers: say of which model: kt tune MODEL --layers %s", args->layers);
    if (args->model != NULL && (args->shape != NULL || args->source_type != NULL || args->linear != NULL))
        return kt_cli_usage(cli,
                            "--shape, --linear and --source-type are for weights out of random numbers; "
                            "%s has its own",
                            args->model);
    if (args->levels && (args->level != NULL || args->backend == NULL || strcmp(args->backend, "all") == 0))
        return kt_cli_usage(cli, "--levels: say of which backend, by --backend, without --level");
    if (args->linear != NULL && args->shape != NULL)
        return kt_cli_usage(cli, "--linear %s goes with no --shape", args->linear);
    return check_attention(cli, args);
}

static int tune(struct tuning *tuning, const struct args *args)
{
    struct bench *bench = &tuning->bench;
    struct bench_model model = {.checkpoint = NULL};
    const struct bench_request request = {.model = args->model,
                                          .layers = args->layers,
                                          .shape = args->shape,
                                          .linear = args->linear,
                                          .tokens = args->tokens ? args->tokens : "1,8,32,128",
                                          .source_type = args->source_type,
                                          .backend = args->backend,
                                          .level = args->level,
                                          .most = TUNE_MAX_POINTS};
    int code = bench_choose(bench, &request, &model);
    if (code == KT_EXIT_OK && !args->attention)
        code = bench_find_backends(bench, args->backend != NULL);
    if (code == KT_EXIT_OK)
        code = run(bench, &model);
    bench_end(bench, &model);
    return code;
}

int kt_cmd_tune(struct kt_cli *cli, int argc, char **argv)
{
    /* Bursts are long enough for the clock, the drawn routing and a wake-up not to matter. */
    struct args args = {.minutes = 5, .min_time = 0.02};
    if (!kt_cli_parse(cli, &kt_tune_command, argc, argv, &args))
        return cli->exit_code;
    if (args.backend != NULL && strcmp(args.backend, "auto") == 0)
        args.backend = NULL;
    int code = check_args(cli, &args);
    if (code != KT_EXIT_OK)
        return code;
    if (args.show)
        return tune_show(cli);
    if (args.reset)
        return tune_reset(cli);
    struct tuning tuning = {.bench = {.cli = cli,
                                      .run = tune_backend,
                                      .asks_plan = args.model != NULL && args.backend == NULL,
                                      .cycle_size = args.cycle << 20,
                                      .schedule = {.min_time = args.min_time}},
                            .seconds = args.minutes * 60,
                            .levels = args.levels,
                            .attention = {.shapes = args.attention,
                                          .caches = args.cache ? args.cache : "bf16",
                                          .context = args.context ? args.context : 4096}};
    return tune(&tuning, &args);
}
