/* SPDX-License-Identifier: Apache-2.0 */
/* weight_gguf.h - weights of a GGUF model besides its experts. */
#ifndef KT_CORE_WEIGHTS_GGUF_WEIGHT_GGUF_H
#define KT_CORE_WEIGHTS_GGUF_WEIGHT_GGUF_H

#include "core/weights/table/checkpoint.h"

/* struct kt_checkpoint_format.weight: NAME.weight and NAME.bias. */
enum kt_status kt_gguf_weight(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                              struct kt_error *error);

#endif
