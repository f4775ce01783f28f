/* SPDX-License-Identifier: Apache-2.0 */
/* cohere2_moe.c - Cohere's Command A+: networks beside attention over one LayerNorm, layers that see all
 * tokens are not rotated but for dense ones, and the shared expert and the others count half each. */
#include "tools/engine/model/config/config.h"

#include <string.h>

static void read_norm(struct kt_settings *s, struct kt_engine_config *c)
{
    bool is_rms = kt_settings_has(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
    kt_engine_config_norms(c, 1U << KT_NORM_BEFORE_MIXER);
    c->is_parallel = true;
    c->norm = is_rms ? KT_NORM_RMS : KT_NORM_LAYER;
    if (!is_rms)
        c->eps = (float)kt_settings_real(s, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-5);
}

static void read_router(struct kt_settings *s, struct kt_engine_config *c)
{
    char function[16], strategy[16];
    kt_settings_text(s, NULL, "expert_selection_fn", 0, function, sizeof(function));
    uint64_t number = kt_settings_uint(s, "expert_gating_func", NULL, 2);
    bool is_sigmoid = s->is_gguf ? number == 2 : strcmp(function, "sigmoid") == 0;
    c->router.routing = is_sigmoid ? KT_ROUTING_SIGMOID : KT_ROUTING_TOP;
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", !s->is_gguf);
    if (!is_sigmoid && ((s->is_gguf && number != 3) || (function[0] && strcmp(function, "softmax") != 0)))
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "experts must be weighed by a sigmoid or a softmax over those chosen");
    kt_settings_text(s, NULL, "shared_expert_combination_strategy", 0, strategy, sizeof(strategy));
    c->router.scale = (float)kt_settings_real(s, "expert_weights_scale", NULL, 1);
    bool is_sum = strcmp(strategy, "sum") == 0;
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (c->has_shared && !c->layers[i].dense && !is_sum)
            c->layers[i].residual[KT_HALF_FFN].add = 0.5f;
    if (strategy[0] && !is_sum && strcmp(strategy, "average") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the shared_expert_combination_strategy '%s' is not computed",
                         strategy);
}

/* Layers before those with experts see all tokens, unless another pattern is theirs. */
static void read_kinds(struct kt_settings *s, struct kt_engine_config *c, uint64_t window)
{
    uint64_t n_dense = kt_settings_uint(s, "leading_dense_block_count", "first_k_dense_replace", 0);
    uint64_t first = kt_settings_uint(s, NULL, "prefix_dense_sliding_window_pattern", 1);
    uint64_t pattern = kt_settings_uint(s, NULL, "sliding_window_pattern", 4);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c, n_dense);
    if (s->is_gguf)
        for (uint32_t i = 0; i < c->n_layers; i++)
            c->layers[i].window = kt_engine_config_slides(s, i, 4) ? window : 0;
    else if (!kt_engine_config_layer_types(s, c, window))
        for (uint32_t i = 0; i < c->n_layers && first > 0 && pattern > 0; i++)
            c->layers[i].window = (i < n_dense ? (i + 1) % first : (i - n_dense + 1) % pattern) ? window : 0;
    if (first == 0 || pattern == 0)
        kt_settings_fail(s, KT_E_FORMAT, "a pattern of sliding layers is 0");
}

static void read_cohere2_moe(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
    uint64_t n = kt_settings_uint(s, "expert_shared_count", "num_shared_experts", 0);
    uint64_t width = kt_settings_uint(s, "expert_feed_forward_length", "intermediate_size", 0);
    c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length", NULL, n * width);
    c->has_shared = n > 0;
    if (!s->is_gguf)
        c->dense_width = kt_settings_uint(s, NULL, "prefix_dense_intermediate_size", 0);
    kt_engine_config_biases(s, c);
    read_norm(s, c);
    read_kinds(s, c, window);
    read_router(s, c);
    c->logits_scale = (float)kt_settings_real(s, "logit_scale", "logit_scale", 0.0625);
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    bool rotates_dense = kt_settings_uint(s, NULL, "prefix_dense_sliding_window_pattern", 1) == 1;
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (c->layers[i].window == 0 && !(c->layers[i].dense && rotates_dense))
            c->layers[i].rope = KT_LAYER_ROPE_NONE;
}

const struct kt_family kt_family_cohere2_moe = {.name = "cohere2moe",
                                                .classes = " Cohere2MoeForCausalLM ",
                                                .gguf_pairing = KT_ROPE_NORM,
                                                .json_pairing = KT_ROPE_NORM,
                                                .layer_norms = true,
                                                .read = read_cohere2_moe,
                                                .read_layers = read_layers};
