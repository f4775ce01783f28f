/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - what all kinds of layers do with the rows of a slice, and how threads share it. */
#include "tools/engine/model/block/block.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- threads ---- */

struct stage {
    const struct kt_slice *slice;
    uint32_t n;    /* items */
    uint32_t most; /* that the function gets at once */
    kt_part_fn function;
    int failed; /* the first thread that fails says why */
    enum kt_status status;
    struct kt_error error;
};

static void run_part(void *data, const struct kt_thread *thread)
{
    struct stage *stage = data;
    uint64_t n = stage->n;
    uint32_t begin = (uint32_t)(n * thread->index / thread->n_threads);
    uint32_t end = (uint32_t)(n * (thread->index + 1) / thread->n_threads);
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_OK;
    for (uint32_t next; begin < end && status == KT_OK; begin = next) {
        next = end - begin < stage->most ? end : begin + stage->most;
        struct kt_range range = {.begin = begin, .end = next, .thread = thread->index};
        status = stage->function(stage->slice, range, &error);
    }
    if (status != KT_OK && !__atomic_exchange_n(&stage->failed, 1, __ATOMIC_RELAXED)) {
        stage->status = status;
        stage->error = error;
    }
}

static enum kt_status run_stage(struct stage *stage, struct kt_error *error)
{
    enum kt_status status = kt_context_run_threads(stage->slice->model->context, run_part, stage, error);
    if (status == KT_OK && stage->failed) {
        status = stage->status;
        if (error)
            *error = stage->error;
    }
    return status;
}

enum kt_status kt_slice_run_items(const struct kt_slice *slice, uint32_t n, kt_part_fn function,
                                  struct kt_error *error)
{
    struct stage stage = {.slice = slice, .n = n, .most = n, .function = function};
    return run_stage(&stage, error);
}

/* Few tokens take less time than it takes to call the threads. */
#define FEW_TOKENS 8
/* What one part of a stage has made of so many tokens is in the second cache when the next one reads it. A
 * multiple of the rows that products of routers take at once. */
#define MOST_TOKENS 32

bool kt_slice_is_small(const struct kt_slice *slice)
{
    return slice->n_tokens < FEW_TOKENS;
}

enum kt_status kt_slice_run_tokens(const struct kt_slice *slice, kt_part_fn function, struct kt_error *error)
{
    struct kt_range all = {.begin = 0, .end = slice->n_tokens, .thread = 0};
    struct stage stage = {.slice = slice, .n = slice->n_tokens, .most = MOST_TOKENS, .function = function};
    return kt_slice_is_small(slice) ? function(slice, all, error) : run_stage(&stage, error);
}

/* ---- rows ---- */

enum kt_status kt_slice_norm(const struct kt_model *m, const float *in, const float *weight, float *out,
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
    job.weight_offset = m->config.norm_offset;
    job.eps = m->config.eps;
    return kt_rows_norm(m->rows, &job, error);
}

enum kt_status kt_slice_norm_hidden(const struct kt_model *m, const float *in,
                                    const struct kt_hidden_norm *norm, float *out, uint32_t n,
                                    struct kt_error *error)
{
    struct kt_rows_norm job = KT_ROWS_NORM_INIT;
    if (!norm->is_there) {
        memcpy(out, in, n * m->config.hidden_size * sizeof(*out));
        return KT_OK;
    }
    job.norm = m->config.norm;
    job.n_rows = n;
    job.size = (uint32_t)m->config.hidden_size;
    job.input = (struct kt_rows_input){.data = in, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = out, .dtype = KT_DTYPE_F32};
    job.weight = norm->weight;
    job.weight_offset = m->config.norm_offset;
    job.bias = norm->bias;
    job.scale = norm->scale;
    job.eps = m->config.eps;
    return kt_rows_norm(m->rows, &job, error);
}

enum kt_status kt_slice_norm_tokens(const struct kt_slice *s, const struct kt_hidden_norm *norm,
                                    struct kt_range range, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    uint64_t first = range.begin * s->model->config.hidden_size;
    return kt_slice_norm_hidden(s->model, b[KT_BUFFER_X] + first, norm, b[KT_BUFFER_H] + first,
                                range.end - range.begin, error);
}

enum kt_status kt_slice_rotate_pairs(const struct kt_slice *s, uint32_t pairing, float *data,
                                     uint32_t n_heads, uint32_t head_size, struct kt_range range,
                                     struct kt_error *error)
{
    const struct kt_engine_config *c = &s->model->config;
    const uint32_t rope = s->block->config->rope;
    struct kt_rows_rotate job = KT_ROWS_ROTATE_INIT;
    if (rope == KT_LAYER_ROPE_NONE)
        return KT_OK;
    job.pairing = pairing;
    job.n_rows = range.end - range.begin;
    job.n_heads = n_heads;
    job.size = (rope == KT_LAYER_ROPE ? &c->rope : &c->window_rope)->size;
    job.data = data;
    job.head_stride = (int64_t)head_size * (int64_t)sizeof(float);
    job.stride = job.head_stride * n_heads;
    job.table = s->model->ropes[rope];
    job.table_row = s->model->positions + range.begin;
    job.n_table_rows = (uint32_t)s->model->params.max_tokens;
    return kt_rows_rotate(s->model->rows, &job, error);
}

enum kt_status kt_slice_rotate(const struct kt_slice *s, float *data, uint32_t n_heads, uint32_t head_size,
                               struct kt_range range, struct kt_error *error)
{
    return kt_slice_rotate_pairs(s, s->model->config.pairing, data, n_heads, head_size, range, error);
}

void kt_slice_grow(const struct kt_slice *s, const struct kt_growth_config *g, float *data, uint64_t width,
                   struct kt_range range)
{
    for (uint32_t t = range.begin; t < range.end && g->growth != KT_GROWTH_NONE; t++, data += width) {
        double at = ((double)s->model->positions[t] + g->first) / g->length;
        bool is_log = g->growth == KT_GROWTH_LOG;
        float factor = (float)(is_log ? 1 + g->rate * log(1 + floor(at)) : pow(1 + at, g->rate));
        for (uint64_t i = 0; i < width && factor != 1; i++)
            data[i] *= factor;
    }
}

enum kt_status kt_slice_write(const struct kt_slice *s, uint32_t field, uint32_t n_heads, uint64_t width,
                              const float *data, struct kt_range range, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < s->n_pieces && status == KT_OK; i++) {
        const struct kt_piece *piece = &s->pieces[i];
        uint32_t first = piece->begin > range.begin ? piece->begin : range.begin;
        uint32_t last = piece->begin + piece->n < range.end ? piece->begin + piece->n : range.end;
        struct kt_kv_rows rows = KT_KV_ROWS_INIT;
        if (first >= last)
            continue;
        rows.layer = s->layer;
        rows.field = field;
        rows.n_heads = n_heads;
        rows.row = piece->position + (first - piece->begin);
        rows.n_rows = last - first;
        rows.dtype = KT_DTYPE_F32;
        status = kt_kv_sequence_write(piece->step->session->sequence, &rows, data + first * n_heads * width,
                                      error);
    }
    return status;
}

/* ---- matrices ---- */

double kt_slice_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum kt_status kt_slice_multiply(const struct kt_slice *s, const float *input,
                                 const struct kt_linear_output *outputs, uint32_t n_outputs,
                                 struct kt_error *error)
{
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    batch.outputs = outputs;
    batch.n_outputs = n_outputs;
    batch.n_tokens = s->n_tokens;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    double start = kt_slice_now();
    enum kt_status status = kt_linear_forward(&batch, error);
    s->model->times.linears += kt_slice_now() - start;
    return status;
}

/* Queries of a piece; where its layer sees chunks, an item for each chunk that has any. */
static uint32_t add_items(const struct kt_slice *s, const struct kt_piece *piece, enum kt_buffer queries,
                          uint64_t query_width, uint64_t output_width, uint32_t n)
{
    const uint64_t chunk = s->block->config->chunk;
    for (uint32_t done = 0, some; done < piece->n; done += some) {
        const uint64_t position = piece->position + done,
                       left = chunk ? chunk - position % chunk : UINT64_MAX;
        some = piece->n - done < left ? piece->n - done : (uint32_t)left;
        const uint64_t row = piece->begin + done;
        s->model->items[n++] =
            (struct kt_attention_item){.sequence = piece->step->session->sequence,
                                       .position = position,
                                       .first_key = chunk ? (uint32_t)(position - position % chunk) : 0,
                                       .n_tokens = some,
                                       .queries = s->model->buffers[queries] + row * query_width,
                                       .output = s->model->buffers[KT_BUFFER_MIX] + row * output_width};
    }
    return n;
}

uint32_t kt_model_most_items(const struct kt_model *m)
{
    uint32_t batch = m->params.max_batch;
    uint32_t pieces = m->params.max_sessions < batch ? m->params.max_sessions : batch;
    return 2 * pieces + batch / KT_KV_PAGE;
}

enum kt_status kt_slice_attend(const struct kt_slice *s, const struct kt_attention *attention,
                               enum kt_buffer queries, uint64_t query_width, uint64_t output_width,
                               struct kt_error *error)
{
    struct kt_model *m = s->model;
    struct kt_attention_batch batch = KT_ATTENTION_BATCH_INIT;
    double start = kt_slice_now();
    for (uint32_t i = 0; i < s->n_pieces; i++)
        batch.n_items = add_items(s, &s->pieces[i], queries, query_width, output_width, batch.n_items);
    batch.items = m->items;
    batch.query_dtype = batch.output_dtype = KT_DTYPE_F32;
    batch.selections = m->selections;
    enum kt_status status = kt_attention_forward(attention, &batch, error);
    m->times.attention += kt_slice_now() - start;
    return status;
}

struct kt_linear_output kt_slice_output(const struct kt_linear *linear, float *output, bool adds)
{
    return (struct kt_linear_output){.linear = linear,
                                     .output = output,
                                     .output_dtype = KT_DTYPE_F32,
                                     .accumulate = adds};
}
