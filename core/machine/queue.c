/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "core/machine/queue.h"

#include "core/base/error.h"
#include "core/layer/layer.h"
#include "core/machine/thread.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A ticket is a running number, from 1 on, times the depth, plus its slot: so 0 is never one, and a ticket
 * that nobody waits for yet takes one place, not that of all that come after. */
enum slot_state { SLOT_FREE, SLOT_SUBMITTED, SLOT_DONE };

#define NO_SLOT UINT32_MAX

struct slot {
    uint64_t ticket;
    enum slot_state state;
    uint32_t next; /* in its list */
    enum kt_status status;
    struct kt_layer *layer;
    struct kt_task task;
    struct kt_error error;
};

struct kt_queue {
    struct kt_pool *pool;
    uint32_t depth;
    struct slot *slot;
    uint32_t free;        /* list of slots; guarded by lock, as all that follows and the slots are */
    uint32_t first, last; /* list of those that are yet to be run, in order */
    uint64_t submitted;   /* tickets given out */
    uint64_t finished;    /* tickets done, in order */
    uint64_t settled;     /* of these, whose tasks have nothing left to do */
    pthread_mutex_t lock;
    struct kt_event work; /* counts submits: the queue's thread waits on it */
    struct kt_event done; /* counts finished and settled tickets: the waiters wait on it */
    atomic_bool stop;
    bool started;
    pthread_t thread;
};

static void run_next(struct kt_queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    struct slot *slot = &queue->slot[queue->first];
    queue->first = slot->next;
    (void)pthread_mutex_unlock(&queue->lock);
    /* The slot is this thread's until it says SLOT_DONE; its ticket, state and status are looked at by
     * every waiter, so they change under the lock only. */
    enum kt_status status = slot->task.run(slot->layer, &slot->task, &slot->error);
    /* Once done, the slot may be given to another. */
    struct kt_layer *layer = slot->layer;
    struct kt_deferral *deferral = slot->task.deferral;
    void (*after)(struct kt_layer *, struct kt_deferral *) = slot->task.after;
    (void)pthread_mutex_lock(&queue->lock);
    slot->status = status;
    slot->state = SLOT_DONE;
    queue->finished++;
    (void)pthread_mutex_unlock(&queue->lock);
    if (after) {
        kt_event_set(&queue->done, (unsigned)(queue->finished + queue->settled));
        after(layer, deferral);
    }
    (void)pthread_mutex_lock(&queue->lock);
    queue->settled++;
    atomic_fetch_sub(&layer->outstanding, 1);
    (void)pthread_mutex_unlock(&queue->lock);
    kt_event_set(&queue->done, (unsigned)(queue->finished + queue->settled));
}

static void *serve(void *argument)
{
    struct kt_queue *queue = argument;
    (void)pthread_setname_np(pthread_self(), "kt-queue");
    if (queue->pool->bound)
        (void)sched_setaffinity(0, sizeof queue->pool->first, &queue->pool->first);
    unsigned seen = 0;
    for (;;) {
        unsigned submitted = kt_event_wait(&queue->work, seen, queue->pool->idle);
        if (atomic_load(&queue->stop))
            return NULL;
        for (; seen != submitted; seen++)
            run_next(queue);
    }
}

enum kt_status kt_queue_create(struct kt_pool *pool, uint32_t depth, struct kt_queue **out,
                               struct kt_error *error)
{
    struct kt_queue *queue = aligned_alloc(64, (sizeof *queue + 63) / 64 * 64);
    if (!queue)
        return kt_fail(error, KT_E_NOMEM, "no memory for the queue");
    memset(queue, 0, sizeof *queue);
    queue->pool = pool;
    queue->depth = depth;
    (void)pthread_mutex_init(&queue->lock, NULL);
    queue->slot = calloc(depth, sizeof *queue->slot);
    if (!queue->slot) {
        kt_queue_destroy(queue);
        return kt_fail(error, KT_E_NOMEM, "no memory for a queue of %u tickets", depth);
    }
    queue->first = queue->last = NO_SLOT;
    for (uint32_t i = 0; i < depth; i++)
        queue->slot[i].next = i + 1 < depth ? i + 1 : NO_SLOT;
    int failure = kt_thread_start(&queue->thread, serve, queue);
    if (failure) {
        kt_queue_destroy(queue);
        return kt_fail(error, KT_E_SYSTEM, "could not start the queue's thread: %s", strerror(failure));
    }
    queue->started = true;
    *out = queue;
    return KT_OK;
}

void kt_queue_destroy(struct kt_queue *queue)
{
    if (!queue)
        return;
    if (queue->started && queue->pool->pid == getpid()) {
        kt_queue_drain(queue);
        atomic_store(&queue->stop, true);
        kt_event_set(&queue->work, kt_event_value(&queue->work) + 1);
        (void)pthread_join(queue->thread, NULL);
    }
    (void)pthread_mutex_destroy(&queue->lock);
    free(queue->slot);
    free(queue);
}

static enum kt_status fail_forked(struct kt_error *error)
{
    return kt_fail(error, KT_E_STATE,
                   "this process is a fork without the context's threads; make a context after the "
                   "fork");
}

enum kt_status kt_queue_submit(struct kt_queue *queue, struct kt_layer *layer, const struct kt_task *task,
                               uint64_t *ticket, struct kt_error *error)
{
    if (queue->pool->pid != getpid())
        return fail_forked(error);
    (void)pthread_mutex_lock(&queue->lock);
    uint32_t index = queue->free;
    if (index == NO_SLOT) {
        (void)pthread_mutex_unlock(&queue->lock);
        return kt_fail(error, KT_E_BUSY,
                       "%s: %u tickets have not been waited for, and core.queue_depth is %u; wait for older "
                       "tickets first",
                       layer->name, queue->depth, queue->depth);
    }
    struct slot *slot = &queue->slot[index];
    queue->free = slot->next;
    slot->next = NO_SLOT;
    if (queue->first == NO_SLOT)
        queue->first = index;
    else
        queue->slot[queue->last].next = index;
    queue->last = index;
    slot->ticket = ++queue->submitted * queue->depth + index;
    slot->state = SLOT_SUBMITTED;
    slot->layer = layer;
    slot->task = *task;
    slot->error = (struct kt_error){KT_OK, ""};
    uint64_t given = slot->ticket;
    atomic_fetch_add(&layer->outstanding, 1);
    kt_event_set(&queue->work, (unsigned)queue->submitted);
    (void)pthread_mutex_unlock(&queue->lock);
    *ticket = given;
    return KT_OK;
}

/* Takes the ticket's result if it is done. KT_E_INVALID if there is no such ticket. */
static enum kt_status take_result(struct kt_queue *queue, uint64_t ticket, bool *done, struct kt_error *error)
{
    struct slot *slot = &queue->slot[ticket % queue->depth];
    (void)pthread_mutex_lock(&queue->lock);
    bool known = slot->ticket == ticket && slot->state != SLOT_FREE;
    enum kt_status status = slot->status;
    *done = known && slot->state == SLOT_DONE;
    if (*done) {
        slot->state = SLOT_FREE;
        slot->next = queue->free;
        queue->free = (uint32_t)(slot - queue->slot);
        if (error && status != KT_OK)
            *error = slot->error;
    }
    (void)pthread_mutex_unlock(&queue->lock);
    if (*done)
        return status;
    *done = !known;
    return known ? KT_OK
                 : kt_fail(error, KT_E_INVALID,
                           "ticket %llu is not outstanding: it was never given out, or waited for before",
                           (unsigned long long)ticket);
}

/* Does this thread sit where one of the pool's wants to run, or must some thread? */
static bool is_in_the_way(const struct kt_pool *pool)
{
    int cpu = pool->bound ? sched_getcpu() : -1;
    return pool->full || (cpu >= 0 && cpu < CPU_SETSIZE &&
                          (CPU_ISSET((size_t)cpu, &pool->first) || CPU_ISSET((size_t)cpu, &pool->others)));
}

/* The pool computes meanwhile: waiting must not take a core from it for long, and not at all where the work
 * may not even begin before. */
static struct kt_patience waiting(const struct kt_queue *queue)
{
    return (struct kt_patience){is_in_the_way(queue->pool) ? 0 : 20, queue->pool->busy.yield};
}

enum kt_status kt_queue_wait(struct kt_queue *queue, uint64_t ticket, struct kt_error *error)
{
    if (queue->pool->pid != getpid())
        return fail_forked(error);
    for (;;) {
        bool done;
        unsigned seen = kt_event_value(&queue->done);
        enum kt_status status = take_result(queue, ticket, &done, error);
        if (done)
            return status;
        (void)kt_event_wait(&queue->done, seen, waiting(queue));
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

enum kt_status kt_queue_wait_for(struct kt_queue *queue, uint64_t ticket, uint32_t timeout_ms, bool *done,
                                 struct kt_error *error)
{
    *done = true;
    if (queue->pool->pid != getpid())
        return fail_forked(error);
    for (uint64_t end = now_ns() + UINT64_C(1000000) * timeout_ms;;) {
        unsigned seen = kt_event_value(&queue->done);
        enum kt_status status = take_result(queue, ticket, done, error);
        uint64_t now = now_ns();
        if (*done || now >= end)
            return status;
        (void)kt_event_wait_for(&queue->done, seen, waiting(queue), end - now);
    }
}

void kt_queue_drain(struct kt_queue *queue)
{
    if (queue->pool->pid != getpid())
        return;
    (void)pthread_mutex_lock(&queue->lock);
    uint64_t until = queue->submitted;
    uint64_t settled = queue->settled;
    (void)pthread_mutex_unlock(&queue->lock);
    while (settled < until) {
        unsigned seen = kt_event_value(&queue->done);
        (void)pthread_mutex_lock(&queue->lock);
        settled = queue->settled;
        (void)pthread_mutex_unlock(&queue->lock);
        if (settled < until)
            (void)kt_event_wait(&queue->done, seen, queue->pool->busy);
    }
}

static enum kt_status run_forward(struct kt_layer *layer, const struct kt_task *task, struct kt_error *error)
{
    return kt_forward_run(layer, &task->forward, NULL, error);
}

static enum kt_status run_unpack(struct kt_layer *layer, const struct kt_task *task, struct kt_error *error)
{
    return kt_unpack_run(layer, &task->unpacking, error);
}

enum kt_status kt_task_submit(struct kt_layer *layer, const struct kt_task *task, uint64_t *ticket,
                              struct kt_error *error)
{
    if (!ticket)
        return kt_fail(error, KT_E_INVALID, "%s: ticket must not be NULL", layer->name);
    return kt_queue_submit(layer->context->queue, layer, task, ticket, error);
}

enum kt_status kt_layer_submit(struct kt_layer *layer, const struct kt_forward *given, uint64_t *ticket,
                               struct kt_error *error)
{
    struct kt_task task = {.run = run_forward};
    enum kt_status status = kt_forward_check(layer, given, &task.forward, error);
    return status == KT_OK ? kt_task_submit(layer, &task, ticket, error) : status;
}

enum kt_status kt_layer_submit_unpack(struct kt_layer *layer, uint32_t expert, uint32_t n_ranks,
                                      const struct kt_unpack_buffers *ranks, uint64_t *ticket,
                                      struct kt_error *error)
{
    struct kt_task task = {.run = run_unpack, .unpacking = {expert, n_ranks, ranks}};
    enum kt_status status = kt_unpack_check(layer, &task.unpacking, error);
    return status == KT_OK ? kt_task_submit(layer, &task, ticket, error) : status;
}

enum kt_status kt_wait(struct kt_context *context, uint64_t ticket, struct kt_error *error)
{
    return context ? kt_queue_wait(context->queue, ticket, error)
                   : kt_fail(error, KT_E_INVALID, "kt_wait: context must not be NULL");
}
