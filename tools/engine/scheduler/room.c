/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.c - pages and sessions: which request starts, and who gives room back when it ends. The request that
 * was started first is never put back and never lacks room, as all others and all prefixes go before it; so
 * one after the other ends, whatever was promised.
 */
#include "tools/engine/scheduler/internal.h"

#include <stdlib.h>
#include <string.h>

uint64_t kt_room_free(const struct kt_scheduler *s)
{
    struct kt_kv_info cache;
    kt_model_cache(s->model, &cache);
    return cache.free_pages;
}

/* Pages of its tokens and of `headroom` more. */
static uint64_t wanted_pages(const struct kt_scheduler *s, const struct kt_ticket *t)
{
    uint64_t left = t->limit - t->chain.n_ids;
    return kt_pages(t->chain.n_ids + (left < s->params.headroom ? left : s->params.headroom));
}

static uint64_t lacking_pages(const struct kt_scheduler *s, const struct kt_ticket *t)
{
    return wanted_pages(s, t) - kt_pages(t->n_done) + t->copies;
}

/* ---- starting ---- */

/* Somebody who runs is about to compute what this one begins with, and it pays to wait for that. */
static bool pays_to_wait(const struct kt_scheduler *s, const struct kt_ticket *ticket, uint64_t n_have)
{
    for (uint32_t i = 0; i < s->n_running; i++)
        if (kt_prefix_promise(s, s->running[i], ticket) >= n_have + KT_KV_PAGE)
            return true;
    return false;
}

/* A prefix that goes on as nobody does: its session itself, if not even a fork of it has room. */
static bool must_take(struct kt_scheduler *s, const struct kt_source *source, uint64_t need)
{
    struct kt_kv_info cache;
    kt_model_cache(s->model, &cache);
    return source->prefix && (cache.n_sequences == s->max_sessions || cache.free_pages < need);
}

/* Drops prefixes until the request has room beside those that run. False: it must wait. */
static bool find_room(struct kt_scheduler *s, const struct kt_ticket *ticket, const struct kt_source *source)
{
    struct kt_kv_info cache;
    uint64_t need = wanted_pages(s, ticket) - source->n_tokens / KT_KV_PAGE, held = 0;
    for (uint32_t i = 0; i < s->n_running; i++)
        need += lacking_pages(s, s->running[i]);
    for (uint32_t i = 0; i < s->n_prefixes; i++)
        held += s->prefixes[i] == source->prefix ? 0 : kt_pages(s->prefixes[i]->chain.n_ids);
    if (s->n_running > 0 && kt_room_free(s) + held < need)
        return false;
    for (;;) {
        kt_model_cache(s->model, &cache);
        bool fits = cache.free_pages >= need && cache.n_sequences < s->max_sessions;
        if (fits || !kt_prefix_drop(s, source->prefix))
            return fits || s->n_running == 0 || (must_take(s, source, 0) && cache.free_pages >= need);
    }
}

static enum kt_status open_session(struct kt_scheduler *s, struct kt_ticket *t, struct kt_source *source)
{
    uint64_t need = wanted_pages(s, t) - source->n_tokens / KT_KV_PAGE;
    if (source->prefix)
        source->prefix->used = ++s->uses;
    if (must_take(s, source, need)) {
        t->session = kt_prefix_take(s, source->prefix, source->n_tokens);
        source->prefix = NULL;
        source->session = NULL;
    } else if (source->session &&
               kt_session_fork(source->session, source->n_tokens, &t->session, NULL) != KT_OK) {
        t->session = NULL;
    }
    t->copies = t->session && source->session && source->n_tokens % KT_KV_PAGE != 0;
    t->n_done = t->session ? source->n_tokens : 0;
    return t->session ? KT_OK : kt_session_open(s->model, &t->session, &t->error);
}

/* Among those that run, the first started one stands first. */
static void insert(struct kt_scheduler *s, struct kt_ticket *ticket)
{
    uint32_t at = s->n_running++;
    for (; at > 0 && s->running[at - 1]->stamp > ticket->stamp; at--)
        s->running[at] = s->running[at - 1];
    s->running[at] = ticket;
}

static void start(struct kt_scheduler *s, struct kt_client *client, struct kt_source *source)
{
    struct kt_ticket *ticket = kt_queue_pop(&client->queue);
    kt_place_leave(s, ticket->place);
    if (open_session(s, ticket, source) != KT_OK) {
        kt_run_end(s, ticket, KT_END_ERROR, -1);
        return;
    }
    if (ticket->stamp == 0) {
        ticket->stamp = ++s->stamps;
        ticket->start_ns = kt_now();
        ticket->n_cached = ticket->n_done;
        s->stats.cached_tokens += ticket->n_done;
        s->stats.prefix_hits += ticket->n_done > 0;
        s->stats.prefix_misses += ticket->n_done == 0;
    }
    client->pending += kt_pending(ticket);
    insert(s, ticket);
}

void kt_room_start(struct kt_scheduler *s)
{
    struct kt_client *client;
    kt_clients_measure(s);
    while (s->n_running < s->params.max_running && (client = kt_clients_next(s)) != NULL) {
        struct kt_ticket *ticket = client->queue.first;
        struct kt_source source = kt_prefix_find(s, ticket);
        if (pays_to_wait(s, ticket, source.n_tokens))
            client->passed = true;
        else if (find_room(s, ticket, &source))
            start(s, client, &source);
        else
            break;
    }
}

/* ---- room for a step ---- */

/* The last started one goes back to the head of its client's queue. */
static void put_back(struct kt_scheduler *s)
{
    struct kt_ticket *ticket = s->running[s->n_running - 1];
    struct kt_chain chain;
    kt_run_remove(s, ticket);
    if (kt_chain_copy(&ticket->chain, ticket->n_done, &chain))
        kt_prefix_keep(s, ticket->session, &chain);
    else
        kt_session_close(ticket->session);
    ticket->session = NULL;
    ticket->n_done = ticket->n_again = 0;
    ticket->copies = false;
    kt_queue_push_first(&ticket->client->queue, ticket);
    kt_place_return(s, ticket->place);
    s->stats.preempted++;
}

bool kt_room_relieve(struct kt_scheduler *s)
{
    if (kt_prefix_drop(s, NULL))
        return true;
    if (s->n_running < 2)
        return false;
    put_back(s);
    return true;
}

bool kt_room_make(struct kt_scheduler *s)
{
    uint64_t need = 0;
    uint32_t n = s->n_running;
    for (uint32_t i = 0; i < n; i++) {
        const struct kt_ticket *t = s->running[i];
        if (t->n_step > 0)
            need += kt_pages(t->n_done + t->n_step) - kt_pages(t->n_done) + t->copies;
    }
    while (kt_room_free(s) < need && s->n_running == n)
        if (!kt_room_relieve(s))
            break;
    return s->n_running == n;
}
