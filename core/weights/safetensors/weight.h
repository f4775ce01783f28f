/* SPDX-License-Identifier: Apache-2.0 */
/* weight.h - weights of a safetensors model besides its experts. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_WEIGHT_H
#define KT_CORE_WEIGHTS_SAFETENSORS_WEIGHT_H

#include "core/weights/table/checkpoint.h"

/* struct kt_checkpoint_format.weight: the tensors whose names are that of the weight and an ending that a
 * number format has (model/family.h). */
enum kt_status kt_safetensors_weight(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                                     struct kt_error *error);
void kt_safetensors_free_map(void *map);

#endif
