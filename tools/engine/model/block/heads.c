/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heads.c - matrices of heads, in memory as small as the checkpoint's where that loses nothing:
 *
 *     BF16, F16           as they are
 *     formats of GGUF     as they are, unless a scale stands beside them; decoded a few rows at a time, into
 *                         the first cache
 *     FP8 with scales     the same, transposed with its scales where need be
 *     all others          float32: quantized rows of GGUF that must be transposed, as their groups run along
 *                         rows, and what safetensors have in 4 bits
 */
#include "tools/engine/model/block/heads.h"
#include "tools/engine/base/fail.h"

#include <stdlib.h>
#include <string.h>

/* Outputs of a head that a thread computes at least: its rows of weights stay in the first cache. */
#define HEAD_OUTPUTS 32
/* Numbers that are decoded at a time: 16 KB, half of a first cache. */
#define DECODED 4096

/* Heads are divided as they are for the products, so that each node has the memory of its own threads. */
struct loading {
    struct kt_heads_source source;
    struct kt_heads *heads;
};

static bool is_plain(const struct kt_view *view)
{
    return (view->dtype == KT_DTYPE_BF16 || view->dtype == KT_DTYPE_F16 || view->dtype == KT_DTYPE_F32) &&
           !view->scales.data;
}

static uint32_t size_of(uint32_t dtype)
{
    uint32_t elements, bytes;
    kt_dtype_block(dtype, &elements, &bytes);
    return bytes;
}

/* ---- which form ---- */

/* Blocks of GGUF, whose rows can be copied. */
static bool has_whole_rows(const struct kt_heads_source *source, uint64_t *row_size)
{
    const struct kt_view *view = &source->view;
    uint32_t elements, bytes;
    kt_dtype_block(view->dtype, &elements, &bytes);
    if (source->transposed || view->scales.data || elements < 2 || view->cols % elements != 0 ||
        view->block_stride != bytes)
        return false;
    *row_size = view->cols / elements * bytes;
    return true;
}

/* FP8 whose groups begin and end with heads. */
static bool has_groups(const struct kt_heads_source *source, const struct kt_heads *heads)
{
    const struct kt_view *view = &source->view;
    uint64_t n = source->transposed ? heads->cols : heads->rows; /* rows there */
    return view->dtype == KT_DTYPE_F8_E4M3 && view->scales.data &&
           source->stride % view->scales.group_rows == 0 && source->first % view->scales.group_rows == 0 &&
           n % view->scales.group_rows == 0 && view->cols % view->scales.group_cols == 0;
}

/* The view of the copy, still without memory; its size is the memory that it takes. */
static struct kt_view plan_view(const struct kt_heads_source *source, const struct kt_heads *heads,
                                uint32_t n_heads)
{
    struct kt_view view = KT_VIEW_INIT;
    uint64_t row_size;
    view.rows = (uint64_t)n_heads * heads->rows;
    view.cols = heads->cols;
    view.dtype = is_plain(&source->view) ? source->view.dtype : KT_DTYPE_F32;
    view.block_stride = size_of(view.dtype);
    view.row_stride = (int64_t)view.cols * view.block_stride;
    if (has_whole_rows(source, &row_size)) {
        view.dtype = source->view.dtype;
        view.block_stride = source->view.block_stride;
        view.row_stride = (int64_t)row_size;
    } else if (has_groups(source, heads)) {
        const struct kt_scales *from = &source->view.scales;
        struct kt_scales *to = &view.scales;
        view.dtype = source->view.dtype;
        view.block_stride = 1;
        view.row_stride = (int64_t)view.cols;
        to->dtype = from->dtype;
        to->group_rows = source->transposed ? from->group_cols : from->group_rows;
        to->group_cols = source->transposed ? from->group_rows : from->group_cols;
        to->col_stride = size_of(from->dtype);
        to->row_stride = to->col_stride * (int64_t)(view.cols / to->group_cols);
        to->size = (uint64_t)to->row_stride * (view.rows / to->group_rows);
    }
    view.size = view.rows * (uint64_t)view.row_stride;
    return view;
}

/* ---- copies ---- */

/* Numbers of `size` bytes each, `rows` x `cols` of them in `in`; [cols][rows] in `out`. */
static void transpose(const uint8_t *in, uint64_t rows, uint64_t cols, uint64_t size, uint8_t *out)
{
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++)
            memcpy(out + (c * rows + r) * size, in + (r * cols + c) * size, size);
}

/* Bytes of a grid: n rows of `cols` numbers each, strides as the source has them. */
static void copy_grid(const uint8_t *from, const int64_t stride[2], uint64_t n, uint64_t cols, uint64_t size,
                      uint8_t *to)
{
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t c = 0; c < cols; c++)
            memcpy(to + (r * cols + c) * size, from + (int64_t)r * stride[0] + (int64_t)c * stride[1], size);
}

/* One head's rows as they stand in the source, n of them, or its scales: into `out`, transposed or not. */
static void place(const struct kt_heads_source *source, const uint8_t *rows, uint64_t n, uint64_t cols,
                  uint64_t size, uint8_t *out)
{
    if (source->transposed)
        transpose(rows, n, cols, size, out);
    else
        memcpy(out, rows, n * cols * size);
}

/* `rows`: room for a head, n rows of the source from `first` on. */
static enum kt_status load_head(const struct kt_heads_source *source, const struct kt_heads *heads,
                                uint64_t head, int64_t *ids, uint8_t *rows, struct kt_error *error)
{
    const struct kt_view *from = &source->view, *to = &heads->view;
    uint64_t n = source->transposed ? heads->cols : heads->rows,
             first = head * source->stride + source->first;
    uint8_t *out = (uint8_t *)(uintptr_t)to->data + head * heads->rows * (uint64_t)to->row_stride;
    const uint8_t *data = from->data;
    if (is_plain(to)) {
        for (uint64_t r = 0; r < n; r++)
            ids[r] = (int64_t)(first + r);
        enum kt_status status = kt_view_gather(from, ids, n, to->dtype, rows, 0, error);
        if (status == KT_OK)
            place(source, rows, n, from->cols, size_of(to->dtype), out);
        return status;
    }
    data += (int64_t)first * from->row_stride;
    if (!to->scales.data) {
        for (uint64_t r = 0; r < n; r++)
            memcpy(out + r * (uint64_t)to->row_stride, data + (int64_t)r * from->row_stride,
                   (size_t)to->row_stride);
        return KT_OK;
    }
    copy_grid(data, (const int64_t[]){from->row_stride, from->block_stride}, n, from->cols, 1, rows);
    place(source, rows, n, from->cols, 1, out);
    uint64_t size = size_of(from->scales.dtype), n_groups = n / from->scales.group_rows;
    uint64_t n_cols = from->cols / from->scales.group_cols;
    copy_grid((const uint8_t *)from->scales.data +
                  (int64_t)(first / from->scales.group_rows) * from->scales.row_stride,
              (const int64_t[]){from->scales.row_stride, from->scales.col_stride}, n_groups, n_cols, size,
              rows);
    place(source, rows, n_groups, n_cols, size,
          (uint8_t *)(uintptr_t)to->scales.data + head * n_groups * n_cols * size);
    return KT_OK;
}

static enum kt_status load_some(const struct kt_slice *slice, struct kt_range range, struct kt_error *error)
{
    const struct loading *loading = slice->block->mixer_weights;
    const struct kt_heads *heads = loading->heads;
    uint64_t n = loading->source.transposed ? heads->cols : heads->rows;
    int64_t *ids = malloc(n * sizeof(*ids));
    /* scales are float32 at most, and no more of them than numbers */
    uint8_t *rows = malloc((uint64_t)heads->rows * heads->cols * sizeof(float));
    enum kt_status status =
        ids && rows ? KT_OK : kt_engine_fail(error, KT_E_NOMEM, "no memory for the matrix of a head");
    for (uint32_t h = range.begin; h < range.end && status == KT_OK; h++)
        status = load_head(&loading->source, heads, h, ids, rows, error);
    free(ids);
    free(rows);
    return status;
}

static enum kt_status load_all(struct kt_model *m, void *data, struct kt_error *error)
{
    const struct loading *loading = data;
    struct kt_view *view = &loading->heads->view;
    uint32_t n_heads = m->config.attention.n_heads;
    const struct kt_block block = {.mixer_weights = data};
    const struct kt_slice slice = {.model = m, .block = &block};
    view->data = kt_model_alloc(m, view->size, 1);
    if (view->scales.size > 0)
        view->scales.data = kt_model_alloc(m, view->scales.size, 1);
    if (!view->data || (view->scales.size > 0 && !view->scales.data))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the matrices of %u heads", n_heads);
    return kt_slice_run_items(&slice, n_heads, load_some, error);
}

enum kt_status kt_heads_load(struct kt_model *m, const struct kt_heads_source *source, struct kt_heads *heads,
                             struct kt_error *error)
{
    heads->view = plan_view(source, heads, m->config.attention.n_heads);
    struct loading *loading = kt_model_alloc(m, 1, sizeof(*loading));
    if (!loading)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a model");
    *loading = (struct loading){*source, heads};
    if (!is_plain(&heads->view))
        kt_model_need_scratch(m, (DECODED + heads->cols) * sizeof(float));
    return kt_load_later(m, heads->view.rows * heads->view.cols, heads->view.size + heads->view.scales.size,
                         load_all, loading, error);
}

/* ---- products ---- */

uint32_t kt_heads_units(const struct kt_heads *heads)
{
    return (heads->rows + HEAD_OUTPUTS - 1) / HEAD_OUTPUTS;
}

/* Outputs of rows first .. end - 1 of the view; job has all but the weights. */
static enum kt_status multiply_rows(const struct kt_slice *s, const struct kt_heads *heads, uint64_t first,
                                    uint64_t end, uint32_t thread, struct kt_rows_multiply *job,
                                    struct kt_error *error)
{
    const struct kt_model *m = s->model;
    float *decoded = (float *)(void *)(m->scratch + thread * m->scratch_size);
    uint64_t most = DECODED / heads->cols;
    most = most < 1 ? 1 : most < HEAD_OUTPUTS ? most : HEAD_OUTPUTS;
    int64_t ids[HEAD_OUTPUTS];
    enum kt_status status = KT_OK;
    job->weight_dtype = is_plain(&heads->view) ? heads->view.dtype : KT_DTYPE_F32;
    if (is_plain(&heads->view)) {
        job->n_outputs = (uint32_t)(end - first);
        job->weight = (const uint8_t *)heads->view.data + first * (uint64_t)heads->view.row_stride;
        return kt_rows_multiply(m->rows, job, error);
    }
    for (uint64_t row = first; row < end && status == KT_OK; row += job->n_outputs) {
        job->n_outputs = (uint32_t)(end - row < most ? end - row : most);
        for (uint32_t i = 0; i < job->n_outputs; i++)
            ids[i] = (int64_t)(row + i);
        status = kt_view_gather(&heads->view, ids, job->n_outputs, KT_DTYPE_F32, decoded, 0, error);
        job->weight = decoded;
        if (status == KT_OK)
            status = kt_rows_multiply(m->rows, job, error);
        job->output += job->n_outputs;
    }
    return status;
}

enum kt_status kt_heads_multiply(const struct kt_slice *s, const struct kt_heads *heads,
                                 const struct kt_heads_rows *rows, struct kt_range units,
                                 struct kt_error *error)
{
    uint32_t n_heads = s->model->config.attention.n_heads, per_head = kt_heads_units(heads);
    struct kt_rows_multiply job = KT_ROWS_MULTIPLY_INIT;
    enum kt_status status = KT_OK;
    job.n_rows = s->n_tokens;
    job.size = heads->cols;
    job.output_stride = (int64_t)n_heads * rows->out_width * (int64_t)sizeof(float);
    for (uint32_t unit = units.begin, next; unit < units.end && status == KT_OK; unit = next) {
        uint64_t head = unit / per_head;
        uint64_t first = (uint64_t)(unit % per_head) * HEAD_OUTPUTS;
        next = (uint32_t)(head + 1) * per_head < units.end ? (uint32_t)(head + 1) * per_head : units.end;
        uint64_t last = first + (uint64_t)(next - unit) * HEAD_OUTPUTS;
        last = last < heads->rows ? last : heads->rows;
        job.input =
            (struct kt_rows_input){.data = rows->in + head * rows->in_width,
                                   .stride = (int64_t)n_heads * rows->in_width * (int64_t)sizeof(float),
                                   .dtype = KT_DTYPE_F32};
        job.output = rows->out + head * rows->out_width + first;
        status = multiply_rows(s, heads, head * heads->rows + first, head * heads->rows + last, units.thread,
                               &job, error);
    }
    return status;
}
