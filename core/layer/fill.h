/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - a loaded layer: what a selection became, with biases, views and packed objects. */
#ifndef KT_CORE_LAYER_FILL_H
#define KT_CORE_LAYER_FILL_H

#include "core/layer/layer.h"
#include "core/layer/selection.h"
#include "core/machine/outcome.h"

#include <stdbool.h>

/* How a layer's objects come to be. */
struct kt_fill_source {
    const char *mapped; /* where they lie already, on the only node; NULL: buffers are to be filled */
    enum kt_status (*run)(struct kt_layer *layer, void *data, struct kt_error *error);
    void *data;
};

/* Takes what was chosen and fills it. `experts` hold biases, and views that a backend may keep. The
 * caller unloads the layer after a failure. */
enum kt_status kt_layer_fill(struct kt_layer *layer, struct kt_selection *selection,
                             const struct kt_expert *experts, const struct kt_fill_source *source,
                             struct kt_error *error);

/* Counts an object, or a part of one, that a load has made on a node. */
void kt_layer_load_count(struct kt_layer *layer, uint64_t size);

/* Has the load been stopped? Fails it if so. */
bool kt_layer_load_stopped(struct kt_layer *layer, struct kt_outcome *outcome);

/* Of the caller's or a checkpoint's experts, the one that is expert `e` of the layer. */
const struct kt_expert *kt_layer_expert(const struct kt_layer *layer, const struct kt_expert *experts,
                                        uint32_t e);

/* The part of an expert that a shard holds. */
enum kt_status kt_shard_cut(const struct kt_shard *shard, const struct kt_expert *expert,
                            struct kt_expert *part, struct kt_error *error);

#endif
