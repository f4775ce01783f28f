/* SPDX-License-Identifier: Apache-2.0 */
/* experts_check.h - do experts fit the layer? */
#ifndef KT_CORE_LAYER_EXPERTS_CHECK_H
#define KT_CORE_LAYER_EXPERTS_CHECK_H

#include "core/layer/layer.h"

#include <kt/kt.h>
#include <kt/plugin.h>

/* Views of n_experts experts, as the layer needs them? */
enum kt_status kt_layer_check_experts(const struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, struct kt_error *error);

/* The same of views that no checkpoint handed out, which would have looked at their scales. */
enum kt_status kt_layer_check_own(const struct kt_layer *layer, const struct kt_expert *experts,
                                  uint32_t n_experts, struct kt_error *error);

/* Are the layer's sizes those of layer `index` of the checkpoint? */
enum kt_status kt_layer_check_moe(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                  uint64_t index, struct kt_error *error);

/* The layer's experts in a checkpoint; the caller frees the array. */
enum kt_status kt_layer_take_experts(const struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                     uint64_t index, struct kt_expert **experts, struct kt_error *error);

#endif
