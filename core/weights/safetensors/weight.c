/* SPDX-License-Identifier: Apache-2.0 */
/* weight.c - weights of a safetensors model besides its experts: a layer of one expert that has one
 * projection. */
#include "core/weights/safetensors/weight.h"

#include "core/base/error.h"
#include "core/weights/model/family.h"
#include "core/weights/model/model_config.h"
#include "core/weights/safetensors/awq.h"
#include "core/weights/safetensors/expert_map.h"
#include "core/weights/safetensors/experts_shape.h"
#include "core/weights/safetensors/experts_view.h"
#include "core/weights/table/matrix.h"
#include "core/weights/table/tensors.h"

#include <stdlib.h>

/* The only projection that the map has. */
enum { PROJECTION = KT_GATE, N_SLOTS = 3 };

void kt_safetensors_free_map(void *map)
{
    struct kt_expert_map *own = map;
    free(own->decoded[0]);
    free(own);
}

/* config.json, read once. */
static enum kt_status read_config(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    if (checkpoint->config)
        return KT_OK;
    struct kt_model_config *config = calloc(1, sizeof *config);
    if (!config)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for its config.json", checkpoint->label);
    enum kt_status status =
        checkpoint->folder ? kt_model_config_read(checkpoint->folder, config, error) : KT_OK;
    kt_model_config_clear(config); /* of experts */
    if (status == KT_OK)
        checkpoint->config = config;
    else
        free(config);
    return status;
}

/* Puts the tensors of the weight into the map. */
static enum kt_status collect(struct kt_checkpoint *checkpoint, const char *name, struct kt_expert_map *map,
                              struct kt_error *error)
{
    struct kt_weight_part part;
    for (size_t i = 0; kt_weight_part(i, &part); i++) {
        struct kt_tensor *tensor = *part.ending == '.' ? kt_tensor_of(checkpoint, name, part.ending) : NULL;
        if (!tensor || part.role == KT_ROLE_NONE)
            continue;
        if (part.role == KT_ROLE_REFUSED)
            return kt_fail(error, KT_E_UNSUPPORTED, "%s: tensor \"%s\" has an unsupported format, %s",
                           kt_tensor_label(checkpoint, tensor), tensor->info.name, part.format);
        struct kt_tensor **slot = &map->tensor[PROJECTION][part.role];
        if (*slot)
            return kt_fail(error, KT_E_FORMAT, "%s: tensors \"%s\" and \"%s\" stand for the same",
                           kt_tensor_label(checkpoint, tensor), (*slot)->info.name, tensor->info.name);
        *slot = tensor;
        if (part.role == KT_ROLE_WEIGHT)
            map->matrix[PROJECTION].coding = part.coding;
    }
    return KT_OK;
}

static enum kt_status make_view(struct kt_checkpoint *checkpoint, struct kt_expert_map *map,
                                struct kt_weight *weight, struct kt_error *error)
{
    struct kt_tensor *bias = map->tensor[PROJECTION][KT_ROLE_BIAS];
    enum kt_status status = read_config(checkpoint, error);
    if (status == KT_OK)
        status = kt_lay_single(checkpoint, checkpoint->config, map, PROJECTION, error);
    if (status == KT_OK)
        status = kt_awq_decode(checkpoint, map, 0, error);
    if (status == KT_OK)
        status = kt_map_view(checkpoint, map, 0, PROJECTION, &weight->view, error);
    if (status == KT_OK && bias)
        status = kt_weight_bias(checkpoint, map->tensor[PROJECTION][KT_ROLE_WEIGHT], bias, weight, error);
    return status;
}

enum kt_status kt_safetensors_weight(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                                     struct kt_error *error)
{
    struct kt_expert_map *map =
        calloc(1, sizeof *map + N_SLOTS * sizeof map->tensor[0] + sizeof *map->decoded);
    if (!map)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for weight \"%.200s\"", checkpoint->label,
                       weight->name);
    map->stride = N_SLOTS;
    map->decoded = (void **)(void *)&map->tensor[N_SLOTS];
    weight->map = map;
    enum kt_status status = collect(checkpoint, weight->name, map, error);
    if (status != KT_OK)
        return status;
    if (map->tensor[PROJECTION][KT_ROLE_WEIGHT])
        return make_view(checkpoint, map, weight, error);
    struct kt_tensor *exact = kt_tensor_of(checkpoint, weight->name, "");
    if (exact)
        return kt_matrix_view(checkpoint, exact, &weight->view, error);
    return kt_fail(error, KT_E_NOT_FOUND, "%s: has no tensor \"%.200s.weight\"", checkpoint->label,
                   weight->name);
}
