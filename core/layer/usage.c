/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - counts batches, tokens and requests of each expert. */
#include "core/layer/usage.h"

#include "core/base/error.h"

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

/* There is one writer at a time, so a load and a store do, which are cheaper than an atomic addition. */
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
