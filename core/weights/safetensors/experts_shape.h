/* SPDX-License-Identifier: Apache-2.0 */
/* experts_shape.h - how the matrices of a layer lie in their tensors. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_SHAPE_H
#define KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_SHAPE_H

#include "core/weights/model/model_config.h"
#include "core/weights/safetensors/expert_map.h"

/* Fills map->matrix by the shapes of expert 0's tensors, and sizes, dtypes and biases of `info`. */
enum kt_status kt_lay_experts(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                              struct kt_expert_map *map, struct kt_moe_info *info, struct kt_error *error);

/* The same for a weight alone, whose tensors are the only ones in the map: those of `projection`. */
enum kt_status kt_lay_single(const struct kt_checkpoint *checkpoint, const struct kt_model_config *config,
                             struct kt_expert_map *map, int projection, struct kt_error *error);

#endif
