/* SPDX-License-Identifier: Apache-2.0 */
/* mappers.h - finds the experts of a safetensors checkpoint, in any known layout. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_MAPPERS_H
#define KT_CORE_WEIGHTS_SAFETENSORS_MAPPERS_H

#include "core/weights/table/checkpoint.h"

/* Finds the layers with experts among the tensors, by the first mapper that matches. */
enum kt_status kt_safetensors_map(struct kt_checkpoint *checkpoint, struct kt_error *error);

#endif
