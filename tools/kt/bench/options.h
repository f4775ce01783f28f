/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line of kt bench, and the options that kt tune has, too. */
#ifndef KT_TOOL_BENCH_OPTIONS_H
#define KT_TOOL_BENCH_OPTIONS_H

#include "tools/kt/base/cli.h"

/* Rows for a struct args with the fields that they name. */
#define BENCH_MODEL(except)                                                                             \
    {                                                                                                   \
        KT_OPTION("model", 0, KT_CLI_TEXT, model, "MODEL", NULL), .hidden = true, .is_argument = true,  \
                                                                  .is_optional = true, .unless = except \
    }
#define BENCH_SHAPE                                                                                    \
    KT_CLI_LAYERS_OF("of the MODEL: 3, 0-3, 0,2 or all (default)"),                                    \
        OPTION_TEXT("shape", 0, shape, "NAME",                                                         \
                    "qwen3-30b-a3b (default), deepseek-v3, mixtral-8x7b, kimi-k2, or "                 \
                    "H,I,E,K: hidden size, intermediate size, experts, experts per token"),            \
        OPTION_TEXT("linear", 0, linear, "LIST",                                                       \
                    "matrices ROWSxCOLS instead of experts, such as 4096x2048,2048x4096"),             \
        OPTION_TEXT(                                                                                   \
            "attention", 0, attention, "LIST",                                                         \
            "attention instead of experts: qwen3-30b-a3b, gpt-oss, qwen3-next, deepseek-v3, kimi-k2, " \
            "qwen3-next-delta, or heads such as 32/4x128 or delta:32/16x128"),                         \
        OPTION_TEXT("source-type", 0, source_type, "LIST",                                             \
                    "weight formats, such as q4_k,q8_0 (default: the backend's usual one)"),           \
        OPTION_TEXT("level", 0, level, "NAME", "level for the backends in --backend, such as avx2"),   \
        OPTION_UINT("cycle", 0, cycle, 2, 1 << 24, "MIB",                                              \
                    "size of the weights to cycle through, in MiB (default: 1536, or three times the " \
                    "last-level cache)")

struct bench_args {
    const char *model, *layers, *backend, *shape, *linear, *attention, *context, *sequences, *cache,
        *source_type, *tokens, *level, *trace, *record, *runtime;
    const char *tokenizer, *prompts, *answers, *depths, *experts;
    uint64_t repeats, runs, cycle, record_size;
    double min_time;
    int activation; /* index of its choices, see bench_activation */
    bool levels, load, dispatch, latency, limits, stream;
};

/* What is measured. */
enum bench_kind {
    BENCH_LAYER, /* by kt */
    BENCH_WHOLE, /* a whole model, and: */
    BENCH_TEXT   /* a tokenizer on the files cli->arguments; by kt-engine */
};
/* Reads the command line. An enum bench_kind, or -1: return cli->exit_code. */
int bench_parse(struct kt_cli *cli, int argc, char **argv, struct bench_args *args);

/* The enum kt_activation of a choice of --activation. */
uint32_t bench_activation(int choice);

/* Is an option given that is not in the list "--context, --tokens"? Returns 0, or an exit
 * code after a message that `what` goes with these. */
int bench_check_only(const struct kt_cli *cli, const struct kt_cli_option *options, const char *what,
                     const char *list);

#endif
