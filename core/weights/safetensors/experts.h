/* SPDX-License-Identifier: Apache-2.0 */
/* experts.h - the layers of safetensors checkpoints whose tensors a family of models names. */
#ifndef KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_H
#define KT_CORE_WEIGHTS_SAFETENSORS_EXPERTS_H

#include "core/weights/table/mapper.h"

extern const struct kt_mapper kt_mapper_families;

#endif
