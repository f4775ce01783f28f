/* SPDX-License-Identifier: Apache-2.0 */
/* experts_check.h - do experts fit the layer? */
#ifndef KT_CORE_LAYER_EXPERTS_CHECK_H
#define KT_CORE_LAYER_EXPERTS_CHECK_H

#include "core/layer/layer.h"

#include <kt/kt.h>
#include <kt/plugin.h>

/* Are these views of all experts of the layer, with its sizes and one format? */
enum kt_status kt_layer_check_experts(const struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, struct kt_error *error);

/* The same for views of the caller's own, whose scales no checkpoint has checked. */
enum kt_status kt_layer_check_own(const struct kt_layer *layer, const struct kt_expert *experts,
                                  uint32_t n_experts, struct kt_error *error);

/* Are the layer's sizes those of layer `index` of the checkpoint? */
enum kt_status kt_layer_check_moe(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                  uint64_t index, struct kt_error *error);

/* Views of the layer's experts in a checkpoint, in use until kt_checkpoint_unuse; the caller frees the array.
 */
enum kt_status kt_layer_take_experts(const struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                     uint64_t index, struct kt_expert **experts, struct kt_error *error);

#endif
