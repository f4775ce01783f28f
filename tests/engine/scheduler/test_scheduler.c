/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheduler.c - requests on a stand-in for a model: answers, prefixes, pages, fairness, ends. */
#include "tests/engine/scheduler/scheduled.h"
#include "tests/support/suite.h"
#include "tools/engine/scheduler/internal.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every request has ended by now, and everything is given back. */
static void destroy(struct kt_scheduler *scheduler)
{
    const struct kt_scheduler_stats stats = scheduled_destroy(scheduler);
    uint64_t n_ended = 0;
    for (int i = 0; i <= KT_END_ERROR; i++)
        n_ended += stats.ended[i];
    ck_assert_uint_eq(n_ended, stats.taken);
    ck_assert_uint_eq(stats.queued, 0);
    ck_assert_uint_eq(stats.running, 0);
    ck_assert_uint_eq(stats.pages_free + stats.pages_kept, stats.pages);
}

/* ---- many requests ---- */

enum { N_THREADS = 4, N_EACH = 60 };

struct crowd {
    struct kt_scheduler *scheduler;
    unsigned int seed;
    struct asker *askers; /* [N_EACH] */
};

static uint32_t draw(unsigned int *state, uint32_t n)
{
    *state = *state * 1103515245u + 12345u;
    return (*state >> 8) % n;
}

/* Requests of many lengths, some with a common beginning; some are cancelled at any time. */
static void *ask_much(void *data)
{
    static const char *const names[] = {"a", "b", "c"};
    struct crowd *crowd = data;
    unsigned int state = crowd->seed;
    for (int i = 0; i < N_EACH; i++) {
        struct asker *asker = &crowd->askers[i];
        uint64_t n = 1 + draw(&state, draw(&state, 4) ? 100 : 700);
        asker_init(asker, 1000 * draw(&state, 3) + draw(&state, 20), n, draw(&state, 300),
                   1 + draw(&state, 120));
        asker->request.client = names[draw(&state, 3)];
        if (asker_try(asker, crowd->scheduler, NULL) != KT_OK) {
            asker->ended = true;
            continue;
        }
        if (draw(&state, 5) == 0) {
            asker_wait_for_tokens(asker, draw(&state, 30));
            kt_scheduler_cancel(asker->ticket);
        } else if (draw(&state, 3) == 0) {
            asker_wait(asker);
        }
    }
    return NULL;
}

static void run_crowd(const struct stand_in *how, const struct kt_scheduler_params *params)
{
    struct crowd crowds[N_THREADS];
    pthread_t threads[N_THREADS];
    struct kt_scheduler_stats stats;
    struct kt_scheduler *scheduler = scheduled_create(how, *params);
    for (unsigned int i = 0; i < N_THREADS; i++) {
        crowds[i] = (struct crowd){scheduler, 77 + i, calloc(N_EACH, sizeof(struct asker))};
        ck_assert(pthread_create(&threads[i], NULL, ask_much, &crowds[i]) == 0);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_THREADS; i++)
        for (int j = 0; j < N_EACH; j++) {
            asker_wait(&crowds[i].askers[j]);
            if (crowds[i].askers[j].end.reason)
                scheduled_expect_answer(&crowds[i].askers[j], how->max_tokens);
        }
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_eq(stats.ended[KT_END_ERROR], 0);
    ck_assert_uint_gt(stats.ended[KT_END_LENGTH], 0);
    ck_assert_uint_gt(stats.ended[KT_END_STOP], 0);
    ck_assert_uint_eq(stats.first_token.n + stats.inter_token.n, stats.generated_tokens);
    for (int i = 0; i < N_THREADS; i++)
        free(crowds[i].askers);
    destroy(scheduler);
}

/* A cache that is too small for them, few and many sessions, with and without states. */
START_TEST(answers_do_not_depend_on_others)
{
    static const struct {
        uint32_t n_pages, max_sessions, max_running, headroom;
        bool has_states, no_prefixes;
    } ways[] = {{400, 64, 32, 0, false, false}, {13, 64, 32, 1, false, false}, {14, 5, 5, 64, false, false},
                {400, 64, 32, 0, true, false},  {30, 9, 8, 1, true, false},    {30, 8, 8, 1, true, true},
                {13, 1, 1, 0, false, false},    {13, 1, 1, 0, true, false},    {20, 16, 16, 1, false, true}};
    const struct stand_in how = {.n_pages = ways[_i].n_pages,
                                 .max_sessions = ways[_i].max_sessions,
                                 .max_tokens = 820,
                                 .has_states = ways[_i].has_states,
                                 .answer_length = 90};
    struct kt_scheduler_params params = {.max_running = 0};
    params.max_running = ways[_i].max_running;
    params.headroom = ways[_i].headroom;
    params.no_prefixes = ways[_i].no_prefixes;
    params.snapshot_tokens = 128;
    params.slice_tokens = 96;
    run_crowd(&how, &params);
}
END_TEST

/* ---- prefixes ---- */

static void ask(struct asker *asker, struct kt_scheduler *scheduler, const struct stand_in *how)
{
    asker->ended = false;
    asker->n_got = 0;
    asker_submit(asker, scheduler);
    asker_wait(asker);
    scheduled_expect_answer(asker, how->max_tokens);
}

START_TEST(what_was_computed_is_not_computed_again)
{
    const struct stand_in how = {.n_pages = 64, .max_sessions = 8, .max_tokens = 2000, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    params.snapshot_tokens = 128;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct kt_scheduler_stats stats;
    struct asker a;
    asker_init(&a, 1, 300, 0, 100);
    ask(&a, scheduler, &how);
    ck_assert_uint_eq(a.end.n_cached, 0);
    uint64_t before = stand_in_tokens();
    ck_assert_uint_eq(before, 399); /* the last token of the answer is not computed */
    ask(&a, scheduler, &how);       /* the same again */
    ck_assert_uint_eq(a.end.n_cached, 256);
    ck_assert_uint_eq(stand_in_tokens() - before, 399 - 256);
    /* A talk goes on: prompt, answer, and more. With states, whose snapshots do not lie within an answer,
     * from its very end. */
    struct asker b;
    asker_init(&b, 2, 450, 0, 20);
    memcpy(b.prompt, a.prompt, 300 * sizeof(int32_t));
    memcpy(b.prompt + 300, a.got, 100 * sizeof(int32_t));
    ask(&b, scheduler, &how);
    ck_assert_uint_eq(b.end.n_cached, _i ? 399 : 384);
    /* Another one parts from it within its third page. */
    asker_init(&b, 3, 300, 0, 10);
    memcpy(b.prompt, a.prompt, 150 * sizeof(int32_t));
    ask(&b, scheduler, &how);
    ck_assert_uint_eq(b.end.n_cached, 128);
    /* One page and one token, of which the last must be computed. */
    asker_init(&b, 4, 65, 0, 1);
    ask(&b, scheduler, &how);
    b.n_prompt = b.request.n_ids = 64;
    ask(&b, scheduler, &how);
    ck_assert_uint_eq(b.end.n_cached, 0);
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_eq(stats.prefix_hits, 3);
    ck_assert_uint_eq(stats.prefix_misses, 3);
    ck_assert_uint_eq(stats.cached_tokens, 256 + (_i ? 399 : 384) + 128);
    if (!_i) /* the talk at its end, the other one, and the page: each once */
        ck_assert_uint_eq(stats.prefixes, 3);
    destroy(scheduler);
}
END_TEST

/* Requests that come together and begin alike: the first one computes it for all. */
START_TEST(a_common_beginning_is_computed_once)
{
    enum { N = 10, COMMON = 330, OWN = 20 };
    const struct stand_in how = {.n_pages = 200, .max_sessions = 40, .max_tokens = 2000, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    params.snapshot_tokens = 64;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct asker *askers = calloc(N, sizeof(*askers));
    stand_in_hold();
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&askers[i], 5000 + i, COMMON + OWN, COMMON, 1);
        asker_submit(&askers[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < N; i++) {
        asker_wait(&askers[i]);
        scheduled_expect_answer(&askers[i], how.max_tokens);
        ck_assert_uint_eq(askers[i].end.n_cached, i == 0 ? 0 : 320);
    }
    ck_assert_uint_eq(stand_in_tokens(), 350 + (N - 1) * 30);
    free(askers);
    destroy(scheduler);
}
END_TEST

/* Nothing tells an owner what others have asked: neither kept prefixes nor what is being read. */
START_TEST(owners_share_nothing)
{
    const struct stand_in how = {.n_pages = 200, .max_sessions = 40, .max_tokens = 1000, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    params.snapshot_tokens = 64;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct asker askers[3];
    stand_in_hold();
    for (unsigned int i = 0; i < 3; i++) {
        asker_init(&askers[i], 1, 300, 0, 5);
        askers[i].request.owner = i / 2; /* 0, 0, 1 */
        asker_submit(&askers[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < 3; i++) {
        asker_wait(&askers[i]);
        ck_assert_uint_eq(askers[i].end.n_cached, i == 1 ? 256 : 0);
    }
    askers[0].request.owner = 2;
    ask(&askers[0], scheduler, &how);
    ck_assert_uint_eq(askers[0].end.n_cached, 0);
    for (int i = 0; i < 3; i++) { /* each one's own is there, beside the others' */
        ask(&askers[i], scheduler, &how);
        ck_assert_uint_eq(askers[i].end.n_cached, 256);
    }
    destroy(scheduler);
}
END_TEST

/* Of what nobody needs, the one that was used last is kept longest. */
START_TEST(the_prefix_that_was_not_used_for_longest_goes_first)
{
    const struct stand_in how = {.n_pages = 16, .max_sessions = 8, .max_tokens = 1000, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    params.headroom = 1;
    params.snapshot_tokens = 1024;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct kt_scheduler_stats stats;
    struct asker a, b, c;
    asker_init(&a, 1, 4 * 64, 0, 1);
    asker_init(&b, 2, 4 * 64, 0, 1);
    asker_init(&c, 3, 9 * 64, 0, 1);
    ask(&a, scheduler, &how);
    ask(&b, scheduler, &how);
    ask(&a, scheduler, &how); /* b is the older one now */
    ck_assert_uint_eq(a.end.n_cached, 192);
    ask(&c, scheduler, &how); /* does not fit beside both */
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_gt(stats.prefixes_dropped, 0);
    ask(&a, scheduler, &how);
    ck_assert_uint_eq(a.end.n_cached, 192);
    ask(&b, scheduler, &how);
    ck_assert_uint_eq(b.end.n_cached, 0);
    destroy(scheduler);
}
END_TEST

/* Who knows the hash could make up a prompt that has another one's. */
START_TEST(equal_hashes_share_nothing)
{
    struct kt_chain a = {.ids = NULL}, b = {.ids = NULL};
    int32_t ids[256];
    for (int i = 0; i < 256; i++)
        ids[i] = i;
    ck_assert(kt_chain_add(&a, ids, 256));
    ids[70] = 7;
    ck_assert(kt_chain_add(&b, ids, 100) && kt_chain_add(&b, ids + 100, 156));
    ck_assert_uint_eq(b.n_hashes, 4);
    ck_assert_uint_eq(kt_chain_common(&a, &b), 64);
    memcpy(b.hashes, a.hashes, 4 * sizeof(*a.hashes));
    ck_assert_uint_eq(kt_chain_common(&a, &b), 64);
    kt_chain_free(&a);
    kt_chain_free(&b);
}
END_TEST

/* ---- pages ---- */

START_TEST(whoever_has_no_room_waits_or_is_put_back)
{
    enum { N = 12 };
    const struct stand_in how = {.n_pages = 20, .max_sessions = 16, .max_tokens = 1280, .has_states = _i % 2};
    struct kt_scheduler_params params = {.max_running = 0};
    params.max_running = 12;
    params.headroom = _i < 2 ? 64 : 100000; /* a promise for all of max_tokens */
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct kt_scheduler_stats stats;
    struct asker *askers = calloc(N, sizeof(*askers));
    stand_in_hold(); /* else a slow program asks when others have ended */
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&askers[i], i, 50, 0, 500);
        asker_submit(&askers[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < N; i++) {
        asker_wait(&askers[i]);
        scheduled_expect_answer(&askers[i], how.max_tokens);
        ck_assert_msg(i == 0 || askers[i].order > askers[0].order, "the first one was put back");
    }
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_eq(stats.ended[KT_END_LENGTH], N);
    if (_i < 2)
        ck_assert_uint_gt(stats.preempted, 0);
    else
        ck_assert_uint_eq(stats.preempted, 0);
    if (_i < 2) /* beside each other: as many as begin to fit, and as can end */
        ck_assert_uint_gt(stand_in_width(), 4);
    else
        ck_assert_uint_eq(stand_in_width(), 2);
    free(askers);
    destroy(scheduler);
}
END_TEST

/* One that fills the whole cache, behind others that left it full of prefixes. */
START_TEST(one_request_may_have_all_pages)
{
    const struct stand_in how = {.n_pages = 16, .max_sessions = 6, .max_tokens = 4096, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct asker a;
    for (unsigned int i = 0; i < 5; i++) {
        asker_init(&a, i, 200, 0, 10);
        ask(&a, scheduler, &how);
    }
    for (unsigned int i = 4; i < 6; i++) { /* 4: it continues from a prefix */
        asker_init(&a, i, i == 4 ? 200 : 1000, 0, 0);
        asker_submit(&a, scheduler);
        asker_wait(&a);
        scheduled_expect_answer(&a, 16 * KT_KV_PAGE);
        ck_assert_uint_eq(a.n_got, 1024 - a.n_prompt);
    }
    destroy(scheduler);
}
END_TEST

/* ---- fairness ---- */

START_TEST(a_client_with_many_requests_does_not_starve_another)
{
    enum { N = 50 };
    const struct stand_in how = {.n_pages = 400, .max_sessions = 8, .max_tokens = 2000};
    struct kt_scheduler_params params = {.max_running = 0};
    params.max_running = 2;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct asker *many = calloc(N, sizeof(*many)), *one = calloc(3, sizeof(*one));
    stand_in_hold();
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&many[i], i, 200, 0, 20);
        many[i].request.client = "many";
        asker_submit(&many[i], scheduler);
    }
    stand_in_wait_for_step();
    for (unsigned int i = 0; i < 3; i++) {
        asker_init(&one[i], 900 + i, 200, 0, 20);
        one[i].request.client = "one";
        asker_submit(&one[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < N; i++)
        asker_wait(&many[i]);
    uint64_t first = many[0].order;
    for (int i = 0; i < 3; i++) {
        asker_wait(&one[i]);
        /* Two ran already; from then on they take turns. */
        ck_assert_uint_le(one[i].order - first, 2 + 2 * (uint64_t)i + 2);
    }
    free(many);
    free(one);
    destroy(scheduler);
}
END_TEST

/* Whoever comes later has no claim to what the others had before. */
START_TEST(who_comes_later_does_not_catch_up)
{
    enum { N = 20 };
    const struct stand_in how = {.n_pages = 400, .max_sessions = 4, .max_tokens = 2000};
    struct kt_scheduler_params params = {.max_running = 0};
    params.max_running = 1;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct asker *old = calloc(N, sizeof(*old)), *late = calloc(N, sizeof(*late));
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&old[i], i, 100, 0, 10);
        old[i].request.client = "old";
        old[i].hold = stand_in_hold;
        old[i].hold_after = i == 10;
        asker_submit(&old[i], scheduler);
    }
    asker_wait_for_tokens(&old[10], 1);
    stand_in_wait_for_step();
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&late[i], 900 + i, 100, 0, 10);
        late[i].request.client = "late";
        asker_submit(&late[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < N; i++)
        asker_wait(&late[i]);
    for (int i = 0; i < N; i++)
        asker_wait(&old[i]);
    for (int i = 1; i < 9; i++) { /* they take turns */
        ck_assert_uint_lt(old[10 + i].order, late[i + 1].order);
        ck_assert_uint_lt(late[i - 1].order, old[10 + i + 1].order);
    }
    free(old);
    free(late);
    destroy(scheduler);
}
END_TEST

/* ---- scores ---- */

/* How likely the stand-in finds a token of a prompt. */
static double logprob_of(const int32_t *ids, uint64_t at)
{
    int32_t likeliest = stand_in_next(ids, at);
    double sum = 0;
    for (int i = 0; i < STAND_IN_VOCABULARY; i++)
        sum += exp(i == likeliest ? (double)STAND_IN_LIKELIEST : i % 7);
    return (ids[at] == likeliest ? (double)STAND_IN_LIKELIEST : ids[at] % 7) - log(sum);
}

static void expect_scores(const struct asker *asker)
{
    ck_assert_uint_eq(asker->n_scored, asker->n_prompt - 1);
    for (uint64_t i = 1; i < asker->n_prompt; i++)
        ck_assert_double_eq_tol((double)asker->scores[i], logprob_of(asker->prompt, i), 1e-5);
}

/* All of a prompt is scored, though prefixes of it are kept, and what it leaves is one. */
START_TEST(prompts_are_scored)
{
    const struct stand_in how = {.n_pages = 64, .max_sessions = 16, .max_tokens = 820, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    static const uint64_t lengths[] = {300, 2, 1, 33, 65};
    for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct asker a;
        asker_init(&a, i, lengths[i], 0, 5);
        a.prompt[lengths[i] / 2] = lengths[i] > 1 ? stand_in_next(a.prompt, lengths[i] / 2) : a.prompt[0];
        ask(&a, scheduler, &how);
        a.request.on_score = asker_score;
        ask(&a, scheduler, &how);
        expect_scores(&a);
        ck_assert_uint_eq(a.end.n_cached, 0);
        a.request.on_score = NULL;
        ask(&a, scheduler, &how);
        ck_assert_uint_eq(a.end.n_cached, (lengths[i] - 1) / 64 * 64);
    }
    destroy(scheduler);
}
END_TEST

/* Beside each other, answers, and too few pages: those that are put back are scored once. */
START_TEST(scores_do_not_depend_on_others)
{
    enum { N = 12 };
    const struct stand_in how = {.n_pages = 20, .max_sessions = 16, .max_tokens = 1280, .has_states = _i};
    struct kt_scheduler_params params = {.max_running = 0};
    params.max_running = 12;
    params.headroom = 1;
    struct kt_scheduler *scheduler = scheduled_create(&how, params);
    struct kt_scheduler_stats stats;
    struct asker *askers = calloc(N, sizeof(*askers));
    stand_in_hold();
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&askers[i], i, i % 3 ? 140 : 50, 0, i % 3 ? 10 : 400);
        askers[i].request.on_score = i % 3 ? asker_score : NULL;
        asker_submit(&askers[i], scheduler);
    }
    stand_in_go_on();
    for (int i = 0; i < N; i++) {
        asker_wait(&askers[i]);
        scheduled_expect_answer(&askers[i], how.max_tokens);
        if (i % 3)
            expect_scores(&askers[i]);
    }
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_gt(stats.preempted, 0);
    askers[0].request.on_score = asker_score;
    askers[0].prompt[40] = STAND_IN_NAN;
    askers[0].n_got = askers[0].n_scored = 0;
    askers[0].ended = false;
    asker_submit(&askers[0], scheduler);
    asker_wait(&askers[0]);
    ck_assert_int_eq(askers[0].end.reason, KT_END_ERROR);
    ck_assert_int_eq(askers[0].error.status, KT_E_BACKEND);
    ck_assert_uint_eq(askers[0].n_scored, 40);
    free(askers);
    destroy(scheduler);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("scheduler");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, answers_do_not_depend_on_others, 0, 9);
    tcase_add_loop_test(tests, what_was_computed_is_not_computed_again, 0, 2);
    tcase_add_loop_test(tests, a_common_beginning_is_computed_once, 0, 2);
    tcase_add_loop_test(tests, owners_share_nothing, 0, 2);
    tcase_add_loop_test(tests, the_prefix_that_was_not_used_for_longest_goes_first, 0, 2);
    tcase_add_test(tests, equal_hashes_share_nothing);
    tcase_add_loop_test(tests, whoever_has_no_room_waits_or_is_put_back, 0, 4);
    tcase_add_loop_test(tests, one_request_may_have_all_pages, 0, 2);
    tcase_add_test(tests, a_client_with_many_requests_does_not_starve_another);
    tcase_add_test(tests, who_comes_later_does_not_catch_up);
    tcase_add_loop_test(tests, prompts_are_scored, 0, 2);
    tcase_add_loop_test(tests, scores_do_not_depend_on_others, 0, 2);
    return run_tests("scheduler", tests);
}
