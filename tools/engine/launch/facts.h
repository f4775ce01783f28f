/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - what a checkpoint says that SGLang's options depend on. */
#ifndef KT_ENGINE_LAUNCH_FACTS_H
#define KT_ENGINE_LAUNCH_FACTS_H

#include "tools/kt/base/cli.h"

struct kt_launch_facts {
    const char *format;        /* of the experts on the CPU, as a method's name: "FP8" */
    uint64_t n_layers;         /* layers that predict tokens after the next are not counted */
    uint64_t n_moe_layers;     /* of them, with experts */
    uint64_t first_moe_layer;  /* of the experts' checkpoint */
    uint64_t n_experts, top_k; /* of a layer, of a token */
    uint64_t moe_size;  /* bytes of a layer's experts as SGLang loads them; 0: the checkpoint has none */
    uint64_t rest_size; /* bytes of all else */
    uint64_t hidden_size, intermediate_size, n_heads, n_kv_heads;
    uint64_t head_bytes; /* of the keys and values of one head in all layers, a token */
    uint64_t
        latent_bytes; /* of latents in all layers, a token, which each GPU has whole; 0: there are none */
    uint64_t context; /* that the model was made for; 0: unknown */
};

/* `model` is the folder that SGLang loads, `experts` where the CPU's experts are, or the same. Returns 0, or
 * an exit code after a message. */
int kt_launch_facts(const struct kt_cli *cli, struct kt_checkpoint *model, struct kt_checkpoint *experts,
                    struct kt_launch_facts *facts);

/* Bytes of keys and values of a token on each of `n_gpus`. */
uint64_t kt_launch_token_bytes(const struct kt_launch_facts *facts, uint64_t n_gpus);

#endif
