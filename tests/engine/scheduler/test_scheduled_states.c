/* SPDX-License-Identifier: Apache-2.0 */
/* test_scheduled_states.c - a tiny random model with recurrent states and a block of its own that predicts:
 * whatever drafts a scheduler makes, the tokens are those without. */
#include "tests/engine/families/opened.h"
#include "tests/engine/scheduler/asker.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { N = 3, N_ANSWER = 60, FEW = 5 };

struct world {
    struct family family;
    struct opened model;
};

static bool open_world(struct world *w)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    w->model.context = opened_context(1, "core.deterministic=yes");
    if (!w->model.context)
        return false;
    opened_tables(&w->family, "qwen35");
    params.cache_dtype = KT_DTYPE_F32;
    params.max_sessions = 8;
    params.cache_tokens = 1024;
    params.max_tokens = 128;
    params.mtp = 1;
    opened_model(&w->model, opened_file(&w->family, true), &params);
    return true;
}

static void close_world(struct world *w)
{
    opened_close(&w->model);
    family_close(&w->family);
}

/* Answers of few ids, which repeat themselves. Each second one is drawn. */
static struct kt_scheduler_stats answer(struct world *w, enum kt_drafts drafts, int32_t (*got)[N_ANSWER])
{
    struct kt_scheduler *scheduler;
    struct kt_scheduler_stats stats;
    struct kt_sampling_params drawn = KT_SAMPLING_PARAMS_INIT;
    struct asker *askers = calloc(N, sizeof(*askers));
    const struct kt_scheduler_params params = {.max_running = N, .vocabulary = FEW, .drafts = drafts};
    drawn.temperature = 1.2;
    ck_ok(kt_scheduler_create(w->model.context, w->model.model, &params, &scheduler, &ck_error));
    for (unsigned int i = 0; i < N; i++) {
        asker_init(&askers[i], i, 20 + 5 * i, 0, N_ANSWER);
        for (uint64_t j = 0; j < askers[i].n_prompt; j++)
            askers[i].prompt[j] = (int32_t)((j * j + i) % 7 % FEW);
        askers[i].request.sampling = i % 2 ? &drawn : NULL;
        asker_submit(&askers[i], scheduler);
    }
    for (int i = 0; i < N; i++) {
        asker_wait(&askers[i]);
        ck_assert_msg(askers[i].end.reason == KT_END_LENGTH, "%s", askers[i].error.message);
        memcpy(got[i], askers[i].got, sizeof(got[i]));
    }
    kt_scheduler_stats(scheduler, &stats);
    kt_scheduler_destroy(scheduler);
    free(askers);
    return stats;
}

START_TEST(drafts_change_nothing)
{
    static int32_t wanted[N][N_ANSWER], got[N][N_ANSWER];
    static const enum kt_drafts ways[] = {KT_DRAFTS_LOOKUP, KT_DRAFTS_MTP, KT_DRAFTS_AUTO};
    struct world w;
    if (!open_world(&w))
        return;
    ck_assert_uint_eq(answer(&w, KT_DRAFTS_OFF, wanted).drafted_tokens, 0);
    for (int i = 0; i < 3; i++) {
        struct kt_scheduler_stats stats = answer(&w, ways[i], got);
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N_ANSWER; k++)
                ck_assert_msg(got[j][k] == wanted[j][k], "drafts %d, answer %d, token %d: %d instead of %d",
                              (int)ways[i], j, k, got[j][k], wanted[j][k]);
        if (ways[i] != KT_DRAFTS_AUTO) { /* which goes by the clock */
            ck_assert_uint_gt(stats.accepted_tokens, 5);
            ck_assert_uint_gt(stats.drafted_tokens, stats.accepted_tokens);
        }
    }
    close_world(&w);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("a scheduled model with states");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, drafts_change_nothing);
    return run_tests("a scheduled model with states", tests);
}
