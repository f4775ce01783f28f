/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - the result of work of many threads: success, or the failure that came first. */
#ifndef KT_CORE_MACHINE_OUTCOME_H
#define KT_CORE_MACHINE_OUTCOME_H

#include <kt/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct kt_outcome {
    atomic_bool failed;
    pthread_mutex_t lock;
    enum kt_status status;
    struct kt_error error;
};

void kt_outcome_start(struct kt_outcome *outcome);

/* Keeps the failure if it is the first. Any thread may call it. */
void kt_outcome_fail(struct kt_outcome *outcome, enum kt_status status, const struct kt_error *error);

/* Has any thread failed? Then the others can stop. */
static inline bool kt_outcome_failed(const struct kt_outcome *outcome)
{
    return atomic_load_explicit(&outcome->failed, memory_order_relaxed);
}

/* The result, once all threads are done. */
enum kt_status kt_outcome_end(struct kt_outcome *outcome, struct kt_error *error);

#endif
