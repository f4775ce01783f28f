/* SPDX-License-Identifier: Apache-2.0 */
/* scheduled.h - a scheduler on the stand-in, and what its requests must have got. */
#ifndef KT_TESTS_ENGINE_SCHEDULER_SCHEDULED_H
#define KT_TESTS_ENGINE_SCHEDULER_SCHEDULED_H

#include "tests/engine/scheduler/asker.h"
#include "tests/engine/scheduler/stand_in.h"

/* Answers end with STAND_IN_END, whatever params.end_ids are. */
struct kt_scheduler *scheduled_create(const struct stand_in *how, struct kt_scheduler_params params);
/* Everything is given back. Counts from before, as destroying cancels what is left. */
struct kt_scheduler_stats scheduled_destroy(struct kt_scheduler *scheduler);
/* What a request that is alone would get, in a session of at most so many tokens; less if it was cancelled.
 */
void scheduled_expect_answer(const struct asker *asker, uint64_t max_session);

#endif
