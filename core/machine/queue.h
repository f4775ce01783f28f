/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h - work that was submitted: first in, first out, run by one thread that takes part in the pool
 * as thread 0. A slot is taken from submit until its ticket has been waited for, so nothing
 * is allocated after creation.
 */
#ifndef KT_CORE_MACHINE_QUEUE_H
#define KT_CORE_MACHINE_QUEUE_H

#include "core/machine/event.h"
#include "core/machine/pool.h"
#include "core/forward/unpack.h"

#include <kt/kt.h>

struct kt_queue;

/* What is to be done with a layer; arguments are checked and complete. */
struct kt_task {
    enum kt_status (*run)(struct kt_layer *layer, const struct kt_task *task, struct kt_error *error);
    /* Runs after the ticket is done and before the next task; NULL: nothing does. */
    void (*after)(struct kt_layer *layer, struct kt_deferral *deferral);
    struct kt_deferral *deferral; /* or NULL */
    uint32_t position;            /* in it */
    union {
        struct kt_forward forward;
        struct kt_unpacking unpacking;
    };
};

enum kt_status kt_queue_create(struct kt_pool *pool, uint32_t depth, struct kt_queue **queue,
                               struct kt_error *error);
/* Finishes what was submitted first. */
void kt_queue_destroy(struct kt_queue *queue);

/* Copies the task. */
enum kt_status kt_queue_submit(struct kt_queue *queue, struct kt_layer *layer, const struct kt_task *task,
                               uint64_t *ticket, struct kt_error *error);
/* The same for any layer's task of the context, as the public functions do it. */
enum kt_status kt_task_submit(struct kt_layer *layer, const struct kt_task *task, uint64_t *ticket,
                              struct kt_error *error);
enum kt_status kt_queue_wait(struct kt_queue *queue, uint64_t ticket, struct kt_error *error);

/* The same, but no longer than `timeout_ms`: then `done` is false, nothing is returned, and the ticket is
 * still to be waited for. */
enum kt_status kt_queue_wait_for(struct kt_queue *queue, uint64_t ticket, uint32_t timeout_ms, bool *done,
                                 struct kt_error *error);

/* Returns when everything submitted so far is done. */
void kt_queue_drain(struct kt_queue *queue);

#endif
