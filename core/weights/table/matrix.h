/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - a tensor as a matrix, and one of biases as float32. */
#ifndef KT_CORE_WEIGHTS_TABLE_MATRIX_H
#define KT_CORE_WEIGHTS_TABLE_MATRIX_H

#include "core/weights/table/checkpoint.h"

/* The tensor of the name and the ending, or NULL. */
struct kt_tensor *kt_tensor_of(const struct kt_checkpoint *checkpoint, const char *name, const char *ending);

/* One dimension is a row; of more than two, all but the last count rows. */
void kt_matrix_shape(const struct kt_tensor_info *info, uint64_t *rows, uint64_t *cols);

/* A view of a dense tensor without scales. */
enum kt_status kt_matrix_view(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor,
                              struct kt_view *view, struct kt_error *error);

/* The n numbers of a tensor of floats, allocated. */
enum kt_status kt_matrix_bias(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor, uint64_t n,
                              float **bias, struct kt_error *error);

/* The bias of a weight, a number for each row; of a vector, as norms have it, one for each number. */
enum kt_status kt_weight_bias(struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                              struct kt_tensor *bias, struct kt_weight *weight, struct kt_error *error);

#endif
