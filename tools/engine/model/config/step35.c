/* SPDX-License-Identifier: Apache-2.0 */
/* step35.c - Step 3.5 and 3.7: layers that slide have other heads and another rope, the output of attention
 * is multiplied by gates of heads, layers may have clamped networks, norms are stored less 1. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What its class computes whatever the file says, or ignores. */
static void refuse_others(struct kt_settings *s, const struct kt_engine_config *c)
{
    static const char *const truths[] = {"use_head_wise_attn_gate", "norm_expert_weight",
                                         "use_moe_router_bias"};
    static const char *const others[] = {"attention_other_setting/num_attention_groups",
                                         "attention_other_setting/num_key_value_heads",
                                         "attention_other_setting/head_dim"};
    const json_t *gating = kt_settings_json(s, "gating"), *ropes = kt_settings_json(s, "rope_parameters");
    const char *text = json_string_value(gating);
    char activation[32];
    for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++)
        if (!kt_settings_flag(s, NULL, truths[i], true))
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s is false, which is not computed", truths[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const uint64_t usual = i < 2 ? c->attention.n_kv_heads : c->attention.head_size;
        if (kt_settings_uint(s, NULL, others[i], usual) != usual)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s is another one, which is not computed", others[i]);
    }
    if (gating && !json_is_true(gating) && !(text && strcmp(text, "per-head") == 0))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "gating must be true: other gates are not computed");
    kt_settings_text(s, NULL, "moe_router_activation", 0, activation, sizeof(activation));
    if (activation[0] && strcmp(activation, "sigmoid") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the moe_router_activation '%s' is not computed", activation);
    if (ropes && !json_is_object(json_object_get(ropes, "full_attention")))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "rope_parameters must have an object for each type of layers");
    if (kt_settings_has(s, NULL, "partial_rotary_factor"))
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "partial_rotary_factor is not computed, only a list of them is");
}

/* "3,4,5", or a list: layers with experts. Where nothing says it, all but the first three. */
static void read_layers_with_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    const json_t *value = kt_settings_json(s, "moe_layers_enum");
    const char *at = json_string_value(value);
    if (!value) {
        kt_engine_config_dense_first(s, c, c->n_layers < 3 ? c->n_layers : 3);
        return;
    }
    kt_engine_config_dense_first(s, c, c->n_layers);
    for (size_t i = 0; at ? *at != '\0' : i < json_array_size(value); i++) {
        char *end = NULL;
        uint64_t layer = at ? strtoull(at, &end, 10) : (uint64_t)json_integer_value(json_array_get(value, i));
        if ((at && (end == at || (*end && *end != ','))) || layer >= (uint64_t)c->n_layers + c->n_skipped) {
            kt_settings_fail(s, KT_E_FORMAT, "moe_layers_enum names other layers than there are");
            return;
        }
        if (layer < c->n_layers)
            c->layers[layer].dense = false;
        at = at ? end + (*end == ',') : NULL;
    }
}

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    const char *width =
        kt_settings_has(s, NULL, "share_expert_dims") ? "share_expert_dims" : "share_expert_dim";
    kt_engine_config_plain_sigmoids(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", NULL, !s->is_gguf);
    c->router.scale = (float)kt_settings_real(s, "expert_weights_scale", "moe_router_scaling_factor", 1);
    c->has_shared = true;
    c->shared_width =
        kt_settings_uint(s, "expert_shared_feed_forward_length", width, c->defaults->shared_width);
    if (s->is_gguf)
        kt_engine_config_dense_first(s, c, kt_settings_uint(s, "leading_dense_block_count", NULL, 0));
    else if (!kt_engine_config_mlp_types(s, c))
        read_layers_with_experts(s, c);
}

/* Limits of dense layers and shared experts; the library reads those of experts. */
static void read_limits(struct kt_settings *s, struct kt_engine_config *c)
{
    (void)kt_settings_has(s, "swiglu_clamp_exp", "swiglu_limits");
    uint64_t n = kt_settings_count(s, "swiglu_clamp_shexp", "swiglu_limits_shared");
    for (uint32_t i = 0; i < c->n_layers + (n > c->n_layers); i++) {
        double limit = kt_engine_config_listed(s, c, "swiglu_clamp_shexp", "swiglu_limits_shared", i, 0);
        if (!(limit >= 0 && limit < 1e6))
            kt_settings_fail(s, KT_E_FORMAT, "the limit of layer %u is %g", i, limit);
        c->layers[i].clamp =
            (struct kt_clamp_config){.clamp = limit > 0 ? KT_CLAMP_GATED : KT_CLAMP_NONE, .limit = limit};
    }
}

static void read_step(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", 0);
    if (s->is_gguf) {
        kt_engine_config_turns(s, c, window, 1);
        c->rope.size /= 2; /* as llama.cpp has it, of layers that do not slide */
    } else {
        refuse_others(s, c);
        kt_engine_config_layer_types(s, c, window);
        kt_engine_config_scale_queries(s, c, "query_pre_attn_scalar", c->attention.head_size);
    }
    c->norm_offset = !s->is_gguf;
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.gate = KT_OUTPUT_GATE_HEADS;
    kt_engine_config_biases(s, c);
    c->has_mlp_biases = kt_settings_flag(s, NULL, "mlp_bias", false);
    read_experts(s, c);
    read_limits(s, c);
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    const char *key;
    json_t *value;
    uint64_t heads =
        kt_settings_uint(s, NULL, "attention_other_setting/num_attention_heads", c->attention.n_heads);
    heads = kt_settings_uint(s, NULL, "num_sliding_attention_heads", heads);
    kt_engine_config_heads(s, c, NULL);
    for (uint32_t i = 0; i < c->n_layers + c->has_mtp && !s->is_gguf; i++)
        if (c->layers[i].window > 0)
            c->layers[i].attention.n_heads = heads < UINT32_MAX ? (uint32_t)heads : 0;
    /* What transformers writes says it once more. */
    json_object_foreach ((json_t *)(uintptr_t)kt_settings_json(s, "per_layer_config"), key, value) {
        const uint64_t layer = strtoull(key, NULL, 10);
        const json_int_t n = json_integer_value(json_object_get(value, "num_attention_heads"));
        if (layer < c->n_layers && (n != c->layers[layer].attention.n_heads || json_object_size(value) != 1))
            kt_settings_fail(s, KT_E_UNSUPPORTED, "per_layer_config has something else for layer %.20s", key);
    }
}

/* Of models that see images. */
static const char *const skipped[] = {"vision_model.", "vit_large_projector.", "model.vision_model.",
                                      "model.multi_modal_projector.", NULL};

const struct kt_family kt_family_step = {.name = "step35",
                                         .classes = " Step3p5ForCausalLM Step3p7ForConditionalGeneration ",
                                         .names = {.json_router = "moe.gate",
                                                   .json_correction = "moe.router_bias",
                                                   .json_shared = "share_expert",
                                                   .json_mtp_norm = "transformer.shared_head.norm",
                                                   .json_mtp_head = "transformer.shared_head.output",
                                                   .skipped = skipped},
                                         .read = read_step,
                                         .read_layers = read_layers,
                                         .ropes_by_type = true,
                                         .lists_ropes = true,
                                         .heads_by_layer = true};
