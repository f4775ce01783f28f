/* SPDX-License-Identifier: Apache-2.0 */
/* config_gguf.c - a model's configuration in the metadata of a GGUF file. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/config.h"

#include <stdio.h>
#include <string.h>

struct reader {
    struct kt_checkpoint *checkpoint;
    const char *family;
    struct kt_error *error;
    enum kt_status status; /* the first failure */
};

/* Finds ARCH.KEY; false: there is none. */
static bool find(struct reader *r, const char *key, struct kt_value *value)
{
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", r->family, key);
    if (r->status != KT_OK)
        return false;
    enum kt_status status = kt_checkpoint_value_find(r->checkpoint, name, value, r->error);
    if (status != KT_OK && status != KT_E_NOT_FOUND)
        r->status = status;
    return status == KT_OK;
}

static uint64_t read_uint(struct reader *r, const char *key, uint64_t fallback)
{
    struct kt_value value;
    uint64_t number = fallback;
    if (find(r, key, &value))
        r->status = kt_value_uint(&value, 0, &number, r->error);
    return number;
}

/* One that must be there. */
static uint64_t need_uint(struct reader *r, const char *key)
{
    struct kt_value value;
    if (r->status == KT_OK && !find(r, key, &value))
        r->status = kt_engine_fail(r->error, KT_E_FORMAT, "the model has no key %s.%s", r->family, key);
    return read_uint(r, key, 0);
}

static double read_real(struct reader *r, const char *key, double fallback)
{
    struct kt_value value;
    double number = fallback;
    if (find(r, key, &value))
        r->status = kt_value_real(&value, 0, &number, r->error);
    return number;
}

static void read_text(struct reader *r, const char *key, char *text, size_t size)
{
    struct kt_value value;
    const char *found;
    uint64_t at = 0, length;
    text[0] = '\0';
    if (!find(r, key, &value))
        return;
    r->status = kt_value_text(&value, &at, &found, &length, r->error);
    if (r->status == KT_OK)
        snprintf(text, size, "%.*s", (int)(length < size ? length : size), found);
}

static void read_rope(struct reader *r, struct kt_model_config *c)
{
    char type[32];
    c->rope.size = (uint32_t)read_uint(r, "rope.dimension_count", c->head_size);
    c->rope.base = read_real(r, "rope.freq_base", 10000);
    c->rope.factor = read_real(r, "rope.scaling.factor", 0);
    c->rope.original_positions = read_real(r, "rope.scaling.original_context_length", 0);
    read_text(r, "rope.scaling.type", type, sizeof(type));
    if (strcmp(type, "linear") == 0) {
        c->rope.scaling = KT_ROPE_LINEAR;
    } else if (strcmp(type, "yarn") == 0) {
        c->rope.scaling = KT_ROPE_YARN;
        c->rope.attention_factor = read_real(r, "rope.scaling.attn_factor", 0);
        c->rope.beta_fast = read_real(r, "rope.scaling.yarn_beta_fast", 0);
        c->rope.beta_slow = read_real(r, "rope.scaling.yarn_beta_slow", 0);
    } else if (type[0] && strcmp(type, "none") != 0 && r->status == KT_OK) {
        r->status = kt_engine_fail(r->error, KT_E_UNSUPPORTED, "%s.rope.scaling.type '%s' is not computed",
                                   r->family, type);
    }
}

/* Keys that change what is computed, in ways that are not. */
static void refuse(struct reader *r)
{
    static const char *const keys[] = {"attention.sliding_window",
                                       "attn_logit_softcapping",
                                       "final_logit_softcapping",
                                       "attention.scale",
                                       "expert_shared_count",
                                       "residual_scale",
                                       "logit_scale",
                                       "embedding_scale"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct kt_value value;
        double number = 0;
        if (!find(r, keys[i], &value) || kt_value_real(&value, 0, &number, NULL) != KT_OK || number == 0)
            continue;
        r->status = kt_engine_fail(r->error, KT_E_UNSUPPORTED, "%s.%s = %g is not computed", r->family,
                                   keys[i], number);
    }
}

enum kt_status kt_config_read_gguf(struct kt_checkpoint *checkpoint, struct kt_model_config *config,
                                   struct kt_error *error)
{
    struct kt_checkpoint_info info;
    char names[256];
    kt_checkpoint_info(checkpoint, &info);
    config->family = kt_family_find(info.architecture, true);
    kt_family_list(names, sizeof(names));
    if (!config->family)
        return kt_engine_fail(error, KT_E_UNSUPPORTED,
                              "models of the family '%.60s' are not computed; these are: %s",
                              info.architecture, names);
    struct reader r = {checkpoint, info.architecture, error, KT_OK};
    config->n_layers = (uint32_t)need_uint(&r, "block_count");
    config->hidden_size = need_uint(&r, "embedding_length");
    config->context_length = need_uint(&r, "context_length");
    config->n_heads = (uint32_t)need_uint(&r, "attention.head_count");
    config->n_kv_heads = (uint32_t)read_uint(&r, "attention.head_count_kv", config->n_heads);
    config->head_size = (uint32_t)read_uint(&r, "attention.key_length",
                                            config->n_heads ? config->hidden_size / config->n_heads : 0);
    if (r.status == KT_OK && read_uint(&r, "attention.value_length", config->head_size) != config->head_size)
        r.status = kt_engine_fail(error, KT_E_UNSUPPORTED,
                                  "keys and values of different sizes are not computed here");
    config->eps = (float)read_real(&r, "attention.layer_norm_rms_epsilon", 1e-6);
    config->n_experts = (uint32_t)read_uint(&r, "expert_count", 0);
    config->top_k = (uint32_t)read_uint(&r, "expert_used_count", 0);
    if (config->n_experts == 0)
        config->top_k = 0;
    config->normalizes = true;
    read_rope(&r, config);
    refuse(&r);
    return r.status;
}
