/* SPDX-License-Identifier: Apache-2.0 */
/* stored.h - packed weights that come from a store: loading them, and checking them when first used. */
#ifndef KT_CORE_LAYER_STORE_LOAD_H
#define KT_CORE_LAYER_STORE_LOAD_H

#include "core/layer/layer.h"
#include "core/weights/store/store_read.h"

/* The objects of a layer in a mapped store that nobody has compared with their checksums yet. */
struct kt_check;

/* Compares the objects of the experts that a batch asks for, those that no batch asked for before.
 * The ids are checked, the pool's lock is held. */
enum kt_status kt_check_batch(struct kt_layer *layer, const struct kt_forward *forward,
                              struct kt_error *error);
void kt_check_free(struct kt_check *check);

/* Can the layer be loaded from the store: by the backend that it wishes, with objects of the sizes that
 * this backend makes? */
enum kt_status kt_stored_fit(const struct kt_layer *layer, const struct kt_stored *stored,
                             const struct kt_expert *example, struct kt_error *error);

/* Loads the layer from a store; `experts` hold biases and the formats that were packed. The layer has no
 * weights; the caller unloads it after a failure. */
enum kt_status kt_layer_load_stored(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                    const struct kt_stored *stored, const struct kt_expert *experts,
                                    struct kt_error *error);

#endif
