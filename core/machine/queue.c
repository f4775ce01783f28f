/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - tasks wait in slots of a list, results in the same slots. */
#define _GNU_SOURCE /* sched_getcpu, CPU_ISSET, pthread_setname_np */
#include "core/machine/queue.h"

#include "core/base/error.h"
#include "core/machine/clock.h"
#include "core/machine/event.h"
#include "core/machine/thread.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A ticket is a running number, from 1 on, times the depth, plus the index of its slot: so no ticket is 0,
 * and one that nobody has waited for yet occupies one slot, while later ones come and go. */
enum slot_state { SLOT_FREE, SLOT_SUBMITTED, SLOT_DONE };

#define NO_SLOT UINT32_MAX

struct slot {
    uint64_t ticket;
    enum slot_state state;
    uint32_t next; /* in its list */
    enum kt_status status;
    struct kt_task task;
    struct kt_error error;
    _Alignas(max_align_t) unsigned char argument[KT_TASK_ARGUMENT];
};

struct kt_queue {
    struct kt_pool *pool;
    uint32_t depth;
    struct slot *slot;
    /* Guarded by the lock, as the slots are: */
    uint32_t free;        /* list of free slots */
    uint32_t first, last; /* list of tasks that have not started, in order */
    uint64_t submitted;   /* tickets given out */
    uint64_t finished;    /* tasks whose results are there */
    uint64_t settled;     /* of these, those whose function `after` has returned, too */
    pthread_mutex_t lock;
    struct kt_event work; /* counts submits: the queue's thread waits on it */
    struct kt_event done; /* counts finished and settled tasks: waiters wait on it */
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
    /* The slot is this thread's until its state is SLOT_DONE; waiters read its ticket, state and status, so
     * these change under the lock only. */
    enum kt_status status = slot->task.run(slot->argument, &slot->error);
    /* Copied, because the slot may be taken by another task as soon as this one is done. */
    struct kt_task task = slot->task;
    (void)pthread_mutex_lock(&queue->lock);
    slot->status = status;
    slot->state = SLOT_DONE;
    queue->finished++;
    (void)pthread_mutex_unlock(&queue->lock);
    if (task.after) {
        kt_event_set(&queue->done, (unsigned)(queue->finished + queue->settled));
        task.after(task.after_data);
    }
    (void)pthread_mutex_lock(&queue->lock);
    queue->settled++;
    if (task.outstanding)
        atomic_fetch_sub(task.outstanding, 1);
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
        return kt_fail(error, KT_E_SYSTEM, "cannot start the queue's thread: %s", strerror(failure));
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

enum kt_status kt_queue_submit(struct kt_queue *queue, const struct kt_task *task, const void *argument,
                               size_t size, uint64_t *ticket, struct kt_error *error)
{
    if (!ticket)
        return kt_fail(error, KT_E_INVALID, "%s: ticket must not be NULL", task->name);
    if (queue->pool->pid != getpid())
        return fail_forked(error);
    (void)pthread_mutex_lock(&queue->lock);
    uint32_t index = queue->free;
    if (index == NO_SLOT) {
        (void)pthread_mutex_unlock(&queue->lock);
        return kt_fail(error, KT_E_BUSY,
                       "%s: %u tickets have not been waited for, and core.queue_depth is %u; wait for older "
                       "tickets first",
                       task->name, queue->depth, queue->depth);
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
    slot->task = *task;
    memcpy(slot->argument, argument, size);
    slot->error = (struct kt_error){KT_OK, ""};
    uint64_t given = slot->ticket;
    if (task->outstanding)
        atomic_fetch_add(task->outstanding, 1);
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
                 : kt_fail(
                       error, KT_E_INVALID,
                       "ticket %llu is not outstanding: it was never issued, or has already been waited for",
                       (unsigned long long)ticket);
}

/* Would spinning here take a core from a thread of the pool? */
static bool takes_core(const struct kt_pool *pool)
{
    int cpu = pool->bound ? sched_getcpu() : -1;
    return pool->full || (cpu >= 0 && cpu < CPU_SETSIZE &&
                          (CPU_ISSET((size_t)cpu, &pool->first) || CPU_ISSET((size_t)cpu, &pool->others)));
}

/* The pool computes meanwhile, so a waiter spins for a short time, and not at all where the work could not
 * even begin while it spins. */
static struct kt_patience waiting(const struct kt_queue *queue)
{
    return (struct kt_patience){takes_core(queue->pool) ? 0 : 20, queue->pool->busy.yield};
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

enum kt_status kt_queue_wait_for(struct kt_queue *queue, uint64_t ticket, uint32_t timeout_ms, bool *done,
                                 struct kt_error *error)
{
    *done = true;
    if (queue->pool->pid != getpid())
        return fail_forked(error);
    for (uint64_t end = kt_now_ns() + UINT64_C(1000000) * timeout_ms;;) {
        unsigned seen = kt_event_value(&queue->done);
        enum kt_status status = take_result(queue, ticket, done, error);
        uint64_t now = kt_now_ns();
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
