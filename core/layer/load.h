/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - loading views of memory that stays, and a packed linear. */
#ifndef KT_CORE_LAYER_LOAD_H
#define KT_CORE_LAYER_LOAD_H

#include "core/layer/layer.h"
#include "core/weights/store/store_read.h"

#include <stdbool.h>

/* kt_layer_load. With `kept`, a backend that reads its source gets no copy: *kept says whether the memory
 * must live as long as the loaded weights. */
enum kt_status kt_layer_load_views(struct kt_layer *layer, const struct kt_expert *experts,
                                   uint32_t n_experts, bool *kept, struct kt_error *error);

/* A linear that a store has packed, as its only expert. */
enum kt_status kt_layer_load_packed(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                    const struct kt_stored *stored, const struct kt_expert *expert,
                                    struct kt_error *error);

#endif
