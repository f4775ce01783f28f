/* SPDX-License-Identifier: Apache-2.0 */
/* delta.c - jobs of Gated DeltaNet: its convolution, its decays, its recurrence. */
#include "core/base/error.h"
#include "core/rows/operand.h"
#include "core/rows/rows.h"

#include <inttypes.h>

static enum kt_status check_convolve(struct kt_rows_convolve *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_convolve";
    enum kt_status status =
        kt_rows_check_number(function, "n_channels", job->n_channels, 1, KT_ROWS_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "width", job->width, 2, 8, error);
    if (status == KT_OK)
        status = kt_rows_check_input((struct kt_rows_name){function, "the input"}, &job->input, 1,
                                     job->n_channels, error);
    if (status == KT_OK)
        status = kt_rows_check_output((struct kt_rows_name){function, "the output"}, &job->output, 1,
                                      job->n_channels, error);
    if (status == KT_OK)
        status = kt_rows_check_floats((struct kt_rows_name){function, "the weight"}, job->weight,
                                      &job->weight_stride, job->n_channels, error);
    if (status == KT_OK)
        status = kt_rows_check_floats((struct kt_rows_name){function, "the state"}, job->state,
                                      &job->state_stride, job->n_channels, error);
    if (status == KT_OK && job->output.data == job->input.data)
        return kt_fail(error, KT_E_INVALID,
                       "%s: the output is the input's memory, of which later rows need the inputs", function);
    return status;
}

enum kt_status kt_rows_convolve(const struct kt_rows *rows, const struct kt_rows_convolve *job,
                                struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_convolve", error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_convolve checked = *job;
    status = check_convolve(&checked, error);
    if (status == KT_OK)
        kt_rows_table(rows)->convolve(kt_rows_instance(rows), &checked);
    return status;
}

static enum kt_status check_decay(struct kt_rows_decay *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_decay";
    enum kt_status status =
        kt_rows_check_number(function, "n_heads", job->n_heads, 1, KT_ROWS_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_rows_check_input((struct kt_rows_name){function, "x"}, &job->x, 1, job->n_heads, error);
    if (status == KT_OK)
        status = kt_rows_check_input((struct kt_rows_name){function, "y"}, &job->y, 1, job->n_heads, error);
    if (status == KT_OK && (!job->a || !job->dt_bias))
        return kt_fail(error, KT_E_INVALID, "%s: a and dt_bias must not be NULL", function);
    if (status == KT_OK)
        status = kt_rows_check_floats((struct kt_rows_name){function, "log_decay"}, job->log_decay,
                                      &job->log_decay_stride, job->n_heads, error);
    if (status == KT_OK)
        status = kt_rows_check_floats((struct kt_rows_name){function, "beta"}, job->beta, &job->beta_stride,
                                      job->n_heads, error);
    return status;
}

enum kt_status kt_rows_decay(const struct kt_rows *rows, const struct kt_rows_decay *job,
                             struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_decay", error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_decay checked = *job;
    status = check_decay(&checked, error);
    if (status == KT_OK)
        kt_rows_table(rows)->decay(kt_rows_instance(rows), &checked);
    return status;
}

static enum kt_status check_widths(const char *function, uint32_t key_size, uint32_t value_size,
                                   struct kt_error *error)
{
    enum kt_status status = kt_rows_check_number(function, "key_size", key_size, 16, 512, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "value_size", value_size, 16, 512, error);
    if (status == KT_OK && (key_size % 16 || value_size % 16))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: key_size is %" PRIu32 ", value_size %" PRIu32 "; both must be multiples of 16",
                       function, key_size, value_size);
    return status;
}

static enum kt_status check_heads(const struct kt_rows_delta *job, struct kt_error *error)
{
    static const char function[] = "kt_rows_delta";
    enum kt_status status =
        kt_rows_check_number(function, "n_heads", job->n_heads, 1, KT_ROWS_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "n_key_heads", job->n_key_heads, 1, job->n_heads, error);
    if (status == KT_OK)
        status = kt_rows_check_number(function, "order", job->order, 0, KT_DELTA_INTERLEAVED, error);
    if (status == KT_OK && job->n_heads % job->n_key_heads)
        return kt_fail(error, KT_E_INVALID,
                       "%s: %" PRIu32 " heads of values are not a multiple of %" PRIu32 " heads of keys",
                       function, job->n_heads, job->n_key_heads);
    if (status == KT_OK && (job->first_head > job->end_head || job->end_head > job->n_heads))
        return kt_fail(error, KT_E_RANGE,
                       "%s: heads %" PRIu32 " to below %" PRIu32 ", expected within 0 to below %" PRIu32,
                       function, job->first_head, job->end_head, job->n_heads);
    return status;
}

static enum kt_status check_numbers(struct kt_rows_delta *job, struct kt_error *error)
{
    const uint64_t keys = (uint64_t)job->n_key_heads * job->key_size;
    const uint64_t values = (uint64_t)job->n_heads * job->value_size;
    const struct {
        const char *name;
        const void *data;
        int64_t *stride;
        uint64_t dense;
    } operand[] = {
        {"query", job->query, &job->query_stride, keys},
        {"key", job->key, &job->key_stride, keys},
        {"value", job->value, &job->value_stride, values},
        {"log_decay", job->log_decay, &job->log_decay_stride, job->n_heads},
        {"beta", job->beta, &job->beta_stride, job->n_heads},
        {"state", job->state, &job->state_stride, (uint64_t)job->key_size * job->value_size},
        {"output", job->output, &job->output_stride, values},
    };
    for (size_t i = 0; i < sizeof operand / sizeof *operand; i++) {
        enum kt_status status =
            kt_rows_check_floats((struct kt_rows_name){"kt_rows_delta", operand[i].name}, operand[i].data,
                                 operand[i].stride, operand[i].dense, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

static enum kt_status check_scratch(const struct kt_rows *rows, const struct kt_rows_delta *job,
                                    struct kt_error *error)
{
    uint64_t needed =
        kt_rows_table(rows)->delta_scratch(kt_rows_instance(rows), job->key_size, job->value_size);
    if (job->scratch_size < needed)
        return kt_fail(error, KT_E_INVALID,
                       "kt_rows_delta: scratch_size is %" PRIu64 " bytes, %" PRIu64
                       " are expected: ask kt_rows_delta_scratch",
                       job->scratch_size, needed);
    if (needed && (!job->scratch || (uintptr_t)job->scratch % 64))
        return kt_fail(error, KT_E_INVALID, "kt_rows_delta: scratch is NULL or not aligned to 64 bytes");
    return KT_OK;
}

enum kt_status kt_rows_delta(const struct kt_rows *rows, const struct kt_rows_delta *job,
                             struct kt_error *error)
{
    enum kt_status status =
        kt_rows_check_job(rows, job, job ? job->struct_size : 0, sizeof *job, "kt_rows_delta", error);
    if (status != KT_OK || job->n_rows == 0)
        return status;
    struct kt_rows_delta checked = *job;
    if (kt_rows_backend(rows)->registry->deterministic)
        checked.deterministic = 1;
    status = check_widths("kt_rows_delta", job->key_size, job->value_size, error);
    if (status == KT_OK)
        status = check_heads(&checked, error);
    if (status == KT_OK)
        status = check_numbers(&checked, error);
    if (status == KT_OK)
        status = check_scratch(rows, &checked, error);
    if (status == KT_OK && checked.first_head < checked.end_head)
        kt_rows_table(rows)->delta(kt_rows_instance(rows), &checked);
    return status;
}

enum kt_status kt_rows_delta_scratch(const struct kt_rows *rows, uint32_t key_size, uint32_t value_size,
                                     uint64_t *size, struct kt_error *error)
{
    if (!rows || !size)
        return kt_fail(error, KT_E_INVALID, "kt_rows_delta_scratch: rows and size must not be NULL");
    enum kt_status status = check_widths("kt_rows_delta_scratch", key_size, value_size, error);
    if (status == KT_OK)
        *size = kt_rows_table(rows)->delta_scratch(kt_rows_instance(rows), key_size, value_size);
    return status;
}
