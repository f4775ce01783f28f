/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c - whole models: logits beside float64's, bits, sessions, errors. */
#include "tests/engine/model/world.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <kt/engine.h>
#include <kt/text.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As tests/engine/model/make_logits.py has them. */
static const int kept[] = {0, 1, 31, 62, 63, 64, 65, 69};
#define N_KEPT (int)(sizeof(kept) / sizeof(kept[0]))

static double difference(const float *got, const float *wanted, size_t n)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        sum += pow((double)got[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    return sqrt(sum / size);
}

static void expect_same(const float *got, const float *wanted, size_t n_tokens, const char *what)
{
    ck_assert_msg(memcmp(got, wanted, n_tokens * VOCABULARY * sizeof(*got)) == 0, "%s: other bits", what);
}

/* ---- against float64 ---- */

/* Every place of a page's border has its row. */
START_TEST(logits_are_those_of_float64)
{
    struct world w;
    float wanted[VOCABULARY];
    char path[4096];
    if (!world_open(&w, world_tiny(), 2, NULL))
        return;
    snprintf(path, sizeof(path), "%s/tests/data/logits/tiny-moe-q4_k_m.f32", getenv("KT_TEST_SOURCE"));
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    float *logits = world_step(&w, w.session, w.ids, N_IDS);
    for (int i = 0; i < N_KEPT; i++) {
        ck_assert_uint_eq(fread(wanted, sizeof(float), VOCABULARY, file), VOCABULARY);
        double error = difference(logits + (size_t)kept[i] * VOCABULARY, wanted, VOCABULARY);
        ck_assert_msg(error < 1e-5, "token %d: relative difference %g", kept[i], error);
    }
    fclose(file);
    free(logits);
    world_close(&w);
}
END_TEST

/* ---- hidden states ---- */

/* Numbers of a row of a weight of the file, in float32. */
static void read_row(const struct world *w, const char *name, uint64_t row, float *out)
{
    struct kt_view view;
    ck_assert(kt_checkpoint_weight(w->checkpoint, name, &view, NULL, NULL) == KT_OK);
    ck_assert(kt_view_row(&view, row, out, NULL) == KT_OK);
}

/* What stands behind the norm is what stands before it, normed, and gives the logits. */
static void expect_states(const struct world *w, const float *before, const float *after, const float *logits)
{
    enum { SIZE = 256 };
    float norm[SIZE], head[SIZE], wanted[SIZE], some[16], same[16];
    double squares = 0;
    read_row(w, "output_norm", 0, norm);
    for (int i = 0; i < SIZE; i++)
        squares += (double)before[i] * (double)before[i];
    for (int i = 0; i < SIZE; i++)
        wanted[i] = (float)((double)before[i] / sqrt(squares / SIZE + 1e-6) * (double)norm[i]);
    ck_assert(difference(after, wanted, SIZE) < 1e-5);
    for (uint64_t row = 0; row < 16; row++) {
        double sum = 0;
        read_row(w, "output", 100 * row, head);
        for (int i = 0; i < SIZE; i++)
            sum += (double)head[i] * (double)after[i];
        some[row] = logits[100 * row];
        same[row] = (float)sum;
    }
    ck_assert(difference(some, same, 16) < 1e-4);
}

/* Of the last tokens of two sessions, whose steps are cut into slices. */
START_TEST(hidden_states_come_out)
{
    enum { N = 30, WANTED = 19, SIZE = 256 };
    struct world w;
    struct kt_session *other;
    struct kt_model_info info;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    static float before[2][WANTED][SIZE], after[2][WANTED][SIZE], again[N][SIZE];
    params.max_sessions = 2;
    params.cache_tokens = 256;
    params.max_batch = 7;
    if (!world_open(&w, world_tiny(), 2, &params))
        return;
    kt_model_info(w.model, &info);
    ck_assert_uint_eq(info.hidden_size, SIZE);
    ck_assert(kt_session_open(w.model, &other, NULL) == KT_OK);
    float *logits = malloc(N * VOCABULARY * sizeof(*logits));
    const struct kt_step steps[] = {{other, w.ids + 20, 11, 0, NULL}, {w.session, w.ids, N, N, logits}};
    const struct kt_hidden hidden[] = {{0, 0, NULL, NULL}, {WANTED, 0, before[1][0], after[1][0]}};
    const struct kt_hidden first[] = {{WANTED, 0, before[0][0], NULL}, {N, 0, NULL, again[0]}};
    ck_assert_msg(kt_model_step_hidden(w.model, steps, hidden, 2, &error) == KT_OK, "%s", error.message);
    for (int i = 0; i < WANTED; i++)
        expect_states(&w, before[1][i], after[1][i], logits + (size_t)(N - WANTED + i) * VOCABULARY);
    const struct kt_step turned[] = {{other, w.ids, N, 0, NULL}, {w.session, w.ids, N, N, logits}};
    ck_assert(kt_session_truncate(w.session, 0, NULL) == KT_OK);
    ck_assert(kt_session_truncate(other, 0, NULL) == KT_OK);
    ck_assert(kt_model_step_hidden(w.model, turned, first, 2, NULL) == KT_OK);
    ck_assert(memcmp(before[0], before[1], sizeof(before[0])) == 0);
    ck_assert(memcmp(again[N - WANTED], after[1], sizeof(after[1])) == 0);
    const struct kt_hidden many = {N + 1, 0, before[0][0], NULL};
    ck_assert(kt_model_step_hidden(w.model, turned, &many, 1, &error) == KT_E_INVALID);
    ck_assert_msg(strstr(error.message, "31 tokens of the 30 of step 0"), "%s", error.message);
    free(logits);
    kt_session_close(other);
    world_close(&w);
}
END_TEST

/* ---- bits ---- */

START_TEST(bits_do_not_depend_on_threads_or_slices)
{
    static const struct {
        int threads;
        uint32_t batch;
    } ways[] = {{1, 0}, {3, 0}, {2, 7}, {1, 1}, {2, 64}};
    struct world first, w;
    if (!world_open(&first, world_tiny(), 2, NULL))
        return;
    float *wanted = world_step(&first, first.session, first.ids, N_IDS);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct kt_model_params params = KT_MODEL_PARAMS_INIT;
        params.max_batch = ways[i].batch;
        ck_assert(world_open(&w, world_tiny(), ways[i].threads, &params));
        float *logits = world_step(&w, w.session, w.ids, N_IDS);
        expect_same(logits, wanted, N_IDS, "another slice or another number of threads");
        free(logits);
        world_close(&w);
    }
    free(wanted);
    world_close(&first);
}
END_TEST

/* Sessions of other lengths beside it, prompts and single tokens mixed. */
START_TEST(bits_do_not_depend_on_other_sessions)
{
    struct world w;
    struct kt_session *others[2];
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.max_sessions = 3;
    params.cache_tokens = 1024;
    params.max_batch = 32;
    if (!world_open(&w, world_tiny(), 2, &params))
        return;
    float *wanted = world_step(&w, w.session, w.ids, N_IDS),
          *prompt = malloc(69 * VOCABULARY * sizeof(float));
    float last[VOCABULARY], other[VOCABULARY];
    ck_assert(kt_session_truncate(w.session, 0, NULL) == KT_OK);
    for (int i = 0; i < 2; i++)
        ck_assert(kt_session_open(w.model, &others[i], NULL) == KT_OK);
    const struct kt_step mixed[] = {{others[0], w.ids + 3, 40, 0, NULL},
                                    {w.session, w.ids, 69, 69, prompt},
                                    {others[1], w.ids + 9, 1, 1, other}};
    ck_assert(kt_model_step(w.model, mixed, 3, NULL) == KT_OK);
    expect_same(prompt, wanted, 69, "a prompt beside others");
    const struct kt_step decodes[] = {{others[1], w.ids, 1, 0, NULL},
                                      {w.session, w.ids + 69, 1, 1, last},
                                      {others[0], w.ids + 1, 1, 1, other}};
    ck_assert(kt_model_step(w.model, decodes, 3, NULL) == KT_OK);
    expect_same(last, wanted + (size_t)69 * VOCABULARY, 1, "a token beside others");
    ck_assert_uint_eq(kt_session_tokens(w.session), 70);
    ck_assert_uint_eq(kt_session_tokens(others[1]), 2);
    for (int i = 0; i < 2; i++)
        kt_session_close(others[i]);
    free(wanted);
    free(prompt);
    world_close(&w);
}
END_TEST

START_TEST(sessions_go_back_and_fork)
{
    struct world w;
    struct kt_session *fork;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.max_sessions = 2;
    params.cache_tokens = 512;
    if (!world_open(&w, world_tiny(), 2, &params))
        return;
    float *wanted = world_step(&w, w.session, w.ids, N_IDS);
    ck_assert(kt_session_truncate(w.session, 33, NULL) == KT_OK);
    float *again = world_step(&w, w.session, w.ids + 33, N_IDS - 33);
    expect_same(again, wanted + (size_t)33 * VOCABULARY, N_IDS - 33, "after going back");
    free(again);
    struct kt_kv_info cache;
    ck_assert(kt_session_fork(w.session, 50, &fork, NULL) == KT_OK);
    kt_model_cache(w.model, &cache);
    ck_assert_uint_eq(cache.n_sequences, 2);
    ck_assert_uint_eq(cache.n_pages, 8);
    ck_assert_uint_eq(cache.free_pages, 5);            /* of 70 tokens, and a copy of the first page */
    float *elsewhere = world_step(&w, fork, w.ids, 5); /* another way */
    ck_assert(memcmp(elsewhere, wanted + (size_t)50 * VOCABULARY, 5 * VOCABULARY * sizeof(float)) != 0);
    free(elsewhere);
    ck_assert(kt_session_truncate(fork, 50, NULL) == KT_OK);
    again = world_step(&w, fork, w.ids + 50, N_IDS - 50);
    expect_same(again, wanted + (size_t)50 * VOCABULARY, N_IDS - 50, "of a fork");
    free(again);
    kt_session_close(fork);
    free(wanted);
    world_close(&w);
}
END_TEST

/* ---- files ---- */

/* Writes a copy of the file with one byte changed, or cut off there. */
static void spoil(const char *from, const char *to, long at, bool cuts)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    ck_assert(in != NULL && out != NULL);
    for (long i = 0;; i++) {
        int byte = fgetc(in);
        if (byte == EOF || (cuts && i == at))
            break;
        fputc(i == at ? byte ^ 4 : byte, out);
    }
    fclose(in);
    ck_assert(fclose(out) == 0);
}

START_TEST(sessions_are_saved_and_restored)
{
    struct world w;
    struct kt_session *restored = NULL;
    int32_t *ids = NULL;
    uint64_t n_ids = 0;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    char path[4096], spoilt[4096];
    params.max_sessions = 2;
    params.cache_tokens = 512;
    if (!world_open(&w, world_tiny(), 1, &params))
        return;
    snprintf(path, sizeof(path), "%s", sandbox_path("prefix"));
    snprintf(spoilt, sizeof(spoilt), "%s", sandbox_path("spoilt"));
    free(world_step(&w, w.session, w.ids, 66));
    ck_assert_msg(kt_session_save(w.session, path, w.ids, &error) == KT_OK, "%s", error.message);
    float *wanted = world_step(&w, w.session, w.ids + 66, N_IDS - 66);
    ck_assert_msg(kt_session_restore(w.model, path, &restored, &ids, &n_ids, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_uint_eq(n_ids, 66);
    ck_assert_uint_eq(kt_session_tokens(restored), 66);
    ck_assert(memcmp(ids, w.ids, 66 * sizeof(*ids)) == 0);
    float *got = world_step(&w, restored, w.ids + 66, N_IDS - 66);
    expect_same(got, wanted, N_IDS - 66, "of a restored session");
    kt_session_close(restored);
    kt_ids_free(ids);
    free(got);
    free(wanted);
    /* Wherever it is damaged, it is refused, and no session stays open. */
    for (long at = 0; at < 3000; at += 1 + at / 2)
        for (int cuts = 0; cuts < 2; cuts++) {
            spoil(path, spoilt, at, cuts);
            enum kt_status status = kt_session_restore(w.model, spoilt, &restored, &ids, &n_ids, &error);
            ck_assert_msg(status != KT_OK && error.message[0], "byte %ld is not looked at", at);
            struct kt_kv_info cache;
            kt_model_cache(w.model, &cache);
            ck_assert_uint_eq(cache.n_sequences, 1);
        }
    world_close(&w);
}
END_TEST

/* Ids that the model has not, beside what its cache takes. */
START_TEST(foreign_ids_are_refused)
{
    struct world w;
    struct kt_session *restored = NULL;
    int32_t *ids = NULL;
    uint64_t n_ids = 0;
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_error error = {KT_OK, ""};
    char path[4096];
    params.max_sessions = 2;
    if (!world_open(&w, world_tiny(), 1, &params))
        return;
    snprintf(path, sizeof(path), "%s", sandbox_path("prefix"));
    ck_assert(kt_session_save(w.session, path, w.ids, NULL) == KT_OK); /* of no tokens */
    ck_assert_msg(kt_session_restore(w.model, path, &restored, &ids, &n_ids, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_uint_eq(n_ids, 0);
    kt_session_close(restored);
    kt_ids_free(ids);
    free(world_step(&w, w.session, w.ids, 3));
    const int32_t foreign[] = {1, VOCABULARY, 2};
    ck_assert(kt_session_save(w.session, path, foreign, NULL) == KT_OK);
    ck_assert(kt_session_restore(w.model, path, &restored, &ids, &n_ids, &error) == KT_E_FORMAT);
    ck_assert_msg(strstr(error.message, "2048"), "%s", error.message);
    ck_assert(kt_session_save(w.session, "/nowhere/at/all", w.ids, &error) != KT_OK);
    world_close(&w);
}
END_TEST

/* ---- what is wrong ---- */

static void expect_failure(struct world *w, const struct kt_step *steps, uint32_t n, enum kt_status status,
                           const char *words)
{
    struct kt_error error = {KT_OK, ""};
    uint64_t before = kt_session_tokens(w->session);
    enum kt_status got = kt_model_step(w->model, steps, n, &error);
    ck_assert_msg(got == status && strstr(error.message, words), "status %d: %s", (int)got, error.message);
    ck_assert_uint_eq(kt_session_tokens(w->session), before);
}

START_TEST(names_what_is_wrong_with_a_step)
{
    struct world w;
    float logits[VOCABULARY];
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.max_sessions = 2;
    params.max_tokens = 100;
    params.cache_tokens = 128;
    if (!world_open(&w, world_tiny(), 1, &params))
        return;
    const int32_t strange[] = {5, -1}, large[] = {VOCABULARY};
    const struct kt_step good = {w.session, w.ids, 40, 1, logits};
    ck_assert(kt_model_step(w.model, &good, 1, NULL) == KT_OK);
    expect_failure(&w, &(struct kt_step){w.session, strange, 2, 0, NULL}, 1, KT_E_RANGE, "id -1, number 1");
    expect_failure(&w, &(struct kt_step){w.session, large, 1, 0, NULL}, 1, KT_E_RANGE, "2048");
    expect_failure(&w, &(struct kt_step){w.session, w.ids, 61, 0, NULL}, 1, KT_E_RANGE, "61 tokens after 40");
    expect_failure(&w, &(struct kt_step){w.session, w.ids, 2, 3, logits}, 1, KT_E_INVALID,
                   "more logits than ids");
    expect_failure(&w, &(struct kt_step){w.session, w.ids, 2, 1, NULL}, 1, KT_E_INVALID, "step 0");
    expect_failure(&w, &(struct kt_step){NULL, w.ids, 2, 0, NULL}, 1, KT_E_INVALID, "no session");
    const struct kt_step twice[] = {{w.session, w.ids, 1, 0, NULL}, {w.session, w.ids, 1, 0, NULL}};
    expect_failure(&w, twice, 2, KT_E_INVALID, "steps 0 and 1");
    struct kt_session *other;
    ck_assert(kt_session_open(w.model, &other, NULL) == KT_OK);
    const struct kt_step full[] = {{w.session, w.ids, 10, 0, NULL}, {other, w.ids, 70, 0, NULL}};
    expect_failure(&w, full, 2, KT_E_NOMEM, "page"); /* two pages, and three are needed */
    ck_assert_uint_eq(kt_session_tokens(other), 0);
    const struct kt_step fits[] = {{w.session, w.ids, 10, 1, logits}, {other, w.ids, 60, 0, NULL}};
    ck_assert(kt_model_step(w.model, fits, 2, NULL) == KT_OK);
    kt_session_close(other);
    world_close(&w);
}
END_TEST

START_TEST(names_what_is_wrong_with_a_model)
{
    static const struct {
        const char *file, *words;
        enum kt_status status;
    } cases[] = {{"tiny-moe/tiny-moe-q8_0-l0-l3.gguf", "token_embd", KT_E_NOT_FOUND},
                 {"tiny-moe/fp8-block-l0", "model.embed_tokens", KT_E_NOT_FOUND},
                 {"block-types.gguf", "families\\", KT_E_UNSUPPORTED}};
    struct kt_context *context = world_context(1, "scalar");
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_error error = {KT_OK, ""};
    char path[4096];
    if (!context)
        return;
    snprintf(path, sizeof(path), "%s/%s", getenv("KT_TEST_DATA"), cases[_i].file);
    ck_assert(kt_checkpoint_open(path, NULL, &checkpoint, NULL) == KT_OK);
    enum kt_status status = kt_model_open(context, checkpoint, NULL, &model, &error);
    ck_assert_msg(status == cases[_i].status, "status %d: %s", (int)status, error.message);
    if (_i < 2)
        ck_assert_msg(strstr(error.message, cases[_i].words) != NULL, "%s", error.message);
    ck_assert(kt_model_open(context, NULL, NULL, &model, NULL) == KT_E_INVALID);
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.max_batch = 5000;
    ck_assert(kt_model_open(context, checkpoint, &params, &model, NULL) != KT_OK);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("models");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, logits_are_those_of_float64);
    tcase_add_test(tests, hidden_states_come_out);
    tcase_add_test(tests, bits_do_not_depend_on_threads_or_slices);
    tcase_add_test(tests, bits_do_not_depend_on_other_sessions);
    tcase_add_test(tests, sessions_go_back_and_fork);
    tcase_add_test(tests, sessions_are_saved_and_restored);
    tcase_add_test(tests, foreign_ids_are_refused);
    tcase_add_test(tests, names_what_is_wrong_with_a_step);
    tcase_add_loop_test(tests, names_what_is_wrong_with_a_model, 0, 3);
    return run_tests("models", tests);
}
