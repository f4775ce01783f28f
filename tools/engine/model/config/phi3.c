/* SPDX-License-Identifier: Apache-2.0 */
/* phi3.c - Phi-3 and Phi-4: queries, keys and values are one matrix, and so are gate and up. */
#include "tools/engine/model/config/config.h"

static void read_phi3(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", 0);
    (void)kt_settings_has(s, NULL, "layer_types"); /* which its class ignores */
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = window;
    c->attention.biases = s->is_gguf ? KT_BIASES_ANY : KT_BIASES_NONE;
}

const struct kt_family kt_family_phi3 = {.name = "phi3",
                                         .classes = " Phi3ForCausalLM ",
                                         .names = {.json_joined = "qkv_proj",
                                                   .json_both = "gate_up_proj",
                                                   .gguf_both = true},
                                         .read = read_phi3,
                                         .has_longrope = true};
