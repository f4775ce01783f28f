/* SPDX-License-Identifier: Apache-2.0 */
/* outcome.h - what became of work that many threads did: the first failure is the one that counts. */
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

/* Takes a failure. Any thread. */
void kt_outcome_fail(struct kt_outcome *outcome, enum kt_status status, const struct kt_error *error);

/* Has any thread failed? Then the others need not go on. */
static inline bool kt_outcome_failed(const struct kt_outcome *outcome)
{
    return atomic_load_explicit(&outcome->failed, memory_order_relaxed);
}

/* When all threads are done: KT_OK, or the failure. */
enum kt_status kt_outcome_end(struct kt_outcome *outcome, struct kt_error *error);

#endif
