/* SPDX-License-Identifier: Apache-2.0 */
/* sarvam.c - Sarvam with grouped queries: one matrix makes queries, keys and values. */
#include "tools/engine/model/config/config.h"

static void read_sarvam(struct kt_settings *s, struct kt_engine_config *c)
{
    c->attention.norm =
        kt_settings_flag(s, NULL, "use_qk_norm", true) ? KT_HEAD_NORM_EACH : KT_HEAD_NORM_NONE;
    if (!s->is_gguf &&
        !kt_settings_flag(s, NULL, "use_qkv_bias", kt_settings_flag(s, NULL, "attention_bias", false)))
        c->attention.biases = KT_BIASES_NONE;
    kt_engine_config_sigmoid_router(s, c);
    c->router.scale =
        (float)kt_settings_real(s, "expert_weights_scale", "routed_scaling_factor", s->is_gguf ? 1 : 2.5);
    kt_engine_config_dense_first(s, c,
                                 kt_settings_uint(s, "leading_dense_block_count", "first_k_dense_replace",
                                                  c->defaults->n_dense));
    kt_engine_config_shared(s, c);
}

const struct kt_family kt_family_sarvam = {.name = "sarvam-moe",
                                           .classes = " SarvamMoEForCausalLM ",
                                           .names = {.json_embedding = "word_embeddings",
                                                     .json_attention = "attention",
                                                     .json_output = "dense",
                                                     .json_joined = "query_key_value",
                                                     .json_query_norm = "query_layernorm",
                                                     .json_key_norm = "key_layernorm",
                                                     .json_correction = "mlp.gate.expert_bias"},
                                           .skips_mtp = true,
                                           .read = read_sarvam};
