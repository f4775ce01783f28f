/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - what several families have and others have not: windows by layer, dense layers before those of
 * experts, routers of sigmoids, layers that predict further tokens. */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void kt_engine_config_dense_first(struct kt_settings *s, struct kt_engine_config *c, uint64_t n)
{
    if (n > c->n_layers)
        kt_settings_fail(s, KT_E_FORMAT, "%" PRIu64 " dense layers of %u", n, c->n_layers);
    for (uint64_t i = 0; i < n && i < c->n_layers; i++)
        c->layers[i].dense = true;
}

bool kt_engine_config_layer_types(struct kt_settings *s, struct kt_engine_config *c, uint64_t window)
{
    uint64_t n = kt_settings_count(s, NULL, "layer_types");
    if (n == 0)
        return false;
    if (n != c->n_layers && n != (uint64_t)c->n_layers + c->n_skipped)
        kt_settings_fail(s, KT_E_FORMAT, "layer_types names %" PRIu64 " layers, there are %u", n,
                         c->n_layers);
    for (uint32_t i = 0; i < c->n_layers + (n > c->n_layers) && s->status == KT_OK; i++) {
        char type[32];
        kt_settings_text(s, NULL, "layer_types", i, type, sizeof(type));
        bool slides = strcmp(type, "sliding_attention") == 0;
        if (s->status == KT_OK && !slides && strcmp(type, "full_attention") != 0)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "layer %u is of the type '%s', which is not computed", i,
                             type);
        if (slides && window == 0)
            kt_settings_fail(s, KT_E_FORMAT, "layer %u is of the type '%s', but there is no sliding_window",
                             i, type);
        c->layers[i].window = slides ? window : 0;
    }
    return true;
}

bool kt_engine_config_slides(struct kt_settings *s, uint32_t layer, uint64_t fallback)
{
    static const char gguf[] = "attention.sliding_window_pattern", json[] = "sliding_window_pattern";
    if (kt_settings_is_list(s, gguf))
        return kt_settings_flag_at(s, gguf, layer);
    uint64_t n = kt_settings_uint(s, gguf, json, fallback);
    return n == 0 || layer % n < n - 1;
}

void kt_engine_config_turns(struct kt_settings *s, struct kt_engine_config *c, uint64_t window,
                            uint64_t pattern)
{
    if (kt_engine_config_layer_types(s, c, window)) {
        (void)kt_settings_has(s, NULL, "sliding_window_pattern");
        return;
    }
    uint64_t n = kt_settings_count(s, "attention.sliding_window_pattern", NULL);
    for (uint32_t i = 0; i < c->n_layers + (n > c->n_layers); i++)
        c->layers[i].window = kt_engine_config_slides(s, i, pattern) ? window : 0;
}

void kt_engine_config_windows(struct kt_settings *s, struct kt_engine_config *c, uint64_t pattern)
{
    uint64_t fallback = s->is_gguf || kt_settings_is_null(s, "sliding_window") ? 0 : c->defaults->window;
    uint64_t window = kt_settings_uint(s, "attention.sliding_window", "sliding_window", fallback);
    kt_engine_config_turns(s, c, window, pattern);
}

void kt_engine_config_unrotated(struct kt_engine_config *c, bool always)
{
    bool slides_any = always;
    for (uint32_t i = 0; i < c->n_layers; i++)
        slides_any |= c->layers[i].window > 0;
    for (uint32_t i = 0; i < c->n_layers && slides_any; i++)
        if (c->layers[i].window == 0)
            c->layers[i].rope = KT_LAYER_ROPE_NONE;
}

double kt_engine_config_listed(struct kt_settings *s, const struct kt_engine_config *c, const char *gguf,
                               const char *json, uint32_t layer, double fallback)
{
    const json_t *value = kt_settings_json(s, json ? json : "");
    uint64_t n = kt_settings_count(s, gguf, json);
    if (value && !json_is_array(value))
        kt_settings_fail(s, KT_E_FORMAT, "%s is not a list", json);
    if (n > 1 && n != c->n_layers && n != (uint64_t)c->n_layers + c->n_skipped)
        kt_settings_fail(s, KT_E_FORMAT, "%s has %" PRIu64 " numbers for %u layers", s->is_gguf ? gguf : json,
                         n, c->n_layers);
    return kt_settings_real_at(s, gguf, json, layer, fallback);
}

double kt_engine_config_of_type(struct kt_settings *s, const struct kt_engine_config *c, const char *json,
                                double fallback)
{
    const json_t *value = kt_settings_json(s, json);
    if (!json_is_array(value))
        return kt_settings_real(s, NULL, json, fallback);
    double found = kt_engine_config_listed(s, c, NULL, json, 0, fallback);
    bool has_one = false;
    for (uint32_t i = 0; i < c->n_layers && s->status == KT_OK; i++) {
        char type[32] = "full_attention";
        if (kt_settings_json(s, "layer_types"))
            kt_settings_text(s, NULL, "layer_types", i, type, sizeof(type));
        if (strcmp(type, s->rope_part) != 0)
            continue;
        double number = kt_engine_config_listed(s, c, NULL, json, i, fallback);
        if (has_one && number != found)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "%s has %g and %g for layers of the type '%s'", json, found,
                             number, type);
        found = number;
        has_one = true;
    }
    return found;
}

bool kt_engine_config_mlp_types(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t n = kt_settings_count(s, NULL, "mlp_layer_types");
    if (n > 0 && n != c->n_layers && n != (uint64_t)c->n_layers + c->n_skipped)
        kt_settings_fail(s, KT_E_FORMAT, "mlp_layer_types has %" PRIu64 " layers of %u", n, c->n_layers);
    for (uint32_t i = 0; i < n && i < c->n_layers && s->status == KT_OK; i++) {
        char type[16];
        kt_settings_text(s, NULL, "mlp_layer_types", i, type, sizeof(type));
        c->layers[i].dense = strcmp(type, "dense") == 0;
        if (!c->layers[i].dense && strcmp(type, "sparse") != 0)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "the kind '%s' of layer %u is not computed", type, i);
    }
    return n > 0;
}

void kt_engine_config_heads(struct kt_settings *s, struct kt_engine_config *c, const char *json)
{
    uint64_t n = kt_settings_count(s, NULL, json);
    if (n > 0 && n < c->n_layers)
        kt_settings_fail(s, KT_E_FORMAT, "%s names %" PRIu64 " layers of %u", json, n, c->n_layers);
    uint64_t listed = kt_settings_count(s, "attention.head_count", json);
    bool has_block = c->has_mtp && listed > c->n_layers;
    for (uint32_t i = 0; i < c->n_layers + has_block && s->status == KT_OK; i++) {
        struct kt_attention_config *a = &c->layers[i].attention;
        uint64_t heads = kt_settings_uint_at(s, "attention.head_count", json, i, a->n_heads);
        uint64_t keys = kt_settings_uint_at(s, "attention.head_count_kv", NULL, i, a->n_kv_heads);
        a->n_heads = heads < UINT32_MAX ? (uint32_t)heads : 0;
        a->n_kv_heads = keys < UINT32_MAX ? (uint32_t)keys : 0;
    }
}

void kt_engine_config_need_rope(struct kt_settings *s)
{
    if (!s->is_gguf && !kt_settings_json(s, "rope_scaling") && !kt_settings_json(s, "rope_parameters"))
        kt_settings_fail(s, KT_E_FORMAT, "rope_scaling is missing");
}

void kt_engine_config_growth(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_growth_config *g = &c->attention.growth;
    g->rate = kt_settings_real(s, "attention.temperature_scale", "rope_scaling/llama_4_scaling_beta", 0);
    g->length = kt_settings_real(s, "attention.temperature_length",
                                 "rope_scaling/original_max_position_embeddings", 0);
    g->growth = g->rate != 0 ? KT_GROWTH_LOG : KT_GROWTH_NONE;
    if (g->rate != 0 && !(g->length > 0))
        kt_settings_fail(s, KT_E_FORMAT, "%s is %g, and %s is missing or 0",
                         s->is_gguf ? "attention.temperature_scale" : "llama_4_scaling_beta", g->rate,
                         s->is_gguf ? "attention.temperature_length" : "original_max_position_embeddings");
}

void kt_engine_config_biases(struct kt_settings *s, struct kt_engine_config *c)
{
    if (!s->is_gguf && !kt_settings_flag(s, NULL, "attention_bias", false))
        c->attention.biases = KT_BIASES_NONE;
}

void kt_engine_config_stretch_base(struct kt_engine_config *c, double alpha)
{
    double size = c->rope.size;
    if (alpha > 0 && size > 2)
        c->rope.base *= pow(alpha, size / (size - 2));
}

/* ---- routers ---- */

static void expect_sigmoid(struct kt_settings *s)
{
    const uint64_t sigmoid = 2; /* 1: softmax over all experts, 3: over those chosen */
    char function[32];
    uint64_t number = kt_settings_uint(s, "expert_gating_func", NULL, sigmoid);
    kt_settings_text(s, NULL, "scoring_func", 0, function, sizeof(function));
    if (number != sigmoid)
        kt_settings_fail(s, KT_E_UNSUPPORTED,
                         "expert_gating_func %" PRIu64 ", and only %" PRIu64 ", sigmoid, is computed", number,
                         sigmoid);
    if (function[0] && strcmp(function, "sigmoid") != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the scoring_func '%s' is not computed, only 'sigmoid' is",
                         function);
}

void kt_engine_config_plain_sigmoids(struct kt_settings *s, struct kt_engine_config *c)
{
    expect_sigmoid(s);
    c->router.routing = KT_ROUTING_SIGMOID;
    c->router.has_correction = true;
    c->router.normalizes = true;
}

void kt_engine_config_sigmoid_router(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_router_config *r = &c->router;
    double scale = kt_settings_real(s, "expert_weights_scale", "routed_scaling_factor", 1);
    kt_engine_config_plain_sigmoids(s, c);
    r->normalizes = kt_settings_flag(s, "expert_weights_norm", "norm_topk_prob", !s->is_gguf);
    r->scale = (float)scale;
    r->n_groups = (uint32_t)kt_settings_uint(s, "expert_group_count", "n_group", 1);
    r->top_groups =
        (uint32_t)kt_settings_uint(s, "expert_group_used_count", "topk_group", s->is_gguf ? 0 : 1);
    if (!(scale > 0 && scale < 1e6))
        kt_settings_fail(s, KT_E_FORMAT, "weights of experts are multiplied by %g", scale);
}

void kt_engine_config_shared(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const names[] = {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"};
    uint64_t n = kt_settings_uint(s, "expert_shared_count", NULL, c->defaults->n_shared);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !s->is_gguf; i++)
        n = kt_settings_is_null(s, names[i]) ? 0 : kt_settings_uint(s, NULL, names[i], n);
    uint64_t width = kt_settings_uint(s, "expert_feed_forward_length", "moe_intermediate_size", 0);
    if (n > 64 || width > 1 << 24)
        kt_settings_fail(s, KT_E_FORMAT, "%" PRIu64 " shared experts of %" PRIu64 " numbers", n, width);
    c->has_shared = n > 0;
    c->shared_width = kt_settings_uint(s, "expert_shared_feed_forward_length", NULL, n * width);
}

/* ---- norms and factors ---- */

void kt_engine_config_norms(struct kt_engine_config *c, uint32_t norms)
{
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].norms = norms;
}

void kt_engine_config_factors(struct kt_settings *s, struct kt_engine_config *c, const char *gguf,
                              const char *json)
{
    double factor = kt_settings_real(s, gguf, json, 1);
    for (uint32_t i = 0; i < c->n_layers; i++)
        for (int half = 0; half < KT_HALVES; half++)
            c->layers[i].residual[half].add = (float)factor;
    if (factor == 0)
        kt_settings_fail(s, KT_E_FORMAT, "%s is 0", s->is_gguf ? gguf : json);
}

void kt_engine_config_divide_logits(struct kt_settings *s, struct kt_engine_config *c, const char *gguf,
                                    const char *json)
{
    double divisor = kt_settings_real(s, gguf, json, 1);
    c->logits_scale = (float)(1 / divisor);
    if (divisor == 0)
        kt_settings_fail(s, KT_E_FORMAT, "%s is 0", s->is_gguf ? gguf : json);
}

void kt_engine_config_scale_embedding(struct kt_engine_config *c)
{
    c->embedding_scale = (float)sqrt((double)c->hidden_size);
}

void kt_engine_config_scale_queries(struct kt_settings *s, struct kt_engine_config *c, const char *json,
                                    double fallback)
{
    double size = kt_settings_real(s, NULL, json, fallback);
    c->attention.scale = (float)(1 / sqrt(size));
    if (!(size > 0 && size < 1e6))
        kt_settings_fail(s, KT_E_FORMAT, "%s is %g, which must be above 0", json, size);
}

void kt_engine_config_cap_logits(struct kt_settings *s, struct kt_engine_config *c, double fallback)
{
    double cap = kt_settings_real(s, "final_logit_softcapping", "final_logit_softcapping",
                                  kt_settings_is_null(s, "final_logit_softcapping") ? 0 : fallback);
    c->logits_cap = (float)cap;
    if (!(cap >= 0 && cap < 1e6))
        kt_settings_fail(s, KT_E_FORMAT, "final_logit_softcapping is %g, which must be 0 or more", cap);
}

/* ---- layers behind the last one ---- */

static bool has_tensor(const struct kt_settings *s, const char *name)
{
    uint64_t index;
    return s->checkpoint && kt_checkpoint_find(s->checkpoint, name, &index, NULL) == KT_OK;
}

/* Of blocks of models with experts, too, where it has no router. */
static bool has_dense_block(const struct kt_settings *s, const struct kt_engine_config *c)
{
    const struct kt_family_names *names = &c->family->names;
    const char *router = names->json_router ? names->json_router : "mlp.gate";
    char gate[96], network[96];
    (void)snprintf(gate, sizeof(gate), "%s%s%u.%s.weight", s->is_gguf ? "" : c->json_stem,
                   s->is_gguf ? "blk." : "layers.", c->n_layers, s->is_gguf ? "ffn_gate_inp" : router);
    (void)snprintf(network, sizeof(network), "%s%s%u.%s.weight", s->is_gguf ? "" : c->json_stem,
                   s->is_gguf ? "blk." : "layers.", c->n_layers, s->is_gguf ? "ffn_gate" : "mlp.gate_proj");
    return c->n_experts == 0 || (!has_tensor(s, gate) && has_tensor(s, network));
}

void kt_engine_config_find_mtp(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_layer_config *layer = &c->layers[c->n_layers];
    char joint[64];
    bool named = !s->is_gguf && c->family->names.json_mtp;
    (void)snprintf(joint, sizeof(joint), "%s%s%u.%seh_proj.weight", s->is_gguf ? "" : c->json_stem,
                   s->is_gguf ? "blk." : "layers.", c->n_layers, s->is_gguf ? "nextn." : "");
    c->has_mtp = named ? has_tensor(s, "mtp.fc.weight") : c->n_skipped > 0 && has_tensor(s, joint);
    /* It stands a token behind, and only differences of positions count in it. */
    c->has_mtp = c->has_mtp && !c->family->skips_mtp && c->attention.growth.growth == KT_GROWTH_NONE;
    layer->mixer = c->latent.kv_rank ? KT_MIXER_LATENT : KT_MIXER_ATTENTION;
    layer->dense = c->block_is_dense || (named ? c->n_experts == 0 : has_dense_block(s, c));
    layer->attention = c->attention;
    layer->norms = KT_NORMS_BEFORE;
    layer->rope = c->family->ropes_by_type && layer->window > 0 ? KT_LAYER_ROPE_WINDOW : KT_LAYER_ROPE;
}

void kt_engine_config_check_skipped(struct kt_settings *s, struct kt_engine_config *c)
{
    char norm[48], joint[64];
    uint64_t n_blocks = kt_settings_uint(s, "block_count", "num_hidden_layers", 0);
    if (c->n_skipped > 64 || (s->is_gguf && c->n_skipped >= n_blocks))
        kt_settings_fail(s, KT_E_FORMAT, "%u of %" PRIu64 " layers predict tokens after the next",
                         c->n_skipped, n_blocks);
    if (!s->is_gguf || c->n_skipped == 0)
        return;
    snprintf(norm, sizeof(norm), "blk.%u.attn_norm.weight", c->n_layers);
    snprintf(joint, sizeof(joint), "blk.%u.nextn.eh_proj.weight", c->n_layers);
    if (has_tensor(s, norm) && !has_tensor(s, joint))
        kt_settings_fail(s, KT_E_FORMAT,
                         "nextn_predict_layers is %u, but block %u is no such layer: %s is missing",
                         c->n_skipped, c->n_layers, joint);
}
