/* SPDX-License-Identifier: Apache-2.0 */
/* llama.c - Llama, InternLM 3, Mistral's dense models of the same kind, Mixtral, and Ministral 3, whose
 * queries grow with their position. */
#include "tools/engine/model/config/config.h"

#include <string.h>

static bool is_internlm(const struct kt_settings *s)
{
    return strcmp(s->architecture, "InternLM3ForCausalLM") == 0;
}

/* Whose class InternLM's models have, too. */
static bool is_llama(const struct kt_settings *s)
{
    return strcmp(s->architecture, "LlamaForCausalLM") == 0 || is_internlm(s);
}

/* It calls the two otherwise, and its class wants both or none. */
static void read_internlm_biases(struct kt_settings *s, struct kt_engine_config *c)
{
    bool of_attention = kt_settings_flag(s, NULL, "attention_bias", false);
    bool of_networks = kt_settings_flag(s, NULL, "mlp_bias", false);
    of_attention = kt_settings_flag(s, NULL, "qkv_bias", of_attention);
    of_networks = kt_settings_flag(s, NULL, "bias", of_networks);
    c->attention.biases = of_attention ? KT_BIASES_ANY : KT_BIASES_NONE;
    c->has_mlp_biases = of_networks;
    if (of_attention != of_networks)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "only one of qkv_bias and bias is true, which is not computed");
}

/* Mistral's models slide unless they say null. Llama's class never does: a window in its file, which it
 * ignores, is refused unless use_sliding_window is false, since the model may have been trained with it. */
static void read_window(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    if (is_llama(s)) {
        if (kt_settings_has(s, NULL, "use_sliding_window") &&
            !kt_settings_flag(s, NULL, "use_sliding_window", false))
            (void)kt_settings_has(s, NULL, "sliding_window");
        return;
    }
    (void)kt_settings_has(s, NULL, "layer_types"); /* which Mistral's classes ignore */
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = window;
}

static void read_llama(struct kt_settings *s, struct kt_engine_config *c)
{
    read_window(s, c);
    if (is_internlm(s)) {
        read_internlm_biases(s, c);
        return;
    }
    if (is_llama(s))
        kt_engine_config_biases(s, c);
    else if (!s->is_gguf)
        c->attention.biases = KT_BIASES_NONE;
    c->has_mlp_biases = is_llama(s) && kt_settings_flag(s, NULL, "mlp_bias", false);
}

const struct kt_family kt_family_llama = {.name = "llama",
                                          .classes =
                                              " LlamaForCausalLM InternLM3ForCausalLM MistralForCausalLM "
                                              "MixtralForCausalLM ",
                                          /* Converters permute its queries and keys, so that pairs are
                                             neighbors. */
                                          .gguf_pairing = KT_ROPE_NORM,
                                          .json_pairing = KT_ROPE_NEOX,
                                          .names = {.json_router = "block_sparse_moe.gate"},
                                          .read = read_llama};

static void read_ministral(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_uint(s, NULL, "sliding_window", 0);
    (void)kt_settings_has(s, NULL, "layer_types"); /* which its class ignores */
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].window = window;
    if (!s->is_gguf)
        c->attention.biases = KT_BIASES_NONE;
    if (strcmp(s->architecture, "Ministral3ForCausalLM") == 0)
        kt_engine_config_need_rope(s);
    kt_engine_config_growth(s, c);
    if (s->is_gguf && c->rope.scaling == KT_ROPE_YARN) {
        c->rope.mscale = 1;
        c->rope.mscale_all_dim = kt_settings_real(s, "rope.scaling.yarn_log_multiplier", NULL, 0);
    }
}

/* Of models that see images. */
static const char *const skipped[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                      "model.multi_modal_projector.", NULL};

const struct kt_family kt_family_ministral = {.name = "mistral3",
                                              .classes =
                                                  " Ministral3ForCausalLM Mistral3ForConditionalGeneration ",
                                              .gguf_pairing = KT_ROPE_NORM,
                                              .json_pairing = KT_ROPE_NEOX,
                                              .names = {.skipped = skipped},
                                              .read = read_ministral};
