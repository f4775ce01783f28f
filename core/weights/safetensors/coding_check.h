/* SPDX-License-Identifier: Apache-2.0 */
/* coding_check.h - checks of what only data says, when an expert is asked for. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_CODING_CHECK_H
#define KT_CORE_WEIGHTS_SAFETENSORS_CODING_CHECK_H

#include "core/weights/safetensors/expert_map.h"

/* Do the small tensors beside an int4 weight say what can be read: zeros of symmetric weights, columns
 * in order, the shape? */
enum kt_status kt_coding_check(struct kt_checkpoint *checkpoint, const struct kt_expert_map *map,
                               uint32_t expert, int projection, struct kt_error *error);

#endif
