/* SPDX-License-Identifier: Apache-2.0 */
/* store_check.h - compares packed weights in a mapped store with their checksums at their first use. */
#ifndef KT_CORE_LAYER_STORE_CHECK_H
#define KT_CORE_LAYER_STORE_CHECK_H

#include "core/layer/layer.h"
#include "core/weights/store/store_read.h"

#include <kt/kt.h>

/* From now on batches check the objects that they use. The caller unloads the layer after a failure. */
enum kt_status kt_store_check_start(struct kt_layer *layer, const struct kt_stored *stored,
                                    struct kt_error *error);

/* Compares the objects of the experts that this batch is the first to ask for. The ids have been checked, and
 * the caller holds the pool's lock. */
enum kt_status kt_store_check_batch(struct kt_layer *layer, const struct kt_forward *forward,
                                    struct kt_error *error);

/* The same for one expert of any layer, by a caller who does not hold the lock. */
enum kt_status kt_store_check_expert(struct kt_layer *layer, uint32_t expert, struct kt_error *error);

/* Compares one object that was not yet; nothing is noted. */
enum kt_status kt_store_check_object(const struct kt_layer *layer, uint32_t expert, enum kt_stage stage,
                                     struct kt_error *error);

/* All objects have been compared. The caller holds the pool's lock. */
void kt_store_check_end(struct kt_layer *layer);

#endif
