/* SPDX-License-Identifier: Apache-2.0 */
/* ffn.c - what works on each token by itself: a dense network, or experts and what is shared by all tokens.
 */
#include "tools/engine/model/block/ffn.h"

#include <math.h>

static void clamp_row(const struct clamp *c, float *gate, float *up, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float u = up[i] > c->up_most ? c->up_most : up[i] < -c->up_most ? -c->up_most : up[i];
        gate[i] = (gate[i] > c->gate_most ? c->gate_most : gate[i]) * c->scale;
        up[i] = (u + c->shift) / c->scale;
    }
}

static enum kt_status gate_rows(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct network *network = &s->block->ffn->dense;
    const struct clamp *clamp = &s->block->ffn->clamp;
    const uint64_t width = network->width, stride = network->both ? 2 * width : width;
    float *output = m->buffers[KT_BUFFER_UP] + range.begin * width;
    float *gate = m->buffers[KT_BUFFER_GATE] + range.begin * stride;
    float *up = network->both ? gate + width : output;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = m->config.gating;
    job.n_rows = range.end - range.begin;
    job.size = (uint32_t)width;
    job.input = (struct kt_rows_input){.data = up, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = gate, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = output, .dtype = KT_DTYPE_F32};
    job.gate.stride = job.input.stride = (int64_t)(stride * sizeof(float));
    for (uint32_t r = 0; r < job.n_rows && clamp->scale != 0; r++)
        clamp_row(clamp, gate + r * stride, up + r * stride, width);
    return kt_rows_gate(m->rows, &job, error);
}

/* What the shared expert's output is multiplied by, a number for each token, is multiplied into the rows that
 * its last matrix reads: all is linear from there on. */
static enum kt_status gate_shared(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_ffn *ffn = s->block->ffn;
    uint64_t hidden = m->config.hidden_size, width = ffn->dense.width;
    float *rows = m->buffers[KT_BUFFER_UP] + range.begin * width;
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    product.n_rows = range.end - range.begin;
    product.n_outputs = 1;
    product.size = (uint32_t)hidden;
    product.weight_dtype = KT_DTYPE_F32;
    product.input =
        (struct kt_rows_input){.data = m->buffers[KT_BUFFER_H] + range.begin * hidden, .dtype = KT_DTYPE_F32};
    product.weight = ffn->shared_gate;
    product.output = m->buffers[KT_BUFFER_LOGITS] + range.begin;
    job.gating = KT_GATING_SIGMOID;
    job.n_rows = product.n_rows;
    job.size = (uint32_t)width;
    job.one_gate = 1;
    job.input = (struct kt_rows_input){.data = rows, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = product.output, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = rows, .dtype = KT_DTYPE_F32};
    enum kt_status status = gate_rows(s, range, error);
    if (status == KT_OK)
        status = kt_rows_multiply(m->rows, &product, error);
    return status == KT_OK ? kt_rows_gate(m->rows, &job, error) : status;
}

static enum kt_status run_network(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct network *n = &s->block->ffn->dense;
    const struct kt_linear_output both[] = {kt_slice_output(n->both ? n->both : n->gate, b[KT_BUFFER_GATE],
                                                            false),
                                            kt_slice_output(n->up, b[KT_BUFFER_UP], false)};
    const struct kt_linear_output down = kt_slice_result(s, KT_HALF_FFN, n->down);
    enum kt_status status = kt_slice_multiply(s, b[KT_BUFFER_H], both, n->both ? 1 : 2, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, s->block->ffn->shared_gate ? gate_shared : gate_rows, error);
    return status == KT_OK ? kt_slice_multiply(s, b[KT_BUFFER_UP], &down, 1, error) : status;
}

/* Logits of some tokens for some experts. */
static enum kt_status multiply_router(const struct kt_slice *s, struct kt_range tokens,
                                      struct kt_range experts, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_ffn *ffn = s->block->ffn;
    uint64_t size = m->config.hidden_size, n_experts = router_size(&m->config);
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    product.n_rows = tokens.end - tokens.begin;
    product.n_outputs = experts.end - experts.begin;
    product.size = (uint32_t)size;
    product.weight_dtype = ffn->router.dtype;
    product.input =
        (struct kt_rows_input){.data = m->buffers[KT_BUFFER_H] + tokens.begin * size, .dtype = KT_DTYPE_F32};
    product.weight = ffn->router.data + experts.begin * ffn->router.row_size;
    product.bias = ffn->router_bias ? ffn->router_bias + experts.begin : NULL;
    product.output = m->buffers[KT_BUFFER_LOGITS] + tokens.begin * n_experts + experts.begin;
    product.output_stride = (int64_t)(n_experts * sizeof(float));
    return kt_rows_multiply(m->rows, &product, error);
}

/* Experts that give what they read are none to the library: their weights are summed up. */
static void take_identities(const struct kt_model *m, struct kt_range tokens)
{
    const uint32_t top_k = m->config.top_k;
    for (uint64_t t = tokens.begin; t < tokens.end; t++) {
        int64_t *ids = m->experts + t * top_k;
        float *weights = m->buffers[KT_BUFFER_WEIGHTS] + t * top_k, sum = 0;
        for (uint32_t k = 0; k < top_k; k++)
            if (ids[k] >= (int64_t)m->config.n_experts) {
                sum += weights[k];
                ids[k] = -1;
            }
        m->buffers[KT_BUFFER_SELF][t] = sum;
    }
}

static void cap_logits(float *logits, uint64_t n, float cap)
{
    for (uint64_t i = 0; i < n && cap > 0; i++)
        logits[i] = cap * tanhf(logits[i] / cap);
}

static enum kt_status choose_experts(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_engine_config *c = &m->config;
    struct kt_rows_route job = KT_ROWS_ROUTE_INIT;
    job.routing = c->router.routing;
    job.n_rows = tokens.end - tokens.begin;
    job.n_experts = router_size(c);
    job.top_k = c->top_k;
    job.n_groups = c->router.n_groups;
    job.top_groups = c->router.top_groups;
    job.group_score = c->router.group_score;
    job.normalize = c->router.normalizes;
    job.scale = c->router.scale;
    job.near = c->router.near;
    float *logits = m->buffers[KT_BUFFER_LOGITS] + (uint64_t)tokens.begin * job.n_experts;
    cap_logits(logits, (uint64_t)job.n_rows * job.n_experts, c->router.cap);
    job.logits = logits;
    job.correction = s->block->ffn->correction;
    job.ids = m->experts + (uint64_t)tokens.begin * c->top_k;
    job.weights = m->buffers[KT_BUFFER_WEIGHTS] + (uint64_t)tokens.begin * c->top_k;
    enum kt_status status = kt_rows_route(m->rows, &job, error);
    const float *scales = s->block->ffn->expert_scales;
    for (uint64_t i = 0; scales && i < (uint64_t)job.n_rows * job.top_k && status == KT_OK; i++)
        job.weights[i] *= scales[job.ids[i]];
    if (status == KT_OK && c->n_identities > 0)
        take_identities(m, tokens);
    return status;
}

static enum kt_status norm(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    return s->model->config.is_parallel
               ? KT_OK
               : kt_slice_norm_tokens(s, &s->block->places[KT_HALF_FFN].before, tokens, error);
}

/* What a router reads: what networks read, or what is normed for it. */
static enum kt_status norm_for_router(const struct kt_slice *s, struct kt_range tokens,
                                      struct kt_error *error)
{
    const struct kt_hidden_norm *own = &s->block->ffn->router_before;
    return own->is_there ? kt_slice_norm_tokens(s, own, tokens, error) : norm(s, tokens, error);
}

static enum kt_status norm_for_experts(const struct kt_slice *s, struct kt_range tokens,
                                       struct kt_error *error)
{
    return kt_slice_norm_tokens(s, &s->block->ffn->experts_before, tokens, error);
}

/* What is normed is in the second cache when the router reads it. */
static enum kt_status norm_and_route(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_range all = {.begin = 0, .end = router_size(&s->model->config)};
    enum kt_status status = norm_for_router(s, tokens, error);
    if (status == KT_OK)
        status = multiply_router(s, tokens, all, error);
    return status == KT_OK ? choose_experts(s, tokens, error) : status;
}

/* Threads share a router by so many experts, as tiles multiply no fewer: 16 take 6.9 us, 8 of them 10.6. */
#define EXPERTS_AT_ONCE 16

static enum kt_status multiply_for_experts(const struct kt_slice *s, struct kt_range groups,
                                           struct kt_error *error)
{
    const struct kt_range all = {.begin = 0, .end = s->n_tokens};
    uint32_t n = router_size(&s->model->config), end = groups.end * EXPERTS_AT_ONCE;
    const struct kt_range experts = {.begin = groups.begin * EXPERTS_AT_ONCE, .end = end < n ? end : n};
    return multiply_router(s, all, experts, error);
}

/* The router of few tokens is a matrix to be read, 2 MB of 256 experts: it is divided over the threads from
 * so many numbers on. */
#define LARGE_ROUTER 2048

static enum kt_status prepare(const struct kt_slice *s, struct kt_error *error)
{
    const struct kt_engine_config *c = &s->model->config;
    const struct kt_range all = {.begin = 0, .end = s->n_tokens};
    if (!s->block->ffn->experts)
        return kt_slice_run_tokens(s, norm, error);
    if (!kt_slice_is_small(s) || router_size(c) * c->hidden_size < LARGE_ROUTER)
        return kt_slice_run_tokens(s, norm_and_route, error);
    enum kt_status status = norm_for_router(s, all, error);
    if (status == KT_OK)
        status = kt_slice_run_items(s, (router_size(c) + EXPERTS_AT_ONCE - 1) / EXPERTS_AT_ONCE,
                                    multiply_for_experts, error);
    return status == KT_OK ? choose_experts(s, all, error) : status;
}

/* The weight of a token's only expert goes into what that reads. */
static enum kt_status weigh_input(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    uint64_t size = m->config.hidden_size;
    float *rows = m->buffers[KT_BUFFER_H] + tokens.begin * size;
    float *weights = m->buffers[KT_BUFFER_WEIGHTS] + tokens.begin;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = KT_GATING_PLAIN;
    job.n_rows = tokens.end - tokens.begin;
    job.size = (uint32_t)size;
    job.one_gate = 1;
    job.input = (struct kt_rows_input){.data = rows, .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = weights, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = rows, .dtype = KT_DTYPE_F32};
    enum kt_status status = kt_rows_gate(m->rows, &job, error);
    for (uint32_t t = 0; t < job.n_rows && status == KT_OK; t++)
        weights[t] = 1;
    return status;
}

/* Where experts put what they give; *adds: to what stands there. */
static enum kt_buffer place_of_experts(const struct kt_slice *s, bool *adds)
{
    const struct kt_ffn *ffn = s->block->ffn;
    bool alone = ffn->experts_after.is_there || s->block->config->postpones;
    bool to_stream = kt_slice_adds(s, KT_HALF_FFN);
    *adds = !alone && (to_stream || ffn->dense.down);
    return alone ? KT_BUFFER_EXPERTS : to_stream ? KT_BUFFER_X : KT_BUFFER_RESULT;
}

/* What experts give that give what they read. */
static enum kt_status run_identities(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const uint64_t size = m->config.hidden_size;
    bool adds;
    float *out = m->buffers[place_of_experts(s, &adds)] + tokens.begin * size;
    const float *in = m->buffers[KT_BUFFER_H] + tokens.begin * size;
    (void)error;
    for (uint64_t t = tokens.begin; t < tokens.end; t++, in += size, out += size)
        for (uint64_t i = 0; i < size; i++)
            out[i] = (adds ? out[i] : 0) + m->buffers[KT_BUFFER_SELF][t] * in[i];
    return KT_OK;
}

static enum kt_status run_experts(const struct kt_slice *s, struct kt_error *error)
{
    struct kt_model *m = s->model;
    struct kt_forward forward = KT_FORWARD_INIT;
    bool adds;
    enum kt_buffer place = place_of_experts(s, &adds);
    enum kt_status status =
        m->config.n_identities > 0 ? kt_slice_run_tokens(s, run_identities, error) : KT_OK;
    if (status != KT_OK)
        return status;
    double start = kt_slice_now();
    forward.n_tokens = s->n_tokens;
    forward.expert_ids = m->experts;
    forward.router_weights = m->buffers[KT_BUFFER_WEIGHTS];
    forward.input = m->buffers[KT_BUFFER_H];
    forward.output = m->buffers[place];
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    forward.accumulate = adds || m->config.n_identities > 0;
    status = kt_layer_forward(s->block->ffn->experts, &forward, error);
    m->times.experts += kt_slice_now() - start;
    return status;
}

/* Norms what the dense network beside experts gave, and what these gave before it is added to that. */
static enum kt_status settle_dense(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    float *f = s->model->buffers[KT_BUFFER_RESULT] + tokens.begin * s->model->config.hidden_size;
    return kt_slice_norm_hidden(s->model, f, &s->block->ffn->dense_after, f, tokens.end - tokens.begin,
                                error);
}

static enum kt_status settle_experts(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    uint64_t size = s->model->config.hidden_size, n = (tokens.end - tokens.begin) * size;
    float *f = s->model->buffers[KT_BUFFER_RESULT] + tokens.begin * size;
    float *own = s->model->buffers[KT_BUFFER_EXPERTS] + tokens.begin * size;
    enum kt_status status = kt_slice_norm_hidden(s->model, own, &s->block->ffn->experts_after, own,
                                                 tokens.end - tokens.begin, error);
    for (uint64_t i = 0; i < n && status == KT_OK; i++)
        f[i] += own[i];
    return status;
}

enum kt_status kt_ffn_run(const struct kt_slice *s, struct kt_error *error)
{
    const struct kt_ffn *ffn = s->block->ffn;
    enum kt_status status = prepare(s, error);
    if (status == KT_OK && ffn->router_before.is_there)
        status = kt_slice_run_tokens(s, norm, error);
    if (status == KT_OK && ffn->dense.down)
        status = run_network(s, error);
    if (status == KT_OK && ffn->dense_after.is_there)
        status = kt_slice_run_tokens(s, settle_dense, error);
    if (status == KT_OK && ffn->experts_before.is_there)
        status = kt_slice_run_tokens(s, norm_for_experts, error);
    if (status == KT_OK && ffn->experts && s->model->config.router.weighs_input)
        status = kt_slice_run_tokens(s, weigh_input, error);
    if (status == KT_OK && ffn->experts)
        status = run_experts(s, error);
    return status == KT_OK && ffn->experts_after.is_there ? kt_slice_run_tokens(s, settle_experts, error)
                                                          : status;
}

static enum kt_status add_kept(const struct kt_slice *s, struct kt_range tokens, struct kt_error *error)
{
    const uint64_t size = s->model->config.hidden_size, end = tokens.end * size;
    float *x = s->model->buffers[KT_BUFFER_X];
    const float *kept = s->model->buffers[KT_BUFFER_EXPERTS];
    (void)error;
    for (uint64_t i = tokens.begin * size; i < end; i++)
        x[i] += kept[i];
    return KT_OK;
}

enum kt_status kt_ffn_add_kept(const struct kt_slice *s, struct kt_error *error)
{
    return s->block->config->adds_kept ? kt_slice_run_tokens(s, add_kept, error) : KT_OK;
}
