/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - vectors and matrices of a checkpoint, who frees them, and which tensors nobody asked for. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <inttypes.h>
#include <kt/tune.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a model owns ---- */

enum kind { MEMORY, LINEAR, ATTENTION, SELECTOR, LAYER, LATER };

struct kt_owned {
    enum kind kind;
    void *object;
    char *name;     /* LINEAR: of its weight */
    uint64_t index; /* LAYER: of the checkpoint */
    struct kt_attention_params attention;
    struct kt_attention **out;
    kt_later_fn function; /* LATER, which owns nothing */
    uint64_t n_weights, size;
};

static void destroy(struct kt_owned *owned)
{
    switch (owned->kind) {
    case MEMORY:
        free(owned->object);
        break;
    case LINEAR:
        kt_linear_destroy(owned->object);
        break;
    case ATTENTION:
        kt_attention_destroy(owned->object);
        break;
    case SELECTOR:
        kt_selector_destroy(owned->object);
        break;
    case LAYER:
        kt_layer_destroy(owned->object);
        break;
    case LATER:
        break;
    }
    free(owned->name);
}

/* Takes it in any case; NULL: it was destroyed, as there is no memory. */
static struct kt_owned *own(struct kt_model *m, struct kt_owned owned)
{
    if (m->n_owned == m->owned_capacity) {
        uint32_t capacity = m->owned_capacity ? 2 * m->owned_capacity : 64;
        struct kt_owned *grown = realloc(m->owned, capacity * sizeof(*grown));
        if (!grown) {
            destroy(&owned);
            return NULL;
        }
        m->owned = grown;
        m->owned_capacity = capacity;
    }
    m->owned[m->n_owned] = owned;
    return &m->owned[m->n_owned++];
}

static enum kt_status fail_memory(struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
}

void *kt_model_alloc(struct kt_model *m, uint64_t n, uint64_t size)
{
    void *memory = calloc(n ? n : 1, size);
    m->owned_size += n * size;
    return memory && own(m, (struct kt_owned){.kind = MEMORY, .object = memory}) ? memory : NULL;
}

void kt_model_free_owned(struct kt_model *m)
{
    while (m->n_owned > 0) {
        m->n_owned--;
        destroy(&m->owned[m->n_owned]);
    }
    free(m->owned);
    m->owned = NULL;
}

void kt_model_need(struct kt_model *m, enum kt_buffer buffer, uint64_t width)
{
    if (m->widths[buffer] < width)
        m->widths[buffer] = width;
}

void kt_model_need_scratch(struct kt_model *m, uint64_t size)
{
    size = (size + 63) / 64 * 64;
    if (m->scratch_size < size)
        m->scratch_size = size;
}

/* ---- what is used ---- */

void kt_model_mark_used(struct kt_model *m, const char *tensor)
{
    uint64_t index;
    if (m->checkpoint && kt_checkpoint_find(m->checkpoint, tensor, &index, NULL) == KT_OK)
        m->used[index] = 1;
}

void kt_model_mark_weight(struct kt_model *m, const char *name, bool is_matrix)
{
    static const char *const parts[] = {"", ".weight", ".scale", ".weight_scale", ".weight_scale_inv"};
    struct kt_checkpoint_info info;
    size_t length = strlen(name);
    char part[KT_WEIGHT_NAME + 24];
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(part, sizeof(part), "%s%s", name, parts[i]);
        kt_model_mark_used(m, part);
    }
    if (!m->checkpoint)
        return;
    kt_checkpoint_info(m->checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors && is_matrix; i++) {
        struct kt_tensor_info tensor;
        if (!m->used[i] && kt_checkpoint_tensor(m->checkpoint, i, &tensor, NULL) == KT_OK &&
            strncmp(tensor.name, name, length) == 0 && tensor.name[length] == '.' &&
            !strchr(tensor.name + length + 1, '.'))
            m->used[i] = 1;
    }
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Experts are found by the library, which refuses those with tensors that it does not know. They are named
 * blk.0.ffn_gate_exps.scale, mlp.experts.7.w1.weight or mlp.experts.down_proj_bias. */
bool kt_is_expert(const char *name)
{
    static const char *const kinds[] = {"gate_proj.", "up_proj.", "down_proj.",  "w1.",
                                        "w2.",        "w3.",      "gate_up_proj"};
    static const char *const fused[] = {"gate_up_proj", "down_proj", "fc1.",  "fc2.",
                                        "mlp.w1",       "mlp.v1",    "mlp.w2"};
    static const char *const of_all[] = {".block_sparse_moe.input_linear.",
                                         ".block_sparse_moe.output_linear.",
                                         ".moe.gate_proj.",
                                         ".moe.up_proj.",
                                         ".moe.down_proj.",
                                         ".ffn_gate_exps.",
                                         ".ffn_up_exps.",
                                         ".ffn_down_exps.",
                                         ".ffn_gate_up_exps."};
    const char *at = strstr(name, ".experts.");
    for (size_t i = 0; i < sizeof(of_all) / sizeof(of_all[0]) && !at; i++)
        if (strstr(name, of_all[i]))
            return true;
    if (!at)
        return false;
    at += strlen(".experts.");
    size_t digits = strspn(at, "0123456789");
    for (size_t i = 0; i < sizeof(fused) / sizeof(fused[0]) && digits == 0; i++)
        if (begins(at, fused[i]))
            return true;
    if (digits == 0)
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && at[digits] == '.'; i++)
        if (begins(at + digits + 1, kinds[i]))
            return true;
    return false;
}

/* What the family's table names, or of a layer behind the last one that is computed. */
static bool is_skipped(const struct kt_model *m, const char *name)
{
    const char *const *skipped = m->config.family->names.skipped;
    char begin[40];
    for (; skipped && *skipped; skipped++)
        if (strncmp(name, *skipped, strlen(*skipped)) == 0)
            return true;
    if (m->config.family->names.json_needless && strstr(name, m->config.family->names.json_needless))
        return true;
    snprintf(begin, sizeof(begin), "%s", m->config.is_gguf ? "blk." : m->config.json_stem);
    if (!m->config.is_gguf)
        snprintf(begin, sizeof(begin), "%s%s.", m->config.json_stem, kt_layers_name(m));
    if (strncmp(name, begin, strlen(begin)) != 0)
        return false;
    uint64_t layer = strtoull(name + strlen(begin), NULL, 10), n = m->config.n_layers;
    return layer >= n && layer < n + m->config.n_skipped;
}

/* Tensors that say nothing that is not said elsewhere, and scales for rounding what is not rounded here:
 * activations, queries, keys and values. Exporters put them beside attention, or beside a joined matrix. */
static bool is_needless(const char *name)
{
    static const char *const endings[] =
        {/* of activations */
         "input_scale", "input_scale_inv", "input_scale_ub", "input_zero_point", "activation_scale",
         "output_scale", "output_zero_point",
         /* of queries, cached keys and values, and of what the softmax gives */
         "q_scale", "k_scale", "v_scale", "kv_scale", "prob_scale", "prob_output_scale", "q_zero_point",
         "k_zero_point", "v_zero_point", "k_cache_scale", "v_cache_scale", "kv_cache_scale",
         "kv_cache_scaling_factor"};
    const char *ending = strrchr(name, '.');
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]) && ending; i++)
        if (strcmp(ending + 1, endings[i]) == 0)
            return true;
    return strstr(name, "rotary_emb.inv_freq") || strstr(name, ".attention.masked_bias");
}

enum kt_status kt_model_refuse_unused(const struct kt_model *m, struct kt_error *error)
{
    struct kt_checkpoint_info info;
    kt_checkpoint_info(m->checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        struct kt_tensor_info tensor;
        if (m->used[i] || kt_checkpoint_tensor(m->checkpoint, i, &tensor, NULL) != KT_OK ||
            is_needless(tensor.name) || is_skipped(m, tensor.name) ||
            (m->config.n_experts > 0 && kt_is_expert(tensor.name)))
            continue;
        return kt_engine_fail(
            error, KT_E_UNSUPPORTED,
            "the model has a tensor %s, which models of the family %s are not computed with", tensor.name,
            m->config.family->name);
    }
    return KT_OK;
}

/* ---- loading ---- */

enum kt_status kt_find_weight(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                              struct kt_view *view, const float **bias, struct kt_error *error)
{
    if (m->assumed && bias)
        *bias = NULL;
    if (m->assumed && name[strlen(name) - 1] == '.')
        return kt_engine_fail(error, KT_E_NOT_FOUND, "config.json has no name for a weight of layers");
    if (m->assumed)
        return kt_assume_numbers(m, rows, cols, view, error);
    enum kt_status status = kt_checkpoint_weight(m->checkpoint, name, view, bias, error);
    if (status == KT_OK && (view->rows != rows || view->cols != cols))
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has %" PRIu64 " x %" PRIu64 " numbers instead of %" PRIu64 " x %" PRIu64,
                              name, view->rows, view->cols, rows, cols);
    return status;
}

enum kt_status kt_load_numbers(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                               float **out, struct kt_error *error)
{
    struct kt_view view;
    enum kt_status status = kt_find_weight(m, name, rows, cols, &view, NULL, error);
    if (status != KT_OK)
        return status;
    float *numbers = kt_model_alloc(m, rows * cols, sizeof(*numbers));
    if (!numbers)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", name);
    for (uint64_t r = 0; r < rows && !m->assumed && status == KT_OK; r++)
        status = kt_view_row(&view, r, numbers + r * cols, error);
    if (status != KT_OK)
        return status;
    kt_model_mark_weight(m, name, false);
    *out = numbers;
    return KT_OK;
}

/* Are all bits of it in the upper half? */
static bool is_bfloat16(const float *row, uint64_t n)
{
    uint32_t bits, lower = 0;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&bits, row + i, sizeof bits);
        lower |= bits & 0xffff;
    }
    return lower == 0;
}

static void keep_upper_half(const float *row, uint64_t n, uint16_t *to)
{
    uint32_t bits;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&bits, row + i, sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
    }
}

/* Reads all rows one by one: whether they are bfloat16, or `out` as weight->dtype has it. */
static enum kt_status read_exact(const struct kt_view *view, struct kt_numbers *weight, void *out,
                                 struct kt_error *error)
{
    enum kt_status status = KT_OK;
    float *row = malloc(view->cols * sizeof *row);
    if (!row)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a row of %" PRIu64 " numbers", view->cols);
    for (uint64_t r = 0; r < view->rows && status == KT_OK; r++) {
        status = kt_view_row(view, r, row, error);
        if (status == KT_OK && !out && !is_bfloat16(row, view->cols))
            weight->dtype = KT_DTYPE_F32;
        else if (status == KT_OK && out && weight->dtype == KT_DTYPE_F32)
            memcpy((float *)out + r * view->cols, row, view->cols * sizeof *row);
        else if (status == KT_OK && out)
            keep_upper_half(row, view->cols, (uint16_t *)out + r * view->cols);
    }
    free(row);
    return status;
}

enum kt_status kt_load_exact(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                             struct kt_numbers *weight, struct kt_error *error)
{
    struct kt_view view;
    enum kt_status status = kt_find_weight(m, name, rows, cols, &view, NULL, error);
    weight->dtype = KT_DTYPE_BF16;
    if (status == KT_OK && !m->assumed)
        status = read_exact(&view, weight, NULL, error);
    if (status != KT_OK)
        return status;
    weight->row_size = cols * (weight->dtype == KT_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t));
    void *numbers = kt_model_alloc(m, rows, weight->row_size);
    if (!numbers)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", name);
    if (!m->assumed)
        status = read_exact(&view, weight, numbers, error);
    kt_model_mark_weight(m, name, false);
    weight->data = numbers;
    return status;
}

/* ---- what is planned ---- */

/* The library takes memory in whole pages, and what is not smaller than a huge one in these. */
#define PAGE 4096
#define HUGE_PAGE (UINT64_C(2) << 20)

uint64_t kt_page_rest(uint64_t size)
{
    uint64_t page = size >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    return (page - size % page) % page;
}

/* Of n experts, or of a linear. A store's are used where they lie, but copied to several nodes. */
static void add_plan(struct kt_model *m, const struct kt_plan *plan, uint32_t n, bool is_stored)
{
    struct kt_model_plan *sum = &m->plan;
    sum->n_nodes = plan->n_nodes;
    sum->weight_size += plan->weight_size;
    sum->mapped_size += plan->keeps_source ? plan->nominal_size * n : 0;
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        sum->node[i].weight_size += plan->node[i].weight_size;
        if (!is_stored || plan->n_nodes > 1)
            m->owned_size += kt_page_rest(plan->node[i].weight_size);
        /* shared by all layers of the context */
        if (sum->node[i].buffer_size < plan->node[i].buffer_size)
            sum->node[i].buffer_size = plan->node[i].buffer_size;
    }
}

enum kt_status kt_load_linear(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                              struct kt_linear **out, struct kt_error *error)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_owned owned = {.kind = LINEAR, .name = strdup(name)};
    struct kt_linear *linear;
    struct kt_plan plan;
    struct kt_stored_linear_info stored;
    struct kt_view view;
    params.rows = rows;
    params.cols = cols;
    params.max_tokens = m->params.max_batch;
    params.name = name;
    enum kt_status status = kt_find_weight(m, name, rows, cols, &view, NULL, error);
    if (status == KT_OK)
        status = owned.name ? kt_linear_create(m->context, &params, &linear, error) : fail_memory(error);
    if (status != KT_OK) {
        free(owned.name);
        return status;
    }
    owned.object = linear;
    if (!own(m, owned))
        return fail_memory(error);
    status = m->assumed ? kt_assume_linear(m, rows, cols, linear, &plan, error)
                        : kt_linear_plan_checkpoint(linear, m->checkpoint, name, &plan, error);
    if (status != KT_OK)
        return status;
    add_plan(m, &plan, 1,
             m->checkpoint && kt_checkpoint_linear_find(m->checkpoint, name, &stored, NULL) == KT_OK);
    m->n_weights += rows * cols;
    m->dense_bytes += plan.nominal_size;
    kt_model_mark_weight(m, name, true);
    *out = linear;
    return KT_OK;
}

enum kt_status kt_load_experts(struct kt_model *m, uint32_t layer, struct kt_layer_params *params,
                               struct kt_layer **out, struct kt_error *error)
{
    struct kt_plan plan;
    struct kt_moe_info moe;
    char name[32];
    snprintf(name, sizeof(name), "layer %u", layer);
    params->top_k = m->config.top_k;
    params->max_tokens = m->params.max_batch;
    params->name = name;
    enum kt_status status = kt_layer_create(m->context, params, out, error);
    if (status != KT_OK)
        return status;
    uint64_t n = (KT_DOWN + 1 - kt_activation_first(params->activation)) * params->hidden_size *
                 params->intermediate_size * params->n_experts;
    if (!own(m, (struct kt_owned){.kind = LAYER, .object = *out, .index = layer, .n_weights = n}))
        return fail_memory(error);
    status = m->assumed ? kt_assume_experts(m, params, *out, &plan, error)
                        : kt_layer_plan_checkpoint(*out, m->expert_source, layer, &plan, error);
    if (status != KT_OK)
        return status;
    add_plan(m, &plan, params->n_experts,
             m->expert_source && kt_checkpoint_moe(m->expert_source, layer, &moe, NULL) == KT_OK &&
                 moe.stored_backend[0]);
    m->n_weights += n;
    m->n_expert_weights += n;
    m->expert_bytes += plan.nominal_size * params->n_experts;
    return KT_OK;
}

enum kt_status kt_load_attention(struct kt_model *m, uint32_t layer, const struct kt_attention_params *params,
                                 struct kt_attention **out, struct kt_error *error)
{
    struct kt_owned owned = {.kind = ATTENTION, .attention = *params, .index = layer, .out = out};
    if (layer >= m->config.n_layers)
        owned.attention.layer = 0; /* the only one of the cache of the block that predicts */
    return own(m, owned) ? KT_OK : fail_memory(error);
}

static enum kt_status make_attention(const struct kt_owned *owned, uint32_t n_layers, struct kt_kv *kv,
                                     struct kt_kv *mtp_kv, struct kt_attention **attention,
                                     struct kt_error *error)
{
    struct kt_attention_params params = owned->attention;
    char name[40];
    snprintf(name, sizeof(name), "attention of layer %u", (unsigned int)owned->index);
    params.name = name;
    return kt_attention_create(owned->index < n_layers ? kv : mtp_kv, &params, attention, error);
}

enum kt_status kt_model_plan_attention(struct kt_model *m, struct kt_kv *kv, struct kt_kv *mtp_kv,
                                       struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < m->n_owned && status == KT_OK; i++) {
        struct kt_attention *attention;
        struct kt_attention_info info;
        if (m->owned[i].kind != ATTENTION)
            continue;
        status = make_attention(&m->owned[i], m->config.n_layers, kv, mtp_kv, &attention, error);
        if (status != KT_OK)
            continue;
        kt_attention_info(attention, &info);
        if (!m->plan.attention_tuned[0])
            kt_attention_tuned(attention, m->plan.attention_tuned, sizeof(m->plan.attention_tuned));
        kt_attention_destroy(attention);
        for (uint32_t n = 0; n < m->plan.n_nodes; n++)
            if (m->plan.node[n].buffer_size < info.buffer_size / m->plan.n_nodes)
                m->plan.node[n].buffer_size = info.buffer_size / m->plan.n_nodes;
    }
    return status;
}

enum kt_status kt_model_own_selector(struct kt_model *m, struct kt_selector *selector, struct kt_error *error)
{
    return own(m, (struct kt_owned){.kind = SELECTOR, .object = selector}) ? KT_OK : fail_memory(error);
}

enum kt_status kt_load_later(struct kt_model *m, uint64_t n_weights, uint64_t size, kt_later_fn function,
                             void *data, struct kt_error *error)
{
    struct kt_owned owned = {.kind = LATER,
                             .object = data,
                             .function = function,
                             .n_weights = n_weights,
                             .size = size};
    m->plan.weight_size += size;
    for (uint32_t i = 0; i < m->plan.n_nodes; i++)
        m->plan.node[i].weight_size += size / m->plan.n_nodes;
    m->n_weights += n_weights;
    m->dense_bytes += size;
    return own(m, owned) ? KT_OK : fail_memory(error);
}

/* ---- what was planned ---- */

/* The instruction that multiplies the most weights is the model's. */
static void count_weights(struct kt_model *m, uint64_t n, const char *instruction, const char *level)
{
    if (n > m->most_weights) {
        m->most_weights = n;
        m->instruction = instruction;
        m->level = level;
    }
}

/* What it does may own more. What is used where it lies is read here: the first step is not to wait for it.
 */
static enum kt_status finish_one(struct kt_model *m, uint32_t i, struct kt_error *error)
{
    struct kt_owned *owned = &m->owned[i];
    enum kt_status status = KT_OK;
    if (owned->kind == LATER) {
        struct kt_rows_info info;
        const struct kt_owned own = *owned;
        kt_rows_info(m->rows, &info);
        status = own.function(m, own.object, error);
        count_weights(m, own.n_weights, info.instruction, info.level);
        m->weight_size += own.size;
    } else if (owned->kind == LINEAR) {
        struct kt_linear_info info;
        status = kt_linear_load_checkpoint(owned->object, m->checkpoint, owned->name, error);
        if (status == KT_E_INVALID) { /* other sizes than the configuration's, which were asked for */
            status = KT_E_FORMAT;
            if (error)
                error->status = status;
        }
        if (status == KT_OK)
            status = kt_linear_populate(owned->object, error);
        if (status != KT_OK)
            return status;
        kt_linear_info(owned->object, &info);
        count_weights(m, info.rows * info.cols, info.instruction, info.level);
        m->weight_size += info.packed_size;
    } else if (owned->kind == LAYER) {
        struct kt_layer_info info;
        status = kt_layer_load_checkpoint(owned->object, m->expert_source, owned->index, error);
        if (status == KT_OK)
            status = kt_layer_populate(owned->object, error);
        if (status != KT_OK)
            return status;
        kt_layer_info(owned->object, &info);
        count_weights(m, owned->n_weights, info.instruction, info.level);
        m->weight_size += info.packed_size;
    } else if (owned->kind == ATTENTION) {
        struct kt_attention *attention;
        status = make_attention(owned, m->config.n_layers, m->kv, m->mtp_kv, &attention, error);
        if (status == KT_OK)
            owned->object = *owned->out = attention;
    }
    return status;
}

enum kt_status kt_model_tell(const struct kt_model *m, struct kt_error *error)
{
    if (m->params.progress && m->params.progress(m->params.data, m->weight_size, m->plan.weight_size) != 0)
        return kt_engine_fail(error, KT_E_STATE, "loading was stopped");
    return KT_OK;
}

enum kt_status kt_model_finish(struct kt_model *m, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < m->n_owned && status == KT_OK; i++) {
        status = kt_model_tell(m, error);
        if (status == KT_OK)
            status = finish_one(m, i, error);
    }
    if (status == KT_OK && m->params.progress)
        (void)m->params.progress(m->params.data, m->plan.weight_size, m->plan.weight_size);
    return status;
}

/* ---- of a layer ---- */

enum kt_status kt_load_norm(struct kt_model *m, const char *name, struct kt_hidden_norm *norm,
                            struct kt_error *error)
{
    uint64_t size = m->config.hidden_size;
    char bias[KT_WEIGHT_NAME + 8];
    float *weight, *numbers = NULL;
    snprintf(bias, sizeof(bias), "%s.bias", name);
    enum kt_status status = kt_load_numbers(m, name, 1, size, &weight, error);
    if (status == KT_OK && m->config.norm_biases)
        status = kt_load_numbers(m, bias, 1, size, &numbers, error);
    if (status == KT_OK)
        *norm = (struct kt_hidden_norm){.is_there = true, .weight = weight, .bias = numbers};
    return status;
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
