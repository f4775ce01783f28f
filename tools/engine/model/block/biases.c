/* SPDX-License-Identifier: Apache-2.0 */
/*
 * biases.c - biases beside matrices that the class of a model has none for. transformers drops them, and here
 * they would be added; so they refuse the file, unless all of their numbers are 0, as some programs that
 * quantize write them.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <stdio.h>
#include <string.h>

static bool is_zero(const struct kt_model *m, uint64_t index)
{
    struct kt_tensor_info info;
    const void *data;
    if (kt_checkpoint_tensor(m->checkpoint, index, &info, NULL) != KT_OK ||
        kt_checkpoint_data(m->checkpoint, index, &data, NULL) != KT_OK)
        return false;
    for (uint64_t i = 0; i < info.size; i++)
        if (((const uint8_t *)data)[i] != 0)
            return false;
    return true;
}

static enum kt_status fail(const struct kt_model *m, const char *name, struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_FORMAT,
                          "unexpected tensor %s: %s models with this configuration have no such bias", name,
                          m->config.family->name);
}

enum kt_status kt_check_bias(const struct kt_model *m, uint32_t layer, const char *gguf, const char *json,
                             bool wanted, struct kt_error *error)
{
    char name[KT_WEIGHT_NAME + 8];
    uint64_t index;
    kt_weight_name(m, layer, gguf, json, name);
    snprintf(name + strlen(name), 8, ".bias");
    if (m->config.attention.biases == KT_BIASES_ANY || m->assumed)
        return KT_OK;
    bool is_there = kt_checkpoint_find(m->checkpoint, name, &index, NULL) == KT_OK;
    if (wanted && !is_there)
        return kt_engine_fail(error, KT_E_FORMAT, "%s is missing, which %s models have", name,
                              m->config.family->name);
    return wanted || !is_there || is_zero(m, index) ? KT_OK : fail(m, name, error);
}

/* Those of attention are checked where they are loaded. */
static bool may_have(const struct kt_engine_config *c, const char *name)
{
    const char *attention = c->family->names.json_attention, *shared = c->family->names.json_shared;
    bool is_network = strstr(name, ".mlp.") || (shared && strstr(name, shared)),
         is_experts = kt_is_expert(name);
    return strstr(name, ".self_attn.") || (attention && strstr(name, attention)) ||
           (c->norm_biases && strstr(name, "norm.bias")) ||
           (c->has_head_bias && strcmp(name, "lm_head.bias") == 0) || (c->has_expert_biases && is_network) ||
           (c->has_mlp_biases && is_network && !is_experts && strstr(name, "_proj."));
}

enum kt_status kt_refuse_biases(const struct kt_model *m, struct kt_error *error)
{
    struct kt_checkpoint_info info;
    enum kt_status status = KT_OK;
    kt_checkpoint_info(m->checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors && !m->config.is_gguf && status == KT_OK; i++) {
        struct kt_tensor_info tensor;
        status = kt_checkpoint_tensor(m->checkpoint, i, &tensor, error);
        size_t length = status == KT_OK ? strlen(tensor.name) : 0;
        if (length < 5 || strcmp(tensor.name + length - 4, "bias") != 0)
            continue;
        /* Those of experts are added by the library, which marks none as used. */
        bool is_of_experts = strstr(tensor.name, ".experts.") || kt_is_expert(tensor.name);
        bool is_bias = (is_of_experts && !m->used[i]) || (tensor.name[length - 5] == '.' && m->used[i]);
        if (is_bias && !may_have(&m->config, tensor.name) && !is_zero(m, i))
            status = fail(m, tensor.name, error);
    }
    return status;
}
