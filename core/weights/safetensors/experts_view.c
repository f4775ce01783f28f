/* SPDX-License-Identifier: Apache-2.0 */
/* experts_view.c - makes views of the experts that experts.c and experts_shape.c found. */
#include "core/weights/safetensors/experts_view.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/decode/scales_check.h"
#include "core/weights/model/family.h"
#include "core/weights/safetensors/awq.h"
#include "core/weights/safetensors/coding_check.h"
#include "core/weights/safetensors/expert_map.h"
#include "core/weights/table/tensors.h"

#include <inttypes.h>
#include <stdlib.h>

enum kt_status kt_map_view(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map, uint32_t expert,
                           int projection, struct kt_view *view, struct kt_error *error)
{
    const struct kt_matrix *matrix = &map->matrix[projection];
    struct kt_tensor *weight = kt_map_tensor(map, expert, projection, KT_ROLE_WEIGHT);
    struct kt_tensor *scale = kt_map_tensor(map, expert, projection, KT_ROLE_SCALE);
    const void *data = NULL, *scales = NULL;
    enum kt_status status = KT_OK;
    if (matrix->coding != KT_CODING_AWQ)
        status = kt_tensor_data(checkpoint, weight, &data, error);
    if (status == KT_OK && matrix->scales.dtype != KT_DTYPE_NONE)
        status = kt_tensor_data(checkpoint, scale, &scales, error);
    if (status == KT_OK)
        status = kt_coding_check(checkpoint, map, expert, projection, error);
    if (status != KT_OK)
        return status;
    *view = (struct kt_view)KT_VIEW_INIT;
    view->dtype = matrix->dtype;
    view->size = matrix->size;
    view->rows = matrix->rows;
    view->cols = matrix->cols;
    view->row_stride = matrix->row_stride;
    view->block_stride = matrix->block_stride;
    view->name = weight->info.name;
    if (matrix->coding == KT_CODING_AWQ)
        kt_awq_show(map, expert, projection, view);
    else
        view->data = (const uint8_t *)data + matrix->begin + expert * matrix->step;
    if (!scales)
        return KT_OK;
    view->scales = matrix->scales;
    view->scales.data = (const uint8_t *)scales + matrix->scale_begin + expert * matrix->scale_step;
    return kt_scales_check(view, kt_tensor_label(checkpoint, scale), scale->info.name, error);
}

static enum kt_status convert_bias(struct kt_checkpoint *checkpoint, const struct kt_moe *moe,
                                   uint64_t expert, int projection, float *to, struct kt_error *error)
{
    const struct kt_expert_map *map = moe->map;
    const struct kt_matrix *matrix = &map->matrix[projection];
    struct kt_tensor *bias = kt_map_tensor(map, expert, projection, KT_ROLE_BIAS);
    uint32_t bytes = kt_dtype_find(bias->info.dtype)->bytes;
    const void *data;
    enum kt_status status = kt_tensor_data(checkpoint, bias, &data, error);
    if (status != KT_OK)
        return status;
    struct kt_view view = KT_VIEW_INIT;
    view.dtype = bias->info.dtype;
    view.data = (const uint8_t *)data + (matrix->bias_begin + expert * matrix->bias_next) * bytes;
    view.rows = 1;
    view.cols = matrix->rows;
    view.row_stride = view.block_stride = (int64_t)(matrix->bias_step * bytes);
    view.size = (matrix->rows - 1) * matrix->bias_step * bytes + bytes;
    view.name = bias->info.name;
    return kt_view_row(&view, 0, to, error);
}

/* Converts the biases of all experts to float32, once. */
static enum kt_status convert_biases(struct kt_checkpoint *checkpoint, struct kt_moe *moe, int projection,
                                     struct kt_error *error)
{
    const struct kt_expert_map *map = moe->map;
    uint64_t rows = map->matrix[projection].rows, n = moe->info.n_experts * rows;
    enum kt_status status = KT_OK;
    if (moe->converted[projection] || !kt_map_tensor(map, 0, projection, KT_ROLE_BIAS))
        return KT_OK;
    /* No overflow: there are at most 65536 experts of 2^20 rows. */
    float *converted = malloc((size_t)n * sizeof *converted);
    if (!converted)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " biases of layer %" PRIu64,
                       checkpoint->label, n, moe->info.layer);
    for (uint64_t e = 0; e < moe->info.n_experts && status == KT_OK; e++)
        status = convert_bias(checkpoint, moe, e, projection, converted + e * rows, error);
    if (status == KT_OK)
        moe->converted[projection] = converted;
    else
        free(converted);
    return status;
}

enum kt_status kt_map_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe, struct kt_expert *experts,
                              uint32_t n_experts, struct kt_error *error)
{
    const struct kt_expert_map *map = moe->map;
    enum kt_status status = KT_OK;
    for (int p = map->first; p <= KT_DOWN && status == KT_OK; p++)
        status = convert_biases(checkpoint, moe, p, error);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++) {
        struct kt_view *const views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        const float **const biases[] = {&experts[e].gate_bias, &experts[e].up_bias, &experts[e].down_bias};
        experts[e] = (struct kt_expert){.gate = KT_VIEW_INIT};
        status = kt_awq_decode(checkpoint, map, e, error);
        for (int p = map->first; p <= KT_DOWN && status == KT_OK; p++) {
            const float *converted = moe->converted[p];
            status = kt_map_view(checkpoint, map, e, p, views[p], error);
            *biases[p] = converted ? converted + e * map->matrix[p].rows : NULL;
        }
    }
    return status;
}

void kt_map_release(struct kt_moe *moe)
{
    const struct kt_expert_map *map = moe->map;
    for (uint32_t e = 0; map && e < moe->info.n_experts; e++) {
        free(map->decoded[e]);
        map->decoded[e] = NULL;
    }
}
