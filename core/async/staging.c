/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c - hands out the staging buffers of a context. */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/context/stagings.h"
#include "core/machine/queue.h"

#include <string.h>

#define MAX_TOKENS (1u << 24)
#define MAX_ROW (UINT64_C(1) << 24) /* hidden_size, and top_k */

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
    if (!kt_lock_take(&stagings->lock))
        return kt_lock_fail(__func__, error);
    for (uint32_t i = 0; i < n_sizes && status == KT_OK; i++) {
        const struct kt_staging_set *old = kt_staging_find(stagings->first, params, sizes[i]);
        const struct kt_staging_set *twin = kt_staging_find(made, params, sizes[i]);
        if (!(old && old->max_tokens == sizes[i]) && !(twin && twin->max_tokens == sizes[i]))
            status = kt_staging_make(params, sizes[i], &made, error);
    }
    if (status != KT_OK) {
        kt_staging_free(made);
    } else {
        struct kt_staging_set **end = &made;
        while (*end)
            end = &(*end)->next;
        *end = stagings->first;
        stagings->first = made;
    }
    kt_lock_give(&stagings->lock);
    return status;
}

static void fill(const struct kt_staging_set *set, uint32_t n_tokens, uint32_t position,
                 struct kt_staging *staging)
{
    const struct kt_staging_params *params = &set->params;
    struct kt_staging_places places = kt_staging_places(params, set->max_tokens);
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

/* The next power of two: so all sets that became too small together are no larger than the newest one. */
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
    if (!kt_lock_take(&stagings->lock))
        return kt_lock_fail(__func__, error);
    const struct kt_staging_set *set = kt_staging_find(stagings->first, params, n_tokens);
    if (!set && (status = kt_staging_make(params, round_up(n_tokens), &stagings->first, error)) == KT_OK)
        set = stagings->first;
    if (set)
        fill(set, n_tokens, position, staging);
    kt_lock_give(&stagings->lock);
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
    if (!kt_lock_take(&context->stagings.lock))
        return kt_lock_fail(__func__, error);
    for (struct kt_staging_set **at = &context->stagings.first; *at;) {
        struct kt_staging_set *set = *at;
        if (params && !kt_staging_fits(set, params)) {
            at = &set->next;
            continue;
        }
        *at = set->next;
        set->next = cleared;
        cleared = set;
    }
    kt_lock_give(&context->stagings.lock);
    kt_staging_free(cleared);
    return KT_OK;
}
