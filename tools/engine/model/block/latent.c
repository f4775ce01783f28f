/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latent.c - multi-head latent attention. All heads' keys and values are made of one latent c of a token, so
 * that the cache keeps it and the rotated numbers kr of the keys alone:
 *
 *     key of head h = [Uk_h c | kr]        value = Uv_h c
 *
 * Neither is ever made. With q = [qn | qr] the score is qn . Uk_h c + qr . kr = [Uk_h^T qn | qr] . [c | kr],
 * and a sum of values is Uv_h times the sum of the latents: attention with one head of keys for all heads of
 * queries, whose values are the keys' first numbers, between two products a head.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/heads.h"
#include "tools/engine/model/block/indexer.h"

#include <math.h>

struct latent {
    struct kt_linear *q;        /* of the input, or of the queries' latent */
    struct kt_linear *q_latent; /* NULL: there is none */
    struct kt_linear *kv_latent, *o;
    float *q_norm, *kv_norm;
    struct kt_heads absorb; /* Uk^T: [kv_rank][nope_size] */
    struct kt_heads expand; /* Uv: [value_size][kv_rank] */
    struct kt_attention *attention;
};

/* The norms of latents have an epsilon of their own, whatever the configuration says of the layers'. */
#define LATENT_EPS 1e-6f

static uint32_t row_width(const struct kt_latent_config *l)
{
    return l->kv_rank + l->rope_size;
}

static uint32_t head_size(const struct kt_latent_config *l)
{
    return l->nope_size + l->rope_size;
}

static uint32_t fields(const struct kt_engine_config *c, uint32_t layer, uint32_t cache_dtype,
                       struct kt_kv_field *out)
{
    out[0] = (struct kt_kv_field){.kind = KT_KV_ROWS,
                                  .layout = c->indexer.n_heads ? KT_KV_PLAIN : KT_KV_KEY,
                                  .dtype = cache_dtype,
                                  .heads = 1,
                                  .width = row_width(&c->latent)};
    return 1 + kt_indexer_fields(c, layer, cache_dtype, &out[KT_INDEXER_FIELD]);
}

/* ---- loading ---- */

/* A tensor of `rows` for each head. */
static enum kt_status find_heads(struct kt_model *m, uint32_t layer, const char *gguf, const char *json,
                                 uint64_t rows, uint64_t cols, struct kt_heads_source *source,
                                 struct kt_error *error)
{
    char name[KT_WEIGHT_NAME];
    uint64_t n = m->config.attention.n_heads * rows;
    const float *bias;
    kt_weight_name(m, layer, gguf, json, name);
    *source = (struct kt_heads_source){.stride = rows};
    enum kt_status status = kt_find_weight(m, name, n, cols, &source->view, &bias, error);
    if (status == KT_OK && m->assumed)
        status = kt_assume_heads(m, n, cols, &source->view, error);
    if (status != KT_OK)
        return status;
    if (bias)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "%s has a bias, which is not computed", name);
    kt_model_mark_weight(m, name, true);
    return KT_OK;
}

/* Two tensors in later GGUF files, which may have the other one besides; else one with the rows of a head
 * after another, first those of its key. */
static enum kt_status load_both_heads(struct kt_model *m, uint32_t layer, struct latent *a,
                                      struct kt_error *error)
{
    const struct kt_latent_config *l = &m->config.latent;
    struct kt_heads_source keys, values, both;
    a->absorb = (struct kt_heads){.rows = l->kv_rank, .cols = l->nope_size};
    a->expand = (struct kt_heads){.rows = l->value_size, .cols = l->kv_rank};
    enum kt_status status = find_heads(m, layer, "attn_k_b", NULL, l->kv_rank, l->nope_size, &keys, error);
    bool parted = status == KT_OK;
    if (!parted && status != KT_E_NOT_FOUND)
        return status;
    status = find_heads(m, layer, "attn_kv_b", "self_attn.kv_b_proj", l->nope_size + l->value_size,
                        l->kv_rank, &both, error);
    if (parted && (status == KT_OK || status == KT_E_NOT_FOUND)) {
        status = find_heads(m, layer, "attn_v_b", NULL, l->value_size, l->kv_rank, &values, error);
    } else {
        keys = values = both;
        keys.transposed = true;
        values.first = l->nope_size;
    }
    if (status == KT_OK)
        status = kt_heads_load(m, &keys, &a->absorb, error);
    return status == KT_OK ? kt_heads_load(m, &values, &a->expand, error) : status;
}

static enum kt_status load_queries(struct kt_model *m, uint32_t layer, struct latent *a,
                                   struct kt_error *error)
{
    const struct kt_latent_config *l = &m->config.latent;
    uint64_t hidden = m->config.hidden_size, width = (uint64_t)m->config.attention.n_heads * head_size(l);
    if (l->q_rank == 0)
        return kt_load_matrix(m, layer, "attn_q", "self_attn.q_proj", width, hidden, &a->q, error);
    kt_model_need(m, KT_BUFFER_V, l->q_rank);
    enum kt_status status =
        kt_load_matrix(m, layer, "attn_q_a", "self_attn.q_a_proj", l->q_rank, hidden, &a->q_latent, error);
    if (status == KT_OK)
        status = kt_load_vector(m, layer, "attn_q_a_norm", "self_attn.q_a_layernorm", 1, l->q_rank,
                                &a->q_norm, error);
    return status == KT_OK
               ? kt_load_matrix(m, layer, "attn_q_b", "self_attn.q_b_proj", width, l->q_rank, &a->q, error)
               : status;
}

static enum kt_status check_biases(const struct kt_model *m, uint32_t layer, struct kt_error *error)
{
    static const char *const names[][2] = {{"attn_q", "self_attn.q_proj"},
                                           {"attn_q_a", "self_attn.q_a_proj"},
                                           {"attn_q_b", "self_attn.q_b_proj"},
                                           {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
                                           {"attn_output", "self_attn.o_proj"}};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && status == KT_OK; i++)
        status = kt_check_bias(m, layer, names[i][0], names[i][1], false, error);
    return status;
}

static enum kt_status load_weights(struct kt_model *m, uint32_t layer, struct latent *a,
                                   struct kt_error *error)
{
    const struct kt_latent_config *l = &m->config.latent;
    uint64_t hidden = m->config.hidden_size;
    enum kt_status status = load_queries(m, layer, a, error);
    if (status == KT_OK)
        status = kt_load_matrix(m, layer, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", row_width(l),
                                hidden, &a->kv_latent, error);
    if (status == KT_OK)
        status = kt_load_vector(m, layer, "attn_kv_a_norm", "self_attn.kv_a_layernorm", 1, l->kv_rank,
                                &a->kv_norm, error);
    if (status == KT_OK)
        status = load_both_heads(m, layer, a, error);
    if (status == KT_OK)
        status = kt_load_matrix(m, layer, "attn_output", "self_attn.o_proj", hidden,
                                (uint64_t)m->config.attention.n_heads * l->value_size, &a->o, error);
    return status == KT_OK ? check_biases(m, layer, error) : status;
}

static enum kt_status create(struct kt_model *m, uint32_t layer, struct latent *a, struct kt_error *error)
{
    const struct kt_latent_config *l = &m->config.latent;
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    double factor;
    enum kt_status status = kt_rope_softmax_factor(&m->config.rope, &factor, error);
    if (status != KT_OK)
        return status;
    params.layer = layer;
    params.n_heads = m->config.attention.n_heads;
    params.value_size = l->kv_rank;
    params.scale = (float)(factor / sqrt(head_size(l)));
    params.max_sequences = m->params.max_sessions;
    params.window = m->config.layers[layer].window;
    return kt_load_attention(m, layer, &params, &a->attention, error);
}

static enum kt_status load(struct kt_model *m, uint32_t layer, struct kt_block *block, struct kt_error *error)
{
    const struct kt_latent_config *l = &m->config.latent;
    uint64_t n_heads = m->config.attention.n_heads;
    struct latent *a = kt_model_alloc(m, 1, sizeof(*a));
    if (!a)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    block->mixer_weights = a;
    kt_model_need(m, KT_BUFFER_K, row_width(l));
    kt_model_need(m, KT_BUFFER_Q, n_heads * head_size(l));
    kt_model_need(m, KT_BUFFER_Q, n_heads * l->value_size);
    kt_model_need(m, KT_BUFFER_ABSORBED, n_heads * row_width(l));
    kt_model_need(m, KT_BUFFER_MIX, n_heads * l->kv_rank);
    enum kt_status status = load_weights(m, layer, a, error);
    if (status == KT_OK)
        status = kt_indexer_load(m, layer, block, error);
    return status == KT_OK ? create(m, layer, a, error) : status;
}

/* ---- running ---- */

/* The first numbers of rows that are `stride` wide. */
static enum kt_status norm_latent(const struct kt_model *m, float *rows, const float *weight, uint32_t n,
                                  uint32_t size, uint32_t stride, float scale, struct kt_error *error)
{
    struct kt_rows_norm job = KT_ROWS_NORM_INIT;
    int64_t bytes = (int64_t)stride * (int64_t)sizeof(float);
    job.norm = KT_NORM_RMS;
    job.n_rows = n;
    job.size = size;
    job.input = (struct kt_rows_input){.data = rows, .stride = bytes, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = rows, .stride = bytes, .dtype = KT_DTYPE_F32};
    job.weight = weight;
    job.scale = scale;
    job.eps = LATENT_EPS;
    return kt_rows_norm(m->rows, &job, error);
}

/* Norms both latents, rotates the keys' numbers and writes the cache's rows. */
static enum kt_status place_rows(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_latent_config *l = &m->config.latent;
    const struct latent *a = s->block->mixer_weights;
    uint32_t n = range.end - range.begin, width = row_width(l);
    float *row = m->buffers[KT_BUFFER_K] + (uint64_t)range.begin * width;
    enum kt_status status = KT_OK;
    if (a->q_latent)
        status = norm_latent(m, m->buffers[KT_BUFFER_V] + (uint64_t)range.begin * l->q_rank, a->q_norm, n,
                             l->q_rank, l->q_rank, l->q_scale, error);
    if (status == KT_OK)
        status = norm_latent(m, row, a->kv_norm, n, l->kv_rank, width, l->kv_scale, error);
    if (status == KT_OK)
        status = kt_slice_rotate(s, row + l->kv_rank, 1, width, range, error);
    if (status == KT_OK && s->block->indexer)
        status = kt_indexer_place(s, range, error);
    return status == KT_OK ? kt_slice_write(s, 0, 1, width, m->buffers[KT_BUFFER_K], range, error) : status;
}

/* The rotated numbers of a head's queries go behind those that were multiplied. */
static enum kt_status place_rotated(const struct kt_slice *s, uint32_t head, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_latent_config *l = &m->config.latent;
    uint32_t n_heads = m->config.attention.n_heads;
    const float *from = m->buffers[KT_BUFFER_Q] + (uint64_t)head * head_size(l) + l->nope_size;
    float *to = m->buffers[KT_BUFFER_ABSORBED] + (uint64_t)head * row_width(l) + l->kv_rank;
    struct kt_range all = {.begin = 0, .end = s->n_tokens};
    struct kt_rows_gate copy = KT_ROWS_GATE_INIT;
    copy.n_rows = s->n_tokens;
    copy.size = l->rope_size;
    copy.input = (struct kt_rows_input){.data = from,
                                        .stride = (int64_t)n_heads * head_size(l) * (int64_t)sizeof(float),
                                        .dtype = KT_DTYPE_F32};
    copy.output = (struct kt_rows_output){.data = to,
                                          .stride = (int64_t)n_heads * row_width(l) * (int64_t)sizeof(float),
                                          .dtype = KT_DTYPE_F32};
    enum kt_status status = kt_rows_gate(m->rows, &copy, error);
    return status == KT_OK ? kt_slice_rotate(s, to, 1, n_heads * row_width(l), all, error) : status;
}

/* All numbers of queries. */
static enum kt_status grow_queries(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_attention_config *c = &s->block->config->attention;
    uint64_t width = (uint64_t)c->n_heads * row_width(&m->config.latent);
    (void)error;
    kt_slice_grow(s, &c->growth, m->buffers[KT_BUFFER_ABSORBED] + range.begin * width, width, range);
    return KT_OK;
}

static enum kt_status absorb(const struct kt_slice *s, struct kt_range units, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_latent_config *l = &m->config.latent;
    const struct latent *a = s->block->mixer_weights;
    const struct kt_heads_rows rows = {m->buffers[KT_BUFFER_Q], head_size(l), m->buffers[KT_BUFFER_ABSORBED],
                                       row_width(l)};
    uint32_t per_head = kt_heads_units(&a->absorb);
    enum kt_status status = kt_heads_multiply(s, &a->absorb, &rows, units, error);
    /* Whoever has the first unit of a head has these, too. */
    for (uint32_t head = (units.begin + per_head - 1) / per_head;
         (uint64_t)head * per_head < units.end && status == KT_OK; head++)
        status = place_rotated(s, head, error);
    return status;
}

static enum kt_status expand(const struct kt_slice *s, struct kt_range units, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_latent_config *l = &m->config.latent;
    const struct latent *a = s->block->mixer_weights;
    const struct kt_heads_rows rows = {m->buffers[KT_BUFFER_MIX], l->kv_rank, m->buffers[KT_BUFFER_Q],
                                       l->value_size};
    return kt_heads_multiply(s, &a->expand, &rows, units, error);
}

/* The two latents, and the queries of theirs; or the latent of keys and values, and the queries at once. The
 * same of an indexer, which then selects rows. */
static enum kt_status make_queries(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct latent *a = s->block->mixer_weights;
    const uint32_t more = s->block->indexer ? 1 : 0;
    struct kt_linear_output q[2] = {kt_slice_output(a->q, b[KT_BUFFER_Q], false)};
    struct kt_linear_output first[3] = {kt_slice_output(a->kv_latent, b[KT_BUFFER_K], false),
                                        a->q_latent ? kt_slice_output(a->q_latent, b[KT_BUFFER_V], false)
                                                    : q[0]};
    if (s->block->indexer) {
        first[2] = kt_indexer_keys(s);
        q[1] = kt_indexer_queries(s);
    }
    enum kt_status status = kt_slice_multiply(s, b[KT_BUFFER_H], first, 2 + more, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, place_rows, error);
    if (status == KT_OK && a->q_latent)
        status = kt_slice_multiply(s, b[KT_BUFFER_V], q, 1 + more, error);
    return status == KT_OK && s->block->indexer ? kt_indexer_run(s, error) : status;
}

/* One of the two products between the heads' matrices and rows of all tokens. */
static enum kt_status run_heads(const struct kt_slice *s, const struct kt_heads *heads, kt_part_fn product,
                                struct kt_error *error)
{
    struct kt_model *m = s->model;
    double start = kt_slice_now();
    enum kt_status status =
        kt_slice_run_items(s, m->config.attention.n_heads * kt_heads_units(heads), product, error);
    m->times.linears += kt_slice_now() - start;
    return status;
}

static enum kt_status run(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct latent *a = s->block->mixer_weights;
    const struct kt_latent_config *l = &s->model->config.latent;
    uint64_t n_heads = s->model->config.attention.n_heads;
    const struct kt_linear_output o = kt_slice_result(s, KT_HALF_MIXER, a->o);
    enum kt_status status = make_queries(s, error);
    if (status == KT_OK)
        status = run_heads(s, &a->absorb, absorb, error);
    if (status == KT_OK && s->block->config->attention.growth.growth != KT_GROWTH_NONE)
        status = kt_slice_run_tokens(s, grow_queries, error);
    if (status == KT_OK)
        status = kt_slice_attend(s, a->attention, KT_BUFFER_ABSORBED, n_heads * row_width(l),
                                 n_heads * l->kv_rank, error);
    if (status == KT_OK)
        status = run_heads(s, &a->expand, expand, error);
    return status == KT_OK ? kt_slice_multiply(s, b[KT_BUFFER_Q], &o, 1, error) : status;
}

const struct kt_mixer kt_mixer_latent = {.fields = fields, .load = load, .run = run};
