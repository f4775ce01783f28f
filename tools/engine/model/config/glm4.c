/* SPDX-License-Identifier: Apache-2.0 */
/* glm4.c - GLM-4 without experts: neighbors are rotated in half of a head, gate and up are one matrix, and
 * what mixers and networks give is normed, too. */
#include "tools/engine/model/config/config.h"

static void read_glm4(struct kt_settings *s, struct kt_engine_config *c)
{
    bool has_bias = kt_settings_flag(s, NULL, "attention_bias", true);
    c->attention.biases = s->is_gguf ? KT_BIASES_ANY : has_bias ? KT_BIASES_QKV : KT_BIASES_NONE;
    kt_engine_config_norms(c, KT_NORMS_AROUND);
}

const struct kt_family kt_family_glm4 = {.name = "glm4",
                                         .classes = " Glm4ForCausalLM ",
                                         .gguf_pairing = KT_ROPE_NORM,
                                         .json_pairing = KT_ROPE_NORM,
                                         .names = {.norms = {[KT_NORM_AFTER_MIXER].json =
                                                                 "post_self_attn_layernorm",
                                                             [KT_NORM_BEFORE_FFN].json =
                                                                 "post_attention_layernorm",
                                                             [KT_NORM_AFTER_FFN].json = "post_mlp_layernorm"},
                                                   .json_both = "gate_up_proj",
                                                   .gguf_both = true},
                                         .skips_mtp = true,
                                         .read = read_glm4};
