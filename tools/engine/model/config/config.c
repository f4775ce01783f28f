/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/model/config/config.h"

#include "tools/engine/base/fail.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 4096

/* ---- rope ---- */

static void read_yarn(struct kt_settings *s, struct kt_rope_params *rope)
{
    rope->scaling = KT_ROPE_YARN;
    rope->attention_factor = kt_settings_real(s, NULL, "rope_scaling/attention_factor", 0);
    /* GGUF's is multiplied with what the factor gives, that of config.json stands instead of it. */
    if (kt_settings_has(s, "rope.scaling.attn_factor", NULL))
        rope->attention_factor = kt_settings_real(s, "rope.scaling.attn_factor", NULL, 1) *
                                 (rope->factor > 1 ? 0.1 * log(rope->factor) + 1 : 1);
    rope->beta_fast = kt_settings_real(s, "rope.scaling.yarn_beta_fast", "rope_scaling/beta_fast", 0);
    rope->beta_slow = kt_settings_real(s, "rope.scaling.yarn_beta_slow", "rope_scaling/beta_slow", 0);
    rope->mscale = kt_settings_real(s, NULL, "rope_scaling/mscale", 0);
    rope->mscale_all_dim = kt_settings_real(s, NULL, "rope_scaling/mscale_all_dim", 0);
    if (kt_settings_real(s, "rope.scaling.yarn_ext_factor", NULL, 1) != 1)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "a rope.scaling.yarn_ext_factor other than 1 is not computed");
    rope->no_truncate = !kt_settings_flag(s, NULL, "rope_scaling/truncate", true);
    /* Converters write what config.json has under this name, attn_factor for other scalings. */
    rope->attention_factor =
        kt_settings_real(s, "rope.scaling.yarn_attn_factor", NULL, rope->attention_factor);
}

static void read_llama3(struct kt_settings *s, struct kt_rope_params *rope)
{
    rope->scaling = KT_ROPE_LLAMA3;
    rope->low_frequency = kt_settings_real(s, NULL, "rope_scaling/low_freq_factor", 0);
    rope->high_frequency = kt_settings_real(s, NULL, "rope_scaling/high_freq_factor", 0);
    if (!(rope->low_frequency > 0 && rope->high_frequency > rope->low_frequency))
        kt_settings_fail(
            s, KT_E_FORMAT,
            "the scaling 'llama3' of rope needs a low_freq_factor above 0 and a high_freq_factor "
            "above that");
}

/* How the rope is scaled; "": not at all. GGUF files that give only a factor mean the linear scaling, and the
 * oldest call it by another name. */
static void read_type(struct kt_settings *s, struct kt_rope_params *rope, char *type, size_t size)
{
    kt_settings_text(s, "rope.scaling.type", "rope_scaling/rope_type", 0, type, size);
    if (!type[0])
        kt_settings_text(s, NULL, "rope_scaling/type", 0, type, size);
    if (strcmp(type, "deepseek_yarn") == 0 && strcmp(s->architecture, "SarvamMLAForCausalLM") == 0)
        (void)snprintf(type, size, "yarn");
    if (strcmp(type, "none") == 0 || strcmp(type, "default") == 0) {
        type[0] = '\0';
        return;
    }
    rope->factor = kt_settings_real(s, "rope.scale_linear", NULL, 0);
    rope->factor = kt_settings_real(s, "rope.scaling.factor", "rope_scaling/factor", rope->factor);
    if (s->is_gguf && !type[0] && rope->factor != 0 && rope->factor != 1)
        (void)snprintf(type, size, "linear");
}

/* Some configurations say the length of training beside the scaling, and that counts. */
static double original_positions(struct kt_settings *s, const struct kt_engine_config *c)
{
    double length =
        kt_settings_real(s, "rope.scaling.original_context_length",
                         "rope_scaling/original_max_position_embeddings", (double)c->context_length);
    return kt_settings_real(s, NULL, "original_max_position_embeddings", length);
}

void kt_engine_config_stretch(struct kt_engine_config *c)
{
    double stretched = c->rope.factor * c->rope.original_positions;
    if (stretched > (double)c->context_length && stretched < UINT32_MAX)
        c->context_length = (uint64_t)stretched;
}

/* Divisors of config.json; GGUF files have a tensor of them. */
static void read_short_factors(struct kt_settings *s, struct kt_engine_config *c, uint32_t n)
{
    const json_t *list = kt_settings_json(s, "rope_scaling/short_factor");
    if (json_array_size(list) != n) {
        kt_settings_fail(s, KT_E_FORMAT, "the short_factor of rope has %zu numbers instead of %u",
                         json_array_size(list), n);
        return;
    }
    c->divisors = calloc(n + 1, sizeof(*c->divisors));
    if (!c->divisors)
        kt_settings_fail(s, KT_E_NOMEM, "no memory for a rope");
    for (uint32_t i = 0; i < n && s->status == KT_OK; i++) {
        c->divisors[i] = (float)json_number_value(json_array_get(list, i));
        if (!(c->divisors[i] > 0))
            kt_settings_fail(s, KT_E_FORMAT, "number %u of the short_factor of rope is not above 0", i);
    }
}

/* Prompts longer than the model was trained with would have other angles, for all of their tokens; none is
 * here.
 */
static void read_longrope(struct kt_settings *s, struct kt_engine_config *c, struct kt_rope_params *rope)
{
    double original = original_positions(s, c);
    double factor = rope->factor > 0 ? rope->factor : (double)c->context_length / original;
    double scale = factor > 1 && original > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
    if (!s->is_gguf)
        read_short_factors(s, c, rope->size / 2);
    c->rope_scale = (float)kt_settings_real(s, "rope.scaling.attn_factor", "rope_scaling/attention_factor",
                                            s->is_gguf ? 1 : scale);
    c->context_length =
        original >= 1 && original < (double)c->context_length ? (uint64_t)original : c->context_length;
    rope->factor = 0;
    if (!(c->rope_scale > 0 && c->rope_scale < 1e6F))
        kt_settings_fail(s, KT_E_FORMAT, "cosines and sines of rope are multiplied by %g",
                         (double)c->rope_scale);
}

/* Phi's classes call it by older names, too. */
static bool is_longrope(const struct kt_settings *s, const struct kt_engine_config *c, const char *type)
{
    uint64_t index;
    if (s->is_gguf)
        return c->family->has_longrope &&
               kt_checkpoint_find(s->checkpoint, "rope_factors_short.weight", &index, NULL) == KT_OK;
    return c->family->has_longrope &&
           (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0);
}

static void read_scaling(struct kt_settings *s, struct kt_engine_config *c, struct kt_rope_params *rope)
{
    char type[32];
    read_type(s, rope, type, sizeof(type));
    if (is_longrope(s, c, type)) {
        read_longrope(s, c, rope);
        return;
    }
    if (!type[0])
        return;
    rope->original_positions = original_positions(s, c);
    if (rope->factor == 0 && strcmp(type, "yarn") == 0 && rope->original_positions > 0 && !s->is_gguf)
        rope->factor = (double)c->context_length / rope->original_positions; /* as transformers takes it */
    /* Angles grow with a prompt that is longer than the model was made for; none is here. */
    if (strcmp(type, "dynamic") == 0 && !s->is_gguf) {
        rope->factor = rope->original_positions = 0;
        return;
    }
    if (strcmp(type, "proportional") == 0 && c->family->ropes_by_type && rope == &c->rope && !s->is_gguf) {
        c->proportional = kt_settings_real(s, NULL, "rope_scaling/partial_rotary_factor", 1);
        if (rope->factor == 0) {
            rope->original_positions = 0;
            return;
        }
        rope->scaling = KT_ROPE_LINEAR;
    } else if (strcmp(type, "linear") == 0) {
        rope->scaling = KT_ROPE_LINEAR;
    } else if (strcmp(type, "yarn") == 0) {
        read_yarn(s, rope);
    } else if (strcmp(type, "llama3") == 0 && !s->is_gguf) {
        read_llama3(s, rope);
    } else {
        kt_settings_fail(s, KT_E_UNSUPPORTED, "the scaling '%s' of rope is not computed", type);
    }
    if (!(rope->factor > 0))
        kt_settings_fail(s, KT_E_FORMAT, "the scaling '%s' of rope has no factor above 0", type);
    if (rope == &c->rope)
        kt_engine_config_stretch(c);
}

/* The part of a head that is rotated. Of some classes that is always all of it, and transformers ignores what
 * the file says. */
static double read_part(struct kt_settings *s, double fallback)
{
    double part = kt_settings_real(s, NULL, "partial_rotary_factor", fallback);
    part = kt_settings_real(s, NULL, "rope_scaling/partial_rotary_factor", part);
    if (fallback == 0 && part != 0 && part != 1)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "partial_rotary_factor is not computed for %s",
                         s->architecture);
    return part == 0 && fallback == 0 ? 1 : part;
}

/* Settings for kinds of layers are objects within the object. */
static void refuse_nested(struct kt_settings *s)
{
    static const char *const names[] = {"rope_scaling", "rope_parameters"};
    const char *key;
    json_t *value;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        json_object_foreach ((json_t *)(uintptr_t)kt_settings_json(s, names[i]), key, value)
            if (json_is_object(value))
                kt_settings_fail(s, KT_E_UNSUPPORTED,
                                 "%s has another rope for the layers '%.40s', which is not "
                                 "computed",
                                 names[i], key);
}

/* Objects for kinds of layers. */
static bool has_ropes(const struct kt_settings *s)
{
    const json_t *scaling = kt_settings_json(s, "rope_scaling");
    const json_t *outer = scaling ? scaling : kt_settings_json(s, "rope_parameters");
    return json_is_object(json_object_get(outer, "full_attention"));
}

static void read_one_rope(struct kt_settings *s, struct kt_engine_config *c, struct kt_rope_params *rope)
{
    bool is_second = rope == &c->window_rope && c->defaults->window_base > 0;
    double base = is_second ? c->defaults->window_base : c->defaults->rope_base;
    bool is_listed = c->family->lists_ropes && !s->is_gguf && !has_ropes(s);
    double part = is_listed ? kt_engine_config_of_type(s, c, "partial_rotary_factors", 1)
                            : read_part(s, is_second ? c->defaults->window_rotated : c->defaults->rotated);
    if (!(part > 0 && part <= 1))
        kt_settings_fail(s, KT_E_FORMAT, "a partial_rotary_factor of %g, which must be above 0, 1 at most",
                         part);
    if (s->status != KT_OK)
        return;
    rope->size = (uint32_t)kt_settings_uint(s, "rope.dimension_count", NULL,
                                            (uint64_t)((double)c->attention.head_size * part));
    if (is_listed) {
        rope->base = kt_engine_config_of_type(s, c, "rope_theta", base);
    } else {
        rope->base = kt_settings_real(s, "rope.freq_base", "rope_theta", base);
        rope->base = kt_settings_real(s, NULL, "rope_scaling/rope_theta", rope->base);
    }
    if (!is_listed || rope == &c->rope)
        read_scaling(s, c, rope);
}

/* Layers that slide may have another one; of GGUF files only its base and size are, and it is not scaled. */
static void read_rope(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const types[] = {"full_attention", "sliding_attention"};
    const json_t *scaling = kt_settings_json(s, "rope_scaling");
    const json_t *outer = scaling ? scaling : kt_settings_json(s, "rope_parameters");
    bool has_none = !s->is_gguf && c->defaults->window_base > 0 && (!outer || c->family->lists_ropes);
    bool has_types =
        has_ropes(s) || (c->family->has_null_ropes && json_is_object(json_object_get(outer, types[1])));
    bool by_type = c->family->ropes_by_type && (has_types || has_none);
    if (!by_type)
        refuse_nested(s);
    for (int i = 0; i < (by_type ? 2 : 1); i++) {
        s->rope_part = by_type ? types[i] : NULL;
        read_one_rope(s, c, i == 0 ? &c->rope : &c->window_rope);
    }
    s->rope_part = NULL;
    if (by_type && (has_none || json_is_object(json_object_get(outer, types[1]))))
        return;
    c->window_rope = c->rope;
    if (!s->is_gguf || !c->family->ropes_by_type)
        return;
    c->window_rope.size = (uint32_t)kt_settings_uint(s, "rope.dimension_count_swa", NULL, c->rope.size);
    c->window_rope.base = kt_settings_real(s, "rope.freq_base_swa", NULL, c->rope.base);
    c->window_rope.scaling = KT_ROPE_PLAIN;
}

/* ---- what all families have ---- */

/* No size of a model that is right is larger. */
static uint32_t saturate(uint64_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

/* A setting that must be there, unless the class has a default. */
static uint64_t need_or(struct kt_settings *s, const char *gguf, const char *json, uint64_t fallback)
{
    return fallback > 0 ? kt_settings_uint(s, gguf, json, fallback) : kt_settings_need(s, gguf, json);
}

/* Without experts these say nothing. */
static void ignore_routing(struct kt_settings *s)
{
    static const char *const keys[] = {"expert_used_count", "expert_weights_norm", "expert_weights_scale",
                                       "expert_gating_func", "expert_group_count"};
    (void)kt_settings_has(s, NULL, "norm_topk_prob");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        (void)kt_settings_has(s, keys[i], NULL);
}

/* The usual one, unless the file has another. */
static const char *name_of_top_k(struct kt_settings *s)
{
    static const char *const names[] = {"moe_k", "moe_topk", "moe_top_k"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (kt_settings_has(s, NULL, names[i]))
            return names[i];
    return "num_experts_per_tok";
}

static void read_experts(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const names[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                        "moe_num_experts"};
    c->n_experts = saturate(kt_settings_uint(s, "expert_count", NULL, 0));
    bool says = s->is_gguf;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && c->n_experts == 0; i++) {
        says |= kt_settings_has(s, NULL, names[i]) || kt_settings_is_null(s, names[i]);
        c->n_experts = saturate(kt_settings_uint(s, NULL, names[i], 0));
    }
    if (!says)
        c->n_experts = c->defaults->n_experts;
    if (c->n_experts > 0)
        c->top_k = saturate(need_or(s, "expert_used_count", name_of_top_k(s), c->defaults->top_k));
    else
        ignore_routing(s);
    c->router.normalizes = true;
    c->gating = KT_GATING_SILU;
}

/* Some files list them for each layer, with 0 for layers that have no attention. */
static uint64_t read_key_heads(struct kt_settings *s, const struct kt_engine_config *c, uint64_t fallback)
{
    static const char gguf[] = "attention.head_count_kv", groups[] = "num_attention_groups";
    const char *json = kt_settings_has(s, NULL, groups) ? groups : "num_key_value_heads";
    uint64_t n = kt_settings_count(s, gguf, json), found = n == 0 ? fallback : 0;
    for (uint64_t i = 0; i < n && s->status == KT_OK; i++) {
        uint64_t one = kt_settings_uint_at(s, gguf, json, i, 0);
        if (found != 0 && one != 0 && one != found && !c->family->heads_by_layer)
            kt_settings_fail(s, KT_E_UNSUPPORTED,
                             "layers with %" PRIu64 " and with %" PRIu64 " heads of keys are not computed",
                             found, one);
        found = one != 0 ? one : found;
    }
    return found;
}

/* null says what follows from the hidden size and the heads, a key that is missing what the class has. */
static void read_heads(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_attention_config *a = &c->attention;
    uint64_t size = a->n_heads ? c->hidden_size / a->n_heads : 0, n_keys = a->n_heads;
    if (c->defaults->n_kv_heads > 0 && !kt_settings_is_null(s, "num_key_value_heads"))
        n_keys = c->defaults->n_kv_heads;
    if (c->defaults->head_size > 0 && !kt_settings_is_null(s, "head_dim"))
        size = c->defaults->head_size;
    a->n_kv_heads = saturate(read_key_heads(s, c, n_keys));
    a->head_size = saturate(kt_settings_uint(s, "attention.key_length", "head_dim", size));
}

/* Of layers that are several here, num_hidden_layers, if it is there besides, counts these. */
static uint64_t read_layers(struct kt_settings *s, const struct kt_engine_config *c)
{
    uint64_t n = kt_settings_need(s, "block_count", "num_hidden_layers"), parts = c->family->parts;
    if (parts == 0)
        return n;
    n = n <= MAX_LAYERS ? n * parts : n;
    const json_t *said = json_object_get(s->model, "num_hidden_layers");
    if (json_is_integer(said) && json_integer_value(said) != (json_int_t)n)
        kt_settings_fail(s, KT_E_FORMAT, "num_hidden_layers is not %" PRIu64 " times num_layers", parts);
    return n;
}

static void read_common(struct kt_settings *s, struct kt_engine_config *c)
{
    struct kt_attention_config *a = &c->attention;
    uint64_t n_layers = read_layers(s, c);
    c->n_skipped =
        (uint32_t)kt_settings_uint(s, "nextn_predict_layers", "num_nextn_predict_layers", c->defaults->n_mtp);
    if (s->is_gguf) /* which counts them among the others */
        n_layers -= c->n_skipped < n_layers ? c->n_skipped : 0;
    c->hidden_size = kt_settings_need(s, "embedding_length", "hidden_size");
    /* GGUF files made from others may keep theirs. */
    c->vocabulary = kt_settings_uint(s, NULL, "vocab_size", 0);
    c->context_length = need_or(s, "context_length", "max_position_embeddings", c->defaults->context);
    a->n_heads = saturate(need_or(s, "attention.head_count", "num_attention_heads", c->defaults->n_heads));
    read_heads(s, c);
    if (s->is_gguf && !kt_settings_has(s, "attention.layer_norm_rms_epsilon", NULL) &&
        !(c->family->layer_norms && kt_settings_has(s, "attention.layer_norm_epsilon", NULL)))
        kt_settings_fail(s, KT_E_FORMAT, "%s.attention.layer_norm_rms_epsilon is missing", s->architecture);
    c->eps = (float)kt_settings_real(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps", c->defaults->eps);
    const json_t *tie = json_object_get(s->root, "tie_word_embeddings");
    c->ties = kt_settings_flag(s, NULL, "tie_word_embeddings", c->defaults->ties);
    if (json_is_boolean(tie)) /* of models that see images, the whole's counts, not the text's */
        c->ties = json_is_true(tie);
    if (kt_settings_count(s, "feed_forward_length", "intermediate_size") == 1)
        c->dense_width = kt_settings_uint(s, "feed_forward_length", "intermediate_size", 0);
    if (n_layers < 1 || n_layers > MAX_LAYERS)
        kt_settings_fail(s, KT_E_FORMAT, "%" PRIu64 " layers, which must be 1 to %d", n_layers, MAX_LAYERS);
    if (s->status != KT_OK)
        return;
    c->layers = calloc(n_layers + 1, sizeof(*c->layers));
    c->n_layers = (uint32_t)n_layers;
    if (!c->layers) {
        kt_settings_fail(s, KT_E_NOMEM, "no memory for %" PRIu64 " layers", n_layers);
        return;
    }
    read_experts(s, c);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->layers[i].dense = c->n_experts == 0;
        c->layers[i].norms = KT_NORMS_BEFORE;
    }
}

/* ---- what is right ---- */

struct bound {
    const char *what;
    uint64_t value, least, most;
};

static void check_bounds(struct kt_settings *s, const struct bound *bounds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
            kt_settings_fail(s, KT_E_FORMAT, "%s: %" PRIu64 ", which must be %" PRIu64 " to %" PRIu64,
                             bounds[i].what, bounds[i].value, bounds[i].least, bounds[i].most);
}

static void check_attention(struct kt_settings *s, const struct kt_attention_config *a, uint32_t rotated)
{
    const struct bound bounds[] = {{"attention heads", a->n_heads, 1, 4096},
                                   {"heads of keys", a->n_kv_heads, 1, 4096},
                                   {"numbers of a head", a->head_size, 2, 1024},
                                   {"numbers of a value", a->value_size, 0, 1024},
                                   {"rotated numbers of a head", rotated, 2, a->head_size}};
    check_bounds(s, bounds, sizeof(bounds) / sizeof(bounds[0]));
    if (s->status == KT_OK && (a->n_heads % a->n_kv_heads != 0 || a->head_size % 2 != 0 || rotated % 2 != 0))
        kt_settings_fail(s, KT_E_FORMAT, "%u heads of %u numbers, %u of them rotated, over %u heads of keys",
                         a->n_heads, a->head_size, rotated, a->n_kv_heads);
}

/* Sizes that no model has would only overflow later. */
static void check(struct kt_settings *s, const struct kt_engine_config *c)
{
    const uint64_t n_experts = (uint64_t)c->n_experts + c->n_identities;
    const struct bound bounds[] = {{"hidden size", c->hidden_size, 1, 1 << 20},
                                   {"experts", n_experts, 0, 4096},
                                   {"experts of a token", c->top_k, c->n_experts ? 1 : 0,
                                    n_experts < 128 ? n_experts : 128},
                                   {"context length", c->context_length, 1, UINT32_MAX}};
    check_attention(s, &c->attention, c->rope.size);
    for (uint32_t i = 0; c->layers && i < c->n_layers; i++) {
        const struct kt_layer_config *layer = &c->layers[i];
        check_attention(s, &layer->attention,
                        layer->rope == KT_LAYER_ROPE_WINDOW ? c->window_rope.size : c->rope.size);
    }
    check_bounds(s, bounds, sizeof(bounds) / sizeof(bounds[0]));
    if (s->status != KT_OK)
        return;
    const struct kt_router_config *r = &c->router;
    uint32_t groups = r->n_groups > 1 ? r->n_groups : 1, top = groups > 1 ? r->top_groups : 1;
    if (n_experts % groups != 0 || top < 1 || top > groups || c->top_k > n_experts / groups * top)
        kt_settings_fail(s, KT_E_FORMAT, "%u of %" PRIu64 " experts in %u of %u groups", c->top_k, n_experts,
                         top, groups);
    if (!(c->eps >= 0 && c->eps < 1) || !(c->rope.base > 1))
        kt_settings_fail(s, KT_E_FORMAT, "an epsilon of %g, a rope base of %g", (double)c->eps, c->rope.base);
}

/* What no family is computed with otherwise. */
static void refuse(struct kt_settings *s, struct kt_engine_config *c)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation"};
    const char *wanted = c->gating == KT_GATING_GELU ? "gelu_pytorch_tanh" : "silu";
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char activation[32];
        kt_settings_text(s, NULL, keys[i], 0, activation, sizeof(activation));
        bool is_oai = c->layers[0].clamp.clamp == KT_CLAMP_OAI && strcmp(activation, "swigluoai") == 0;
        if (activation[0] && strcmp(activation, wanted) != 0 && !is_oai)
            kt_settings_fail(s, KT_E_UNSUPPORTED, "the %s '%s' is not computed", keys[i], activation);
    }
    if (c->latent.kv_rank == 0 && c->attention.value_size == 0 &&
        kt_settings_uint(s, "attention.value_length", NULL, c->attention.head_size) != c->attention.head_size)
        kt_settings_fail(s, KT_E_UNSUPPORTED, "keys and values of different sizes are not computed");
    if (!s->is_gguf && !kt_settings_was_read(s, "layer_types"))
        kt_engine_config_layer_types(s, c, 0);
    kt_settings_refuse_unread(s);
}

/* What another program would read otherwise than tensors look. */
static void refuse_coding(struct kt_settings *s)
{
    const json_t *coding = json_object_get(s->root, "quantization_config");
    const char *method = json_string_value(json_object_get(coding, "quant_method"));
    if (method && strcmp(method, "bitsandbytes") == 0)
        kt_settings_fail(
            s, KT_E_UNSUPPORTED,
            "weights that bitsandbytes quantized are not computed; convert the original to GGUF, or "
            "save it in bfloat16");
}

static bool has_tensor(struct kt_checkpoint *checkpoint, const char *name)
{
    uint64_t index;
    return kt_checkpoint_find(checkpoint, name, &index, NULL) == KT_OK;
}

/* Models that see images, too, have their language model under another name. */
static const char *find_stem(struct kt_settings *s)
{
    if (!s->checkpoint)
        return "model.";
    if (has_tensor(s->checkpoint, "model.language_model.embed_tokens.weight"))
        return "model.language_model.";
    if (has_tensor(s->checkpoint, "language_model.model.embed_tokens.weight"))
        return "language_model.model.";
    return "model.";
}

/* Pairs that are not rotated have a wave that is as good as endless, as GGUF files have it. */
static void make_divisors(struct kt_settings *s, struct kt_engine_config *c)
{
    uint32_t n = c->attention.head_size / 2, rotated = (uint32_t)(c->proportional * n);
    c->rope.size = 2 * n;
    c->divisors = calloc(n + 1, sizeof(*c->divisors));
    for (uint32_t i = 0; c->divisors && i < n; i++)
        c->divisors[i] = i < rotated ? 1 : 1e30f;
    if (!c->divisors)
        kt_settings_fail(s, KT_E_NOMEM, "no memory for the rope of a model");
}

/* Layers have what all have. */
static void spread(struct kt_engine_config *c)
{
    if (!c->family->ropes_by_type)
        c->window_rope = c->rope;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->layers[i].attention = c->attention;
        c->layers[i].rope =
            c->family->ropes_by_type && c->layers[i].window ? KT_LAYER_ROPE_WINDOW : KT_LAYER_ROPE;
    }
}

static void read_all(struct kt_settings *s, struct kt_engine_config *c)
{
    c->family = kt_family_find(s->architecture, s->is_gguf);
    c->defaults = kt_defaults_find(s);
    if (!c->family) {
        kt_settings_fail(
            s, KT_E_UNSUPPORTED,
            "models of the family '%.60s' are not computed; Families in README.md has those that are",
            s->architecture);
    } else {
        refuse_coding(s);
        s->own_names = c->family->own_names;
        c->json_stem = c->family->names.json_stem ? c->family->names.json_stem : find_stem(s);
        c->pairing = s->is_gguf ? c->family->gguf_pairing : c->family->json_pairing;
        read_common(s, c);
        read_rope(s, c);
    }
    if (s->status == KT_OK && c->family->read)
        c->family->read(s, c);
    if (s->status == KT_OK && c->proportional > 0)
        make_divisors(s, c);
    if (s->status == KT_OK) {
        spread(c);
        kt_engine_config_find_mtp(s, c);
    }
    if (s->status == KT_OK && c->family->read_layers)
        c->family->read_layers(s, c);
    if (s->status == KT_OK)
        kt_engine_config_check_skipped(s, c);
    check(s, c);
    if (s->status == KT_OK)
        refuse(s, c);
}

/* Closes the settings. */
static enum kt_status read_opened(struct kt_settings *s, struct kt_engine_config *c)
{
    const struct kt_rope_params rope = KT_ROPE_PARAMS_INIT;
    *c = (struct kt_engine_config){.is_gguf = s->is_gguf, .rope = rope, .window_rope = rope};
    if (s->status == KT_OK)
        read_all(s, c);
    kt_settings_close(s);
    if (s->status != KT_OK)
        kt_engine_config_free(c);
    return s->status;
}

enum kt_status kt_engine_config_read(struct kt_checkpoint *checkpoint, struct kt_engine_config *c,
                                     struct kt_error *error)
{
    struct kt_settings s;
    (void)kt_settings_open(&s, checkpoint, error);
    return read_opened(&s, c);
}

enum kt_status kt_engine_config_read_text(const char *json, uint64_t size, struct kt_engine_config *c,
                                          struct kt_error *error)
{
    struct kt_settings s;
    (void)kt_settings_open_text(&s, json, size, error);
    return read_opened(&s, c);
}

void kt_engine_config_free(struct kt_engine_config *config)
{
    free(config->layers);
    free(config->divisors);
    config->layers = NULL;
    config->divisors = NULL;
}
