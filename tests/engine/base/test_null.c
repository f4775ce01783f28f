/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libktengine that are called without what they need. */
#include "tests/support/suite.h"

#include <kt/engine.h>
#include <kt/sampling.h>
#include <kt/speculate.h>
#include <kt/text.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct kt_error error;

static void expect(enum kt_status status, const char *words)
{
    ck_assert_msg(status == KT_E_INVALID && error.status == status && strstr(error.message, words),
                  "%s: %d, %s", words, (int)status, error.message);
    error = (struct kt_error){KT_OK, ""};
}

START_TEST(what_is_null_is_named)
{
    struct kt_session *session = NULL;
    struct kt_model_plan plan;
    struct kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    int32_t *ids = NULL;
    uint64_t n_ids = 0;
    expect(kt_model_plan(NULL, NULL, NULL, &plan, &error), "kt_model_plan: context, checkpoint and plan");
    expect(kt_model_step(NULL, NULL, 0, &error), "kt_model_step: NULL");
    expect(kt_session_open(NULL, &session, &error), "kt_session_open: NULL");
    expect(kt_session_truncate(NULL, 0, &error), "kt_session_truncate: NULL");
    expect(kt_session_fork(NULL, 0, &session, &error), "kt_session_fork: NULL");
    expect(kt_session_save(NULL, "x", ids, &error), "kt_session_save: NULL");
    expect(kt_session_restore(NULL, "x", &session, &ids, &n_ids, &error), "kt_session_restore: NULL");
    expect(kt_speculator_add(NULL, NULL, 0, &error), "kt_speculator_add: NULL");
    expect(kt_sampling_breakers(NULL, NULL, 0, &ids, &n_ids, &error),
           "kt_sampling_breakers: a pointer is NULL");
    expect(kt_sampling_defaults(NULL, &params, &error), "kt_sampling_defaults: checkpoint or params is NULL");
    ck_assert_ptr_null(session);
    ck_assert_ptr_null(ids);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("null");
    tcase_add_test(tests, what_is_null_is_named);
    return run_tests("null", tests);
}
