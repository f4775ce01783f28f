/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - checks of tensor views, and parts of them. */
#ifndef KT_CORE_WEIGHTS_DECODE_VIEW_H
#define KT_CORE_WEIGHTS_DECODE_VIEW_H

#include <kt/kt.h>
#include <kt/plugin.h>

/* Checks that every byte the view can address is inside its size, the dtype known, the strides valid, and the
 * groups of scales complete. */
enum kt_status kt_view_check(const struct kt_view *view, struct kt_error *error);

/* The same of its formats alone: data, sizes and strides are not looked at. */
enum kt_status kt_view_check_format(const struct kt_view *view, struct kt_error *error);

/* A part of a view; `col` must be a multiple of the block of the format and of the scale group. Strides that
 * the part does not need are dense: backends need not look whether they may move a pointer on. */
enum kt_status kt_view_slice(const struct kt_view *view, uint64_t row, uint64_t rows, uint64_t col,
                             uint64_t cols, struct kt_view *part, struct kt_error *error);

/* The format of a view, for a backend's layout. */
void kt_view_format(const struct kt_view *view, struct kt_format *format);

/* The number of columns that cannot be cut: a common multiple of the block of the dtype and the scale group.
 */
uint64_t kt_view_col_unit(const struct kt_view *view);

#endif
