/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mtp.c - next-token blocks of tiny random models, from safetensors and from GGUF, beside what
 * make_mtp.py recorded; and that sessions may go anywhere between two drafts.
 */
#include "tests/engine/families/opened.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <kt/engine.h>
#include <kt/text.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-4 /* as of test_families, which says why half of it counts */

/* The last is not in GGUF files. */
static const char *const families[] = {"glm4moe", "deepseek-v3", "qwen35", "qwen35moe", "step3p5", "mellum"};
#define N_FAMILIES (int)(sizeof(families) / sizeof(families[0]))
#define N_GGUF (N_FAMILIES - 1)

struct world {
    struct family family;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_session *session;
    float *expected, *logits;
    int32_t *ids;
};

static bool open_world(struct world *w, const char *name, bool is_gguf, uint32_t mtp, uint32_t max_batch)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    char path[4400];
    memset(w, 0, sizeof(*w));
    w->context = opened_context(1, "core.deterministic=yes");
    if (!w->context)
        return false;
    opened_tables(&w->family, name);
    w->ids = malloc(w->family.n_tokens * sizeof(*w->ids));
    w->logits = malloc(w->family.n_tokens * w->family.vocabulary * sizeof(float));
    for (uint32_t i = 0; i < w->family.n_tokens; i++)
        w->ids[i] = family_id(&w->family, i);
    size_t count = (size_t)w->family.n_mtp * RECORDED;
    w->expected = malloc(count * sizeof(float) + 1);
    (void)snprintf(path, sizeof(path), "%s/mtp.f32", w->family.folder);
    FILE *recorded = count ? fopen(path, "re") : NULL;
    ck_assert(count == 0 || (recorded && fread(w->expected, sizeof(float), count, recorded) == count));
    if (recorded)
        ck_assert_int_eq(fclose(recorded), 0);
    params.cache_dtype = KT_DTYPE_F32;
    params.max_sessions = 3;
    params.cache_tokens = 1024;
    params.max_batch = max_batch;
    params.mtp = mtp;
    ck_ok(kt_checkpoint_open(opened_file(&w->family, is_gguf), NULL, &w->checkpoint, &ck_error));
    ck_ok(kt_model_open(w->context, w->checkpoint, &params, &w->model, &ck_error));
    ck_ok(kt_session_open(w->model, &w->session, &ck_error));
    return true;
}

static void close_world(struct world *w)
{
    kt_session_close(w->session);
    kt_model_close(w->model);
    kt_checkpoint_close(w->checkpoint);
    kt_context_destroy(w->context);
    family_close(&w->family);
    free(w->expected);
    free(w->logits);
    free(w->ids);
}

/* The session gets its tokens up to `end`. */
static void go_to(struct world *w, struct kt_session *session, uint32_t end)
{
    uint32_t at = (uint32_t)kt_session_tokens(session);
    const struct kt_step step = {session, w->ids + at, end - at, 0, NULL};
    ck_ok(kt_model_step(w->model, &step, 1, &ck_error));
}

static void expect_draft(const struct world *w, struct kt_session *session, int number, const char *what)
{
    const struct family *f = &w->family;
    ck_assert_uint_eq(kt_session_tokens(session), f->mtp[number]);
    ck_ok(kt_session_draft(session, w->ids[f->mtp[number]], w->logits, &ck_error));
    double error =
        numbers_away(w->logits, f->vocabulary, f->mtp[number], w->expected + (size_t)number * RECORDED);
    ck_assert_msg(error < TOLERANCE / 2, "%s, %s: behind token %u: relative difference %g", f->name, what,
                  f->mtp[number], error);
}

START_TEST(drafts_are_those_recorded)
{
    struct world w;
    for (int is_gguf = 0; is_gguf < (_i < N_GGUF ? 2 : 1); is_gguf++) {
        if (!open_world(&w, families[_i], is_gguf, 1, is_gguf ? 7 : 0))
            return;
        struct kt_model_info info;
        kt_model_info(w.model, &info);
        ck_assert_uint_eq(info.has_mtp, 1);
        ck_assert_int_ge(w.family.n_mtp, 5);
        for (int i = 0; i < w.family.n_mtp; i++) {
            go_to(&w, w.session, w.family.mtp[i]);
            expect_draft(&w, w.session, i, is_gguf ? "GGUF" : "safetensors");
        }
        close_world(&w);
    }
}
END_TEST

static int32_t other(const struct world *w, int32_t id)
{
    return (int32_t)(((uint32_t)id + 1) % w->family.vocabulary);
}

/* Drafts of tokens that then do not come, steps with wrong ones that are taken back, forks. */
START_TEST(sessions_go_where_they_want)
{
    struct world w;
    struct kt_session *fork;
    if (!open_world(&w, families[_i], _i < N_GGUF, 1, 0))
        return;
    struct kt_model_info info;
    kt_model_info(w.model, &info);
    float *unused = malloc(w.family.vocabulary * sizeof(*unused));
    for (int i = 0; i < w.family.n_mtp; i++) {
        uint32_t n = w.family.mtp[i];
        for (uint32_t at = (uint32_t)kt_session_tokens(w.session); at + 3 < n && !info.has_states; at += 25) {
            const int32_t wrong[] = {w.ids[at], other(&w, w.ids[at + 1]), 3};
            const struct kt_step step = {w.session, wrong, 3, 0, NULL};
            go_to(&w, w.session, at);
            if (at > 0)
                ck_ok(kt_session_draft(w.session, w.ids[at], unused, &ck_error));
            ck_ok(kt_model_step(w.model, &step, 1, &ck_error));
            ck_ok(kt_session_draft(w.session, 5, unused, &ck_error));
            ck_ok(kt_session_truncate(w.session, at + 1, &ck_error));
        }
        if (kt_session_tokens(w.session) > 0)
            ck_ok(kt_session_draft(w.session, other(&w, w.ids[kt_session_tokens(w.session)]), unused,
                                   &ck_error));
        go_to(&w, w.session, n);
        ck_ok(kt_session_fork(w.session, n, &fork, &ck_error));
        expect_draft(&w, fork, i, "of a fork");
        ck_ok(kt_session_draft(w.session, other(&w, w.ids[n]), unused, &ck_error));
        expect_draft(&w, w.session, i, "at once again");
        kt_session_close(w.session);
        w.session = fork;
    }
    free(unused);
    close_world(&w);
}
END_TEST

/* Logits of tokens have the bits that they have without it, and memory is what was planned. */
START_TEST(nothing_else_changes)
{
    struct world w;
    struct kt_model_plan plan[2];
    uint64_t n_weights[2];
    float *logits[2];
    for (uint32_t mtp = 0; mtp < 2; mtp++) {
        if (!open_world(&w, families[_i], _i < N_GGUF, mtp, 0))
            return;
        struct kt_model_info info;
        struct kt_model_params params = KT_MODEL_PARAMS_INIT;
        uint32_t n = w.family.n_tokens;
        logits[mtp] = malloc((size_t)n * w.family.vocabulary * sizeof(float));
        for (uint32_t at = 0; at < n; at += 20) {
            uint32_t some = n - at < 20 ? n - at : 20;
            const struct kt_step step = {w.session, w.ids + at, some, some,
                                         logits[mtp] + (size_t)at * w.family.vocabulary};
            ck_ok(kt_model_step(w.model, &step, 1, &ck_error));
            if (mtp)
                ck_ok(kt_session_draft(w.session, 1, w.logits, &ck_error));
        }
        params.cache_dtype = KT_DTYPE_F32;
        params.max_sessions = 3;
        params.cache_tokens = 1024;
        params.mtp = mtp;
        kt_model_info(w.model, &info);
        n_weights[mtp] = info.n_weights;
        ck_ok(kt_model_plan(w.context, w.checkpoint, &params, &plan[mtp], &ck_error));
        ck_assert_uint_eq(plan[mtp].weight_size, info.weight_size);
        ck_assert_uint_eq(plan[mtp].cache_size, info.cache_size);
        if (mtp)
            ck_assert(memcmp(logits[0], logits[1], (size_t)n * w.family.vocabulary * sizeof(float)) == 0);
        close_world(&w);
    }
    ck_assert_uint_gt(n_weights[1], n_weights[0]);
    ck_assert_uint_gt(plan[1].cache_size, plan[0].cache_size);
    free(logits[0]);
    free(logits[1]);
}
END_TEST

/* A restored session has no hidden states: the block begins again behind it. */
START_TEST(restored_sessions_begin_anew)
{
    struct world w;
    struct kt_session *restored;
    int32_t *ids;
    uint64_t n_ids;
    if (!open_world(&w, "glm4moe", true, 1, 0))
        return;
    go_to(&w, w.session, 80);
    ck_ok(kt_session_save(w.session, sandbox_path("prefix"), w.ids, &ck_error));
    ck_ok(kt_session_restore(w.model, sandbox_path("prefix"), &restored, &ids, &n_ids, &ck_error));
    ck_fails(kt_session_draft(restored, 1, w.logits, &ck_error), KT_E_STATE, "no token");
    go_to(&w, restored, 83);
    ck_ok(kt_session_draft(restored, w.ids[83], w.logits, &ck_error));
    for (uint32_t i = 0; i < w.family.vocabulary; i++)
        ck_assert(isfinite(w.logits[i]));
    kt_ids_free(ids);
    kt_session_close(restored);
    close_world(&w);
}
END_TEST

START_TEST(names_what_is_wrong)
{
    struct world w;
    struct kt_model_info info;
    if (!open_world(&w, "qwen3", false, 1, 0))
        return;
    kt_model_info(w.model, &info);
    ck_assert_uint_eq(info.has_mtp, 0);
    go_to(&w, w.session, 3);
    ck_fails(kt_session_draft(w.session, 1, w.logits, &ck_error), KT_E_UNSUPPORTED, "or has none");
    close_world(&w);
    ck_assert(open_world(&w, "glm4moe", true, 1, 0));
    ck_fails(kt_session_draft(w.session, 1, w.logits, &ck_error), KT_E_STATE, "no token");
    go_to(&w, w.session, 3);
    ck_fails(kt_session_draft(w.session, -1, w.logits, &ck_error), KT_E_RANGE, "id -1");
    ck_fails(kt_session_draft(w.session, (int32_t)w.family.vocabulary, w.logits, &ck_error), KT_E_RANGE,
             "224");
    ck_fails(kt_session_draft(w.session, 1, NULL, &ck_error), KT_E_INVALID, "NULL");
    ck_ok(kt_session_truncate(w.session, 0, &ck_error));
    ck_fails(kt_session_draft(w.session, 1, w.logits, &ck_error), KT_E_STATE, "no token");
    close_world(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("next-token blocks");
    TCase *tests = tcase_create("next-token blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, drafts_are_those_recorded, 0, N_FAMILIES);
    tcase_add_loop_test(tests, sessions_go_where_they_want, 0, N_FAMILIES);
    tcase_add_loop_test(tests, nothing_else_changes, 0, N_FAMILIES);
    tcase_add_test(tests, restored_sessions_begin_anew);
    tcase_add_test(tests, names_what_is_wrong);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
