/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - checks of tensor views, and parts of them. */
#ifndef KT_CORE_WEIGHTS_DECODE_VIEW_H
#define KT_CORE_WEIGHTS_DECODE_VIEW_H

#include <kt/kt.h>
#include <kt/plugin.h>

/* Is every byte that the view can name inside its size, the dtype known, the strides sane, the scales'
 * groups complete? Names the view and the numbers that disagree. */
enum kt_status kt_view_check(const struct kt_view *view, struct kt_error *error);

/* A part of a view: rows and columns; col must fall on a block of the format and on a scale group. */
enum kt_status kt_view_slice(const struct kt_view *view, uint64_t row, uint64_t rows, uint64_t col,
                             uint64_t cols, struct kt_view *part, struct kt_error *error);

/* The format of a view, for a backend's layout. */
void kt_view_format(const struct kt_view *view, struct kt_format *format);

/* The columns that cannot be cut: the block of the dtype, times the scale group where there is one. */
uint64_t kt_view_col_unit(const struct kt_view *view);

#endif
