/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - the buffers of a forward, shared by all layers of a context because only one runs at a
 * time. They grow when a layer is loaded, never in a forward.
 */
#ifndef KT_CORE_CONTEXT_ARENA_H
#define KT_CORE_CONTEXT_ARENA_H

#include "core/machine/buffer.h"

#include <kt/kt.h>

struct kt_arena {
    struct kt_buffer node[KT_MAX_NODES]; /* activations and outputs, on their node */
    struct kt_buffer route;              /* what the caller of a forward prepares */
};

/* Makes each node's buffer at least need[n] bytes and the route at least route_need. The pool's lock
 * is held: no forward runs. On failure the old buffers stay. */
enum kt_status kt_arena_grow(struct kt_arena *arena, struct kt_topology *topology, uint32_t n_nodes,
                             const uint64_t *need, uint64_t route_need, bool huge, struct kt_error *error);
void kt_arena_destroy(struct kt_arena *arena);

#endif
