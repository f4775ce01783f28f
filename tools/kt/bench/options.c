/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the command line of kt bench, of which kt and kt-engine each run a part. */
#include "tools/kt/bench/options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define args bench_args /* as the rows that verbs share call it */

#define ACTIVATIONS "silu|swiglu|swigluoai|gelu_tanh|swiglustep|situ|relu2"
static const uint32_t activations[] = {KT_ACTIVATION_SILU,       KT_ACTIVATION_SWIGLU,
                                       KT_ACTIVATION_SWIGLUOAI,  KT_ACTIVATION_GELU_TANH,
                                       KT_ACTIVATION_SWIGLUSTEP, KT_ACTIVATION_SITU,
                                       KT_ACTIVATION_RELU2};

static const struct kt_cli_option options[] = {
    BENCH_MODEL("tokenize"),
    OPTION_TEXT(
        "backend", 'b', backend, "LIST",
        "backends, \"llamafile,reference\", or all (default: every loaded one but the reference; of a MODEL: "
        "the one that would run it)"),
    BENCH_SHAPE,
    OPTION_CHOICE(
        "activation", 0, activation, ACTIVATIONS, "NAME",
        "activation of the experts: silu (default), swiglu, swigluoai, gelu_tanh, swiglustep, situ, or "
        "relu2, whose experts have no gate"),
    OPTION_TEXT("context", 0, context, "LIST",
                "for --attention: tokens already in the cache (default: 4096)"),
    OPTION_TEXT(
        "sequences", 0, sequences, "LIST",
        "of --attention: sequences of a call, each with --tokens tokens; of -n: sequences generated at "
        "once (default: 1)"),
    OPTION_TEXT(
        "cache", 0, cache, "LIST",
        "of --attention: forms of the cache, bf16, q8_0, f32; of -p, -n and -d: one form (default: bf16)"),
    OPTION_TEXT("tokens", 0, tokens, "LIST",
                "tokens per call, such as 1,8,32 (default: 1, or all batch sizes of the trace)"),
    OPTION_TEXT("n-prompt", 'p', prompts, "LIST",
                "measure the whole MODEL: prompt lengths in tokens, such as 512,2048"),
    OPTION_TEXT("n-gen", 'n', answers, "LIST",
                "measure the whole MODEL: numbers of tokens to generate, "
                "one by one"),
    OPTION_TEXT("n-depth", 'd', depths, "LIST",
                "likewise: so many tokens stand before them (default: 0); alone, of -p 512 and -n 128"),
    KT_CLI_EXPERTS(struct args),
    OPTION_TEXT("tokenize", 0, tokenizer, "MODEL",
                "measure tokenization of files: kt bench --tokenize MODEL FILE..."),
    OPTION_TEXT("trace", 0, trace, "FILE",
                "use the routing, router weights and hidden states of this trace instead of random ones"),
    OPTION_TEXT("record", 0, record, "FILE", "record the measured batches in this trace"),
    OPTION_UINT("record-size", 0, record_size, 1, 1 << 20, "MIB",
                "buffer for --record in MiB; batches that do not fit are omitted (default: 64)"),
    KT_CLI_THREADS,
    KT_CLI_NUMA_NODES,
    OPTION_FLAG("levels", 0, levels,
                "measure every level that this CPU supports, for the backends in --backend"),
    OPTION_UINT("runs", 0, runs, 1, 1000, "N",
                "runs; the one with the smallest median counts (default: 3; of --tokenize the fastest of 5)"),
    OPTION_UINT("repeats", 0, repeats, 1, 10000000, "N",
                "calls per run (default: as many as fit in --min-time)"),
    OPTION_REAL("min-time", 0, min_time, "SECONDS",
                "length of a run (at least 5 calls) or of a row of --latency (default: 1)"),
    OPTION_FLAG("load", 0, load,
                "measure packing weights, compared with copying them, each into fresh memory, instead of "
                "a layer"),
    OPTION_FLAG("dispatch", 0, dispatch, "measure thread start and idling instead of a layer"),
    OPTION_FLAG("latency", 0, latency, "measure how long submitted work waits until all threads work on it"),
    OPTION_FLAG("limits", 0, limits, "measure every read method and multiply instruction instead of a layer"),
    OPTION_FLAG("stream", 0, stream, "measure the cost of submit and sync on a GPU stream and in a graph"),
    OPTION_TEXT("runtime", 0, runtime, "LIBRARY",
                "GPU runtime for --stream, such as libcudart.so.12 (default: any that is found)"),
    {.name = NULL},
};

const struct kt_cli_command kt_bench_command = {
    .usage = "[MODEL] [OPTION]...\n"
             "MODEL [-p LIST] [-n LIST] [-d LIST] [OPTION]...\n"
             "--tokenize MODEL FILE... [--runs N]",
    .about =
        "Runs a layer whose weights come from memory (with a MODEL, one layer of each kind in it; else a "
        "layer of random numbers), and compares its time with the limits measured in the same run on the "
        "same threads: the read bandwidth of memory and the peak of the backend's multiply instruction. "
        "roofline_fraction is the time "
        "that these limits allow, divided by the time that the layer took.\n"
        "With -p, -n or -d it measures a whole model: how many tokens of a prompt it reads in a second, and "
        "how many it writes. limit_fraction is the time that the limits allow, divided by the time that was "
        "taken: reading each weight and each row of the cache once from memory, or, of prompts, the multiply "
        "instruction's peak.",
    .options = options,
    .arguments = "FILE",
    .max_arguments = INT_MAX, /* bench_parse counts them */
    .opens_checkpoint = true,
};

uint32_t bench_activation(int choice)
{
    return activations[choice];
}

int bench_check_only(const struct kt_cli *cli, const struct kt_cli_option *rows, const char *what,
                     const char *list)
{
    for (const struct kt_cli_option *row = rows; row->name; row++) {
        char word[64];
        (void)snprintf(word, sizeof(word), "--%s", row->name);
        if (!row->hidden && kt_cli_given(cli, row->name) && !kt_cli_lists(what, word) &&
            !kt_cli_lists(list, word))
            return kt_cli_usage(cli, "--%s: %s goes with %s only", row->name, what, list);
    }
    return KT_EXIT_OK;
}

/* The options are all read before it is decided what they are of. */
static enum bench_kind find_kind(const struct bench_args *given)
{
    return given->tokenizer                                    ? BENCH_TEXT
           : given->prompts || given->answers || given->depths ? BENCH_WHOLE
                                                               : BENCH_LAYER;
}

/* What belongs to --attention, and what does not. */
static int check_attention(const struct kt_cli *cli, const struct bench_args *given)
{
    static const char list[] = "--context, --sequences, --cache, --tokens, --backend, --runs, --repeats, "
                               "--min-time, --cycle, --threads, --numa-nodes";
    const char *other = given->context     ? "--context is for"
                        : given->sequences ? "--sequences is for --n-gen and"
                        : given->cache     ? "--cache is for --n-prompt, --n-gen, --n-depth and"
                                           : NULL;
    if (!given->attention)
        return other ? kt_cli_usage(cli, "%s --attention", other) : KT_EXIT_OK;
    if (given->model)
        return kt_cli_usage(cli, "%s: --attention goes with %s only", given->model, list);
    return bench_check_only(cli, options, "--attention", list);
}

static int check(const struct kt_cli *cli, enum bench_kind kind, const struct bench_args *given)
{
    if (kind == BENCH_WHOLE && !given->model)
        return kt_cli_usage(cli, "MODEL is missing");
    if (kind == BENCH_TEXT && cli->n_arguments == 0)
        return kt_cli_usage(cli, "FILE is missing");
    if (kind != BENCH_TEXT && cli->n_arguments > 0)
        return kt_cli_usage(cli, "'%s' is one argument too many", cli->arguments[0]);
    if (kind == BENCH_TEXT && given->model)
        return kt_cli_usage(cli, "--model: the model is that of --tokenize");
    if (kind == BENCH_TEXT)
        return bench_check_only(cli, options, "--tokenize", "--runs");
    if (kind == BENCH_WHOLE)
        return bench_check_only(cli, options, "a whole model",
                                "--n-prompt, --n-gen, --n-depth, --sequences, --cache, --runs, --experts, "
                                "--backend, --threads, --numa-nodes");
    if (kt_cli_given(cli, "experts"))
        return kt_cli_usage(cli, "--experts is for --n-prompt, --n-gen and --n-depth");
    return check_attention(cli, given);
}

int bench_parse(struct kt_cli *cli, int argc, char **argv, struct bench_args *given)
{
    *given = (struct bench_args){.min_time = 1.0, .record_size = 64};
    if (!kt_cli_parse(cli, &kt_bench_command, argc, argv, given))
        return -1;
    enum bench_kind kind = find_kind(given);
    if (given->runs == 0)
        given->runs = kind == BENCH_TEXT ? 5 : 3;
    cli->exit_code = check(cli, kind, given);
    return cli->exit_code == KT_EXIT_OK ? (int)kind : -1;
}
