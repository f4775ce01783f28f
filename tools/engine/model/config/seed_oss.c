/* SPDX-License-Identifier: Apache-2.0 */
/* seed_oss.c - Seed-OSS: biases of queries, keys and values. */
#include "tools/engine/model/config/config.h"

static void read_seed_oss(struct kt_settings *s, struct kt_engine_config *c)
{
    bool qkv = kt_settings_flag(s, NULL, "attention_bias", true);
    bool output = kt_settings_flag(s, NULL, "attention_out_bias", false);
    if (!s->is_gguf)
        c->attention.biases = output ? KT_BIASES_ALL : qkv ? KT_BIASES_QKV : KT_BIASES_NONE;
    if (output && !qkv)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "attention_out_bias without attention_bias is not computed");
    c->has_mlp_biases = kt_settings_flag(s, NULL, "mlp_bias", false);
}

const struct kt_family kt_family_seed_oss = {.name = "seed_oss",
                                             .classes = " SeedOssForCausalLM ",
                                             .names = {.norms[KT_NORM_BEFORE_FFN].gguf =
                                                           "post_attention_norm"},
                                             .read = read_seed_oss};
