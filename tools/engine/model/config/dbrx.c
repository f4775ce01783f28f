/* SPDX-License-Identifier: Apache-2.0 */
/* dbrx.c - DBRX: LayerNorm without biases, queries, keys and values in one matrix and clipped, and names of
 * settings of its own. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <string.h>

static void read_router(struct kt_settings *s, struct kt_engine_config *c)
{
    char activation[32];
    bool is_null = kt_settings_is_null(s, "ffn_config/moe_normalize_expert_weights");
    double norm = is_null ? 0 : kt_settings_real(s, NULL, "ffn_config/moe_normalize_expert_weights", 1);
    c->router.routing = KT_ROUTING_SOFTMAX;
    c->router.normalizes = !is_null;
    if (norm != 1 && !is_null)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "moe_normalize_expert_weights is %g; 1 and null are computed",
                         norm);
    kt_settings_text(s, NULL, "ffn_config/ffn_act_fn/name", 0, activation, sizeof(activation));
    if (activation[0] && strcmp(activation, "silu") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the ffn_act_fn '%s' is not computed", activation);
}

/* transformers 5.24 does not read this place, and computes published models with the base of its default. */
static void read_base(struct kt_settings *s, struct kt_engine_config *c)
{
    double base = kt_settings_real(s, NULL, "attn_config/rope_theta", c->rope.base);
    bool says_both =
        kt_settings_has(s, NULL, "rope_theta") || kt_settings_has(s, NULL, "rope_scaling/rope_theta");
    if (says_both && base != c->rope.base)
        kt_settings_fail(s, KT_E_FORMAT, "attn_config says rope_theta is %g, and the file says %g besides",
                         base, c->rope.base);
    c->rope.base = base;
}

static void read_dbrx(struct kt_settings *s, struct kt_engine_config *c)
{
    double clip = kt_settings_real(s, "attention.clamp_kqv", "attn_config/clip_qkv", 0);
    c->attention.biases = KT_BIASES_NONE;
    c->attention.clip = (float)clip;
    c->norm = KT_NORM_LAYER;
    c->eps = (float)kt_settings_real(s, "attention.layer_norm_epsilon", NULL, 1e-5);
    if (kt_settings_has(s, "attention.layer_norm_rms_epsilon", NULL))
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "models of this family have attention.layer_norm_epsilon alone");
    read_base(s, c);
    read_router(s, c);
    if (!(clip >= 0 && clip < 1e6))
        kt_settings_fail(s, KT_E_FORMAT, "queries, keys and values are clipped to %g, which must be above 0",
                         clip);
}

static const struct kt_own_name own_names[] = {{"hidden_size", "d_model"},
                                               {"num_attention_heads", "n_heads"},
                                               {"num_hidden_layers", "n_layers"},
                                               {"max_position_embeddings", "max_seq_len"},
                                               {"num_key_value_heads", "attn_config/kv_n_heads"},
                                               {"moe_intermediate_size", "ffn_config/ffn_hidden_size"},
                                               {"num_experts", "ffn_config/moe_num_experts"},
                                               {"num_experts_per_tok", "ffn_config/moe_top_k"},
                                               {NULL, NULL}};

const struct kt_family kt_family_dbrx =
    {.name = "dbrx",
     .classes = " DbrxForCausalLM ",
     .own_names = own_names,
     .names = {.norms = {[KT_NORM_BEFORE_MIXER].json = "norm_attn_norm.norm_1",
                         [KT_NORM_BEFORE_FFN] = {"attn_output_norm", "norm_attn_norm.norm_2"}},
               .json_stem = "transformer.",
               .json_layers = "blocks",
               .json_final_norm = "norm_f",
               .json_embedding = "wte",
               .json_attention = "norm_attn_norm.attn",
               .json_joined = "Wqkv",
               .json_output = "out_proj",
               .json_router = "ffn.router.layer"},
     .layer_norms = true,
     .read = read_dbrx};
