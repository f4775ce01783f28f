/* SPDX-License-Identifier: Apache-2.0 */
/* stagings.c - the list of sets. */
#include "core/context/stagings.h"

#include "core/base/error.h"
#include "core/base/size.h"

#include <kt/kt.h>
#include <stdlib.h>
#include <string.h>

/* No sum overflows: params were checked, so rows are below 2^28 bytes and tokens at most 2^24. */
struct kt_staging_places kt_staging_places(const struct kt_staging_params *params, uint32_t max_tokens)
{
    uint64_t slots = (uint64_t)max_tokens * params->top_k, numbers = max_tokens * params->hidden_size;
    struct kt_staging_places places = {.expert_ids = 64};
    places.router_weights = places.expert_ids + kt_align64(slots * sizeof(int64_t));
    places.input = places.router_weights + kt_align64(slots * sizeof(float));
    places.output = places.input + kt_align64(numbers * kt_element_size(params->input_dtype));
    places.size = places.output + kt_align64(numbers * kt_element_size(params->output_dtype));
    return places;
}

static void *allocate_plain(void *data, size_t size)
{
    (void)data;
    return malloc(size);
}

static void release_plain(void *data, void *memory, size_t size)
{
    (void)data;
    (void)size;
    free(memory);
}

bool kt_staging_fits(const struct kt_staging_set *set, const struct kt_staging_params *params)
{
    return set->params.hidden_size == params->hidden_size && set->params.top_k == params->top_k &&
           set->params.input_dtype == params->input_dtype &&
           set->params.output_dtype == params->output_dtype && set->params.instance == params->instance;
}

struct kt_staging_set *kt_staging_find(struct kt_staging_set *first, const struct kt_staging_params *params,
                                       uint32_t n_tokens)
{
    struct kt_staging_set *best = NULL;
    for (struct kt_staging_set *set = first; set; set = set->next)
        if (set->max_tokens >= n_tokens && kt_staging_fits(set, params) &&
            (!best || set->max_tokens < best->max_tokens))
            best = set;
    return best;
}

void kt_staging_free(struct kt_staging_set *first)
{
    while (first) {
        struct kt_staging_set *set = first;
        first = set->next;
        set->params.allocator.release(set->params.allocator.data, set->memory, set->size);
        free(set);
    }
}

enum kt_status kt_staging_make(const struct kt_staging_params *params, uint32_t max_tokens,
                               struct kt_staging_set **first, struct kt_error *error)
{
    uint64_t size = KT_STAGING_SLOTS * kt_staging_places(params, max_tokens).size + 63;
    struct kt_staging_set *set = size <= PTRDIFF_MAX ? calloc(1, sizeof *set) : NULL;
    if (set) {
        set->params = *params;
        if (!params->allocator.allocate)
            set->params.allocator = (struct kt_allocator){allocate_plain, release_plain, NULL};
        set->memory = set->params.allocator.allocate(set->params.allocator.data, (size_t)size);
    }
    if (!set || !set->memory) {
        free(set);
        return kt_fail(error, KT_E_NOMEM, "no memory for staging buffers of %u tokens: %llu bytes",
                       max_tokens, (unsigned long long)size);
    }
    memset(set->memory, 0, (size_t)size); /* touches all pages: a first batch is as fast as others */
    set->max_tokens = max_tokens;
    set->size = (size_t)size;
    set->slot = (char *)set->memory + (64 - (uintptr_t)set->memory % 64) % 64;
    set->next = *first;
    *first = set;
    return KT_OK;
}

void kt_stagings_init(struct kt_stagings *stagings)
{
    kt_lock_init(&stagings->lock);
}

void kt_stagings_destroy(struct kt_stagings *stagings)
{
    if (kt_lock_take(&stagings->lock)) {
        kt_staging_free(stagings->first);
        kt_lock_give(&stagings->lock);
    }
    kt_lock_destroy(&stagings->lock);
}
