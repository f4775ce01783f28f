/* SPDX-License-Identifier: Apache-2.0 */
/* gpt_oss.c - gpt-oss: sinks, windows in every second layer, biases everywhere, weights of experts by a
 * softmax over those chosen. */
#include "tools/engine/model/config/config.h"

static void read_windows(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t window = kt_settings_need(s, "attention.sliding_window", "sliding_window");
    if (window == 0)
        kt_settings_fail(s, KT_E_FORMAT, "a sliding window of 0 tokens");
    kt_engine_config_turns(s, c, window, 2);
}

/* Published models have these two, and kernels have them built in. */
static void check_swiglu(struct kt_settings *s)
{
    const double alpha = kt_settings_real(s, NULL, "swiglu_alpha", 1.702);
    const double limit = kt_settings_real(s, NULL, "swiglu_limit", 7);
    if (alpha != 1.702 || limit != 7)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "a swiglu_alpha of %g and a swiglu_limit of %g; only 1.702 and 7 are computed",
                         alpha, limit);
}

/* Its class scales the rope where config.json does not say how. */
static void scale_rope(struct kt_settings *s, struct kt_engine_config *c)
{
    if (s->is_gguf || json_object_size(kt_settings_json(s, "rope_scaling")) > 0 ||
        json_object_size(kt_settings_json(s, "rope_parameters")) > 0)
        return;
    c->rope.scaling = KT_ROPE_YARN;
    c->rope.factor = 32;
    c->rope.original_positions = 4096;
    c->rope.no_truncate = 1;
    kt_engine_config_stretch(c);
}

static void read_gpt_oss(struct kt_settings *s, struct kt_engine_config *c)
{
    bool has_bias = kt_settings_flag(s, NULL, "attention_bias", true);
    c->attention.biases = has_bias ? KT_BIASES_ALL : KT_BIASES_NONE;
    c->attention.has_sinks = true;
    c->router.routing = KT_ROUTING_TOP;
    c->has_expert_biases = true;
    read_windows(s, c);
    check_swiglu(s);
    double base = kt_settings_real(s, "rope.freq_base_swa", NULL, c->rope.base);
    if (base != c->rope.base)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "rope.freq_base_swa is %g, and another base than %g is not computed", base,
                         c->rope.base);
    scale_rope(s, c);
    /* 3: softmax over those chosen. */
    uint64_t gating = kt_settings_uint(s, "expert_gating_func", NULL, 3);
    if (gating != 3 && gating != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "expert_gating_func is %u; only 3, softmax over those chosen, is computed",
                         (unsigned)gating);
    /* Its frequencies were interpolated without rounding, which a GGUF file has no key for. */
    if (s->is_gguf)
        c->rope.no_truncate = 1;
    if (c->n_experts == 0)
        kt_settings_fail(s, KT_E_FORMAT, "a model of this family without experts");
}

const struct kt_family kt_family_gpt_oss = {.name = "gpt-oss",
                                            .classes = " GptOssForCausalLM ",
                                            .names = {.norms[KT_NORM_BEFORE_FFN].gguf = "post_attention_norm",
                                                      .json_router = "mlp.router"},
                                            .read = read_gpt_oss};
