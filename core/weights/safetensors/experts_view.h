/* SPDX-License-Identifier: Apache-2.0 */
/* experts_view.h - views of experts in safetensors files. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_VIEW_H
#define KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_VIEW_H

#include "core/weights/safetensors/expert_map.h"
#include "core/weights/table/checkpoint.h"

/* Hands out the views of such a layer, after checking that the scales are finite. */
enum kt_status kt_map_experts(struct kt_checkpoint *checkpoint, struct kt_moe *moe, struct kt_expert *experts,
                              uint32_t n_experts, struct kt_error *error);

/* The view of one projection, whose AWQ is decoded. */
enum kt_status kt_map_view(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map, uint32_t expert,
                           int projection, struct kt_view *view, struct kt_error *error);

void kt_map_release(struct kt_moe *moe);

#endif
