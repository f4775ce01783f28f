/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c - jobs of norms and gates. */
#include "core/base/error.h"
#include "core/rows/operand.h"
#include "core/rows/rows.h"

#include <math.h>

static enum kt_status check_parts(const char *function, uint32_t *n_parts, uint32_t size,
                                  struct kt_error *error)
{
    if (*n_parts == 0)
        *n_parts = 1;
    enum kt_status status = kt_rows_check_number(function, "n_parts", *n_parts, 1, KT_ROWS_MAX_SIZE, error);
    return status == KT_OK ? kt_rows_check_number(function, "size", size, 1, KT_ROWS_MAX_SIZE, error)
                           : status;
}

static enum kt_status check_norm(struct kt_rows_norm *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_norm";
    enum kt_status status = kt_rows_check_number(function, "norm", job->norm, 0, KT_NORM_LAYER, error);
    if (status == KT_OK)
        status = check_parts(function, &job->n_parts, job->size, error);
    if (status == KT_OK)
        status = kt_rows_check_input((struct kt_rows_name){function, "the input"}, &job->input, job->n_parts,
                                     job->size, error);
    if (status == KT_OK)
        status = kt_rows_check_output((struct kt_rows_name){function, "the output"}, &job->output,
                                      job->n_parts, job->size, error);
    if (status == KT_OK && job->residual.data && job->residual.dtype != KT_DTYPE_F32)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: the residual has dtype %s; it is f32", function,
                       kt_dtype_name(job->residual.dtype));
    if (status == KT_OK && job->residual.data)
        status = kt_rows_check_output((struct kt_rows_name){function, "the residual"}, &job->residual,
                                      job->n_parts, job->size, error);
    if (status == KT_OK && job->gate.data)
        status = kt_rows_check_input((struct kt_rows_name){function, "the gate"}, &job->gate, job->n_parts,
                                     job->size, error);
    if (status == KT_OK && !(job->eps >= 0.0f && isfinite(job->eps)))
        return kt_fail(error, KT_E_INVALID, "%s: eps is %g, expected is 0 or more", function,
                       (double)job->eps);
    if (job->scale == 0.0f)
        job->scale = 1.0f;
    return status;
}

enum kt_status kt_rows_norm(const struct kt_rows *rows, const struct kt_rows_norm *job,
                            struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_norm", error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_norm checked = *job;
    status = check_norm(&checked, error);
    if (status == KT_OK)
        kt_rows_table(rows)->norm(kt_rows_instance(rows), &checked);
    return status;
}

static enum kt_status check_gate(struct kt_rows_gate *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_gate";
    enum kt_status status = kt_rows_check_number(function, "gating", job->gating, 0, KT_GATING_GELU, error);
    if (status == KT_OK)
        status = check_parts(function, &job->n_parts, job->size, error);
    if (status == KT_OK)
        status = kt_rows_check_input((struct kt_rows_name){function, "the input"}, &job->input, job->n_parts,
                                     job->size, error);
    if (status == KT_OK && job->gate.data)
        status = kt_rows_check_input((struct kt_rows_name){function, "the gate"}, &job->gate, job->n_parts,
                                     job->one_gate ? 1 : job->size, error);
    if (status == KT_OK)
        status = kt_rows_check_output((struct kt_rows_name){function, "the output"}, &job->output,
                                      job->n_parts, job->size, error);
    return status;
}

enum kt_status kt_rows_gate(const struct kt_rows *rows, const struct kt_rows_gate *job,
                            struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_gate", error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_gate checked = *job;
    status = check_gate(&checked, error);
    if (status == KT_OK && checked.gating > KT_GATING_SILU)
        status = kt_rows_check_kind(rows, "kt_rows_gate", "GELU", error);
    if (status == KT_OK)
        kt_rows_table(rows)->gate(kt_rows_instance(rows), &checked);
    return status;
}
