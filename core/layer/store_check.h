/* SPDX-License-Identifier: Apache-2.0 */
/* store_check.h - packed weights in a mapped store are compared with their checksums when first used. */
#ifndef KT_CORE_LAYER_STORE_CHECK_H
#define KT_CORE_LAYER_STORE_CHECK_H

#include "core/layer/layer.h"
#include "core/weights/store/store_read.h"

#include <kt/kt.h>

/* Lets batches check the objects of the layer, which are the store's. The caller unloads the layer after a
 * failure. */
enum kt_status kt_store_check_start(struct kt_layer *layer, const struct kt_stored *stored,
                                    struct kt_error *error);

/* Compares the objects of the experts that this batch is the first to ask for. The ids have been checked, and
 * the caller holds the pool's lock. */
enum kt_status kt_store_check_batch(struct kt_layer *layer, const struct kt_forward *forward,
                                    struct kt_error *error);

#endif
