/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - kt run --engine sglang: its options; what is done with them is in tools/engine/launch. */
#ifndef KT_ENGINE_SERVE_LAUNCH_H
#define KT_ENGINE_SERVE_LAUNCH_H

#include "tools/kt/base/cli.h"

/* What only SGLang has. 0, NULL: not said, where kt_cli_given does not say otherwise. */
struct kt_launch_args {
    const char *python, *gpu_memory, *placement, *counts, *attention, *dist_address;
    uint64_t gpu_experts, n_gpus, n_pools, threshold, chunk, deferred, n_machines, rank, watchdog;
    double fraction;
    bool updates, trusts, fuses, fuses_not;
};

struct kt_run_args;

/* `rest` are SGLang's own words. Returns the exit status. */
int kt_launch(struct kt_cli *cli, const struct kt_run_args *args, char *const *rest, int n_rest);

/* Refuses options of SGLang where it does not run. Returns 0, or an exit code after a message. */
int kt_launch_refuse(const struct kt_cli *cli);

#define KT_LAUNCH_ROW(word, kind, field, shown, about)                                                       \
    {                                                                                                        \
        .name = word, .type = kind, .offset = offsetof(struct kt_run_args, launch.field), .argument = shown, \
        .help = about                                                                                        \
    }
#define KT_LAUNCH_UINT(word, field, least, most, about)                                          \
    {                                                                                            \
        .name = word, .type = KT_CLI_UINT, .offset = offsetof(struct kt_run_args, launch.field), \
        .minimum = least, .maximum = most, .argument = "N", .help = about                        \
    }
#define KT_LAUNCH_OLDER(word, field, least)                                                      \
    {                                                                                            \
        .name = word, .type = KT_CLI_UINT, .offset = offsetof(struct kt_run_args, launch.field), \
        .minimum = least, .hidden = true                                                         \
    }
#define KT_LAUNCH_OLDER_FLAG(word, field)                                                        \
    {                                                                                            \
        .name = word, .type = KT_CLI_FLAG, .offset = offsetof(struct kt_run_args, launch.field), \
        .hidden = true                                                                           \
    }
/* Rows of kt run's table, whose struct has `launch`; then names that KT-Kernel and SGLang have for them. */
#define KT_LAUNCH_OPTIONS                                                                                    \
    KT_LAUNCH_ROW(                                                                                           \
        "python", KT_CLI_TEXT, python, "PROGRAM",                                                            \
        "the Python that has SGLang (default: an active virtual environment's, $PYTHON, python3)"),          \
        KT_LAUNCH_ROW("gpu-memory", KT_CLI_TEXT, gpu_memory, "SIZE,...",                                     \
                      "memory of each GPU, 24G or 24G,24G, where nvidia-smi is not to be asked"),            \
        KT_LAUNCH_UINT("gpu-experts", gpu_experts, 0, UINT32_MAX,                                            \
                       "experts of each layer on the GPU (default: as many as fit)"),                        \
        KT_LAUNCH_UINT("tensor-parallel-size", n_gpus, 1, 4096,                                              \
                       "GPUs of all machines that share each layer (default: all)"),                         \
        KT_LAUNCH_UINT("gpu-prefill-threshold", threshold, 0, UINT32_MAX,                                    \
                       "tokens of a prompt from which on a GPU computes whole layers; 0: never"),            \
        KT_LAUNCH_UINT("chunked-prefill-size", chunk, 1, UINT32_MAX, "tokens of a prompt that go together"), \
        KT_LAUNCH_ROW("mem-fraction-static", KT_CLI_REAL, fraction, "X",                                     \
                      "part of a GPU's memory for weights, keys and values"),                                \
        KT_LAUNCH_ROW("attention-backend", KT_CLI_TEXT, attention, "NAME",                                   \
                      "SGLang's backend of attention (default: it chooses)"),                                \
        KT_LAUNCH_ROW("kt-expert-placement-strategy", KT_CLI_TEXT, placement, "NAME",                        \
                      "uniform, frequency, front-loading or random"),                                        \
        KT_LAUNCH_ROW("init-expert-location", KT_CLI_TEXT, counts, "FILE",                                   \
                      "which experts go to the GPU: a file of kt stats, kt place or SGLang's recorder"),     \
        KT_LAUNCH_ROW("kt-enable-dynamic-expert-update", KT_CLI_FLAG, updates, NULL,                         \
                      "experts on the GPU follow what prompts ask for"),                                     \
        KT_LAUNCH_UINT("kt-max-deferred-experts-per-token", deferred, 0, 1024,                               \
                       "experts of a token that may be added a layer later"),                                \
        KT_LAUNCH_UINT("nnodes", n_machines, 1, 1024, "machines"),                                           \
        KT_LAUNCH_UINT("node-rank", rank, 0, 1023, "which of them this is, from 0"),                         \
        KT_LAUNCH_ROW("dist-init-addr", KT_CLI_TEXT, dist_address, "HOST:PORT", "where they meet"),          \
        KT_LAUNCH_ROW("trust-remote-code", KT_CLI_FLAG, trusts, NULL,                                        \
                      "let SGLang run Python code that is in the model's folder"),                           \
        KT_LAUNCH_OLDER("kt-num-gpu-experts", gpu_experts, 0), KT_LAUNCH_OLDER("tp", n_gpus, 1),             \
        KT_LAUNCH_OLDER("tp-size", n_gpus, 1), KT_LAUNCH_OLDER("kt-gpu-prefill-threshold", threshold, 0),    \
        KT_LAUNCH_OLDER("kt-gpu-prefill-token-threshold", threshold, 0),                                     \
        KT_LAUNCH_OLDER("kt-threadpool-count", n_pools, 1),                                                  \
        KT_LAUNCH_OLDER("watchdog-timeout", watchdog, 0),                                                    \
        KT_LAUNCH_OLDER_FLAG("enable-shared-experts-fusion", fuses),                                         \
        KT_LAUNCH_OLDER_FLAG("disable-shared-experts-fusion", fuses_not)

#endif
