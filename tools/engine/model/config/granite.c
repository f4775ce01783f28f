/* SPDX-License-Identifier: Apache-2.0 */
/* granite.c - IBM's Granite: Llama with factors at the embedding, attention, the residual and logits, with
 * experts or without. */
#include "tools/engine/model/config/config.h"

#include <string.h>

static void read_granite(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_biases(s, c);
    kt_engine_config_factors(s, c, "residual_scale", "residual_multiplier");
    c->embedding_scale = (float)kt_settings_real(s, "embedding_scale", "embedding_multiplier", 1);
    kt_engine_config_divide_logits(s, c, "logit_scale", "logits_scaling");
    c->attention.scale = (float)kt_settings_real(s, "attention.scale", "attention_multiplier", !s->is_gguf);
    c->has_mlp_biases = kt_settings_flag(s, NULL, "mlp_bias", false) && c->n_experts == 0;
    /* As llama.cpp reads it, which writes it for models that do not rotate. */
    if (!kt_settings_flag(s, "rope.scaling.finetuned", NULL, true))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "rope.scaling.finetuned is false: no rope is not computed");
}

static void read_granitemoe(struct kt_settings *s, struct kt_engine_config *c)
{
    bool is_plain = strcmp(s->architecture, "GraniteMoeForCausalLM") == 0;
    read_granite(s, c);
    c->router.routing = KT_ROUTING_TOP;
    c->dense_width = 0;
    if (!is_plain)
        c->shared_width =
            kt_settings_uint(s, "expert_shared_feed_forward_length", "shared_intermediate_size", 0);
    c->has_shared = c->shared_width > 0;
}

const struct kt_family kt_family_granite = {.name = "granite",
                                            .classes = " GraniteForCausalLM ",
                                            .gguf_pairing = KT_ROPE_NORM,
                                            .json_pairing = KT_ROPE_NEOX,
                                            .read = read_granite};
const struct kt_family kt_family_granitemoe = {.name = "granitemoe",
                                               .classes =
                                                   " GraniteMoeForCausalLM GraniteMoeSharedForCausalLM ",
                                               .gguf_pairing = KT_ROPE_NORM,
                                               .json_pairing = KT_ROPE_NEOX,
                                               .names = {.json_router = "block_sparse_moe.router.layer",
                                                         .json_shared = "shared_mlp",
                                                         .json_both = "input_linear",
                                                         .json_down = "output_linear"},
                                               .read = read_granitemoe};
