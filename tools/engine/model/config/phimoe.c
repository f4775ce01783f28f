/* SPDX-License-Identifier: Apache-2.0 */
/* phimoe.c - Phi-3.5-MoE: LayerNorm, biases of attention and of the head, and two experts, each of which has
 * a weight among those whose logits are near its own. */
#include "tools/engine/model/config/config.h"

static void read_phimoe(struct kt_settings *s, struct kt_engine_config *c)
{
    bool has_bias = s->is_gguf || kt_settings_flag(s, NULL, "attention_bias", false);
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", 0);
    /* Converters write the model's longest context as its window. */
    if (s->is_gguf && window >= c->context_length)
        window = 0;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = window;
    c->attention.biases = has_bias ? KT_BIASES_ALL : KT_BIASES_NONE;
    c->has_head_bias = s->is_gguf || kt_settings_flag(s, NULL, "lm_head_bias", false);
    c->norm = KT_NORM_LAYER;
    c->norm_biases = true;
    c->router.routing = KT_ROUTING_MIXER;
    c->router.normalizes = false;
    c->router.near = (float)(2 * kt_settings_real(s, NULL, "router_jitter_noise", 0.01));
    if (c->top_k != 2)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "%u experts of a token; models of this family have 2",
                         c->top_k);
}

const struct kt_family kt_family_phimoe = {.name = "phimoe",
                                           .classes = " PhimoeForCausalLM PhiMoEForCausalLM ",
                                           .names = {.json_router = "block_sparse_moe.gate"},
                                           .read = read_phimoe};
