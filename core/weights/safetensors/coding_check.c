/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coding_check.c - checks the data of the small tensors beside an int4 weight. A few kilobytes of each expert
 * are read when it is requested.
 */
#include "core/weights/safetensors/coding_check.h"

#include "core/base/error.h"
#include "core/weights/model/family.h"
#include "core/weights/table/tensors.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

/* Tensors are aligned for their numbers. */
static uint64_t number_of(const void *data, uint32_t dtype, uint64_t i)
{
    if (dtype == KT_DTYPE_I64)
        return le64toh(((const uint64_t *)data)[i]);
    return le32toh(((const uint32_t *)data)[i]);
}

/* [rows][columns] of the weight. */
static enum kt_status check_shape(struct kt_checkpoint *checkpoint, const struct kt_matrix *matrix,
                                  struct kt_tensor *shape, struct kt_error *error)
{
    const struct kt_tensor_info *info = &shape->info;
    const void *data;
    if ((info->dtype != KT_DTYPE_I64 && info->dtype != KT_DTYPE_I32) || info->n_dims != 1 ||
        info->dims[0] != 2) {
        char found[192];
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" is %s %s; the shape of a weight must be i64 or i32 [2]",
                       kt_tensor_label(checkpoint, shape), info->name, kt_dtype_name(info->dtype),
                       kt_shape_text(info, found, sizeof found));
    }
    enum kt_status status = kt_tensor_data(checkpoint, shape, &data, error);
    if (status != KT_OK)
        return status;
    uint64_t rows = number_of(data, info->dtype, 0), cols = number_of(data, info->dtype, 1);
    if (rows == matrix->rows && cols == matrix->cols)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: tensor \"%s\" says that the weight is %" PRIu64 " x %" PRIu64
                   "; its packed tensor holds %" PRIu64 " x %" PRIu64,
                   kt_tensor_label(checkpoint, shape), info->name, rows, cols, matrix->rows, matrix->cols);
}

/* The group of each column must be that of ascending columns: weights are read in that order. */
static enum kt_status check_order(struct kt_checkpoint *checkpoint, const struct kt_matrix *matrix,
                                  struct kt_tensor *order, struct kt_error *error)
{
    const struct kt_tensor_info *info = &order->info;
    uint64_t group = matrix->scales.group_cols;
    const void *data;
    if ((info->dtype != KT_DTYPE_I64 && info->dtype != KT_DTYPE_I32) || info->n_dims != 1 ||
        info->dims[0] != matrix->cols) {
        char found[192];
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\" is %s %s; the groups of the weight's columns must be i32 "
                       "[%" PRIu64 "]",
                       kt_tensor_label(checkpoint, order), info->name, kt_dtype_name(info->dtype),
                       kt_shape_text(info, found, sizeof found), matrix->cols);
    }
    enum kt_status status = kt_tensor_data(checkpoint, order, &data, error);
    for (uint64_t i = 0; i < matrix->cols && status == KT_OK; i++)
        if (number_of(data, info->dtype, i) != i / group)
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: tensor \"%s\": column %" PRIu64 " is of group %" PRId64 ", not %" PRIu64
                           ": weights whose columns are not in order (desc_act) is not supported",
                           kt_tensor_label(checkpoint, order), info->name, i,
                           info->dtype == KT_DTYPE_I64 ? (int64_t)number_of(data, info->dtype, i)
                                                       : (int32_t)(uint32_t)number_of(data, info->dtype, i),
                           i / group);
    return status;
}

/* All zeros must be the middle of the range of codes: they are not kept. */
static enum kt_status check_zeros(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                                  const struct kt_matrix *matrix, struct kt_tensor *zeros,
                                  struct kt_error *error)
{
    uint64_t words = zeros->info.dims[1], n = zeros->info.dims[0] * words;
    uint32_t wanted = map->zero * 0x11111111u;
    const void *data;
    enum kt_status status = kt_tensor_data(checkpoint, zeros, &data, error);
    for (uint64_t i = 0; i < n && status == KT_OK; i++) {
        uint32_t word = (uint32_t)number_of(data, KT_DTYPE_I32, i), odd = 0;
        /* The last word may hold fewer zeros than eight. */
        for (; odd < 8 && (word >> 4 * odd & 15) == map->zero; odd++)
            continue;
        uint64_t row = i % words * 8 + odd;
        if (word != wanted && row < matrix->rows)
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: tensor \"%s\": the zero of row %" PRIu64 ", column %" PRIu64
                           " on is stored as %" PRIu32 ", not %" PRIu32
                           ": GPTQ weights with zeros of their own (sym = false) is not supported",
                           kt_tensor_label(checkpoint, zeros), zeros->info.name, row,
                           i / words * matrix->scales.group_cols, word >> 4 * odd & 15, map->zero);
    }
    return status;
}

enum kt_status kt_coding_check(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                               uint32_t expert, int projection, struct kt_error *error)
{
    const struct kt_matrix *matrix = &map->matrix[projection];
    struct kt_tensor *shape = kt_map_tensor(map, expert, projection, KT_ROLE_SHAPE);
    struct kt_tensor *order = kt_map_tensor(map, expert, projection, KT_ROLE_ORDER);
    struct kt_tensor *zeros = kt_map_tensor(map, expert, projection, KT_ROLE_ZERO);
    enum kt_status status = KT_OK;
    if (shape)
        status = check_shape(checkpoint, matrix, shape, error);
    if (status == KT_OK && order)
        status = check_order(checkpoint, matrix, order, error);
    if (status == KT_OK && zeros && matrix->coding == KT_CODING_GPTQ)
        status = check_zeros(checkpoint, map, matrix, zeros, error);
    return status;
}
