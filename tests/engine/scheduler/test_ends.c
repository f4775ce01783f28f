/* SPDX-License-Identifier: Apache-2.0 */
/* test_ends.c - how requests end, on a stand-in for a model: tokens, wishes, cancellation, failures. */
#include "tests/engine/scheduler/scheduled.h"
#include "tests/support/suite.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct stand_in usual = {.n_pages = 64, .max_sessions = 16, .max_tokens = 1000};

static struct kt_scheduler *create(const struct stand_in *how)
{
    return scheduled_create(how, (struct kt_scheduler_params){.max_running = 0});
}

static struct kt_scheduler_stats stats_of(struct kt_scheduler *scheduler)
{
    struct kt_scheduler_stats stats;
    kt_scheduler_stats(scheduler, &stats);
    return stats;
}

static void ask(struct asker *asker, struct kt_scheduler *scheduler)
{
    asker->ended = false;
    asker->n_got = 0;
    asker_submit(asker, scheduler);
    asker_wait(asker);
}

/* ---- tokens that end an answer ---- */

START_TEST(tokens_end_an_answer)
{
    struct stand_in how = usual;
    how.answer_length = 20;
    struct kt_scheduler *scheduler = create(&how);
    struct asker a;
    asker_init(&a, 1, 10, 0, 100);
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_STOP);
    ck_assert_int_eq(a.end.end_id, STAND_IN_END);
    ck_assert_uint_eq(a.n_got, 10);
    ck_assert_uint_eq(a.end.n_generated, 11);
    int32_t seventh = a.got[6];
    a.request.ignore_eos = true;
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_LENGTH);
    ck_assert_uint_eq(a.n_got, 100);
    ck_assert_int_eq(a.got[10], STAND_IN_END);
    a.request.stop_ids = &seventh; /* of its own; it ends also what ignores the others */
    a.request.n_stop_ids = 1;
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_STOP);
    ck_assert_int_eq(a.end.end_id, seventh);
    ck_assert_uint_le(a.n_got, 6);
    a.request.n_stop_ids = 0;
    a.stop_after = 4; /* as a stop string does */
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_STOP);
    ck_assert_int_eq(a.end.end_id, -1);
    ck_assert_uint_eq(a.n_got, 4);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* Then what would have ended it is not even chosen. */
START_TEST(an_answer_has_its_least_length)
{
    struct stand_in how = usual;
    how.answer_length = 20;
    struct kt_scheduler *scheduler = create(&how);
    struct asker a;
    asker_init(&a, 1, 10, 0, 100);
    a.request.min_tokens = 10; /* the 11th is the end */
    ask(&a, scheduler);
    ck_assert_uint_eq(a.n_got, 10);
    a.request.min_tokens = 11;
    ask(&a, scheduler);
    ck_assert_uint_eq(a.n_got, 30);
    for (uint64_t i = 0; i < a.n_got; i++)
        ck_assert_int_ne(a.got[i], STAND_IN_END);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* ---- masks ---- */

static uint64_t even_ids[STAND_IN_VOCABULARY / 64];

static const uint64_t *allow_even(void *data, int32_t id)
{
    struct asker *asker = data;
    asker->n_calls++;
    return id % 2 ? even_ids : NULL;
}

static const uint64_t *allow_none(void *data, int32_t id)
{
    static const uint64_t none[STAND_IN_VOCABULARY / 64];
    (void)data;
    (void)id;
    return none;
}

START_TEST(masks_choose_again)
{
    struct stand_in how = usual;
    how.answer_length = 16;
    struct kt_scheduler *scheduler = create(&how);
    struct asker a;
    memset(even_ids, 0x55, sizeof(even_ids));
    asker_init(&a, 1, 10, 0, 100);
    a.request.allow = allow_even;
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_LENGTH); /* the end is odd */
    ck_assert_uint_eq(a.n_got, 100);
    ck_assert_uint_eq(a.n_calls, 100);
    for (uint64_t i = 0; i < a.n_got; i++)
        ck_assert_int_eq(a.got[i] % 2, 0);
    int32_t stop = a.got[3]; /* a mask and a least length together */
    a.request.stop_ids = &stop;
    a.request.n_stop_ids = 1;
    a.request.min_tokens = 50;
    ask(&a, scheduler);
    ck_assert_uint_ge(a.n_got, 50);
    for (uint64_t i = 0; i < a.n_got; i++)
        ck_assert_msg(a.got[i] % 2 == 0 && (i >= 50 || a.got[i] != stop), "token %d", a.got[i]);
    a.request.allow = allow_none;
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_ERROR);
    ck_assert_int_eq(a.error.status, KT_E_RANGE);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* ---- refused at once ---- */

static void expect_refusal(struct asker *asker, struct kt_scheduler *scheduler, enum kt_status status,
                           const char *words)
{
    struct kt_error error = {KT_OK, ""};
    enum kt_status got = asker_try(asker, scheduler, &error);
    ck_assert_msg(got == status && strstr(error.message, words), "status %d: %s", (int)got, error.message);
    ck_assert(!asker->ended && asker->n_got == 0 && !asker->ticket);
}

START_TEST(names_what_is_wrong_with_a_request)
{
    struct kt_sampling_params sampling = KT_SAMPLING_PARAMS_INIT;
    struct kt_scheduler *scheduler = create(&usual);
    struct asker a;
    asker_init(&a, 1, 1000, 0, 1);
    expect_refusal(&a, scheduler, KT_E_RANGE, "1000 tokens; with its answer it may have 1000");
    a.request.n_ids = 0;
    expect_refusal(&a, scheduler, KT_E_INVALID, "empty");
    a.request.n_ids = 10;
    a.prompt[7] = STAND_IN_VOCABULARY;
    expect_refusal(&a, scheduler, KT_E_RANGE, "id 256, number 7");
    a.prompt[7] = -1;
    expect_refusal(&a, scheduler, KT_E_RANGE, "id -1, number 7");
    a.prompt[7] = 1;
    sampling.top_p = 1.5;
    a.request.sampling = &sampling;
    expect_refusal(&a, scheduler, KT_E_INVALID, "top_p");
    a.request.sampling = NULL;
    a.request.n_stop_ids = 1;
    expect_refusal(&a, scheduler, KT_E_INVALID, "stop_ids");
    a.request.n_stop_ids = 0;
    ck_assert_uint_eq(stats_of(scheduler).refused, 6);
    ask(&a, scheduler);
    ck_assert_uint_eq(a.n_got, 1);
    (void)scheduled_destroy(scheduler);
    struct stand_in small = usual; /* the cache is smaller than a session may be */
    small.n_pages = 4;
    scheduler = create(&small);
    asker_init(&a, 1, 256, 0, 1);
    expect_refusal(&a, scheduler, KT_E_RANGE, "it may have 256");
    (void)scheduled_destroy(scheduler);
}
END_TEST

START_TEST(names_what_is_wrong_with_settings)
{
    const struct kt_scheduler_params wrong[] = {{.max_running = 17},
                                                {.vocabulary = STAND_IN_VOCABULARY + 1},
                                                {.snapshot_tokens = 100},
                                                {.n_end_ids = 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kt_scheduler *scheduler = NULL;
        struct kt_error error = {KT_OK, ""};
        ck_assert(kt_scheduler_create(NULL, stand_in_open(&usual), &wrong[i], &scheduler, &error) ==
                  KT_E_INVALID);
        ck_assert_msg(strstr(error.message, "of 16 sessions") && !scheduler, "%s", error.message);
    }
}
END_TEST

START_TEST(a_full_queue_refuses)
{
    struct kt_scheduler *scheduler =
        scheduled_create(&usual, (struct kt_scheduler_params){.max_running = 1, .max_queued = 3});
    struct asker *askers = calloc(6, sizeof(*askers));
    for (unsigned int i = 0; i < 6; i++)
        asker_init(&askers[i], i, 10, 0, 10);
    stand_in_hold();
    asker_submit(&askers[0], scheduler);
    stand_in_wait_for_step();
    for (int i = 1; i < 4; i++)
        asker_submit(&askers[i], scheduler);
    expect_refusal(&askers[4], scheduler, KT_E_BUSY, "3 requests are waiting");
    ck_assert_uint_eq(stats_of(scheduler).queued, 3);
    kt_scheduler_cancel(askers[2].ticket); /* its place is free after the step */
    stand_in_go_on();
    asker_wait(&askers[2]);
    ck_assert_int_eq(askers[2].end.reason, KT_END_CANCELLED);
    ck_assert_uint_eq(askers[2].end.n_generated, 0);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            asker_wait(&askers[i]);
    ask(&askers[5], scheduler);
    (void)scheduled_destroy(scheduler);
    free(askers);
}
END_TEST

/* One client asks for all of the queue, again and again: others find a place each time. */
START_TEST(a_client_cannot_fill_the_queue)
{
    enum { N = 10 };
    struct kt_scheduler *scheduler =
        scheduled_create(&usual, (struct kt_scheduler_params){.max_running = 1, .max_queued = 8});
    struct asker *askers = calloc(N, sizeof(*askers));
    for (int round = 0; round < 3; round++) {
        for (unsigned int i = 0; i < N; i++) {
            asker_init(&askers[i], i, 10, 0, 10);
            askers[i].request.client = i < 9 ? "many" : "one";
        }
        stand_in_hold();
        asker_submit(&askers[0], scheduler);
        stand_in_wait_for_step();
        for (int i = 1; i < 8; i++)
            asker_submit(&askers[i], scheduler);
        expect_refusal(&askers[8], scheduler, KT_E_BUSY, "7 requests of this client wait");
        asker_submit(&askers[9], scheduler);
        expect_refusal(&askers[8], scheduler, KT_E_BUSY, "8 requests are waiting");
        askers[8].request.client = "other"; /* whose name is not kept, as it has nothing here */
        expect_refusal(&askers[8], scheduler, KT_E_BUSY, "8 requests are waiting");
        if (round == 1)
            kt_scheduler_cancel(askers[3].ticket);
        stand_in_go_on();
        for (int i = 0; i < N; i++)
            if (i != 8)
                asker_wait(&askers[i]);
        ck_assert_uint_eq(stats_of(scheduler).queued, 0);
    }
    (void)scheduled_destroy(scheduler);
    free(askers);
}
END_TEST

/* ---- ends from outside ---- */

/* When its client hears of the end, nobody's claim is on its pages: they are a prefix, from which the next
 * turn of the conversation goes on. */
START_TEST(what_a_cancelled_request_has_computed_is_kept)
{
    struct stand_in how = usual;
    how.has_states = _i;
    struct kt_scheduler *scheduler =
        scheduled_create(&how, (struct kt_scheduler_params){.max_running = 4, .snapshot_tokens = 1024});
    struct asker a, b;
    asker_init(&a, 1, 500, 0, 400);
    asker_init(&b, 2, 60, 0, 0);
    a.hold_after = 5;
    a.hold = stand_in_hold;
    stand_in_hold(); /* so that both run together */
    asker_submit(&a, scheduler);
    asker_submit(&b, scheduler);
    stand_in_go_on();
    asker_wait_for_tokens(&a, 5);
    stand_in_wait_for_step();
    kt_scheduler_cancel(a.ticket);
    kt_scheduler_cancel(a.ticket);
    stand_in_go_on();
    asker_wait(&a);
    ck_assert_int_eq(a.end.reason, KT_END_CANCELLED);
    ck_assert_uint_eq(a.n_got, 5); /* nothing came of the step that was being computed */
    ck_assert_uint_eq(a.stats.running, 1);
    ck_assert_uint_eq(a.stats.prefixes, _i ? 2 : 1); /* with states also the snapshot of a's prompt */
    asker_wait(&b);
    ck_assert_int_eq(b.end.reason, KT_END_LENGTH);
    struct asker again;
    asker_init(&again, 1, 505, 0, 20);
    ask(&again, scheduler);
    ck_assert_uint_ge(again.end.n_cached, 500 - 500 % KT_KV_PAGE);
    (void)scheduled_destroy(scheduler);
}
END_TEST

START_TEST(draining_ends_what_was_taken)
{
    struct kt_scheduler *scheduler = scheduled_create(&usual, (struct kt_scheduler_params){.max_running = 2});
    struct asker *askers = calloc(9, sizeof(*askers));
    for (unsigned int i = 0; i < 8; i++) {
        asker_init(&askers[i], i, 100, 0, 30);
        asker_submit(&askers[i], scheduler);
    }
    asker_init(&askers[8], 8, 100, 0, 30);
    kt_scheduler_refuse(scheduler);
    expect_refusal(&askers[8], scheduler, KT_E_STATE, "no more requests");
    kt_scheduler_drain(scheduler);
    for (int i = 0; i < 8; i++) {
        ck_assert(askers[i].ended && askers[i].end.reason == KT_END_LENGTH);
        ck_assert_uint_eq(askers[i].n_got, 30);
        asker_wait(&askers[i]);
    }
    kt_scheduler_drain(scheduler);
    (void)scheduled_destroy(scheduler);
    free(askers);
}
END_TEST

static void *destroy_elsewhere(void *scheduler)
{
    (void)scheduled_destroy(scheduler);
    return NULL;
}

/* Some run, some wait; their tickets outlive the scheduler. */
START_TEST(destroying_cancels_what_is_left)
{
    struct kt_scheduler *scheduler = scheduled_create(&usual, (struct kt_scheduler_params){.max_running = 3});
    struct asker *askers = calloc(8, sizeof(*askers));
    pthread_t thread;
    for (unsigned int i = 0; i < 8; i++) {
        asker_init(&askers[i], i, 30, 0, 0);
        askers[i].hold_after = 3;
        askers[i].hold = stand_in_hold;
        asker_submit(&askers[i], scheduler);
    }
    asker_wait_for_tokens(&askers[0], 3);
    ck_assert(pthread_create(&thread, NULL, destroy_elsewhere, scheduler) == 0);
    const struct kt_request nothing = {.n_ids = 0};
    while (kt_scheduler_submit(scheduler, &nothing, NULL, NULL) != KT_E_STATE)
        sched_yield();
    stand_in_go_on();
    pthread_join(thread, NULL);
    for (int i = 0; i < 8; i++) {
        ck_assert(askers[i].ended && askers[i].end.reason == KT_END_CANCELLED);
        kt_scheduler_cancel(askers[i].ticket);
        asker_wait(&askers[i]);
    }
    kt_scheduler_destroy(NULL);
    free(askers);
}
END_TEST

/* ---- from callbacks ---- */

static struct asker next;

static void end_and_ask(void *data, const struct kt_request_end *end)
{
    struct asker *asker = data;
    asker->end = *end;
    asker_submit(&next, asker->scheduler);
}

static int cancel_itself(void *data, const struct kt_choice *token)
{
    struct asker *asker = data;
    (void)token;
    if (++asker->n_calls == 3)
        kt_scheduler_cancel(asker->ticket);
    return 0;
}

static void note_progress(void *data, uint64_t done, uint64_t total)
{
    struct asker *asker = data;
    ck_assert_uint_gt(done, asker->n_calls);
    ck_assert_uint_eq(total, asker->n_prompt);
    asker->n_calls = done;
}

START_TEST(callbacks_may_submit_and_cancel)
{
    struct kt_scheduler *scheduler =
        scheduled_create(&usual, (struct kt_scheduler_params){.slice_tokens = 50});
    struct asker a;
    asker_init(&a, 1, 30, 0, 10);
    asker_init(&next, 2, 400, 0, 10);
    a.request.on_end = end_and_ask;
    next.request.on_prompt = note_progress;
    asker_submit(&a, scheduler);
    asker_wait(&next);
    ck_assert_int_eq(next.end.reason, KT_END_LENGTH);
    ck_assert_int_eq(a.end.reason, KT_END_LENGTH);
    ck_assert_uint_eq(next.n_calls, 400);
    kt_ticket_release(a.ticket);
    struct asker c;
    asker_init(&c, 3, 30, 0, 100);
    c.request.on_token = cancel_itself;
    asker_submit(&c, scheduler);
    asker_wait(&c);
    ck_assert_int_eq(c.end.reason, KT_END_CANCELLED);
    ck_assert_uint_eq(c.n_calls, 3);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* ---- failures ---- */

/* Logits that are not numbers end one request only, and nothing of it is kept, nor what it began with. */
START_TEST(a_nan_ends_one_request)
{
    struct stand_in how = usual;
    how.has_states = _i;
    struct kt_scheduler *scheduler =
        scheduled_create(&how, (struct kt_scheduler_params){.snapshot_tokens = 64});
    struct asker a, b, c;
    asker_init(&a, 1, 200, 0, 50);
    asker_init(&b, 2, 200, 0, 50);
    asker_init(&c, 3, 300, 0, 50);
    ask(&c, scheduler); /* kept: the healthy beginning of a, as it happens, and one of nobody */
    memcpy(a.prompt, c.prompt, 128 * sizeof(int32_t));
    a.prompt[190] = STAND_IN_NAN;
    asker_submit(&b, scheduler);
    asker_submit(&a, scheduler);
    asker_wait(&a);
    asker_wait(&b);
    ck_assert_int_eq(a.end.reason, KT_END_ERROR);
    ck_assert_int_eq(a.error.status, KT_E_BACKEND);
    ck_assert_uint_eq(a.end.n_cached, 128);
    ck_assert_int_eq(b.end.reason, KT_END_LENGTH);
    ask(&c, scheduler);
    ck_assert_uint_eq(c.end.n_cached, 0);
    ask(&b, scheduler);
    ck_assert_uint_eq(b.end.n_cached, 192);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* A step that fails ends its requests; those after it are answered. */
START_TEST(a_failed_step_ends_its_requests)
{
    struct stand_in how = usual;
    how.fails_at = 10;
    how.fails_with = KT_E_BACKEND;
    struct kt_scheduler *scheduler = create(&how);
    struct asker a;
    asker_init(&a, 1, 30, 0, 30);
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_ERROR);
    ck_assert_int_eq(a.error.status, KT_E_BACKEND);
    ck_assert_str_eq(a.error.message, "the stand-in was told to fail");
    ask(&a, scheduler);
    ck_assert_int_eq(a.end.reason, KT_END_LENGTH);
    (void)scheduled_destroy(scheduler);
}
END_TEST

/* Without memory for one step, others are put back, and all are answered. */
START_TEST(a_step_without_memory_is_done_with_less)
{
    struct stand_in how = usual;
    how.fails_at = 12;
    how.fails_with = KT_E_NOMEM;
    struct kt_scheduler *scheduler = scheduled_create(&how, (struct kt_scheduler_params){.max_running = 4});
    struct asker *askers = calloc(4, sizeof(*askers));
    stand_in_hold();
    for (unsigned int i = 0; i < 4; i++) {
        asker_init(&askers[i], i, 20, 0, 30);
        asker_submit(&askers[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < 4; i++) {
        asker_wait(&askers[i]);
        ck_assert_int_eq(askers[i].end.reason, KT_END_LENGTH);
        ck_assert_uint_eq(askers[i].n_got, 30);
    }
    free(askers);
    (void)scheduled_destroy(scheduler);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("ends of requests");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, tokens_end_an_answer);
    tcase_add_test(tests, an_answer_has_its_least_length);
    tcase_add_test(tests, masks_choose_again);
    tcase_add_test(tests, names_what_is_wrong_with_a_request);
    tcase_add_test(tests, names_what_is_wrong_with_settings);
    tcase_add_test(tests, a_full_queue_refuses);
    tcase_add_test(tests, a_client_cannot_fill_the_queue);
    tcase_add_loop_test(tests, what_a_cancelled_request_has_computed_is_kept, 0, 2);
    tcase_add_test(tests, draining_ends_what_was_taken);
    tcase_add_test(tests, destroying_cancels_what_is_left);
    tcase_add_test(tests, callbacks_may_submit_and_cancel);
    tcase_add_loop_test(tests, a_nan_ends_one_request, 0, 2);
    tcase_add_test(tests, a_failed_step_ends_its_requests);
    tcase_add_test(tests, a_step_without_memory_is_done_with_less);
    return run_tests("ends of requests", tests);
}
