/* SPDX-License-Identifier: Apache-2.0 */
/* layer_usage.c - how often each expert of a layer was computed. */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/layer.h"
#include "core/machine/pool.h"

#include <kt/stats.h>

enum kt_status kt_layer_usage(const struct kt_layer *layer, uint64_t *counts, uint32_t n_experts,
                              struct kt_error *error)
{
    if (!layer || !counts)
        return kt_fail(error, KT_E_INVALID, "kt_layer_usage: layer and counts must not be NULL");
    if (n_experts != layer->params.n_experts)
        return kt_fail(error, KT_E_INVALID, "%s has %u experts, not %u", layer->name, layer->params.n_experts,
                       n_experts);
    for (uint32_t e = 0; e < n_experts; e++)
        counts[e] = atomic_load_explicit(&layer->usage.computed[e], memory_order_relaxed);
    return KT_OK;
}

void kt_layer_usage_reset(struct kt_layer *layer)
{
    struct kt_usage *usage = &layer->usage;
    /* A fork has no other threads that could count. */
    bool locked = kt_pool_lock(layer->context->pool, NULL) == KT_OK;
    atomic_store_explicit(&usage->n_batches, 0, memory_order_relaxed);
    atomic_store_explicit(&usage->n_tokens, 0, memory_order_relaxed);
    for (uint32_t e = 0; e < layer->params.n_experts; e++) {
        atomic_store_explicit(&usage->asked[e], 0, memory_order_relaxed);
        atomic_store_explicit(&usage->computed[e], 0, memory_order_relaxed);
        atomic_store_explicit(&usage->weight[e], 0, memory_order_relaxed);
    }
    if (locked)
        kt_pool_unlock(layer->context->pool);
}
