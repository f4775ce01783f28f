/* SPDX-License-Identifier: Apache-2.0 */
/* config_json.c - a model's configuration in config.json. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const json_t *root;
    struct kt_error *error;
    enum kt_status status; /* the first failure */
};

static void fail_key(struct reader *r, const char *key, const char *what)
{
    if (r->status == KT_OK)
        r->status = kt_engine_fail(r->error, KT_E_FORMAT, "config.json: %s %s", key, what);
}

static double read_real(struct reader *r, const json_t *object, const char *key, double fallback)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return fallback;
    if (!json_is_number(value))
        fail_key(r, key, "is no number");
    return json_number_value(value);
}

static uint64_t read_uint(struct reader *r, const char *key, uint64_t fallback)
{
    double number = read_real(r, r->root, key, (double)fallback);
    if (!(number >= 0 && number < 9e15) || number != (double)(uint64_t)number) {
        fail_key(r, key, "is no whole number from 0 on");
        return 0;
    }
    return (uint64_t)number;
}

static uint64_t need_uint(struct reader *r, const char *key)
{
    if (!json_is_number(json_object_get(r->root, key)))
        fail_key(r, key, "is missing");
    return read_uint(r, key, 0);
}

static bool read_truth(struct reader *r, const char *key, bool fallback)
{
    const json_t *value = json_object_get(r->root, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static void read_scaling(struct reader *r, struct kt_model_config *c, const json_t *scaling)
{
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    if (!type)
        type = json_string_value(json_object_get(scaling, "type"));
    if (!type || strcmp(type, "default") == 0)
        return;
    c->rope.factor = read_real(r, scaling, "factor", 0);
    c->rope.original_positions =
        read_real(r, scaling, "original_max_position_embeddings", (double)c->context_length);
    if (strcmp(type, "linear") == 0) {
        c->rope.scaling = KT_ROPE_LINEAR;
    } else if (strcmp(type, "llama3") == 0) {
        c->rope.scaling = KT_ROPE_LLAMA3;
        c->rope.low_frequency = read_real(r, scaling, "low_freq_factor", 0);
        c->rope.high_frequency = read_real(r, scaling, "high_freq_factor", 0);
    } else if (strcmp(type, "yarn") == 0) {
        c->rope.scaling = KT_ROPE_YARN;
        c->rope.beta_fast = read_real(r, scaling, "beta_fast", 0);
        c->rope.beta_slow = read_real(r, scaling, "beta_slow", 0);
        c->rope.attention_factor = read_real(r, scaling, "attention_factor", 0);
        c->rope.mscale = read_real(r, scaling, "mscale", 0);
        c->rope.mscale_all_dim = read_real(r, scaling, "mscale_all_dim", 0);
        c->rope.no_truncate = json_is_false(json_object_get(scaling, "truncate"));
    } else if (r->status == KT_OK) {
        r->status = kt_engine_fail(r->error, KT_E_UNSUPPORTED,
                                   "config.json: rope_scaling '%.40s' is not computed", type);
    }
}

static void read_rope(struct reader *r, struct kt_model_config *c)
{
    const json_t *parameters = json_object_get(r->root, "rope_parameters");
    const json_t *scaling = json_object_get(r->root, "rope_scaling");
    double part = read_real(r, r->root, "partial_rotary_factor", 1);
    c->rope.size = (uint32_t)((double)c->head_size * part);
    c->rope.base = read_real(r, r->root, "rope_theta", 10000);
    c->rope.base = read_real(r, parameters, "rope_theta", c->rope.base);
    read_scaling(r, c, json_is_object(scaling) ? scaling : parameters);
}

/* What changes the sums and is not computed. */
static void refuse(struct reader *r)
{
    const char *activation = json_string_value(json_object_get(r->root, "hidden_act"));
    const json_t *window = json_object_get(r->root, "sliding_window");
    bool uses_window = read_truth(r, "use_sliding_window", json_is_number(window));
    const json_t *dense = json_object_get(r->root, "mlp_only_layers");
    if (r->status != KT_OK)
        return;
    if (activation && strcmp(activation, "silu") != 0)
        r->status = kt_engine_fail(r->error, KT_E_UNSUPPORTED,
                                   "config.json: hidden_act '%.40s' is not computed", activation);
    else if (uses_window && json_is_number(window))
        r->status = kt_engine_fail(r->error, KT_E_UNSUPPORTED, "config.json: sliding_window is not computed");
    else if (json_array_size(dense) > 0 || read_uint(r, "decoder_sparse_step", 1) > 1)
        r->status = kt_engine_fail(r->error, KT_E_UNSUPPORTED,
                                   "config.json: dense layers among those with experts are not computed");
}

static enum kt_status read_root(struct kt_checkpoint *checkpoint, json_t **root, struct kt_error *error)
{
    const void *data;
    uint64_t size;
    json_error_t place;
    enum kt_status status = kt_checkpoint_file(checkpoint, "config.json", &data, &size, error);
    if (status != KT_OK)
        return status;
    *root = json_loadb(data, size, JSON_ALLOW_NUL, &place);
    if (!*root)
        return kt_engine_fail(error, KT_E_FORMAT, "config.json:%d: %s", place.line, place.text);
    return KT_OK;
}

static enum kt_status read_class(struct reader *r, struct kt_model_config *c)
{
    const char *name = json_string_value(json_array_get(json_object_get(r->root, "architectures"), 0));
    char names[256];
    kt_family_list(names, sizeof(names));
    c->family = name ? kt_family_find(name, false) : NULL;
    if (!c->family)
        return kt_engine_fail(r->error, KT_E_UNSUPPORTED,
                              "config.json: architectures '%.60s' is not computed; these families are: %s",
                              name ? name : "?", names);
    return KT_OK;
}

enum kt_status kt_config_read_json(struct kt_checkpoint *checkpoint, struct kt_model_config *config,
                                   struct kt_error *error)
{
    json_t *root;
    enum kt_status status = read_root(checkpoint, &root, error);
    if (status != KT_OK)
        return status;
    struct reader r = {root, error, KT_OK};
    r.status = read_class(&r, config);
    config->n_layers = (uint32_t)need_uint(&r, "num_hidden_layers");
    config->hidden_size = need_uint(&r, "hidden_size");
    config->context_length = need_uint(&r, "max_position_embeddings");
    config->n_heads = (uint32_t)need_uint(&r, "num_attention_heads");
    config->n_kv_heads = (uint32_t)read_uint(&r, "num_key_value_heads", config->n_heads);
    config->head_size =
        (uint32_t)read_uint(&r, "head_dim", config->n_heads ? config->hidden_size / config->n_heads : 0);
    config->eps = (float)read_real(&r, root, "rms_norm_eps", 1e-6);
    config->n_experts = (uint32_t)read_uint(&r, "num_experts", read_uint(&r, "num_local_experts", 0));
    config->top_k = config->n_experts ? (uint32_t)need_uint(&r, "num_experts_per_tok") : 0;
    config->normalizes =
        read_truth(&r, "norm_topk_prob", config->family && strcmp(config->family->name, "llama") == 0);
    config->ties = read_truth(&r, "tie_word_embeddings", false);
    read_rope(&r, config);
    refuse(&r);
    json_decref(root);
    return r.status;
}
