/* SPDX-License-Identifier: Apache-2.0 */
/* coding_check.h - checks of int4 weights that need data, when an expert is requested. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_CODING_CHECK_H
#define KT_CORE_WEIGHTS_SAFETENSORS_CODING_CHECK_H

#include "core/weights/safetensors/expert_map.h"

/* Can the weight be read by the small tensors beside it: the shape, columns in order, zeros of symmetric
 * weights? */
enum kt_status kt_coding_check(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                               uint32_t expert, int projection, struct kt_error *error);

#endif
