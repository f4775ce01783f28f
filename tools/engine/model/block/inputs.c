/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.c - inputs of single layers, as Gemma 4's small models have them: for each token and layer a few
 * numbers, made of the token by a table and of its embedding by a matrix. They gate what a layer's own two
 * matrices add behind its network.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/model/block/block.h"

#include <inttypes.h>
#include <math.h>

struct kt_inputs {
    struct kt_view table;         /* [vocabulary][layers * size] */
    struct kt_linear *projection; /* [layers * size][hidden_size] */
    float *norm;                  /* [size] */
};

struct kt_layer_input {
    struct kt_linear *gate, *projection; /* [size][hidden_size], and back */
    struct kt_place place;
};

/* ---- loading ---- */

enum kt_status kt_inputs_load(struct kt_model *m, struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    uint64_t width = (uint64_t)c->n_layers * c->input_size;
    struct kt_inputs *inputs = m->inputs = kt_model_alloc(m, 1, sizeof(*inputs));
    char table[KT_WEIGHT_NAME], projection[KT_WEIGHT_NAME], norm[KT_WEIGHT_NAME];
    if (!inputs)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    kt_end_name(c, "per_layer_token_embd", "embed_tokens_per_layer", table);
    kt_end_name(c, "per_layer_model_proj", "per_layer_model_projection", projection);
    kt_end_name(c, "per_layer_proj_norm", "per_layer_projection_norm", norm);
    enum kt_status status = m->assumed
                                ? kt_assume_numbers(m, m->vocabulary, width, &inputs->table, error)
                                : kt_checkpoint_weight(m->checkpoint, table, &inputs->table, NULL, error);
    if (status == KT_OK && (inputs->table.cols != width || inputs->table.rows < m->vocabulary))
        return kt_engine_fail(error, KT_E_FORMAT,
                              "%s has %" PRIu64 " rows of %" PRIu64 " numbers; %" PRIu64
                              " tokens and %u layers "
                              "of %u numbers need %" PRIu64,
                              table, inputs->table.rows, inputs->table.cols, m->vocabulary, c->n_layers,
                              c->input_size, width);
    kt_model_mark_weight(m, table, false);
    kt_model_need(m, KT_BUFFER_INPUTS, width);
    kt_model_need(m, KT_BUFFER_TABLE, width);
    if (status == KT_OK)
        status = kt_load_linear(m, projection, width, c->hidden_size, &inputs->projection, error);
    return status == KT_OK ? kt_load_numbers(m, norm, 1, c->input_size, &inputs->norm, error) : status;
}

enum kt_status kt_layer_input_load(struct kt_model *m, uint32_t layer, struct kt_block *block,
                                   struct kt_error *error)
{
    const struct kt_engine_config *c = &m->config;
    struct kt_layer_input *input = block->input = kt_model_alloc(m, 1, sizeof(*input));
    char norm[KT_WEIGHT_NAME];
    if (!input)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    kt_weight_name(m, layer, "post_norm", "post_per_layer_input_norm", norm);
    input->place.keep = input->place.add = 1;
    kt_model_need(m, KT_BUFFER_GATE, c->input_size);
    kt_model_need(m, KT_BUFFER_RESULT, c->hidden_size);
    enum kt_status status = kt_load_matrix(m, layer, "inp_gate", "per_layer_input_gate", c->input_size,
                                           c->hidden_size, &input->gate, error);
    if (status == KT_OK)
        status = kt_load_matrix(m, layer, "proj", "per_layer_projection", c->hidden_size, c->input_size,
                                &input->projection, error);
    return status == KT_OK ? kt_load_norm(m, norm, &input->place.after, error) : status;
}

uint64_t kt_inputs_size(const struct kt_inputs *inputs)
{
    return inputs->table.size;
}

struct kt_place *kt_layer_input_place(struct kt_layer_input *input)
{
    return &input->place;
}

/* ---- running ---- */

/* (norm(projection / root of the hidden size) + table * root of the size) / root of 2 */
static enum kt_status join(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_engine_config *c = &m->config;
    uint64_t width = (uint64_t)c->n_layers * c->input_size, n = (range.end - range.begin) * width;
    float *rows = m->buffers[KT_BUFFER_INPUTS] + range.begin * width;
    float *table = m->buffers[KT_BUFFER_TABLE] + range.begin * width;
    const float narrow = (float)(1 / sqrt((double)c->hidden_size)), wide = sqrtf((float)c->input_size);
    for (uint64_t i = 0; i < n; i++)
        rows[i] *= narrow;
    enum kt_status status = kt_slice_norm(m, rows, m->inputs->norm, rows, range.end - range.begin,
                                          c->n_layers, c->input_size, error);
    if (status == KT_OK)
        status = kt_view_gather(&m->inputs->table, m->ids + range.begin, range.end - range.begin,
                                KT_DTYPE_F32, table, 0, error);
    for (uint64_t i = 0; i < n && status == KT_OK; i++)
        rows[i] = (rows[i] + table[i] * wide) * sqrtf(0.5f);
    return status;
}

enum kt_status kt_inputs_prepare(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct kt_linear_output rows =
        kt_slice_output(s->model->inputs->projection, b[KT_BUFFER_INPUTS], false);
    enum kt_status status = kt_slice_multiply(s, b[KT_BUFFER_X], &rows, 1, error);
    return status == KT_OK ? kt_slice_run_tokens(s, join, error) : status;
}

static enum kt_status gate(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    const struct kt_model *m = s->model;
    const struct kt_engine_config *c = &m->config;
    uint64_t width = (uint64_t)c->n_layers * c->input_size;
    float *rows = m->buffers[KT_BUFFER_GATE] + range.begin * c->input_size;
    struct kt_rows_gate job = KT_ROWS_GATE_INIT;
    job.gating = c->gating;
    job.n_rows = range.end - range.begin;
    job.size = c->input_size;
    job.input = (struct kt_rows_input){.data = m->buffers[KT_BUFFER_INPUTS] + range.begin * width +
                                               (uint64_t)s->layer * c->input_size,
                                       .stride = (int64_t)(width * sizeof(float)),
                                       .dtype = KT_DTYPE_F32};
    job.gate = (struct kt_rows_input){.data = rows, .dtype = KT_DTYPE_F32};
    job.output = (struct kt_rows_output){.data = rows, .dtype = KT_DTYPE_F32};
    return kt_rows_gate(m->rows, &job, error);
}

static enum kt_status settle(const struct kt_slice *s, struct kt_range range, struct kt_error *error)
{
    return kt_slice_settle_place(s, range, &s->block->input->place, error);
}

enum kt_status kt_layer_input_run(const struct kt_slice *s, struct kt_error *error)
{
    float *const *b = s->model->buffers;
    const struct kt_layer_input *input = s->block->input;
    const struct kt_linear_output gates = kt_slice_output(input->gate, b[KT_BUFFER_GATE], false);
    const struct kt_linear_output result = kt_slice_output(input->projection, b[KT_BUFFER_RESULT], false);
    enum kt_status status = kt_slice_multiply(s, b[KT_BUFFER_X], &gates, 1, error);
    if (status == KT_OK)
        status = kt_slice_run_tokens(s, gate, error);
    if (status == KT_OK)
        status = kt_slice_multiply(s, b[KT_BUFFER_GATE], &result, 1, error);
    return status == KT_OK ? kt_slice_run_tokens(s, settle, error) : status;
}
