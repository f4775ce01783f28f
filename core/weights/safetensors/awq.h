/* SPDX-License-Identifier: Apache-2.0 */
/* awq.h - AWQ weights as rows of nibbles. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_AWQ_H
#define KT_CORE_WEIGHTS_SAFETENSORS_AWQ_H

#include "core/weights/safetensors/expert_map.h"

/* Decodes the AWQ projections of an expert, unless they have been decoded before. */
enum kt_status kt_awq_decode(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                             uint32_t expert, struct kt_error *error);

/* Makes the view show a decoded projection. */
void kt_awq_show(const struct kt_expert_map *map, uint32_t expert, int projection, struct kt_view *view);

#endif
