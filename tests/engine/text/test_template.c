/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_template.c - chat templates: small ones against what Jinja2 made of them (tests/data/templates), those
 * of real models where KT_TEST_DATA_SHARED names a folder with them, marks, limits, errors, and what is found
 * out about them.
 */
#include "tests/support/suite.h"

#include <kt/text.h>

#include <check.h>
#include <dirent.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char no_variables[] = "{}";

/* 2026-01-02 03:04:05, in UTC. */
static struct kt_render_params params(void)
{
    struct kt_render_params made = KT_RENDER_PARAMS_INIT;
    made.has_time = 1;
    made.time = 1767323045;
    return made;
}

static enum kt_status render(const char *source, size_t length, const char *variables,
                             const struct kt_render_params *how, struct kt_rendering **rendering,
                             struct kt_error *error)
{
    struct kt_template *chat = NULL;
    *error = (struct kt_error){.status = KT_OK};
    *rendering = NULL;
    enum kt_status status = kt_template_create(source, length, "t", &chat, error);
    if (status == KT_OK)
        status = kt_template_render(chat, variables, strlen(variables), how, rendering, error);
    ck_assert_int_eq(status, error->status);
    kt_template_destroy(chat);
    return status;
}

/* Runs a case: {"template" or `source`, "text" or "error"}. */
static void check_case(const char *name, const char *source, size_t length, const json_t *variables,
                       const json_t *wanted)
{
    struct kt_render_params how = params();
    struct kt_rendering *rendering;
    struct kt_error error;
    char *text = json_dumps(variables, 0);
    const char *words = json_string_value(json_object_get(wanted, "error"));
    const json_t *expected = json_object_get(wanted, "text");
    enum kt_status status = render(source, length, text, &how, &rendering, &error);
    if (words) {
        const char *own = strncmp(words, "TemplateError: ", 15) == 0 ? words + 15
                          : strchr(words, ':')                       ? ""
                                                                     : words;
        ck_assert_msg(status != KT_OK, "%s: rendered instead of: %s", name, words);
        if (*own)
            ck_assert_msg(status == KT_E_INVALID && strcmp(error.message, own) == 0, "%s: %s: instead of: %s",
                          name, error.message, own);
    } else {
        uint64_t got_length = 0;
        ck_assert_msg(status == KT_OK, "%s: %s", name, error.message);
        const char *got = kt_rendering_text(rendering, &got_length);
        ck_assert_msg(got_length == json_string_length(expected) &&
                          memcmp(got, json_string_value(expected), got_length) == 0,
                      "%s:\n%s\ninstead of\n%s", name, got, json_string_value(expected));
    }
    kt_rendering_destroy(rendering);
    free(text);
}

START_TEST(small_templates)
{
    char path[4096];
    json_error_t error;
    (void)snprintf(path, sizeof path, "%s/templates/cases.json", getenv("KT_TEST_DATA"));
    json_t *file = json_load_file(path, 0, &error), *one;
    ck_assert_msg(file != NULL, "%s: %s", path, error.text);
    size_t i;
    ck_assert_uint_gt(json_array_size(json_object_get(file, "cases")), 100);
    json_array_foreach (json_object_get(file, "cases"), i, one) {
        const json_t *source = json_object_get(one, "template");
        check_case(json_string_value(source), json_string_value(source), json_string_length(source),
                   json_object_get(file, "variables"), one);
    }
    json_decref(file);
}
END_TEST

static char *read_file(const char *path, size_t *length)
{
    char *text = malloc(1 << 20);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL && text != NULL, "%s cannot be read", path);
    *length = fread(text, 1, 1 << 20, file);
    (void)fclose(file);
    return text;
}

START_TEST(templates_of_models)
{
    char path[4096], name[512];
    const char *data = getenv("KT_TEST_DATA_SHARED");
    if (!data || !*data) {
        puts("SKIP: templates of models: KT_TEST_DATA_SHARED names no folder with chat-templates");
        return;
    }
    (void)snprintf(path, sizeof path, "%s/chat-templates", data);
    DIR *folder = opendir(path);
    ck_assert_msg(folder != NULL, "%s cannot be read", path);
    unsigned n = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *end = strstr(entry->d_name, ".jinja");
        if (!end)
            continue;
        size_t length, i;
        (void)snprintf(path, sizeof path, "%s/chat-templates/%s", data, entry->d_name);
        char *source = read_file(path, &length);
        (void)snprintf(path, sizeof path, "%s/chat-templates/%.*s.json", data, (int)(end - entry->d_name),
                       entry->d_name);
        json_t *cases = json_load_file(path, 0, NULL), *one;
        ck_assert_msg(cases != NULL, "%s cannot be read", path);
        json_array_foreach (cases, i, one) {
            (void)snprintf(name, sizeof name, "%.200s %.200s", entry->d_name,
                           json_string_value(json_object_get(one, "case")));
            check_case(name, source, length, json_object_get(one, "arguments"), one);
            n++;
        }
        json_decref(cases);
        free(source);
    }
    (void)closedir(folder);
    ck_assert_uint_gt(n, 0);
}
END_TEST

/* Every byte of `control` in the rendering is content, and something is content. */
static void check_marks(const char *expression, const char *control)
{
    char source[512];
    struct kt_rendering *rendering;
    struct kt_error error;
    struct kt_render_params how = params();
    (void)snprintf(source, sizeof source, "<t>{{ %s }}</t>", expression);
    enum kt_status status = render(
        source, strlen(source),
        "{\"c\": \"<|im_start|>\", \"d\": {\"<|im_start|>\": \"<|im_start|>\"}, \"l\": [\"<|im_start|>\"], "
        "\"j\": \"[\\\"<|im_start|>\\\"]\", \"m\": [{\"k\": \"<|im_start|>\"}], \"bos_token\": \"<s>\"}",
        &how, &rendering, &error);
    ck_assert_msg(status == KT_OK, "%s: %s", expression, error.message);
    uint64_t n, at = 0;
    const struct kt_text_part *parts = kt_rendering_parts(rendering, &n);
    const char *text = kt_rendering_text(rendering, NULL);
    const char *found = strstr(text, control);
    ck_assert_msg(found != NULL, "%s: %s", expression, text);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_msg(parts[i].length > 0, "%s: an empty part", expression);
        ck_assert_msg(i == 0 || parts[i].is_content != parts[i - 1].is_content, "%s: two parts alike",
                      expression);
        ck_assert(parts[i].text == text + at);
        uint64_t end = at + parts[i].length;
        for (const char *c = text; (c = strstr(c, control)); c++) {
            uint64_t from = (uint64_t)(c - text), to = from + strlen(control);
            ck_assert_msg(parts[i].is_content || from >= end || to <= at,
                          "%s: control text became the template's: %s", expression, text);
        }
        at = end;
    }
    ck_assert_uint_eq(at, strlen(text));
    ck_assert_msg(!parts[0].is_content && !parts[n - 1].is_content && strncmp(parts[0].text, "<t>", 3) == 0,
                  "%s: the template's text became content", expression);
    kt_rendering_destroy(rendering);
}

static const char *const same[] = {
    "c",
    "c + 'x'",
    "'x' + c",
    "'x' ~ c ~ 1",
    "c * 2",
    "c[:]",
    "c[0:12]",
    "('ab' + c)[2:]",
    "c|trim",
    "c|string",
    "c|default('x')",
    "nope|default(c)",
    "c|lower",
    "c|replace('x', 'y')",
    "'q'|replace('q', c)",
    "c|join",
    "l|join(', ')",
    "'ab'|join(c)",
    "['a', 'b']|join(c)",
    "c|list|join",
    "l|first",
    "l|last",
    "l|list|first",
    "strftime_now('%Y ' ~ m)",
    "l|tojson",
    "d|tojson",
    "d|tojson(indent=2)",
    "m|tojson",
    "c|tojson",
    "d",
    "l",
    "m",
    "[c]",
    "{'a': c}",
    "{c: 1}",
    "(c, 1)",
    "d|items|first|first",
    "d|dictsort|first|last",
    "d.keys()|first",
    "d.values()|first",
    "d.items()|list",
    "d['<|im_start|>']",
    "m|map(attribute='k')|first",
    "m|map(attribute='k')|join",
    "l|map('trim')|first",
    "l|map('string')|list",
    "m|selectattr('k')|list",
    "l|select|first",
    "l|reject('none')|first",
    "l|sort|first",
    "l|unique|first",
    "l|reverse|first",
    "l|max",
    "l|min",
    "l|batch(2)|first|first",
    "l|slice(1)|first|first",
    "m|groupby('k')|first|first",
    "j|from_json|first",
    "c|indent",
    "('a\n' + c)|indent",
    "c|indent(2, true)",
    "'a\nb'|indent(c)",
    "c|center(20)",
    "c|truncate(99)",
    "(c ~ ' aaaaaaaaaaaaaaaaaaa')|truncate(20)",
    "'%s'|format(c)",
    "'%20s' % c",
    "'%s' % [c]",
    "'%(a)s' % {'a': c}",
    "c|format",
    "c|safe",
    "c|safe + 'x'",
    "c.strip()",
    "c.strip('x')",
    "c.lstrip()",
    "c.rstrip()",
    "c.lower()",
    "c.replace('x', 'y')",
    "'x'.replace('x', c)",
    "c.split(',')[0]",
    "c.split()[0]",
    "('a,' + c).rsplit(',', 1)[1]",
    "c.splitlines()[0]",
    "c.join(['a', 'b'])",
    "','.join([c])",
    "c.partition('x')[0]",
    "('a' + c).partition('a')[2]",
    "('a' + c).removeprefix('a')",
    "(c + 'a').removesuffix('a')",
    "c.center(20)",
    "c.ljust(20)",
    "c.rjust(20)",
    "c.zfill(20)",
    "'{}'.format(c)",
    "'a{0}{0}'.format(c)",
    "(c ~ '{x}').format(x=c)",
    "(c if true else 1)",
    "c or 'x'",
    "true and c",
    "d.get('x', c)",
    "dict(a=c).a",
    "namespace(a=c).a",
    "[c].copy()",
    "c|e|replace('&lt;', '<')|replace('&gt;', '>')",
    "c|reverse|reverse",
    "c[::-1][::-1]",
    "c|attr('lower')()",
};

START_TEST(marks)
{
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_marks(same[i], strstr(same[i], "|e|") ? "|im_start|" : "<|im_start|>");
    static const char *const upper[] = {"c|upper", "c.upper()", "c|lower|upper", "c.lower().upper()",
                                        "c.swapcase()"};
    for (size_t i = 0; i < sizeof upper / sizeof *upper; i++)
        check_marks(upper[i], "<|IM_START|>");
    check_marks("c|title", "|im_start|");
    check_marks("c.title()", "<|Im_Start|>");
    check_marks("c|capitalize", "<|im_start|>");
    check_marks("c|urlencode", "%3C%7Cim_start%7C%3E");
    check_marks("c|escape", "&lt;|im_start|&gt;");
    check_marks("c|forceescape", "&lt;|im_start|&gt;");
}
END_TEST

START_TEST(marks_of_blocks)
{
    static const char source[] =
        "{% macro f(x) %}<{{ x }}>{% endmacro %}{% set a %}[{{ c }}]{% endset %}{{ f(c) }}{{ a }}"
        "{% filter upper %}{{ c }}{% endfilter %}{% for x in c %}{{ x }}{% endfor %}{{ bos_token }}";
    static const char *const pieces[] = {"<", "ab", ">[", "ab", "]", "ABab", "<s>"};
    struct kt_rendering *rendering;
    struct kt_error error;
    uint64_t n;
    ck_assert_int_eq(render(source, strlen(source), "{\"c\": \"ab\", \"bos_token\": \"<s>\"}", NULL,
                            &rendering, &error),
                     KT_OK);
    const struct kt_text_part *parts = kt_rendering_parts(rendering, &n);
    ck_assert_uint_eq(n, 7);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_eq(parts[i].is_content, i % 2);
        ck_assert_uint_eq(parts[i].length, strlen(pieces[i]));
        ck_assert_mem_eq(parts[i].text, pieces[i], parts[i].length);
    }
    kt_rendering_destroy(rendering);
}
END_TEST

static void expect(const char *source, const char *variables, const struct kt_render_params *how,
                   enum kt_status status, const char *message)
{
    struct kt_rendering *rendering;
    struct kt_error error;
    ck_assert_msg(render(source, strlen(source), variables, how, &rendering, &error) == status, "%s: %d %s",
                  source, (int)error.status, error.message);
    ck_assert_msg(!message || strstr(error.message, message), "%s: %s instead of %s", source, error.message,
                  message);
    kt_rendering_destroy(rendering);
}

START_TEST(errors)
{
    struct kt_template *chat;
    struct kt_error error;
    expect("a\n  {{ 1 + 'a' }}", no_variables, NULL, KT_E_UNSUPPORTED, "t:2:10: unsupported operand");
    expect("\u00e4{{ x.y.z }}", "{\"x\": {}}", NULL, KT_E_UNSUPPORTED,
           "t:1:8: 'dict object' has no attribute 'y'");
    expect("{% if x %}\n{% endfor %}", no_variables, NULL, KT_E_FORMAT, "t:2:4: unexpected 'endfor'");
    expect("{{ [] is test }}", no_variables, NULL, KT_E_UNSUPPORTED, "unhashable type: 'list'");
    expect("{{ {} is filter }}", no_variables, NULL, KT_E_UNSUPPORTED, "unhashable type: 'dict'");
    expect("{{ ([],) is test }}", no_variables, NULL, KT_E_UNSUPPORTED, "unhashable type");
    expect("{{ self }}", no_variables, NULL, KT_E_UNSUPPORTED, "'self', the template, is not supported");
    expect("{% include 'x' %}", no_variables, NULL, KT_E_UNSUPPORTED, "include");
    expect("{% import 'x' as y %}", no_variables, NULL, KT_E_UNSUPPORTED, "import");
    expect("{% extends 'x' %}", no_variables, NULL, KT_E_UNSUPPORTED, "extends");
    expect("{% for x in y recursive %}{% endfor %}", no_variables, NULL, KT_E_UNSUPPORTED, "recursive");
    expect("{{ f(*x) }}", no_variables, NULL, KT_E_UNSUPPORTED, "*name");
    expect("{{ raise_exception('a: %s' % x) }}", "{\"x\": \"b\"}", NULL, KT_E_INVALID, "a: b");
    expect("x", "[1]", NULL, KT_E_FORMAT, "not a JSON object");
    expect("x", "{", NULL, KT_E_FORMAT, "JSON, line 1");
    expect("{{ 9223372036854775807 + 1 }}", no_variables, NULL, KT_E_UNSUPPORTED, "64 bits");
    expect("{{ 99999999999999999999 }}", no_variables, NULL, KT_E_UNSUPPORTED,
           "99999999999999999999 has more than 64 bits");
    ck_assert_int_eq(kt_template_create("\xff", 1, "bad", &chat, &error), KT_E_FORMAT);
    ck_assert_int_eq(kt_template_create(NULL, 1, "bad", &chat, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_template_render(NULL, "{}", 2, NULL, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_template_builtin("x", &chat, &error), KT_E_NOT_FOUND);
}
END_TEST

/* `n` times `a`, then `middle`, then `n` times `b`. */
static char *nest(const char *a, const char *middle, const char *b, size_t n)
{
    char *text = calloc(1, n * (strlen(a) + strlen(b)) + strlen(middle) + 1), *at = text;
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, a);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, b);
    return text;
}

START_TEST(limits)
{
    struct kt_render_params how = params();
    expect("{% for x in range(100000) %}{% for y in range(100000) %}{% endfor %}{% endfor %}", no_variables,
           NULL, KT_E_RANGE, "steps");
    expect("{{ 'x' * 1000000000 }}", no_variables, NULL, KT_E_RANGE, "bytes");
    expect(
        "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        no_variables, NULL, KT_E_RANGE, "bytes");
    expect("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", no_variables, NULL, KT_E_RANGE, "deep");
    expect("{% set l = [] %}{% if l.append(l) %}{% endif %}{{ l }}", no_variables, NULL, KT_E_RANGE, "deep");
    expect("{% set l = [] %}{% if l.append(l) %}{% endif %}{{ l|tojson }}", no_variables, NULL, KT_E_RANGE,
           "deep");
    expect("{{ range(1000000) }}", no_variables, NULL, KT_E_RANGE, "range");
    expect("{{ [1] * 10000000000 }}", no_variables, NULL, KT_E_RANGE, NULL);
    expect("{% for i in range(99) %}{% for k in range(99) %}{{ 'a' in x }}{% endfor %}{% endfor %}",
           "{\"x\": \"b\"}", NULL, KT_OK, NULL);
    how.max_output = 10;
    expect("{{ 'x' * 10 }}", no_variables, &how, KT_OK, NULL);
    expect("{{ 'x' * 11 }}", no_variables, &how, KT_E_RANGE, "10 bytes");
    expect("{% for i in range(4) %}xxx{% endfor %}", no_variables, &how, KT_E_RANGE, "10 bytes");
    how = params();
    how.max_steps = 20;
    expect("{{ 1 }}", no_variables, &how, KT_OK, NULL);
    expect("{% for i in range(30) %}{% endfor %}", no_variables, &how, KT_E_RANGE, "20 steps");
    static const char *const around[][3] = {{"{{ ", "1", " }}"}, {"(", "1", ")"},   {"[", "", "]"},
                                            {"not ", "1", ""},   {"-", "1", ""},    {"", "x", ".a"},
                                            {"", "x", "|e"},     {"", "f", "()"},   {"", "x", "[0]"},
                                            {"1 if ", "1", ""},  {"{1:", "1", "}"}, {"", "1", " is eq 1"},
                                            {"x(", "", ")"},     {"x[", "1", "]"},  {"1 ** ", "1", ""}};
    for (size_t i = 1; i < sizeof around / sizeof *around; i++) {
        char *inner = nest(around[i][0], around[i][1], around[i][2], 20000),
             *source = nest("{{ ", inner, " }}", 1);
        struct kt_rendering *rendering;
        struct kt_error error;
        (void)render(source, strlen(source), no_variables, NULL, &rendering, &error);
        ck_assert_msg(error.status != KT_OK || i == 14, "%s", around[i][0]);
        kt_rendering_destroy(rendering);
        free(inner);
        free(source);
    }
    char *source = nest("{% if 1 %}", "", "{% endif %}", 20000);
    expect(source, no_variables, NULL, KT_E_FORMAT, "deep");
    free(source);
    char *variables = nest("[", "", "]", 900), *object = nest("{\"a\":", variables, "}", 1);
    expect("{{ a }}", object, NULL, KT_E_RANGE, "deep");
    free(variables);
    free(object);
}
END_TEST

START_TEST(arguments)
{
    static const char variables[] =
        "{\"messages\": [{\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1.50}\"}}, {\"function\": "
        "{\"arguments\": \"[1]\"}}, {\"function\": {\"arguments\": \"{\"}}, {\"arguments\": \"{}\"}]}, {\"content\": null}]}";
    static const char source[] =
        "{% for c in messages[0].tool_calls %}{{ (c.function or c).arguments is mapping }}{% endfor %}"
        "{{ messages[0].tool_calls[0].function.arguments|string }}";
    struct kt_render_params how = params();
    struct kt_rendering *rendering;
    struct kt_error error;
    ck_assert_int_eq(render(source, strlen(source), variables, &how, &rendering, &error), KT_OK);
    ck_assert_str_eq(kt_rendering_text(rendering, NULL), "FalseFalseFalseFalse{\"a\": 1.50}");
    kt_rendering_destroy(rendering);
    how.parse_arguments = 1;
    ck_assert_int_eq(render(source, strlen(source), variables, &how, &rendering, &error), KT_OK);
    ck_assert_str_eq(kt_rendering_text(rendering, NULL), "TrueFalseFalseTrue{'a': 1.5}");
    kt_rendering_destroy(rendering);
}
END_TEST

/* As transformers has them. */
START_TEST(messages)
{
    static const char variables[] =
        "{\"messages\": [{\"role\": \"a\", \"content\": null, \"reasoning\": \"r\"}, {\"thinking\": \"t\", "
        "\"reasoning_content\": null, \"x\": {\"y\": null}}, {\"reasoning_content\": \"c\", \"thinking\": \"t\"}, 1]}";
    static const char source[] = "{% for m in messages %}{{ m }}{% endfor %}";
    struct kt_render_params how = params();
    struct kt_rendering *rendering;
    struct kt_error error;
    how.tidy_messages = 1;
    ck_assert_int_eq(render(source, strlen(source), variables, &how, &rendering, &error), KT_OK);
    ck_assert_str_eq(kt_rendering_text(rendering, NULL),
                     "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}"
                     "{'thinking': 't', 'x': {'y': None}, 'reasoning_content': 't'}"
                     "{'thinking': 't', 'reasoning_content': 'c'}1");
    kt_rendering_destroy(rendering);
    how.tidy_messages = 0;
    ck_assert_int_eq(render("{{ messages[0] }}", 17, variables, &how, &rendering, &error), KT_OK);
    ck_assert_str_eq(kt_rendering_text(rendering, NULL), "{'role': 'a', 'content': None, 'reasoning': 'r'}");
    kt_rendering_destroy(rendering);
}
END_TEST

/* As Python's str and Jinja's macros have them. */
START_TEST(seldom_asked)
{
    static const char *const cases[][2] = {
        {"{{ '\u00dfa'.title() }} {{ '\u00dfA'|capitalize }} {{ '\u00df'.upper() }}", "Ssa Ssa SS"},
        {"{{ ['\u00b2'.isdigit(), '\u00bd'.isdigit(), '\u0663'.isdigit(), '\u0663'.isdecimal()] }}",
         "[True, False, True, True]"},
        {"{{ ['\u00bd'.isnumeric(), '\u4e09'.isnumeric(), '\u65e5'.isnumeric(), '\u00bd'.isalnum()] }}",
         "[True, True, False, True]"},
        {"{{ ['\u00b2'.isdecimal(), '\u00bd'.isalpha(), 'a\u00bd b'|wordcount] }}", "[False, False, 2]"},
        {"{% macro m(a, b=2) %}{{ varargs }}{{ caller }}{% endmacro %}{{ [m.arguments, m.name, m.catch_kwargs, "
         "m.catch_varargs, m.caller, m.explicit_caller, m.x is defined] }}",
         "[('a', 'b'), 'm', False, True, True, False, False]"},
        {"{{ ['upper' is filter, 'odd' is test, 1 is test, (1, 'a') is filter, none is test] }}",
         "[True, True, False, False, False]"},
        {"{% set self = 3 %}{{ self }}", "3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kt_rendering *rendering;
        struct kt_error error = {KT_OK, ""};
        ck_assert_msg(render(cases[i][0], strlen(cases[i][0]), no_variables, NULL, &rendering, &error) ==
                          KT_OK,
                      "%s: %s", cases[i][0], error.message);
        ck_assert_str_eq(kt_rendering_text(rendering, NULL), cases[i][1]);
        kt_rendering_destroy(rendering);
    }
}
END_TEST

static void builtin(const char *family, const char *expected)
{
    static const char variables[] =
        "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_generation_prompt\": true, \"messages\": [{\"role\": \"system\", "
        "\"content\": \"S\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"A\"}, {\"type\": \"text\", "
        "\"text\": \"B\"}]}, {\"role\": \"assistant\", \"content\": \"C\"}, {\"role\": \"user\", \"content\": \"D\"}]}";
    struct kt_template *chat;
    struct kt_template_info info;
    struct kt_rendering *rendering;
    struct kt_error error;
    ck_assert_msg(kt_template_builtin(family, &chat, &error) == KT_OK, "%s", error.message);
    ck_assert_msg(kt_template_render(chat, variables, strlen(variables), NULL, &rendering, &error) == KT_OK,
                  "%s", error.message);
    ck_assert_str_eq(kt_rendering_text(rendering, NULL), expected);
    ck_assert_int_eq(kt_template_info(chat, &info, &error), KT_OK);
    ck_assert(info.takes_system && info.takes_parts && !info.takes_tools && !info.takes_calls &&
              !info.starts_reasoning);
    ck_assert(strstr(info.source, family) != NULL);
    kt_rendering_destroy(rendering);
    kt_template_destroy(chat);
}

START_TEST(builtins)
{
    builtin(
        "chatml",
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nAB<|im_end|>\n<|im_start|>assistant\nC<|im_end|>\n"
        "<|im_start|>user\nD<|im_end|>\n<|im_start|>assistant\n");
    builtin(
        "llama3",
        "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAB"
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nC<|eot_id|><|start_header_id|>user"
        "<|end_header_id|>\n\nD<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
    builtin("mistral", "<s>[INST] S\n\nAB [/INST] C</s>[INST] D [/INST]");
    builtin("deepseek", "<s>S<｜User｜>AB<｜Assistant｜>C<｜end▁of▁sentence｜><｜User｜>D<｜Assistant｜>");
    builtin("gemma", "<s><start_of_turn>user\nS\n\nAB<end_of_turn>\n<start_of_turn>model\nC<end_of_turn>\n"
                     "<start_of_turn>user\nD<end_of_turn>\n<start_of_turn>model\n");
    for (size_t i = 0; i < 5; i++)
        ck_assert_ptr_nonnull(kt_template_builtin_name(i));
    ck_assert_ptr_null(kt_template_builtin_name(5));
}
END_TEST

START_TEST(info)
{
    static const char source[] =
        "{% for m in messages %}{% if m.role != 'system' %}{{ m.content or '' }}{% endif %}{% for c in m.tool_calls or [] %}"
        "<tool_call>{{ c.function.name + c.function.arguments }}</tool_call>{% endfor %}{{ m.reasoning_content }}{% endfor %}"
        "{% for t in tools or [] %}{{ t|tojson }}{% endfor %}{% if add_generation_prompt %}<think>\n"
        "{% if enable_thinking is false %}</think>{% endif %}{% endif %}";
    struct kt_template *chat;
    struct kt_template_info found;
    struct kt_error error;
    ck_assert_msg(kt_template_create(source, strlen(source), "x", &chat, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_int_eq(kt_template_info(chat, &found, &error), KT_OK);
    ck_assert_str_eq(found.source, "x");
    ck_assert_uint_eq(found.format, KT_OUTPUT_HERMES);
    ck_assert(!found.takes_system && found.takes_tools && found.takes_calls && found.takes_parallel &&
              !found.takes_parts && found.takes_reasoning && found.switches_thinking &&
              found.starts_reasoning && found.wants_text);
    kt_template_destroy(chat);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("template");
    (void)setenv("TZ", "UTC", 1);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, small_templates);
    tcase_add_test(tests, templates_of_models);
    tcase_add_test(tests, marks);
    tcase_add_test(tests, marks_of_blocks);
    tcase_add_test(tests, errors);
    tcase_add_test(tests, limits);
    tcase_add_test(tests, arguments);
    tcase_add_test(tests, messages);
    tcase_add_test(tests, seldom_asked);
    tcase_add_test(tests, builtins);
    tcase_add_test(tests, info);
    return run_tests("template", tests);
}
