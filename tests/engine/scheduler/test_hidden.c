/* SPDX-License-Identifier: Apache-2.0 */
/* test_hidden.c - hidden states of prompts, on a stand-in for a model: alone, beside answers, put back. */
#include "tests/engine/scheduler/scheduled.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void take_state(void *data, uint64_t index, const float *state)
{
    struct asker *asker = data;
    float wanted[STAND_IN_SIZE];
    must_say(index == asker->request.first_hidden + asker->n_scored++, "states come in order, and once");
    must(index < asker->n_prompt && asker->n_got == 0);
    stand_in_state(asker->prompt, index + 1, wanted);
    must(memcmp(state, wanted, sizeof(wanted)) == 0);
}

static void want(struct asker *asker, unsigned int seed, uint64_t n, uint64_t first)
{
    asker_init(asker, seed, n, 0, 5);
    asker->request.on_hidden = take_state;
    asker->request.first_hidden = first;
}

static void expect_states(const struct asker *asker)
{
    ck_assert_uint_eq(asker->n_scored, asker->n_prompt - asker->request.first_hidden);
    ck_assert_int_eq(asker->end.reason, KT_END_STOP);
    ck_assert_int_eq(asker->end.end_id, -1);
    ck_assert_uint_eq(asker->end.n_generated, 0);
    ck_assert_uint_eq(asker->n_got, 0);
}

/* Those of all tokens are computed, those of the last one begin with a prefix; neither leaves one. */
START_TEST(states_are_those_of_the_prompt)
{
    const struct stand_in how = {.n_pages = 64, .max_sessions = 16, .max_tokens = 1024, .has_states = _i};
    struct kt_scheduler *scheduler = scheduled_create(&how, (struct kt_scheduler_params){.max_running = 0});
    static const uint64_t lengths[] = {1, 2, 64, 65, 300, 1024};
    for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint64_t n = lengths[i], kept = n < 1024 ? (n - 1) / 64 * 64 : _i ? 1000 : 960;
        struct asker a;
        struct kt_scheduler_stats before;
        kt_scheduler_stats(scheduler, &before);
        for (uint64_t first = 0; first<n; first += n> 1 ? n - 1 : 1) {
            want(&a, i, n, first);
            asker_submit(&a, scheduler);
            asker_wait(&a);
            expect_states(&a);
            ck_assert_uint_eq(a.end.n_cached, 0);
            ck_assert_uint_eq(a.stats.prefixes, before.prefixes);
        }
        asker_init(&a, i, n == 1024 ? 1000 : n, 0, 1);
        asker_submit(&a, scheduler);
        asker_wait(&a);
        ck_assert_uint_eq(a.end.n_cached, 0);
        want(&a, i, n, n - 1);
        asker_submit(&a, scheduler);
        asker_wait(&a);
        expect_states(&a);
        ck_assert_uint_eq(a.end.n_cached, kept);
        want(&a, i, n, 0);
        asker_submit(&a, scheduler);
        asker_wait(&a);
        expect_states(&a);
        ck_assert_uint_eq(a.end.n_cached, 0);
    }
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* With too few pages: those that are put back get each state once, and answers are what they are alone. */
START_TEST(states_and_answers_do_not_disturb_each_other)
{
    enum { N = 16 };
    const struct stand_in how = {.n_pages = 20, .max_sessions = 16, .max_tokens = 1280, .has_states = _i};
    struct kt_scheduler *scheduler =
        scheduled_create(&how, (struct kt_scheduler_params){.max_running = 12, .headroom = 1});
    struct asker *askers = calloc(N, sizeof(*askers));
    struct kt_scheduler_stats stats;
    stand_in_hold();
    for (unsigned int i = 0; i < N; i++) {
        if (i % 3)
            want(&askers[i], i, 100 + 40 * i, i % 2 ? 0 : 99 + 40 * i);
        else
            asker_init(&askers[i], i, 50, 0, 400);
        asker_submit(&askers[i], scheduler);
    }
    stand_in_go_on();
    for (unsigned int i = 0; i < N; i++) {
        asker_wait(&askers[i]);
        if (i % 3)
            expect_states(&askers[i]);
        else
            scheduled_expect_answer(&askers[i], how.max_tokens);
    }
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_gt(stats.preempted, 0);
    free(askers);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* As nothing is kept of them, who begins alike does not wait for that. */
START_TEST(nobody_waits_for_what_is_not_kept)
{
    const struct stand_in how = {.n_pages = 64, .max_sessions = 16, .max_tokens = 1024, .has_states = _i};
    struct kt_scheduler *scheduler = scheduled_create(&how, (struct kt_scheduler_params){.max_running = 0});
    struct asker a, b, first;
    stand_in_hold();
    want(&first, 2, 1, 0);
    asker_submit(&first, scheduler);
    stand_in_wait_for_step();
    want(&a, 1, 120, 0);
    asker_init(&b, 1, 128, 0, 5);
    asker_submit(&a, scheduler);
    asker_submit(&b, scheduler);
    stand_in_go_on();
    asker_wait(&first);
    asker_wait(&a);
    asker_wait(&b);
    expect_states(&a);
    scheduled_expect_answer(&b, how.max_tokens);
    ck_assert_uint_eq(stand_in_width(), 2);
    (void)scheduled_destroy(scheduler);
}
END_TEST

START_TEST(what_is_wrong_is_refused)
{
    const struct stand_in how = {.n_pages = 64, .max_sessions = 4, .max_tokens = 256};
    struct kt_scheduler *scheduler = scheduled_create(&how, (struct kt_scheduler_params){.max_running = 0});
    struct asker a;
    struct kt_error error;
    want(&a, 0, 257, 0);
    ck_assert_int_eq(asker_try(&a, scheduler, &error), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "257 tokens; it may have 256"));
    want(&a, 0, 10, 10);
    ck_assert_int_eq(asker_try(&a, scheduler, &error), KT_E_INVALID);
    want(&a, 0, 10, 0);
    a.request.on_score = asker_score;
    ck_assert_int_eq(asker_try(&a, scheduler, &error), KT_E_INVALID);
    want(&a, 0, 10, 0);
    a.request.on_token = NULL;
    a.prompt[4] = STAND_IN_NAN;
    asker_submit(&a, scheduler);
    asker_wait(&a);
    ck_assert_int_eq(a.end.reason, KT_END_ERROR);
    ck_assert_int_eq(a.error.status, KT_E_BACKEND);
    ck_assert_uint_eq(a.n_scored, 4);
    stand_in_hold();
    want(&a, 0, 256, 0);
    asker_submit(&a, scheduler);
    stand_in_wait_for_step();
    kt_scheduler_cancel(a.ticket);
    stand_in_go_on();
    asker_wait(&a);
    ck_assert_int_eq(a.end.reason, KT_END_CANCELLED);
    (void)scheduled_destroy(scheduler);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("hidden states");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, states_are_those_of_the_prompt, 0, 2);
    tcase_add_loop_test(tests, states_and_answers_do_not_disturb_each_other, 0, 2);
    tcase_add_loop_test(tests, nobody_waits_for_what_is_not_kept, 0, 2);
    tcase_add_test(tests, what_is_wrong_is_refused);
    return run_tests("hidden states", tests);
}
