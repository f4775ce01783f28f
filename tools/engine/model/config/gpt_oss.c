/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_oss.c - gpt-oss: sinks, windows in every second layer, biases everywhere, weights of experts by a
 * softmax over those chosen. */
#include "tools/engine/model/config/config.h"

static void read_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_need(s, "attention.sliding_window", "sliding_window");
    if (window == 0)
        kt_settings_fail(s, KT_E_FORMAT, "a sliding window of 0 tokens");
    if (!kt_engine_config_layer_types(s, c, window))
        for (uint32_t i = 0; i < c->n_layers; i += 2)
            c->layers[i].window = window;
}

static void read_gpt_oss(struct kt_settings *s, struct kt_engine_config *c)
{
    bool has_bias = kt_settings_flag(s, NULL, "attention_bias", true);
    c->attention.biases = has_bias ? KT_BIASES_ALL : KT_BIASES_NONE;
    c->attention.has_sinks = true;
    c->router.routing = KT_ROUTING_TOP;
    c->has_expert_biases = true;
    read_windows(s, c);
    /* Its frequencies were interpolated without rounding, which a GGUF file has no key for. */
    if (s->is_gguf)
        c->rope.no_truncate = 1;
    if (c->n_experts == 0)
        kt_settings_fail(s, KT_E_FORMAT, "a model of this family without experts");
}

const struct kt_family kt_family_gpt_oss = {.name = "gpt-oss",
                                            .classes = " GptOssForCausalLM ",
                                            .names = {.gguf_ffn_norm = "post_attention_norm",
                                                      .json_router = "mlp.router"},
                                            .read = read_gpt_oss};
