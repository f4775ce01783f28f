/* SPDX-License-Identifier: Apache-2.0 */
/* test_speculate.c - texts with drafts are those without, of models whose sessions can go back and of such
 * whose cannot; and what a step leaves behind. */
#include "tests/engine/families/opened.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <kt/speculate.h>
#include <stdlib.h>
#include <string.h>

/* Only the first ids may come: so any model repeats itself, and drafts are right and wrong. */
enum { N_PROMPT = 24, N_ANSWER = 48, N_CHOSEN_FROM = 6 };

/* What a text should be, and what it has so far. */
struct text {
    int32_t ids[N_PROMPT + N_ANSWER + 1];
    uint32_t n, last; /* the text ends behind `last` tokens */
};

/* A trained model, or a random one of a family. */
static bool open_world(struct opened *w, const char *family, uint32_t max_sessions, uint64_t max_tokens,
                       uint64_t cache_tokens)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    char path[4096];
    w->context = opened_context(1, "core.deterministic=yes");
    if (!w->context)
        return false;
    (void)snprintf(path, sizeof(path), "%s/tiny-moe/tiny-moe-q4_k_m.gguf", getenv("KT_TEST_DATA"));
    if (family) {
        struct family tables;
        opened_tables(&tables, family);
        (void)snprintf(path, sizeof(path), "%s", opened_file(&tables, true));
        family_close(&tables);
    }
    params.max_sessions = max_sessions;
    params.max_tokens = max_tokens;
    params.max_batch = 32;
    params.mtp = 1;
    params.cache_tokens = cache_tokens;
    opened_model(w, path, &params);
    return true;
}

static void fill_prompt(struct text *text)
{
    text->n = 0;
    text->last = UINT32_MAX;
    for (int32_t i = 0; i < N_PROMPT; i++)
        text->ids[text->n++] = i * i % 7 % N_CHOSEN_FROM;
}

static struct kt_sampler *make_sampler(bool draws)
{
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    struct kt_sampler *sampler;
    params.temperature = draws ? 1 : 0;
    params.seed = 11;
    params.repetition_penalty = draws ? 1.02 : 0;
    ck_ok(kt_sampler_create(N_CHOSEN_FROM, &params, &sampler, &ck_error));
    return sampler;
}

static void write_by_hand(const struct opened *w, struct text *text, bool draws)
{
    struct kt_sampler *sampler = make_sampler(draws);
    struct kt_session *session;
    float *logits = malloc(w->info.vocabulary * sizeof(*logits));
    fill_prompt(text);
    ck_ok(kt_session_open(w->model, &session, &ck_error));
    ck_ok(kt_sampler_accept(sampler, text->ids, text->n, KT_ORIGIN_PROMPT, &ck_error));
    for (uint32_t done = 0; text->n < N_PROMPT + N_ANSWER; done = text->n - 1) {
        struct kt_choice choice;
        const struct kt_step step = {session, text->ids + done, text->n - done, 1, logits};
        ck_ok(kt_model_step(w->model, &step, 1, &ck_error));
        ck_ok(kt_sampler_choose(sampler, logits, text->n, NULL, &choice, &ck_error));
        text->ids[text->n++] = choice.id;
        ck_ok(kt_sampler_accept(sampler, &choice.id, 1, KT_ORIGIN_GENERATED, &ck_error));
    }
    free(logits);
    kt_session_close(session);
    kt_sampler_destroy(sampler);
}

static int take(void *data, const struct kt_choice *choice)
{
    struct text *text = data;
    ck_assert_uint_lt(text->n, N_PROMPT + N_ANSWER);
    text->ids[text->n++] = choice->id;
    return text->n >= text->last;
}

static void expect_text(const struct text *got, const struct text *wanted, const char *what)
{
    for (uint32_t i = 0; i < got->n; i++)
        ck_assert_msg(got->ids[i] == wanted->ids[i], "%s: token %u is %d, not %d", what, i, got->ids[i],
                      wanted->ids[i]);
}

static struct kt_speculator_stats write_with(const struct opened *w, struct text *text, bool draws,
                                             uint32_t mode, uint32_t max_drafts)
{
    struct kt_sampler *sampler = make_sampler(draws);
    struct kt_speculator_params params = KT_SPECULATOR_PARAMS_INIT;
    struct kt_speculator *speculator;
    struct kt_speculator_stats stats;
    struct kt_session *session;
    params.mode = mode;
    params.max_drafts = max_drafts;
    fill_prompt(text);
    ck_ok(kt_session_open(w->model, &session, &ck_error));
    ck_ok(kt_speculator_create(w->model, sampler, &params, &speculator, &ck_error));
    ck_ok(kt_speculator_add(speculator, text->ids, text->n, &ck_error));
    while (text->n < N_PROMPT + N_ANSWER) {
        ck_ok(kt_speculator_step(speculator, &session, N_PROMPT + N_ANSWER - text->n, take, text, &ck_error));
        uint64_t n = kt_session_tokens(session);
        ck_assert(w->info.has_states ? n < text->n : n == text->n - 1);
    }
    kt_speculator_stats(speculator, &stats);
    kt_speculator_destroy(speculator);
    kt_sampler_destroy(sampler);
    kt_session_close(session);
    ck_assert_uint_le(stats.accepted, stats.drafted);
    ck_assert_uint_eq(stats.steps + stats.accepted, N_ANSWER);
    return stats;
}

/* The likeliest tokens, and drawn ones with a penalty; of models without states and with them, without a
 * next-token block and with one. */
START_TEST(texts_are_those_without_drafts)
{
    static const char *const families[] = {NULL, "qwen35", "glm4moe"};
    struct text wanted, got;
    struct opened w;
    for (int f = 0; f < 3; f++)
        for (int draws = 0; draws < 2; draws++) {
            if (!open_world(&w, families[f], 2, N_PROMPT + N_ANSWER, 512))
                return;
            write_by_hand(&w, &wanted, draws);
            (void)write_with(&w, &got, draws, KT_SPECULATE_OFF, 0);
            expect_text(&got, &wanted, "without drafts");
            struct kt_speculator_stats stats = write_with(&w, &got, draws, KT_SPECULATE_LOOKUP, 0);
            expect_text(&got, &wanted, "looked up");
            ck_assert_msg(draws ? stats.drafted > stats.accepted : stats.accepted > 10,
                          "%d of %d drafts accepted", (int)stats.accepted, (int)stats.drafted);
            (void)write_with(&w, &got, draws, KT_SPECULATE_AUTO, 0);
            expect_text(&got, &wanted, "by the clock");
            stats = write_with(&w, &got, draws, KT_SPECULATE_LOOKUP, 1);
            expect_text(&got, &wanted, "one draft a step");
            ck_assert_uint_eq(stats.drafted, stats.drafted_steps);
            stats = write_with(&w, &got, draws, KT_SPECULATE_MTP, 0);
            expect_text(&got, &wanted, "by the model's own block");
            ck_assert(w.info.has_mtp ? stats.drafted > 0 : stats.drafted == 0);
            opened_close(&w);
        }
}
END_TEST

/* A session with states needs another one to return to. */
START_TEST(without_a_session_nothing_is_drafted)
{
    struct text wanted, got;
    struct opened w;
    if (!open_world(&w, "qwen3next", 1, 0, 512))
        return;
    write_by_hand(&w, &wanted, false);
    struct kt_speculator_stats stats = write_with(&w, &got, false, KT_SPECULATE_LOOKUP, 0);
    expect_text(&got, &wanted, "one session");
    ck_assert_uint_eq(stats.drafted, 0);
    opened_close(&w);
}
END_TEST

/* Wherever on_token ends the text, the session has all tokens but that one. */
START_TEST(ends_where_it_is_told_to)
{
    struct text wanted, got;
    struct opened w;
    const struct kt_speculator_params params = {.struct_size = sizeof(params), .mode = KT_SPECULATE_LOOKUP};
    if (!open_world(&w, NULL, 1, 0, 512))
        return;
    write_by_hand(&w, &wanted, false);
    for (uint32_t last = N_PROMPT + 1; last < N_PROMPT + 24; last += 6) {
        struct kt_sampler *sampler = make_sampler(false);
        struct kt_speculator *speculator;
        struct kt_session *session;
        fill_prompt(&got);
        got.last = last;
        ck_ok(kt_session_open(w.model, &session, &ck_error));
        ck_ok(kt_speculator_create(w.model, sampler, &params, &speculator, &ck_error));
        ck_ok(kt_speculator_add(speculator, got.ids, got.n, &ck_error));
        while (got.n < last)
            ck_ok(kt_speculator_step(speculator, &session, 100, take, &got, &ck_error));
        ck_assert_uint_eq(got.n, last);
        ck_assert_uint_eq(kt_session_tokens(session), last - 1);
        got.last = last + 7; /* and goes on */
        while (got.n < last + 7)
            ck_ok(kt_speculator_step(speculator, &session, 100, take, &got, &ck_error));
        expect_text(&got, &wanted, "after a pause");
        kt_speculator_destroy(speculator);
        kt_sampler_destroy(sampler);
        kt_session_close(session);
    }
    opened_close(&w);
}
END_TEST

/* Another session has all other pages: tokens come one by one up to the last that fits. */
START_TEST(drafts_need_no_room)
{
    struct kt_speculator_params params = KT_SPECULATOR_PARAMS_INIT;
    struct kt_speculator *speculator;
    struct kt_session *session, *other;
    struct text text, wanted;
    struct opened w;
    if (!open_world(&w, NULL, 2, 128, 128))
        return;
    write_by_hand(&w, &wanted, false);
    struct kt_sampler *sampler = make_sampler(false);
    params.mode = KT_SPECULATE_LOOKUP;
    fill_prompt(&text);
    ck_ok(kt_session_open(w.model, &other, &ck_error));
    const struct kt_step one = {other, wanted.ids, 10, 0, NULL};
    ck_ok(kt_model_step(w.model, &one, 1, &ck_error));
    ck_ok(kt_session_open(w.model, &session, &ck_error));
    ck_ok(kt_speculator_create(w.model, sampler, &params, &speculator, &ck_error));
    ck_ok(kt_speculator_add(speculator, text.ids, text.n, &ck_error));
    while (text.n < KT_KV_PAGE + 1)
        ck_ok(kt_speculator_step(speculator, &session, 40, take, &text, &ck_error));
    ck_fails(kt_speculator_step(speculator, &session, 40, take, &text, &ck_error), KT_E_NOMEM, "");
    ck_assert_uint_eq(text.n, KT_KV_PAGE + 1);
    expect_text(&text, &wanted, "in a full cache");
    kt_speculator_destroy(speculator);
    kt_sampler_destroy(sampler);
    kt_session_close(session);
    kt_session_close(other);
    opened_close(&w);
}
END_TEST

START_TEST(names_what_is_wrong)
{
    struct kt_speculator_params params = KT_SPECULATOR_PARAMS_INIT;
    struct kt_speculator *speculator;
    struct kt_session *session;
    struct text text;
    struct opened w;
    if (!open_world(&w, NULL, 1, N_PROMPT + 4, 512))
        return;
    struct kt_sampler *sampler = make_sampler(false);
    params.mode = 9;
    ck_fails(kt_speculator_create(w.model, sampler, &params, &speculator, &ck_error), KT_E_INVALID, "mode 9");
    params.mode = KT_SPECULATE_LOOKUP;
    params.max_drafts = 16;
    ck_fails(kt_speculator_create(w.model, sampler, &params, &speculator, &ck_error), KT_E_INVALID, "15");
    ck_fails(kt_speculator_create(NULL, sampler, NULL, &speculator, &ck_error), KT_E_INVALID, "NULL");
    ck_ok(kt_speculator_create(w.model, sampler, NULL, &speculator, &ck_error));
    ck_ok(kt_session_open(w.model, &session, &ck_error));
    fill_prompt(&text);
    ck_fails(kt_speculator_step(speculator, &session, 5, take, &text, &ck_error), KT_E_INVALID, "prefix");
    ck_ok(kt_speculator_add(speculator, text.ids, text.n, &ck_error));
    ck_fails(kt_speculator_step(speculator, &session, 0, take, &text, &ck_error), KT_E_INVALID, "wanted");
    for (int i = 0; text.n < N_PROMPT + 5; i++) /* drafts stop at the room's end, and then the text */
        ck_ok(kt_speculator_step(speculator, &session, 100, take, &text, &ck_error));
    ck_fails(kt_speculator_step(speculator, &session, 100, take, &text, &ck_error), KT_E_RANGE, "28");
    ck_assert_uint_eq(kt_session_tokens(session), N_PROMPT + 4);
    kt_speculator_destroy(speculator);
    kt_speculator_destroy(NULL);
    kt_sampler_destroy(sampler);
    kt_session_close(session);
    opened_close(&w);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("speculate");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, texts_are_those_without_drafts);
    tcase_add_test(tests, without_a_session_nothing_is_drafted);
    tcase_add_test(tests, ends_where_it_is_told_to);
    tcase_add_test(tests, drafts_need_no_room);
    tcase_add_test(tests, names_what_is_wrong);
    return run_tests("speculate", tests);
}
