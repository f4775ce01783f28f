/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheduled_model.c - a trained model behind a scheduler: the same tokens as by hand, whatever else
 * runs, and what is kept is what was computed. */
#include "tests/engine/families/opened.h"
#include "tests/engine/scheduler/asker.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ANSWER = 12, N_OTHERS = 20 };

/* By kernels where they were built: core.deterministic is a promise of theirs. */
static bool open_world(struct opened *w, uint64_t cache_tokens)
{
    char modules[2][512], path[4096];
    const char *settings[5] = {modules[0], "core.threads=2", "core.spin_us=50", "core.deterministic=yes",
                               "core.backend=reference"};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    const char *attention = sandbox_backend("attention");
    if (!attention) {
        printf("SKIP: the plugin attention was not built\n");
        return false;
    }
    snprintf(modules[0], sizeof(modules[0]), "plugin.attention.module=%s", attention);
    const char *kernels = sandbox_backend("llamafile");
    if (kernels) {
        snprintf(modules[1], sizeof(modules[1]), "plugin.llamafile.module=%s", kernels);
        settings[4] = modules[1];
    }
    snprintf(path, sizeof(path), "%s/tiny-moe/tiny-moe-q4_k_m.gguf", getenv("KT_TEST_DATA"));
    w->context = fixture_context_with(settings, 5);
    params.max_sessions = 48;
    params.max_tokens = 512;
    params.cache_tokens = cache_tokens;
    params.max_batch = 64;
    opened_model(w, path, &params);
    return true;
}

/* The answer token by token, without a scheduler, of the first `chosen_from` ids. */
static void answer_by_hand(struct opened *w, const struct asker *asker, uint64_t chosen_from, int32_t *answer)
{
    const struct kt_sampling_params likeliest = KT_SAMPLING_PARAMS_INIT;
    const struct kt_sampling_params *sampling = asker->request.sampling;
    uint64_t vocabulary = w->info.vocabulary;
    struct kt_session *session;
    struct kt_sampler *sampler;
    struct kt_choice choice;
    float *logits = malloc(vocabulary * sizeof(*logits));
    ck_assert(kt_session_open(w->model, &session, NULL) == KT_OK);
    ck_assert(kt_sampler_create(chosen_from ? chosen_from : vocabulary, sampling ? sampling : &likeliest,
                                &sampler, NULL) == KT_OK);
    ck_assert(kt_sampler_accept(sampler, asker->prompt, asker->n_prompt, KT_ORIGIN_PROMPT, NULL) == KT_OK);
    struct kt_step step = {session, asker->prompt, (uint32_t)asker->n_prompt, 1, logits};
    for (uint64_t i = 0; i < asker->request.max_tokens; i++) {
        ck_assert(kt_model_step(w->model, &step, 1, NULL) == KT_OK);
        ck_assert(kt_sampler_choose(sampler, logits, asker->n_prompt + i, NULL, &choice, NULL) == KT_OK);
        answer[i] = choice.id;
        ck_assert(kt_sampler_accept(sampler, &answer[i], 1, KT_ORIGIN_GENERATED, NULL) == KT_OK);
        step.ids = &answer[i];
        step.n_ids = 1;
    }
    kt_sampler_destroy(sampler);
    kt_session_close(session);
    free(logits);
}

static void expect_answer(const struct asker *asker, const int32_t *wanted, const char *when)
{
    ck_assert_msg(asker->end.reason == KT_END_LENGTH, "%s: %s", when, asker->error.message);
    ck_assert_uint_eq(asker->n_got, asker->request.max_tokens);
    for (uint64_t i = 0; i < asker->n_got; i++)
        ck_assert_msg(asker->got[i] == wanted[i], "%s: token %d is %d, not %d", when, (int)i, asker->got[i],
                      wanted[i]);
}

/* Greedily, and drawn with penalties. */
START_TEST(answers_do_not_depend_on_others)
{
    struct opened w;
    struct kt_scheduler *scheduler;
    struct kt_sampling_params drawn = KT_SAMPLING_PARAMS_INIT;
    struct asker *others = calloc(N_OTHERS, sizeof(*others));
    int32_t wanted[2][N_ANSWER];
    struct asker one[2];
    if (!open_world(&w, 2048))
        return;
    drawn.temperature = 1.5;
    drawn.seed = 42;
    drawn.repetition_penalty = 1.3;
    for (unsigned int i = 0; i < 2; i++) {
        asker_init(&one[i], 70 + i, 75, 0, N_ANSWER);
        one[i].request.sampling = i ? &drawn : NULL;
        answer_by_hand(&w, &one[i], 0, wanted[i]);
    }
    const struct kt_scheduler_params params = {.max_running = 24, .slice_tokens = 48};
    ck_assert(kt_scheduler_create(w.context, w.model, &params, &scheduler, NULL) == KT_OK);
    for (unsigned int i = 0; i < N_OTHERS; i++) {
        asker_init(&others[i], i, 3 + 3 * i, 0, 6 + i % 8);
        asker_submit(&others[i], scheduler);
        if (i == 4 || i == 12)
            asker_submit(&one[i / 8], scheduler);
    }
    for (int i = 0; i < 2; i++) {
        asker_wait(&one[i]);
        expect_answer(&one[i], wanted[i], "beside others");
    }
    for (int i = 0; i < N_OTHERS; i++)
        asker_wait(&others[i]);
    kt_scheduler_destroy(scheduler);
    free(others);
    opened_close(&w);
}
END_TEST

/* A prompt again, whose first pages are kept; and requests that push each other out of a small cache. */
START_TEST(kept_prefixes_are_what_was_computed)
{
    struct opened w;
    struct kt_scheduler *scheduler;
    struct kt_scheduler_stats stats;
    int32_t wanted[4][40];
    struct asker *askers = calloc(4, sizeof(*askers));
    if (!open_world(&w, 512))
        return;
    for (unsigned int i = 0; i < 4; i++) {
        asker_init(&askers[i], 1000 + i, 110, 70, 40);
        answer_by_hand(&w, &askers[i], 0, wanted[i]);
    }
    const struct kt_scheduler_params params = {.max_running = 4, .headroom = 1};
    ck_assert(kt_scheduler_create(w.context, w.model, &params, &scheduler, NULL) == KT_OK);
    for (int round = 0; round < 2; round++) {
        for (unsigned int i = 0; i < 4; i++) {
            askers[i].ended = false;
            askers[i].n_got = 0;
            asker_submit(&askers[i], scheduler);
        }
        for (int i = 0; i < 4; i++) {
            asker_wait(&askers[i]);
            expect_answer(&askers[i], wanted[i], round ? "again" : "at first");
        }
    }
    kt_scheduler_stats(scheduler, &stats);
    ck_assert_uint_ge(stats.prefix_hits, 4);
    ck_assert_uint_gt(stats.prefixes_dropped + stats.preempted, 0);
    kt_scheduler_destroy(scheduler);
    free(askers);
    opened_close(&w);
}
END_TEST

/* Six answers of few ids, so that texts repeat themselves and drafts are right and wrong. Asked twice: the
 * first half of each answer is then a part of its prompt, whose pages were kept with drafts.
 */
static void compare_drafted(struct opened *w, unsigned int max_running, struct kt_scheduler_stats *stats)
{
    enum { N = 6, N_LONG = 60, FEW = 5 };
    struct kt_scheduler *scheduler;
    struct kt_sampling_params drawn = KT_SAMPLING_PARAMS_INIT;
    static int32_t wanted[N][N_LONG];
    struct asker *askers = calloc(N, sizeof(*askers));
    drawn.temperature = 0.7;
    drawn.repetition_penalty = 1.1;
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&askers[i], i, 40 + 7 * i, 0, N_LONG - 9 * i);
        for (uint64_t j = 0; j < askers[i].n_prompt; j++)
            askers[i].prompt[j] = (int32_t)((j * j + i) % 7 % FEW);
        askers[i].request.sampling = i % 2 ? &drawn : NULL;
        answer_by_hand(w, &askers[i], FEW, wanted[i]);
    }
    const struct kt_scheduler_params params = {.max_running = max_running,
                                               .vocabulary = FEW,
                                               .drafts = KT_DRAFTS_LOOKUP};
    ck_assert(kt_scheduler_create(w->context, w->model, &params, &scheduler, NULL) == KT_OK);
    for (int round = 0; round < 2; round++) {
        for (unsigned int i = 0; i < N; i++) {
            askers[i].ended = false;
            askers[i].n_got = 0;
            asker_submit(&askers[i], scheduler);
        }
        for (int i = 0; i < N; i++) {
            uint64_t half = askers[i].request.max_tokens / 2;
            asker_wait(&askers[i]);
            expect_answer(&askers[i], wanted[i], round ? "behind its first half" : "with drafts");
            memcpy(askers[i].prompt + askers[i].n_prompt, wanted[i], half * sizeof(**wanted));
            memmove(wanted[i], wanted[i] + half, (N_LONG - half) * sizeof(**wanted));
            askers[i].request.n_ids = askers[i].n_prompt += half;
            askers[i].request.max_tokens -= half;
        }
    }
    kt_scheduler_stats(scheduler, stats);
    ck_assert_uint_ge(stats->prefix_hits, N);
    kt_scheduler_destroy(scheduler);
    free(askers);
}

/* Of few answers at once there are drafts in every step; of more there are none, until some have ended. */
START_TEST(drafts_change_nothing)
{
    struct opened w;
    struct kt_scheduler_stats stats;
    if (!open_world(&w, 4096))
        return;
    compare_drafted(&w, 3, &stats);
    ck_assert_uint_gt(stats.accepted_tokens, 20);
    ck_assert_uint_gt(stats.drafted_tokens, stats.accepted_tokens);
    compare_drafted(&w, 6, &stats);
    opened_close(&w);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("a scheduled model");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, answers_do_not_depend_on_others);
    tcase_add_test(tests, kept_prefixes_are_what_was_computed);
    tcase_add_test(tests, drafts_change_nothing);
    return run_tests("a scheduled model", tests);
}
