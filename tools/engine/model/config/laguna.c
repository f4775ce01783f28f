/* SPDX-License-Identifier: Apache-2.0 */
/* laguna.c - Laguna: layers that slide have other heads and another rope, the output of attention is
 * multiplied by softplus gates. */
#include "tools/engine/model/config/config.h"

#include <stdio.h>
#include <string.h>

/* true, or a text; of GGUF files the gates of the first layer say it. */
static uint32_t read_gate(struct kt_settings *s, const struct kt_engine_config *c)
{
    const json_t *gating = kt_settings_json(s, "gating");
    const char *text = json_string_value(gating);
    struct kt_view view;
    if (s->is_gguf && kt_checkpoint_weight(s->checkpoint, "blk.0.attn_gate", &view, NULL, NULL) == KT_OK)
        return view.rows == c->attention.n_heads ? KT_OUTPUT_GATE_HEADS : KT_OUTPUT_GATE_ELEMENTS;
    return !gating || json_is_true(gating) || (text && strcmp(text, "per-head") == 0)
               ? KT_OUTPUT_GATE_HEADS
               : KT_OUTPUT_GATE_ELEMENTS;
}

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    double scale = kt_settings_real(s, "expert_weights_scale", "moe_routed_scaling_factor", 1);
    double cap = kt_settings_real(s, "router_logit_softcapping", "moe_router_logit_softcapping", 0);
    kt_engine_config_plain_sigmoids(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", NULL, !s->is_gguf);
    c->router.scale = (float)scale;
    c->router.cap = cap > 0 ? (float)cap : 0;
    c->has_shared = kt_settings_uint(s, "expert_shared_count", NULL, 1) > 0;
    c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length",
                                       "shared_expert_intermediate_size", c->defaults->shared_width);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c,
                                     kt_settings_uint(s, "leading_dense_block_count", NULL,
                                                      c->defaults->n_dense));
    if (kt_settings_flag(s, NULL, "moe_apply_router_weight_on_input", false))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "moe_apply_router_weight_on_input is not computed");
}

static void read_laguna(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
    if (s->is_gguf)
        kt_engine_config_turns(s, c, window, 4);
    else
        kt_engine_config_layer_types(s, c, window);
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.gate = read_gate(s, c);
    c->attention.gating = KT_GATE_SOFTPLUS;
    kt_engine_config_biases(s, c);
    read_experts(s, c);
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_heads(s, c, "num_attention_heads_per_layer");
}

const struct kt_family kt_family_laguna = {.name = "laguna",
                                           .classes = " LagunaForCausalLM ",
                                           .names = {.json_shared = "mlp.shared_expert",
                                                     .json_correction =
                                                         "mlp.experts.e_score_correction_bias"},
                                           .read = read_laguna,
                                           .read_layers = read_layers,
                                           .ropes_by_type = true,
                                           .heads_by_layer = true,
                                           .skips_mtp = true};
