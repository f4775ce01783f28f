/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c - whose turn it is. A client's charge grows with the tokens that were computed for it; the one of
 * the least charge is next, and who comes back is charged as much as that one at least. */
#include "tools/engine/scheduler/internal.h"

#include <stdlib.h>
#include <string.h>

/* Clients without requests that are remembered, so that going away and coming back gains nothing. */
#define MAX_CLIENTS 1024

/* ---- queues ---- */

void kt_queue_push(struct kt_queue *queue, struct kt_ticket *ticket)
{
    ticket->next = NULL;
    if (queue->last)
        queue->last->next = ticket;
    else
        queue->first = ticket;
    queue->last = ticket;
    queue->n++;
}

void kt_queue_push_first(struct kt_queue *queue, struct kt_ticket *ticket)
{
    ticket->next = queue->first;
    queue->first = ticket;
    if (!queue->last)
        queue->last = ticket;
    queue->n++;
}

struct kt_ticket *kt_queue_pop(struct kt_queue *queue)
{
    struct kt_ticket *ticket = queue->first;
    if (!ticket)
        return NULL;
    queue->first = ticket->next;
    if (!queue->first)
        queue->last = NULL;
    queue->n--;
    ticket->next = NULL;
    return ticket;
}

/* ---- clients ---- */

/* Forgets those who are away and would gain nothing by it, and any if there are too many. */
static void forget(struct kt_scheduler *s)
{
    struct kt_client **at = &s->clients;
    while (*at) {
        struct kt_client *client = *at;
        if (client->n_requests > 0 || (client->charge > s->clock && s->n_clients <= MAX_CLIENTS)) {
            at = &client->next;
            continue;
        }
        *at = client->next;
        free(client);
        s->n_clients--;
    }
}

static void measure_clock(struct kt_scheduler *s)
{
    uint64_t least = UINT64_MAX;
    for (const struct kt_client *c = s->clients; c; c = c->next)
        if (c->n_requests > 0 && c->charge < least)
            least = c->charge;
    if (least != UINT64_MAX && least > s->clock)
        s->clock = least;
}

void kt_clients_enter(struct kt_scheduler *s, struct kt_ticket *ticket)
{
    struct kt_client *fresh = ticket->client, *known = s->clients;
    measure_clock(s);
    while (known && strcmp(known->name, fresh->name) != 0)
        known = known->next;
    if (known) {
        free(fresh);
    } else {
        known = fresh;
        known->next = s->clients;
        s->clients = known;
        s->n_clients++;
    }
    if (known->n_requests == 0 && known->charge < s->clock)
        known->charge = s->clock;
    known->n_requests++;
    s->n_mine++;
    ticket->client = known;
    kt_queue_push(&known->queue, ticket);
}

void kt_clients_leave(struct kt_scheduler *s, struct kt_client *client)
{
    s->n_mine--;
    if (--client->n_requests == 0)
        forget(s);
}

void kt_clients_measure(struct kt_scheduler *s)
{
    measure_clock(s);
    for (struct kt_client *c = s->clients; c; c = c->next) {
        c->pending = 0;
        c->passed = false;
    }
    for (uint32_t i = 0; i < s->n_running; i++)
        s->running[i]->client->pending += kt_pending(s->running[i]);
}

/* What will have been computed for it when all that it runs now is read: so the second of its long prompts
 * comes behind the first one of somebody else. */
static uint64_t due(const struct kt_client *client)
{
    return client->charge + client->pending;
}

struct kt_client *kt_clients_next(const struct kt_scheduler *s)
{
    struct kt_client *best = NULL;
    for (struct kt_client *c = s->clients; c; c = c->next)
        if (c->queue.first && !c->passed && (!best || due(c) < due(best)))
            best = c;
    return best;
}

void kt_clients_free(struct kt_scheduler *s)
{
    while (s->clients) {
        struct kt_client *next = s->clients->next;
        free(s->clients);
        s->clients = next;
    }
}
