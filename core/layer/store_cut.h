/* SPDX-License-Identifier: Apache-2.0 */
/* store_cut.h - packed weights of a store while they are loaded. */
#ifndef KT_CORE_LAYER_STORE_CUT_H
#define KT_CORE_LAYER_STORE_CUT_H

#include "core/layer/layer.h"
#include "core/weights/store/store.h"

/* Packed weights of a store while they are loaded. */
struct kt_stored_source {
    struct kt_checkpoint *checkpoint;
    const struct kt_stored *stored;
    struct kt_layout whole; /* of uncut experts */
};

/* Cuts a shard's object out of that of a whole expert; of: " of expert 3", or "". */
enum kt_status kt_stored_cut(const struct kt_layer *layer, struct kt_cut *job, const char *of,
                             struct kt_error *error);

#endif
