/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - grouped-query attention. What a layer has of norms of heads, windows, sinks, gates and sizes
 * its configuration says.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct attention {
    struct kt_linear *joined;     /* rows of q, k and v in one, or NULL */
    struct kt_linear *q, *k, *v;  /* NULL if joined; v also if it shares k */
    struct kt_linear *o, *gate;   /* gate: of its own, or NULL */
    float *query_norm, *key_norm; /* [head_size] or [heads * head_size], or NULL */
    float *gate_bias;             /* [n_heads], or NULL */
    struct kt_attention *attention;
};

static uint32_t value_size(const struct kt_attention_config *c)
{
    return c->value_size ? c->value_size : c->head_size;
}

/* Numbers of all heads of a token. */
static uint64_t query_width(const struct kt_attention_config *c)
{
    return (uint64_t)c->n_heads * c->head_size;
}

static uint64_t key_width(const struct kt_attention_config *c)
{
    return (uint64_t)c->n_kv_heads * c->head_size;
}

static uint64_t value_width(const struct kt_attention_config *c)
{
    return (uint64_t)c->n_kv_heads * value_size(c);
}

static uint64_t output_width(const struct kt_attention_config *c)
{
    return (uint64_t)c->n_heads * value_size(c);
}

/* GGUF files of any family may have one matrix. */
static bool is_joined(const struct kt_model *m, uint32_t layer)
{
    char name[KT_WEIGHT_NAME];
    uint64_t index;
    if (!m->config.is_gguf)
        return m->config.family->names.json_joined != NULL;
    kt_weight_name(m, layer, "attn_qkv.weight", NULL, name);
    return m->config.layers[layer].attention.gate != KT_OUTPUT_GATE_JOINED &&
           kt_checkpoint_find(m->checkpoint, name, &index, NULL) == KT_OK;
}

static uint32_t fields(const struct kt_engine_config *config, uint32_t layer, uint32_t cache_dtype,
                       struct kt_kv_field *out)
{
    const struct kt_attention_config *c = &config->layers[layer].attention;
    if (config->layers[layer].shares > 0)
        return 0;
    out[0] = (struct kt_kv_field){.kind = KT_KV_ROWS,
                                  .layout = KT_KV_KEY,
                                  .dtype = cache_dtype,
                                  .heads = c->n_kv_heads,
                                  .width = c->head_size};
    out[1] = out[0];
    out[1].layout = KT_KV_VALUE;
    out[1].width = value_size(c);
    return 2;
}

/* ---- loading ---- */

/* A name within the family's name of attention; `own` is what it calls the part, or NULL. */
static void name_part(const struct kt_model *m, const char *own, const char *usual, char *name, size_t size)
{
    const char *attention = m->config.family->names.json_attention;
    (void)snprintf(name, size, "%s.%s", attention ? attention : "self_attn", own ? own : usual);
}

/* Norms, and biases of gates. */
static enum kt_status load_norms(struct kt_model *m, uint32_t layer, struct attention *a,
                                 struct kt_error *error)
{
    const struct kt_family_names *names = &m->config.family->names;
    const struct kt_attention_config *c = &m->config.layers[layer].attention;
    bool whole = c->norm == KT_HEAD_NORM_WHOLE;
    enum kt_status status = KT_OK;
    char query[80], key[80], gate[80];
    name_part(m, names->json_gate_bias, "", gate, sizeof(gate));
    if (c->gate_biases &&
        (status = kt_load_vector(m, layer, NULL, gate, 1, c->n_heads, &a->gate_bias, error)) != KT_OK)
        return status;
    if (c->norm == KT_HEAD_NORM_NONE || c->norms_plainly)
        return KT_OK;
    name_part(m, names->json_query_norm, "q_norm", query, sizeof(query));
    name_part(m, names->json_key_norm, "k_norm", key, sizeof(key));
    bool has_keys = m->config.layers[layer].shares == 0;
    status = kt_load_vector(m, layer, "attn_q_norm", query, 1, whole ? query_width(c) : c->head_size,
                            &a->query_norm, error);
    return status == KT_OK && has_keys
               ? kt_load_vector(m, layer, "attn_k_norm", key, 1, whole ? key_width(c) : c->head_size,
                                &a->key_norm, error)
               : status;
}

static enum kt_status load_matrices(struct kt_model *m, uint32_t layer, struct attention *a,
                                    struct kt_error *error)
{
    const struct kt_family_names *names = &m->config.family->names;
    const struct kt_attention_config *c = &m->config.layers[layer].attention;
    uint64_t hidden = m->config.hidden_size, q = query_width(c), k = key_width(c), v = value_width(c);
    const uint64_t gates = c->gate == KT_OUTPUT_GATE_HEADS ? c->n_heads : output_width(c);
    const bool has_keys = m->config.layers[layer].shares == 0;
    const bool joined = is_joined(m, layer), has_gate = c->gate > KT_OUTPUT_GATE_JOINED;
    const struct {
        const char *gguf, *own, *json;
        uint64_t rows, cols;
        struct kt_linear **out;
        uint32_t biases; /* which the class has that have one here */
        bool is_there;
    } all[] = {{"attn_qkv", names->json_joined, "", q + k + v, hidden, &a->joined, KT_BIASES_QKV, joined},
               {"attn_q", NULL, "q_proj", q * (c->gate == KT_OUTPUT_GATE_JOINED ? 2 : 1), hidden, &a->q,
                KT_BIASES_QKV, !joined},
               {"attn_k", NULL, "k_proj", k, hidden, &a->k, KT_BIASES_QKV, !joined && has_keys},
               {"attn_v", NULL, "v_proj", v, hidden, &a->v, KT_BIASES_QKV,
                !joined && has_keys && !c->shares_keys},
               {"attn_output", names->json_output, "o_proj", hidden, output_width(c), &a->o, KT_BIASES_ALL,
                true},
               {"attn_gate", names->json_gate, "g_proj", gates, hidden, &a->gate, UINT32_MAX, has_gate}};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && status == KT_OK; i++) {
        char json[80];
        if (!all[i].is_there)
            continue;
        name_part(m, all[i].own, all[i].json, json, sizeof(json));
        status = kt_load_matrix(m, layer, all[i].gguf, json, all[i].rows, all[i].cols, all[i].out, error);
        if (status == KT_OK)
            status = kt_check_bias(m, layer, all[i].gguf, json, c->biases >= all[i].biases, error);
    }
    return status;
}

/* Files may have keys and values of layers that take another one's; nobody reads them. */
static void skip_keys(struct kt_model *m, uint32_t layer)
{
    static const struct kt_name names[] = {{"attn_k", "self_attn.k_proj"},
                                           {"attn_v", "self_attn.v_proj"},
                                           {"attn_k_norm", "self_attn.k_norm"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && m->config.layers[layer].shares > 0; i++) {
        char name[KT_WEIGHT_NAME];
        kt_weight_name(m, layer, names[i].gguf, names[i].json, name);
        kt_model_mark_weight(m, name, true);
    }
}

static enum kt_status create(struct kt_model *m, uint32_t layer, struct attention *a, struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.layers[layer].attention;
    struct kt_attention_params params = KT_ATTENTION_PARAMS_INIT;
    float *sinks = NULL;
    char json[80];
    enum kt_status status = KT_OK;
    name_part(m, m->config.family->names.json_sinks, "sinks", json, sizeof(json));
    if (c->has_sinks)
        status = kt_load_vector(m, layer, "attn_sinks", json, 1, c->n_heads, &sinks, error);
    if (status != KT_OK)
        return status;
    const uint32_t shares = m->config.layers[layer].shares;
    params.layer = shares > 0 ? shares - 1 : layer;
    params.value_field = 1;
    params.n_heads = c->n_heads;
    params.scale = c->scale;
    params.max_sequences = kt_model_most_items(m);
    params.window = m->config.layers[layer].window;
    params.sinks = sinks;
    return kt_load_attention(m, layer, &params, &a->attention, error);
}

static enum kt_status load(struct kt_model *m, uint32_t layer, struct kt_block *block, struct kt_error *error)
{
    const struct kt_attention_config *c = &m->config.layers[layer].attention;
    struct attention *a = kt_model_alloc(m, 1, sizeof(*a));
    if (!a)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    block->mixer_weights = a;
    kt_model_need(m, KT_BUFFER_Q, query_width(c));
    kt_model_need(m, KT_BUFFER_MIX, output_width(c));
    if (c->gate == KT_OUTPUT_GATE_JOINED)
        kt_model_need(m, KT_BUFFER_GATE, 2 * query_width(c));
    else if (c->gate != KT_OUTPUT_GATE_NONE)
        kt_model_need(m, KT_BUFFER_GATE, c->gate == KT_OUTPUT_GATE_HEADS ? c->n_heads : output_width(c));
    kt_model_need(m, KT_BUFFER_K, key_width(c));
    kt_model_need(m, KT_BUFFER_V, value_width(c));
    if (is_joined(m, layer))
        kt_model_need(m, KT_BUFFER_ABSORBED, query_width(c) + key_width(c) + value_width(c));
    skip_keys(m, layer);
    enum kt_status status = load_matrices(m, layer, a, error);
    if (status == KT_OK)
        status = load_norms(m, layer, a, error);
    return status == KT_OK ? create(m, layer, a, error) : status;
}

/* ---- running ---- */

/* Copies numbers of a range of tokens: the first `width` of rows that are `stride` wide. */
static enum kt_status copy_rows(const struct kt_slice *s, struct kt_range range, const float *from,
                                uint64_t stride, float *to, uint64_t width, struct kt_error *error)
{
    struct kt_rows_gate copy = KT_ROWS_GATE_INIT;
    copy.n_rows = range.end - range.begin;
    copy.size = (uint32_t)width;
    copy.input = (struct kt_rows_input){.data = from + range.begin * stride,
                                        .stride = (int64_t)(stride * sizeof(float)),
                                        .dtype = KT_DTYPE_F32};
    copy.output = (struct kt_rows_output){.data = to + range.begin * width, .dtype = KT_DTYPE_F32};
    return kt_rows_gate(s->model->rows, &copy, error);
}

/* Parts the rows of a joined matrix. */
static enum kt_status part_rows(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct kt_attention_config *c = &s->block->config->attention;
    const uint64_t q = query_width(c), k = key_width(c), v = value_width(c), all = q + k + v;
    const float *from = b[KT_BUFFER_ABSORBED];
    enum kt_status status = copy_rows(s, range, from, all, b[KT_BUFFER_Q], q, error);
    if (status == KT_OK)
        status = copy_rows(s, range, from + q, all, b[KT_BUFFER_K], k, error);
    return status == KT_OK ? copy_rows(s, range, from + q + k, all, b[KT_BUFFER_V], v, error) : status;
}

static enum kt_status norm_heads(const struct kt_slice *s, float *rows, const float *weight, uint32_t n,
                                 uint32_t n_heads, struct kt_error *error)
{
    const struct kt_attention_config *c = &s->block->config->attention;
    if (c->norm == KT_HEAD_NORM_NONE)
        return KT_OK;
    return c->norm == KT_HEAD_NORM_WHOLE
               ? kt_slice_norm(s->model, rows, weight, rows, n, 1, (uint64_t)n_heads * c->head_size, error)
               : kt_slice_norm(s->model, rows, weight, rows, n, n_heads, c->head_size, error);
}

/* Takes the queries of a range of tokens out of what came with their gates, or multiplies what attention
 * gave by the gates. */
static enum kt_status run_joined_gate(const struct kt_slice *s, struct kt_range range, enum kt_buffer from,
                                      enum kt_buffer to, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_attention_config *c = &s->block->config->attention;
    uint64_t width = query_width(c);
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

static void take_softplus(float *numbers, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        numbers[i] = fmaxf(numbers[i], 0) + log1pf(expf(-fabsf(numbers[i])));
}

static enum kt_status gate_output(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_attention_config *c = &s->block->config->attention;
    const uint64_t width = output_width(c), n = range.end - range.begin;
    const bool of_heads = c->gate == KT_OUTPUT_GATE_HEADS;
    const uint64_t gates = of_heads ? c->n_heads : width;
    float *gate = m->buffers[KT_BUFFER_GATE] + range.begin * gates;
    float *mix = m->buffers[KT_BUFFER_MIX] + range.begin * width;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    if (c->gate == KT_OUTPUT_GATE_JOINED)
        return run_joined_gate(s, range, KT_BUFFER_MIX, KT_BUFFER_MIX, error);
    const float *bias = ((const struct attention *)s->block->mixer_weights)->gate_bias;
    for (uint64_t i = 0; bias && i < n * gates; i++)
        gate[i] += bias[i % gates / value_size(c)];
    if (c->gating == KT_GATE_SOFTPLUS)
        take_softplus(gate, n * gates);
    job.gating = c->gating == KT_GATE_SOFTPLUS ? KT_GATING_PLAIN : KT_GATING_SIGMOID;
    job.n_rows = (uint32_t)n;
    job.n_parts = c->n_heads;
    job.size = value_size(c);
    job.one_gate = of_heads;
    job.input = (struct kt_rows_input){.data = mix, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = gate, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = mix, .dtype = KT_DTYPE_F32};
    return kt_rows_gate(m->rows, &job, error);
}

static void clip(float *numbers, uint64_t n, float most)
{
    for (uint64_t i = 0; i < n && most > 0; i++)
        numbers[i] = numbers[i] > most ? most : numbers[i] < -most ? -most : numbers[i];
}

/* Makes values of a range of tokens what attention adds up. */
static enum kt_status prepare_values(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_attention_config *c = &s->block->config->attention;
    const uint64_t width = value_width(c), n = range.end - range.begin;
    float *v = s->model->buffers[KT_BUFFER_V] + range.begin * width;
    enum kt_status status = KT_OK;
    if (c->shares_keys)
        status = copy_rows(s, range, s->model->buffers[KT_BUFFER_K], width, s->model->buffers[KT_BUFFER_V],
                           width, error);
    if (status == KT_OK && c->norms_values)
        status = kt_slice_norm(s->model, v, NULL, v, (uint32_t)n, c->n_kv_heads, value_size(c), error);
    clip(v, n * width, c->clip);
    for (uint64_t i = 0; i < n * width && c->value_scale != 0; i++)
        v[i] *= c->value_scale;
    return status;
}

/* Norms and rotates queries and keys of a range of tokens. */
static enum kt_status prepare_keys(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_attention_config *c = &s->block->config->attention;
    const struct attention *a = s->block->mixer_weights;
    float *q = s->model->buffers[KT_BUFFER_Q] + range.begin * query_width(c);
    float *k = s->model->buffers[KT_BUFFER_K] + range.begin * key_width(c);
    uint32_t n = range.end - range.begin;
    const bool has_keys = s->block->config->shares == 0;
    enum kt_status status = KT_OK;
    for (int stage = 0; stage < 2 && status == KT_OK; stage++) {
        if (stage == (c->norms_rotated ? 1 : 0)) {
            status = norm_heads(s, q, a->query_norm, n, c->n_heads, error);
            if (status == KT_OK && has_keys)
                status = norm_heads(s, k, a->key_norm, n, c->n_kv_heads, error);
            clip(q, n * query_width(c), c->clip);
            if (has_keys)
                clip(k, n * key_width(c), c->clip);
        }
        if (status == KT_OK && stage == (c->norms_rotated ? 0 : 1)) {
            status = kt_slice_rotate(s, q, c->n_heads, c->head_size, range, error);
            if (status == KT_OK && has_keys)
                status = kt_slice_rotate(s, k, c->n_kv_heads, c->head_size, range, error);
        }
    }
    kt_slice_grow(s, &c->growth, q, query_width(c), range);
    return status;
}

/* Makes queries, keys and values what attention takes, and writes keys and values into the cache. */
static enum kt_status place_heads(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct kt_attention_config *c = &s->block->config->attention;
    enum kt_status status = KT_OK;
    if (((const struct attention *)s->block->mixer_weights)->joined)
        status = part_rows(s, range, error);
    else if (c->gate == KT_OUTPUT_GATE_JOINED)
        status = run_joined_gate(s, range, KT_BUFFER_GATE, KT_BUFFER_Q, error);
    const bool has_keys = s->block->config->shares == 0;
    if (status == KT_OK && has_keys)
        status = prepare_values(s, range, error);
    if (status == KT_OK)
        status = prepare_keys(s, range, error);
    if (status != KT_OK || !has_keys)
        return status;
    status = kt_slice_write(s, 0, c->n_kv_heads, c->head_size, b[KT_BUFFER_K], range, error);
    return status == KT_OK ? kt_slice_write(s, 1, c->n_kv_heads, value_size(c), b[KT_BUFFER_V], range, error)
                           : status;
}

/* All products with the layer's input. */
static enum kt_status multiply(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct attention *a = s->block->mixer_weights;
    const struct kt_attention_config *c = &s->block->config->attention;
    struct kt_linear_output outputs[4];
    uint32_t n = 0;
    if (a->joined)
        outputs[n++] = kt_slice_output(a->joined, b[KT_BUFFER_ABSORBED], false);
    if (a->q)
        outputs[n++] =
            kt_slice_output(a->q, b[c->gate == KT_OUTPUT_GATE_JOINED ? KT_BUFFER_GATE : KT_BUFFER_Q], false);
    if (a->k)
        outputs[n++] = kt_slice_output(a->k, b[KT_BUFFER_K], false);
    if (a->v)
        outputs[n++] = kt_slice_output(a->v, b[KT_BUFFER_V], false);
    if (a->gate)
        outputs[n++] = kt_slice_output(a->gate, b[KT_BUFFER_GATE], false);
    return kt_slice_multiply(s, b[KT_BUFFER_H], outputs, n, error);
}

static enum kt_status run(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct attention *a = s->block->mixer_weights;
    const struct kt_attention_config *c = &s->block->config->attention;
    const struct kt_linear_output o = kt_slice_result(s, KT_HALF_MIXER, a->o);
    enum kt_status status = multiply(s, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, place_heads, error);
    if (status == KT_OK)
        status = kt_slice_attend(s, a->attention, KT_BUFFER_Q, query_width(c), output_width(c), error);
    if (status == KT_OK && c->gate != KT_OUTPUT_GATE_NONE)
        status = kt_slice_run_tokens(s, gate_output, error);
    return status == KT_OK ? kt_slice_multiply(s, b[KT_BUFFER_MIX], &o, 1, error) : status;
}

const struct kt_mixer kt_mixer_attention = {.fields = fields, .load = load, .run = run};
