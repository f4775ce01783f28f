/* SPDX-License-Identifier: Apache-2.0 */
/* afmoe.c - Arcee's Trinity: norms around attention and networks, layers that see all tokens are not rotated,
 * and gates multiply what attention gives. */
#include "tools/engine/model/config/config.h"

static void read_afmoe(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_biases(s, c);
    kt_engine_config_norms(c, KT_NORMS_AROUND);
    kt_engine_config_windows(s, c, kt_settings_uint(s, NULL, "global_attn_every_n_layers", 4));
    kt_engine_config_sigmoid_router(s, c);
    c->router.normalizes = kt_settings_flag(s, "expert_weights_norm", NULL, !s->is_gguf);
    c->router.scale = (float)kt_settings_real(s, "expert_weights_scale", "route_scale", 1);
    kt_engine_config_shared(s, c);
    kt_engine_config_dense_first(s, c,
                                 kt_settings_uint(s, "leading_dense_block_count", "num_dense_layers",
                                                  c->defaults->n_dense));
    /* llama.cpp has no key for it, and takes it for true. */
    if (kt_settings_flag(s, NULL, "mup_enabled", s->is_gguf))
        kt_engine_config_scale_embedding(c);
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.gate = KT_OUTPUT_GATE_ELEMENTS;
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_unrotated(c, !s->is_gguf);
}

const struct kt_family kt_family_afmoe = {.name = "afmoe",
                                          .classes = " AfmoeForCausalLM ",
                                          .names = {.norms = {[KT_NORM_BEFORE_FFN].json = "pre_mlp_layernorm",
                                                              [KT_NORM_AFTER_FFN].json =
                                                                  "post_mlp_layernorm"},
                                                    .json_router = "mlp.router.gate",
                                                    .json_correction = "mlp.expert_bias",
                                                    .json_gate = "gate_proj"},
                                          .read = read_afmoe,
                                          .read_layers = read_layers};
