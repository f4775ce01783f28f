/* SPDX-License-Identifier: Apache-2.0 */
/* weight_gguf.h - weights of a GGUF model besides its experts, and the scales beside weights. */
#ifndef KT_CORE_WEIGHTS_GGUF_WEIGHT_GGUF_H
#define KT_CORE_WEIGHTS_GGUF_WEIGHT_GGUF_H

#include "core/weights/table/checkpoint.h"

/* Is a bias or scale of a type that can be read? */
enum kt_status kt_gguf_check_number(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                                    struct kt_error *error);

/* Sets number `index` of the tensor, whose bytes are `data`, as the scale of the whole view; it must be
 * finite.
 */
enum kt_status kt_gguf_scale(const struct kt_checkpoint *checkpoint, const struct kt_tensor *tensor,
                             const void *data, uint64_t index, struct kt_view *view, struct kt_error *error);

/* struct kt_checkpoint_format.weight: NAME.weight, NAME.bias and NAME.scale. */
enum kt_status kt_gguf_weight(struct kt_checkpoint *checkpoint, struct kt_weight *weight,
                              struct kt_error *error);

#endif
