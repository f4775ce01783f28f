/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - what the rest of the core asks of tensor views and checkpoints. */
#ifndef KT_CORE_WEIGHTS_H
#define KT_CORE_WEIGHTS_H

#include <kt/kt.h>
#include <kt/plugin.h>
#include <stdbool.h>

/* Is every byte that the view can name inside its size, the dtype known, the strides sane, the scales'
 * groups complete? Names the view and the numbers that disagree. */
enum kt_status kt_view_check(const struct kt_view *view, struct kt_error *error);

/* Are the scales of a view that is right numbers, and those of FP8 weights at least 0? `label` and `name`
 * are the file's and the tensor's, for the message. */
enum kt_status kt_scales_check(const struct kt_view *view, const char *label, const char *name,
                               struct kt_error *error);

/* A part of a view: rows and columns; col must fall on a block of the format and on a scale group. */
enum kt_status kt_view_slice(const struct kt_view *view, uint64_t row, uint64_t rows, uint64_t col,
                             uint64_t cols, struct kt_view *part, struct kt_error *error);

/* n weights of a row from column col on, as float32 (struct kt_host.dequantize). */
enum kt_status kt_view_dequantize(const struct kt_view *view, uint64_t row, uint64_t col, uint64_t n,
                                  float *out, struct kt_error *error);

/* Can kt_view_dequantize read weights of this dtype? */
bool kt_dtype_decodes(uint32_t dtype);

/* Are weights of this dtype integers, which stand for real numbers only by their scales? */
bool kt_dtype_needs_scales(uint32_t dtype);

/* The format of a view, for a backend's layout. */
void kt_view_format(const struct kt_view *view, struct kt_format *format);

/* The columns that cannot be cut: the block of the dtype, times the scale group where there is one. */
uint64_t kt_view_col_unit(const struct kt_view *view);

/* kt_checkpoint_experts for a use that ends: the views live until kt_checkpoint_unuse, and so does what
 * had to be decoded for them. */
enum kt_status kt_checkpoint_use(struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_expert *experts,
                                 uint32_t n_experts, struct kt_error *error);
void kt_checkpoint_unuse(struct kt_checkpoint *checkpoint, uint64_t layer);

/* A checkpoint is shared by count: kt_checkpoint_close gives one back. */
void kt_checkpoint_retain(struct kt_checkpoint *checkpoint);

#endif
