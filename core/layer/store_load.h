/* SPDX-License-Identifier: Apache-2.0 */
/* store_load.h - a layer's packed weights from a store. */
#ifndef KT_CORE_LAYER_STORE_LOAD_H
#define KT_CORE_LAYER_STORE_LOAD_H

#include "core/layer/layer.h"
#include "core/weights/store/store_read.h"

/* Packed weights of a store while they are loaded. */
struct kt_stored_source {
    struct kt_checkpoint *checkpoint;
    const struct kt_stored *stored;
    struct kt_layout whole; /* of uncut experts */
};

/* Cuts a shard's object out of that of a whole expert; of: " of expert 3", or "". */
enum kt_status kt_stored_cut(const struct kt_layer *layer, struct kt_cut *job, const char *of,
                             struct kt_error *error);

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
