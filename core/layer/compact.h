/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h - is memory too short for the form of packed weights that is made for speed? */
#ifndef KT_CORE_LAYER_COMPACT_H
#define KT_CORE_LAYER_COMPACT_H

#include "core/layer/layer.h"

#include <stdbool.h>

/* Of kt_plan.compact. */
#define KT_COMPACT_SIZE sizeof(((struct kt_plan *)NULL)->compact)

/* Would all layers of the checkpoint, or without one this layer, take more in the form of `roomy` than is
 * free? Then `why` says so; else it is "". What the context's layers hold already counts as free, since it is
 * among what is needed. */
bool kt_compact_needed(const struct kt_layer *layer, const struct kt_backend *backend,
                       const struct kt_checkpoint *checkpoint, const struct kt_layout *roomy,
                       char why[KT_COMPACT_SIZE]);

#endif
