/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.c - buffers for batches, by layer shape and batch size.
 *
 * A set is the buffers of one size, both slots in one piece of memory: pinning is slow by the call. Sets only
 * come until they are cleared, so that an address that was given out stays good.
 */
#include "core/async/staging.h"

#include "core/context/context.h"
#include "core/base/error.h"
#include "core/layer/layer.h"
#include "core/base/size.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS (1u << 24)
#define MAX_ROW (UINT64_C(1) << 24) /* hidden_size, and top_k */

struct kt_staging_set {
    struct kt_staging_set *next;
    struct kt_staging_params params;
    uint32_t max_tokens;
    void *memory; /* as the allocator gave it */
    size_t size;
    char *slot; /* the first one; aligned */
};

/* Where a slot's buffers lie in it. */
struct places {
    uint64_t n_tokens, expert_ids, router_weights, input, output, size;
};

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

static enum kt_status check_params(const char *function, const struct kt_context *context,
                                   const struct kt_staging_params *params, struct kt_error *error)
{
    if (!context || !params)
        return kt_fail(error, KT_E_INVALID, "%s: context and params must not be NULL", function);
    if (params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "%s: struct_size %zu is too small; start with KT_STAGING_PARAMS_INIT", function,
                       params->struct_size);
    if (params->hidden_size < 1 || params->hidden_size > MAX_ROW || params->top_k < 1 ||
        params->top_k > MAX_ROW)
        return kt_fail(error, KT_E_INVALID, "%s: hidden_size %llu, top_k %u; 1 to %llu are allowed", function,
                       (unsigned long long)params->hidden_size, params->top_k, (unsigned long long)MAX_ROW);
    if (!kt_element_size(params->input_dtype) || !kt_element_size(params->output_dtype))
        return kt_fail(error, KT_E_INVALID, "%s: input in %s, output in %s; f32, bf16 and f16 are allowed",
                       function, kt_dtype_name(params->input_dtype), kt_dtype_name(params->output_dtype));
    if (!params->allocator.allocate != !params->allocator.release)
        return kt_fail(error, KT_E_INVALID, "%s: an allocator needs both of its functions", function);
    return KT_OK;
}

static enum kt_status check_size(const char *function, uint32_t n_tokens, struct kt_error *error)
{
    return n_tokens >= 1 && n_tokens <= MAX_TOKENS
               ? KT_OK
               : kt_fail(error, KT_E_RANGE, "%s: a batch of %u tokens; 1 to %u are allowed", function,
                         n_tokens, MAX_TOKENS);
}

/* With sizes that were checked no sum leaves 64 bits: rows are below 2^28 bytes, tokens at most 2^24. */
static struct places find_places(const struct kt_staging_params *params, uint32_t max_tokens)
{
    uint64_t slots = (uint64_t)max_tokens * params->top_k, numbers = max_tokens * params->hidden_size;
    struct places places = {.expert_ids = 64};
    places.router_weights = places.expert_ids + kt_align64(slots * sizeof(int64_t));
    places.input = places.router_weights + kt_align64(slots * sizeof(float));
    places.output = places.input + kt_align64(numbers * kt_element_size(params->input_dtype));
    places.size = places.output + kt_align64(numbers * kt_element_size(params->output_dtype));
    return places;
}

static bool is_for(const struct kt_staging_set *set, const struct kt_staging_params *params)
{
    return set->params.hidden_size == params->hidden_size && set->params.top_k == params->top_k &&
           set->params.input_dtype == params->input_dtype &&
           set->params.output_dtype == params->output_dtype && set->params.instance == params->instance;
}

/* The smallest set that holds the tokens, or NULL. */
static struct kt_staging_set *find(struct kt_staging_set *first, const struct kt_staging_params *params,
                                   uint32_t n_tokens)
{
    struct kt_staging_set *best = NULL;
    for (struct kt_staging_set *set = first; set; set = set->next)
        if (set->max_tokens >= n_tokens && is_for(set, params) &&
            (!best || set->max_tokens < best->max_tokens))
            best = set;
    return best;
}

static void free_sets(struct kt_staging_set *first)
{
    while (first) {
        struct kt_staging_set *set = first;
        first = set->next;
        set->params.allocator.release(set->params.allocator.data, set->memory, set->size);
        free(set);
    }
}

/* Puts a new set before *first. All pages are touched, so that a first batch is as fast as others. */
static enum kt_status make(const struct kt_staging_params *params, uint32_t max_tokens,
                           struct kt_staging_set **first, struct kt_error *error)
{
    uint64_t size = KT_STAGING_SLOTS * find_places(params, max_tokens).size + 63;
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
    memset(set->memory, 0, (size_t)size);
    set->max_tokens = max_tokens;
    set->size = (size_t)size;
    set->slot = (char *)set->memory + (64 - (uintptr_t)set->memory % 64) % 64;
    set->next = *first;
    *first = set;
    return KT_OK;
}

enum kt_status kt_capture_batch_sizes(struct kt_context *context, const struct kt_staging_params *params,
                                      const uint32_t *sizes, uint32_t n_sizes, struct kt_error *error)
{
    enum kt_status status = check_params(__func__, context, params, error);
    if (status == KT_OK && !sizes && n_sizes)
        status = kt_fail(error, KT_E_INVALID, "%s: sizes must not be NULL", __func__);
    for (uint32_t i = 0; i < n_sizes && status == KT_OK; i++)
        status = check_size(__func__, sizes[i], error);
    if (status != KT_OK)
        return status;
    struct kt_stagings *stagings = &context->stagings;
    struct kt_staging_set *made = NULL;
    (void)pthread_mutex_lock(&stagings->lock);
    for (uint32_t i = 0; i < n_sizes && status == KT_OK; i++) {
        const struct kt_staging_set *old = find(stagings->first, params, sizes[i]);
        const struct kt_staging_set *twin = find(made, params, sizes[i]);
        if (!(old && old->max_tokens == sizes[i]) && !(twin && twin->max_tokens == sizes[i]))
            status = make(params, sizes[i], &made, error);
    }
    if (status != KT_OK) {
        free_sets(made);
    } else {
        struct kt_staging_set **end = &made;
        while (*end)
            end = &(*end)->next;
        *end = stagings->first;
        stagings->first = made;
    }
    (void)pthread_mutex_unlock(&stagings->lock);
    return status;
}

static void fill(const struct kt_staging_set *set, uint32_t n_tokens, uint32_t position,
                 struct kt_staging *staging)
{
    const struct kt_staging_params *params = &set->params;
    struct places places = find_places(params, set->max_tokens);
    char *slot = set->slot + position % KT_STAGING_SLOTS * places.size;
    *staging = (struct kt_staging){.max_tokens = set->max_tokens,
                                   .n_tokens = (int32_t *)(void *)(slot + places.n_tokens),
                                   .expert_ids = (int64_t *)(void *)(slot + places.expert_ids),
                                   .router_weights = (float *)(void *)(slot + places.router_weights),
                                   .input = slot + places.input,
                                   .output = slot + places.output,
                                   .forward = KT_FORWARD_INIT};
    staging->forward.n_tokens = n_tokens;
    staging->forward.top_k = params->top_k;
    staging->forward.expert_ids = staging->expert_ids;
    staging->forward.router_weights = staging->router_weights;
    staging->forward.input = staging->input;
    staging->forward.output = staging->output;
    staging->forward.input_dtype = params->input_dtype;
    staging->forward.output_dtype = params->output_dtype;
}

/* The next power of two: so a set that is outgrown is at most half of the next one. */
static uint32_t round_up(uint32_t n_tokens)
{
    uint32_t size = 1;
    while (size < n_tokens)
        size *= 2;
    return size;
}

enum kt_status kt_staging_get(struct kt_context *context, const struct kt_staging_params *params,
                              uint32_t n_tokens, uint32_t position, struct kt_staging *staging,
                              struct kt_error *error)
{
    enum kt_status status = check_params(__func__, context, params, error);
    if (status == KT_OK && !staging)
        status = kt_fail(error, KT_E_INVALID, "%s: staging must not be NULL", __func__);
    if (status == KT_OK)
        status = check_size(__func__, n_tokens, error);
    if (status != KT_OK)
        return status;
    struct kt_stagings *stagings = &context->stagings;
    (void)pthread_mutex_lock(&stagings->lock);
    const struct kt_staging_set *set = find(stagings->first, params, n_tokens);
    if (!set && (status = make(params, round_up(n_tokens), &stagings->first, error)) == KT_OK)
        set = stagings->first;
    if (set)
        fill(set, n_tokens, position, staging);
    (void)pthread_mutex_unlock(&stagings->lock);
    return status;
}

enum kt_status kt_clear_buffers(struct kt_context *context, const struct kt_staging_params *params,
                                struct kt_error *error)
{
    if (!context)
        return kt_fail(error, KT_E_INVALID, "%s: context must not be NULL", __func__);
    enum kt_status status = params ? check_params(__func__, context, params, error) : KT_OK;
    if (status != KT_OK)
        return status;
    struct kt_staging_set *cleared = NULL;
    kt_queue_drain(context->queue);
    (void)pthread_mutex_lock(&context->stagings.lock);
    for (struct kt_staging_set **at = &context->stagings.first; *at;) {
        struct kt_staging_set *set = *at;
        if (params && !is_for(set, params)) {
            at = &set->next;
            continue;
        }
        *at = set->next;
        set->next = cleared;
        cleared = set;
    }
    (void)pthread_mutex_unlock(&context->stagings.lock);
    free_sets(cleared);
    return KT_OK;
}

void kt_stagings_init(struct kt_stagings *stagings)
{
    (void)pthread_mutex_init(&stagings->lock, NULL);
}

void kt_stagings_destroy(struct kt_stagings *stagings)
{
    free_sets(stagings->first);
    (void)pthread_mutex_destroy(&stagings->lock);
}
