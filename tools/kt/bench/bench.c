/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - kt bench: how fast a layer runs, as a fraction of what this machine could do. */
#include "tools/kt/bench/run.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct args {
    const char *model, *layers, *backend, *shape, *linear, *attention, *context, *sequences, *cache,
        *source_type, *tokens, *level, *trace, *record, *runtime, *text, *prompts, *answers, *depths;
    uint64_t repeats, runs, cycle, record_size;
    double min_time;
    bool levels, load, dispatch, latency, limits, stream;
};

static const struct kt_cli_option options[] = {
    {.name = "model",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, model),
     .argument = "MODEL",
     .hidden = true,
     .is_argument = true,
     .is_optional = true},
    KT_CLI_LAYERS_OF("of the MODEL: 3, 0-3, 0,2 or all (default)"),
    {.name = "backend",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, backend),
     .argument = "LIST",
     .help = "backends, \"llamafile,reference\", or all (default: every loaded "
             "one but the reference; of a MODEL's layers: the one that would run them)"},
    {.name = "shape",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, shape),
     .argument = "NAME",
     .help = "qwen3-30b-a3b (default), deepseek-v3, mixtral-8x7b, kimi-k2, or "
             "H,I,E,K: hidden size, intermediate size, experts, experts a token"},
    BENCH_LINEAR,
    BENCH_ATTENTION,
    {.name = "context",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, context),
     .argument = "LIST",
     .help = "of --attention: tokens before those of a call (default: 4096)"},
    {.name = "sequences",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, sequences),
     .argument = "LIST",
     .help = "of --attention: sequences of a call, each with --tokens tokens (default: 1)"},
    {.name = "cache",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, cache),
     .argument = "LIST",
     .help = "of --attention: forms of the cache, bf16, q8_0, f32 (default: bf16)"},
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
    {.name = "n-prompt",
     .letter = 'p',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, prompts),
     .argument = "LIST",
     .help = "the whole MODEL instead of its experts: it reads prompts of so many tokens"},
    {.name = "n-gen",
     .letter = 'n',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, answers),
     .argument = "LIST",
     .help = "likewise: it writes so many tokens"},
    {.name = "n-depth",
     .letter = 'd',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, depths),
     .argument = "LIST",
     .help = "likewise: so many tokens stand before them; see kt bench MODEL -n 128 --help"},
    {.name = "tokenize",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, text),
     .argument = "MODEL",
     .help = "how fast the text of files becomes tokens of MODEL: kt bench --tokenize MODEL FILE..."},
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
     .help = "length of a run, at least 5 calls, or of a row of --latency (default: 1)"},
    {.name = "cycle",
     .type = KT_CLI_UINT,
     .offset = offsetof(struct args, cycle),
     .argument = "MIB",
     .minimum = 2,
     .maximum = 1 << 24,
     .help = "weights to cycle over, in MiB (default: 1536 or three times the last-level cache)"},
    {.name = "load",
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, load),
     .help = "measure packing weights beside copying them, each into fresh memory, instead of a layer"},
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
    {.name = "stream",
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, stream),
     .help = "measure what submit and sync cost on a GPU's stream, and in a graph"},
    {.name = "runtime",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, runtime),
     .argument = "LIBRARY",
     .help = "GPU runtime of --stream, such as libcudart.so.12 (default: any that is found)"},
    {.name = NULL},
};

static const struct kt_cli_command command = {
    .usage = "[MODEL] [--layers LIST] [--backend LIST] [--shape NAME|H,I,E,K] [--linear LIST] "
             "[--attention LIST] [--source-type LIST] "
             "[--tokens LIST] [--trace FILE] [--threads N]",
    .about =
        "Runs a layer whose weights come from memory (of a MODEL, each kind of layer that it has; else one "
        "out of random numbers), and says how near that is to the limits "
        "measured in the same run on the same threads: the machine's read bandwidth and the "
        "peak of the multiply instruction that the backend uses. roofline_fraction is the time "
        "that these limits allow, divided by the time that the layer took.",
    .options = options,
    .opens_checkpoint = true,
};

/* ---- running it ---- */

static int run(struct bench *bench, const struct bench_model *model)
{
    bench_begin(bench);
    int code = model->checkpoint != NULL ? bench_model_run(bench, model)
               : bench->n_linears != 0   ? bench_run_linears(bench)
                                         : bench_run_types(bench);
    if (code == KT_EXIT_OK && bench->n_rows != 0)
        code = kt_keeping_write(&bench->keeping);
    if (code == KT_EXIT_OK && bench->n_rows == 0)
        code = kt_cli_usage(bench->cli, "no backend takes such weights");
    kt_progress_clear();
    if (bench->n_rows != 0 && !bench->has_ended)
        return kt_output_finish(bench->output, code);
    kt_output_free(bench->output);
    return code;
}

/* ---- the command line ---- */

/* Do the options go together? */
/* What belongs to --attention, and what does not. */
static int check_attention(struct kt_cli *cli, const struct args *args)
{
    const char *other = args->context     ? "--context"
                        : args->sequences ? "--sequences"
                        : args->cache     ? "--cache"
                                          : NULL;
    if (args->attention == NULL)
        return other == NULL ? KT_EXIT_OK : kt_cli_usage(cli, "%s is for --attention", other);
    if (args->model != NULL || args->shape != NULL || args->linear != NULL || args->source_type != NULL ||
        args->trace != NULL || args->record != NULL || args->levels || args->level != NULL || args->load ||
        args->dispatch || args->latency || args->limits || args->stream)
        return kt_cli_usage(cli,
                            "--attention %s goes with --context, --sequences, --cache, --tokens, --backend, "
                            "--runs, --repeats, --min-time and --cycle only",
                            args->attention);
    return KT_EXIT_OK;
}

static int run_attention(struct bench *bench, const struct args *args)
{
    struct bench_attention what = {.backend = args->backend,
                                   .cycle_size = bench->cycle_size,
                                   .schedule = bench->schedule};
    struct kt_cli *cli = bench->cli;
    char *shapes = kt_cli_format(cli, "%s", args->attention);
    char *caches = kt_cli_format(cli, "%s", args->cache ? args->cache : "bf16");
    what.n_shapes = bench_split(shapes, what.shapes, BENCH_ATTENTION_MOST);
    what.n_caches = bench_split(caches, what.caches, BENCH_ATTENTION_MOST);
    what.n_contexts = kt_cli_list(cli, "context", args->context ? args->context : "4096", what.contexts,
                                  BENCH_ATTENTION_MOST);
    what.n_sequences = kt_cli_list(cli, "sequences", args->sequences ? args->sequences : "1", what.sequences,
                                   BENCH_ATTENTION_MOST);
    what.n_tokens = kt_cli_list(cli, "tokens", args->tokens, what.tokens, BENCH_ATTENTION_MOST);
    int code = KT_EXIT_USAGE;
    if (what.n_shapes == 0 || what.n_caches == 0)
        code = kt_cli_usage(cli, "--attention %s --cache %s: names between commas are needed",
                            args->attention, args->cache ? args->cache : "bf16");
    else if (what.n_contexts != 0 && what.n_sequences != 0 && what.n_tokens != 0)
        code = bench_attention(cli, &what);
    free(shapes);
    free(caches);
    return code;
}

static int check_args(struct kt_cli *cli, const struct args *args)
{
    bool other = args->dispatch || args->latency || args->limits || args->stream;
    if (args->dispatch + args->latency + args->limits + args->stream > 1)
        return kt_cli_usage(cli, "--dispatch, --latency, --limits and --stream are different measurements");
    if (args->levels && (args->level != NULL || args->record != NULL || other))
        return kt_cli_usage(cli, "--levels goes with none of --level, --record, --dispatch, --latency, "
                                 "--limits, --stream");
    if (args->model != NULL && other)
        return kt_cli_usage(cli, "--dispatch, --latency, --limits and --stream run no layer of %s",
                            args->model);
    if (args->load && (other || args->trace != NULL || args->record != NULL || args->tokens != NULL ||
                       args->repeats != 0 || args->cycle != 0))
        return kt_cli_usage(cli, "--load goes with none of --tokens, --repeats, --cycle, --trace, --record, "
                                 "--dispatch, --latency, --limits, --stream");
    if (args->linear != NULL &&
        (other || args->model != NULL || args->shape != NULL || args->trace != NULL || args->record != NULL))
        return kt_cli_usage(cli,
                            "--linear %s goes with no MODEL, --shape, --trace, --record, --dispatch, "
                            "--latency, --limits or --stream",
                            args->linear);
    if (args->runtime != NULL && !args->stream)
        return kt_cli_usage(cli, "--runtime %s is for --stream", args->runtime);
    if (args->levels && (args->backend == NULL || strcmp(args->backend, "all") == 0))
        return kt_cli_usage(cli, "--levels: say of which backend, by --backend");
    if (args->layers != NULL && args->model == NULL)
        return kt_cli_usage(cli, "--layers: say of which model: kt bench MODEL --layers %s", args->layers);
    if (args->model != NULL && (args->shape != NULL || args->source_type != NULL))
        return kt_cli_usage(cli,
                            "--shape and --source-type are for weights out of random numbers; %s has its own",
                            args->model);
    return check_attention(cli, args);
}

/* Of text and of whole models, kt-engine knows more. */
static bool is_of_engine(int argc, char **argv)
{
    static const char *const names[] = {"--tokenize", "--n-prompt", "--n-gen", "--n-depth", "-p", "-n", "-d"};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < COUNT(names); k++)
            if (strncmp(argv[i], names[k], strlen(names[k])) == 0)
                return true;
    return false;
}

int kt_cmd_bench(struct kt_cli *cli, int argc, char **argv)
{
    if (is_of_engine(argc, argv))
        return kt_cmd_engine(cli, argc, argv);
    struct args args = {.runs = 3, .min_time = 1.0, .record_size = 64};
    struct bench_trace trace = {.n_layers = 0};
    struct bench_model model = {.checkpoint = NULL};
    if (!kt_cli_parse(cli, &command, argc, argv, &args))
        return cli->exit_code;
    if (args.backend != NULL && strcmp(args.backend, "auto") == 0) /* as for other verbs: none is named */
        args.backend = NULL;
    struct bench bench = {.cli = cli,
                          .run = bench_backend,
                          .levels = args.levels,
                          .loads = args.load,
                          .tells_levels = true,
                          .asks_plan = args.model != NULL && args.backend == NULL,
                          .trace = args.trace != NULL ? &trace : NULL,
                          .keeping = {.cli = cli,
                                      .record_path = args.record,
                                      .record_size = args.record_size << 20},
                          .cycle_size = args.cycle << 20,
                          .schedule = {args.repeats, args.runs, args.min_time}};
    int code = check_args(cli, &args);
    if (code != KT_EXIT_OK)
        return code;
    if (args.tokens == NULL && args.trace == NULL)
        args.tokens = "1";
    if (args.attention)
        return run_attention(&bench, &args);
    if (args.dispatch)
        return bench_dispatch(cli);
    if (args.latency)
        return bench_latency(cli, args.min_time);
    if (args.limits)
        return bench_limits(cli, args.cycle != 0 ? bench.cycle_size : bench_cycle_size());
    if (args.stream)
        return bench_stream(cli, args.runtime, args.min_time);
    const struct bench_layer_request request = {args.model, args.layers, args.shape, args.linear,
                                                args.trace != NULL};
    code = bench_choose_layer(&bench, &request, &model);
    if (code == KT_EXIT_OK)
        code = bench_choose_tokens(&bench, args.tokens);
    if (code == KT_EXIT_OK && args.trace != NULL)
        code = bench_trace_choose(cli, args.trace, &trace, &bench.shape, bench.tokens, BENCH_MAX_TOKEN_COUNTS,
                                  &bench.n_token_counts);
    if (code == KT_EXIT_OK)
        code = bench_choose_types(&bench, args.source_type);
    if (code == KT_EXIT_OK)
        code = bench_choose_backends(&bench, args.backend, args.level);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(cli, &bench.context);
    if (code == KT_EXIT_OK) {
        kt_context_info(bench.context, &bench.info);
        bench_warn_threads(cli, bench.info.n_threads);
        code = bench_find_backends(&bench, args.backend != NULL);
        if (code == KT_EXIT_OK)
            code = run(&bench, &model);
        kt_keeping_free(&bench.keeping);
        kt_context_destroy(bench.context);
    }
    for (size_t i = 0; i < bench.n_linears; i++)
        free((char *)(uintptr_t)bench.linears[i].name);
    bench_model_close(&model);
    bench_trace_close(&trace);
    free(bench.names);
    return code;
}
