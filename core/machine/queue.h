/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h - submitted tasks: first in, first out, run by one thread that is thread 0 of the pool's runs. A
 * task has a slot from its submission until its ticket has been waited for, so nothing is allocated after
 * creation.
 */
#ifndef KT_CORE_MACHINE_QUEUE_H
#define KT_CORE_MACHINE_QUEUE_H

#include "core/machine/pool.h"

#include <kt/types.h>
#include <stdatomic.h>
#include <stdbool.h>

struct kt_queue;

/* The largest argument of a task, in bytes. */
enum { KT_TASK_ARGUMENT = 192 };

struct kt_task {
    /* Returns the result of the ticket. */
    enum kt_status (*run)(const void *argument, struct kt_error *error);
    /* Runs once the ticket is done and before the next task; NULL: nothing does. */
    void (*after)(void *data);
    void *after_data;
    const char *name;         /* of the owner, such as a layer, for messages */
    atomic_uint *outstanding; /* the owner's count of tasks that have not ended, `after` included; or NULL */
};

enum kt_status kt_queue_create(struct kt_pool *pool, uint32_t depth, struct kt_queue **queue,
                               struct kt_error *error);
/* Finishes what was submitted first. */
void kt_queue_destroy(struct kt_queue *queue);

/* Copies the task and `size` bytes of its argument. KT_E_BUSY: no slot is free. */
enum kt_status kt_queue_submit(struct kt_queue *queue, const struct kt_task *task, const void *argument,
                               size_t size, uint64_t *ticket, struct kt_error *error);
enum kt_status kt_queue_wait(struct kt_queue *queue, uint64_t ticket, struct kt_error *error);

/* The same, but after `timeout_ms` it sets *done to false, and the ticket can be waited for again. */
enum kt_status kt_queue_wait_for(struct kt_queue *queue, uint64_t ticket, uint32_t timeout_ms, bool *done,
                                 struct kt_error *error);

/* Returns when everything submitted so far has ended. */
void kt_queue_drain(struct kt_queue *queue);

#endif
