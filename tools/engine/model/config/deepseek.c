/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deepseek.c - models of multi-head latent attention: DeepSeek V2 and V3 (R1, V3.1), Kimi K2, GLM 4.7 Flash
 * and Sarvam's large one, which are one architecture in GGUF files, and Mistral Small 4.
 */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_v2(const struct kt_settings *s)
{
    return !s->is_gguf && strcmp(s->architecture, "DeepseekV2ForCausalLM") == 0;
}

static bool is_mistral4(const struct kt_settings *s)
{
    return strcmp(s->architecture, s->is_gguf ? "mistral4" : "Mistral4ForCausalLM") == 0;
}

/* ---- attention ---- */

static void read_attention(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_latent(s, c);
    if (!is_v2(s) && !kt_settings_flag(s, NULL, "rope_interleave", true))
        c->pairing = KT_ROPE_NEOX;
    /* Converters write 0.1 mscale_all_dim and leave mscale out, which is the same in all models. */
    double multiplier = kt_settings_real(s, "rope.scaling.yarn_log_multiplier", NULL, 0);
    if (s->is_gguf && c->rope.scaling == KT_ROPE_YARN)
        c->rope.mscale = c->rope.mscale_all_dim = 10 * multiplier;
    if (is_mistral4(s))
        kt_engine_config_need_rope(s);
    if (is_mistral4(s) || s->is_gguf) /* of Mistral Large 3 */
        kt_engine_config_growth(s, c);
    kt_engine_config_biases(s, c);
}

/* ---- experts ---- */

/* Groups that older converters left out, by the sizes of the only models that have them: V3 and V2. */
static void guess_groups(struct kt_engine_config *c)
{
    bool is_sigmoid = c->router.routing == KT_ROUTING_SIGMOID;
    bool v3 = is_sigmoid && c->n_experts == 256 && c->hidden_size == 7168;
    bool v2 = !is_sigmoid && c->n_experts == 160 && c->hidden_size == 5120;
    if (v3 || v2) {
        c->router.n_groups = 8;
        c->router.top_groups = v3 ? 4 : 3;
    }
}

/* A tensor of the first layer with experts. */
static bool has_correction(struct kt_settings *s, const struct kt_engine_config *c)
{
    uint64_t index;
    char name[64];
    uint32_t layer = 0;
    while (layer + 1 < c->n_layers && c->layers[layer].dense)
        layer++;
    snprintf(name, sizeof(name), "blk.%u.exp_probs_b.bias", layer);
    return kt_checkpoint_find(s->checkpoint, name, &index, NULL) == KT_OK;
}

/* Files that do not say how experts are weighted are older than those with the sigmoid, but for some of
 * GLM's; only the sigmoid goes with a correction. */
static void read_gguf_router(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_router_config *r = &c->router;
    r->has_correction = has_correction(s, c);
    uint64_t gating = kt_settings_uint(s, "expert_gating_func", NULL, r->has_correction ? 2 : 1);
    if (gating != 1 && gating != 2)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "expert_gating_func is %" PRIu64 "; 1, softmax, and 2, sigmoid, are computed",
                         gating);
    r->routing = gating == 2 ? KT_ROUTING_SIGMOID : KT_ROUTING_SOFTMAX;
    r->normalizes = kt_settings_flag(s, "expert_weights_norm", NULL, false);
    r->scale = (float)kt_settings_real(s, "expert_weights_scale", NULL, 1);
    if (!kt_settings_has(s, "expert_group_count", NULL))
        guess_groups(c);
}

static void expect_text(struct kt_settings *s, const char *name, const char *wanted)
{
    char text[40];
    kt_settings_text(s, NULL, name, 0, text, sizeof(text));
    if (text[0] && strcmp(text, wanted) != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the %s '%s' of %s is not computed, only '%s' is", name, text,
                         s->architecture, wanted);
}

/* V2 has groups where its method says so only. */
static void read_v2_router(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_router_config *r = &c->router;
    char method[40];
    expect_text(s, "scoring_func", "softmax");
    kt_settings_text(s, NULL, "topk_method", 0, method, sizeof(method));
    if (strcmp(method, "group_limited_greedy") != 0) {
        r->n_groups = r->top_groups = 0;
        if (method[0] && strcmp(method, "greedy") != 0)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "the topk_method '%s' is not computed", method);
    }
    r->routing = KT_ROUTING_SOFTMAX;
    r->scale = (float)kt_settings_real(s, NULL, "routed_scaling_factor", 1);
    r->normalizes = false;
    /* Of the two programs that define the family, one ignores it and the other drops the factor then. */
    if (kt_settings_flag(s, NULL, "norm_topk_prob", false))
        kt_settings_fail(s, KT_E_UNSUPPORTED, "norm_topk_prob is not computed for DeepseekV2ForCausalLM");
}

static void read_v3_router(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const needed[] = {"routed_scaling_factor", "n_group", "topk_group"};
    struct kt_router_config *r = &c->router;
    expect_text(s, "scoring_func", "sigmoid");
    expect_text(s, "topk_method", "noaux_tc");
    r->routing = KT_ROUTING_SIGMOID;
    r->has_correction = true;
    r->normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", true);
    bool is_sarvam = strcmp(s->architecture, "SarvamMLAForCausalLM") == 0; /* which has defaults of them */
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]) && !is_sarvam; i++)
        if (!kt_settings_has(s, NULL, needed[i]))
            kt_settings_fail(s, KT_E_FORMAT, "%s is missing", needed[i]);
    r->scale = (float)kt_settings_real(s, NULL, "routed_scaling_factor", 2.5);
}

static void read_mistral4_router(struct kt_settings *s, struct kt_engine_config *c)
{
    c->router.routing = KT_ROUTING_SOFTMAX;
    c->router.normalizes = kt_settings_flag(s, NULL, "norm_topk_prob", true);
    c->router.scale = (float)kt_settings_real(s, NULL, "routed_scaling_factor", 1);
}

static void read_router(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_router_config *r = &c->router;
    r->n_groups =
        (uint32_t)kt_settings_uint(s, "expert_group_count", "n_group", s->is_gguf || is_v2(s) ? 0 : 1);
    r->top_groups = (uint32_t)kt_settings_uint(s, "expert_group_used_count", "topk_group",
                                               s->is_gguf || is_v2(s) ? 0 : 1);
    if (s->is_gguf)
        read_gguf_router(s, c);
    else if (is_v2(s))
        read_v2_router(s, c);
    else if (is_mistral4(s))
        read_mistral4_router(s, c);
    else
        read_v3_router(s, c);
    r->group_score = r->routing == KT_ROUTING_SIGMOID || is_mistral4(s) ? KT_GROUP_BEST_TWO : KT_GROUP_BEST;
    kt_engine_config_shared(s, c);
}

/* Later files of GLM list what each layer has. */
static void read_dense(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t first = kt_settings_uint(s, "leading_dense_block_count", "first_k_dense_replace",
                                      c->n_experts > 0 ? c->defaults->n_dense : 0);
    if (!kt_engine_config_mlp_types(s, c))
        kt_engine_config_dense_first(s, c, first);
}

void kt_engine_config_deepseek(struct kt_settings *s, struct kt_engine_config *c)
{
    read_attention(s, c);
    c->has_mlp_biases = is_v2(s) && kt_settings_flag(s, NULL, "mlp_bias", false);
    read_dense(s, c);
    if (c->n_experts > 0)
        read_router(s, c);
}

/* Of models that see images. */
static const char *const skipped[] = {"vision_tower.", "mm_projector.", NULL};

const struct kt_family kt_family_deepseek = {.name = "deepseek2",
                                             .classes = " DeepseekV3ForCausalLM DeepseekV2ForCausalLM "
                                                        "Glm4MoeLiteForCausalLM SarvamMLAForCausalLM "
                                                        "KimiK25ForConditionalGeneration ",
                                             .gguf_pairing = KT_ROPE_NORM,
                                             .json_pairing = KT_ROPE_NORM,
                                             .names = {.skipped = skipped},
                                             .read = kt_engine_config_deepseek};
/* What experts give is normed. */
static void read_axk1(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_deepseek(s, c);
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].norms |= c->layers[i].dense ? 0 : 1U << KT_NORM_AFTER_FFN;
}

/* llama.cpp has no such files. */
const struct kt_family kt_family_axk1 = {.name = "axk1",
                                         .classes = " AXK1ForCausalLM ",
                                         .json_pairing = KT_ROPE_NORM,
                                         .names = {.norms[KT_NORM_AFTER_FFN].json = "post_mlp_layernorm",
                                                   .json_needless = ".post_mlp_layernorm."},
                                         .read = read_axk1};
const struct kt_family kt_family_mistral4 = {.name = "mistral4",
                                             .classes = " Mistral4ForCausalLM ",
                                             .gguf_pairing = KT_ROPE_NORM,
                                             .json_pairing = KT_ROPE_NORM,
                                             .read = kt_engine_config_deepseek};
