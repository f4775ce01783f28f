/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stagings.h - the staging buffers of a context: sets of buffers that engines copy batches to and from.
 *
 * A set holds the buffers of one layer shape and batch size, all slots in one piece of memory, because
 * pinning costs by the call. Sets are only added until they are cleared, so an address that was given out
 * stays valid.
 */
#ifndef KT_CORE_CONTEXT_STAGINGS_H
#define KT_CORE_CONTEXT_STAGINGS_H

#include "core/base/lock.h"

#include <kt/gpu.h>
#include <stdbool.h>

struct kt_staging_set {
    struct kt_staging_set *next;
    struct kt_staging_params params;
    uint32_t max_tokens;
    void *memory; /* as the allocator gave it */
    size_t size;
    char *slot; /* the first one; aligned */
};

struct kt_stagings {
    struct kt_lock lock;
    struct kt_staging_set *first; /* in any order: there are a few dozen */
};

/* Where a slot's buffers lie in it. */
struct kt_staging_places {
    uint64_t n_tokens, expert_ids, router_weights, input, output, size;
};

void kt_stagings_init(struct kt_stagings *stagings);
void kt_stagings_destroy(struct kt_stagings *stagings);

struct kt_staging_places kt_staging_places(const struct kt_staging_params *params, uint32_t max_tokens);

/* Is the set for layers of this shape? */
bool kt_staging_fits(const struct kt_staging_set *set, const struct kt_staging_params *params);

/* The smallest set of the list that fits and holds the tokens, or NULL. */
struct kt_staging_set *kt_staging_find(struct kt_staging_set *first, const struct kt_staging_params *params,
                                       uint32_t n_tokens);

/* Puts a new set before *first. */
enum kt_status kt_staging_make(const struct kt_staging_params *params, uint32_t max_tokens,
                               struct kt_staging_set **first, struct kt_error *error);

/* Frees the set and all that follow it; NULL: nothing. */
void kt_staging_free(struct kt_staging_set *first);

#endif
