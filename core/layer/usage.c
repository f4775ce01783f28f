/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - counts what a layer is asked for, while it serves. */
#include "core/layer/usage.h"

#include "core/base/error.h"
#include "core/layer/layer.h"

#include <math.h>
#include <stdlib.h>

enum kt_status kt_usage_create(struct kt_usage *usage, uint32_t n_experts, struct kt_error *error)
{
    usage->asked = calloc(n_experts, sizeof *usage->asked);
    usage->computed = calloc(n_experts, sizeof *usage->computed);
    usage->weight = calloc(n_experts, sizeof *usage->weight);
    return usage->asked && usage->computed && usage->weight
               ? KT_OK
               : kt_fail(error, KT_E_NOMEM, "no memory for a layer");
}

void kt_usage_destroy(struct kt_usage *usage)
{
    free(usage->asked);
    free(usage->computed);
    free(usage->weight);
}

/* One writer at a time: a load and a store are enough, and cost a quarter of an atomic addition. */
static void add(atomic_uint_fast64_t *sum, uint64_t value)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + value, memory_order_relaxed);
}

static void add_weight(_Atomic double *sum, float value)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + (double)value,
                          memory_order_relaxed);
}

void kt_usage_count(struct kt_usage *usage, const struct kt_forward *forward)
{
    uint64_t n = (uint64_t)forward->n_tokens * forward->top_k;
    if (n == 0)
        return;
    add(&usage->n_batches, 1);
    add(&usage->n_tokens, forward->n_tokens);
    for (uint64_t i = 0; i < n; i++) {
        int64_t id = forward->expert_ids[i];
        if (id < 0)
            continue;
        add(&usage->asked[id], 1);
        if (isfinite(forward->router_weights[i]))
            add_weight(&usage->weight[id], forward->router_weights[i]);
    }
}

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
