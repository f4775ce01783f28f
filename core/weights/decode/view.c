/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - checks and cuts tensor views. Nothing here reads a weight. */
#include "core/weights/decode/view.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/weights/decode/dtype.h"

#include <inttypes.h>
#include <kt/kt.h>
#include <stdbool.h>

/* Units of `bytes` bytes in a grid: count[0] rows stride[0] apart, count[1] columns stride[1]
 * apart. */
struct grid {
    uint64_t count[2];
    int64_t stride[2];
    uint64_t bytes;
};

static uint64_t size_of_stride(int64_t stride)
{
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/* Bytes from the lowest to the highest byte of the grid; false if no object can be so large. */
static bool span(const struct grid *grid, uint64_t *bytes)
{
    uint64_t sum = grid->bytes;
    for (int i = 0; i < 2; i++) {
        uint64_t distance;
        if (!kt_mul(grid->count[i] - 1, size_of_stride(grid->stride[i]), &distance) ||
            !kt_add(sum, distance, &sum))
            return false;
    }
    *bytes = sum;
    return sum <= INT64_MAX;
}

static const char *name_of(const struct kt_view *view)
{
    return view->name ? view->name : "a matrix";
}

static enum kt_status check_grid(const struct kt_view *view, const char *what, const struct grid *grid,
                                 const void *data, uint64_t size, struct kt_error *error)
{
    for (int i = 0; i < 2; i++)
        if (grid->count[i] > 1 && size_of_stride(grid->stride[i]) < grid->bytes)
            return kt_fail(error, KT_E_INVALID,
                           "%s: %s stride of %s is %" PRId64 " bytes; at least %" PRIu64
                           " are needed from one to the next",
                           name_of(view), i == 0 ? "row" : "column", what, grid->stride[i], grid->bytes);
    uint64_t bytes;
    if (!span(grid, &bytes))
        return kt_fail(error, KT_E_INVALID,
                       "%s: %s, %" PRIu64 " x %" PRIu64 " units of %" PRIu64
                       " bytes, overflows; give a smaller shape or smaller strides",
                       name_of(view), what, grid->count[0], grid->count[1], grid->bytes);
    if (!data || bytes > size)
        return kt_fail(error, KT_E_INVALID,
                       "%s: %s, %" PRIu64 " x %" PRIu64 " units of %" PRIu64 " bytes, reaches over %" PRIu64
                       " bytes, but %" PRIu64 " are given%s",
                       name_of(view), what, grid->count[0], grid->count[1], grid->bytes, bytes,
                       data ? size : 0, data ? "" : " (its pointer is NULL)");
    return KT_OK;
}

static void lay_scales(const struct kt_view *view, const struct kt_scales *scales, struct grid *grid)
{
    const struct kt_dtype_info *info = kt_dtype_find(scales->dtype);
    *grid = (struct grid){
        .count = {(view->rows - 1) / scales->group_rows + 1, (view->cols - 1) / scales->group_cols + 1},
        .stride = {scales->row_stride, scales->col_stride},
        .bytes = info ? info->bytes : 0,
    };
}

static enum kt_status check_numbers(const struct kt_view *view, const struct kt_scales *scales,
                                    struct kt_error *error)
{
    bool zeros = scales == &view->zeros;
    const char *what = zeros ? "zeros" : "scales";
    const struct kt_dtype_info *info = kt_dtype_find(scales->dtype);
    if (!info || info->elements != 1)
        return kt_fail(error, KT_E_INVALID,
                       "%s: its %s are of dtype %" PRIu32 " (%s); a plain number is needed", name_of(view),
                       what, scales->dtype, kt_dtype_name(scales->dtype));
    if (scales->group_rows == 0 || scales->group_cols == 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: a group of its %s is %" PRIu64 " x %" PRIu64 " weights; both must be at least 1",
                       name_of(view), what, scales->group_rows, scales->group_cols);
    if (zeros && view->dtype != KT_DTYPE_INT4)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: only int4 weights may have zeros; these are %s",
                       name_of(view), kt_dtype_name(view->dtype));
    if (zeros ? scales->dtype != KT_DTYPE_U8 : !kt_dtype_scales(scales->dtype))
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: its %s are of dtype %s; they must be %s", name_of(view),
                       what, kt_dtype_name(scales->dtype),
                       zeros ? "u8" : "f32, f16, bf16, f64, f8_e4m3, f8_e5m2 or f8_e8m0");
    return KT_OK;
}

static enum kt_status check_scales(const struct kt_view *view, const struct kt_scales *scales,
                                   const char *what, struct kt_error *error)
{
    if (!scales->data)
        return KT_OK;
    enum kt_status status = check_numbers(view, scales, error);
    if (status != KT_OK)
        return status;
    struct grid grid;
    lay_scales(view, scales, &grid);
    return check_grid(view, what, &grid, scales->data, scales->size, error);
}

/* struct kt_format has one group size for both. */
static enum kt_status check_groups(const struct kt_view *view, struct kt_error *error)
{
    const struct kt_scales *scales = &view->scales, *zeros = &view->zeros;
    if (scales->group_rows == zeros->group_rows && scales->group_cols == zeros->group_cols)
        return KT_OK;
    return kt_fail(error, KT_E_INVALID,
                   "%s: its scales stand for %" PRIu64 " x %" PRIu64 " weights each, its zeros for %" PRIu64
                   " x %" PRIu64 "; both must be alike",
                   name_of(view), scales->group_rows, scales->group_cols, zeros->group_rows,
                   zeros->group_cols);
}

static void lay_weights(const struct kt_view *view, const struct kt_dtype_info *info, struct grid *grid)
{
    *grid = (struct grid){
        .count = {view->rows, view->cols / info->elements},
        .stride = {view->row_stride, view->block_stride},
        .bytes = info->bytes,
    };
}

static enum kt_status check_dtype(const struct kt_view *view, const struct kt_dtype_info **info,
                                  struct kt_error *error)
{
    if (!view)
        return kt_fail(error, KT_E_INVALID, "the view is NULL");
    if (view->struct_size < sizeof *view)
        return kt_fail(error, KT_E_INVALID,
                       "a view's struct_size is %" PRIu32 ", not %zu; start it with KT_VIEW_INIT",
                       view->struct_size, sizeof *view);
    *info = kt_dtype_find(view->dtype);
    return *info ? KT_OK
                 : kt_fail(error, KT_E_INVALID, "%s: %" PRIu32 " is not a dtype", name_of(view), view->dtype);
}

enum kt_status kt_view_check_format(const struct kt_view *view, struct kt_error *error)
{
    const struct kt_dtype_info *info;
    struct kt_format format;
    enum kt_status status = check_dtype(view, &info, error);
    if (status != KT_OK)
        return status;
    kt_view_format(view, &format);
    if (kt_dtype_needs_scales(view->dtype) && format.scale_dtype == KT_DTYPE_NONE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: %s weights cannot be decoded without scales; set view.scales", name_of(view),
                       info->name);
    if (format.scale_dtype != KT_DTYPE_NONE)
        status = check_numbers(view, &view->scales, error);
    if (status == KT_OK && format.zero_dtype != KT_DTYPE_NONE)
        status = check_numbers(view, &view->zeros, error);
    if (status == KT_OK && format.scale_dtype != KT_DTYPE_NONE && format.zero_dtype != KT_DTYPE_NONE)
        status = check_groups(view, error);
    return status;
}

enum kt_status kt_view_check(const struct kt_view *view, struct kt_error *error)
{
    const struct kt_dtype_info *info;
    enum kt_status status = check_dtype(view, &info, error);
    if (status != KT_OK)
        return status;
    if (view->rows == 0 || view->cols == 0 || view->cols % info->elements != 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: %" PRIu64 " x %" PRIu64
                       " %s weights; rows must be at least 1, columns a multiple of %" PRIu32,
                       name_of(view), view->rows, view->cols, info->name, info->elements);
    struct grid grid;
    lay_weights(view, info, &grid);
    status = check_grid(view, "the matrix", &grid, view->data, view->size, error);
    if (status == KT_OK)
        status = check_scales(view, &view->scales, "scales", error);
    if (status == KT_OK)
        status = check_scales(view, &view->zeros, "zeros", error);
    if (status == KT_OK && view->scales.data && view->zeros.data)
        status = check_groups(view, error);
    return status;
}

enum kt_status kt_view_dense(struct kt_view *view, uint32_t dtype, const void *data, uint64_t size,
                             uint64_t rows, uint64_t cols, struct kt_error *error)
{
    if (!view)
        return kt_fail(error, KT_E_INVALID, "the view to fill is NULL");
    const struct kt_dtype_info *info = kt_dtype_find(dtype);
    uint64_t row_size = 0, bytes = 0;
    if (info && (!kt_mul(cols / info->elements, info->bytes, &row_size) || row_size > INT64_MAX ||
                 !kt_mul(rows, row_size, &bytes)))
        return kt_fail(error, KT_E_INVALID, "a matrix of %" PRIu64 " x %" PRIu64 " %s weights overflows",
                       rows, cols, info->name);
    struct kt_view dense = KT_VIEW_INIT;
    dense.dtype = dtype;
    dense.data = data;
    dense.size = size;
    dense.rows = rows;
    dense.cols = cols;
    dense.row_stride = (int64_t)row_size;
    dense.block_stride = info ? info->bytes : 0;
    enum kt_status status = kt_view_check(&dense, error);
    if (status != KT_OK)
        return status;
    if (size != bytes)
        return kt_fail(error, KT_E_INVALID,
                       "a matrix of %" PRIu64 " x %" PRIu64 " %s weights takes %" PRIu64
                       " bytes, but %" PRIu64 " are given",
                       rows, cols, info->name, bytes, size);
    *view = dense;
    return KT_OK;
}

/* A stride of what there is one of may be any number. One that is dense cannot lead a pointer that is moved
 * on behind the last unit out of the address space. */
static void settle_strides(const struct grid *grid, int64_t *row_stride, int64_t *col_stride)
{
    if (grid->count[1] == 1)
        *col_stride = (int64_t)grid->bytes;
    if (grid->count[0] == 1)
        *row_stride = (int64_t)(grid->count[1] * grid->bytes);
}

/* May [begin, begin + n) be cut out: does it begin with a group, or lie within one? */
static bool cuttable(uint64_t begin, uint64_t n, uint64_t group)
{
    return begin % group == 0 || begin / group == (begin + n - 1) / group;
}

static enum kt_status slice_scales(const struct kt_view *view, const struct kt_scales *scales,
                                   const char *what, uint64_t row, uint64_t col, const struct kt_view *part,
                                   struct kt_scales *cut, struct kt_error *error)
{
    if (!scales->data)
        return KT_OK;
    if (!cuttable(row, part->rows, scales->group_rows) || !cuttable(col, part->cols, scales->group_cols))
        return kt_fail(error, KT_E_INVALID,
                       "%s: a part of %" PRIu64 " x %" PRIu64 " from row %" PRIu64 ", column %" PRIu64
                       " on cuts its %s, one for %" PRIu64 " x %" PRIu64 " weights",
                       name_of(view), part->rows, part->cols, row, col, what, scales->group_rows,
                       scales->group_cols);
    cut->data = (const uint8_t *)scales->data + (int64_t)(row / scales->group_rows) * scales->row_stride +
                (int64_t)(col / scales->group_cols) * scales->col_stride;
    struct grid grid;
    lay_scales(part, cut, &grid);
    (void)span(&grid, &cut->size);
    settle_strides(&grid, &cut->row_stride, &cut->col_stride);
    return KT_OK;
}

enum kt_status kt_view_slice(const struct kt_view *view, uint64_t row, uint64_t rows, uint64_t col,
                             uint64_t cols, struct kt_view *part, struct kt_error *error)
{
    enum kt_status status = kt_view_check(view, error);
    if (status != KT_OK)
        return status;
    if (!part)
        return kt_fail(error, KT_E_INVALID, "%s: the part to fill is NULL", name_of(view));
    if (rows == 0 || cols == 0 || row >= view->rows || rows > view->rows - row || col >= view->cols ||
        cols > view->cols - col)
        return kt_fail(error, KT_E_RANGE,
                       "%s: a part of %" PRIu64 " x %" PRIu64 " from row %" PRIu64 ", column %" PRIu64
                       " on is not inside its %" PRIu64 " x %" PRIu64,
                       name_of(view), rows, cols, row, col, view->rows, view->cols);
    const struct kt_dtype_info *info = kt_dtype_find(view->dtype);
    if (col % info->elements != 0 || cols % info->elements != 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: columns %" PRIu64 " to %" PRIu64 " cut a block of %s, %" PRIu32 " weights",
                       name_of(view), col, col + cols, info->name, info->elements);
    struct kt_view cut = *view;
    struct grid grid;
    cut.rows = rows;
    cut.cols = cols;
    cut.data = (const uint8_t *)view->data + (int64_t)row * view->row_stride +
               (int64_t)(col / info->elements) * view->block_stride;
    lay_weights(&cut, info, &grid);
    (void)span(&grid, &cut.size);
    settle_strides(&grid, &cut.row_stride, &cut.block_stride);
    status = slice_scales(view, &view->scales, "scales", row, col, &cut, &cut.scales, error);
    if (status == KT_OK)
        status = slice_scales(view, &view->zeros, "zeros", row, col, &cut, &cut.zeros, error);
    if (status == KT_OK)
        *part = cut;
    return status;
}

static uint64_t scale_bytes(const struct kt_view *view, const struct kt_scales *scales)
{
    if (!scales->data)
        return 0;
    struct grid grid;
    lay_scales(view, scales, &grid);
    return grid.count[0] * grid.count[1] * grid.bytes;
}

uint64_t kt_view_bytes(const struct kt_view *view)
{
    if (kt_view_check(view, NULL) != KT_OK)
        return 0;
    struct grid grid;
    lay_weights(view, kt_dtype_find(view->dtype), &grid);
    return grid.count[0] * grid.count[1] * grid.bytes + scale_bytes(view, &view->scales) +
           scale_bytes(view, &view->zeros);
}

/* Groups are not clipped: one that is larger than the matrix means one scale for all of it. A view without
 * data, of weights in a store, has scales if it names their type. */
void kt_view_format(const struct kt_view *view, struct kt_format *format)
{
    const struct kt_scales *scales = &view->scales, *zeros = &view->zeros;
    bool scaled = scales->data || (!view->data && scales->dtype != KT_DTYPE_NONE);
    bool shifted = zeros->data || (!view->data && zeros->dtype != KT_DTYPE_NONE);
    *format = (struct kt_format){
        .dtype = view->dtype,
        .scale_dtype = scaled ? scales->dtype : KT_DTYPE_NONE,
        .zero_dtype = shifted ? zeros->dtype : KT_DTYPE_NONE,
        .group_rows = scaled    ? scales->group_rows
                      : shifted ? zeros->group_rows
                                : 0,
        .group_cols = scaled    ? scales->group_cols
                      : shifted ? zeros->group_cols
                                : 0,
    };
}

static uint64_t unite(uint64_t unit, const struct kt_view *view, const struct kt_scales *scales)
{
    if (!scales->data || scales->group_cols == 0 || scales->group_cols >= view->cols)
        return unit;
    uint64_t a = unit, b = scales->group_cols, multiple;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return kt_mul(unit / a, scales->group_cols, &multiple) ? multiple : view->cols;
}

uint64_t kt_view_col_unit(const struct kt_view *view)
{
    const struct kt_dtype_info *info = kt_dtype_find(view->dtype);
    uint64_t unit = info ? info->elements : 1;
    return unite(unite(unit, view, &view->scales), view, &view->zeros);
}
