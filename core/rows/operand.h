/* SPDX-License-Identifier: Apache-2.0 */
/* operand.h - checks of what jobs point to, and the strides that 0 stands for. */
#ifndef KT_CORE_ROWS_OPERAND_H
#define KT_CORE_ROWS_OPERAND_H

#include <kt/rows.h>

#define KT_ROWS_MAX_SIZE (1u << 24)

/* For messages: "kt_rows_norm: the input ...". */
struct kt_rows_name {
    const char *function, *operand;
};

/* Is the job there, and as new as this library? */
enum kt_status kt_rows_check_job(const struct kt_rows *rows, const void *job, size_t found, size_t expected,
                                 const char *function, struct kt_error *error);

/* A number of the job, within its bounds? */
enum kt_status kt_rows_check_number(const char *function, const char *what, uint64_t found, uint64_t least,
                                    uint64_t most, struct kt_error *error);

/* Address, dtype and strides of rows of n_parts parts of `size` numbers; fills strides in that are 0. */
enum kt_status kt_rows_check_input(struct kt_rows_name name, struct kt_rows_input *input, uint32_t n_parts,
                                   uint32_t size, struct kt_error *error);
enum kt_status kt_rows_check_output(struct kt_rows_name name, struct kt_rows_output *output, uint32_t n_parts,
                                    uint32_t size, struct kt_error *error);

/* The same of a matrix of a model, which may lie at any address: in a mapped file. */
enum kt_status kt_rows_check_matrix(struct kt_rows_name name, struct kt_rows_input *matrix, uint32_t n_parts,
                                    uint32_t size, struct kt_error *error);

/* The same of float32 numbers, `dense` of them in a row. */
enum kt_status kt_rows_check_floats(struct kt_rows_name name, const void *data, int64_t *stride,
                                    uint64_t dense, struct kt_error *error);

#endif
