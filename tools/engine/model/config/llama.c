/* SPDX-License-Identifier: Apache-2.0 */
/* llama.c - Llama, Mistral's dense models of the same kind, and Mixtral. */
#include "tools/engine/model/config/config.h"

static void read_llama(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", 0);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = window;
}

const struct kt_family kt_family_llama = {.name = "llama",
                                          .classes =
                                              " LlamaForCausalLM MistralForCausalLM MixtralForCausalLM ",
                                          /* Converters permute its queries and keys, so that pairs are
                                             neighbours. */
                                          .gguf_pairing = KT_ROPE_NORM,
                                          .json_pairing = KT_ROPE_NEOX,
                                          .names = {.json_router = "block_sparse_moe.gate"},
                                          .read = read_llama};
