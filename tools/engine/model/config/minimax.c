/* SPDX-License-Identifier: Apache-2.0 */
/* minimax.c - MiniMax-M2: queries and keys are normed as whole vectors, part of a head is rotated, routers
 * are sigmoids. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <string.h>

/* Its configuration has settings of other models of MiniMax, too. */
static void refuse_others(struct kt_settings *s)
{
    static const char *const betas[] = {"layernorm_full_attention_beta", "layernorm_linear_attention_beta",
                                        "layernorm_mlp_beta"};
    char type[32];
    kt_settings_text(s, NULL, "qk_norm_type", 0, type, sizeof(type));
    if (type[0] && strcmp(type, "per_layer") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the qk_norm_type '%s' is not computed, only 'per_layer' is",
                         type);
    if (!kt_settings_flag(s, NULL, "use_qk_norm", true) ||
        !kt_settings_flag(s, NULL, "use_routing_bias", true))
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "use_qk_norm and use_routing_bias must be true: else nothing is computed");
    for (size_t i = 0; i < sizeof(betas) / sizeof(betas[0]); i++)
        if (kt_settings_real(s, NULL, betas[i], 1) != 1)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s is not 1, which is not computed", betas[i]);
    uint64_t n = kt_settings_count(s, NULL, "attn_type_list");
    for (uint64_t i = 0; i < n && s->status == KT_OK; i++)
        if (kt_settings_uint_at(s, NULL, "attn_type_list", i, 1) != 1)
            kt_settings_fail(s, KT_E_UNSUPPORTED,
                             "layer %" PRIu64 " has another attention than 1, softmax (attn_type_list)", i);
}

static void read_minimax(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t rotated = kt_settings_uint(s, NULL, "rotary_dim", c->rope.size);
    if (c->rope.size != c->attention.head_size && rotated != c->rope.size)
        kt_settings_fail(s, KT_E_FORMAT, "rotary_dim is %" PRIu64 ", partial_rotary_factor means %u", rotated,
                         c->rope.size);
    if (rotated > c->attention.head_size)
        kt_settings_fail(s, KT_E_FORMAT, "%" PRIu64 " of %u numbers of a head are rotated", rotated,
                         c->attention.head_size);
    c->rope.size = (uint32_t)rotated;
    c->attention.norm = KT_HEAD_NORM_WHOLE;
    c->attention.biases = KT_BIASES_NONE;
    kt_engine_config_plain_sigmoids(s, c);
    if (!s->is_gguf)
        c->n_skipped = (uint32_t)(kt_settings_uint(s, NULL, "num_mtp_modules", 0) *
                                  kt_settings_uint(s, NULL, "mtp_transformer_layers", 1));
    if (kt_settings_uint(s, NULL, "num_expert_group", 1) > 1)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "groups of experts (num_expert_group) are not computed");
    if (!s->is_gguf)
        refuse_others(s);
}

const struct kt_family kt_family_minimax_m2 = {.name = "minimax-m2",
                                               .classes = " MiniMaxM2ForCausalLM ",
                                               .names = {.json_router = "block_sparse_moe.gate",
                                                         .json_correction =
                                                             "block_sparse_moe.e_score_correction_bias"},
                                               .read = read_minimax};
