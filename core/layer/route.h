/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - which rows each expert has to multiply, and how nodes share the work. */
#ifndef KT_CORE_LAYER_ROUTE_H
#define KT_CORE_LAYER_ROUTE_H

#include "core/layer/layer.h"

/* Rows first .. first + n_rows - 1 of the route, which one expert multiplies at once. */
struct kt_group {
    uint32_t expert;
    uint32_t first;
    uint32_t n_rows;
    uint32_t padded_first; /* where the group starts in the split buffers, in rows */
};

/* How a node works through the groups. */
struct kt_schedule {
    bool split;              /* panel ranges of every group, with a barrier before down */
    uint32_t parts;          /* ranges per group if split */
    atomic_uint *unfinished; /* per group: gate_up ranges not yet done */
};

/* Its arrays are in the arena; the thread that calls forward makes it. */
struct kt_route {
    uint32_t n_rows;
    uint32_t n_groups;
    uint32_t *token;        /* per row: its activation row */
    uint32_t *slot;         /* per row: token * top_k + k, its row of y */
    uint8_t *used;          /* per slot: not skipped */
    struct kt_group *group; /* most rows first */
    struct kt_schedule schedule[KT_MAX_NODES];
    /* Scratch of kt_route_make: */
    uint32_t *count;  /* per expert, n_experts + 1 */
    uint32_t *bucket; /* KT_GROUP_ROWS + 2 */
    struct kt_group *unsorted;
};

/* Bytes that the arrays of a route of the layer take. */
uint64_t kt_route_size(const struct kt_layer *layer);

/* Lays the arrays into the arena's memory. */
void kt_route_place(const struct kt_layer *layer, void *memory, struct kt_route *route);

/* Fills the route for n_tokens tokens, at most max_tokens. The ids have been checked; experts in `mask` (or
 * NULL) are skipped. Adds to the usage of the layer which experts are computed. */
void kt_route_make(struct kt_layer *layer, const int64_t *ids, uint32_t n_tokens, uint32_t top_k,
                   const uint8_t *mask, struct kt_route *route);

#endif
