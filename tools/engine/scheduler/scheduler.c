/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.c - a scheduler's life, and its thread. */
#include "tools/engine/base/fail.h"
#include "tools/engine/base/thread.h"
#include "tools/engine/scheduler/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t kt_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- the thread ---- */

/* Requests in queues that are cancelled, or all, in a list. */
static struct kt_queue leave_queues(struct kt_scheduler *s, bool all)
{
    struct kt_queue ended = {.first = NULL};
    for (struct kt_client *client = s->clients; client; client = client->next) {
        struct kt_queue queue = client->queue;
        client->queue = (struct kt_queue){.first = NULL};
        for (struct kt_ticket *ticket; (ticket = kt_queue_pop(&queue)) != NULL;) {
            bool ends = all || atomic_load(&ticket->cancelled);
            kt_queue_push(ends ? &ended : &client->queue, ticket);
            if (ends)
                kt_place_leave(s, ticket->place);
        }
    }
    return ended;
}

static void end_cancelled(struct kt_scheduler *s, bool all)
{
    struct kt_queue ended = leave_queues(s, all);
    for (uint32_t i = s->n_running; i-- > 0;)
        if (all || atomic_load(&s->running[i]->cancelled)) {
            struct kt_ticket *ticket = s->running[i];
            kt_run_remove(s, ticket);
            kt_queue_push(&ended, ticket);
        }
    for (struct kt_ticket *ticket; (ticket = kt_queue_pop(&ended)) != NULL;)
        kt_run_end(s, ticket, KT_END_CANCELLED, -1);
}

/* Takes what has come, and waits for it if there is nothing else to do. False: it is over. */
static bool take_news(struct kt_scheduler *s, bool *stops)
{
    pthread_mutex_lock(&s->lock);
    while (!s->inbox.first && !s->cancels && s->n_mine == 0 && !(s->stops && s->n_live == 0))
        pthread_cond_wait(&s->wake, &s->lock);
    struct kt_queue inbox = s->inbox;
    bool cancels = s->cancels, over = s->stops && s->n_live == 0;
    s->inbox = (struct kt_queue){.first = NULL};
    s->cancels = false;
    *stops = s->stops;
    pthread_mutex_unlock(&s->lock);
    for (struct kt_ticket *ticket; (ticket = kt_queue_pop(&inbox)) != NULL;)
        kt_clients_enter(s, ticket);
    if (cancels || *stops)
        end_cancelled(s, *stops);
    return !over;
}

void *kt_scheduler_main(void *scheduler)
{
    struct kt_scheduler *s = scheduler;
    bool stops;
    for (;;) {
        uint64_t begin = kt_now();
        bool waited = s->n_mine == 0;
        double model = s->stats.model_seconds;
        if (!take_news(s, &stops))
            return NULL;
        kt_room_start(s);
        if (s->n_running == 0)
            continue;
        kt_run_step(s);
        if (!waited)
            s->stats.other_seconds += (double)(kt_now() - begin) * 1e-9 - (s->stats.model_seconds - model);
        kt_scheduler_show(s);
    }
}

/* ---- figures ---- */

void kt_scheduler_show(struct kt_scheduler *s)
{
    struct kt_kv_info cache;
    uint64_t used = 0;
    kt_model_cache(s->model, &cache);
    for (uint32_t i = 0; i < s->n_running; i++)
        used += kt_pages(s->running[i]->n_done);
    s->stats.running = s->n_running;
    s->stats.prefixes = s->n_prefixes;
    s->stats.pages = cache.n_pages;
    s->stats.pages_free = cache.free_pages;
    s->stats.pages_kept = cache.used_pages > used ? cache.used_pages - used : 0;
    pthread_mutex_lock(&s->lock);
    s->shown = s->stats;
    pthread_mutex_unlock(&s->lock);
}

void kt_scheduler_stats(struct kt_scheduler *s, struct kt_scheduler_stats *stats)
{
    pthread_mutex_lock(&s->lock);
    *stats = s->shown;
    stats->queued = s->n_waiting;
    stats->taken = s->n_taken;
    stats->refused = s->n_refused;
    pthread_mutex_unlock(&s->lock);
}

/* ---- a life ---- */

static enum kt_status take_params(struct kt_scheduler *s, const struct kt_scheduler_params *given,
                                  struct kt_error *error)
{
    struct kt_scheduler_params *p = &s->params;
    struct kt_kv_info cache;
    kt_model_info(s->model, &s->info);
    kt_model_cache(s->model, &cache);
    if (given)
        *p = *given;
    uint64_t room = (uint64_t)cache.n_pages * KT_KV_PAGE;
    s->vocabulary = s->info.vocabulary;
    s->chosen_from = p->vocabulary ? p->vocabulary : s->info.vocabulary;
    s->longest = s->info.max_tokens < room ? s->info.max_tokens : room;
    s->n_pages = cache.n_pages;
    s->max_sessions = cache.max_sequences;
    s->has_states = cache.state_bytes > 0;
    p->max_running = p->max_running ? p->max_running : (s->max_sessions + 1) / 2;
    p->max_queued = p->max_queued ? p->max_queued : 256;
    p->slice_tokens = p->slice_tokens ? p->slice_tokens : 512;
    p->min_slice = p->min_slice ? p->min_slice : 8;
    p->step_us = p->step_us ? p->step_us : 1000000;
    p->headroom = p->headroom ? p->headroom : 256;
    p->snapshot_tokens = p->snapshot_tokens ? p->snapshot_tokens : 2048;
    if (p->drafts > KT_DRAFTS_MTP)
        return kt_engine_fail(error, KT_E_INVALID, "kt_scheduler_create: drafts %u is not an enum kt_drafts",
                              p->drafts);
    if (p->max_running > s->max_sessions || s->chosen_from > s->vocabulary ||
        p->snapshot_tokens % KT_KV_PAGE != 0 || (!p->end_ids && p->n_end_ids > 0) || cache.n_sequences > 0)
        return kt_engine_fail(
            error, KT_E_INVALID,
            "kt_scheduler_create: %u requests at once of %u sessions, %u of which are open "
            "already; ids below %llu of %llu; snapshots each %u tokens, which must be whole "
            "pages of %d",
            p->max_running, s->max_sessions, cache.n_sequences, (unsigned long long)s->chosen_from,
            (unsigned long long)s->vocabulary, p->snapshot_tokens, KT_KV_PAGE);
    kt_gain_init(&s->gain, p->drafts == KT_DRAFTS_AUTO);
    kt_pace_init(&s->pace, p->min_slice, p->slice_tokens, p->slice_us * 1e-6, p->step_us * 1e-6);
    return KT_OK;
}

uint32_t kt_scheduler_rows(uint32_t max_running)
{
    return max_running + KT_MORE_ROWS;
}

static bool allocate(struct kt_scheduler *s, const struct kt_scheduler_params *given)
{
    uint32_t n = s->params.max_running;
    s->end_ids = calloc((size_t)s->params.n_end_ids + 1, sizeof(*s->end_ids));
    s->running = calloc(n, sizeof(struct kt_ticket *));
    s->stepped = calloc(n, sizeof(struct kt_ticket *));
    s->ordered = calloc(n, sizeof(struct kt_ticket *));
    s->steps = calloc(n, sizeof(*s->steps));
    s->hidden = calloc(n, sizeof(*s->hidden));
    s->prefixes = calloc((size_t)s->max_sessions + 1, sizeof(struct kt_prefix *));
    s->logits = calloc(kt_scheduler_rows(n), s->vocabulary * sizeof(*s->logits));
    s->mask = calloc((s->vocabulary + 63) / 64, sizeof(*s->mask));
    if (!s->end_ids || !s->running || !s->stepped || !s->ordered || !s->steps || !s->hidden || !s->prefixes ||
        !s->logits || !s->mask)
        return false;
    if (s->params.n_end_ids > 0)
        memcpy(s->end_ids, given->end_ids, s->params.n_end_ids * sizeof(*s->end_ids));
    s->params.end_ids = s->end_ids;
    return true;
}

void kt_scheduler_release(struct kt_scheduler *s)
{
    if (atomic_fetch_sub(&s->references, 1) != 1)
        return;
    pthread_cond_destroy(&s->idle);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* All but what tickets still need: the lock. */
static void empty(struct kt_scheduler *s)
{
    while (kt_prefix_drop(s, NULL))
        continue;
    kt_clients_free(s);
    free(s->end_ids);
    free(s->running);
    free(s->stepped);
    free(s->ordered);
    free(s->steps);
    free(s->hidden);
    free(s->states);
    free(s->prefixes);
    free(s->logits);
    free(s->mask);
}

static enum kt_status start_thread(struct kt_scheduler *s, struct kt_error *error)
{
    int failed = kt_engine_thread(&s->thread, kt_scheduler_main, s);
    return failed ? kt_engine_fail(error, KT_E_SYSTEM, "no thread for the scheduler: %s", strerror(failed))
                  : KT_OK;
}

enum kt_status kt_scheduler_create(struct kt_context *context, struct kt_model *model,
                                   const struct kt_scheduler_params *params, struct kt_scheduler **scheduler,
                                   struct kt_error *error)
{
    if (!model || !scheduler)
        return kt_engine_fail(error, KT_E_INVALID, "kt_scheduler_create: NULL");
    struct kt_scheduler *s = calloc(1, sizeof(*s));
    if (!s)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a scheduler");
    s->context = context;
    s->model = model;
    atomic_init(&s->references, 1);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->idle, NULL);
    enum kt_status status = take_params(s, params, error);
    if (status == KT_OK && !allocate(s, params))
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for %u requests at once of %llu logits each",
                                s->params.max_running, (unsigned long long)s->vocabulary);
    if (status == KT_OK) {
        kt_scheduler_show(s);
        status = start_thread(s, error);
    }
    if (status != KT_OK) {
        empty(s);
        kt_scheduler_release(s);
        return status;
    }
    *scheduler = s;
    return KT_OK;
}

void kt_scheduler_refuse(struct kt_scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->refuses = true;
    pthread_mutex_unlock(&s->lock);
}

void kt_scheduler_drain(struct kt_scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->refuses = true;
    while (s->n_live > 0)
        pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void kt_scheduler_destroy(struct kt_scheduler *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->refuses = s->stops = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    empty(s);
    kt_scheduler_release(s);
}
