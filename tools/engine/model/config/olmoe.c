/* SPDX-License-Identifier: Apache-2.0 */
/* olmoe.c - OLMoE: queries and keys are normed whole, and may be clipped. */
#include "tools/engine/model/config/config.h"

static void read_olmoe(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.norm = KT_HEAD_NORM_WHOLE;
    c->attention.clip = (float)kt_settings_real(s, "attention.clamp_kqv", "clip_qkv", 0);
    kt_engine_config_biases(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", false);
}

const struct kt_family kt_family_olmoe = {.name = "olmoe",
                                          .classes = " OlmoeForCausalLM ",
                                          .read = read_olmoe};
