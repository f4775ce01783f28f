/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h - forwards that were submitted: first in, first out, run by one thread that takes part in
 * the pool as thread 0. A slot is taken from submit until its ticket has been waited for, so nothing
 * is allocated after creation.
 */
#ifndef KT_CORE_QUEUE_H
#define KT_CORE_QUEUE_H

#include "core/event.h"
#include "core/pool.h"

#include <kt/kt.h>

struct kt_queue;

enum kt_status kt_queue_create(struct kt_pool *pool, uint32_t depth, struct kt_queue **queue,
                               struct kt_error *error);
/* Finishes what was submitted first. */
void kt_queue_destroy(struct kt_queue *queue);

/* `forward` is checked and complete. */
enum kt_status kt_queue_submit(struct kt_queue *queue, struct kt_layer *layer,
                               const struct kt_forward *forward, uint64_t *ticket,
                               struct kt_error *error);
enum kt_status kt_queue_wait(struct kt_queue *queue, uint64_t ticket, struct kt_error *error);

/* Returns when everything submitted so far is done. */
void kt_queue_drain(struct kt_queue *queue);

#endif
