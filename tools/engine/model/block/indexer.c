/* SPDX-License-Identifier: Apache-2.0 */
/*
 * indexer.c - DeepSeek sparse attention. With h what attention reads and cq the latent of its queries,
 * normed:
 *
 *     k = rope(LayerNorm(Wk h))    q_h = rope(heads of Wq cq)    w = Ww h / sqrt(heads * size)
 *     score of row j = sum over heads of w_h * max(0, q_h . k_j)
 *
 * The first numbers of queries and keys are rotated by attention's angles. Keys are kept beside the latents,
 * and rows with the best scores are selected (<kt/selection.h>). Keys are written even as long as all rows
 * are selected, for the queries after that.
 */
#include "tools/engine/model/block/indexer.h"

#include "tools/engine/base/fail.h"

#include <math.h>
#include <stdio.h>

struct kt_indexer {
    struct kt_linear *q, *k;
    float *norm, *norm_bias;
    struct kt_numbers weights; /* [n_heads][hidden_size] */
    struct kt_selector *selector;
    uint32_t layer;
};

/* The norm of keys has an epsilon of its own, as those of latents. */
#define KEY_EPS 1e-6f

uint32_t kt_indexer_fields(const struct kt_engine_config *c, uint32_t layer, uint32_t cache_dtype,
                           struct kt_kv_field *out)
{
    if (c->indexer.n_heads == 0 || c->layers[layer].shares_selection)
        return 0;
    *out = (struct kt_kv_field){.kind = KT_KV_ROWS,
                                .layout = KT_KV_KEY,
                                .dtype = cache_dtype == KT_DTYPE_F32 ? KT_DTYPE_F32 : KT_DTYPE_BF16,
                                .heads = 1,
                                .width = c->indexer.size};
    return 1;
}

/* ---- loading ---- */

static enum kt_status load_norm(struct kt_model *m, uint32_t layer, struct kt_indexer *x,
                                struct kt_error *error)
{
    char name[KT_WEIGHT_NAME], bias[KT_WEIGHT_NAME + 8];
    kt_weight_name(m, layer, "indexer.k_norm", "self_attn.indexer.k_norm", name);
    snprintf(bias, sizeof(bias), "%s.bias", name);
    enum kt_status status = kt_load_numbers(m, name, 1, m->config.indexer.size, &x->norm, error);
    return status == KT_OK ? kt_load_numbers(m, bias, 1, m->config.indexer.size, &x->norm_bias, error)
                           : status;
}

static enum kt_status load_weights(struct kt_model *m, uint32_t layer, struct kt_indexer *x,
                                   struct kt_error *error)
{
    const struct kt_indexer_config *c = &m->config.indexer;
    char name[KT_WEIGHT_NAME];
    enum kt_status status =
        kt_load_matrix(m, layer, "indexer.attn_q_b", "self_attn.indexer.wq_b", (uint64_t)c->n_heads * c->size,
                       m->config.latent.q_rank, &x->q, error);
    if (status == KT_OK)
        status = kt_load_matrix(m, layer, "indexer.attn_k", "self_attn.indexer.wk", c->size,
                                m->config.hidden_size, &x->k, error);
    if (status == KT_OK)
        status = kt_check_bias(m, layer, "indexer.attn_q_b", "self_attn.indexer.wq_b", false, error);
    if (status == KT_OK)
        status = kt_check_bias(m, layer, "indexer.attn_k", "self_attn.indexer.wk", false, error);
    if (status == KT_OK)
        status = load_norm(m, layer, x, error);
    kt_weight_name(m, layer, "indexer.proj", "self_attn.indexer.weights_proj", name);
    return status == KT_OK ? kt_load_exact(m, name, c->n_heads, m->config.hidden_size, &x->weights, error)
                           : status;
}

enum kt_status kt_indexer_selector(const struct kt_model *m, struct kt_kv *kv, uint32_t layer,
                                   struct kt_selector **out, struct kt_error *error)
{
    struct kt_selector_params params = KT_SELECTOR_PARAMS_INIT;
    char name[40];
    snprintf(name, sizeof(name), "indexer of layer %u", layer);
    params.layer = layer;
    params.field = KT_INDEXER_FIELD;
    params.n_heads = m->config.indexer.n_heads;
    params.budget = m->selection_stride;
    params.max_sequences = m->params.max_sessions;
    params.max_tokens = m->params.max_tokens;
    params.name = name;
    return kt_selector_create(kv, &params, out, error);
}

static enum kt_status create(struct kt_model *m, void *data, struct kt_error *error)
{
    struct kt_indexer *x = data;
    enum kt_status status = kt_indexer_selector(m, m->kv, x->layer, &x->selector, error);
    return status == KT_OK ? kt_model_own_selector(m, x->selector, error) : status;
}

/* All of a model are alike, and share it. Layer 0 has one, unless there is none. */
enum kt_status kt_indexer_plan(struct kt_model *m, struct kt_kv *kv, struct kt_error *error)
{
    struct kt_selector *selector;
    struct kt_selector_info info;
    if (m->config.indexer.n_heads == 0)
        return KT_OK;
    enum kt_status status = kt_indexer_selector(m, kv, 0, &selector, error);
    if (status != KT_OK)
        return status;
    kt_selector_info(selector, &info);
    kt_selector_destroy(selector);
    if (m->plan.node[0].buffer_size < info.buffer_size)
        m->plan.node[0].buffer_size = info.buffer_size;
    return KT_OK;
}

/* Room for the selections of a slice, which layers share. */
static bool make_room(struct kt_model *m)
{
    const uint64_t n = m->params.max_batch, budget = m->config.indexer.budget;
    if (m->selections)
        return true;
    m->selection_stride = (uint32_t)(budget < m->params.max_tokens ? budget : m->params.max_tokens);
    m->selected_rows = kt_model_alloc(m, n, m->selection_stride * sizeof(*m->selected_rows));
    m->selected_counts = kt_model_alloc(m, n, sizeof(*m->selected_counts));
    m->selector_items = kt_model_alloc(m, m->params.max_sessions, sizeof(*m->selector_items));
    m->selections = kt_model_alloc(m, m->params.max_sessions, sizeof(*m->selections));
    return m->selected_rows && m->selected_counts && m->selector_items && m->selections;
}

/* Files may have them of layers that share selections; nobody reads them. */
static void skip_tensors(struct kt_model *m, uint32_t layer)
{
    static const struct kt_name names[] = {{"indexer.attn_q_b", "self_attn.indexer.wq_b"},
                                           {"indexer.attn_k", "self_attn.indexer.wk"},
                                           {"indexer.k_norm", "self_attn.indexer.k_norm"},
                                           {"indexer.proj", "self_attn.indexer.weights_proj"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[KT_WEIGHT_NAME];
        kt_weight_name(m, layer, names[i].gguf, names[i].json, name);
        kt_model_mark_weight(m, name, true);
    }
}

enum kt_status kt_indexer_load(struct kt_model *m, uint32_t layer, struct kt_block *block,
                               struct kt_error *error)
{
    const struct kt_indexer_config *c = &m->config.indexer;
    if (m->config.layers[layer].shares_selection)
        skip_tensors(m, layer);
    if (c->n_heads == 0 || m->config.layers[layer].shares_selection)
        return KT_OK;
    struct kt_indexer *x = kt_model_alloc(m, 1, sizeof(*x));
    if (!x || !make_room(m))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    x->layer = layer;
    kt_model_need(m, KT_BUFFER_GATE, c->size);
    kt_model_need(m, KT_BUFFER_ABSORBED, (uint64_t)c->n_heads * c->size);
    kt_model_need(m, KT_BUFFER_LOGITS, c->n_heads);
    enum kt_status status = load_weights(m, layer, x, error);
    block->indexer = x;
    return status == KT_OK ? kt_load_later(m, 0, 0, create, x, error) : status;
}

/* ---- running ---- */

struct kt_linear_output kt_indexer_keys(const struct kt_slice *s)
{
    return kt_slice_output(s->block->indexer->k, s->model->buffers[KT_BUFFER_GATE], false);
}

struct kt_linear_output kt_indexer_queries(const struct kt_slice *s)
{
    return kt_slice_output(s->block->indexer->q, s->model->buffers[KT_BUFFER_ABSORBED], false);
}

enum kt_status kt_indexer_place(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_indexer *x = s->block->indexer;
    const struct kt_indexer_config *c = &m->config.indexer;
    float *keys = m->buffers[KT_BUFFER_GATE] + (uint64_t)range.begin * c->size;
    struct kt_rows_norm job = KT_ROWS_NORM_INIT;
    job.norm = KT_NORM_LAYER;
    job.n_rows = range.end - range.begin;
    job.size = c->size;
    job.input = (struct kt_rows_input){.data = keys, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = keys, .dtype = KT_DTYPE_F32};
    job.weight = x->norm;
    job.bias = x->norm_bias;
    job.eps = KEY_EPS;
    enum kt_status status = kt_rows_norm(m->rows, &job, error);
    if (status == KT_OK)
        status = kt_slice_rotate_pairs(s, c->pairing, keys, 1, c->size, range, error);
    return status == KT_OK
               ? kt_slice_write(s, KT_INDEXER_FIELD, 1, c->size, m->buffers[KT_BUFFER_GATE], range, error)
               : status;
}

/* Rotates queries of a range of tokens, and weighs their heads. */
static enum kt_status prepare(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_indexer *x = s->block->indexer;
    const struct kt_indexer_config *c = &m->config.indexer;
    const uint64_t n = range.end - range.begin, width = (uint64_t)c->n_heads * c->size;
    const float scale = (float)(1 / sqrt((double)width));
    float *weights = m->buffers[KT_BUFFER_LOGITS] + (uint64_t)range.begin * c->n_heads;
    struct kt_rows_multiply job = KT_ROWS_MULTIPLY_INIT;
    job.n_rows = (uint32_t)n;
    job.n_outputs = c->n_heads;
    job.size = (uint32_t)m->config.hidden_size;
    job.weight_dtype = x->weights.dtype;
    job.weight = x->weights.data;
    job.input = (struct kt_rows_input){.data = m->buffers[KT_BUFFER_H] + range.begin * m->config.hidden_size,
                                       .dtype = KT_DTYPE_F32};
    job.output = weights;
    enum kt_status status = kt_rows_multiply(m->rows, &job, error);
    for (uint64_t i = 0; i < n * c->n_heads; i++)
        weights[i] *= scale;
    return status == KT_OK
               ? kt_slice_rotate_pairs(s, c->pairing, m->buffers[KT_BUFFER_ABSORBED] + range.begin * width,
                                       c->n_heads, c->size, range, error)
               : status;
}

enum kt_status kt_indexer_run(const struct kt_slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    const struct kt_indexer_config *c = &m->config.indexer;
    struct kt_selector_batch batch = KT_SELECTOR_BATCH_INIT;
    enum kt_status status = kt_slice_run_tokens(s, prepare, error);
    if (status != KT_OK)
        return status;
    double start = kt_slice_now();
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        const struct kt_piece *piece = &s->pieces[i];
        const uint64_t first = piece->begin;
        m->selections[i] = (struct kt_selected_rows){.rows = m->selected_rows + first * m->selection_stride,
                                                     .n_rows = m->selected_counts + first,
                                                     .stride = m->selection_stride};
        m->selector_items[i] =
            (struct kt_selector_item){.sequence = piece->step->session->sequence,
                                      .position = piece->position,
                                      .n_tokens = piece->n,
                                      .queries =
                                          m->buffers[KT_BUFFER_ABSORBED] + first * c->n_heads * c->size,
                                      .weights = m->buffers[KT_BUFFER_LOGITS] + first * c->n_heads,
                                      .selection = m->selections[i]};
    }
    batch.items = m->selector_items;
    batch.n_items = s->n_pieces;
    status = kt_selector_forward(s->block->indexer->selector, &batch, error);
    m->times.attention += kt_slice_now() - start;
    return status;
}
