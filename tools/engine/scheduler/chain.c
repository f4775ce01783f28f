/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.c - tokens, and a hash of each beginning of whole pages. Hashes find how much two requests have in
 * common in a few steps; tokens are compared before anything is shared, so that nobody can make up a prompt
 * which reads another's pages.
 */
#include "tools/engine/base/buffer.h"
#include "tools/engine/scheduler/internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_page(uint64_t hash, const int32_t *ids)
{
    for (int i = 0; i < KT_KV_PAGE; i++) {
        hash = (hash ^ (uint32_t)ids[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

bool kt_chain_add(struct kt_chain *chain, const int32_t *ids, size_t n_ids)
{
    size_t n = chain->n_ids + n_ids;
    int32_t *more = kt_array_grow(chain->ids, &chain->ids_capacity, n, sizeof(*more));
    if (!more)
        return false;
    chain->ids = more;
    uint64_t *hashes =
        kt_array_grow(chain->hashes, &chain->hashes_capacity, n / KT_KV_PAGE + 1, sizeof(*hashes));
    if (!hashes)
        return false;
    chain->hashes = hashes;
    memcpy(chain->ids + chain->n_ids, ids, n_ids * sizeof(*ids));
    chain->n_ids = n;
    for (; chain->n_hashes < n / KT_KV_PAGE; chain->n_hashes++)
        hashes[chain->n_hashes] = hash_page(chain->n_hashes ? hashes[chain->n_hashes - 1] : 1,
                                            chain->ids + chain->n_hashes * KT_KV_PAGE);
    return true;
}

bool kt_chain_copy(const struct kt_chain *chain, size_t n_ids, struct kt_chain *copy)
{
    *copy = (struct kt_chain){.owner = chain->owner};
    if (kt_chain_add(copy, chain->ids, n_ids))
        return true;
    kt_chain_free(copy);
    return false;
}

void kt_chain_cut(struct kt_chain *chain, size_t n_ids)
{
    chain->n_ids = n_ids;
    chain->n_hashes = n_ids / KT_KV_PAGE;
}

void kt_chain_free(struct kt_chain *chain)
{
    free(chain->ids);
    free(chain->hashes);
    *chain = (struct kt_chain){.ids = NULL};
}

uint64_t kt_chain_common(const struct kt_chain *a, const struct kt_chain *b)
{
    size_t low = 0, high = a->n_hashes < b->n_hashes ? a->n_hashes : b->n_hashes;
    if (a->owner != b->owner)
        return 0;
    while (low < high) { /* equal hashes mean that all before them are equal */
        size_t middle = low + (high - low + 1) / 2;
        if (a->hashes[middle - 1] == b->hashes[middle - 1])
            low = middle;
        else
            high = middle - 1;
    }
    size_t page = 0;
    while (page < low &&
           memcmp(a->ids + page * KT_KV_PAGE, b->ids + page * KT_KV_PAGE, KT_KV_PAGE * sizeof(*a->ids)) == 0)
        page++;
    return page * KT_KV_PAGE;
}
