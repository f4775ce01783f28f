/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - the next tokens of sessions. They are computed in slices of at most max_batch tokens, in which
 * tokens of several sessions may stand; within a slice, layer after layer: what works on rows is divided over
 * the context's threads by tokens, linears, attention and experts divide themselves.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of a session in a slice. */
struct piece {
    const struct kt_step *step;
    uint32_t first;    /* of the step's ids */
    uint32_t begin, n; /* tokens of the slice */
    uint64_t position; /* in the session */
};

struct slice {
    struct kt_model *model;
    const struct kt_block *block;
    uint32_t layer;
    struct piece *pieces;
    uint32_t n_pieces, n_tokens;
};

/* ---- what threads do ---- */

/* Works on tokens begin .. end - 1 of the slice. */
typedef enum kt_status (*stage_fn)(const struct slice *slice, uint32_t begin, uint32_t end,
                                   struct kt_error *error);

struct stage {
    const struct slice *slice;
    stage_fn function;
    int failed; /* the first thread that fails says why */
    enum kt_status status;
    struct kt_error error;
};

static void run_part(void *data, const struct kt_thread *thread)
{
    struct stage *stage = data;
    uint64_t n = stage->slice->n_tokens;
    uint32_t begin = (uint32_t)(n * thread->index / thread->n_threads);
    uint32_t end = (uint32_t)(n * (thread->index + 1) / thread->n_threads);
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = begin < end ? stage->function(stage->slice, begin, end, &error) : KT_OK;
    if (status != KT_OK && !__atomic_exchange_n(&stage->failed, 1, __ATOMIC_RELAXED)) {
        stage->status = status;
        stage->error = error;
    }
}

/* Few tokens take less time than it takes to call the threads. */
#define FEW_TOKENS 8

static enum kt_status run_stage(const struct slice *slice, stage_fn function, struct kt_error *error)
{
    struct stage stage = {.slice = slice, .function = function};
    if (slice->n_tokens < FEW_TOKENS)
        return function(slice, 0, slice->n_tokens, error);
    enum kt_status status = kt_context_run_threads(slice->model->context, run_part, &stage, error);
    if (status == KT_OK && stage.failed) {
        status = stage.status;
        if (error)
            *error = stage.error;
    }
    return status;
}

/* ---- rows ---- */

static enum kt_status norm_rows(const struct kt_model *m, const float *in, const float *weight, float *out,
                                uint32_t n, uint32_t n_parts, uint64_t size, struct kt_error *error)
{
    struct kt_rows_norm job = KT_ROWS_NORM_INIT;
    job.norm = KT_NORM_RMS;
    job.n_rows = n;
    job.n_parts = n_parts;
    job.size = (uint32_t)size;
    job.input = (struct kt_rows_input){.data = in, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = out, .dtype = KT_DTYPE_F32};
    job.weight = weight;
    job.eps = m->config.eps;
    return kt_rows_norm(m->rows, &job, error);
}

static enum kt_status norm_attention(const struct slice *s, uint32_t begin, uint32_t end,
                                     struct kt_error *error)
{
    const struct kt_scratch *r = &s->model->scratch;
    uint64_t size = s->model->config.hidden_size;
    return norm_rows(s->model, r->x + begin * size, s->block->attention_norm, r->h + begin * size,
                     end - begin, 1, size, error);
}

static enum kt_status rotate(const struct slice *s, float *data, uint32_t n_heads, uint32_t begin,
                             uint32_t end, struct kt_error *error)
{
    const struct kt_model_config *c = &s->model->config;
    struct kt_rows_rotate job = KT_ROWS_ROTATE_INIT;
    job.pairing = c->pairing;
    job.n_rows = end - begin;
    job.n_heads = n_heads;
    job.size = c->rope.size;
    job.data = data;
    job.head_stride = (int64_t)c->head_size * (int64_t)sizeof(float);
    job.stride = job.head_stride * n_heads;
    job.table = s->model->rope;
    job.table_row = s->model->scratch.positions + begin;
    job.n_table_rows = (uint32_t)s->model->params.max_tokens;
    return kt_rows_rotate(s->model->rows, &job, error);
}

/* Keys and values of tokens begin .. end - 1 go into their sessions. */
static enum kt_status write_cache(const struct slice *s, uint32_t begin, uint32_t end, struct kt_error *error)
{
    const struct kt_model_config *c = &s->model->config;
    uint64_t width = (uint64_t)c->n_kv_heads * c->head_size;
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        const struct piece *piece = &s->pieces[i];
        uint32_t first = piece->begin > begin ? piece->begin : begin;
        uint32_t last = piece->begin + piece->n < end ? piece->begin + piece->n : end;
        struct kt_kv_rows rows = KT_KV_ROWS_INIT;
        if (first >= last)
            continue;
        rows.layer = s->layer;
        rows.n_heads = c->n_kv_heads;
        rows.row = piece->position + (first - piece->begin);
        rows.n_rows = last - first;
        rows.dtype = KT_DTYPE_F32;
        const struct kt_scratch *r = &s->model->scratch;
        status = kt_kv_sequence_write(piece->step->session->sequence, &rows, r->k + first * width, error);
        rows.field = 1;
        if (status == KT_OK)
            status = kt_kv_sequence_write(piece->step->session->sequence, &rows, r->v + first * width, error);
    }
    return status;
}

static enum kt_status place_heads(const struct slice *s, uint32_t begin, uint32_t end, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_model_config *c = &m->config;
    float *q = m->scratch.q + (uint64_t)begin * c->n_heads * c->head_size;
    float *k = m->scratch.k + (uint64_t)begin * c->n_kv_heads * c->head_size;
    enum kt_status status = KT_OK;
    if (s->block->query_norm)
        status = norm_rows(m, q, s->block->query_norm, q, end - begin, c->n_heads, c->head_size, error);
    if (status == KT_OK && s->block->key_norm)
        status = norm_rows(m, k, s->block->key_norm, k, end - begin, c->n_kv_heads, c->head_size, error);
    if (status == KT_OK)
        status = rotate(s, q, c->n_heads, begin, end, error);
    if (status == KT_OK)
        status = rotate(s, k, c->n_kv_heads, begin, end, error);
    return status == KT_OK ? write_cache(s, begin, end, error) : status;
}

static enum kt_status norm_ffn(const struct slice *s, uint32_t begin, uint32_t end, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_scratch *r = &m->scratch;
    const struct kt_model_config *c = &m->config;
    uint64_t size = c->hidden_size;
    enum kt_status status = norm_rows(m, r->x + begin * size, s->block->ffn_norm, r->h + begin * size,
                                      end - begin, 1, size, error);
    if (status != KT_OK || !s->block->router)
        return status;
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    product.n_rows = end - begin;
    product.n_outputs = c->n_experts;
    product.size = (uint32_t)size;
    product.weight_dtype = KT_DTYPE_F32;
    product.input = (struct kt_rows_input){.data = r->h + begin * size, .dtype = KT_DTYPE_F32};
    product.weight = s->block->router;
    product.output = r->logits + (uint64_t)begin * c->n_experts;
    status = kt_rows_multiply(m->rows, &product, error);
    if (status != KT_OK)
        return status;
    struct kt_rows_route route = KT_ROWS_ROUTE_INIT;
    route.routing = KT_ROUTING_SOFTMAX;
    route.n_rows = end - begin;
    route.n_experts = c->n_experts;
    route.top_k = c->top_k;
    route.normalize = c->normalizes;
    route.logits = product.output;
    route.ids = r->experts + (uint64_t)begin * c->top_k;
    route.weights = r->weights + (uint64_t)begin * c->top_k;
    return kt_rows_route(m->rows, &route, error);
}

static enum kt_status gate_rows(const struct slice *s, uint32_t begin, uint32_t end, struct kt_error *error)
{
    const struct kt_scratch *r = &s->model->scratch;
    uint64_t width = s->block->width;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = KT_GATING_SILU;
    job.n_rows = end - begin;
    job.size = (uint32_t)width;
    job.input = (struct kt_rows_input){.data = r->up + begin * width, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = r->gate + begin * width, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = r->up + begin * width, .dtype = KT_DTYPE_F32};
    return kt_rows_gate(s->model->rows, &job, error);
}

/* ---- a layer ---- */

static enum kt_status multiply(const struct slice *s, const float *input,
                               const struct kt_linear_output *outputs, uint32_t n_outputs,
                               struct kt_error *error)
{
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    batch.outputs = outputs;
    batch.n_outputs = n_outputs;
    batch.n_tokens = s->n_tokens;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    return kt_linear_forward(&batch, error);
}

static struct kt_linear_output output_of(const struct kt_linear *linear, float *output, bool adds)
{
    return (struct kt_linear_output){.linear = linear,
                                     .output = output,
                                     .output_dtype = KT_DTYPE_F32,
                                     .accumulate = adds};
}

static enum kt_status attend(const struct slice *s, struct kt_error *error)
{
    const struct kt_scratch *r = &s->model->scratch;
    const struct kt_model_config *c = &s->model->config;
    uint64_t width = (uint64_t)c->n_heads * c->head_size;
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        const struct piece *piece = &s->pieces[i];
        r->items[i] = (struct kt_attention_item){.sequence = piece->step->session->sequence,
                                                 .position = piece->position,
                                                 .n_tokens = piece->n,
                                                 .queries = r->q + piece->begin * width,
                                                 .output = r->mix + piece->begin * width};
    }
    batch.items = r->items;
    batch.n_items = s->n_pieces;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    return kt_attention_forward(s->block->attention, &batch, error);
}

static enum kt_status run_ffn(const struct slice *s, struct kt_error *error)
{
    const struct kt_scratch *r = &s->model->scratch;
    const struct kt_block *b = s->block;
    if (b->experts) {
        struct kt_forward forward = KT_FORWARD_INIT;
        forward.n_tokens = s->n_tokens;
        forward.expert_ids = r->experts;
        forward.router_weights = r->weights;
        forward.input = r->h;
        forward.output = r->x;
        forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
        forward.accumulate = 1;
        return kt_layer_forward(b->experts, &forward, error);
    }
    const struct kt_linear_output both[] = {output_of(b->gate, r->gate, false),
                                            output_of(b->up, r->up, false)};
    const struct kt_linear_output down = output_of(b->down, r->x, true);
    enum kt_status status = multiply(s, r->h, both, 2, error);
    if (status == KT_OK)
        status = run_stage(s, gate_rows, error);
    return status == KT_OK ? multiply(s, r->up, &down, 1, error) : status;
}

static enum kt_status run_layer(const struct slice *s, struct kt_error *error)
{
    const struct kt_scratch *r = &s->model->scratch;
    const struct kt_block *b = s->block;
    const struct kt_linear_output heads[] = {output_of(b->q, r->q, false), output_of(b->k, r->k, false),
                                             output_of(b->v, r->v, false)};
    const struct kt_linear_output o = output_of(b->o, r->x, true);
    enum kt_status status = run_stage(s, norm_attention, error);
    if (status == KT_OK)
        status = multiply(s, r->h, heads, 3, error);
    if (status == KT_OK)
        status = run_stage(s, place_heads, error);
    if (status == KT_OK)
        status = attend(s, error);
    if (status == KT_OK)
        status = multiply(s, r->mix, &o, 1, error);
    if (status == KT_OK)
        status = run_stage(s, norm_ffn, error);
    return status == KT_OK ? run_ffn(s, error) : status;
}

/* ---- logits ---- */

/* Of a piece, the tokens whose logits are wanted: the first one, counted in the slice, and how many. */
static uint32_t count_wanted(const struct piece *piece, uint32_t *first)
{
    uint32_t begin = piece->step->n_ids - piece->step->n_logits; /* of the step */
    uint32_t from = piece->first > begin ? piece->first : begin;
    *first = piece->begin + (from - piece->first);
    return from < piece->first + piece->n ? piece->first + piece->n - from : 0;
}

/* The rows of all pieces go together through the head, whose weights are then read once. */
static enum kt_status run_head(const struct slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    struct kt_scratch *r = &m->scratch;
    uint64_t size = m->config.hidden_size, vocabulary = m->vocabulary;
    uint32_t n = 0, n_direct = 0;
    enum kt_status status = KT_OK;
    float *only = NULL;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        uint32_t first, wanted = count_wanted(&s->pieces[i], &first);
        if (wanted == 0)
            continue;
        const struct piece *piece = &s->pieces[i];
        uint32_t from = first - piece->begin + piece->first;
        only = piece->step->logits + (from + piece->step->n_logits - piece->step->n_ids) * vocabulary;
        status = norm_rows(m, r->x + first * size, m->final_norm, r->h + n * size, wanted, 1, size, error);
        n += wanted;
        n_direct++;
    }
    if (status != KT_OK || n == 0)
        return status;
    float *logits = only;
    if (n_direct > 1 && !(logits = malloc(n * vocabulary * sizeof(*logits))))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the logits of %u tokens", n);
    const struct kt_linear_output head = output_of(m->head, logits, false);
    struct slice rows = *s;
    rows.n_tokens = n;
    status = multiply(&rows, r->h, &head, 1, error);
    uint64_t row = 0;
    for (uint32_t i = 0; i < s->n_pieces && n_direct > 1; i++) {
        uint32_t first, wanted = count_wanted(&s->pieces[i], &first);
        const struct piece *piece = &s->pieces[i];
        if (wanted == 0)
            continue;
        uint32_t from = first - piece->begin + piece->first;
        memcpy(piece->step->logits + (from + piece->step->n_logits - piece->step->n_ids) * vocabulary,
               logits + row * vocabulary, wanted * vocabulary * sizeof(*logits));
        row += wanted;
    }
    if (n_direct > 1)
        free(logits);
    return status;
}

/* ---- slices ---- */

static enum kt_status run_slice(struct slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    struct kt_scratch *r = &m->scratch;
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        const struct piece *piece = &s->pieces[i];
        for (uint32_t t = 0; t < piece->n; t++) {
            r->ids[piece->begin + t] = piece->step->ids[piece->first + t];
            r->positions[piece->begin + t] = (uint32_t)(piece->position + t);
        }
    }
    enum kt_status status = kt_view_gather(&m->embedding, r->ids, s->n_tokens, KT_DTYPE_F32, r->x, 0, error);
    for (uint32_t i = 0; i < m->config.n_layers && status == KT_OK; i++) {
        s->layer = i;
        s->block = &m->blocks[i];
        status = run_layer(s, error);
    }
    if (status == KT_OK)
        status = run_head(s, error);
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++)
        status = kt_kv_sequence_commit(s->pieces[i].step->session->sequence, s->pieces[i].n, error);
    return status;
}

static enum kt_status check_step(const struct kt_model *m, const struct kt_step *steps, uint32_t at,
                                 struct kt_error *error)
{
    const struct kt_step *step = &steps[at];
    if (!step->session || step->session->model != m || (!step->ids && step->n_ids > 0) ||
        step->n_logits > step->n_ids || (step->n_logits > 0 && !step->logits))
        return kt_engine_fail(
            error, KT_E_INVALID,
            "kt_model_step: step %u has no session of this model, no ids, or more logits than ids", at);
    for (uint32_t i = 0; i < at; i++)
        if (steps[i].session == step->session)
            return kt_engine_fail(error, KT_E_INVALID, "kt_model_step: steps %u and %u are of one session", i,
                                  at);
    for (uint32_t i = 0; i < step->n_ids; i++)
        if (step->ids[i] < 0 || (uint64_t)step->ids[i] >= m->vocabulary)
            return kt_engine_fail(error, KT_E_RANGE,
                                  "id %d, number %u of step %u, is no token of the model, which has "
                                  "%" PRIu64,
                                  step->ids[i], i, at, m->vocabulary);
    uint64_t tokens = kt_session_tokens(step->session);
    if (step->n_ids > m->params.max_tokens - tokens)
        return kt_engine_fail(error, KT_E_RANGE,
                              "%u tokens behind %" PRIu64 " are more than the %" PRIu64
                              " that a session may have",
                              step->n_ids, tokens, m->params.max_tokens);
    return KT_OK;
}

/* Drops the room of sessions whose tokens were not computed. */
static void drop_room(const struct kt_step *steps, uint32_t n_steps)
{
    for (uint32_t i = 0; i < n_steps; i++)
        (void)kt_kv_sequence_truncate(steps[i].session->sequence, kt_session_tokens(steps[i].session), NULL);
}

static enum kt_status run_slices(struct kt_model *m, const struct kt_step *steps, uint32_t n_steps,
                                 struct piece *pieces, struct kt_error *error)
{
    struct slice slice = {.model = m, .pieces = pieces};
    uint32_t at = 0, first = 0; /* of the steps, of that step's ids */
    enum kt_status status = KT_OK;
    while (at < n_steps && status == KT_OK) {
        slice.n_pieces = slice.n_tokens = 0;
        while (at < n_steps && slice.n_tokens < m->params.max_batch) {
            uint32_t left = steps[at].n_ids - first, room = m->params.max_batch - slice.n_tokens;
            uint32_t n = left < room ? left : room;
            if (n > 0)
                pieces[slice.n_pieces++] = (struct piece){&steps[at], first, slice.n_tokens, n,
                                                          kt_session_tokens(steps[at].session)};
            slice.n_tokens += n;
            first += n;
            if (first == steps[at].n_ids) {
                at++;
                first = 0;
            }
        }
        if (slice.n_tokens > 0)
            status = run_slice(&slice, error);
    }
    return status;
}

enum kt_status kt_model_step(struct kt_model *model, const struct kt_step *steps, uint32_t n_steps,
                             struct kt_error *error)
{
    if (!model || (!steps && n_steps > 0))
        return kt_engine_fail(error, KT_E_INVALID, "kt_model_step: NULL");
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < n_steps && status == KT_OK; i++)
        status = check_step(model, steps, i, error);
    struct piece *pieces = status == KT_OK ? calloc((size_t)n_steps + 1, sizeof(*pieces)) : NULL;
    if (status == KT_OK && !pieces)
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for %u steps", n_steps);
    if (status != KT_OK)
        return status;
    uint32_t n_reserved = 0;
    for (; n_reserved < n_steps && status == KT_OK; n_reserved++)
        status = kt_kv_sequence_reserve(steps[n_reserved].session->sequence,
                                        kt_session_tokens(steps[n_reserved].session), steps[n_reserved].n_ids,
                                        error);
    if (status == KT_OK)
        status = run_slices(model, steps, n_steps, pieces, error);
    if (status != KT_OK)
        drop_room(steps, n_reserved);
    free(pieces);
    return status;
}
