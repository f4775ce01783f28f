/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - grouped-query attention: norms of heads, windows and sinks where a family has them. */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <stdio.h>
#include <string.h>

struct attention {
    struct kt_linear *q, *k, *v, *o; /* with a gate, rows of q are [query | gate] of each head */
    float *query_norm, *key_norm;    /* [head_size] or [heads * head_size], or NULL */
    struct kt_attention *attention;
};

static uint32_t fields(const struct kt_engine_config *c, uint32_t cache_dtype, struct kt_kv_field *out)
{
    out[0] = (struct kt_kv_field){.kind = KT_KV_ROWS,
                                  .layout = KT_KV_KEY,
                                  .dtype = cache_dtype,
                                  .heads = c->attention.n_kv_heads,
                                  .width = c->attention.head_size};
    out[1] = out[0];
    out[1].layout = KT_KV_VALUE;
    return 2;
}

/* ---- loading ---- */

static enum kt_status load_norms(struct kt_model *m, uint32_t layer, struct attention *a,
                                 struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.attention;
    bool whole = c->norm == KT_HEAD_NORM_WHOLE;
    if (c->norm == KT_HEAD_NORM_NONE)
        return KT_OK;
    enum kt_status status =
        kt_load_vector(m, layer, "attn_q_norm", "self_attn.q_norm", 1,
                       (whole ? c->n_heads : 1) * (uint64_t)c->head_size, &a->query_norm, error);
    return status == KT_OK
               ? kt_load_vector(m, layer, "attn_k_norm", "self_attn.k_norm", 1,
                                (whole ? c->n_kv_heads : 1) * (uint64_t)c->head_size, &a->key_norm, error)
               : status;
}

static enum kt_status load_matrices(struct kt_model *m, uint32_t layer, struct attention *a,
                                    struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.attention;
    uint64_t hidden = m->config.hidden_size, size = c->head_size;
    const struct {
        const char *gguf, *json;
        uint64_t rows, cols;
        struct kt_linear **out;
    } all[] = {{"attn_q", "self_attn.q_proj", c->n_heads * size * (c->has_gate ? 2 : 1), hidden, &a->q},
               {"attn_k", "self_attn.k_proj", c->n_kv_heads * size, hidden, &a->k},
               {"attn_v", "self_attn.v_proj", c->n_kv_heads * size, hidden, &a->v},
               {"attn_output", "self_attn.o_proj", hidden, c->n_heads * size, &a->o}};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && status == KT_OK; i++) {
        status =
            kt_load_matrix(m, layer, all[i].gguf, all[i].json, all[i].rows, all[i].cols, all[i].out, error);
        if (status == KT_OK)
            status = kt_check_bias(m, layer, all[i].gguf, all[i].json,
                                   c->biases >= (i < 3 ? KT_BIASES_QKV : KT_BIASES_ALL), error);
    }
    return status;
}

static enum kt_status create(struct kt_model *m, uint32_t layer, struct attention *a, struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.attention;
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    float *sinks = NULL;
    enum kt_status status = KT_OK;
    if (c->has_sinks)
        status = kt_load_vector(m, layer, "attn_sinks", "self_attn.sinks", 1, c->n_heads, &sinks, error);
    if (status != KT_OK)
        return status;
    params.layer = layer;
    params.value_field = 1;
    params.n_heads = c->n_heads;
    params.max_sequences = m->params.max_sessions;
    params.window = m->config.layers[layer].window;
    params.sinks = sinks;
    return kt_load_attention(m, layer, &params, &a->attention, error);
}

static enum kt_status load(struct kt_model *m, uint32_t layer, struct kt_block *block, struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.attention;
    uint64_t queries = (uint64_t)c->n_heads * c->head_size, keys = (uint64_t)c->n_kv_heads * c->head_size;
    struct attention *a = kt_model_alloc(m, 1, sizeof(*a));
    if (!a)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    block->mixer_weights = a;
    kt_model_need(m, KT_BUFFER_Q, queries);
    kt_model_need(m, KT_BUFFER_MIX, queries);
    kt_model_need(m, KT_BUFFER_GATE, c->has_gate ? 2 * queries : 0);
    kt_model_need(m, KT_BUFFER_K, keys);
    kt_model_need(m, KT_BUFFER_V, keys);
    enum kt_status status = load_matrices(m, layer, a, error);
    if (status == KT_OK)
        status = load_norms(m, layer, a, error);
    return status == KT_OK ? create(m, layer, a, error) : status;
}

/* ---- running ---- */

static enum kt_status norm_heads(const struct kt_model *m, float *rows, const float *weight, uint32_t n,
                                 uint32_t n_heads, struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.attention;
    if (!weight)
        return KT_OK;
    return c->norm == KT_HEAD_NORM_WHOLE
               ? kt_slice_norm(m, rows, weight, rows, n, 1, (uint64_t)n_heads * c->head_size, error)
               : kt_slice_norm(m, rows, weight, rows, n, n_heads, c->head_size, error);
}

/* Takes the queries of a range of tokens out of what came with their gates, or multiplies what attention
 * gave by the gates. */
static enum kt_status run_gate(const struct kt_slice *s, struct kt_range range, enum kt_buffer from,
                               enum kt_buffer to, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_attention_config *c = &m->config.attention;
    uint64_t width = (uint64_t)c->n_heads * c->head_size;
    const float *both = m->buffers[KT_BUFFER_GATE] + range.begin * 2 * width;
    struct kt_rows_input pairs = {.data = both,
                                  .part_stride = 2 * (int64_t)(c->head_size * sizeof(float)),
                                  .dtype = KT_DTYPE_F32};
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.n_rows = range.end - range.begin;
    job.n_parts = c->n_heads;
    job.size = c->head_size;
    pairs.stride = pairs.part_stride * c->n_heads;
    job.input = pairs;
    if (from != KT_BUFFER_GATE) {
        job.gating = KT_GATING_SIGMOID;
        job.gate = pairs;
        job.gate.data = both + c->head_size;
        job.input =
            (struct kt_rows_input){.data = m->buffers[from] + range.begin * width, .dtype = KT_DTYPE_F32};
    }
    job.output = (struct kt_rows_output){.data = m->buffers[to] + range.begin * width, .dtype = KT_DTYPE_F32};
    return kt_rows_gate(m->rows, &job, error);
}

static enum kt_status gate_output(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    return run_gate(s, range, KT_BUFFER_MIX, KT_BUFFER_MIX, error);
}

/* Norms and rotates queries and keys, and writes keys and values into the cache. */
static enum kt_status place_heads(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_attention_config *c = &m->config.attention;
    const struct attention *a = s->block->mixer_weights;
    float *q = m->buffers[KT_BUFFER_Q] + (uint64_t)range.begin * c->n_heads * c->head_size;
    float *k = m->buffers[KT_BUFFER_K] + (uint64_t)range.begin * c->n_kv_heads * c->head_size;
    uint32_t n = range.end - range.begin;
    enum kt_status status = c->has_gate ? run_gate(s, range, KT_BUFFER_GATE, KT_BUFFER_Q, error) : KT_OK;
    if (status == KT_OK)
        status = norm_heads(m, q, a->query_norm, n, c->n_heads, error);
    if (status == KT_OK)
        status = norm_heads(m, k, a->key_norm, n, c->n_kv_heads, error);
    if (status == KT_OK)
        status = kt_slice_rotate(s, q, c->n_heads, c->head_size, range, error);
    if (status == KT_OK)
        status = kt_slice_rotate(s, k, c->n_kv_heads, c->head_size, range, error);
    if (status == KT_OK)
        status = kt_slice_write(s, 0, c->n_kv_heads, c->head_size, m->buffers[KT_BUFFER_K], range, error);
    return status == KT_OK
               ? kt_slice_write(s, 1, c->n_kv_heads, c->head_size, m->buffers[KT_BUFFER_V], range, error)
               : status;
}

static enum kt_status run(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct attention *a = s->block->mixer_weights;
    const struct kt_attention_config *c = &s->model->config.attention;
    uint64_t width = (uint64_t)c->n_heads * c->head_size;
    bool has_gate = c->has_gate;
    float *queries = b[has_gate ? KT_BUFFER_GATE : KT_BUFFER_Q];
    const struct kt_linear_output heads[] = {kt_slice_output(a->q, queries, false),
                                             kt_slice_output(a->k, b[KT_BUFFER_K], false),
                                             kt_slice_output(a->v, b[KT_BUFFER_V], false)};
    const struct kt_linear_output o = kt_slice_output(a->o, b[KT_BUFFER_X], true);
    enum kt_status status = kt_slice_multiply(s, b[KT_BUFFER_H], heads, 3, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, place_heads, error);
    if (status == KT_OK)
        status = kt_slice_attend(s, a->attention, KT_BUFFER_Q, width, width, error);
    if (status == KT_OK && has_gate)
        status = kt_slice_run_tokens(s, gate_output, error);
    return status == KT_OK ? kt_slice_multiply(s, b[KT_BUFFER_MIX], &o, 1, error) : status;
}

const struct kt_mixer kt_mixer_attention = {.fields = fields, .load = load, .run = run};
