/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/outcome.h"

void kt_outcome_start(struct kt_outcome *outcome)
{
    atomic_init(&outcome->failed, false);
    (void)pthread_mutex_init(&outcome->lock, NULL);
    outcome->status = KT_OK;
}

void kt_outcome_fail(struct kt_outcome *outcome, enum kt_status status, const struct kt_error *error)
{
    (void)pthread_mutex_lock(&outcome->lock);
    if (!atomic_exchange(&outcome->failed, true)) {
        outcome->status = status;
        outcome->error = *error;
    }
    (void)pthread_mutex_unlock(&outcome->lock);
}

enum kt_status kt_outcome_end(struct kt_outcome *outcome, struct kt_error *error)
{
    (void)pthread_mutex_destroy(&outcome->lock);
    if (outcome->status != KT_OK && error)
        *error = outcome->error;
    return outcome->status;
}
