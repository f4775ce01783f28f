/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - the backend that is always there: plain C, any source format, exact as far as float32
 * inputs and outputs go. It multiplies straight from the source, one decoded weight row at a time, and
 * sums in double in the order of the columns. Every other backend is checked against it.
 */
#include "core/backend/reference.h"

#include "core/base/error.h"
#include "core/weights/decode/decode.h"
#include "core/weights/decode/dequantize.h"

#include <math.h>
#include <stdbool.h>

#define PANEL_ROWS 8

static enum kt_status layout(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    (void)instance;
    const struct kt_shape *shape = &layout->shape;
    bool linear = shape->activation == KT_ACTIVATION_NONE;
    int first = (int)kt_activation_first(shape->activation);
    if (*kt_activation_name(shape->activation) == '?')
        return kt_fail(error, KT_E_UNSUPPORTED, "it does not know activation %u", shape->activation);
    for (int p = first; p <= KT_DOWN; p++)
        if (!kt_dtype_decodes(shape->format[p].dtype))
            return kt_fail(error, KT_E_UNSUPPORTED, "it cannot decode %s",
                           kt_dtype_name(shape->format[p].dtype));
    uint64_t hidden = shape->hidden_size, intermediate = shape->intermediate_size;
    uint64_t widest = hidden > intermediate ? hidden : intermediate;
    layout->panel_rows[1] = PANEL_ROWS;
    layout->k_unit = 1;
    layout->act_row_size[1] = intermediate * sizeof(float);
    if (!linear) {
        layout->panel_rows[0] = PANEL_ROWS;
        layout->act_row_size[0] = hidden * sizeof(float);
        layout->h_row_size = intermediate * sizeof(float);
    }
    layout->scratch_size = 2 * widest * sizeof(float);
    layout->keeps_source = 1;
    /* The size of the source; separate scales are counted by their groups. */
    for (int p = first; p <= KT_DOWN; p++) {
        const struct kt_format *format = &shape->format[p];
        uint32_t elements, bytes, scale_elements, scale_bytes;
        kt_dtype_block(format->dtype, &elements, &bytes);
        kt_dtype_block(format->scale_dtype, &scale_elements, &scale_bytes);
        uint64_t rows = p == KT_DOWN ? hidden : intermediate, cols = p == KT_DOWN ? intermediate : hidden;
        uint64_t size = rows * ((cols + elements - 1) / elements) * bytes;
        if (format->scale_dtype)
            size += (rows + format->group_rows - 1) / format->group_rows *
                    ((cols + format->group_cols - 1) / format->group_cols) * scale_bytes;
        layout->nominal_size[p == KT_DOWN] += size;
    }
    return KT_OK;
}

static void act_pack(void *instance, const struct kt_act_pack *job)
{
    (void)instance;
    uint64_t row_size = job->layout->act_row_size[job->stage];
    uint64_t n = row_size / sizeof(float);
    int64_t stride = job->source_dtype ? job->source_stride : (int64_t)row_size;
    for (uint32_t r = job->row_begin; r < job->row_end; r++) {
        const uint8_t *source = (const uint8_t *)job->source + r * stride;
        float *out = (float *)(void *)((char *)job->packed + r * row_size);
        if (job->source_dtype == KT_DTYPE_BF16)
            kt_decode_bf16(source, n, out);
        else if (job->source_dtype == KT_DTYPE_F16)
            kt_decode_f16(source, n, out);
        else
            kt_decode_f32(source, n, out);
    }
}

static const float *act_row(const struct kt_product *job, enum kt_stage stage, uint32_t r)
{
    const char *act = job->act;
    return (const float *)(const void *)(act +
                                         (job->index ? job->index[r] : r) * job->layout->act_row_size[stage]);
}

/* Four sums, so that an addition need not wait for the one before it. */
static double dot(const float *weights, const float *x, uint64_t n, const float *bias, uint64_t row)
{
    double a = bias ? (double)bias[row] : 0, b = 0, c = 0, d = 0;
    uint64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += (double)weights[i] * (double)x[i];
        b += (double)weights[i + 1] * (double)x[i + 1];
        c += (double)weights[i + 2] * (double)x[i + 2];
        d += (double)weights[i + 3] * (double)x[i + 3];
    }
    for (; i < n; i++)
        a += (double)weights[i] * (double)x[i];
    return (a + b) + (c + d);
}

static double clamp(double x, double limit)
{
    return fmax(-limit, fmin(x, limit));
}

/* x * sigmoid(alpha * x) */
static double silu(double x, double alpha)
{
    return x / (1 + exp(-alpha * x));
}

/* See enum kt_activation. fmin and fmax would drop a NaN, so it is passed on first. layout() has checked the
 * activation. */
static double activate(const struct kt_shape *shape, double g, double u)
{
    if (isnan(g) || isnan(u))
        return NAN;
    double limit = (double)shape->limit, alpha = (double)shape->alpha;
    switch (shape->activation) {
    case KT_ACTIVATION_SILU:
        return silu(g, 1) * u;
    case KT_ACTIVATION_SWIGLU:
        return silu(fmin(g, limit), 1) * clamp(u, limit);
    case KT_ACTIVATION_SWIGLUOAI:
        return silu(fmin(g, limit), alpha) * (clamp(u, limit) + 1);
    case KT_ACTIVATION_GELU_TANH: /* (1 + tanh(t / 2)) / 2 is the sigmoid of t */
        return g / (1 + exp(-2 * sqrt(M_2_PI) * (g + 0.044715 * g * g * g))) * u;
    case KT_ACTIVATION_SWIGLUSTEP:
        return fmin(silu(g, 1), limit) * clamp(u, limit);
    case KT_ACTIVATION_RELU2:
        return fmax(u, 0) * fmax(u, 0);
    default: /* SITU */
        u = limit > 0 ? limit * tanh(u / limit) : u;
        return alpha * tanh(g / alpha) / (1 + exp(-g)) * u;
    }
}

static uint64_t last_row(const struct kt_product *job, uint64_t rows)
{
    return job->panel_end * PANEL_ROWS < rows ? job->panel_end * PANEL_ROWS : rows;
}

/* layout() checked that the format can be decoded, and loading that the views are valid. */
static void gate_up(void *instance, const struct kt_product *job)
{
    (void)instance;
    const struct kt_shape *shape = &job->layout->shape;
    uint64_t n = shape->hidden_size, end = last_row(job, shape->intermediate_size);
    float *gate = job->scratch, *up = gate + n;
    bool gated = kt_activation_first(shape->activation) == KT_GATE;
    for (uint64_t row = job->panel_begin * PANEL_ROWS; row < end; row++) {
        if (gated)
            (void)kt_view_dequantize(&job->source->gate, row, 0, n, gate, NULL);
        (void)kt_view_dequantize(&job->source->up, row, 0, n, up, NULL);
        for (uint32_t r = 0; r < job->n_rows; r++) {
            const float *x = act_row(job, KT_STAGE_GATE_UP, r);
            float *h = (float *)(void *)((char *)job->out + r * job->out_stride);
            double g = gated ? dot(gate, x, n, job->bias[0], row) : 0;
            h[row] = (float)activate(shape, g, dot(up, x, n, job->bias[1], row));
        }
    }
}

static void down(void *instance, const struct kt_product *job)
{
    (void)instance;
    const struct kt_shape *shape = &job->layout->shape;
    uint64_t n = shape->intermediate_size, end = last_row(job, shape->hidden_size);
    float *weights = job->scratch;
    for (uint64_t row = job->panel_begin * PANEL_ROWS; row < end; row++) {
        (void)kt_view_dequantize(&job->source->down, row, 0, n, weights, NULL);
        for (uint32_t r = 0; r < job->n_rows; r++) {
            float *y = (float *)(void *)((char *)job->out + job->out_index[r] * job->out_stride);
            y[row] = (float)dot(weights, act_row(job, KT_STAGE_DOWN, r), n, job->bias[0], row);
        }
    }
}

static enum kt_status weight_row(void *instance, const struct kt_layout *layout_, const void *packed,
                                 const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                 float *out, struct kt_error *error)
{
    (void)instance;
    (void)layout_;
    (void)packed;
    const struct kt_view *view = projection == KT_GATE ? &source->gate
                                 : projection == KT_UP ? &source->up
                                                       : &source->down;
    return kt_view_dequantize(view, row, 0, view->cols, out, error);
}

static const struct kt_ops ops = {
    .struct_size = sizeof ops,
    .layout = layout,
    .act_pack = act_pack,
    .gate_up = gate_up,
    .down = down,
    .weight_row = weight_row,
};

static const struct kt_level scalar = {.struct_size = sizeof scalar,
                                       .name = "scalar",
                                       .instruction = "mulsd",
                                       .ops = &ops};

static const struct kt_level *const levels[] = {&scalar};

const struct kt_plugin kt_plugin_reference = {
    KT_PLUGIN_HEADER(reference),
    .version = KT_VERSION,
    .description = "scalar float32 reference: any source format, always there, slow",
    .formats = "every format that the core decodes",
    .levels = levels,
    .n_levels = 1,
};
