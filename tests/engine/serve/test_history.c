/* SPDX-License-Identifier: Apache-2.0 */
/* test_history.c - what templates need is found, and conversations are made to fit. */
#include "tools/engine/base/big.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/history.h"
#include "tools/engine/serve/mend.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
#define CALLED                                                                            \
    "{% for m in messages %}{% for c in m.tool_calls or [] %}call {{ c.function.name }} " \
    "{{ c.function.arguments|tojson }};{% else %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% endfor %}"
#define TALK "{\"role\":\"user\",\"content\":\"u\"},"
#define CALL(id, arguments) \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}"
#define CALLS(more, calls) "{\"role\":\"assistant\",\"content\":\"\"," more "\"tool_calls\":[" calls "]},"
#define RESULT(id) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"r" id "\"}"
#define SYSTEM(text) "{\"role\":\"system\",\"content\":\"" text "\"}"

/* A template, a conversation, and its prompt. */
static const struct {
    const char *source, *messages, *tools, *text;
} cases[] = {
    {PLAIN, SYSTEM("a") "," SYSTEM("b") "," TALK SYSTEM("c"), NULL, "s:a;s:b;u:u;s:c;"},
    /* one system message, at the beginning */
    {"{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no') "
     "}}{% endif %}"
     "{{ m.role[0] }}:{{ m.content }};{% endfor %}",
     TALK SYSTEM("a") "," SYSTEM("b"), NULL, "s:a\n\nb;u:u;"},
    /* the first one only is shown */
    {"{% if messages[0].role == 'system' %}{{ messages[0].content }};{% endif %}{% for m in "
     "messages if m.role != 'system' %}"
     "{{ m.content }};{% endfor %}",
     SYSTEM("a") "," TALK SYSTEM("b"), NULL, "a\n\nb;u;"},
    /* none */
    {"{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ "
     "m.content }};{% endfor %}",
     SYSTEM("a") "," SYSTEM("b") "," TALK SYSTEM("c"), NULL, "a\n\nb\n\nc\n\nu;"},
    /* the first part only is shown */
    {"{% for m in messages %}{{ m.content if m.content is string else m.content[0].text }};{% endfor %}",
     "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}," TALK
     "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"},{\"type\":\"text\",\"text\":\"d\"}]}",
     NULL, "a\nb;u;c\nd;"},
    /* user and model in turn, a user first */
    {"{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ "
     "raise_exception('no') }}{% endif %}"
     "{{ m.role[0] }}:{{ m.content }};{% endfor %}",
     "{\"role\":\"assistant\",\"content\":\"a\"}," TALK TALK "{\"role\":\"assistant\",\"content\":\"b\"}",
     NULL, "u:;a:a;u:u\n\nu;a:b;"},
    /* calls: arguments of all kinds */
    {CALLED, TALK CALLS("", CALL("1", "\"{\\\"a\\\": [\\\"x\"")) RESULT("1"), NULL,
     "u:u;call f {\"a\": [\"x\"]};t:r1;"},
    {CALLED,
     TALK CALLS("", CALL("1", "\"\"") "," CALL("2", "null") "," CALL("3", "\"{\\\"a\\\": 1e400}\""))
         RESULT("1"),
     NULL, "u:u;call f {};call f {};call f {\"a\": 1e400};t:r1;"},
    /* one call a message, each with its result */
    {"{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls|length > 1 %}{{ "
     "raise_exception('no') }}{% endif %}"
     "call {{ m.tool_calls[0].function.name }} {{ m.tool_calls[0].function.arguments|tojson }};{% "
     "else %}{{ m.content }};"
     "{% endif %}{% endfor %}",
     TALK CALLS("", CALL("1", "{}") "," CALL("2", "\"{\\\"a\\\":2}\"")) RESULT("2") "," RESULT("1"), NULL,
     "u;call f {};r1;call f {\"a\": 2};r2;"},
    /* ids of nine letters; of names; arguments as text; names of results */
    {"{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id|length != 9 %}{{ "
     "raise_exception('no') }}{% endif %}"
     "{{ c.function.name }}{{ c.function.arguments|tojson }}{{ c.id }};{% endfor %}{{ m.content "
     "}}{{ m.tool_call_id }};{% endfor %}",
     TALK CALLS("", CALL("abcdefgh1", "{}") "," CALL("toolu_1", "{}")) RESULT("toolu_1"), NULL,
     "u;f{}abcdefgh1;f{}M0Auj3NaI;;rtoolu_1M0Auj3NaI;"},
    {"{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }}{{ "
     "c.function.arguments|tojson }};{% endfor %}"
     "{{ m.content }}{{ m.tool_call_id }};{% endfor %}",
     TALK CALLS("", CALL("functions.f:7", "{}") "," CALL("x", "{}")) RESULT("x"), NULL,
     "u;functions.f:7{};functions.f:1{};;rxfunctions.f:1;"},
    {"{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name + "
     "c.function.arguments }};{% endfor %}"
     "{{ m.name }}{{ m.content }};{% endfor %}",
     TALK CALLS("", CALL("1", "\"{\\\"a\\\":1\"")) RESULT("1"), NULL, "u;f{\"a\": 1};;r1;"},
    {"{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ "
     "c.function.arguments|tojson }};{% endfor %}"
     "{% if m.role == 'tool' %}{{ m.name + m.content }}{% else %}{{ m.content }}{% endif %};{% endfor %}",
     TALK CALLS("", CALL("1", "{}")) RESULT("1"), NULL, "u;f{};;fr1;"},
    /* a content of null where calls are shown beside nothing else, or an empty one is shown */
    {"{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}{{ c.function.name }}"
     "{{ c.function.arguments|tojson }};{% endfor %}{% else %}{{ m.content }};{% endif %}{% endfor %}",
     TALK CALLS("", CALL("1", "{}")) RESULT("1"), NULL, "u;f{};r1;"},
    {"{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}{{ c.function.name }}"
     "{{ c.function.arguments|tojson }};{% endfor %}{% else %}{{ m.content }};{% endif %}{% endfor %}",
     TALK "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\"}],\"tool_calls\":[" CALL(
         "1", "{}") "]}," RESULT("1"),
     NULL, "u;f{};r1;"},
    /* reasoning and content that exclude each other, also where content has parts */
    {"{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('no') }}"
     "{% endif %}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }};"
     "{% endfor %}{{ m.thinking }}{{ m.content }};{% endfor %}",
     TALK "{\"role\":\"assistant\",\"thinking\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],"
          "\"tool_calls\":[" CALL("1", "{}") "]}," RESULT("1"),
     NULL, "u;f{};t\n\na;r1;"},
    /* no calls at all */
    {PLAIN, TALK CALLS("", CALL("1", "{}")) RESULT("1"), NULL,
     "u:u;a:<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>;t:r1;"},
    {"{% for m in messages if m.role != 'tool' %}{{ m.content }};{% endfor %}",
     TALK CALLS("", CALL("1", "{}")) RESULT("1"), NULL,
     "u;<tool_call>\n{\"name\": \"f\", \"arguments\": "
     "{}}\n</tool_call>;<tool_response>\n\nr1\n\n</tool_response>;"},
    /* reasoning, by the name that the template has */
    {"{% for m in messages %}{{ m.reasoning }}{{ m.content }};{% endfor %}",
     TALK "{\"role\":\"assistant\",\"content\":\"a\",\"thinking\":\"t\"}", NULL, "u;ta;"},
    {"{% for m in messages %}{{ m.thinking }}{{ m.content }};{% endfor %}",
     TALK "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"t\"}", NULL, "u;ta;"},
    /* tools in words; what they lack */
    {PLAIN, TALK SYSTEM("s"), "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
     "s:## Tools\nYou have access to the following tools:\n\n### f\nDescription: \n\nParameters: "
     "{}\n\nTo call a tool, write a "
     "JSON object with its name and its arguments within "
     "<tool_call></tool_call>:\n<tool_call>\n{\"name\": \"the tool's "
     "name\", \"arguments\": {\"an argument\": \"its value\"}}\n</tool_call>\nResults come within "
     "<tool_response></tool_response>.;u:u;s:s;"},
    {"{% for t in tools or [] %}{{ t.function.name + t.function.description }}{% for n, p in "
     "t.function.parameters.properties"
     ".items() %}{{ n + p.type + (p.default or '') }}{% endfor %};{% endfor %}{{ messages[-1].content }}",
     TALK SYSTEM("s"),
     "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":null}},"
     "{\"type\":\"function\",\"function\":"
     "{\"name\":\"g\",\"parameters\":{\"properties\":{\"a\":{\"enum\":[1],\"default\":1},\"b\":true,"
     "\"c\":{\"type\":[\"null\","
     "\"array\"]},\"d\":{\"anyOf\":[{\"type\":\"object\"}]}}}}}]",
     "f;gainteger1bstringcarraydobject;s\n\nu"},
};

static char *make_prompt(size_t i)
{
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_rendering *rendering = NULL;
    struct kt_template *chat = NULL;
    struct kt_template_info info;
    struct kt_needs needs;
    struct kt_error error;
    json_error_t where;
    size_t length = strlen(cases[i].messages);
    char *list = calloc(1, length + 3);
    list[0] = '[';
    memcpy(list + 1, cases[i].messages, length);
    length += 1;
    length -= list[length - 1] == ',';
    list[length] = ']';
    ck_assert_int_eq(kt_template_create(cases[i].source, strlen(cases[i].source), "t", &chat, &error), KT_OK);
    ck_assert_msg(kt_template_info(chat, &info, &error) == KT_OK, "case %zu: %s", i, error.message);
    ck_assert_int_eq(kt_needs_find(chat, &info, &needs, &error), KT_OK);
    json_t *messages = kt_json_read(list, length + 1, 0, &where), *fitted;
    json_t *tools = cases[i].tools ? json_loads(cases[i].tools, 0, NULL) : NULL;
    ck_assert_msg(messages, "case %zu: %s", i, where.text);
    fitted = kt_history_fit(&needs, messages, needs.no_tools ? tools : NULL);
    json_t *variables = json_pack("{s:o}", "messages", fitted);
    if (tools && !needs.no_tools)
        json_object_set_new(variables, "tools", kt_history_tools(&needs, tools));
    char *words = kt_json_dump(variables, JSON_COMPACT);
    ck_assert_msg(kt_template_render(chat, words, strlen(words), &params, &rendering, &error) == KT_OK,
                  "case %zu: %s", i, error.message);
    char *text = strdup(kt_rendering_text(rendering, NULL));
    kt_rendering_destroy(rendering);
    free(words);
    json_decref(variables);
    json_decref(tools);
    free(list);
    kt_template_destroy(chat);
    return text;
}

START_TEST(conversations_fit)
{
    char *text = make_prompt((size_t)_i);
    ck_assert_str_eq(text, cases[_i].text);
    free(text);
}
END_TEST

START_TEST(arguments_are_mended)
{
    static const char *const pairs[][2] = {
        {"{\"a\": 1}", "{\"a\": 1}"},
        {"", "{}"},
        {" null", "{}"},
        {"{", "{}"},
        {"{\"a", "{}"},
        {"{\"a\": ", "{}"},
        {"{\"a\": tr", "{}"},
        {"{\"a\": \"b\\", "{\"a\": \"b\"}"},
        {"{\"a\": \"b\\u00", "{\"a\": \"b\"}"},
        {"{\"a\": [1, {\"b\": -2.", "{\"a\": [1, {\"b\": -2}]}"},
        {"{\"a\": 1, \"b\": [", "{\"a\": 1, \"b\": []}"},
        {"{\"a\": 1,", "{\"a\": 1}"},
        {"{\"a\": \"x\ny\\d\"}", "{\"a\": \"x\\ny\\\\d\"}"},
        {"{\"a\": 123456789012345678901234567890}", "{\"a\": 123456789012345678901234567890}"},
        {"{\"a\": \"\\ud83d\"}}", "{\"a\": \"\xef\xbf\xbd\"}"},
        {"\"{\\\"a\\\": 1}\"", "{\"a\": 1}"},
        {"[1]", "{\"arguments\": \"[1]\"}"},
        {"{\"a\": 01}", "{\"arguments\": \"{\\\"a\\\": 01}\"}"},
        {"{'a': 1}", "{\"arguments\": \"{'a': 1}\"}"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        json_t *text = json_string(pairs[i][0]), *object = kt_mend_arguments(text);
        char *words = kt_json_dump(object, 0);
        ck_assert_str_eq(words, pairs[i][1]);
        free(words);
        json_decref(object);
        json_decref(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tests = tcase_create("all");
    tcase_add_loop_test(tests, conversations_fit, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(tests, arguments_are_mended);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
