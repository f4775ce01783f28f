/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize.c - a run of weights of any view as float32. */
#include "core/weights/decode/dequantize.h"

#include "core/weights/decode/view.h"

#include "core/base/error.h"
#include "core/weights/decode/decode.h"
#include "core/weights/decode/dtype.h"

#include <inttypes.h>
#include <kt/kt.h>

enum { CHUNK = 64, LARGEST_BLOCK = 256 };

/* Copies numbers that are `stride` bytes apart to a dense array. */
static void collect(const uint8_t *source, int64_t stride, uint32_t bytes, uint64_t n, uint8_t *to)
{
    switch (bytes) {
    case 1:
        for (uint64_t i = 0; i < n; i++, source += stride)
            to[i] = *source;
        break;
    case 2:
        for (uint64_t i = 0; i < n; i++, source += stride)
            memcpy(to + 2 * i, source, 2);
        break;
    case 4:
        for (uint64_t i = 0; i < n; i++, source += stride)
            memcpy(to + 4 * i, source, 4);
        break;
    default:
        for (uint64_t i = 0; i < n; i++, source += stride)
            memcpy(to + 8 * i, source, 8);
        break;
    }
}

static void decode_plain(const struct kt_dtype_info *info, const uint8_t *source, int64_t stride, uint64_t n,
                         float *out)
{
    if (stride == (int64_t)info->bytes) {
        info->plain(source, n, out);
        return;
    }
    uint8_t dense[CHUNK * sizeof(double)];
    for (uint64_t done = 0; done < n; done += CHUNK) {
        uint64_t count = n - done < CHUNK ? n - done : CHUNK;
        collect(source + (int64_t)done * stride, stride, info->bytes, count, dense);
        info->plain(dense, count, out + done);
    }
}

static void decode_blocks(const struct kt_dtype_info *info, const uint8_t *block, int64_t stride, uint64_t n,
                          float *out)
{
    uint64_t whole = n / info->elements, rest = n % info->elements;
    info->blocks(block, stride, whole, out);
    if (rest) {
        float last[LARGEST_BLOCK];
        info->blocks(block + (int64_t)whole * stride, stride, 1, last);
        memcpy(out + whole * info->elements, last, rest * sizeof *out);
    }
}

static void multiply(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n, float *out)
{
    const struct kt_scales *scales = &view->scales;
    const struct kt_dtype_info *info = kt_dtype_find(scales->dtype);
    const uint8_t *line =
        (const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride;
    for (uint64_t done = 0; done < n;) {
        uint64_t group = (col + done) / scales->group_cols;
        uint64_t left = scales->group_cols - (col + done) % scales->group_cols;
        uint64_t count = n - done < left ? n - done : left;
        float scale;
        info->plain(line + (int64_t)group * scales->col_stride, 1, &scale);
        for (uint64_t i = 0; i < count; i++)
            out[done + i] *= scale;
        done += count;
    }
}

/* int4 was decoded with KT_INT4_ZERO; the difference to the real zero is exact. */
static void shift_zeros(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n, float *out)
{
    const struct kt_scales *zeros = &view->zeros;
    const uint8_t *line =
        (const uint8_t *)zeros->data + (int64_t)(row / zeros->group_rows) * zeros->row_stride;
    for (uint64_t done = 0; done < n;) {
        uint64_t group = (col + done) / zeros->group_cols;
        uint64_t left = zeros->group_cols - (col + done) % zeros->group_cols;
        uint64_t count = n - done < left ? n - done : left;
        float shift = (float)(KT_INT4_ZERO - line[(int64_t)group * zeros->col_stride]);
        for (uint64_t i = 0; i < count; i++)
            out[done + i] += shift;
        done += count;
    }
}

static enum kt_status check_run(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n,
                                const float *out, struct kt_error *error)
{
    enum kt_status status = kt_view_check(view, error);
    if (status != KT_OK)
        return status;
    const char *name = view->name ? view->name : "a matrix";
    const struct kt_dtype_info *info = kt_dtype_find(view->dtype);
    if (!out)
        return kt_fail(error, KT_E_INVALID, "%s: the output is NULL", name);
    if (row >= view->rows || col > view->cols || n > view->cols - col)
        return kt_fail(error, KT_E_RANGE,
                       "%s: %" PRIu64 " weights from row %" PRIu64 ", column %" PRIu64
                       " on are not inside its %" PRIu64 " x %" PRIu64,
                       name, n, row, col, view->rows, view->cols);
    if (col % info->elements != 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: column %" PRIu64 " is inside a block of %s, %" PRIu32 " weights", name, col,
                       info->name, info->elements);
    if (!info->plain && !info->blocks)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: weights of type %s cannot be decoded", name, info->name);
    if (kt_dtype_needs_scales(view->dtype) && !view->scales.data)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: weights of type %s cannot be decoded without scales; set view.scales", name,
                       info->name);
    return KT_OK;
}

enum kt_status kt_view_dequantize(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n,
                                  float *out, struct kt_error *error)
{
    enum kt_status status = check_run(view, row, col, n, out, error);
    if (status != KT_OK || n == 0)
        return status;
    const struct kt_dtype_info *info = kt_dtype_find(view->dtype);
    const uint8_t *source = (const uint8_t *)view->data + (int64_t)row * view->row_stride +
                            (int64_t)(col / info->elements) * view->block_stride;
    /* Of a single block it may be any number, and decoders move their pointer on behind the last one. */
    int64_t stride = view->cols > info->elements ? view->block_stride : (int64_t)info->bytes;
    if (info->plain)
        decode_plain(info, source, stride, n, out);
    else
        decode_blocks(info, source, stride, n, out);
    if (view->zeros.data)
        shift_zeros(view, row, col, n, out);
    if (view->scales.data)
        multiply(view, row, col, n, out);
    return KT_OK;
}

enum kt_status kt_view_row(const struct kt_view *view, uint64_t row, float *out, struct kt_error *error)
{
    if (!view)
        return kt_fail(error, KT_E_INVALID, "the view is NULL");
    return kt_view_dequantize(view, row, 0, view->cols, out, error);
}

float kt_dtype_number(uint32_t dtype, const uint8_t *number)
{
    float value;
    kt_dtype_find(dtype)->plain(number, 1, &value);
    return value;
}

bool kt_dtype_decodes(uint32_t dtype)
{
    const struct kt_dtype_info *info = kt_dtype_find(dtype);
    return info && (info->plain || info->blocks);
}
