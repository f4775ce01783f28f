/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/scheduler/asker.h"

#include "tests/engine/scheduler/stand_in.h"

#include <string.h>

static uint64_t n_ended;

static int take_token(void *data, const struct kt_choice *token)
{
    struct asker *asker = data;
    pthread_mutex_lock(&asker->lock);
    must_say(!asker->ended, "a token behind the end");
    must(asker->n_got < ASKER_IDS);
    asker->got[asker->n_got++] = token->id;
    bool stop = asker->n_got == asker->stop_after;
    if (asker->n_got == asker->hold_after)
        asker->hold();
    pthread_cond_broadcast(&asker->changed);
    pthread_mutex_unlock(&asker->lock);
    return stop;
}

void asker_score(void *data, uint64_t index, const struct kt_choice *token)
{
    struct asker *asker = data;
    must_say(index == ++asker->n_scored, "scores come in order, and once");
    must(index < asker->n_prompt && token->id == asker->prompt[index] && asker->n_got == 0);
    asker->scores[index] = token->logprob;
}

static void take_end(void *data, const struct kt_request_end *end)
{
    struct asker *asker = data;
    struct kt_scheduler_stats stats;
    kt_scheduler_stats(asker->scheduler, &stats);
    pthread_mutex_lock(&asker->lock);
    must_say(!asker->ended, "two ends");
    asker->ended = true;
    asker->end = *end;
    if (end->error)
        asker->error = *end->error;
    asker->stats = stats;
    asker->order = __atomic_fetch_add(&n_ended, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&asker->changed);
    pthread_mutex_unlock(&asker->lock);
}

static int32_t number(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
    return (int32_t)((x >> 33) % STAND_IN_IDS);
}

void asker_init(struct asker *asker, unsigned int seed, uint64_t n, uint64_t common, uint64_t max_tokens)
{
    memset(asker, 0, sizeof(*asker));
    must(n <= ASKER_IDS);
    for (uint64_t i = 0; i < n; i++)
        asker->prompt[i] = number(i < common ? seed / 1000 : seed + 1000000, i);
    asker->n_prompt = n;
    asker->request = (struct kt_request){.ids = asker->prompt,
                                         .n_ids = n,
                                         .max_tokens = max_tokens,
                                         .data = asker,
                                         .on_token = take_token,
                                         .on_end = take_end};
    pthread_mutex_init(&asker->lock, NULL);
    pthread_cond_init(&asker->changed, NULL);
}

enum kt_status asker_try(struct asker *asker, struct kt_scheduler *scheduler, struct kt_error *error)
{
    asker->scheduler = scheduler;
    return kt_scheduler_submit(scheduler, &asker->request, &asker->ticket, error);
}

void asker_submit(struct asker *asker, struct kt_scheduler *scheduler)
{
    struct kt_error error = {KT_OK, ""};
    must_say(asker_try(asker, scheduler, &error) == KT_OK, "%s", error.message);
}

void asker_wait(struct asker *asker)
{
    pthread_mutex_lock(&asker->lock);
    while (!asker->ended)
        pthread_cond_wait(&asker->changed, &asker->lock);
    pthread_mutex_unlock(&asker->lock);
    kt_ticket_release(asker->ticket);
    asker->ticket = NULL;
}

void asker_wait_for_tokens(struct asker *asker, uint64_t n)
{
    pthread_mutex_lock(&asker->lock);
    while (!asker->ended && asker->n_got < n)
        pthread_cond_wait(&asker->changed, &asker->lock);
    pthread_mutex_unlock(&asker->lock);
}
