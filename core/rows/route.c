/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - jobs of routers. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/rows/operand.h"
#include "core/rows/rows.h"

#include <inttypes.h>
#include <math.h>

static enum kt_status check_multiply(struct kt_rows_multiply *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_multiply";
    struct kt_rows_input weight = {job->weight, job->weight_stride, 0, job->weight_dtype, 0};
    enum kt_status status = kt_rows_check_number(function, "size", job->size, 1, KT_ROWS_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "n_outputs", job->n_outputs, 0, KT_ROWS_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_rows_check_input((struct kt_rows_name){function, "the input"}, &job->input, 1, job->size,
                                     error);
    if (status == KT_OK)
        status =
            kt_rows_check_matrix((struct kt_rows_name){function, "the weight"}, &weight, 1, job->size, error);
    if (status == KT_OK)
        status = kt_rows_check_floats((struct kt_rows_name){function, "the output"}, job->output,
                                      &job->output_stride, job->n_outputs, error);
    job->weight_stride = weight.stride;
    return status;
}

enum kt_status kt_rows_multiply(const struct kt_rows *rows, const struct kt_rows_multiply *job,
                                struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_multiply", error);
    if (status != KT_OK || job->n_rows == 0 || job->n_outputs == 0)
        return status;
    struct kt_rows_multiply checked = *job;
    status = check_multiply(&checked, error);
    if (status == KT_OK)
        kt_rows_table(rows)->multiply(kt_rows_instance(rows), &checked);
    return status;
}

static enum kt_status check_groups(struct kt_rows_route *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_route";
    if (job->n_groups == 0)
        job->n_groups = 1;
    if (job->n_groups == 1)
        job->top_groups = 1;
    if (job->n_experts % job->n_groups)
        return kt_fail(error, KT_E_INVALID, "%s: %" PRIu32 " experts do not divide into %" PRIu32 " groups",
                       function, job->n_experts, job->n_groups);
    enum kt_status status =
        kt_rows_check_number(function, "top_groups", job->top_groups, 1, job->n_groups, error);
    if (status != KT_OK)
        return status;
    uint32_t kept = job->n_experts / job->n_groups * job->top_groups;
    if (job->top_k > kept)
        return kt_fail(error, KT_E_INVALID,
                       "%s: top_k is %" PRIu32 ", of %" PRIu32 " experts that can be chosen", function,
                       job->top_k, kept);
    return kt_rows_check_number(function, "group_score", job->group_score, 0, KT_GROUP_BEST, error);
}

static enum kt_status check_route(struct kt_rows_route *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_route";
    enum kt_status status =
        kt_rows_check_number(function, "routing", job->routing, 0, KT_ROUTING_MIXER, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "n_experts", job->n_experts, 1, 4096, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "top_k", job->top_k, 1, 128, error);
    if (status == KT_OK)
        status = check_groups(job, error);
    if (status == KT_OK && job->routing == KT_ROUTING_MIXER && (job->correction || job->n_groups > 1))
        return kt_fail(error, KT_E_INVALID, "%s: KT_ROUTING_MIXER has no correction and no groups", function);
    if (status == KT_OK && !(job->near >= 0.0f && isfinite(job->near)))
        return kt_fail(error, KT_E_INVALID, "%s: near is %g, expected is 0 or more", function,
                       (double)job->near);
    if (status == KT_OK)
        status = kt_rows_check_floats((struct kt_rows_name){function, "logits"}, job->logits,
                                      &job->logits_stride, job->n_experts, error);
    if (status == KT_OK && (!job->ids || !job->weights))
        return kt_fail(error, KT_E_INVALID, "%s: ids and weights must not be NULL", function);
    if (job->scale == 0.0f)
        job->scale = 1.0f;
    return status;
}

enum kt_status kt_rows_route(const struct kt_rows *rows, const struct kt_rows_route *job,
                             struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_route", error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_route checked = *job;
    status = check_route(&checked, error);
    if (status == KT_OK && checked.routing > KT_ROUTING_SIGMOID)
        status = kt_rows_check_kind(rows, "kt_rows_route", "such routing", error);
    if (status == KT_OK)
        kt_rows_table(rows)->route(kt_rows_instance(rows), &checked);
    return status;
}
