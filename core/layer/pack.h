/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - packing by the backend of a layer. */
#ifndef KT_CORE_LAYER_PACK_H
#define KT_CORE_LAYER_PACK_H

#include "core/layer/layer.h"

#include <kt/plugin.h>

/* Packs the shard's part of an expert; the job says which panels of which stage, and where to. */
enum kt_status kt_layer_pack(const struct kt_shard *shard, const struct kt_backend *backend,
                             const struct kt_expert *expert, struct kt_pack *job, struct kt_error *error);

/* Packs all experts into the shards of the layer, on all threads; the caller holds the pool's lock. `experts`
 * is an array of struct kt_expert. For kt_fill_source.run. */
enum kt_status kt_layer_pack_all(struct kt_layer *layer, void *experts, struct kt_error *error);

#endif
