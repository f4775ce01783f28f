/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are not JSON: regular expressions, lists, rules of GBNF. */
#include "tools/engine/grammar/grammar.h"
#include "tools/engine/grammar/machine.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fits(const struct kt_grammar *grammar, const char *text)
{
    struct kt_machine machine;
    ck_assert(kt_machine_init(&machine, &grammar->program));
    uint32_t state = kt_machine_start(&machine);
    for (; *text && state; text++)
        state = kt_machine_step(&machine, state, (uint8_t)*text, false);
    bool found = state && machine.states[state].accepts;
    kt_machine_free(&machine);
    return found;
}

#define JSON_RULES                                                                                                     \
    "# as llama.cpp has it\nroot   ::= object\nvalue  ::= object | array | string | number |\n"                        \
    "  (\"true\" | \"false\" | \"null\") ws\n\nobject ::=\n  \"{\" ws (\n    string \":\" ws value\n"                  \
    "    (\",\" ws string \":\" ws value)*\n  )? \"}\" ws\narray ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"   \
    "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\" ws\n" \
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ws\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}"

static const struct {
    uint32_t kind;
    const char *text, *good[6], *bad[6];
} cases[] = {
    {KT_GRAMMAR_REGEX, "[0-9]{3}-\\d{4}", {"555-1234"}, {"5551234", "555-12345", "a555-1234"}},
    {KT_GRAMMAR_REGEX, "a|bc", {"a", "bc"}, {"", "ab", "abc"}},
    {KT_GRAMMAR_REGEX, "^a$|^b\\$", {"a", "b$"}, {"b", "a$", "ab"}},
    {KT_GRAMMAR_REGEX, "^(?=.*\\d)[a-z0-9]{3}", {"a1b"}, {"abc", "a1bc"}},
    {KT_GRAMMAR_REGEX, "(?=a)(?!ac)a.*", {"a", "ab"}, {"b", "ac"}},
    {KT_GRAMMAR_REGEX, "\"[^\"\\\\]*\"\\n", {"\"a b\"\n", "\"\"\n"}, {"\"a", "\"a\\\"\n"}},
    {KT_GRAMMAR_REGEX, "\\bé+\\b|(x)?", {"", "x"}, {"xx", "é"}},
    {KT_GRAMMAR_CHOICE,
     "[\"yes\", \"yes, sir\", \"q\\\"\\\\\", \"é\"]",
     {"yes", "yes, sir", "q\"\\", "é"},
     {"", "y", "yes,"}},
    {KT_GRAMMAR_RULES,
     JSON_RULES,
     {"{}", "{\"a\": [1, 2.5, {\"b\": null}], \"é\\n\": \"x\"}"},
     {"[]", "{\"a\"}", "{,}"}},
    {KT_GRAMMAR_RULES,
     "root ::= item+\nitem ::= \"- \" [^\\n]+ \"\\n\"",
     {"- a\n", "- a\n- b c\n"},
     {"", "- \n", "- a"}},
    {KT_GRAMMAR_RULES,
     "root ::= a? b{2} c{1,2} d{1,} # end\n | \"\\x41\\u00e9\\U0001f600\"\na ::= [a]\nb ::=\n \"b\"\nc ::= .\n"
     "d ::= [\\]\\-^]",
     {"bbc]", "abbcc-^", "Aé\xf0\x9f\x98\x80"},
     {"bb]", "abbcc", "A"}},
    {KT_GRAMMAR_RULES, "root ::= (\"a\" root)? | (\"\" [0-9])", {"", "aa", "a7"}, {"b", "7a"}},
    {KT_GRAMMAR_RULES,
     "root ::= x y\n  z\nx ::= \"x\"\ny ::= |\n \"y\"\nz ::= \"z\"",
     {"xz", "xyz"},
     {"x", "xy"}},
};

START_TEST(test_texts)
{
    struct kt_grammar *grammar = NULL;
    struct kt_error error = {KT_OK, ""};
    enum kt_status status =
        kt_grammar_text(cases[_i].kind, cases[_i].text, strlen(cases[_i].text), NULL, &grammar, &error);
    ck_assert_msg(status == KT_OK, "%s: %s", cases[_i].text, error.message);
    for (const char *const *good = cases[_i].good; *good; good++)
        ck_assert_msg(fits(grammar, *good), "%s refuses %s", cases[_i].text, *good);
    for (const char *const *bad = cases[_i].bad; *bad; bad++)
        ck_assert_msg(!fits(grammar, *bad), "%s takes %s", cases[_i].text, *bad);
    kt_grammar_destroy(grammar);
}
END_TEST

static const struct {
    uint32_t kind;
    const char *text;
    enum kt_status status;
    const char *words;
} refusals[] = {
    {3, "", KT_E_INVALID, "not an enum kt_grammar_kind"},
    {KT_GRAMMAR_REGEX, "a)(b", KT_E_UNSUPPORTED, "an unmatched bracket"},
    {KT_GRAMMAR_REGEX, "(?<=a)b", KT_E_UNSUPPORTED,
     "the regular expression: the pattern '(?<=a)b' has lookbehind"},
    {KT_GRAMMAR_REGEX, "[]", KT_E_INVALID, "nothing can fit"},
    {KT_GRAMMAR_CHOICE, "{}", KT_E_FORMAT, "a list of strings, one at least"},
    {KT_GRAMMAR_CHOICE, "[1]", KT_E_FORMAT, "the choice: number 0 is no string"},
    {KT_GRAMMAR_RULES, "", KT_E_FORMAT, "no rule 'root'"},
    {KT_GRAMMAR_RULES, "start: \"a\"", KT_E_FORMAT, "line 1: a rule, name ::= .., should stand here"},
    {KT_GRAMMAR_RULES, "root ::= \"a\"\n\nroot ::= a", KT_E_FORMAT,
     "the grammar: line 3: there are two rules 'root'"},
    {KT_GRAMMAR_RULES, "root ::= \"x\"\n  other", KT_E_FORMAT, "line 2: there is no rule 'other'"},
    {KT_GRAMMAR_RULES, "root ::= a\na ::= b? a \"x\"\nb ::= \"c\"", KT_E_UNSUPPORTED,
     "'a' begins with itself"},
    {KT_GRAMMAR_RULES, "root ::= (\"\" | \"a\")* root", KT_E_UNSUPPORTED, "'root' begins with itself"},
    {KT_GRAMMAR_RULES, "root ::= \"a\" root", KT_E_INVALID, "nothing can fit"},
    {KT_GRAMMAR_RULES, "root ::= \"a", KT_E_FORMAT, "without its closing quote"},
    {KT_GRAMMAR_RULES, "root ::= \"\x80\"", KT_E_FORMAT, "the grammar is not UTF-8"},
    {KT_GRAMMAR_RULES, "root ::= (\"a", KT_E_FORMAT, "without its closing quote"},
    {KT_GRAMMAR_RULES, "root ::= [a", KT_E_FORMAT, "without its closing bracket"},
    {KT_GRAMMAR_RULES, "root ::= [b-a]", KT_E_FORMAT, "an invalid range"},
    {KT_GRAMMAR_RULES, "root ::= (\"a\"", KT_E_FORMAT, "a group without its closing bracket"},
    {KT_GRAMMAR_RULES, "root ::= \"a\" )", KT_E_FORMAT, "an unmatched bracket"},
    {KT_GRAMMAR_RULES, "root ::= \"a\"{3,1}", KT_E_FORMAT, "a wrong repetition"},
    {KT_GRAMMAR_RULES, "root ::= \"a\"{10001}", KT_E_FORMAT, "a wrong repetition"},
    {KT_GRAMMAR_RULES, "root ::= \"\\q\"", KT_E_FORMAT, "an escape that is not known"},
    {KT_GRAMMAR_RULES, "root ::= \"\\xg0\"", KT_E_FORMAT, "an invalid escape"},
    {KT_GRAMMAR_RULES, "root ::= \"\\ud800\"", KT_E_FORMAT, "an escape of no character"},
    {KT_GRAMMAR_RULES, "root ::= (?=\"a\") \"a\"", KT_E_FORMAT, "a group that looks ahead"},
    {KT_GRAMMAR_RULES, "root ::= <[1]>", KT_E_FORMAT, "no part of a rule begins with '<[1]>'"},
    {KT_GRAMMAR_RULES, "root ::= (((\"a\"{1000}){1000}){1000})", KT_E_RANGE, "more than"},
};

START_TEST(test_refusals)
{
    struct kt_grammar *grammar = NULL;
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = kt_grammar_text(refusals[_i].kind, refusals[_i].text, strlen(refusals[_i].text),
                                            NULL, &grammar, &error);
    ck_assert_ptr_null(grammar);
    ck_assert_msg(status == refusals[_i].status && strstr(error.message, refusals[_i].words), "%s: %d, %s",
                  refusals[_i].text, (int)status, error.message);
}
END_TEST

START_TEST(test_limits)
{
    struct kt_grammar *grammar = NULL;
    struct kt_error error;
    static char text[100000];
    size_t n = 0;
    for (int i = 0; i < 1100; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "r%d ::= \"x\"\n", i);
    ck_assert_int_eq(kt_grammar_text(KT_GRAMMAR_RULES, text, n, NULL, &grammar, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "too many rules"));
    n = (size_t)snprintf(text, sizeof(text), "root ::= ");
    for (int i = 0; i < 9000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "\"x\" ");
    ck_assert_int_eq(kt_grammar_text(KT_GRAMMAR_RULES, text, n, NULL, &grammar, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "too many parts"));
    memset(text + 9, '(', 100);
    ck_assert_int_eq(kt_grammar_text(KT_GRAMMAR_RULES, text, n, NULL, &grammar, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "groups nested too deeply"));
    ck_assert_int_eq(kt_grammar_text(KT_GRAMMAR_REGEX, "a\0b", 3, NULL, &grammar, &error), KT_E_FORMAT);
    ck_assert_int_eq(kt_grammar_text(KT_GRAMMAR_REGEX, NULL, 0, NULL, &grammar, &error), KT_E_INVALID);
}
END_TEST

/* Reasoning may stand before, and no blanks. */
START_TEST(test_reasoning)
{
    struct kt_grammar_params params = KT_GRAMMAR_PARAMS_INIT;
    struct kt_grammar *grammar = NULL;
    params.reasoning = KT_REASONING_MAY;
    ck_assert_int_eq(kt_grammar_text(KT_GRAMMAR_REGEX, "ab", 2, &params, &grammar, NULL), KT_OK);
    struct kt_machine machine;
    ck_assert(kt_machine_init(&machine, &grammar->program));
    uint32_t state = kt_machine_start(&machine);
    ck_assert(!kt_machine_step(&machine, kt_machine_step(&machine, state, ' ', false), 'a', false) &&
              kt_machine_step(&machine, state, '<', false));
    kt_machine_free(&machine);
    kt_grammar_destroy(grammar);
}
END_TEST

int main(void)
{
    TCase *group = tcase_create("rules");
    tcase_add_loop_test(group, test_texts, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(group, test_refusals, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
    tcase_add_test(group, test_limits);
    tcase_add_test(group, test_reasoning);
    return run_tests("rules", group);
}
