/* SPDX-License-Identifier: Apache-2.0 */
/* rotate.c - jobs of rotary positions. */
#include "core/base/error.h"
#include "core/rows/operand.h"
#include "core/rows/rows.h"

#include <inttypes.h>

static const char function[] = "kt_rows_rotate";

static enum kt_status check_table(struct kt_rows_rotate *job, struct kt_error *error)
{
    enum kt_status status = kt_rows_check_floats((struct kt_rows_name){function, "the table"}, job->table,
                                                 &job->table_stride, job->size, error);
    if (status != KT_OK)
        return status;
    if (!job->table_row && job->n_rows > job->n_table_rows)
        return kt_fail(error, KT_E_INVALID,
                       "%s: the table has %" PRIu32 " rows, for %" PRIu32 " rows without table_row", function,
                       job->n_table_rows, job->n_rows);
    for (uint32_t r = 0; job->table_row && r < job->n_rows; r++)
        if (job->table_row[r] >= job->n_table_rows)
            return kt_fail(error, KT_E_RANGE,
                           "%s: table_row[%" PRIu32 "] is %" PRIu32 ", the table has %" PRIu32 " rows",
                           function, r, job->table_row[r], job->n_table_rows);
    return KT_OK;
}

static enum kt_status check_rotate(struct kt_rows_rotate *job, struct kt_error *error)
{
    enum kt_status status = kt_rows_check_number(function, "pairing", job->pairing, 0, KT_ROPE_NORM, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "n_heads", job->n_heads, 1, KT_ROWS_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "size", job->size, 2, 1024, error);
    if (status != KT_OK)
        return status;
    if (job->size % 2)
        return kt_fail(error, KT_E_INVALID, "%s: size is %" PRIu32 ", but must be even", function, job->size);
    status = kt_rows_check_floats((struct kt_rows_name){function, "data (from head to head)"}, job->data,
                                  &job->head_stride, job->size, error);
    if (status == KT_OK && job->stride == 0 &&
        __builtin_mul_overflow((int64_t)job->n_heads, job->head_stride, &job->stride))
        return kt_fail(error, KT_E_INVALID, "%s: %" PRIu32 " heads %" PRId64 " bytes apart overflow",
                       function, job->n_heads, job->head_stride);
    if (status == KT_OK)
        status =
            kt_rows_check_floats((struct kt_rows_name){function, "data"}, job->data, &job->stride, 0, error);
    return status == KT_OK ? check_table(job, error) : status;
}

enum kt_status kt_rows_rotate(const struct kt_rows *rows, const struct kt_rows_rotate *job,
                              struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, function, error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_rotate checked = *job;
    status = check_rotate(&checked, error);
    if (status == KT_OK)
        kt_rows_table(rows)->rotate(kt_rows_instance(rows), &checked);
    return status;
}
