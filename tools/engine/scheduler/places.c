/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.c - places in the queue, which are taken before anything is allocated for a request. Each client has
 * a share: as many as SHARE times those that are free. So whoever asks for more than the model can do is
 * refused alone, and one who asks now and then finds a place; a client that is alone has nearly all of them.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/scheduler/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 7

/* A client, as long as it has requests. */
struct kt_place {
    struct kt_place *next;
    uint64_t n_waiting, n_live;
    char name[];
};

/* NULL: no memory. */
static struct kt_place *find(struct kt_scheduler *s, const char *name)
{
    struct kt_place *place = s->places;
    while (place && strcmp(place->name, name) != 0)
        place = place->next;
    if (place)
        return place;
    place = calloc(1, sizeof(*place) + strlen(name) + 1);
    if (!place)
        return NULL;
    memcpy(place->name, name, strlen(name) + 1);
    place->next = s->places;
    s->places = place;
    return place;
}

static void forget(struct kt_scheduler *s, struct kt_place *place)
{
    struct kt_place **at = &s->places;
    if (!place || place->n_live > 0)
        return;
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    free(place);
}

/* Its place counts from now on, if this is KT_OK. */
static enum kt_status check(const struct kt_scheduler *s, const struct kt_place *place,
                            struct kt_error *error)
{
    uint64_t most = s->params.max_queued, left = s->n_waiting < most ? most - s->n_waiting : 0;
    if (s->refuses)
        return kt_engine_fail(error, KT_E_STATE, "no more requests are taken: this is about to end");
    if (!place)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a request");
    if (left == 0)
        return kt_engine_fail(error, KT_E_BUSY, "the queue is full: %" PRIu64 " requests are waiting",
                              s->n_waiting);
    if (place->n_waiting >= SHARE * left)
        return kt_engine_fail(error, KT_E_BUSY,
                              "%" PRIu64 " requests of this client wait already; the last %" PRIu64
                              " places of the queue are for others",
                              place->n_waiting, left);
    return KT_OK;
}

enum kt_status kt_place_take(struct kt_scheduler *s, const char *client, struct kt_place **place,
                             struct kt_error *error)
{
    pthread_mutex_lock(&s->lock);
    struct kt_place *own = s->refuses ? NULL : find(s, client);
    enum kt_status status = check(s, own, error);
    if (status == KT_OK) {
        s->n_waiting++;
        s->n_live++;
        own->n_waiting++;
        own->n_live++;
        *place = own;
    } else {
        s->n_refused++;
        forget(s, own);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

void kt_place_leave(struct kt_scheduler *s, struct kt_place *place)
{
    pthread_mutex_lock(&s->lock);
    s->n_waiting--;
    place->n_waiting--;
    pthread_mutex_unlock(&s->lock);
}

void kt_place_return(struct kt_scheduler *s, struct kt_place *place)
{
    pthread_mutex_lock(&s->lock);
    s->n_waiting++;
    place->n_waiting++;
    pthread_mutex_unlock(&s->lock);
}

static void drop(struct kt_scheduler *s, struct kt_place *place)
{
    place->n_live--;
    forget(s, place);
    if (--s->n_live == 0) {
        pthread_cond_broadcast(&s->idle);
        pthread_cond_signal(&s->wake);
    }
}

void kt_place_refuse(struct kt_scheduler *s, struct kt_place *place)
{
    pthread_mutex_lock(&s->lock);
    s->n_waiting--;
    s->n_refused++;
    place->n_waiting--;
    drop(s, place);
    pthread_mutex_unlock(&s->lock);
}

void kt_place_drop(struct kt_scheduler *s, struct kt_place *place)
{
    pthread_mutex_lock(&s->lock);
    drop(s, place);
    pthread_mutex_unlock(&s->lock);
}
