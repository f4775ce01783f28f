/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - kt bench: how fast a layer runs, as a fraction of what this machine could do. */
#include "tools/kt/bench/options.h"
#include "tools/kt/bench/run.h"

#include <stdlib.h>
#include <string.h>

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

static int run_attention(struct bench *bench, const struct bench_args *args)
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

static int check_args(struct kt_cli *cli, const struct bench_args *args)
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
    if (kt_cli_given(cli, "activation") && (other || args->model != NULL || args->linear != NULL))
        return kt_cli_usage(cli,
                            "--activation %s is for experts out of random numbers: it goes with no MODEL, "
                            "--linear, --dispatch, --latency, --limits or --stream",
                            kt_activation_name(bench_activation(args->activation)));
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
    return KT_EXIT_OK;
}

static int measure(struct kt_cli *cli, struct bench_args *args)
{
    struct bench_trace trace = {.n_layers = 0};
    struct bench_model model = {.checkpoint = NULL};
    if (args->backend != NULL && strcmp(args->backend, "auto") == 0) /* as for other verbs: none is named */
        args->backend = NULL;
    struct bench bench = {.cli = cli,
                          .run = bench_backend,
                          .levels = args->levels,
                          .loads = args->load,
                          .tells_levels = true,
                          .asks_plan = args->model != NULL && args->backend == NULL,
                          .trace = args->trace != NULL ? &trace : NULL,
                          .keeping = {.cli = cli,
                                      .record_path = args->record,
                                      .record_size = args->record_size << 20},
                          .cycle_size = args->cycle << 20,
                          .schedule = {args->repeats, args->runs, args->min_time}};
    int code = check_args(cli, args);
    if (code != KT_EXIT_OK)
        return code;
    if (args->tokens == NULL && args->trace == NULL)
        args->tokens = "1";
    if (args->attention)
        return run_attention(&bench, args);
    if (args->dispatch)
        return bench_dispatch(cli);
    if (args->latency)
        return bench_latency(cli, args->min_time);
    if (args->limits)
        return bench_limits(cli, args->cycle != 0 ? bench.cycle_size : bench_cycle_size());
    if (args->stream)
        return bench_stream(cli, args->runtime, args->min_time);
    const struct bench_request request = {.model = args->model,
                                          .layers = args->layers,
                                          .shape = args->shape,
                                          .linear = args->linear,
                                          .trace = args->trace,
                                          .tokens = args->tokens,
                                          .source_type = args->source_type,
                                          .activation = bench_activation(args->activation),
                                          .backend = args->backend,
                                          .level = args->level,
                                          .most = BENCH_MAX_TOKEN_COUNTS};
    code = bench_choose(&bench, &request, &model);
    if (code == KT_EXIT_OK) {
        bench_warn_threads(cli, bench.info.n_threads);
        code = bench_find_backends(&bench, args->backend != NULL);
        if (code == KT_EXIT_OK)
            code = run(&bench, &model);
        kt_keeping_free(&bench.keeping);
    }
    bench_end(&bench, &model);
    bench_trace_close(&trace);
    return code;
}

int kt_cmd_bench(struct kt_cli *cli, int argc, char **argv)
{
    struct bench_args args;
    int kind = bench_parse(cli, argc, argv, &args);
    return kind < 0 ? cli->exit_code : kind == BENCH_LAYER ? measure(cli, &args) : kt_cli_execute(cli);
}
