/* SPDX-License-Identifier: Apache-2.0 */
/* qwen.c - Qwen 3 and Qwen 2, with experts and without. Queries, keys and values of Qwen 2 have biases, and
 * its experts a shared one with a gate. */
#include "tools/engine/model/config/config.h"

#include <string.h>

/* A window is there if use_sliding_window says so: of the layers that layer_types names, or else of those
 * from max_window_layers on. */
static uint64_t read_window(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t size = kt_settings_uint(s, NULL, "sliding_window", fallback);
    return kt_settings_flag(s, NULL, "use_sliding_window", false) ? size : 0;
}

static void read_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = read_window(s, c), first = kt_settings_uint(s, NULL, "max_window_layers", 28);
    if (s->is_gguf || kt_engine_config_layer_types(s, c, window))
        return;
    for (uint64_t i = first; i < c->n_layers; i++)
        c->layers[i].window = window;
}

static void read_qwen2(struct kt_settings *s, struct kt_engine_config *c)
{
    if (!s->is_gguf)
        c->attention.biases = KT_BIASES_QKV;
    read_windows(s, c);
}

static void read_qwen3(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_biases(s, c);
    read_windows(s, c);
}

/* Its windows know no kinds of layers. */
static void read_qwen3moe(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = read_window(s, c);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = window;
    (void)kt_settings_has(s, NULL, "layer_types"); /* which its class ignores */
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_biases(s, c);
    c->router.normalizes = strcmp(s->architecture, "Qwen3VLMoeForConditionalGeneration") == 0 ||
                           kt_settings_flag(s, NULL, "norm_topk_prob", s->is_gguf);
    kt_engine_config_sparse_layers(s, c);
}

/* Of the first max_window_layers every second one slides. */
static void read_qwen2moe(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = read_window(s, c), n = kt_settings_uint(s, NULL, "max_window_layers", 28);
    if (!s->is_gguf && !kt_engine_config_layer_types(s, c, window))
        for (uint32_t i = 0; i < c->n_layers && i < n; i += 2)
            c->layers[i].window = window;
    if (!s->is_gguf)
        c->attention.biases = kt_settings_flag(s, NULL, "qkv_bias", true) ? KT_BIASES_QKV : KT_BIASES_NONE;
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", false);
    c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length",
                                       "shared_expert_intermediate_size", c->defaults->shared_width);
    c->has_shared = c->gates_shared = true;
    kt_engine_config_sparse_layers(s, c);
}

void kt_engine_config_sparse_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t step = kt_settings_uint(s, NULL, "decoder_sparse_step", 1);
    uint64_t n = kt_settings_count(s, NULL, "mlp_only_layers");
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].dense = step == 0 || (i + 1) % step != 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t layer = kt_settings_uint_at(s, NULL, "mlp_only_layers", i, 0);
        if (layer < c->n_layers)
            c->layers[layer].dense = true;
    }
}

/* Of models that see images. */
static const char *const skipped[] = {"model.visual.", NULL};

const struct kt_family kt_family_qwen3moe = {.name = "qwen3moe",
                                             .classes =
                                                 " Qwen3MoeForCausalLM Qwen3VLMoeForConditionalGeneration ",
                                             .names = {.skipped = skipped},
                                             .read = read_qwen3moe};
const struct kt_family kt_family_qwen3 = {.name = "qwen3",
                                          .classes = " Qwen3ForCausalLM ",
                                          .read = read_qwen3};
const struct kt_family kt_family_qwen2 = {.name = "qwen2",
                                          .classes = " Qwen2ForCausalLM ",
                                          .read = read_qwen2};
const struct kt_family kt_family_qwen2moe = {.name = "qwen2moe",
                                             .classes = " Qwen2MoeForCausalLM ",
                                             .names = {.json_shared = "mlp.shared_expert"},
                                             .read = read_qwen2moe};
