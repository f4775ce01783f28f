/* SPDX-License-Identifier: Apache-2.0 */
/* minimax.c - MiniMax-M2: queries and keys are normed as whole vectors, part of a head is rotated, routers
 * are sigmoids. MiniMax-M3: heads are normed each, norms are stored less 1, networks clamp as gpt-oss does.
 */
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

/* Layers that see chosen blocks of keys only. Up to so many tokens as these have they would see all, but the
 * cache has none of what blocks are chosen by. */
static void refuse_sparse(struct kt_settings *s)
{
    static const char list[] = "sparse_attention_config/sparse_attention_freq";
    uint64_t n = kt_settings_json(s, "layer_types") ? 0 : kt_settings_count(s, NULL, list);
    for (uint64_t i = 0; i < n && s->status == KT_OK; i++)
        if (kt_settings_uint_at(s, NULL, list, i, 0) != 0)
            kt_settings_fail(s, KT_E_UNSUPPORTED,
                             "layer %" PRIu64
                             " attends to chosen blocks of keys (sparse_attention_freq), which "
                             "is not computed",
                             i);
}

static void read_dense_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    bool is_listed = kt_engine_config_mlp_types(s, c) || !kt_settings_json(s, "moe_layer_freq");
    (void)kt_settings_has(s, NULL, "moe_layer_freq");
    for (uint32_t i = 0; i < c->n_layers && !is_listed && s->status == KT_OK; i++)
        c->layers[i].dense = kt_engine_config_listed(s, c, NULL, "moe_layer_freq", i, 1) == 0;
}

static void read_m3(struct kt_settings *s, struct kt_engine_config *c)
{
    const double limit = kt_settings_real(s, NULL, "swiglu_limit", 7);
    const double alpha = kt_settings_real(s, NULL, "swiglu_alpha", 1.702);
    uint64_t rotated = kt_settings_uint(s, NULL, "rotary_dim", c->rope.size);
    refuse_sparse(s);
    if (rotated != c->rope.size) /* transformers would take the latter */
        kt_settings_fail(s, KT_E_UNSUPPORTED, "rotary_dim is %" PRIu64 ", partial_rotary_factor means %u",
                         rotated, c->rope.size);
    if (kt_settings_uint(s, NULL, "n_shared_experts", 1) != 1)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "n_shared_experts is not 1, which is not computed");
    if (!(limit > 0 && limit < 1e6) || !(alpha > 0 && alpha < 1e6))
        kt_settings_fail(s, KT_E_FORMAT, "a swiglu_limit of %g, a swiglu_alpha of %g", limit, alpha);
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.biases = KT_BIASES_NONE;
    c->norm_offset = 1;
    kt_engine_config_plain_sigmoids(s, c);
    c->router.scale = (float)kt_settings_real(s, NULL, "routed_scaling_factor", 2);
    read_dense_layers(s, c);
    c->has_shared = true;
    c->dense_width = kt_settings_uint(s, NULL, "dense_intermediate_size", 12288);
    c->shared_width = kt_settings_uint(s, NULL, "shared_intermediate_size", c->defaults->shared_width);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].clamp = (struct kt_clamp_config){.clamp = KT_CLAMP_OAI, .limit = limit, .alpha = alpha};
}

/* Of models that see images, and a block that predicts. */
static const char *const skipped[] = {"vision_tower.",
                                      "multi_modal_projector.",
                                      "patch_merge_mlp.",
                                      "model.vision_tower.",
                                      "model.multi_modal_projector.",
                                      "mtp.",
                                      NULL};

const struct kt_family kt_family_minimax_m3 = {.name = "minimax-m3-vl",
                                               .classes = " MiniMaxM3VLForCausalLM "
                                                          "MiniMaxM3SparseForConditionalGeneration ",
                                               .names = {.json_router = "block_sparse_moe.gate",
                                                         .json_correction =
                                                             "block_sparse_moe.e_score_correction_bias",
                                                         .json_shared = "block_sparse_moe.shared_experts",
                                                         .skipped = skipped},
                                               .read = read_m3,
                                               .skips_mtp = true};
