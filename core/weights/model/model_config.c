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

enum { LARGEST_CONFIG = 1 << 26, MOST_KEYS = 4 };

/* The defaults of gpt-oss. */
static const float oai_alpha = 1.702f, oai_limit = 7.0f;

static const json_t *find(const json_t *root, const char *key)
{
    static const char *const texts[] = {"text_config", "llm_config", "language_config"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const json_t *value = kt_json_find(kt_json_find(root, texts[i]), key);
        if (value)
            return value;
    }
    return kt_json_find(root, key);
}

/* Counts; of each, the first key that the file has is used. */
static const struct count {
    size_t offset;
    uint64_t largest;
    const char *keys[MOST_KEYS];
} counts[] = {
    {offsetof(struct kt_model_config, layers), KT_LARGEST_LAYER + 1, {"num_hidden_layers"}},
    {offsetof(struct kt_model_config, experts),
     KT_LARGEST_EXPERTS,
     {"num_experts", "n_routed_experts", "num_local_experts"}},
    {offsetof(struct kt_model_config, top_k), KT_LARGEST_EXPERTS, {"num_experts_per_tok"}},
    {offsetof(struct kt_model_config, hidden), KT_LARGEST_SIZE, {"hidden_size"}},
    {offsetof(struct kt_model_config, intermediate),
     KT_LARGEST_SIZE,
     {"moe_intermediate_size", "intermediate_size"}},
};

static enum kt_status read_counts(const json_t *root, struct kt_model_config *config, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && status == KT_OK; i++) {
        const struct count *count = &counts[i];
        struct kt_json_count *said = (struct kt_json_count *)(void *)((char *)config + count->offset);
        for (int k = 0; k < MOST_KEYS && count->keys[k] && !said->key && status == KT_OK; k++) {
            const json_t *value = find(root, count->keys[k]);
            if (value)
                status =
                    kt_json_read_count(config->label, value, count->keys[k], count->largest, said, error);
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

static enum kt_status read_activation(const json_t *root, struct kt_model_config *config,
                                      struct kt_error *error)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation"};
    char name[64] = "silu";
    const json_t *value = NULL;
    const char *key = NULL;
    for (size_t i = 0; !value && i < sizeof keys / sizeof keys[0]; i++)
        value = find(root, key = keys[i]);
    enum kt_status status = kt_json_read_text(config->label, value, key, name, sizeof name, error);
    if (status == KT_OK)
        status = take_real(config->label, find(root, "swiglu_limit"), "swiglu_limit", &config->limit, error);
    if (status == KT_OK)
        status = take_real(config->label, find(root, "swiglu_alpha"), "swiglu_alpha", &config->alpha, error);
    if (status != KT_OK)
        return status;
    if (strcmp(name, "swigluoai") == 0 || strncmp(config->model_type, "gpt_oss", 7) == 0) {
        config->activation = KT_ACTIVATION_SWIGLUOAI;
        config->limit = config->limit > 0 ? config->limit : oai_limit;
        config->alpha = config->alpha > 0 ? config->alpha : oai_alpha;
    } else if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0) {
        config->activation = config->limit > 0 ? KT_ACTIVATION_SWIGLU : KT_ACTIVATION_SILU;
        config->alpha = 0;
    } else {
        (void)snprintf(config->refusal, sizeof config->refusal,
                       "the experts use the activation \"%s\" (key \"%s\"), which is not supported", name,
                       key);
    }
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
    return status;
}
