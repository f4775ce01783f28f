/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - options of SGLang that fit a model, its GPUs and the cores beside them. */
#ifndef KT_ENGINE_LAUNCH_FIT_H
#define KT_ENGINE_LAUNCH_FIT_H

#include "tools/engine/launch/facts.h"
#include "tools/engine/launch/gpus.h"

#define KT_FIT_FREE UINT64_MAX /* a number that nobody has said */

/* What is known before. */
struct kt_fit_input {
    const struct kt_launch_facts *facts;
    const struct kt_gpus *gpus;
    const char *cpu_variant; /* kt_context_info */
    uint64_t n_threads;
    uint64_t n_machines;
    uint64_t n_stages,
        n_copies;     /* of the model's layers (pipeline), and of the whole model (data parallelism) */
    bool is_unpacked; /* the CPU's experts can be copied to a GPU as SGLang has them there */
    /* what the user says; KT_FIT_FREE, below 0: nothing */
    uint64_t n_gpus, gpu_experts, threshold, chunk, context, cache_tokens, cache_bytes;
    double fraction;
};

struct kt_fit {
    uint64_t n_gpus;       /* of all machines: the size of tensor parallelism */
    uint64_t gpu_experts;  /* of a layer */
    uint64_t threshold;    /* tokens of a prompt from which on a GPU computes whole layers; 0: never */
    uint64_t chunk;        /* tokens of a prompt that are computed at once */
    uint64_t context;      /* tokens of a request */
    uint64_t cache_tokens; /* for which there is room */
    double fraction;       /* of a GPU's memory, for weights, keys and values */
    uint64_t memory;       /* of the smallest GPU; bytes, and so are the following, on each GPU */
    uint64_t rest_size, cache_size, expert_size;
    uint64_t spare; /* for a whole layer's experts, and for SGLang's own buffers */
};

/* Returns 0, or an exit code after a message. */
int kt_fit(const struct kt_cli *cli, const struct kt_fit_input *input, struct kt_fit *fit);

#endif
