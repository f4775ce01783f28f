/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that cannot be read or rendered, and what is said of each. */
#include "tests/support/suite.h"

#include <kt/text.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *source;
    const char *words; /* of the message */
} refusals[] = {
    /* read */
    {"{{ a ? b }}", "a character that no expression has"},
    {"{% for 1 in x %}{% endfor %}", "a name"},
    {"{% set 1 = 2 %}", "a name"},
    {"{% for x of y %}{% endfor %}", "'in'"},
    {"{% macro f(a=1, b) %}{% endmacro %}", "a default, as an argument before has one"},
    {"{{ f(a=1, 2) }}", "an argument with its name"},
    {"{{ a.'b' }}", "a name or a number"},
    {"{% break %}", "'break' outside of a loop"},
    {"{% if x %}", "unexpected end of template"},
    {"{{ (1 2) }}", "expected"},
    {"{{ 111111111122222222223333333333444444444455555555556666666666777777777788888888889999999999"
     "111111111122222222223333333333444444444455555555556666666666777777777788888888889999999999"
     "111111111122222222223333333333444444444455555555556666666666777777777788888888889999999999 }}",
     "a number of more than 255 digits"},
    /* calls */
    {"{{ 5[1:2] }}", "'int' object is not subscriptable by a slice"},
    {"{{ 'a'|upper(1, 2) }}", "takes at most 0 arguments (2 given)"},
    {"{{ 'a'|replace('a', 'b', count=1, zz=2) }}", "got an unexpected keyword argument 'zz'"},
    {"{{ 'a'|replace('a', old='b') }}", "got multiple values for argument 'old'"},
    {"{{ 'a'|replace('a') }}", "misses the argument 'new'"},
    {"{{ 5() }}", "'int' object is not callable"},
    {"{% macro f(a) %}{% endmacro %}{{ f(b=1) }}", "macro 'f' takes no keyword argument 'b'"},
    {"{{ [1]|map(zz=1)|list }}", "map requires a filter argument"},
    {"{{ [1]|map(attribute='a', zz=1)|list }}", "map() got an unexpected keyword argument"},
    {"{{ [1]|map('zz')|list }}", "No filter named 'zz'."},
    {"{{ [1]|selectattr()|list }}", "Missing parameter for attribute name"},
    {"{{ [1]|select('zz')|list }}", "No test named 'zz'."},
    {"{{ 1|zz }}", "No filter named 'zz'."},
    {"{{ 1 is zz }}", "No test named 'zz'."},
    {"{% if true %}{{ 1|zz }}{% endif %}", "No filter named 'zz'."},
    {"{{ 'a'.upper }}", "cannot be shown"},
    {"{{ '{}'.format() }}", "Replacement index 0 out of range for positional args tuple"},
    {"{{ '{} {0}'.format(1) }}",
     "cannot switch from automatic field numbering to manual field specification"},
    {"{{ '{0} {}'.format(1) }}",
     "cannot switch from manual field specification to automatic field numbering"},
    {"{{ '{a}'.format(b=1) }}", "'a'"},
    {"{{ 'a}'.format() }}", "Single '}' encountered in format string"},
    {"{{ 'a{'.format() }}", "Single '{' encountered in format string"},
    {"{{ 'a{b'.format(b=1) }}", "expected '}' before end of string"},
    {"{{ '{:>9}'.format(1) }}", "':>9' in format() is not supported"},
    {"{{ '{!a}'.format(1) }}", "'!a' in format() is not supported"},
    {"{{ '{0.a}'.format(1) }}", "a part of an argument in format() is not supported"},
    {"{{ '{:{}}'.format(1, 2) }}", "a field in a field of format() is not supported"},
    {"{{ range }}", "cannot be shown"},
    /* lists and objects */
    {"{{ [].pop() }}", "pop from empty list"},
    {"{{ [1].pop(3) }}", "pop index out of range"},
    {"{{ [1].index(2) }}", "the value is not in the list"},
    {"{{ {}.get([]) }}", "unhashable type: 'list'"},
    {"{{ {}.pop('a') }}", "pop: there is no such key"},
    {"{% set a, b = zz %}", "not enough values to unpack (expected 2, got 0)"},
    {"{% set a, b = [1] %}", "not enough values to unpack (expected 2, got 1)"},
    {"{% set a, b = [1, 2, 3] %}", "too many values to unpack (expected 2, got 3)"},
    {"{{ 5|length }}", "object of type 'int' has no len()"},
    {"{{ [1]|map('abs')|last }}", "'generator' object is not reversible"},
    {"{{ {}|dictsort(by='zz') }}", "You can only sort by either"},
    {"{{ []|dictsort }}", "'list' object has no attribute 'items'"},
    {"{{ ['a']|sum(start='') }}", "sum() can't sum strings"},
    {"{{ [1]|slice(0)|list }}", "division by zero"},
    {"{{ [2, 'a']|sort }}", "'<' not supported between instances of"},
    {"{{ 5 in 'abc' }}", "requires string as left operand, not int"},
    {"{{ range(1, 5, 0) }}", "range() arg 3 must not be zero"},
    {"{{ dict(1, 2) }}", "dict expected at most 1 argument, got 2"},
    {"{{ dict([[1]]) }}", "dict() needs pairs"},
    {"{% for x in [1] %}{{ loop.cycle() }}{% endfor %}", "no items for cycling given"},
    {"{{ {(1, 2): 3}|tojson }}", "keys must be str, int, float, bool or None, not tuple"},
    {"{{ [1]|map('abs') }}", "cannot be shown"},
    /* numbers */
    {"{{ -'a' }}", "bad operand type for unary -: 'str'"},
    {"{{ 10 ** 30 }}", "an integer of more than 64 bits"},
    {"{{ 1 // 0 }}", "zero"},
    {"{{ 1.0 / 0 }}", "zero"},
    {"{{ 1.0 % 0 }}", "zero"},
    {"{{ 1.0 // 0 }}", "zero"},
    {"{{ 0 ** -1 }}", "zero"},
    {"{{ 0.0 ** -1 }}", "zero"},
    {"{{ (-9223372036854775807 - 1) // -1 }}", "an integer of more than 64 bits"},
    {"{{ (-1.5) ** 0.5 }}", "a complex number"},
    {"{{ 10.0 ** 400 }}", "a result that is too large"},
    {"{{ 'a'|abs }}", "bad operand type for abs(): 'str'"},
    {"{{ '99999999999999999999'|int }}", "an integer of more than 64 bits"},
    {"{{ 1e19|int }}", "an integer of more than 64 bits"},
    {"{{ 1|round(method='zz') }}", "method must be common, ceil or floor"},
    {"{{ 'a'|round }}", "type str doesn't define __round__ method"},
    {"{{ 1e300|round(300, 'floor') }}", "cannot convert float infinity to integer"},
    /* texts */
    {"{{ '%s %s' % 'a' }}", "not enough arguments for format string"},
    {"{{ '%' % 'a' }}", "incomplete format"},
    {"{{ '%9999999d' % 1 }}", "a width of more than a million"},
    {"{{ '%d' % 'a' }}", "%d format: a number is required, not str"},
    {"{{ '%x' % 1.5 }}", "%x format: an integer is required, not float"},
    {"{{ '%.500f' % 1.5 }}", "a precision of more than 400"},
    {"{{ '%c' % 'ab' }}", "%c requires a character"},
    {"{{ '%(a)s' % 1 }}", "format requires a mapping"},
    {"{{ '%(a)s' % {} }}", "a key of the format string is missing"},
    {"{{ '%z' % 1 }}", "unsupported format character"},
    {"{{ '%s'|format(1, a=2) }}", "can't handle positional and keyword arguments at the same time"},
    {"{{ [1]|urlencode }}", "urlencode of a list is not supported"},
    {"{{ 1|tojson(separators=[1]) }}", "tojson() needs two separators"},
    {"{{ 'a'.partition('') }}", "empty separator"},
    {"{{ 'x' * 999999999999 }}", "makes a text of more than 67108864 bytes"},
    {"{{ strftime_now('x' * 5000) }}", "a format of more than 4096 bytes"},
    {"{{ 'a'.index('b') }}", "substring not found"},
    {"{{ 'a'.rindex('b') }}", "substring not found"},
};

static enum kt_status render(const char *source, const struct kt_render_params *params,
                             struct kt_error *error)
{
    struct kt_template *chat = NULL;
    struct kt_rendering *rendering = NULL;
    *error = (struct kt_error){.status = KT_OK};
    enum kt_status status = kt_template_create(source, strlen(source), "t", &chat, error);
    if (status == KT_OK)
        status = kt_template_render(chat, "{}", 2, params, &rendering, error);
    kt_rendering_destroy(rendering);
    kt_template_destroy(chat);
    return status;
}

START_TEST(is_refused)
{
    struct kt_error error;
    enum kt_status status = render(refusals[_i].source, NULL, &error);
    ck_assert_msg(status != KT_OK && status == error.status && strstr(error.message, refusals[_i].words),
                  "%s: %d, %s", refusals[_i].source, (int)status, error.message);
}
END_TEST

START_TEST(what_no_caller_may_ask)
{
    struct kt_template_info info;
    struct kt_template *chat = NULL;
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_error error;
    params.has_time = 1;
    params.time = INT64_MAX / 2;
    ck_assert_int_eq(render("{{ strftime_now('%Y') }}", &params, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "a time that no calendar has"));
    params.max_depth = 201;
    ck_assert_int_eq(render("", &params, &error), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "max_depth is 201"));
    params.struct_size = 1;
    ck_assert_int_eq(render("", &params, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "struct_size is 1"));
    ck_assert_int_eq(kt_template_builtin(NULL, &chat, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_template_open(NULL, NULL, &chat, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_template_info(NULL, &info, &error), KT_E_INVALID);
}
END_TEST

START_TEST(templates_that_a_model_lacks)
{
    char path[4096];
    struct kt_tokenizer *tokenizer = NULL;
    struct kt_template *chat = NULL;
    struct kt_error error;
    (void)snprintf(path, sizeof path, "%s/tokenizers/qwen2.json", getenv("KT_TEST_DATA"));
    ck_assert_int_eq(kt_tokenizer_open(path, &tokenizer, &error), KT_OK);
    ck_assert_int_eq(kt_template_open(tokenizer, "tool_use", &chat, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "the model has no chat template 'tool_use'; it has: none"));
    kt_tokenizer_destroy(tokenizer);
}
END_TEST

START_TEST(too_large_a_source)
{
    size_t length = (size_t)16 << 20;
    struct kt_template *chat = NULL;
    struct kt_error error;
    char *source = calloc(1, length);
    ck_assert_ptr_nonnull(source);
    ck_assert_int_eq(kt_template_create(source, length, "t", &chat, &error), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "t: a template of 16777216 bytes; at most "));
    free(source);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("refusals");
    tcase_add_loop_test(tests, is_refused, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
    tcase_add_test(tests, what_no_caller_may_ask);
    tcase_add_test(tests, templates_that_a_model_lacks);
    tcase_add_test(tests, too_large_a_source);
    return run_tests("template refusals", tests);
}
