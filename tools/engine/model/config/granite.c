/* SPDX-License-Identifier: Apache-2.0 */
/* granite.c - IBM's Granite: Llama with factors at the embedding, attention, the residual and logits, with
 * experts or without, and with windows, sinks and a rope for each layer. */
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

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    bool is_plain = strcmp(s->architecture, "GraniteMoeForCausalLM") == 0;
    c->router.routing = KT_ROUTING_TOP;
    c->dense_width = 0;
    if (!is_plain)
        c->shared_width =
            kt_settings_uint(s, "expert_shared_feed_forward_length", "shared_intermediate_size", 0);
    c->has_shared = c->shared_width > 0;
}

static void read_granitemoe(struct kt_settings *s, struct kt_engine_config *c)
{
    read_granite(s, c);
    read_experts(s, c);
}

static void read_granite_swa(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window",
                                       kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window);
    read_granite(s, c);
    c->attention.has_sinks = true;
    if (c->n_experts > 0)
        read_experts(s, c);
    if (s->is_gguf)
        kt_engine_config_turns(s, c, window, 1);
    else if (!kt_engine_config_layer_types(s, c, window))
        for (uint32_t i = 0; i < c->n_layers; i++)
            c->layers[i].window = i % 4 != 0 ? window : 0;
}

/* GGUF files say which layers are rotated, config.json by which base; 0: they are not. */
static double base_of(struct kt_settings *s, const struct kt_engine_config *c, uint32_t layer, double usual)
{
    if (!s->is_gguf)
        return kt_engine_config_listed(s, c, NULL, "layer_rope_theta", layer, usual);
    return kt_settings_has(s, "attention.rope_pattern", NULL) &&
                   !kt_settings_flag_at(s, "attention.rope_pattern", layer)
               ? 0
               : usual;
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    const double usual = c->rope.base;
    double bases[KT_LAYER_ROPES] = {0, 0};
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const double base = base_of(s, c, i, usual);
        uint32_t rope = KT_LAYER_ROPE;
        while (base != 0 && rope < KT_LAYER_ROPES && bases[rope] != 0 && bases[rope] != base)
            rope++;
        c->layers[i].rope = base == 0 ? KT_LAYER_ROPE_NONE : rope;
        if (base != 0 && !(base > 1))
            kt_settings_fail(s, KT_E_FORMAT, "layer %u has a rope base of %g", i, base);
        else if (base != 0 && rope == KT_LAYER_ROPES)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "layer_rope_theta has more than two bases: %g, %g and %g",
                             bases[0], bases[1], base);
        else if (base != 0)
            bases[rope] = base;
    }
    c->rope.base = bases[0] != 0 ? bases[0] : usual;
    c->window_rope.base = bases[1] != 0 ? bases[1] : usual;
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
/* Of GGUF files it has both, those with experts, too. */
const struct kt_family kt_family_granite_swa = {.name = "granite_swa",
                                                .classes = " GraniteSWAForCausalLM ",
                                                .gguf_pairing = KT_ROPE_NORM,
                                                .json_pairing = KT_ROPE_NEOX,
                                                .names = {.gguf_shared_both = true},
                                                .read = read_granite_swa,
                                                .read_layers = read_layers};
const struct kt_family kt_family_granitemoe_swa = {.name = "granitemoe_swa",
                                                   .classes = " GraniteMoeSWAForCausalLM ",
                                                   .gguf_pairing = KT_ROPE_NORM,
                                                   .json_pairing = KT_ROPE_NEOX,
                                                   .names = {.json_router = "block_sparse_moe.router",
                                                             .json_shared = "shared_mlp",
                                                             .json_both = "input_linear",
                                                             .json_down = "output_linear"},
                                                   .read = read_granite_swa,
                                                   .read_layers = read_layers};
