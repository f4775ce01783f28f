/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.c - reads config.json. Models of text and images have an inner object for text, which is
 * searched first. A key with the value null counts as absent.
 */
#include "core/weights/model/model_config.h"

#include "core/base/error.h"
#include "core/weights/file/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST_CONFIG = 1 << 26, MOST_KEYS = 6 };

/* The defaults of gpt-oss. */
static const float oai_alpha = 1.702f, oai_limit = 7.0f;
/* And of Inkling 2. */
static const float inkling_gate_cap = 4.0f, inkling_up_cap = 25.0f;

/* A key, or a path of several: "ffn_config/moe_top_k". */
static const json_t *follow(const json_t *object, const char *path)
{
    char key[64];
    for (const char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        (void)snprintf(key, sizeof key, "%.*s", (int)(slash - path), path);
        object = kt_json_find(object, key);
    }
    return kt_json_find(object, path);
}

static const json_t *find(const json_t *root, const char *key)
{
    static const char *const texts[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const json_t *value = follow(kt_json_find(root, texts[i]), key);
        if (value)
            return value;
    }
    return follow(root, key);
}

/* Counts; of each, the first key that the file has is used. */
static const struct count {
    size_t offset;
    uint64_t largest;
    const char *keys[MOST_KEYS];
} counts[] = {
    {offsetof(struct kt_model_config, layers),
     KT_LARGEST_LAYER + 1,
     {"num_hidden_layers", "num_layers", "n_layers"}},
    {offsetof(struct kt_model_config, experts),
     KT_LARGEST_EXPERTS,
     {"num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts",
      "ffn_config/moe_num_experts"}},
    {offsetof(struct kt_model_config, top_k),
     KT_LARGEST_EXPERTS,
     {"num_experts_per_tok", "top_k_experts", "moe_topk", "moe_top_k", "moe_k", "ffn_config/moe_top_k"}},
    {offsetof(struct kt_model_config, hidden),
     KT_LARGEST_SIZE,
     {"moe_latent_size", "routed_expert_hidden_size", "hidden_size", "d_model"}},
    {offsetof(struct kt_model_config, intermediate),
     KT_LARGEST_SIZE,
     {"moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size", "ffn_config/ffn_hidden_size"}},
};

/* A number, or one for each layer: these say nothing if they differ. */
static enum kt_status read_count(const char *label, const json_t *value, const char *key, uint64_t largest,
                                 struct kt_json_count *said, struct kt_error *error)
{
    struct kt_json_count one = {.key = NULL};
    size_t n = json_array_size(value), n_same = 0;
    enum kt_status status = KT_OK;
    if (n == 0)
        return kt_json_read_count(label, value, key, largest, said, error);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        status = kt_json_read_count(label, json_array_get(value, i), key, largest, &one, error);
        if (i == 0)
            *said = one;
        n_same += one.value == said->value;
    }
    if (n_same < n)
        *said = (struct kt_json_count){.key = NULL};
    return status;
}

static enum kt_status read_counts(const json_t *root, struct kt_model_config *config, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && status == KT_OK; i++) {
        const struct count *count = &counts[i];
        struct kt_json_count *said = (struct kt_json_count *)(void *)((char *)config + count->offset);
        for (int k = 0; k < MOST_KEYS && count->keys[k] && !said->key && status == KT_OK; k++) {
            const json_t *value = find(root, count->keys[k]);
            if (value)
                status = read_count(config->label, value, count->keys[k], count->largest, said, error);
        }
    }
    return status;
}

static enum kt_status take_real(const char *label, const json_t *value, const char *key, float *real,
                                struct kt_error *error)
{
    *real = 0;
    if (!value)
        return KT_OK;
    double number = json_number_value(value);
    *real = (float)number;
    if (!json_is_number(value) || number < 0 || !isfinite(*real))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be a number of at least 0", label, key);
    return KT_OK;
}

/* "swiglu_limits": of each layer a number; null and 0: none. */
static enum kt_status read_limits(const json_t *root, struct kt_model_config *config, struct kt_error *error)
{
    static const char key[] = "swiglu_limits";
    const json_t *value = find(root, key);
    size_t n = json_array_size(value);
    enum kt_status status = KT_OK;
    if (!value)
        return KT_OK;
    if (!json_is_array(value) || n == 0)
        return kt_fail(error, KT_E_FORMAT, "%s: key \"%s\" must be an array of numbers", config->label, key);
    config->layer_limit = calloc(n, sizeof *config->layer_limit);
    if (!config->layer_limit)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for key \"%s\"", config->label, key);
    config->n_layer_limits = n;
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        const json_t *limit = json_array_get(value, i);
        if (!json_is_null(limit))
            status = take_real(config->label, limit, key, &config->layer_limit[i], error);
    }
    return status;
}

/* What config.json says of the activation. */
struct said {
    char name[64];
    const char *key;
    float limit, alpha;     /* "swiglu_limit", "swiglu_alpha" */
    float gate_cap, up_cap; /* of Kimi K3 or Inkling 2 */
};

static enum kt_status read_said(const json_t *root, const char *label, struct said *said,
                                struct kt_error *error)
{
    static const char *const keys[] = {"mlp_hidden_act", "hidden_act", "hidden_activation", "activation",
                                       "ffn_config/ffn_act_fn/name"};
    const struct {
        const char *key;
        float *real;
    } reals[] = {
        {"swiglu_limit", &said->limit},
        {"swiglu_alpha", &said->alpha},
        {"activation_situ_beta", &said->gate_cap},
        {"activation_situ_linear_beta", &said->up_cap},
        {"mlp_gate_softcap", &said->gate_cap},
        {"mlp_up_softcap", &said->up_cap},
    };
    const json_t *value = NULL;
    *said = (struct said){.name = "silu"};
    for (size_t i = 0; !value && i < sizeof keys / sizeof keys[0]; i++)
        value = find(root, said->key = keys[i]);
    enum kt_status status = kt_json_read_text(label, value, said->key, said->name, sizeof said->name, error);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0] && status == KT_OK; i++)
        if ((value = find(root, reals[i].key)) != NULL)
            status = take_real(label, value, reals[i].key, reals[i].real, error);
    return status;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

static bool is_model(const struct kt_model_config *config, const char *prefix)
{
    return strncmp(config->model_type, prefix, strlen(prefix)) == 0;
}

static void set(struct kt_model_config *config, uint32_t activation, float limit, float alpha)
{
    config->activation = activation;
    config->limit = limit;
    config->alpha = alpha;
}

static enum kt_status read_activation(const json_t *root, struct kt_model_config *config,
                                      struct kt_error *error)
{
    /* transformers' names of GELU with tanh */
    static const char *const gelu_tanh[] = {"gelu_pytorch_tanh", "gelu_python_tanh", "gelu_new", "gelu_fast",
                                            NULL};
    static const char *const silu[] = {"silu", "swish", NULL};
    struct said said;
    enum kt_status status = read_said(root, config->label, &said, error);
    if (status == KT_OK)
        status = read_limits(root, config, error);
    if (status != KT_OK)
        return status;
    bool plain = is_one_of(said.name, silu);
    /* MiniMax-M3's own configuration says "silu" as soon as transformers has written it. */
    if (strcmp(said.name, "swigluoai") == 0 || is_model(config, "gpt_oss") ||
        (plain && (said.alpha > 0 || is_model(config, "minimax_m3"))))
        set(config, KT_ACTIVATION_SWIGLUOAI, said.limit > 0 ? said.limit : oai_limit,
            said.alpha > 0 ? said.alpha : oai_alpha);
    else if (plain && is_model(config, "inkling2"))
        set(config, KT_ACTIVATION_SITU, said.up_cap > 0 ? said.up_cap : inkling_up_cap,
            said.gate_cap > 0 ? said.gate_cap : inkling_gate_cap);
    else if (strcmp(said.name, "situ") == 0 && said.gate_cap > 0)
        set(config, KT_ACTIVATION_SITU, said.up_cap, said.gate_cap);
    else if (plain && config->layer_limit) /* a layer without a limit has silu */
        set(config, KT_ACTIVATION_SWIGLUSTEP, 0, 0);
    else if (plain)
        set(config, said.limit > 0 ? KT_ACTIVATION_SWIGLU : KT_ACTIVATION_SILU, said.limit, 0);
    else if (strcmp(said.name, "relu2") == 0)
        set(config, KT_ACTIVATION_RELU2, 0, 0);
    else if (is_one_of(said.name, gelu_tanh))
        set(config, KT_ACTIVATION_GELU_TANH, 0, 0);
    else
        (void)snprintf(config->refusal, sizeof config->refusal,
                       "the experts use the activation \"%s\" (key \"%s\"), which is not supported",
                       said.name, said.key);
    return KT_OK;
}

static enum kt_status read_quantization(const json_t *root, struct kt_model_config *config,
                                        struct kt_error *error)
{
    const json_t *quantization = find(root, "quantization_config");
    if (!quantization)
        return KT_OK;
    if (!json_is_object(quantization))
        return kt_fail(error, KT_E_FORMAT, "%s: key \"quantization_config\" must be an object",
                       config->label);
    enum kt_status status = kt_quantization_read(config->label, quantization, &config->quantization, error);
    return status == KT_OK
               ? kt_quantization_groups(config->label, quantization, config->group, &config->n_groups, error)
               : status;
}

static enum kt_status read_config(const char *path, struct kt_model_config *config, struct kt_error *error)
{
    static const struct kt_json_bounds bounds = {.what = "the configuration",
                                                 .largest = LARGEST_CONFIG,
                                                 .depth = 32,
                                                 .spare = 1024};
    json_t *root;
    enum kt_status status = kt_json_open(path, &bounds, config->label, &root, error);
    if (status != KT_OK)
        return status;
    if (!json_is_object(root))
        status = kt_fail(error, KT_E_FORMAT, "%s: the configuration must be an object", config->label);
    if (status == KT_OK)
        status = kt_json_read_text(config->label, kt_json_find(root, "model_type"), "model_type",
                                   config->model_type, sizeof config->model_type, error);
    if (status == KT_OK)
        status = read_counts(root, config, error);
    if (status == KT_OK)
        status = read_activation(root, config, error);
    if (status == KT_OK)
        status = read_quantization(root, config, error);
    json_decref(root);
    return status;
}

enum kt_status kt_model_config_read(const char *folder, struct kt_model_config *config,
                                    struct kt_error *error)
{
    struct stat found;
    enum kt_status status = KT_OK;
    *config = (struct kt_model_config){.activation = KT_ACTIVATION_SILU};
    if (!folder)
        return KT_OK;
    char *path = kt_path_join(folder, "config.json", error);
    if (!path)
        return KT_E_NOMEM;
    if (stat(path, &found) == 0 || errno != ENOENT)
        status = read_config(path, config, error);
    free(path);
    if (status != KT_OK)
        kt_model_config_clear(config);
    return status;
}

enum kt_status kt_model_config_activation(const struct kt_model_config *config, uint64_t layer,
                                          struct kt_moe_info *info, struct kt_error *error)
{
    info->activation = config->activation;
    info->limit = config->limit;
    info->alpha = config->alpha;
    if (config->activation != KT_ACTIVATION_SWIGLUSTEP)
        return KT_OK;
    if (layer >= config->n_layer_limits)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"swiglu_limits\" has %zu elements, but layer %" PRIu64 " has experts",
                       config->label, config->n_layer_limits, layer);
    info->limit = config->layer_limit[layer];
    if (!(info->limit > 0))
        info->activation = KT_ACTIVATION_SILU;
    return KT_OK;
}

void kt_model_config_clear(struct kt_model_config *config)
{
    free(config->layer_limit);
    config->layer_limit = NULL;
    config->n_layer_limits = 0;
}
