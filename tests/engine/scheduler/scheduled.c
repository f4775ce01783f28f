/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/scheduler/scheduled.h"

#include <check.h>
#include <string.h>

struct kt_scheduler *scheduled_create(const struct stand_in *how, struct kt_scheduler_params params)
{
    static const int32_t end_ids[] = {STAND_IN_END};
    struct kt_error error = {KT_OK, ""};
    struct kt_scheduler *scheduler = NULL;
    params.end_ids = end_ids;
    params.n_end_ids = 1;
    enum kt_status status = kt_scheduler_create(NULL, stand_in_open(how), &params, &scheduler, &error);
    ck_assert_msg(status == KT_OK, "%s", error.message);
    return scheduler;
}

struct kt_scheduler_stats scheduled_destroy(struct kt_scheduler *scheduler)
{
    struct kt_scheduler_stats stats;
    kt_scheduler_stats(scheduler, &stats);
    kt_scheduler_destroy(scheduler);
    ck_assert_msg(stand_in_is_empty(), "pages or sessions were not given back");
    return stats;
}

void scheduled_expect_answer(const struct asker *asker, uint64_t max_session)
{
    int32_t ids[2 * ASKER_IDS];
    uint64_t n = asker->n_prompt, most = asker->request.max_tokens;
    memcpy(ids, asker->prompt, n * sizeof(*ids));
    uint64_t limit = most && most < max_session - n ? n + most : max_session;
    enum kt_end reason = KT_END_LENGTH;
    for (; n < limit; n++) {
        ids[n] = stand_in_next(ids, n);
        if (ids[n] == STAND_IN_END) {
            reason = KT_END_STOP;
            break;
        }
    }
    ck_assert(memcmp(asker->got, ids + asker->n_prompt, asker->n_got * sizeof(*ids)) == 0);
    if (asker->end.reason == KT_END_CANCELLED)
        return;
    ck_assert_msg(asker->end.reason == reason, "ended by %d: %s", (int)asker->end.reason,
                  asker->error.message);
    ck_assert_uint_eq(asker->n_got, n - asker->n_prompt);
    ck_assert_uint_eq(asker->end.n_generated, asker->n_got + (reason == KT_END_STOP));
    ck_assert_int_eq(asker->end.end_id, reason == KT_END_STOP ? STAND_IN_END : -1);
    ck_assert_uint_eq(asker->end.n_prompt, asker->n_prompt);
    ck_assert_uint_lt(asker->end.n_cached, asker->n_prompt);
}
