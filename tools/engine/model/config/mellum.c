/* SPDX-License-Identifier: Apache-2.0 */
/* mellum.c - Mellum: layers that slide have a rope of their own. */
#include "tools/engine/model/config/config.h"

static void read_mellum(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t fallback = kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
    if (s->is_gguf && window > 0)
        kt_engine_config_turns(s, c, window, 4);
    else if (!s->is_gguf)
        kt_engine_config_layer_types(s, c, window);
    c->attention.norm = KT_HEAD_NORM_EACH;
    kt_engine_config_biases(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", true);
    (void)kt_engine_config_mlp_types(s, c);
}

const struct kt_family kt_family_mellum = {.name = "mellum",
                                           .classes = " MellumForCausalLM ",
                                           .read = read_mellum,
                                           .ropes_by_type = true,
                                           .skips_mtp = true};
