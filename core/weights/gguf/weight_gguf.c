/* SPDX-License-Identifier: Apache-2.0 */
/* weight_gguf.c - weights of a GGUF model besides its experts, and the scales beside weights. */
#include "core/weights/gguf/weight_gguf.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/decode/scales_check.h"
#include "core/weights/table/matrix.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>

enum kt_status kt_gguf_check_number(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                                    struct kt_error *error)
{
    uint32_t dtype = tensor->info.dtype;
    if (dtype == KT_DTYPE_F32 || dtype == KT_DTYPE_F16 || dtype == KT_DTYPE_BF16)
        return KT_OK;
    return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" is of type %s; f32, f16 or bf16 is needed",
                   kt_tensor_label(checkpoint, tensor), tensor->info.name, kt_dtype_name(dtype));
}

enum kt_status kt_gguf_scale(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                             const void *data, uint64_t index, struct kt_view *view, struct kt_error *error)
{
    uint32_t bytes = kt_dtype_find(tensor->info.dtype)->bytes;
    view->scales = (struct kt_scales){.data = (const uint8_t *)data + index * bytes,
                                      .size = bytes,
                                      .dtype = tensor->info.dtype,
                                      .group_rows = view->rows,
                                      .group_cols = view->cols};
    return kt_scales_check(view, kt_tensor_label(checkpoint, tensor), tensor->info.name, error);
}

/* One number, whatever the type of the weights: llama.cpp's converter writes it beside NVFP4. */
static enum kt_status add_scale(struct kt_checkpoint *checkpoint, struct kt_tensor *scale,
                                struct kt_view *view, struct kt_error *error)
{
    const void *data;
    uint64_t rows, cols;
    char found[192];
    kt_matrix_shape(&scale->info, &rows, &cols);
    if (rows != 1 || cols != 1)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: tensor \"%s\" is %s; only one scale for the whole weight is supported",
                       kt_tensor_label(checkpoint, scale), scale->info.name,
                       kt_shape_text(&scale->info, found, sizeof found));
    enum kt_status status = kt_gguf_check_number(checkpoint, scale, error);
    if (status == KT_OK)
        status = kt_tensor_data(checkpoint, scale, &data, error);
    return status == KT_OK ? kt_gguf_scale(checkpoint, scale, data, 0, view, error) : status;
}

enum kt_status kt_gguf_weight(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                              struct kt_error *error)
{
    struct kt_tensor *matrix = kt_tensor_of(checkpoint, weight->name, ".weight");
    struct kt_tensor *bias = kt_tensor_of(checkpoint, weight->name, ".bias");
    struct kt_tensor *scale = kt_tensor_of(checkpoint, weight->name, ".scale");
    if (!matrix)
        matrix = kt_tensor_of(checkpoint, weight->name, "");
    if (!matrix)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: has no tensor \"%.200s.weight\"", checkpoint->label,
                       weight->name);
    enum kt_status status = kt_matrix_view(checkpoint, matrix, &weight->view, error);
    if (status == KT_OK && scale)
        status = add_scale(checkpoint, scale, &weight->view, error);
    if (status == KT_OK && bias)
        status = kt_weight_bias(checkpoint, matrix, bias, weight, error);
    return status;
}
