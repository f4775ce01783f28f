/* SPDX-License-Identifier: Apache-2.0 */
/* store_load_layer.h - a layer's packed weights from a store. */
#ifndef KT_CORE_LAYER_STORE_LOAD_LAYER_H
#define KT_CORE_LAYER_STORE_LOAD_LAYER_H

#include "core/layer/layer.h"
#include "core/layer/store_cut.h"

/* Can the layer be loaded from the store: is it stored for the requested backend, with objects of the sizes
 * that this makes? */
enum kt_status kt_stored_fit(const struct kt_layer *layer, const struct kt_stored *stored,
                             const struct kt_expert *example, struct kt_error *error);

/* Loads the layer from a store; `experts` give biases and the formats before packing. The layer has no
 * weights; the caller unloads it after a failure. */
enum kt_status kt_layer_load_stored(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                    const struct kt_stored *stored, const struct kt_expert *experts,
                                    struct kt_error *error);

#endif
