/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dsa.c - DeepSeek V3.2 and GLM-5: latent attention with an indexer. GLM-5.2 and later select rows in some of
 * their layers, and the layers between them have the same rows.
 */
#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* From this context on, GGUF files of GLM without a list of types are of models that share. */
#define SHARING_CONTEXT 1048576

/* The class computes one kind of pairs, whatever a file says; a file that says another one is of another
 * model. */
static void expect_pairs(struct kt_settings *s, const char *json, bool interleaved)
{
    if (!s->is_gguf && kt_settings_flag(s, NULL, json, interleaved) != interleaved)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "%s is %s, which is not computed for %s", json,
                         interleaved ? "false" : "true", s->architecture);
}

static void read_indexer(struct kt_settings *s, struct kt_engine_config *c, uint32_t pairing,
                         uint64_t n_heads)
{
    struct kt_indexer_config *x = &c->indexer;
    const struct {
        const char *gguf, *json;
        uint32_t *out;
        uint64_t fallback, least, most;
    } all[] = {
        {"attention.indexer.head_count", "index_n_heads", &x->n_heads, n_heads, 1, 256},
        {"attention.indexer.key_length", "index_head_dim", &x->size, 128, c->latent.rope_size, 1024},
        {"attention.indexer.top_k", "index_topk", &x->budget, 2048, 1, UINT32_MAX / 4},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uint64_t value = s->is_gguf ? kt_settings_need(s, all[i].gguf, NULL)
                                    : kt_settings_uint(s, NULL, all[i].json, all[i].fallback);
        if (s->status == KT_OK && (value < all[i].least || value > all[i].most))
            kt_settings_fail(s, KT_E_FORMAT, "%s is %" PRIu64 ", which must be %" PRIu64 " to %" PRIu64,
                             s->is_gguf ? all[i].gguf : all[i].json, value, all[i].least, all[i].most);
        *all[i].out = (uint32_t)value;
    }
    x->pairing = pairing;
    expect_pairs(s, "indexer_rope_interleave", pairing == KT_ROPE_NORM);
    expect_pairs(s, "rope_interleave", true);
    if (s->status == KT_OK && x->size % 2 != 0)
        kt_settings_fail(s, KT_E_FORMAT, "index_head_dim is %u, which must be even", x->size);
    if (s->status == KT_OK && c->latent.q_rank == 0)
        kt_settings_fail(s, KT_E_FORMAT, "q_lora_rank is missing, which the indexer's queries are made of");
}

/* ---- layers that share ---- */

/* One of `names`, the first of which has an indexer. */
static bool is_shared(struct kt_settings *s, const char *text, const char *const names[2], uint32_t layer)
{
    if (strcmp(text, names[0]) != 0 && strcmp(text, names[1]) != 0)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the indexer of layer %u is '%s'; '%s' and '%s' are known",
                         layer, text, names[0], names[1]);
    return strcmp(text, names[1]) == 0;
}

static void expect_count(struct kt_settings *s, const char *name, uint64_t found, uint64_t wanted)
{
    if (found < wanted)
        kt_settings_fail(s, KT_E_FORMAT, "%s names %" PRIu64 " layers, there are %" PRIu64, name, found,
                         wanted);
}

/* A list of a type for each layer, or NULL; *pattern: a text with a letter for each, or NULL. */
static const char *find_types(struct kt_settings *s, const char **pattern)
{
    static const char *const names[2] = {"indexer_types", "index_topk_pattern"};
    *pattern = NULL;
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = kt_settings_json(s, names[i]);
        if (value && json_is_array(value))
            return names[i];
        if (value && i == 1 && json_is_string(value))
            *pattern = json_string_value(value);
        else if (value)
            kt_settings_fail(s, KT_E_FORMAT, "%s is not a list of types, one for each layer", names[i]);
    }
    return NULL;
}

/* Where neither of them is there, a rule decides. */
static void read_sharing_json(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const types[2] = {"full", "shared"}, *const letters[2] = {"F", "S"};
    const uint64_t given = kt_settings_uint(s, NULL, "index_topk_freq", 1), freq = given ? given : 1;
    const uint64_t offset = kt_settings_uint(s, NULL, "index_skip_topk_offset", 2);
    const char *pattern, *list = find_types(s, &pattern);
    if (list)
        expect_count(s, list, kt_settings_count(s, NULL, list), c->n_layers);
    else if (pattern)
        expect_count(s, "index_topk_pattern", strlen(pattern), c->n_layers);
    for (uint32_t i = 0; i < c->n_layers && s->status == KT_OK; i++) {
        char text[16] = {!list && pattern ? pattern[i] : '\0'};
        if (list)
            kt_settings_text(s, NULL, list, i, text, sizeof(text));
        c->layers[i].shares_selection = list || pattern ? is_shared(s, text, list ? types : letters, i)
                                                        : i + 1 > offset && (i + 1 - offset) % freq != 0;
    }
}

static void read_sharing_gguf(struct kt_settings *s, struct kt_engine_config *c)
{
    const uint64_t n = kt_settings_count(s, "attention.indexer.types", NULL);
    if (n > 0)
        expect_count(s, "attention.indexer.types", n, c->n_layers);
    for (uint32_t i = 0; i < c->n_layers && s->status == KT_OK; i++)
        c->layers[i].shares_selection =
            n > 0 ? !kt_settings_flag_at(s, "attention.indexer.types", i)
                  : c->context_length >= SHARING_CONTEXT && i > 2 && (i - 2) % 4 != 0;
}

static void read_deepseek32(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_deepseek(s, c);
    read_indexer(s, c, KT_ROPE_NEOX, 64);
}

static void read_glm_dsa(struct kt_settings *s, struct kt_engine_config *c)
{
    kt_engine_config_deepseek(s, c);
    read_indexer(s, c, KT_ROPE_NORM, 32);
    if (s->is_gguf)
        read_sharing_gguf(s, c);
    else
        read_sharing_json(s, c);
    if (s->status == KT_OK && c->layers[0].shares_selection)
        kt_settings_fail(s, KT_E_FORMAT, "layer 0 shares rows that no layer before it selects");
}

const struct kt_family kt_family_deepseek32 = {.name = "deepseek32",
                                               .classes = " DeepseekV32ForCausalLM ",
                                               .gguf_pairing = KT_ROPE_NORM,
                                               .json_pairing = KT_ROPE_NORM,
                                               .read = read_deepseek32,
                                               .skips_mtp = true};
/* Converters have written tensors of an indexer into all layers, also those that share. */
const struct kt_family kt_family_glm_dsa = {.name = "glm-dsa",
                                            .classes = " GlmMoeDsaForCausalLM ",
                                            .gguf_pairing = KT_ROPE_NORM,
                                            .json_pairing = KT_ROPE_NORM,
                                            .read = read_glm_dsa,
                                            .skips_mtp = true};
