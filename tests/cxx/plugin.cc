// SPDX-License-Identifier: Apache-2.0
// plugin.cc - the backend cxx: weights as float32, products in plain C++, from C++11 on. `kt plugin new`
// writes the same in C, with more words.
#include <kt/plugin.h>

#include <cmath>
#include <cstring>

namespace
{

constexpr uint64_t panel = 8;

template <typename T> T *at(void *base, int64_t offset)
{
    return reinterpret_cast<T *>(static_cast<char *>(base) + offset);
}
template <typename T> const T *at(const void *base, int64_t offset)
{
    return reinterpret_cast<const T *>(static_cast<const char *>(base) + offset);
}

kt_status layout(void *, kt_layout *layout, kt_error *error)
{
    const uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    uint64_t size = 0;
    if (__builtin_mul_overflow(hidden, intermediate, &size) || size > UINT64_MAX / 8)
        return kt_plugin_fail(error, KT_E_INVALID, "cxx: an expert is too large");
    if (layout->shape.activation > KT_ACTIVATION_NONE)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "cxx: the activation %s is not supported",
                              kt_activation_name(layout->shape.activation));
    layout->panel_rows[1] = panel;
    layout->k_unit = 1;
    layout->weight_size[1] = layout->nominal_size[1] = size * sizeof(float);
    layout->act_row_size[1] = intermediate * sizeof(float);
    if (layout->shape.activation != KT_ACTIVATION_NONE) {
        layout->panel_rows[0] = panel;
        layout->weight_size[0] = layout->nominal_size[0] = 2 * size * sizeof(float);
        layout->act_row_size[0] = hidden * sizeof(float);
        layout->h_row_size = intermediate * sizeof(float);
    }
    layout->y_dtype = KT_DTYPE_F32;
    return KT_OK;
}

kt_status pack_rows(const kt_host *host, const kt_view &view, const kt_pack &job, float *out, kt_error *error)
{
    for (uint64_t row = job.panel_begin * panel; row < job.panel_end * panel && row < view.rows; row++) {
        const kt_status status =
            host->dequantize(host, &view, row, 0, view.cols, out + row * view.cols, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

kt_status pack(void *instance, const kt_pack *job, kt_error *error)
{
    const kt_host *host = static_cast<const kt_host *>(instance);
    const kt_expert &source = *job->source;
    float *packed = static_cast<float *>(job->packed);
    if (job->stage == KT_STAGE_DOWN)
        return pack_rows(host, source.down, *job, packed, error);
    const kt_status status = pack_rows(host, source.gate, *job, packed, error);
    return status != KT_OK
               ? status
               : pack_rows(host, source.up, *job, packed + source.gate.rows * source.gate.cols, error);
}

// Of any float format, by the host's own decoder.
void act_pack(void *instance, const kt_act_pack *job)
{
    const kt_host *host = static_cast<const kt_host *>(instance);
    const kt_layout &layout = *job->layout;
    for (uint32_t row = job->row_begin; row < job->row_end; row++) {
        float *to = at<float>(job->packed, static_cast<int64_t>(row * layout.act_row_size[job->stage]));
        if (!job->source_dtype) { // h
            std::memcpy(to, at<char>(job->source, static_cast<int64_t>(row * layout.h_row_size)),
                        layout.h_row_size);
            continue;
        }
        const uint64_t width = job->source_dtype == KT_DTYPE_F32 ? 4 : 2;
        const uint64_t n = layout.act_row_size[job->stage] / sizeof(float);
        kt_view view = KT_VIEW_INIT;
        view.dtype = job->source_dtype;
        view.data = at<char>(job->source, row * job->source_stride);
        view.size = n * width;
        view.rows = 1;
        view.cols = n;
        view.row_stride = static_cast<int64_t>(n * width);
        view.block_stride = static_cast<int64_t>(width);
        host->dequantize(host, &view, 0, 0, n, to, job->error);
    }
}

float dot(const float *a, const float *b, uint64_t n)
{
    float sum = 0.0f;
    for (uint64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

float activate(const kt_shape &shape, float gate, float up)
{
    float alpha = 1.0f, shift = 0.0f;
    if (shape.activation != KT_ACTIVATION_SILU) { // written so that a NaN stays one
        gate = gate > shape.limit ? shape.limit : gate;
        up = up > shape.limit ? shape.limit : up < -shape.limit ? -shape.limit : up;
    }
    if (shape.activation == KT_ACTIVATION_SWIGLUOAI) {
        alpha = shape.alpha;
        shift = 1.0f;
    }
    return gate / (1.0f + std::exp(-alpha * gate)) * (up + shift);
}

const float *input(const kt_product &job, kt_stage stage, uint32_t row)
{
    const uint64_t place = job.index ? job.index[row] : row;
    return at<float>(job.act, static_cast<int64_t>(place * job.layout->act_row_size[stage]));
}

float bias(const kt_product &job, int which, uint64_t row)
{
    return job.bias[which] ? job.bias[which][row] : 0.0f;
}

void gate_up(void *, const kt_product *job)
{
    const kt_shape &shape = job->layout->shape;
    const uint64_t cols = shape.hidden_size, rows = shape.intermediate_size;
    const float *gate = static_cast<const float *>(job->packed), *up = gate + rows * cols;
    for (uint32_t r = 0; r < job->n_rows; r++) {
        const float *x = input(*job, KT_STAGE_GATE_UP, r);
        float *h = at<float>(job->out, static_cast<int64_t>(r * job->layout->h_row_size));
        for (uint64_t i = job->panel_begin * panel; i < job->panel_end * panel && i < rows; i++)
            h[i] = activate(shape, dot(gate + i * cols, x, cols) + bias(*job, 0, i),
                            dot(up + i * cols, x, cols) + bias(*job, 1, i));
    }
}

void down(void *, const kt_product *job)
{
    const uint64_t cols = job->layout->shape.intermediate_size, rows = job->layout->shape.hidden_size;
    const float *weights = static_cast<const float *>(job->packed);
    for (uint32_t r = 0; r < job->n_rows; r++) {
        const float *h = input(*job, KT_STAGE_DOWN, r);
        const int64_t place = job->out_index ? job->out_index[r] : r;
        float *y = at<float>(job->out, place * job->out_stride);
        for (uint64_t i = job->panel_begin * panel; i < job->panel_end * panel && i < rows; i++)
            y[i] = dot(weights + i * cols, h, cols) + bias(*job, 0, i);
    }
}

kt_status weight_row(void *, const kt_layout *layout, const void *packed, const kt_expert *,
                     kt_projection projection, uint64_t row, float *out, kt_error *)
{
    const uint64_t hidden = layout->shape.hidden_size, intermediate = layout->shape.intermediate_size;
    const uint64_t cols = projection == KT_DOWN ? intermediate : hidden;
    const uint64_t first = projection == KT_UP ? intermediate : 0;
    std::memcpy(out, static_cast<const float *>(packed) + (first + row) * cols, cols * sizeof *out);
    return KT_OK;
}

kt_status open(const kt_host *host, const kt_caps *, const kt_option_value *, void **instance, kt_error *)
{
    *instance = const_cast<kt_host *>(host); // no state of its own: the instance is the host
    return KT_OK;
}

constexpr kt_tunable tunables[] = {{"unroll", "rows at a time", 1, 16, 4, KT_TUNABLE_DOUBLING, 0}};

#if __cplusplus >= 201402L

constexpr kt_ops describe_ops()
{
    kt_ops value = KT_OPS_INIT;
    value.layout = layout;
    value.pack = pack;
    value.act_pack = act_pack;
    value.gate_up = gate_up;
    value.down = down;
    value.weight_row = weight_row;
    value.tunables = tunables;
    value.n_tunables = 1;
    return value;
}
constexpr kt_ops ops = describe_ops();

constexpr kt_level describe_level()
{
    kt_level value = KT_LEVEL_INIT;
    value.name = "scalar";
    value.instruction = "mulss";
    value.ops = &ops;
    return value;
}
constexpr kt_level scalar = describe_level();
constexpr const kt_level *levels[] = {&scalar};

constexpr kt_plugin describe()
{
    kt_plugin value = KT_PLUGIN_INIT(cxx);
    value.version = "1.0";
    value.description = "float32 in plain C++";
    value.formats = "any";
    value.levels = levels;
    value.n_levels = 1;
    value.open = open;
    return value;
}

#else

constexpr kt_ops ops = {sizeof(kt_ops), 0,       layout,  nullptr, pack,    act_pack, nullptr, gate_up, down,
                        weight_row,     nullptr, nullptr, nullptr, nullptr, tunables, 1,       0};
constexpr kt_level scalar = {sizeof(kt_level), 0, "scalar", 0, "mulss", &ops, nullptr, nullptr, nullptr};
constexpr const kt_level *levels[] = {&scalar};

#endif

} // namespace

#if __cplusplus >= 201402L
KT_PLUGIN_DEFINE(cxx) = describe();
#else
KT_PLUGIN_DEFINE(cxx) = {KT_PLUGIN_HEADER(cxx, 1),
                         "1.0",
                         "float32 in plain C++",
                         "any",
                         nullptr,
                         levels,
                         nullptr,
                         0,
                         0,
                         nullptr,
                         open,
                         nullptr};
#endif
