/* SPDX-License-Identifier: Apache-2.0 */
/* What a template's words say of the format of calls, and the end of its prompt of reasoning. */
#include <kt/text.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *begin, *think; /* of a call, and what a prompt ends in */
    uint32_t format;
} formats[] = {
    {"<tool_call>", "<think>", KT_OUTPUT_HERMES},
    {"<tool_call><arg_key>", "<think>", KT_OUTPUT_GLM},
    {"<tool_call><function=", "<think>", KT_OUTPUT_FUNCTION},
    {"[TOOL_CALLS]", "[THINK]", KT_OUTPUT_MISTRAL},
    {"<longcat_tool_call>", "<longcat_think>", KT_OUTPUT_LONGCAT},
    {"<longcat_tool_call><longcat_arg_key>", "<longcat_think>", KT_OUTPUT_LONGCAT_MARKUP},
};

START_TEST(words_of_a_template_say_its_format)
{
    char source[400];
    struct kt_template *chat;
    struct kt_template_info found;
    struct kt_error error;
    (void)snprintf(source, sizeof source,
                   "{%% for m in messages %%}{{ m.content }}{%% endfor %%}{%% if tools %%}%s{%% endif %%}"
                   "{%% if add_generation_prompt %%}%s\n{%% endif %%}",
                   formats[_i].begin, formats[_i].think);
    ck_assert_msg(kt_template_create(source, strlen(source), "t", &chat, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_int_eq(kt_template_info(chat, &found, &error), KT_OK);
    ck_assert_uint_eq(found.format, formats[_i].format);
    ck_assert_uint_eq(found.starts_reasoning, 1);
    kt_template_destroy(chat);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("template formats");
    TCase *tests = tcase_create("formats");
    tcase_add_loop_test(tests, words_of_a_template_say_its_format, 0,
                        (int)(sizeof formats / sizeof formats[0]));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
