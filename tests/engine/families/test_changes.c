/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_changes.c - what a setting does to logits that no recorded ones tell: the same bits as those of a
 * model that is made otherwise.
 */
#include "tests/engine/families/opened.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 130, VOCABULARY = 256 /* at most */ };

/* The logits behind n tokens, in steps of `size`. */
static void run(const struct family *family, bool is_gguf, uint32_t n, uint32_t size, float *logits)
{
    struct opened o = {.context = opened_context(2, "core.deterministic=yes")};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_session *session;
    int32_t ids[MOST_TOKENS];
    params.cache_dtype = KT_DTYPE_F32;
    opened_model(&o, opened_file(family, is_gguf), &params);
    ck_assert_uint_le(o.info.vocabulary, VOCABULARY);
    memset(logits, 0, VOCABULARY * sizeof(*logits));
    ck_ok(kt_session_open(o.model, &session, &ck_error));
    for (uint32_t i = 0; i < n; i++)
        ids[i] = family_id(family, i);
    for (uint32_t at = 0; at < n; at += size) {
        const struct kt_step step = {session, ids + at, n - at < size ? n - at : size, at + size >= n,
                                     logits};
        ck_ok(kt_model_step(o.model, &step, 1, &ck_error));
    }
    kt_session_close(session);
    opened_close(&o);
}

static bool has_attention(void)
{
    struct kt_context *context = opened_context(1, "core.spin_us=0");
    kt_context_destroy(context);
    return context != NULL;
}

static bool are_same(const float *a, const float *b)
{
    return memcmp(a, b, VOCABULARY * sizeof(*a)) == 0;
}

/* ---- the head ---- */

START_TEST(a_head_in_the_file_counts_though_it_is_tied)
{
    static const char *const names[] = {"qwen3", "glm4moe", "mixtral", "deepseek-v3", "qwen35moe"};
    float plain[VOCABULARY], tied[VOCABULARY];
    struct family family;
    if (!has_attention())
        return;
    opened_tables(&family, names[_i]);
    run(&family, false, 3, 3, plain);
    ck_assert_int_eq(json_object_set_new(family.config, "tie_word_embeddings", json_true()), 0);
    run(&family, false, 3, 3, tied);
    ck_assert(are_same(plain, tied));
    family_close(&family);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("changes");
    TCase *tests = tcase_create("changes");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, a_head_in_the_file_counts_though_it_is_tied, 0, 5);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
