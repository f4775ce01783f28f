/* SPDX-License-Identifier: Apache-2.0 */
/* weight_gguf.c - weights of a GGUF model besides its experts. */
#include "core/weights/gguf/weight_gguf.h"

#include "core/base/error.h"
#include "core/weights/table/matrix.h"
#include "core/weights/table/tensors.h"

enum kt_status kt_gguf_weight(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                              struct kt_error *error)
{
    struct kt_tensor *matrix = kt_tensor_of(checkpoint, weight->name, ".weight");
    struct kt_tensor *bias = kt_tensor_of(checkpoint, weight->name, ".bias");
    if (!matrix)
        matrix = kt_tensor_of(checkpoint, weight->name, "");
    if (!matrix)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: has no tensor \"%.200s.weight\"", checkpoint->label,
                       weight->name);
    enum kt_status status = kt_matrix_view(checkpoint, matrix, &weight->view, error);
    if (status == KT_OK && bias)
        status = kt_matrix_bias(checkpoint, bias, weight->view.rows, &weight->bias, error);
    return status;
}
