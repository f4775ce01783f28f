/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - vectors and matrices of a checkpoint, who frees them, and which tensors nobody asked for. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a model owns ---- */

enum kind { MEMORY, LINEAR, ATTENTION, LAYER };

struct kt_owned {
    enum kind kind;
    void *object;
};

static void destroy(enum kind kind, void *object)
{
    switch (kind) {
    case MEMORY:
        free(object);
        break;
    case LINEAR:
        kt_linear_destroy(object);
        break;
    case ATTENTION:
        kt_attention_destroy(object);
        break;
    case LAYER:
        kt_layer_destroy(object);
        break;
    }
}

static bool own(struct kt_model *m, enum kind kind, void *object)
{
    if (m->n_owned == m->owned_capacity) {
        uint32_t capacity = m->owned_capacity ? 2 * m->owned_capacity : 64;
        struct kt_owned *grown = realloc(m->owned, capacity * sizeof(*grown));
        if (!grown) {
            destroy(kind, object);
            return false;
        }
        m->owned = grown;
        m->owned_capacity = capacity;
    }
    m->owned[m->n_owned++] = (struct kt_owned){kind, object};
    return true;
}

static enum kt_status own_or_fail(struct kt_model *m, enum kind kind, void *object, struct kt_error *error)
{
    return own(m, kind, object) ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
}

enum kt_status kt_model_own_attention(struct kt_model *m, struct kt_attention *attention,
                                      struct kt_error *error)
{
    return own_or_fail(m, ATTENTION, attention, error);
}

enum kt_status kt_model_own_layer(struct kt_model *m, struct kt_layer *layer, struct kt_error *error)
{
    return own_or_fail(m, LAYER, layer, error);
}

void *kt_model_alloc(struct kt_model *m, uint64_t n, uint64_t size)
{
    void *memory = calloc(n ? n : 1, size);
    return memory && own(m, MEMORY, memory) ? memory : NULL;
}

void kt_model_free_owned(struct kt_model *m)
{
    while (m->n_owned > 0) {
        m->n_owned--;
        destroy(m->owned[m->n_owned].kind, m->owned[m->n_owned].object);
    }
    free(m->owned);
    m->owned = NULL;
}

void kt_model_need(struct kt_model *m, enum kt_buffer buffer, uint64_t width)
{
    if (m->widths[buffer] < width)
        m->widths[buffer] = width;
}

/* ---- what is used ---- */

void kt_model_mark_used(struct kt_model *m, const char *tensor)
{
    uint64_t index;
    if (kt_checkpoint_find(m->checkpoint, tensor, &index, NULL) == KT_OK)
        m->used[index] = 1;
}

/* NAME, NAME.weight and, of a matrix, whatever else is NAME.something: its bias, its scales. */
static void mark_weight(struct kt_model *m, const char *name, bool is_matrix)
{
    struct kt_checkpoint_info info;
    size_t length = strlen(name);
    char weight[KT_WEIGHT_NAME + 8];
    snprintf(weight, sizeof(weight), "%s.weight", name);
    kt_model_mark_used(m, name);
    kt_model_mark_used(m, weight);
    kt_checkpoint_info(m->checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors && is_matrix; i++) {
        struct kt_tensor_info tensor;
        if (!m->used[i] && kt_checkpoint_tensor(m->checkpoint, i, &tensor, NULL) == KT_OK &&
            strncmp(tensor.name, name, length) == 0 && tensor.name[length] == '.' &&
            !strchr(tensor.name + length + 1, '.'))
            m->used[i] = 1;
    }
}

/* Experts are found by the library, so their tensors are known by what their names hold. */
static bool is_expert(const char *name)
{
    return strstr(name, "_exps.") || strstr(name, ".experts.");
}

/* Tensors that say nothing that is not said elsewhere. */
static bool is_needless(const char *name)
{
    return strstr(name, "rotary_emb.inv_freq") || strstr(name, ".attention.masked_bias");
}

enum kt_status kt_model_refuse_unused(const struct kt_model *m, struct kt_error *error)
{
    struct kt_checkpoint_info info;
    kt_checkpoint_info(m->checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        struct kt_tensor_info tensor;
        if (m->used[i] || kt_checkpoint_tensor(m->checkpoint, i, &tensor, NULL) != KT_OK ||
            is_needless(tensor.name) || (m->config.n_experts > 0 && is_expert(tensor.name)))
            continue;
        return kt_engine_fail(
            error, KT_E_UNSUPPORTED,
            "the model has a tensor %s, which models of the family %s are not computed with", tensor.name,
            m->config.family->name);
    }
    return KT_OK;
}

/* ---- loading ---- */

void kt_weight_name(const struct kt_model *m, uint32_t layer, const char *gguf, const char *json, char *name)
{
    if (m->config.is_gguf)
        snprintf(name, KT_WEIGHT_NAME, "blk.%u.%s", layer, gguf ? gguf : "");
    else
        snprintf(name, KT_WEIGHT_NAME, "model.layers.%u.%s", layer, json ? json : "");
}

enum kt_status kt_load_numbers(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                               float **out, struct kt_error *error)
{
    struct kt_view view;
    enum kt_status status = kt_checkpoint_weight(m->checkpoint, name, &view, NULL, error);
    if (status != KT_OK)
        return status;
    if (view.rows != rows || view.cols != cols)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has %" PRIu64 " x %" PRIu64 " numbers instead of %" PRIu64 " x %" PRIu64,
                              name, view.rows, view.cols, rows, cols);
    float *numbers = kt_model_alloc(m, rows * cols, sizeof(*numbers));
    if (!numbers)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", name);
    for (uint64_t r = 0; r < rows && status == KT_OK; r++)
        status = kt_view_row(&view, r, numbers + r * cols, error);
    if (status != KT_OK)
        return status;
    mark_weight(m, name, false);
    *out = numbers;
    return KT_OK;
}

void kt_model_count(struct kt_model *m, uint64_t n_weights, uint64_t size, const char *instruction,
                    const char *level)
{
    m->weight_size += size;
    m->n_weights += n_weights;
    if (n_weights > m->most_weights) {
        m->most_weights = n_weights;
        m->instruction = instruction;
        m->level = level;
    }
}

enum kt_status kt_load_linear(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                              struct kt_linear **out, struct kt_error *error)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear_info info;
    struct kt_linear *linear;
    params.rows = rows;
    params.cols = cols;
    params.max_tokens = m->params.max_batch;
    params.name = name;
    enum kt_status status = kt_linear_create(m->context, &params, &linear, error);
    if (status == KT_OK)
        status = own_or_fail(m, LINEAR, linear, error);
    if (status == KT_OK)
        status = kt_linear_load_checkpoint(linear, m->checkpoint, name, error);
    if (status != KT_OK)
        return status;
    kt_linear_info(linear, &info);
    kt_model_count(m, rows * cols, info.packed_size, info.instruction, info.level);
    mark_weight(m, name, true);
    *out = linear;
    return KT_OK;
}

enum kt_status kt_load_vector(struct kt_model *m, uint32_t layer, const char *gguf, const char *json,
                              uint64_t rows, uint64_t cols, float **out, struct kt_error *error)
{
    char name[KT_WEIGHT_NAME];
    kt_weight_name(m, layer, gguf, json, name);
    return kt_load_numbers(m, name, rows, cols, out, error);
}

enum kt_status kt_load_matrix(struct kt_model *m, uint32_t layer, const char *gguf, const char *json,
                              uint64_t rows, uint64_t cols, struct kt_linear **out, struct kt_error *error)
{
    char name[KT_WEIGHT_NAME];
    kt_weight_name(m, layer, gguf, json, name);
    return kt_load_linear(m, name, rows, cols, out, error);
}
