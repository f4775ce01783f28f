/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - the weights of a model, layer by layer, and what its checkpoint has besides. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME 160

void kt_model_name(const struct kt_model *model, uint32_t layer, const char *gguf, const char *hf, char *name,
                   size_t size)
{
    if (model->config.is_gguf)
        snprintf(name, size, "blk.%u.%s", layer, gguf);
    else
        snprintf(name, size, "model.layers.%u.%s", layer, hf);
}

/* ---- what is used ---- */

/* Marks NAME, NAME.weight, NAME.bias and what stands beside them, such as scales. */
static void mark_used(struct kt_model *m, const char *name)
{
    struct kt_checkpoint_info info;
    size_t length = strlen(name);
    kt_checkpoint_info(m->checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        struct kt_tensor_info tensor;
        if (m->used[i] || kt_checkpoint_tensor(m->checkpoint, i, &tensor, NULL) != KT_OK)
            continue;
        if (strncmp(tensor.name, name, length) == 0 &&
            (tensor.name[length] == '\0' ||
             (tensor.name[length] == '.' && !strchr(tensor.name + length + 1, '.'))))
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

static enum kt_status refuse_unused(const struct kt_model *m, struct kt_error *error)
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

/* ---- vectors, matrices ---- */

/* The numbers of a tensor of rows x cols as float32, allocated. */
static enum kt_status load_numbers(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
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
    float *numbers = calloc(rows * cols, sizeof(*numbers));
    if (!numbers)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", name);
    for (uint64_t r = 0; r < rows && status == KT_OK; r++)
        status = kt_view_row(&view, r, numbers + r * cols, error);
    if (status != KT_OK) {
        free(numbers);
        return status;
    }
    mark_used(m, name);
    *out = numbers;
    return KT_OK;
}

static enum kt_status load_linear(struct kt_model *m, const char *name, uint64_t rows, uint64_t cols,
                                  struct kt_linear **out, struct kt_error *error)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear_info info;
    params.rows = rows;
    params.cols = cols;
    params.max_tokens = m->params.max_batch;
    params.name = name;
    enum kt_status status = kt_linear_create(m->context, &params, out, error);
    if (status == KT_OK)
        status = kt_linear_load_checkpoint(*out, m->checkpoint, name, error);
    if (status != KT_OK)
        return status;
    kt_linear_info(*out, &info);
    m->weight_size += info.packed_size;
    mark_used(m, name);
    return KT_OK;
}

/* The same of a layer, by the names of both kinds of files. */
static enum kt_status load_part(struct kt_model *m, uint32_t layer, const char *gguf, const char *hf,
                                uint64_t rows, uint64_t cols, struct kt_linear **out, struct kt_error *error)
{
    char name[NAME];
    kt_model_name(m, layer, gguf, hf, name, sizeof(name));
    return load_linear(m, name, rows, cols, out, error);
}

static enum kt_status load_vector(struct kt_model *m, uint32_t layer, const char *gguf, const char *hf,
                                  uint64_t rows, uint64_t cols, float **out, struct kt_error *error)
{
    char name[NAME];
    kt_model_name(m, layer, gguf, hf, name, sizeof(name));
    return load_numbers(m, name, rows, cols, out, error);
}

/* ---- a layer ---- */

static enum kt_status load_attention(struct kt_model *m, uint32_t layer, struct kt_block *b,
                                     struct kt_error *error)
{
    const struct kt_model_config *c = &m->config;
    uint64_t hidden = c->hidden_size, size = c->head_size;
    enum kt_status status =
        load_vector(m, layer, "attn_norm", "input_layernorm", 1, hidden, &b->attention_norm, error);
    if (status == KT_OK)
        status = load_part(m, layer, "attn_q", "self_attn.q_proj", c->n_heads * size, hidden, &b->q, error);
    if (status == KT_OK)
        status =
            load_part(m, layer, "attn_k", "self_attn.k_proj", c->n_kv_heads * size, hidden, &b->k, error);
    if (status == KT_OK)
        status =
            load_part(m, layer, "attn_v", "self_attn.v_proj", c->n_kv_heads * size, hidden, &b->v, error);
    if (status == KT_OK)
        status =
            load_part(m, layer, "attn_output", "self_attn.o_proj", hidden, c->n_heads * size, &b->o, error);
    if (status == KT_OK && c->family->norms_heads)
        status = load_vector(m, layer, "attn_q_norm", "self_attn.q_norm", 1, size, &b->query_norm, error);
    if (status == KT_OK && c->family->norms_heads)
        status = load_vector(m, layer, "attn_k_norm", "self_attn.k_norm", 1, size, &b->key_norm, error);
    if (status != KT_OK)
        return status;
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    char name[32];
    snprintf(name, sizeof(name), "attention of layer %u", layer);
    params.layer = layer;
    params.value_field = 1;
    params.n_heads = c->n_heads;
    params.max_sequences = m->params.max_sessions;
    params.name = name;
    return kt_attention_create(m->kv, &params, &b->attention, error);
}

static enum kt_status load_experts(struct kt_model *m, uint32_t layer, struct kt_block *b,
                                   struct kt_error *error)
{
    const struct kt_model_config *c = &m->config;
    const char *router = strcmp(c->family->name, "llama") == 0 ? "block_sparse_moe.gate" : "mlp.gate";
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer_info info;
    char name[32];
    enum kt_status status =
        load_vector(m, layer, "ffn_gate_inp", router, c->n_experts, c->hidden_size, &b->router, error);
    if (status == KT_OK)
        status = kt_checkpoint_layer_params(m->checkpoint, layer, &params, error);
    if (status != KT_OK)
        return status;
    if (params.n_experts != c->n_experts || params.hidden_size != c->hidden_size)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "layer %u has %u experts of a hidden size of %" PRIu64
                              ", the configuration says %u and %" PRIu64,
                              layer, params.n_experts, params.hidden_size, c->n_experts, c->hidden_size);
    snprintf(name, sizeof(name), "layer %u", layer);
    params.top_k = c->top_k;
    params.max_tokens = m->params.max_batch;
    params.name = name;
    status = kt_layer_create(m->context, &params, &b->experts, error);
    if (status == KT_OK)
        status = kt_layer_load_checkpoint(b->experts, m->checkpoint, layer, error);
    if (status != KT_OK)
        return status;
    kt_layer_info(b->experts, &info);
    m->weight_size += info.packed_size;
    return KT_OK;
}

static enum kt_status load_dense(struct kt_model *m, uint32_t layer, struct kt_block *b,
                                 struct kt_error *error)
{
    struct kt_view view;
    char name[NAME];
    uint64_t hidden = m->config.hidden_size;
    kt_model_name(m, layer, "ffn_gate", "mlp.gate_proj", name, sizeof(name));
    enum kt_status status = kt_checkpoint_weight(m->checkpoint, name, &view, NULL, error);
    if (status != KT_OK)
        return status;
    b->width = view.rows;
    status = load_linear(m, name, b->width, hidden, &b->gate, error);
    if (status == KT_OK)
        status = load_part(m, layer, "ffn_up", "mlp.up_proj", b->width, hidden, &b->up, error);
    return status == KT_OK
               ? load_part(m, layer, "ffn_down", "mlp.down_proj", hidden, b->width, &b->down, error)
               : status;
}

static enum kt_status load_block(struct kt_model *m, uint32_t layer, struct kt_error *error)
{
    struct kt_block *b = &m->blocks[layer];
    enum kt_status status = load_attention(m, layer, b, error);
    if (status == KT_OK)
        status = load_vector(m, layer, "ffn_norm", "post_attention_layernorm", 1, m->config.hidden_size,
                             &b->ffn_norm, error);
    if (status != KT_OK)
        return status;
    return (m->config.n_experts > 0 ? load_experts : load_dense)(m, layer, b, error);
}

/* ---- before and behind the layers ---- */

static enum kt_status load_ends(struct kt_model *m, struct kt_error *error)
{
    const struct kt_model_config *c = &m->config;
    const char *embedding = c->is_gguf ? "token_embd" : "model.embed_tokens";
    const char *head = c->is_gguf ? "output" : "lm_head", *norm = c->is_gguf ? "output_norm" : "model.norm";
    struct kt_view view;
    enum kt_status status = kt_checkpoint_weight(m->checkpoint, embedding, &m->embedding, NULL, error);
    if (status != KT_OK)
        return status;
    if (m->embedding.cols != c->hidden_size || m->embedding.rows > INT32_MAX)
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has rows of %" PRIu64 " numbers, the hidden size is %" PRIu64, embedding,
                              m->embedding.cols, c->hidden_size);
    mark_used(m, embedding);
    m->vocabulary = m->embedding.rows;
    status = kt_checkpoint_weight(m->checkpoint, head, &view, NULL, error);
    bool has_head = status == KT_OK;
    if (!has_head && (status != KT_E_NOT_FOUND || (!c->is_gguf && !c->ties)))
        return status;
    if (has_head && c->ties)
        mark_used(m, head); /* a copy of the embedding */
    status = load_linear(m, has_head && !c->ties ? head : embedding, m->vocabulary, c->hidden_size, &m->head,
                         error);
    return status == KT_OK ? load_numbers(m, norm, 1, c->hidden_size, &m->final_norm, error) : status;
}

static enum kt_status load_rope(struct kt_model *m, struct kt_error *error)
{
    struct kt_rope_params *rope = &m->config.rope;
    struct kt_view view;
    enum kt_status status = KT_E_NOT_FOUND;
    if (m->config.is_gguf)
        status = kt_checkpoint_weight(m->checkpoint, "rope_freqs", &view, NULL, error);
    if (status == KT_OK)
        status = load_numbers(m, "rope_freqs", 1, rope->size / 2, &m->divisors, error);
    if (status != KT_OK && status != KT_E_NOT_FOUND)
        return status;
    rope->divisors = m->divisors;
    m->rope = calloc(m->params.max_tokens * rope->size, sizeof(*m->rope));
    if (!m->rope)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the angles of %" PRIu64 " positions",
                              m->params.max_tokens);
    return kt_rope_table(rope, 0, (uint32_t)m->params.max_tokens, m->rope, 0, error);
}

static enum kt_status report(const struct kt_model *m, uint64_t done, struct kt_error *error)
{
    if (m->params.progress && m->params.progress(m->params.data, done, (uint64_t)m->config.n_layers + 1) != 0)
        return kt_engine_fail(error, KT_E_STATE, "loading was stopped");
    return KT_OK;
}

enum kt_status kt_model_load(struct kt_model *model, struct kt_error *error)
{
    struct kt_checkpoint_info info;
    kt_checkpoint_info(model->checkpoint, &info);
    model->used = calloc(info.n_tensors + 1, 1);
    model->blocks = calloc(model->config.n_layers, sizeof(*model->blocks));
    if (!model->used || !model->blocks)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    enum kt_status status = report(model, 0, error);
    if (status == KT_OK)
        status = load_ends(model, error);
    if (status == KT_OK)
        status = load_rope(model, error);
    for (uint32_t i = 0; i < model->config.n_layers && status == KT_OK; i++) {
        status = report(model, (uint64_t)i + 1, error);
        if (status == KT_OK)
            status = load_block(model, i, error);
    }
    if (status == KT_OK)
        status = refuse_unused(model, error);
    return status == KT_OK ? report(model, (uint64_t)model->config.n_layers + 1, error) : status;
}
