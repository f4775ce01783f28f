/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - a tensor as a matrix, and one of biases as float32. */
#include "core/weights/table/matrix.h"

#include "core/base/error.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct kt_tensor *kt_tensor_of(const struct kt_checkpoint *checkpoint, const char *name, const char *ending)
{
    char text[2 * KT_NAME_SIZE];
    int length = snprintf(text, sizeof text, "%s%s", name, ending);
    return length > 0 && (size_t)length < sizeof text ? kt_tensors_find(&checkpoint->tensors, text) : NULL;
}

void kt_matrix_shape(const struct kt_tensor_info *info, uint64_t *rows, uint64_t *cols)
{
    *rows = 1;
    *cols = info->n_dims ? info->dims[info->n_dims - 1] : 1;
    for (uint32_t i = 0; i + 1 < info->n_dims; i++)
        *rows *= info->dims[i]; /* no overflow: the elements of a tensor can be counted */
}

enum kt_status kt_matrix_view(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor,
                              struct kt_view *view, struct kt_error *error)
{
    uint64_t rows, cols;
    const void *data;
    enum kt_status status = kt_tensor_check_type(checkpoint, tensor, error);
    if (status == KT_OK)
        status = kt_tensor_data(checkpoint, tensor, &data, error);
    if (status != KT_OK)
        return status;
    kt_matrix_shape(&tensor->info, &rows, &cols);
    struct kt_error why;
    if (kt_view_dense(view, tensor->info.dtype, data, tensor->info.size, rows, cols, &why) != KT_OK)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\": %s", kt_tensor_label(checkpoint, tensor),
                       tensor->info.name, why.message);
    view->name = tensor->info.name;
    return KT_OK;
}

enum kt_status kt_matrix_bias(struct kt_checkpoint *checkpoint, struct kt_tensor *tensor, uint64_t n,
                              float **bias, struct kt_error *error)
{
    const struct kt_tensor_info *info = &tensor->info;
    const char *label = kt_tensor_label(checkpoint, tensor);
    struct kt_view view;
    char found[192];
    if (info->n_dims != 1 || info->dims[0] != n)
        return kt_fail(error, KT_E_FORMAT, "%s: tensor \"%s\" is %s; a bias of %" PRIu64 " numbers is needed",
                       label, info->name, kt_shape_text(info, found, sizeof found), n);
    if (info->dtype != KT_DTYPE_F32 && info->dtype != KT_DTYPE_F16 && info->dtype != KT_DTYPE_BF16)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" is of type %s; f32, f16 or bf16 is needed",
                       label, info->name, kt_tensor_type(tensor));
    enum kt_status status = kt_matrix_view(checkpoint, tensor, &view, error);
    float *numbers = status == KT_OK ? malloc((size_t)n * sizeof *numbers) : NULL;
    if (status == KT_OK && !numbers)
        status = kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " numbers of tensor \"%s\"",
                         label, n, info->name);
    if (status == KT_OK)
        status = kt_view_row(&view, 0, numbers, error);
    if (status == KT_OK)
        *bias = numbers;
    else
        free(numbers);
    return status;
}

enum kt_status kt_weight_bias(struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                              struct kt_tensor *bias, struct kt_weight *weight, struct kt_error *error)
{
    const struct kt_view *view = &weight->view;
    bool is_vector = tensor->info.n_dims == 1 && !(bias->info.n_dims == 1 && bias->info.dims[0] == 1);
    return kt_matrix_bias(checkpoint, bias, is_vector ? view->cols : view->rows, &weight->bias, error);
}
