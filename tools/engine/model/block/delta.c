/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delta.c - Gated DeltaNet: queries, keys and values go through a convolution over the last tokens, then each
 * value head keeps a matrix of its own, which decays, takes in the token and is multiplied by the query.
 *
 * A row of the convolution has all queries, then all keys, then all values. Some checkpoints have one matrix
 * for these and z, grouped by heads of keys: [q | k | v of r heads | z of r heads]; likewise [b of r | a of
 * r]. The convolution is told where its inputs stand, so that nothing is copied.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <math.h>
#include <string.h>

/* What queries and keys are normed with, whatever the model's epsilon is. */
#define L2_EPS 1e-6F

enum { FIELD_STATE, FIELD_CONVOLUTION };

/* Who uses which buffer, by rows of the slice. */
#define PROJECTED KT_BUFFER_V /* q, k and v, or all groups */
#define GATES KT_BUFFER_K     /* z, if it has a matrix of its own */
#define CONVOLVED KT_BUFFER_Q /* q, k, v */
#define SMALL KT_BUFFER_GATE  /* b and a, as they come */
#define FACTORS KT_BUFFER_UP  /* beta of all heads, then the logarithms of decays */
#define OUTPUT KT_BUFFER_MIX

struct delta {
    struct kt_linear *qkv, *z; /* z NULL: qkv has it, in groups */
    struct kt_linear *b, *a;   /* a NULL: b has it, in groups */
    struct kt_linear *out;
    float *convolution;     /* [width][channels] */
    float *decay, *dt_bias; /* [n_heads] */
    float *norm;            /* [value_size] */
};

static uint64_t keys_of(const struct kt_delta_config *c)
{
    return (uint64_t)c->n_key_heads * c->key_size;
}

static uint64_t values_of(const struct kt_delta_config *c)
{
    return (uint64_t)c->n_heads * c->value_size;
}

static uint64_t channels_of(const struct kt_delta_config *c)
{
    return 2 * keys_of(c) + values_of(c);
}

static uint32_t fields(const struct kt_engine_config *config, uint32_t layer, uint32_t cache_dtype,
                       struct kt_kv_field *out)
{
    const struct kt_delta_config *c = &config->delta;
    (void)layer;
    (void)cache_dtype; /* what is added up over thousands of tokens stays float32 */
    out[FIELD_STATE] = (struct kt_kv_field){.kind = KT_KV_STATE,
                                            .dtype = KT_DTYPE_F32,
                                            .heads = c->n_heads,
                                            .width = c->key_size * c->value_size};
    out[FIELD_CONVOLUTION] = (struct kt_kv_field){.kind = KT_KV_STATE,
                                                  .dtype = KT_DTYPE_F32,
                                                  .heads = 1,
                                                  .width = (uint32_t)((c->width - 1) * channels_of(c))};
    return 2;
}

/* ---- loading ---- */

static bool has_weight(const struct kt_model *m, uint32_t layer, const char *gguf, const char *json)
{
    char name[KT_WEIGHT_NAME];
    struct kt_view view;
    kt_weight_name(m, layer, gguf, json, name);
    return m->checkpoint && kt_checkpoint_weight(m->checkpoint, name, &view, NULL, NULL) != KT_E_NOT_FOUND;
}

static enum kt_status load_projections(struct kt_model *m, uint32_t layer, struct delta *d,
                                       struct kt_error *error)
{
    const struct kt_delta_config *c = &m->config.delta;
    uint64_t hidden = m->config.hidden_size, values = values_of(c);
    enum kt_status status;
    if (has_weight(m, layer, "ssm_in", "linear_attn.in_proj_qkvz")) {
        status = kt_load_matrix(m, layer, "ssm_in", "linear_attn.in_proj_qkvz", channels_of(c) + values,
                                hidden, &d->qkv, error);
    } else {
        status = kt_load_matrix(m, layer, "attn_qkv", "linear_attn.in_proj_qkv", channels_of(c), hidden,
                                &d->qkv, error);
        if (status == KT_OK)
            status =
                kt_load_matrix(m, layer, "attn_gate", "linear_attn.in_proj_z", values, hidden, &d->z, error);
    }
    if (status != KT_OK)
        return status;
    if (has_weight(m, layer, "ssm_ba", "linear_attn.in_proj_ba"))
        return kt_load_matrix(m, layer, "ssm_ba", "linear_attn.in_proj_ba", 2 * (uint64_t)c->n_heads, hidden,
                              &d->b, error);
    status = kt_load_matrix(m, layer, "ssm_beta", "linear_attn.in_proj_b", c->n_heads, hidden, &d->b, error);
    return status == KT_OK ? kt_load_matrix(m, layer, "ssm_alpha", "linear_attn.in_proj_a", c->n_heads,
                                            hidden, &d->a, error)
                           : status;
}

/* Checkpoints have the weights of each channel side by side. */
static enum kt_status load_convolution(struct kt_model *m, uint32_t layer, struct delta *d,
                                       struct kt_error *error)
{
    const struct kt_delta_config *c = &m->config.delta;
    uint64_t channels = channels_of(c);
    float *rows;
    enum kt_status status =
        kt_load_vector(m, layer, "ssm_conv1d", "linear_attn.conv1d", channels, c->width, &rows, error);
    if (status != KT_OK)
        return status;
    d->convolution = kt_model_alloc(m, c->width, channels * sizeof(*d->convolution));
    if (!d->convolution)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    for (uint64_t i = 0; i < channels; i++)
        for (uint64_t w = 0; w < c->width; w++)
            d->convolution[w * channels + i] = rows[i * c->width + w];
    return KT_OK;
}

static enum kt_status load_vectors(struct kt_model *m, uint32_t layer, struct delta *d,
                                   struct kt_error *error)
{
    const struct kt_delta_config *c = &m->config.delta;
    enum kt_status status =
        kt_load_vector(m, layer, "ssm_a", "linear_attn.A_log", 1, c->n_heads, &d->decay, error);
    for (uint32_t h = 0; h < c->n_heads && status == KT_OK && !m->config.is_gguf; h++)
        d->decay[h] = -expf(d->decay[h]);
    if (status == KT_OK)
        status =
            kt_load_vector(m, layer, "ssm_dt.bias", "linear_attn.dt_bias", 1, c->n_heads, &d->dt_bias, error);
    return status == KT_OK
               ? kt_load_vector(m, layer, "ssm_norm", "linear_attn.norm", 1, c->value_size, &d->norm, error)
               : status;
}

static enum kt_status load(struct kt_model *m, uint32_t layer, struct kt_block *block, struct kt_error *error)
{
    const struct kt_delta_config *c = &m->config.delta;
    uint64_t values = values_of(c), scratch;
    struct delta *d = kt_model_alloc(m, 1, sizeof(*d));
    if (!d)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    block->mixer_weights = d;
    enum kt_status status = load_projections(m, layer, d, error);
    if (status == KT_OK)
        status = load_convolution(m, layer, d, error);
    if (status == KT_OK)
        status = load_vectors(m, layer, d, error);
    if (status == KT_OK)
        status = kt_load_matrix(m, layer, "ssm_out", "linear_attn.out_proj", m->config.hidden_size, values,
                                &d->out, error);
    if (status == KT_OK)
        status = kt_rows_delta_scratch(m->rows, c->key_size, c->value_size, &scratch, error);
    if (status != KT_OK)
        return status;
    kt_model_need(m, PROJECTED, channels_of(c) + (d->z ? 0 : values));
    kt_model_need(m, GATES, d->z ? values : 0);
    kt_model_need(m, CONVOLVED, channels_of(c));
    kt_model_need(m, SMALL, 2 * (uint64_t)c->n_heads);
    kt_model_need(m, FACTORS, 2 * (uint64_t)c->n_heads);
    kt_model_need(m, OUTPUT, values);
    kt_model_need_scratch(m, scratch);
    return KT_OK;
}

/* ---- where numbers stand ---- */

/* Numbers of a head in rows. */
struct place {
    float *data; /* of the slice's first row */
    int64_t stride;
    uint32_t size;
};

static struct place place(const struct kt_slice *s, enum kt_buffer buffer, uint64_t width, uint64_t first,
                          uint32_t size)
{
    return (struct place){s->model->buffers[buffer] + first, (int64_t)(width * sizeof(float)), size};
}

static struct kt_rows_input input(struct place p, uint64_t row)
{
    return (struct kt_rows_input){.data = (const char *)p.data + (int64_t)row * p.stride,
                                  .stride = p.stride,
                                  .dtype = KT_DTYPE_F32};
}

static struct kt_rows_output output(struct place p, uint64_t row)
{
    return (struct kt_rows_output){.data = (char *)p.data + (int64_t)row * p.stride,
                                   .stride = p.stride,
                                   .dtype = KT_DTYPE_F32};
}

/* The heads of all queries, all keys, all values are the convolution's parts, numbered in this order. */
static struct place convolved(const struct kt_slice *s, uint32_t part, uint64_t *channel)
{
    const struct kt_delta_config *c = &s->model->config.delta;
    uint32_t n = c->n_key_heads;
    *channel = part < 2 * n ? (uint64_t)part * c->key_size
                            : 2 * keys_of(c) + (uint64_t)(part - 2 * n) * c->value_size;
    return place(s, CONVOLVED, channels_of(c), *channel, part < 2 * n ? c->key_size : c->value_size);
}

/* The same part, or with `gates` the z of a value head, in what the projection gave in groups. */
static struct place grouped(const struct kt_slice *s, uint32_t part, bool gates)
{
    const struct kt_delta_config *c = &s->model->config.delta;
    uint32_t n = c->n_key_heads, r = c->n_heads / n;
    uint64_t values = (uint64_t)r * c->value_size, group = 2 * (uint64_t)c->key_size + 2 * values, first;
    if (part < 2 * n)
        first = part % n * group + (part < n ? 0 : c->key_size);
    else
        first = (part - 2 * n) / r * group + 2 * (uint64_t)c->key_size + (gates ? values : 0) +
                (uint64_t)((part - 2 * n) % r) * c->value_size;
    return place(s, PROJECTED, n * group, first, part < 2 * n ? c->key_size : c->value_size);
}

/* ---- running ---- */

static enum kt_status find_state(const struct kt_slice *s, const struct kt_piece *piece, uint32_t field,
                                 uint32_t head, float **state, struct kt_error *error)
{
    void *found;
    enum kt_status status =
        kt_kv_sequence_state(piece->step->session->sequence, s->layer, field, head, &found, error);
    if (status == KT_OK)
        *state = found;
    return status;
}

/* Makes queries and keys as long as 1, and queries 1 / sqrt(key_size). */
static enum kt_status norm_part(const struct kt_slice *s, struct place p, bool is_query,
                                struct kt_error *error)
{
    struct kt_rows_norm job = KT_ROWS_NORM_INIT;
    job.norm = KT_NORM_L2;
    job.n_rows = s->n_tokens;
    job.size = p.size;
    job.input = input(p, 0);
    job.output = output(p, 0);
    job.eps = L2_EPS;
    job.scale = is_query ? 1 / sqrtf((float)p.size) : 1;
    return kt_rows_norm(s->model->rows, &job, error);
}

static enum kt_status convolve_part(const struct kt_slice *s, uint32_t part, struct kt_error *error)
{
    const struct kt_delta_config *c = &s->model->config.delta;
    const struct delta *d = s->block->mixer_weights;
    uint64_t channel, channels = channels_of(c);
    struct place to = convolved(s, part, &channel);
    struct place from = d->z ? place(s, PROJECTED, channels, channel, to.size) : grouped(s, part, false);
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        const struct kt_piece *piece = &s->pieces[i];
        struct kt_rows_convolve job = KT_ROWS_CONVOLVE_INIT;
        float *state;
        status = find_state(s, piece, FIELD_CONVOLUTION, 0, &state, error);
        if (status != KT_OK)
            return status;
        job.n_rows = piece->n;
        job.n_channels = to.size;
        job.width = c->width;
        job.input = input(from, piece->begin);
        job.output = output(to, piece->begin);
        job.weight = d->convolution + channel;
        job.state = state + channel;
        job.weight_stride = job.state_stride = (int64_t)(channels * sizeof(float));
        status = kt_rows_convolve(s->model->rows, &job, error);
    }
    if (status == KT_OK && part < 2 * c->n_key_heads)
        status = norm_part(s, to, part < c->n_key_heads, error);
    return status;
}

static enum kt_status convolve(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint32_t part = range.begin; part < range.end && status == KT_OK; part++)
        status = convolve_part(s, part, error);
    return status;
}

/* Of tokens; beta and decays of all heads side by side come from groups of them. */
static enum kt_status make_factors(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_delta_config *c = &s->model->config.delta;
    const struct delta *d = s->block->mixer_weights;
    uint32_t n_groups = d->a ? 1 : c->n_key_heads, n = c->n_heads / n_groups;
    uint64_t width = 2 * (uint64_t)c->n_heads;
    enum kt_status status = KT_OK;
    for (uint32_t g = 0; g < n_groups && status == KT_OK; g++) {
        uint64_t first = (uint64_t)g * n;
        struct place b = place(s, SMALL, width, 2 * first, n), a = place(s, SMALL, width, 2 * first + n, n);
        struct place beta = place(s, FACTORS, width, first, n);
        struct kt_rows_decay job = KT_ROWS_DECAY_INIT;
        job.n_rows = range.end - range.begin;
        job.n_heads = n;
        job.x = input(a, range.begin);
        job.y = input(b, range.begin);
        job.a = d->decay + first;
        job.dt_bias = d->dt_bias + first;
        job.beta = output(beta, range.begin).data;
        job.log_decay = job.beta + c->n_heads;
        job.log_decay_stride = job.beta_stride = beta.stride;
        status = kt_rows_decay(s->model->rows, &job, error);
    }
    return status;
}

static enum kt_status norm_head(const struct kt_slice *s, uint32_t head, struct place p,
                                struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_delta_config *c = &m->config.delta;
    const struct delta *d = s->block->mixer_weights;
    struct kt_rows_norm job = KT_ROWS_NORM_INIT;
    job.norm = KT_NORM_RMS;
    job.n_rows = s->n_tokens;
    job.size = p.size;
    job.input = input(p, 0);
    job.output = output(p, 0);
    job.gate = input(d->z ? place(s, GATES, values_of(c), (uint64_t)head * p.size, p.size)
                          : grouped(s, 2 * c->n_key_heads + head, true),
                     0);
    job.weight = d->norm;
    job.eps = m->config.eps;
    return kt_rows_norm(m->rows, &job, error);
}

/* A job has one head, since the states of neighboring heads may lie on other NUMA nodes. */
static enum kt_status recur_head(const struct kt_slice *s, uint32_t head, void *scratch,
                                 struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_delta_config *c = &m->config.delta;
    uint64_t width = 2 * (uint64_t)c->n_heads, channel;
    uint32_t key_head =
        c->order == KT_DELTA_GROUPED ? head / (c->n_heads / c->n_key_heads) : head % c->n_key_heads;
    struct place q = convolved(s, key_head, &channel), k = convolved(s, c->n_key_heads + key_head, &channel),
                 v = convolved(s, 2 * c->n_key_heads + head, &channel),
                 beta = place(s, FACTORS, width, head, 1),
                 to = place(s, OUTPUT, values_of(c), (uint64_t)head * c->value_size, c->value_size);
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        const struct kt_piece *piece = &s->pieces[i];
        struct kt_rows_delta job = KT_ROWS_DELTA_INIT;
        job.n_rows = piece->n;
        job.n_heads = job.n_key_heads = job.end_head = 1;
        job.key_size = c->key_size;
        job.value_size = c->value_size;
        job.query = input(q, piece->begin).data;
        job.key = input(k, piece->begin).data;
        job.value = input(v, piece->begin).data;
        job.beta = input(beta, piece->begin).data;
        job.log_decay = job.beta + c->n_heads;
        job.output = output(to, piece->begin).data;
        job.query_stride = job.key_stride = job.value_stride = q.stride;
        job.beta_stride = job.log_decay_stride = beta.stride;
        job.output_stride = to.stride;
        job.scratch = scratch;
        job.scratch_size = m->scratch_size;
        status = find_state(s, piece, FIELD_STATE, head, &job.state, error);
        if (status == KT_OK)
            status = kt_rows_delta(m->rows, &job, error);
    }
    return status == KT_OK ? norm_head(s, head, to, error) : status;
}

static enum kt_status recur(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    void *scratch = s->model->scratch + range.thread * s->model->scratch_size;
    enum kt_status status = KT_OK;
    for (uint32_t head = range.begin; head < range.end && status == KT_OK; head++)
        status = recur_head(s, head, scratch, error);
    return status;
}

static enum kt_status project(const struct kt_slice *s, struct kt_error *error)
{
    float *const *buffers = s->model->buffers;
    const struct delta *d = s->block->mixer_weights;
    uint32_t n_heads = s->model->config.delta.n_heads, n = 0;
    struct kt_linear_output all[4];
    all[n++] = kt_slice_output(d->qkv, buffers[PROJECTED], false);
    if (d->z)
        all[n++] = kt_slice_output(d->z, buffers[GATES], false);
    for (int i = 0; i < 2; i++) {
        if (i == 1 && !d->a)
            break;
        all[n] = kt_slice_output(i == 0 ? d->b : d->a, buffers[SMALL] + i * (int64_t)n_heads, false);
        all[n++].output_stride = (int64_t)(2 * n_heads * sizeof(float));
    }
    return kt_slice_multiply(s, buffers[KT_BUFFER_H], all, n, error);
}

static enum kt_status run(const struct kt_slice *s, struct kt_error *error)
{
    const struct kt_delta_config *c = &s->model->config.delta;
    const struct delta *d = s->block->mixer_weights;
    const struct kt_linear_output out = kt_slice_result(s, KT_HALF_MIXER, d->out);
    enum kt_status status = project(s, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, make_factors, error);
    if (status == KT_OK)
        status = kt_slice_run_items(s, 2 * c->n_key_heads + c->n_heads, convolve, error);
    if (status == KT_OK)
        status = kt_slice_run_items(s, c->n_heads, recur, error);
    return status == KT_OK ? kt_slice_multiply(s, s->model->buffers[OUTPUT], &out, 1, error) : status;
}

const struct kt_mixer kt_mixer_delta = {.fields = fields, .load = load, .run = run};
