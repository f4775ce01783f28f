/* SPDX-License-Identifier: Apache-2.0 */
/* suite.h - how programs of tests end: by running what they have, with an exit code. */
#ifndef KT_TESTS_SUITE_H
#define KT_TESTS_SUITE_H

#include <check.h>

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

/* A suite of one case. */
static inline int run_tests(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

#endif
