/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - loading views of memory that stays. */
#ifndef KT_CORE_LAYER_LOAD_H
#define KT_CORE_LAYER_LOAD_H

#include "core/layer/layer.h"

#include <stdbool.h>

/* kt_layer_load. With `kept`, a backend that reads its source gets no copy: *kept says whether the memory
 * must live as long as the loaded weights. */
enum kt_status kt_layer_load_views(struct kt_layer *layer, const struct kt_expert *experts,
                                   uint32_t n_experts, bool *kept, struct kt_error *error);

#endif
