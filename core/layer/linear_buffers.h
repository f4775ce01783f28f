/* SPDX-License-Identifier: Apache-2.0 */
/* linear_buffers.h - what linears need of the buffers that layers share. */
#ifndef KT_CORE_LAYER_LINEAR_BUFFERS_H
#define KT_CORE_LAYER_LINEAR_BUFFERS_H

#include "core/context/context.h"
#include "core/layer/layer.h"
#include "core/machine/pool.h"

/* Bytes of a thread for outputs that are not written where they belong at once: one column for each row of a
 * group and more. */
#define KT_LINEAR_TILE (UINT64_C(256) << 10)

/* Most input rows that are multiplied at once. */
static inline uint64_t kt_linear_chunk(const struct kt_layer *layer)
{
    return layer->params.max_tokens < KT_GROUP_ROWS ? layer->params.max_tokens : KT_GROUP_ROWS;
}

/* Do nodes have sums of their own? */
static inline bool kt_linear_splits_cols(const struct kt_layer *layer)
{
    return layer->context->pool->n_nodes > 1 && !layer->splits_rows;
}

/* Has a thread's tile room for the outputs of a panel? */
static inline bool kt_linear_fits_tile(const struct kt_layer *layer, const struct kt_layout *layout)
{
    return layout->panel_rows[KT_STAGE_DOWN] <= KT_LINEAR_TILE / sizeof(float) / kt_linear_chunk(layer);
}

#endif
