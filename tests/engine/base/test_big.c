/* SPDX-License-Identifier: Apache-2.0 */
/* test_big.c - JSON of strangers: numbers of any size stay as they were written, and half a pair of
 * surrogates is not a character. */
#include "tools/engine/base/big.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/base/load.h"
#include "tests/support/suite.h"

#include <check.h>
#include <jansson.h>
#include <kt/text.h>
#include <stdlib.h>
#include <string.h>

START_TEST(what_is_read_is_written)
{
    static const char *const same[] = {
        "{\"a\":[9223372036854775808,-9223372036854775809,{\"b\":1e400}],\"c\":\"99999999999999999999\"}",
        "[123456789012345678901234567890.5e10,-1E999,18446744073709551615,0,-1]",
        "{\"x{\":{\"\\u0001number\":\"1,2\"},\"y\":{\"\\u0001number\":\"12\",\"z\":99999999999999999999}}",
        "99999999999999999999",
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        json_error_t where;
        json_t *value = kt_json_read(same[i], strlen(same[i]), JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
        ck_assert_msg(value, "%s: %s", same[i], where.text);
        char *text = kt_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
        if (i == 1) /* doubles have fewer digits, as in Python */
            ck_assert_str_eq(text, "[1.2345678901234568e39,-1E999,18446744073709551615,0,-1]");
        else
            ck_assert_str_eq(text, same[i]);
        free(text);
        json_decref(value);
    }
}
END_TEST

START_TEST(what_is_no_json_is_refused)
{
    static const char *const wrong[] =
        {"[01234567890123456789012]", "[1e400e1]", "[99999999999999999999.]",  "[\"\\ud83d]", "[\"\\ud8\"]",
         "{99999999999999999999:1}",  "[-]",       "[1-99999999999999999999]", "\"\\u"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_error_t where;
        ck_assert_ptr_null(kt_json_read(wrong[i], strlen(wrong[i]), JSON_DECODE_ANY, &where));
        ck_assert_msg(*where.text, "%s", wrong[i]);
    }
}
END_TEST

START_TEST(templates_show_them)
{
    static const struct {
        const char *source, *variables, *text;
    } cases[] = {
        {"{{ a }} {{ a|tojson }} {{ a is number }} {{ a is integer }} {{ a > 5 }} {{ [a] }}",
         "{\"a\": 123456789012345678901234567890}",
         "123456789012345678901234567890 123456789012345678901234567890 True True True "
         "[123456789012345678901234567890]"},
        {"{{ a|tojson }} {{ c == d }} {{ c == c }} {{ e|tojson }} {{ a < c }} {{ {c: 1}[c] }}",
         "{\"a\": -1e400, \"c\": 99999999999999999999, \"d\": 99999999999999999998, "
         "\"e\": {\"\\u0001number\": \"1, 2\"}}",
         "-1e400 False True {\"\\u0001number\": \"1, 2\"} True 1"},
        {"{{ b }}", "{\"b\": \"\\ud83dx\\ude00\\\\ud83d\\ud83d\\ude00\"}",
         "\xef\xbf\xbdx\xef\xbf\xbd\\ud83d\xf0\x9f\x98\x80"},
        {"{{ '[18446744073709551616, 9223372036854775807]'|from_json }}", "{}",
         "[18446744073709551616, 9223372036854775807]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kt_rendering *rendering = NULL;
        struct kt_error error;
        struct kt_template *chat = NULL;
        ck_assert_int_eq(kt_template_create(cases[i].source, strlen(cases[i].source), "t", &chat, &error),
                         KT_OK);
        ck_assert_msg(kt_template_render(chat, cases[i].variables, strlen(cases[i].variables), NULL,
                                         &rendering, &error) == KT_OK,
                      "%s: %s", cases[i].source, error.message);
        ck_assert_str_eq(kt_rendering_text(rendering, NULL), cases[i].text);
        kt_rendering_destroy(rendering);
        kt_template_destroy(chat);
    }
}
END_TEST

static unsigned long left; /* allocations of jansson until one fails; 0: none does */

static void *allocate(size_t size)
{
    return left > 0 && --left == 0 ? NULL : malloc(size);
}

START_TEST(text_of_json_is_whole_or_not_there)
{
    json_t *value =
        json_pack("{s:{s:i,s:s}, s:[i,i]}", "first", "a", 1, "b", "c", "a key that is long", 2, 3);
    char *whole = kt_json_dump(value, JSON_COMPACT);
    unsigned long n = 0;
    ck_assert_str_eq(whole, "{\"first\":{\"a\":1,\"b\":\"c\"},\"a key that is long\":[2,3]}");
    json_set_alloc_funcs(allocate, free);
    do {
        left = ++n;
        char *text = kt_json_dump(value, JSON_COMPACT);
        ck_assert_msg(!text || strcmp(text, whole) == 0, "at allocation %lu: %s", n, text);
        ck_assert(text || n < 1000);
        free(text);
    } while (left == 0);
    json_set_alloc_funcs(malloc, free);
    ck_assert_ptr_null(kt_json_dump(NULL, 0));
    free(whole);
    json_decref(value);
}
END_TEST

/* Integers of any size are read, and told apart if somebody asks. */
START_TEST(integers_beyond_64_bits)
{
    static const char text[] =
        "{\"18446744073709551617\": \"\\\"99999999999999999999\", \"a\": [-18446744073709551615, 5, 1.5,"
        " 4611686018427387904, 9223372036854775809, 1e19]}";
    json_error_t where;
    json_t *digits = NULL, *read = kt_json_load(text, strlen(text), 0, &digits, &where);
    ck_assert_msg(read, "%s", where.text);
    ck_assert_str_eq(json_string_value(json_object_get(read, "18446744073709551617")),
                     "\"99999999999999999999");
    const json_t *list = json_object_get(read, "a");
    ck_assert_str_eq(kt_json_digits(digits, json_real_value(json_array_get(list, 0))),
                     "-18446744073709551615");
    ck_assert_int_eq(json_integer_value(json_array_get(list, 1)), 5);
    ck_assert(json_real_value(json_array_get(list, 2)) == 1.5 && !kt_json_digits(digits, 1.5));
    ck_assert_str_eq(kt_json_digits(digits, 9223372036854775808.0), "9223372036854775809");
    json_decref(read);
    json_decref(digits);
    read = kt_json_load("[18446744073709551615, 18446744073709551616]", 44, 0, NULL, &where);
    ck_assert(read && json_real_value(json_array_get(read, 0)) == 18446744073709551616.0);
    json_decref(read);
    ck_assert_ptr_null(kt_json_load("[18446744073709551615", 21, 0, NULL, &where));
    ck_assert_ptr_null(kt_json_load("[1e999]", 7, 0, NULL, &where));
    ck_assert_ptr_null(kt_json_load("", 0, 0, &digits, &where));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, what_is_read_is_written);
    tcase_add_test(tests, what_is_no_json_is_refused);
    tcase_add_test(tests, templates_show_them);
    tcase_add_test(tests, text_of_json_is_whole_or_not_there);
    tcase_add_test(tests, integers_beyond_64_bits);
    return run_tests("JSON of strangers", tests);
}
