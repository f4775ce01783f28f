/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.c - who computes what in a forward: rows sorted by expert, cut into groups, and for each node the
 * schedule of its threads: whole groups, or groups split into ranges of panels.
 */
#include "core/layer/route.h"

#include "core/base/size.h"
#include "core/context/context.h"
#include "core/machine/pool.h"

#include <string.h>

static uint32_t group_capacity(const struct kt_layer *layer)
{
    uint64_t rows = (uint64_t)layer->params.max_tokens * layer->params.top_k;
    uint64_t experts = rows < layer->params.n_experts ? rows : layer->params.n_experts;
    return (uint32_t)(experts + rows / layer->group_rows);
}

/* Takes the next `size` bytes; starting at NULL, it only measures. */
static void *take(uintptr_t *at, uint64_t size)
{
    uintptr_t here = *at;
    *at += kt_align64(size);
    return (void *)here;
}

static uint64_t place(const struct kt_layer *layer, void *memory, struct kt_route *route)
{
    uint64_t rows = (uint64_t)layer->params.max_tokens * layer->params.top_k;
    uint64_t groups = group_capacity(layer);
    uintptr_t at = (uintptr_t)memory;
    route->token = take(&at, rows * sizeof *route->token);
    route->slot = take(&at, rows * sizeof *route->slot);
    route->used = take(&at, rows);
    route->group = take(&at, groups * sizeof *route->group);
    route->unsorted = take(&at, groups * sizeof *route->unsorted);
    route->count = take(&at, (layer->params.n_experts + 1) * sizeof *route->count);
    route->bucket = take(&at, (KT_GROUP_ROWS + 2) * sizeof *route->bucket);
    for (uint32_t n = 0; n < layer->context->pool->n_nodes; n++)
        route->schedule[n].unfinished = take(&at, groups * sizeof(atomic_uint));
    return at - (uintptr_t)memory;
}

uint64_t kt_route_size(const struct kt_layer *layer)
{
    struct kt_route route;
    return place(layer, NULL, &route);
}

void kt_route_place(const struct kt_layer *layer, void *memory, struct kt_route *route)
{
    (void)place(layer, memory, route);
}

/* The expert of an id, or -1 if it is skipped. */
static int64_t expert_of(const uint8_t *mask, int64_t id)
{
    return id < 0 || (mask && __atomic_load_n(&mask[id], __ATOMIC_RELAXED)) ? -1 : id;
}

/*
 * Counting sort of the rows by expert. It is stable: rows of an expert keep the order of the tokens.
 * The mask belongs to the caller and may change at any moment, so it is read once: `used` decides.
 */
static void sort_rows(struct kt_layer *layer, const int64_t *ids, uint32_t n_tokens, uint32_t top_k,
                      const uint8_t *mask, struct kt_route *route)
{
    uint32_t n_slots = n_tokens * top_k, n_experts = layer->params.n_experts;
    memset(route->count, 0, (n_experts + 1) * sizeof *route->count);
    for (uint32_t s = 0; s < n_slots; s++) {
        int64_t expert = expert_of(mask, ids[s]);
        route->used[s] = expert >= 0;
        if (expert >= 0)
            route->count[expert + 1]++;
    }
    for (uint32_t e = 0; e < n_experts; e++) {
        if (route->count[e + 1])
            atomic_fetch_add_explicit(&layer->usage.computed[e], route->count[e + 1], memory_order_relaxed);
        route->count[e + 1] += route->count[e];
    }
    route->n_rows = route->count[n_experts];
    /* count[e] is the first row of expert e; this loop moves it to the end. */
    for (uint32_t s = 0; s < n_slots; s++)
        if (route->used[s]) {
            uint32_t row = route->count[ids[s]]++;
            route->token[row] = s / top_k;
            route->slot[row] = s;
        }
}

/* Cuts the rows of each expert into groups of about equal size and sorts these, most rows first: then the
 * last groups that threads claim are small. */
static void make_groups(const struct kt_layer *layer, struct kt_route *route)
{
    uint32_t first = 0, n = 0;
    memset(route->bucket, 0, (KT_GROUP_ROWS + 2) * sizeof *route->bucket);
    for (uint32_t e = 0; e < layer->params.n_experts; e++) {
        uint32_t rows = route->count[e] - first;
        uint32_t parts = (rows + layer->group_rows - 1) / layer->group_rows;
        for (uint32_t p = 0; p < parts; p++) {
            uint32_t begin = (uint32_t)((uint64_t)rows * p / parts);
            uint32_t end = (uint32_t)((uint64_t)rows * (p + 1) / parts);
            route->unsorted[n++] =
                (struct kt_group){.expert = e, .first = first + begin, .n_rows = end - begin};
            route->bucket[KT_GROUP_ROWS - (end - begin) + 1]++;
        }
        first = route->count[e];
    }
    for (uint32_t i = 0; i <= KT_GROUP_ROWS; i++)
        route->bucket[i + 1] += route->bucket[i];
    for (uint32_t i = 0; i < n; i++)
        route->group[route->bucket[KT_GROUP_ROWS - route->unsorted[i].n_rows]++] = route->unsorted[i];
    route->n_groups = n;

    uint32_t unit = 1;
    for (uint32_t s = 0; s < layer->n_shards; s++)
        if (layer->shard[s].begin < layer->shard[s].end && layer->shard[s].layout.row_unit > unit)
            unit = layer->shard[s].layout.row_unit;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        route->group[i].padded_first = at;
        at += (route->group[i].n_rows + unit - 1) / unit * unit;
    }
}

/* The estimated cost of a group in rows; reading the weights of an expert counts as 64 rows. */
static uint64_t cost(const struct kt_group *group)
{
    return 64 + (uint64_t)group->n_rows;
}

/*
 * Whole groups need no barrier between gate_up and down, so they are better as long as all threads stay busy.
 * With groups in descending order, no thread waits longer than the last group takes.
 */
static void schedule(const struct kt_route *route, uint32_t n_threads, uint64_t most_parts,
                     struct kt_schedule *schedule)
{
    uint64_t total = 0, longest = 0;
    uint32_t per_thread = (route->n_groups + n_threads - 1) / n_threads;
    for (uint32_t i = 0; i < route->n_groups; i++)
        total += cost(&route->group[i]);
    /* Groups are sorted and claimed in order, so no thread gets more work than every n-th group from the
     * first. */
    for (uint32_t i = 0; i < per_thread; i++)
        longest += cost(&route->group[i * n_threads]);
    schedule->split = n_threads > 1 && longest * n_threads > total + total / 8;
    schedule->parts = 1;
    if (!schedule->split)
        return;
    uint64_t parts = (4 * (uint64_t)n_threads + route->n_groups - 1) / route->n_groups;
    schedule->parts = (uint32_t)(parts < most_parts ? parts : most_parts);
    for (uint32_t i = 0; i < route->n_groups; i++)
        atomic_store_explicit(&schedule->unfinished[i], schedule->parts, memory_order_relaxed);
}

void kt_route_make(struct kt_layer *layer, const int64_t *ids, uint32_t n_tokens, uint32_t top_k,
                   const uint8_t *mask, struct kt_route *route)
{
    const struct kt_pool *pool = layer->context->pool;
    sort_rows(layer, ids, n_tokens, top_k, mask, route);
    make_groups(layer, route);
    for (uint32_t n = 0; n < layer->n_shards; n++) {
        const struct kt_shard *shard = &layer->shard[n];
        if (shard->begin == shard->end || route->n_groups == 0)
            continue;
        uint64_t rows = shard->end - shard->begin, step = shard->layout.panel_rows[0];
        schedule(route, pool->subpool[n].n_threads, (rows + step - 1) / step, &route->schedule[n]);
    }
}
