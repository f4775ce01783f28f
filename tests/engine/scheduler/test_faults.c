/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c - each allocation of a scheduler and of its requests fails once. */
#include "tests/engine/scheduler/asker.h"
#include "tests/engine/scheduler/stand_in.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct asker askers[3];

/* Two that run together and one that continues from them. Each is refused, ended by an error, or answered. */
static void ask_three(struct kt_scheduler *scheduler, bool *refused)
{
    struct kt_error error = {KT_OK, ""};
    for (unsigned int i = 0; i < 3; i++) {
        asker_init(&askers[i], i == 2 ? 0 : i, 150, 0, 100);
        enum kt_status status = asker_try(&askers[i], scheduler, &error);
        must_say(status == KT_OK || status == KT_E_NOMEM, "%s", error.message);
        *refused = *refused || status != KT_OK;
        if (status != KT_OK)
            askers[i].ended = true;
        if (i > 0)
            asker_wait(&askers[i]);
    }
    asker_wait(&askers[0]);
}

static void expect_answers(void)
{
    int32_t ids[250];
    for (int i = 0; i < 3; i++) {
        memcpy(ids, askers[i].prompt, 150 * sizeof(*ids));
        for (uint64_t n = 150; n < 250; n++)
            ids[n] = stand_in_next(ids, n);
        must(memcmp(askers[i].got, ids + 150, askers[i].n_got * sizeof(*ids)) == 0);
        if (askers[i].end.reason == KT_END_ERROR)
            must(askers[i].error.status == KT_E_NOMEM);
        else if (askers[i].end.reason)
            must(askers[i].n_got == 100);
    }
}

START_TEST(survives_failed_allocations)
{
    const struct stand_in how = {.n_pages = 12, .max_sessions = 5, .max_tokens = 600, .has_states = _i};
    const struct kt_scheduler_params params = {.max_running = 2, .snapshot_tokens = 64};
    bool hit = true;
    unsigned long n = 1;
    for (; hit; n++) {
        struct kt_scheduler *scheduler = NULL;
        struct kt_error error = {KT_OK, ""};
        bool refused = false;
        struct kt_model *model = stand_in_open(&how);
        faults_arm(n);
        enum kt_status status = kt_scheduler_create(NULL, model, &params, &scheduler, &error);
        must_say(status == (scheduler ? KT_OK : KT_E_NOMEM), "%s", error.message);
        if (scheduler) {
            ask_three(scheduler, &refused);
            expect_answers();
        }
        kt_scheduler_destroy(scheduler);
        hit = faults_hit();
        faults_arm(0);
        ck_assert_msg(stand_in_is_empty(), "allocation %lu: pages or sessions were not given back", n);
        ck_assert(hit || (scheduler && !refused));
    }
    ck_assert_uint_gt(n, 40);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("failed allocations");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, survives_failed_allocations, 0, 2);
    return run_tests("failed allocations", tests);
}
