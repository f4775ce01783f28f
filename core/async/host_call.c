/* SPDX-License-Identifier: Apache-2.0 */
/* host_call.c - submit and wait as functions that a GPU's stream calls. */
#include "core/async/host_call.h"
#include "core/base/error.h"
#include "core/base/lock.h"
#include "core/context/context.h"
#include "core/forward/forward.h"
#include "core/layer/layer.h"
#include "core/machine/queue.h"

#include <stdlib.h>
#include <string.h>

struct kt_host_call {
    struct kt_host_params params;
    struct kt_lock lock;     /* of what follows */
    uint64_t ticket;         /* not waited for; 0: none */
    bool expects_wait;       /* a submit has run, and no wait since that found its forward done */
    struct kt_error failure; /* the first since kt_host_call_status */
};

static const struct kt_layer *layer_of(const struct kt_host_call *call)
{
    return call->params.layer;
}

const char *kt_host_call_name(const struct kt_host_call *call)
{
    return layer_of(call)->name;
}

static struct kt_queue *queue_of(const struct kt_host_call *call)
{
    return layer_of(call)->context->queue;
}

enum kt_status kt_host_call_create(const struct kt_host_params *params, struct kt_host_call **out,
                                   struct kt_error *error)
{
    if (!params || !out)
        return kt_fail(error, KT_E_INVALID, "kt_host_call_create: params and call must not be NULL");
    if (params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_host_call_create: struct_size %zu is too small; start with KT_HOST_PARAMS_INIT",
                       params->struct_size);
    struct kt_forward forward = params->forward, checked;
    forward.n_tokens = params->n_tokens ? params->max_tokens : forward.n_tokens;
    enum kt_status status = kt_forward_check(params->layer, &forward, &checked, error);
    if (status != KT_OK)
        return status;
    if (params->max_tokens == 0 || forward.n_tokens > params->max_tokens)
        return kt_fail(error, KT_E_INVALID, "%s: %u tokens in buffers for max_tokens %u", params->layer->name,
                       forward.n_tokens, params->max_tokens);
    struct kt_host_call *call = calloc(1, sizeof *call);
    if (!call)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a call", params->layer->name);
    call->params = *params;
    call->params.timeout_ms = params->timeout_ms ? params->timeout_ms : 60000;
    kt_lock_init(&call->lock);
    *out = call;
    return KT_OK;
}

void kt_host_call_destroy(struct kt_host_call *call)
{
    if (!call)
        return;
    if (call->ticket)
        (void)kt_queue_wait(queue_of(call), call->ticket, NULL);
    kt_lock_destroy(&call->lock);
    free(call);
}

static void keep_failure(struct kt_host_call *call, enum kt_status status, const struct kt_error *error)
{
    if (!kt_lock_take(&call->lock))
        return;
    if (call->failure.status == KT_OK) {
        call->failure = *error;
        call->failure.status = status;
    }
    kt_lock_give(&call->lock);
}

static uint64_t read_ticket(struct kt_host_call *call)
{
    if (!kt_lock_take(&call->lock))
        return 0;
    uint64_t ticket = call->ticket;
    kt_lock_give(&call->lock);
    return ticket;
}

static void write_ticket(struct kt_host_call *call, uint64_t ticket)
{
    if (!kt_lock_take(&call->lock))
        return;
    call->ticket = ticket;
    kt_lock_give(&call->lock);
}

/* Says what it was. */
static bool set_expects_wait(struct kt_host_call *call, bool expects_wait)
{
    if (!kt_lock_take(&call->lock))
        return false;
    bool before = call->expects_wait;
    call->expects_wait = expects_wait;
    kt_lock_give(&call->lock);
    return before;
}

/* Waits for the submitted forward; false: it is still running. */
static bool finish(struct kt_host_call *call, uint32_t timeout_ms)
{
    struct kt_error error = {KT_OK, ""};
    uint64_t ticket = read_ticket(call);
    bool done = true;
    if (!ticket)
        return true;
    enum kt_status status = kt_queue_wait_for(queue_of(call), ticket, timeout_ms, &done, &error);
    if (!done)
        return false;
    write_ticket(call, 0);
    if (status != KT_OK)
        keep_failure(call, status, &error);
    return true;
}

static enum kt_status submit(struct kt_host_call *call, uint64_t *ticket, struct kt_error *error)
{
    const struct kt_host_params *params = &call->params;
    struct kt_forward forward = params->forward;
    int64_t n_tokens = params->n_tokens ? *params->n_tokens : (int64_t)forward.n_tokens;
    if (n_tokens < 0 || n_tokens > params->max_tokens)
        return kt_fail(error, KT_E_RANGE, "%s: %lld tokens; 0 to max_tokens %u are allowed",
                       params->layer->name, (long long)n_tokens, params->max_tokens);
    forward.n_tokens = (uint32_t)n_tokens;
    return params->deferral ? kt_deferral_submit(params->deferral, params->position, params->layer, &forward,
                                                 ticket, error)
                            : kt_layer_submit(params->layer, &forward, ticket, error);
}

void kt_host_submit(void *argument)
{
    struct kt_host_call *call = argument;
    struct kt_error error = {KT_OK, ""};
    uint64_t ticket = 0;
    enum kt_status status = KT_OK;
    (void)set_expects_wait(call, true);
    if (!finish(call, 0))
        status = kt_fail(&error, KT_E_BUSY, "%s: submitted again before the last forward was done",
                         kt_host_call_name(call));
    if (status == KT_OK && (status = submit(call, &ticket, &error)) == KT_OK)
        write_ticket(call, ticket);
    if (status != KT_OK)
        keep_failure(call, status, &error);
}

void kt_host_wait(void *argument)
{
    struct kt_host_call *call = argument;
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_OK;
    if (!finish(call, call->params.timeout_ms))
        status = kt_fail(&error, KT_E_BUSY, "%s: the forward was not done after %u ms",
                         kt_host_call_name(call), call->params.timeout_ms);
    else if (!set_expects_wait(call, false))
        status = kt_fail(&error, KT_E_STATE,
                         "%s: the sync ran before its submit; on two streams only an event keeps their order",
                         kt_host_call_name(call));
    if (status != KT_OK)
        keep_failure(call, status, &error);
}

enum kt_status kt_host_call_status(struct kt_host_call *call, struct kt_error *error)
{
    if (!call)
        return kt_fail(error, KT_E_INVALID, "kt_host_call_status: call must not be NULL");
    if (!kt_lock_take(&call->lock))
        return kt_lock_fail(kt_host_call_name(call), error);
    enum kt_status status = call->failure.status;
    if (status != KT_OK && error)
        *error = call->failure;
    call->failure.status = KT_OK;
    kt_lock_give(&call->lock);
    return status;
}
