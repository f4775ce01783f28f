/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_template_faults.c - every allocation of a template's life fails once: KT_E_NOMEM, and nothing leaks.
 * Not jansson's own: where one fails, its lexer says that the JSON is wrong.
 */
#include <kt/text.h>

#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* libcheck allocates, too: no assertion in here. */
static enum kt_status live(struct kt_error *error)
{
    static const char source[] =
        "{% macro f(x) %}{{ x|tojson }}{% endmacro %}{% for i in range(350) %}{{ f([i, c|default(0)]) }}{% endfor %}"
        "{{ '{\"a\": [1]}'|from_json }}{{ strftime_now('%Y') }}";
    static const char variables[] =
        "{\"c\": \"text\", \"messages\": [{\"tool_calls\": [{\"function\": {\"arguments\": \"{}\"}}]}]}";
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_template *chat = NULL;
    struct kt_template_info info;
    struct kt_rendering *rendering = NULL;
    *error = (struct kt_error){.status = KT_OK};
    params.parse_arguments = 1;
    enum kt_status status = kt_template_create(source, strlen(source), "t", &chat, error);
    if (status == KT_OK)
        status = kt_template_info(chat, &info, error);
    if (status == KT_OK)
        status = kt_template_render(chat, variables, strlen(variables), &params, &rendering, error);
    kt_rendering_destroy(rendering);
    kt_template_destroy(chat);
    return status;
}

START_TEST(every_allocation)
{
    unsigned long n = 0;
    struct kt_error error;
    ck_assert_int_eq(live(&error), KT_OK);
    for (;;) {
        faults_arm(++n);
        enum kt_status status = live(&error);
        bool hit = faults_hit();
        faults_arm(0);
        if (!hit)
            break;
        ck_assert_int_eq(status, error.status);
        ck_assert_msg(status == KT_E_NOMEM && error.message[0], "allocation %lu: status %d", n, (int)status);
    }
    ck_assert_uint_gt(n, 50);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("faults");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_allocation);
    return run_tests("template faults", tests);
}
