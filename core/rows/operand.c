/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rows/operand.h"

#include "core/base/error.h"
#include "core/base/size.h"

#include <inttypes.h>
#include <kt/kt.h>

enum kt_status kt_rows_check_job(const struct kt_rows *rows, const void *job, size_t found, size_t expected,
                                 const char *function, struct kt_error *error)
{
    if (!rows || !job)
        return kt_fail(error, KT_E_INVALID, "%s: rows and job must not be NULL", function);
    if (found < expected)
        return kt_fail(error, KT_E_INVALID,
                       "%s: the job's struct_size is %zu, %zu are expected; start with its _INIT macro",
                       function, found, expected);
    return KT_OK;
}

enum kt_status kt_rows_check_number(const char *function, const char *what, uint64_t found, uint64_t least,
                                    uint64_t most, struct kt_error *error)
{
    if (found < least || found > most)
        return kt_fail(error, KT_E_INVALID, "%s: %s is %" PRIu64 ", expected is %" PRIu64 " to %" PRIu64,
                       function, what, found, least, most);
    return KT_OK;
}

static enum kt_status fail_stride(struct kt_rows_name name, int64_t stride, uint32_t number,
                                  struct kt_error *error)
{
    return kt_fail(error, KT_E_INVALID,
                   "%s: %s has a stride of %" PRId64
                   " bytes, which is not a multiple of its numbers' %" PRIu32,
                   name.function, name.operand, stride, number);
}

static enum kt_status check_address(struct kt_rows_name name, const void *data, uint32_t number,
                                    struct kt_error *error)
{
    if (!kt_is_aligned(data, number))
        return kt_fail(error, KT_E_INVALID,
                       "%s: %s is at an address that is not a multiple of its numbers' %" PRIu32
                       " bytes; copy it to one",
                       name.function, name.operand, number);
    return KT_OK;
}

static enum kt_status check(struct kt_rows_name name, const void *data, uint32_t dtype, int64_t *stride,
                            int64_t *part_stride, uint32_t n_parts, uint32_t size, struct kt_error *error)
{
    if (!data)
        return kt_fail(error, KT_E_INVALID, "%s: %s must not be NULL", name.function, name.operand);
    uint32_t number = kt_element_size(dtype);
    if (number == 0)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: %s has dtype %s; f32, bf16 or f16 are known",
                       name.function, name.operand, kt_dtype_name(dtype));
    if (*part_stride == 0)
        *part_stride = (int64_t)size * number;
    if (*stride == 0 && __builtin_mul_overflow((int64_t)n_parts, *part_stride, stride))
        return kt_fail(error, KT_E_INVALID, "%s: %s: %" PRIu32 " parts %" PRId64 " bytes apart overflow",
                       name.function, name.operand, n_parts, *part_stride);
    if (*stride % (int64_t)number || *part_stride % (int64_t)number)
        return fail_stride(name, *stride % (int64_t)number ? *stride : *part_stride, number, error);
    return KT_OK;
}

enum kt_status kt_rows_check_matrix(struct kt_rows_name name, struct kt_rows_input *matrix, uint32_t n_parts,
                                    uint32_t size, struct kt_error *error)
{
    return check(name, matrix->data, matrix->dtype, &matrix->stride, &matrix->part_stride, n_parts, size,
                 error);
}

enum kt_status kt_rows_check_input(struct kt_rows_name name, struct kt_rows_input *input, uint32_t n_parts,
                                   uint32_t size, struct kt_error *error)
{
    enum kt_status status = kt_rows_check_matrix(name, input, n_parts, size, error);
    return status == KT_OK ? check_address(name, input->data, kt_element_size(input->dtype), error) : status;
}

enum kt_status kt_rows_check_output(struct kt_rows_name name, struct kt_rows_output *output, uint32_t n_parts,
                                    uint32_t size, struct kt_error *error)
{
    enum kt_status status =
        check(name, output->data, output->dtype, &output->stride, &output->part_stride, n_parts, size, error);
    return status == KT_OK ? check_address(name, output->data, kt_element_size(output->dtype), error)
                           : status;
}

enum kt_status kt_rows_check_floats(struct kt_rows_name name, const void *data, int64_t *stride,
                                    uint64_t dense, struct kt_error *error)
{
    if (!data)
        return kt_fail(error, KT_E_INVALID, "%s: %s must not be NULL", name.function, name.operand);
    if (*stride == 0)
        *stride = (int64_t)(dense * sizeof(float));
    if (*stride % (int64_t)sizeof(float))
        return fail_stride(name, *stride, sizeof(float), error);
    return check_address(name, data, sizeof(float), error);
}
