/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deferral.c - experts that are computed after their layer's ticket is done, and added to the next layer.
 *
 * Everything but creation and checks runs on the queue's thread, task after task, so nothing is locked. One
 * buffer of results is enough: layer L + 1 has read it before its own deferred experts write it.
 */
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/forward/forward.h"
#include "core/machine/queue.h"

#include <stdlib.h>
#include <string.h>

struct kt_deferral {
    struct kt_context *context;
    struct kt_deferral_params params;
    uint32_t *max_deferred;  /* [n_layers] */
    uint32_t next;           /* the position that adds the pending results */
    bool pending;            /* `result` holds deferred experts of next - 1 */
    bool waiting;            /* `late` has not run yet */
    struct kt_layer *layer;  /* of `late` */
    struct kt_forward late;  /* the deferred experts of next - 1 */
    struct kt_error failure; /* of them; KT_OK: none */
    /* [max_tokens][top_k] */
    int64_t *immediate, *deferred;
    float *weights;
    /* [max_tokens][hidden_size] of up to 4 bytes */
    char *input, *result;
    uint8_t *is_protected; /* by expert */
    uint8_t *is_taken;     /* top_k: of one token */
};

/* The argument of its tasks. */
struct deferred_task {
    struct kt_deferral *deferral;
    struct kt_layer *layer;
    uint32_t position;
    struct kt_forward forward;
};
_Static_assert(sizeof(struct deferred_task) <= KT_TASK_ARGUMENT, "a slot of the queue holds one");

static enum kt_status check_params(const struct kt_deferral_params *params, struct kt_error *error)
{
    uint64_t slots, numbers;
    if (params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_deferral_create: struct_size %zu is too small; start with KT_DEFERRAL_PARAMS_INIT",
                       params->struct_size);
    if (!params->n_layers || !params->n_experts || !params->top_k || !params->max_tokens ||
        !params->hidden_size)
        return kt_fail(error, KT_E_INVALID,
                       "kt_deferral_create: n_layers, n_experts, top_k, max_tokens and hidden_size must be "
                       "at least 1");
    if (!kt_mul(params->max_tokens, params->top_k, &slots) || slots > UINT32_MAX ||
        !kt_mul(params->max_tokens, params->hidden_size, &numbers) || numbers > SIZE_MAX / 8)
        return kt_fail(error, KT_E_INVALID,
                       "kt_deferral_create: max_tokens %u with top_k %u and hidden_size %llu is too large",
                       params->max_tokens, params->top_k, (unsigned long long)params->hidden_size);
    return KT_OK;
}

enum kt_status kt_deferral_create(struct kt_context *context, const struct kt_deferral_params *params,
                                  struct kt_deferral **out, struct kt_error *error)
{
    if (!context || !params || !out)
        return kt_fail(error, KT_E_INVALID,
                       "kt_deferral_create: context, params and deferral must not be NULL");
    enum kt_status status = check_params(params, error);
    if (status != KT_OK)
        return status;
    struct kt_deferral *deferral = calloc(1, sizeof *deferral);
    if (!deferral)
        return kt_fail(error, KT_E_NOMEM, "no memory for deferred experts");
    size_t slots = (size_t)params->max_tokens * params->top_k;
    size_t numbers = (size_t)params->max_tokens * params->hidden_size;
    deferral->context = kt_context_retain(context);
    deferral->params = *params;
    deferral->max_deferred = calloc(params->n_layers, sizeof *deferral->max_deferred);
    deferral->immediate = calloc(slots, sizeof *deferral->immediate);
    deferral->deferred = calloc(slots, sizeof *deferral->deferred);
    deferral->weights = calloc(slots, sizeof *deferral->weights);
    deferral->input = calloc(numbers, sizeof(float));
    deferral->result = calloc(numbers, sizeof(float));
    deferral->is_protected = calloc(params->n_experts, 1);
    deferral->is_taken = calloc(params->top_k, 1);
    if (!deferral->max_deferred || !deferral->immediate || !deferral->deferred || !deferral->weights ||
        !deferral->input || !deferral->result || !deferral->is_protected || !deferral->is_taken) {
        kt_deferral_destroy(deferral);
        return kt_fail(error, KT_E_NOMEM, "no memory for deferred experts of %u tokens", params->max_tokens);
    }
    for (uint32_t l = 0; l + 1 < params->n_layers; l++) /* the last layer has 0 */
        deferral->max_deferred[l] =
            params->max_deferred_of ? params->max_deferred_of[l] : params->max_deferred;
    *out = deferral;
    return KT_OK;
}

void kt_deferral_destroy(struct kt_deferral *deferral)
{
    if (!deferral)
        return;
    kt_queue_drain(deferral->context->queue);
    kt_context_destroy(deferral->context);
    free(deferral->max_deferred);
    free(deferral->immediate);
    free(deferral->deferred);
    free(deferral->weights);
    free(deferral->input);
    free(deferral->result);
    free(deferral->is_protected);
    free(deferral->is_taken);
    free(deferral);
}

/* ---- which experts are deferred ---- */

/* Marks the n slots of highest weight of a token. */
static void take_highest(const float *weights, uint32_t top_k, uint32_t n, uint8_t *is_taken)
{
    memset(is_taken, 0, top_k);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = top_k;
        for (uint32_t k = 0; k < top_k; k++)
            if (!is_taken[k] && (best == top_k || weights[k] > weights[best]))
                best = k;
        is_taken[best] = 1;
    }
}

static uint32_t count_protected(const struct kt_deferral *deferral, const struct kt_forward *forward,
                                uint32_t position)
{
    uint32_t max_deferred = deferral->max_deferred[position];
    return max_deferred < forward->top_k ? forward->top_k - max_deferred : 0;
}

/* Marks the experts that are protected for any token. */
static void protect(struct kt_deferral *deferral, const struct kt_forward *forward, uint32_t n_protected)
{
    uint32_t top_k = forward->top_k;
    memset(deferral->is_protected, 0, deferral->params.n_experts);
    for (uint64_t t = 0; t < forward->n_tokens; t++) {
        const int64_t *ids = forward->expert_ids + t * top_k;
        take_highest(forward->router_weights + t * top_k, top_k, n_protected, deferral->is_taken);
        for (uint32_t k = 0; k < top_k; k++)
            if (deferral->is_taken[k] && ids[k] >= 0)
                deferral->is_protected[ids[k]] = 1;
    }
}

/* Splits the ids into immediate and deferred ones; the slots of the others are -1. Returns the number of
 * deferred ones. The mask may change at any moment, so it is read once for each id. */
static uint64_t share_out(struct kt_deferral *deferral, const struct kt_layer *layer,
                          const struct kt_forward *forward, uint32_t n_protected)
{
    const uint8_t *mask = layer->params.skip_mask;
    uint32_t top_k = forward->top_k;
    bool own = deferral->params.per_token != 0, all = n_protected == top_k;
    uint64_t n_deferred = 0;
    if (!own && !all)
        protect(deferral, forward, n_protected);
    for (uint64_t t = 0, slot = 0; t < forward->n_tokens; t++) {
        if (own)
            take_highest(forward->router_weights + slot, top_k, n_protected, deferral->is_taken);
        for (uint32_t k = 0; k < top_k; k++, slot++) {
            int64_t id = forward->expert_ids[slot];
            bool skipped = id < 0 || (mask && __atomic_load_n(&mask[id], __ATOMIC_RELAXED));
            bool now = skipped || all || (own ? deferral->is_taken[k] : deferral->is_protected[id]);
            deferral->immediate[slot] = now && !skipped ? id : -1;
            deferral->deferred[slot] = now ? -1 : id;
            n_deferred += !now;
        }
    }
    return n_deferred;
}

/* ---- on the queue's thread ---- */

/* Do the pending results belong to this batch? */
static enum kt_status check_pending(const struct kt_deferral *deferral, const struct deferred_task *task,
                                    struct kt_error *error)
{
    const struct kt_layer *layer = task->layer;
    const struct kt_forward *forward = &task->forward, *late = &deferral->late;
    if (deferral->failure.status != KT_OK)
        return kt_fail(error, deferral->failure.status, "deferred experts of position %u: %s",
                       deferral->next - 1, deferral->failure.message);
    if (!deferral->pending)
        return KT_OK;
    if (task->position != deferral->next)
        return kt_fail(error, KT_E_STATE,
                       "%s: position %u was submitted while deferred experts wait for position %u",
                       layer->name, task->position, deferral->next);
    if (forward->n_tokens != late->n_tokens || forward->output_dtype != late->output_dtype)
        return kt_fail(
            error, KT_E_STATE,
            "%s: position %u has %u tokens in %s, but deferred experts of %u tokens in %s wait for it",
            layer->name, task->position, forward->n_tokens, kt_dtype_name(forward->output_dtype),
            late->n_tokens, kt_dtype_name(late->output_dtype));
    return KT_OK;
}

/* Copies the inputs of the deferred experts from the caller's memory. */
static void keep_late(struct kt_deferral *deferral, const struct deferred_task *task)
{
    const struct kt_forward *forward = &task->forward;
    uint64_t row = deferral->params.hidden_size * (forward->input_dtype == KT_DTYPE_F32 ? 4 : 2);
    uint64_t out = deferral->params.hidden_size * (forward->output_dtype == KT_DTYPE_F32 ? 4 : 2);
    for (uint64_t t = 0; t < forward->n_tokens; t++)
        memcpy(deferral->input + t * row, (const char *)forward->input + (int64_t)t * forward->input_stride,
               row);
    memcpy(deferral->weights, forward->router_weights,
           (size_t)forward->n_tokens * forward->top_k * sizeof *deferral->weights);
    deferral->layer = task->layer;
    deferral->late = *forward;
    deferral->late.expert_ids = deferral->deferred;
    deferral->late.router_weights = deferral->weights;
    deferral->late.input = deferral->input;
    deferral->late.input_stride = (int64_t)row;
    deferral->late.output = deferral->result;
    deferral->late.output_stride = (int64_t)out;
    deferral->late.accumulate = 0;
    deferral->waiting = true;
}

static enum kt_status run_immediate(const void *argument, struct kt_error *error)
{
    const struct deferred_task *task = argument;
    struct kt_deferral *deferral = task->deferral;
    struct kt_layer *layer = task->layer;
    struct kt_forward forward = task->forward;
    struct kt_extra extra = {.asked = &task->forward, .no_mask = true};
    uint64_t n_deferred = 0;
    if (task->position == 0) {
        deferral->pending = false;
        deferral->failure.status = KT_OK;
    }
    enum kt_status status = check_pending(deferral, task, error);
    if (status == KT_OK)
        status = kt_forward_check_ids(layer, &forward, error);
    extra.added = deferral->pending ? deferral->result : NULL;
    deferral->pending = deferral->waiting = false;
    deferral->failure.status = KT_OK;
    if (status == KT_OK) {
        n_deferred =
            share_out(deferral, layer, &forward, count_protected(deferral, &forward, task->position));
        forward.expert_ids = deferral->immediate;
        status = kt_forward_run(layer, &forward, &extra, error);
    }
    if (status == KT_OK && n_deferred)
        keep_late(deferral, task);
    deferral->next = task->position + 1;
    return status;
}

static void run_deferred(void *data)
{
    struct kt_deferral *deferral = data;
    struct kt_extra extra = {.no_mask = true};
    if (!deferral->waiting)
        return;
    deferral->waiting = false;
    deferral->failure.status = kt_forward_run(deferral->layer, &deferral->late, &extra, &deferral->failure);
    deferral->pending = deferral->failure.status == KT_OK;
}

enum kt_status kt_deferral_submit(struct kt_deferral *deferral, uint32_t position, struct kt_layer *layer,
                                  const struct kt_forward *given, uint64_t *ticket, struct kt_error *error)
{
    struct deferred_task argument = {.deferral = deferral, .layer = layer, .position = position};
    struct kt_forward *forward = &argument.forward;
    if (!deferral)
        return kt_fail(error, KT_E_INVALID, "kt_deferral_submit: deferral must not be NULL");
    enum kt_status status = kt_forward_check(layer, given, forward, error);
    if (status != KT_OK)
        return status;
    const struct kt_deferral_params *params = &deferral->params;
    if (layer->context != deferral->context)
        return kt_fail(error, KT_E_INVALID, "%s is of another context than its deferral", layer->name);
    if (position >= params->n_layers)
        return kt_fail(error, KT_E_RANGE, "%s: position %u of %u layers", layer->name, position,
                       params->n_layers);
    if (layer->params.hidden_size != params->hidden_size || layer->params.n_experts > params->n_experts ||
        forward->top_k > params->top_k || forward->n_tokens > params->max_tokens)
        return kt_fail(
            error, KT_E_INVALID,
            "%s: %u tokens with top_k %u, %u experts and hidden_size %llu; the deferral is for up to "
            "%u, %u, %u and for %llu",
            layer->name, forward->n_tokens, forward->top_k, layer->params.n_experts,
            (unsigned long long)layer->params.hidden_size, params->max_tokens, params->top_k,
            params->n_experts, (unsigned long long)params->hidden_size);
    status = kt_forward_check_overlap(layer, forward, error);
    if (status != KT_OK)
        return status;
    struct kt_task task = {.run = run_immediate,
                           .after = run_deferred,
                           .after_data = deferral,
                           .name = layer->name,
                           .outstanding = &layer->outstanding};
    return kt_queue_submit(deferral->context->queue, &task, &argument, sizeof argument, ticket, error);
}
