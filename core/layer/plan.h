/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - plans of weights that a checkpoint holds. */
#ifndef KT_CORE_LAYER_PLAN_H
#define KT_CORE_LAYER_PLAN_H

#include "core/layer/layer.h"
#include "core/weights/store/store_read.h"

#include <kt/kt.h>

/* The plan of a layer of experts like `example`; stored: NULL, or the packed form in which the checkpoint has
 * them. */
enum kt_status kt_layer_plan_weights(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                     const struct kt_stored *stored, const struct kt_expert *example,
                                     struct kt_plan *out, struct kt_error *error);

#endif
