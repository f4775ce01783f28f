/* SPDX-License-Identifier: Apache-2.0 */
/* fill.h - fills a layer by a selection: memory, biases, views, packed objects. */
#ifndef KT_CORE_LAYER_FILL_H
#define KT_CORE_LAYER_FILL_H

#include "core/layer/layer.h"
#include "core/layer/selection.h"
#include "core/machine/outcome.h"

#include <stdbool.h>

/* Where the objects of a layer come from. */
struct kt_fill_source {
    const char *mapped; /* they are in this mapping, for the only node; NULL: run() fills buffers */
    /* Called under the pool's lock. */
    enum kt_status (*run)(struct kt_layer *layer, void *data, struct kt_error *error);
    void *data;
};

/* Moves the selection into the layer and fills it. `experts` give biases, and views that a backend may keep.
 * The caller unloads the layer after a failure. */
enum kt_status kt_layer_fill(struct kt_layer *layer, struct kt_selection *selection,
                             const struct kt_expert *experts, const struct kt_fill_source *source,
                             struct kt_error *error);

/* Adds bytes of objects that were made to the progress of the load. */
void kt_layer_load_count(struct kt_layer *layer, uint64_t size);

/* Has the load failed, or been stopped? The latter becomes its failure. */
bool kt_layer_load_stopped(struct kt_layer *layer, struct kt_outcome *outcome);

/* The one of the given experts that is expert `e` of the layer, by its expert_map. */
const struct kt_expert *kt_layer_expert(const struct kt_layer *layer, const struct kt_expert *experts,
                                        uint32_t e);

/* The part of an expert that a shard holds. */
enum kt_status kt_shard_cut(const struct kt_shard *shard, const struct kt_expert *expert,
                            struct kt_expert *part, struct kt_error *error);

#endif
