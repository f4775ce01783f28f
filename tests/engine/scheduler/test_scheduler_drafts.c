/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheduler_drafts.c - drafts of sessions that cannot go back, on a stand-in for a model: right and
 * wrong ones, answers that end within them, and steps that fail. */
#include "tests/engine/scheduler/scheduled.h"
#include "tests/support/suite.h"
#include "tools/engine/scheduler/internal.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N = 6 };
static const struct stand_in usual = {.n_pages = 64,
                                      .max_sessions = 12,
                                      .max_tokens = 500,
                                      .has_states = true,
                                      .repeats = true,
                                      .answer_length = 90};

static struct kt_scheduler *create(const struct stand_in *how, uint32_t max_running)
{
    return scheduled_create(how, (struct kt_scheduler_params){.max_running = max_running,
                                                              .headroom = 1,
                                                              .drafts = KT_DRAFTS_LOOKUP});
}

/* Then with their answers as the beginning of a longer prompt, which kept sessions serve. */
static void ask_all(struct kt_scheduler *scheduler, struct asker *askers)
{
    for (int round = 0; round < 2; round++) {
        stand_in_hold(); /* else a slow program asks when others have ended, whose memory a step needs */
        for (int i = 0; i < N; i++)
            asker_submit(&askers[i], scheduler);
        stand_in_go_on();
        for (int i = 0; i < N; i++) {
            struct asker *asker = &askers[i];
            asker_wait(asker);
            scheduled_expect_answer(asker, usual.max_tokens);
            memcpy(asker->prompt + asker->n_prompt, asker->got, asker->n_got * sizeof(*asker->got));
            asker->prompt[asker->n_prompt + asker->n_got] = 7;
            asker->request.n_ids = asker->n_prompt += asker->n_got + 1;
            asker->n_got = 0;
            asker->ended = false;
        }
    }
}

static struct asker *make_askers(void)
{
    struct asker *askers = calloc(N, sizeof(*askers));
    for (unsigned int i = 0; i < N; i++)
        asker_init(&askers[i], i, 20 + 11 * i, 0, 40 + 13 * i);
    return askers;
}

/* With room, with hardly any, and with no session to fork. */
START_TEST(drafts_change_nothing)
{
    static const struct {
        uint32_t n_pages, max_sessions, max_running;
    } ways[] = {{64, 12, 3}, {64, 12, 1}, {14, 4, 3}, {9, 3, 2}, {64, 2, 2}};
    struct stand_in how = usual;
    how.n_pages = ways[_i].n_pages;
    how.max_sessions = ways[_i].max_sessions;
    struct kt_scheduler *scheduler = create(&how, ways[_i].max_running);
    struct asker *askers = make_askers();
    ask_all(scheduler, askers);
    free(askers);
    struct kt_scheduler_stats stats = scheduled_destroy(scheduler);
    if (how.max_sessions > 2) {
        ck_assert_uint_gt(stats.accepted_tokens, 20);
        ck_assert_uint_gt(stats.drafted_tokens, stats.accepted_tokens);
    }
}
END_TEST

/* Of a draft of three tokens after seven, two were right: the fork is the session, and what it lacks is
 * computed with the next token. That is a step of an answer, which drafts again, and no prompt, beside which
 * nobody would. */
START_TEST(what_is_computed_again_is_an_answer)
{
    enum { BEFORE = 7, RIGHT = 2, DRAFTS = 3 };
    struct kt_model *model = stand_in_open(&usual);
    const int32_t ids[BEFORE + DRAFTS] = {1, 2, 3};
    struct kt_ticket t = {.n_done = BEFORE + RIGHT, .chain = {.n_ids = BEFORE + RIGHT + 1}};
    ck_assert(kt_session_open(model, &t.session, NULL) == KT_OK);
    struct kt_step step = {.session = t.session, .ids = ids, .n_ids = BEFORE};
    ck_assert(kt_model_step(model, &step, 1, NULL) == KT_OK);
    ck_assert(kt_session_fork(t.session, BEFORE, &t.kept, NULL) == KT_OK);
    step.ids = ids + BEFORE;
    step.n_ids = DRAFTS;
    ck_assert(kt_model_step(model, &step, 1, NULL) == KT_OK);
    kt_draft_settle(&t);
    ck_assert_ptr_null(t.kept);
    ck_assert_uint_eq(kt_session_tokens(t.session), BEFORE);
    ck_assert_uint_eq(t.n_done, BEFORE);
    ck_assert_uint_eq(kt_pending(&t), RIGHT + 1);
    ck_assert(kt_is_answering(&t));
    kt_session_close(t.session);
    ck_assert(stand_in_is_empty());
}
END_TEST

/* The step of any number has no memory: it is done again with less. */
START_TEST(a_step_without_memory_is_done_again)
{
    /* The first step may have one request alone, with nothing to give back. */
    for (uint64_t at = 2; at < 60; at++) {
        struct stand_in how = usual;
        how.fails_at = at;
        how.fails_with = KT_E_NOMEM;
        struct kt_scheduler *scheduler = create(&how, 3);
        struct asker *askers = make_askers();
        asker_init(&askers[0], 7, 300, 0, 10); /* something to give back */
        ask_all(scheduler, askers);
        free(askers);
        (void)scheduled_destroy(scheduler);
    }
}
END_TEST

/* One that fails ends its requests; what is asked later is answered. */
START_TEST(a_failed_step_leaves_nothing)
{
    for (uint64_t at = 1; at < 40; at++) {
        struct stand_in how = usual;
        how.fails_at = at;
        how.fails_with = KT_E_BACKEND;
        struct kt_scheduler *scheduler = create(&how, 2);
        struct asker *askers = make_askers();
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 2; i++)
                asker_submit(&askers[i], scheduler);
            for (int i = 0; i < 2; i++) {
                asker_wait(&askers[i]);
                if (askers[i].end.reason != KT_END_ERROR)
                    scheduled_expect_answer(&askers[i], usual.max_tokens);
                ck_assert(round == 0 || askers[i].end.reason != KT_END_ERROR || at > 20);
                askers[i].ended = false;
                askers[i].n_got = 0;
            }
        }
        free(askers);
        (void)scheduled_destroy(scheduler);
    }
}
END_TEST

/* By the request itself, at each token of the answer, and by the client. */
START_TEST(an_answer_is_ended_anywhere)
{
    struct kt_scheduler *scheduler = create(&usual, 2);
    struct asker *askers = make_askers();
    for (uint64_t after = 1; after < 40; after++) {
        for (int i = 0; i < 2; i++) {
            askers[i].ended = false;
            askers[i].n_got = 0;
            askers[i].stop_after = i == 0 ? after : 0;
            asker_submit(&askers[i], scheduler);
        }
        asker_wait_for_tokens(&askers[1], after);
        kt_scheduler_cancel(askers[1].ticket);
        for (int i = 0; i < 2; i++)
            asker_wait(&askers[i]);
        ck_assert_uint_eq(askers[0].n_got, after);
        askers[0].end.reason = KT_END_CANCELLED; /* by nobody's token */
        for (int i = 0; i < 2; i++)
            scheduled_expect_answer(&askers[i], usual.max_tokens);
    }
    free(askers);
    (void)scheduled_destroy(scheduler);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("drafts of a scheduler");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, drafts_change_nothing, 0, 5);
    tcase_add_test(tests, what_is_computed_again_is_an_answer);
    tcase_add_test(tests, a_step_without_memory_is_done_again);
    tcase_add_test(tests, a_failed_step_leaves_nothing);
    tcase_add_test(tests, an_answer_is_ended_anywhere);
    return run_tests("drafts of a scheduler", tests);
}
