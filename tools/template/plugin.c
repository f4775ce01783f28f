/* @NAME@.c - the backend @NAME@: weights as float32, products in plain C. It is right; make it fast. */
#include <kt/plugin.h>

#include <math.h>
#include <string.h>

#define PANEL 8 /* rows of a panel; any number would do */

static float from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static float from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    float value = (float)(bits & 1023);
    if (exponent == 31)
        value = value != 0.0f ? NAN : INFINITY;
    else
        value = exponent ? ldexpf(value + 1024.0f, exponent - 25) : ldexpf(value, -24);
    return bits & 0x8000 ? -value : value;
}

/* Packed objects: stage 0 is gate, if there is one, then up, [intermediate][hidden] each; stage 1 is down. A
 * linear, y = W x, has stage 1 alone, with W as down. */
static int has_gate(const struct kt_shape *shape)
{
    return shape->activation != KT_ACTIVATION_NONE && shape->activation != KT_ACTIVATION_RELU2;
}

static enum kt_status layout(void *instance, struct kt_layout *layout, struct kt_error *error)
{
    uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size, size;
    (void)instance;
    if (__builtin_mul_overflow(hidden, intermediate, &size) || size > UINT64_MAX / 8)
        return kt_plugin_fail(error, KT_E_INVALID, "@NAME@: an expert of %llu x %llu is too large",
                              (unsigned long long)intermediate, (unsigned long long)hidden);
    if (layout->shape.activation > KT_ACTIVATION_RELU2)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "@NAME@: the activation %s is not supported",
                              kt_activation_name(layout->shape.activation));
    layout->panel_rows[1] = PANEL;
    layout->k_unit = 1;
    layout->weight_size[1] = layout->nominal_size[1] = size * sizeof(float);
    layout->act_row_size[1] = intermediate * sizeof(float);
    if (layout->shape.activation != KT_ACTIVATION_NONE) {
        layout->panel_rows[0] = PANEL;
        uint64_t both = has_gate(&layout->shape) ? 2 : 1;
        layout->weight_size[0] = layout->nominal_size[0] = both * size * sizeof(float);
        layout->act_row_size[0] = hidden * sizeof(float);
        layout->h_row_size = intermediate * sizeof(float);
    }
    layout->y_dtype = KT_DTYPE_F32;
    return KT_OK;
}

/* The host decodes every source format, so this is the whole of packing. */
static enum kt_status pack_rows(const struct kt_host *host, const struct kt_view *view,
                                uint64_t begin, uint64_t end, float *out, struct kt_error *error)
{
    for (uint64_t row = begin; row < end && row < view->rows; row++) {
        float *to = out + row * view->cols;
        enum kt_status status = host->dequantize(host, view, row, 0, view->cols, to, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

static enum kt_status pack(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    const struct kt_host *host = instance;
    const struct kt_expert *source = job->source;
    uint64_t begin = job->panel_begin * PANEL, end = job->panel_end * PANEL;
    float *packed = job->packed;
    if (job->stage == KT_STAGE_DOWN)
        return pack_rows(host, &source->down, begin, end, packed, error);
    if (has_gate(&job->layout->shape)) {
        enum kt_status status = pack_rows(host, &source->gate, begin, end, packed, error);
        if (status != KT_OK)
            return status;
        packed += source->gate.rows * source->gate.cols;
    }
    return pack_rows(host, &source->up, begin, end, packed, error);
}

static void act_pack(void *instance, const struct kt_act_pack *job)
{
    const struct kt_layout *layout = job->layout;
    uint64_t size = layout->act_row_size[job->stage], n = size / sizeof(float);
    (void)instance;
    for (uint64_t row = job->row_begin; row < job->row_end; row++) {
        float *to = (float *)((char *)job->packed + row * size);
        if (!job->source_dtype) { /* h */
            memcpy(to, (const char *)job->source + row * layout->h_row_size, size);
            continue;
        }
        const void *from = (const char *)job->source + (int64_t)row * job->source_stride;
        if (job->source_dtype == KT_DTYPE_F32)
            memcpy(to, from, size);
        else
            for (uint64_t i = 0; i < n; i++) {
                uint16_t bits = ((const uint16_t *)from)[i];
                to[i] = job->source_dtype == KT_DTYPE_BF16 ? from_bf16(bits) : from_f16(bits);
            }
    }
}

static float dot(const float *a, const float *b, uint64_t n)
{
    float sum = 0.0f;
    for (uint64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static float at_most(float x, float limit) /* written so that a NaN stays one */
{
    return x > limit ? limit : x;
}

static float clamp(float x, float limit)
{
    return x < -limit ? -limit : at_most(x, limit);
}

static float cap(float x, float limit)
{
    return limit > 0.0f ? limit * tanhf(x / limit) : x;
}

static float silu(float x, float alpha)
{
    return x / (1.0f + expf(-alpha * x));
}

/* layout() has rejected any other activation. */
static float activate(const struct kt_shape *shape, float gate, float up)
{
    float limit = shape->limit, alpha = shape->alpha;
    switch (shape->activation) {
    case KT_ACTIVATION_SWIGLU:
        return silu(at_most(gate, limit), 1.0f) * clamp(up, limit);
    case KT_ACTIVATION_SWIGLUOAI:
        return silu(at_most(gate, limit), alpha) * (clamp(up, limit) + 1.0f);
    case KT_ACTIVATION_GELU_TANH:
        return gate / (1.0f + expf(-1.5957691f * (gate + 0.044715f * gate * gate * gate))) * up;
    case KT_ACTIVATION_SWIGLUSTEP:
        return at_most(silu(gate, 1.0f), limit) * clamp(up, limit);
    case KT_ACTIVATION_RELU2:
        return up < 0.0f ? 0.0f : up * up;
    case KT_ACTIVATION_SITU:
        return cap(gate, alpha) / (1.0f + expf(-gate)) * cap(up, limit);
    default:
        return silu(gate, 1.0f) * up;
    }
}

static const float *input(const struct kt_product *job, enum kt_stage stage, uint32_t row)
{
    uint64_t at = job->index ? job->index[row] : row;
    return (const float *)((const char *)job->act + at * job->layout->act_row_size[stage]);
}

static void gate_up(void *instance, const struct kt_product *job)
{
    const struct kt_shape *shape = &job->layout->shape;
    uint64_t cols = shape->hidden_size, rows = shape->intermediate_size;
    const float *gate = job->packed, *up = has_gate(shape) ? gate + rows * cols : gate;
    (void)instance;
    for (uint32_t r = 0; r < job->n_rows; r++) {
        const float *x = input(job, KT_STAGE_GATE_UP, r);
        float *h = (float *)((char *)job->out + r * job->layout->h_row_size);
        for (uint64_t i = job->panel_begin * PANEL; i < job->panel_end * PANEL && i < rows; i++)
            h[i] = activate(shape,
                            dot(gate + i * cols, x, cols) + (job->bias[0] ? job->bias[0][i] : 0.0f),
                            dot(up + i * cols, x, cols) + (job->bias[1] ? job->bias[1][i] : 0.0f));
    }
}

static void down(void *instance, const struct kt_product *job)
{
    const struct kt_shape *shape = &job->layout->shape;
    uint64_t cols = shape->intermediate_size, rows = shape->hidden_size;
    const float *weights = job->packed;
    (void)instance;
    for (uint32_t r = 0; r < job->n_rows; r++) {
        const float *h = input(job, KT_STAGE_DOWN, r);
        int64_t at = job->out_index ? job->out_index[r] : r;
        float *y = (float *)((char *)job->out + at * job->out_stride);
        for (uint64_t i = job->panel_begin * PANEL; i < job->panel_end * PANEL && i < rows; i++)
            y[i] = dot(weights + i * cols, h, cols) + (job->bias[0] ? job->bias[0][i] : 0.0f);
    }
}

static enum kt_status weight_row(void *instance, const struct kt_layout *layout, const void *packed,
                                 const struct kt_expert *source, enum kt_projection projection,
                                 uint64_t row, float *out, struct kt_error *error)
{
    uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    uint64_t cols = projection == KT_DOWN ? intermediate : hidden;
    uint64_t first = projection == KT_UP && has_gate(&layout->shape) ? intermediate : 0;
    (void)instance, (void)source, (void)error;
    memcpy(out, (const float *)packed + (first + row) * cols, cols * sizeof *out);
    return KT_OK;
}

static enum kt_status open(const struct kt_host *host, const struct kt_caps *caps,
                           const struct kt_option_value *values, void **instance,
                           struct kt_error *error)
{
    (void)caps, (void)values, (void)error;
    *instance = (void *)(uintptr_t)host; /* no state of its own: the instance is the host */
    return KT_OK;
}

static const struct kt_ops ops = {
    .struct_size = sizeof ops, .layout = layout, .pack = pack, .act_pack = act_pack,
    .gate_up = gate_up, .down = down, .weight_row = weight_row,
};
static const struct kt_level scalar = {
    .struct_size = sizeof scalar, .name = "scalar", .instruction = "mulss", .ops = &ops,
};
static const struct kt_level *const levels[] = {&scalar};

KT_PLUGIN_DEFINE(@NAME@) = {
    KT_PLUGIN_HEADER(@NAME@), .version = "1.0", .description = "float32 in plain C",
    .formats = "any", .levels = levels, .n_levels = 1, .open = open,
};
