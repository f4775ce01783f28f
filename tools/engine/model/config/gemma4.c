/* SPDX-License-Identifier: Apache-2.0 */
/* gemma4.c - Gemma 4: layers without a window have heads of another size and rotate a part of their pairs,
 * values are normed, experts stand beside a dense network, with norms of their own, and whole layers are
 * scaled. */
#include "tools/engine/model/config/config.h"

#include <stdio.h>
#include <string.h>

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    const uint32_t own = 1U << KT_NORM_AFTER_DENSE | 1U << KT_NORM_BEFORE_EXPERTS |
                         1U << KT_NORM_AFTER_EXPERTS | 1U << KT_NORM_ROUTER;
    if (!s->is_gguf) {
        if (!kt_settings_flag(s, NULL, "enable_moe_block", false))
            c->n_experts = 0;
        else if (c->n_experts == 0)
            kt_settings_fail(s, KT_E_FORMAT, "enable_moe_block is true, but there is no num_experts");
        c->top_k = c->n_experts ? (uint32_t)kt_settings_need(s, NULL, "top_k_experts") : 0;
    }
    kt_engine_config_norms(c, KT_NORMS_AROUND | (c->n_experts ? own : 0));
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].dense = c->n_experts == 0;
    c->has_dense_beside = c->n_experts > 0;
    c->router.scales_input = true;
    c->router.has_expert_scales = !s->is_gguf; /* GGUF files have them with the experts */
}

/* Of `old` numbers the part that is rotated; ropes that are not scaled ignore partial_rotary_factor. */
static void size_ropes(struct kt_engine_config *c, uint32_t old)
{
    const uint32_t own = c->attention.head_size;
    if (old == 0)
        return;
    c->rope.size = c->rope.scaling == KT_ROPE_PLAIN ? own : (uint32_t)((uint64_t)c->rope.size * own / old);
    if (c->window_rope.scaling == KT_ROPE_PLAIN)
        c->window_rope.size = old;
}

static void read_ropes(struct kt_settings *s, struct kt_engine_config *c)
{
    const json_t *ropes = kt_settings_json(s, "rope_parameters");
    const json_t *own = json_object_get(json_object_get(ropes, "sliding_attention"), "rope_theta");
    double base = kt_settings_real(s, "rope.freq_base_swa", NULL, 1e4);
    if (!own)
        c->window_rope.base = base;
    if (!s->is_gguf && !ropes)
        c->proportional = 0.25;
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->layers[i].rope = c->layers[i].window > 0 ? KT_LAYER_ROPE_WINDOW : KT_LAYER_ROPE;
}

/* The last layers have keys and values of the last one of their type before them. */
static void share_keys(struct kt_settings *s, struct kt_engine_config *c)
{
    uint64_t n = kt_settings_uint(s, "attention.shared_kv_layers", "num_kv_shared_layers", 0);
    uint32_t last[2] = {0, 0}, first = n < c->n_layers ? c->n_layers - (uint32_t)n : 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        bool is_full = c->layers[i].window == 0;
        if (i < first)
            last[is_full] = i + 1;
        else
            c->layers[i].shares = last[is_full];
        if (i >= first && last[is_full] == 0)
            kt_settings_fail(s, KT_E_FORMAT,
                             "layer %u shares keys and values, but no layer before it has "
                             "such ones",
                             i);
    }
    /* These have networks that are twice as wide. */
    if (kt_settings_flag(s, NULL, "use_double_wide_mlp", false))
        c->dense_width = 0;
}

static void read_gemma4(struct kt_settings *s, struct kt_engine_config *c)
{
    char bidirectional[16];
    kt_settings_text(s, NULL, "use_bidirectional_attention", 0, bidirectional, sizeof(bidirectional));
    if (strcmp(bidirectional, "all") == 0) /* "vision": only tokens of images see later ones */
        kt_settings_fail(s, KT_E_UNSUPPORTED, "use_bidirectional_attention 'all' is not computed");
    c->input_size = (uint32_t)kt_settings_uint(s, "embedding_length_per_layer_input",
                                               "hidden_size_per_layer_input", s->is_gguf ? 0 : 256);
    kt_engine_config_biases(s, c);
    kt_engine_config_scale_embedding(c);
    kt_engine_config_windows(s, c, 6);
    kt_engine_config_cap_logits(s, c, 0);
    if (!s->is_gguf) {
        const uint32_t old = c->attention.head_size;
        c->layers[c->n_layers - 1].window = 0;
        c->attention.head_size = (uint32_t)kt_settings_uint(s, NULL, "global_head_dim", 512);
        size_ropes(c, old);
    }
    c->attention.norm = KT_HEAD_NORM_EACH;
    c->attention.norms_values = true;
    c->attention.scale = 1;
    c->gating = KT_GATING_GELU;
    c->has_layer_scales = true;
    read_experts(s, c);
    read_ropes(s, c);
    share_keys(s, c);
}

static bool has_values(const struct kt_settings *s, uint32_t layer)
{
    uint64_t index;
    char name[48];
    snprintf(name, sizeof(name), "blk.%u.attn_v.weight", layer);
    return kt_checkpoint_find(s->checkpoint, name, &index, NULL) == KT_OK;
}

static void read_layers(struct kt_settings *s, struct kt_engine_config *c)
{
    uint32_t size = (uint32_t)kt_settings_uint(s, "attention.key_length_swa", "head_dim", 256);
    uint64_t heads = kt_settings_uint(s, NULL, "num_global_key_value_heads", 0);
    bool shares = kt_settings_flag(s, NULL, "attention_k_eq_v", false);
    if (kt_settings_uint(s, "attention.value_length_swa", NULL, size) != size)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "keys and values of different sizes are not computed");
    for (uint32_t i = 0; i < c->n_layers; i++) {
        struct kt_attention_config *a = &c->layers[i].attention;
        bool is_full = c->layers[i].window == 0;
        if (!is_full)
            a->head_size = size;
        if (s->is_gguf)
            a->n_kv_heads = (uint32_t)kt_settings_uint_at(s, "attention.head_count_kv", NULL, i, 0);
        else if (is_full && shares && heads > 0)
            a->n_kv_heads = (uint32_t)heads;
        a->shares_keys = is_full && (s->is_gguf ? !has_values(s, i) : shares);
    }
}

static const char *const skipped[] = {"model.vision_tower.", "model.audio_tower.", "model.embed_vision.",
                                      "model.embed_audio.", NULL};

const struct kt_family kt_family_gemma4 = {.name = "gemma4",
                                           .classes = " Gemma4ForCausalLM Gemma4ForConditionalGeneration ",
                                           .ropes_by_type = true,
                                           .heads_by_layer = true,
                                           .names = {.norms = {[KT_NORM_BEFORE_FFN].json =
                                                                   "pre_feedforward_layernorm"},
                                                     .json_router = "router.proj",
                                                     .skipped = skipped},
                                           .read = read_gemma4,
                                           .read_layers = read_layers};
