/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - requests as they are taken, and their tickets. All that can be wrong with one is found here, by
 * the caller's thread, so that a step does not fail for it. */
#include "tools/engine/base/fail.h"
#include "tools/engine/scheduler/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- tickets ---- */

void kt_ticket_hold(struct kt_ticket *ticket)
{
    atomic_fetch_add(&ticket->references, 1);
}

void kt_ticket_empty(struct kt_ticket *ticket)
{
    kt_sampler_destroy(ticket->sampler);
    kt_chain_free(&ticket->chain);
    kt_drafter_free(&ticket->drafter);
    free(ticket->stop_ids);
    ticket->sampler = NULL;
    ticket->stop_ids = NULL;
}

void kt_ticket_release(struct kt_ticket *ticket)
{
    if (!ticket || atomic_fetch_sub(&ticket->references, 1) != 1)
        return;
    kt_ticket_empty(ticket);
    kt_scheduler_release(ticket->scheduler);
    free(ticket);
}

void kt_scheduler_cancel(struct kt_ticket *ticket)
{
    if (!ticket || atomic_exchange(&ticket->cancelled, true))
        return;
    struct kt_scheduler *s = ticket->scheduler;
    pthread_mutex_lock(&s->lock);
    s->cancels = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

/* ---- requests ---- */

static enum kt_status check(const struct kt_scheduler *s, const struct kt_request *r, struct kt_error *error)
{
    if (!r->ids || r->n_ids == 0)
        return kt_engine_fail(error, KT_E_INVALID, "the prompt is empty");
    if ((!r->on_token && !r->on_hidden) || !r->on_end || (!r->stop_ids && r->n_stop_ids > 0))
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_scheduler_submit: on_token, on_end or stop_ids are NULL");
    if (r->on_hidden && (r->on_score || r->first_hidden >= r->n_ids))
        return kt_engine_fail(error, KT_E_INVALID,
                              "kt_scheduler_submit: on_hidden beside on_score, or of no token");
    if (r->on_hidden && r->n_ids > s->longest)
        return kt_engine_fail(error, KT_E_RANGE, "the text has %" PRIu64 " tokens; it may have %" PRIu64,
                              r->n_ids, s->longest);
    if (r->n_ids >= s->longest && !r->on_hidden)
        return kt_engine_fail(error, KT_E_RANGE,
                              "the prompt has %" PRIu64 " tokens; with its answer it may have %" PRIu64,
                              r->n_ids, s->longest);
    for (uint64_t i = 0; i < r->n_ids; i++)
        if (r->ids[i] < 0 || (uint64_t)r->ids[i] >= s->vocabulary)
            return kt_engine_fail(error, KT_E_RANGE,
                                  "id %d, number %" PRIu64
                                  " of the prompt, is not a token of the model, which has %" PRIu64,
                                  r->ids[i], i, s->vocabulary);
    return KT_OK;
}

static enum kt_status no_memory(struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_NOMEM, "no memory for a request");
}

static enum kt_status copy_arrays(struct kt_ticket *t, const struct kt_request *r, struct kt_error *error)
{
    const char *name = r->client ? r->client : "";
    size_t length = strlen(name) + 1;
    t->client = calloc(1, sizeof(*t->client) + length);
    t->stop_ids = calloc((size_t)r->n_stop_ids + 1, sizeof(*t->stop_ids));
    if (!t->client || !t->stop_ids || !kt_chain_add(&t->chain, r->ids, r->n_ids))
        return no_memory(error);
    memcpy(t->client->name, name, length);
    t->chain.owner = r->owner;
    if (r->n_stop_ids > 0)
        memcpy(t->stop_ids, r->stop_ids, r->n_stop_ids * sizeof(*t->stop_ids));
    return KT_OK;
}

static enum kt_status make_sampler(struct kt_ticket *t, const struct kt_request *r, struct kt_error *error)
{
    const struct kt_sampling_params likeliest = KT_SAMPLING_PARAMS_INIT;
    enum kt_status status = kt_sampler_create(t->scheduler->chosen_from,
                                              r->sampling ? r->sampling : &likeliest, &t->sampler, error);
    return status == KT_OK ? kt_sampler_accept(t->sampler, r->ids, r->n_ids, KT_ORIGIN_PROMPT, error)
                           : status;
}

static enum kt_status make_ticket(struct kt_scheduler *s, const struct kt_request *r,
                                  struct kt_ticket **ticket, struct kt_error *error)
{
    struct kt_ticket *t = calloc(1, sizeof(*t));
    if (!t)
        return no_memory(error);
    uint64_t room = s->longest - r->n_ids;
    t->scheduler = s;
    t->request = *r;
    t->n_scored = 1; /* the first token follows nothing */
    t->n_hidden = r->first_hidden;
    t->limit = r->n_ids + (r->max_tokens && r->max_tokens < room ? r->max_tokens : room);
    if (r->on_hidden)
        t->limit = r->n_ids;
    t->submit_ns = kt_now();
    kt_drafter_init(&t->drafter);
    atomic_init(&t->references, 1);
    atomic_init(&t->cancelled, false);
    atomic_fetch_add(&s->references, 1);
    enum kt_status status = copy_arrays(t, r, error);
    if (status == KT_OK)
        status = r->on_hidden ? kt_hidden_prepare(s, error) : make_sampler(t, r, error);
    if (status == KT_OK) {
        *ticket = t;
        return KT_OK;
    }
    free(t->client);
    kt_ticket_release(t);
    return status;
}

enum kt_status kt_scheduler_submit(struct kt_scheduler *s, const struct kt_request *request,
                                   struct kt_ticket **ticket, struct kt_error *error)
{
    struct kt_ticket *t = NULL;
    if (!s || !request)
        return kt_engine_fail(error, KT_E_INVALID, "kt_scheduler_submit: NULL");
    struct kt_place *place;
    enum kt_status status = kt_place_take(s, request->client ? request->client : "", &place, error);
    if (status != KT_OK)
        return status;
    status = check(s, request, error);
    if (status == KT_OK)
        status = make_ticket(s, request, &t, error);
    if (status != KT_OK) {
        kt_place_refuse(s, place);
        return status;
    }
    t->place = place;
    t->request.sampling = NULL;
    if (ticket) {
        kt_ticket_hold(t);
        *ticket = t;
    }
    pthread_mutex_lock(&s->lock);
    s->n_taken++;
    kt_queue_push(&s->inbox, t);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return KT_OK;
}
