/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context/arena.h"

static enum kt_status grow(struct kt_buffer *buffer, struct kt_topology *topology, uint32_t node,
                           uint64_t need, bool huge, struct kt_error *error)
{
    if (buffer->size >= need)
        return KT_OK;
    struct kt_buffer larger;
    enum kt_status status = kt_buffer_create(topology, node, need, huge, &larger, error);
    if (status != KT_OK)
        return status;
    kt_buffer_destroy(buffer);
    *buffer = larger;
    return KT_OK;
}

enum kt_status kt_arena_grow(struct kt_arena *arena, struct kt_topology *topology, uint32_t n_nodes,
                             const uint64_t *need, uint64_t route_need, bool huge, struct kt_error *error)
{
    enum kt_status status = grow(&arena->route, topology, 0, route_need, huge, error);
    for (uint32_t n = 0; n < n_nodes && status == KT_OK; n++)
        status = grow(&arena->node[n], topology, n, need[n], huge, error);
    return status;
}

void kt_arena_destroy(struct kt_arena *arena)
{
    kt_buffer_destroy(&arena->route);
    for (uint32_t n = 0; n < KT_MAX_NODES; n++)
        kt_buffer_destroy(&arena->node[n]);
}
