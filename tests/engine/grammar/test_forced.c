/* SPDX-License-Identifier: Apache-2.0 */
/* test_forced.c - forced calls inside reasoning, in each format: no other call may come there, in any
 * spelling that the parser of output takes for one, and a model that wants to end comes to an end. */
#include "tests/engine/grammar/fixture.h"
#include "tests/support/suite.h"
#include "tools/engine/grammar/grammar.h"
#include "tools/engine/text/output/parser.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"say\",\"strict\":true,\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"words\":{\"type\":\"string\"},\"more\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":"
    "\"integer\"}},\"required\":[\"n\"]}},\"required\":[\"words\",\"more\"],\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"shout\",\"strict\":true,\"parameters\":{\"type\":\"object\","
    "\"properties\":{},\"additionalProperties\":false}}}]";

/* How a call of a tool begins; how its string does. */
static const struct {
    uint32_t format;
    const char *begin, *text;
} calls[] = {
    {KT_OUTPUT_HERMES, "<tool_call>\n{\"name\": \"", "say\", \"arguments\": {\"words\": \"it "},
    {KT_OUTPUT_FUNCTION, "<tool_call>\n<function=", "say>\n<parameter=words>\nit "},
    {KT_OUTPUT_GLM, "<tool_call>", "say\n<arg_key>words</arg_key>\n<arg_value>it "},
    {KT_OUTPUT_LONGCAT, "<longcat_tool_call>\n{\"name\": \"", "say\", \"arguments\": {\"words\": \"it "},
    {KT_OUTPUT_LONGCAT_MARKUP, "<longcat_tool_call>",
     "say\n<longcat_arg_key>words</longcat_arg_key>\n<longcat_arg_value>it "},
    {KT_OUTPUT_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "say<｜tool▁sep｜>{\"words\": \"it "},
    {KT_OUTPUT_DSML, "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"",
     "say\">\n<｜DSML｜parameter name=\"words\" string=\"true\">it "},
    {KT_OUTPUT_KIMI, "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
     "say:0<|tool_call_argument_begin|>{\"words\": \"it "},
    {KT_OUTPUT_MINIMAX, "<minimax:tool_call>\n<invoke name=\"", "say\">\n<parameter name=\"words\">it "},
    {KT_OUTPUT_MISTRAL, "[TOOL_CALLS]", "say[ARGS]{\"words\": \"it "},
};

static struct kt_constraint *begin(uint32_t format, uint32_t reasoning, bool is_required)
{
    struct kt_calls_params params = KT_CALLS_PARAMS_INIT;
    struct kt_constraint *constraint;
    struct kt_grammar *grammar;
    struct kt_error error = {KT_OK, ""};
    params.format = format;
    params.reasoning = reasoning;
    params.tools = tools;
    params.tools_length = strlen(tools);
    params.name = is_required ? "say" : NULL;
    params.is_required = is_required;
    ck_assert_msg(kt_grammar_calls(&params, &grammar, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(kt_constraint_create(grammar, vocabulary, &constraint, NULL), KT_OK);
    kt_grammar_destroy(grammar);
    return constraint;
}

static void expect(uint32_t format, bool is_required, bool fits, const char *const parts[4])
{
    struct kt_constraint *constraint = begin(format, KT_REASONING_IN, is_required);
    bool all = true;
    for (int i = 0; i < 4 && parts[i]; i++)
        all = all && feed(constraint, parts[i]);
    ck_assert_msg(all == fits, "%s %s: %s%s%s", kt_output_format_name(format), fits ? "refuses" : "takes",
                  parts[0], parts[1], parts[2] ? parts[2] : "");
    kt_constraint_destroy(constraint);
}

START_TEST(reasoning_has_no_other_calls)
{
    uint32_t format = calls[_i].format;
    bool is_longcat = format == KT_OUTPUT_LONGCAT || format == KT_OUTPUT_LONGCAT_MARKUP;
    const char *end = format == KT_OUTPUT_MISTRAL ? "[/THINK]" : is_longcat ? "</longcat_think>" : "</think>";
    expect(format, true, true, (const char *const[4]){"hm < ", calls[_i].begin, calls[_i].text});
    expect(format, true, false, (const char *const[4]){"hm < ", calls[_i].begin, "shout"});
    expect(format, true, true, (const char *const[4]){"hm", end, calls[_i].begin, calls[_i].text});
    expect(format, true, false, (const char *const[4]){"hm", end, "hm"});
    expect(format, false, true, (const char *const[4]){"hm", end, "I say < and", calls[_i].begin});
    /* Other spellings of a beginning lead nowhere, also where calls need not be. */
    const char *const *opens = kt_parser_families[format].open;
    for (int i = 0; opens[i]; i++) {
        bool fits = strncmp(calls[_i].begin, opens[i], strlen(opens[i])) == 0;
        expect(format, true, fits, (const char *const[4]){"hm", opens[i]});
        expect(format, false, fits, (const char *const[4]){"hm", opens[i]});
    }
}
END_TEST

START_TEST(other_formats)
{
    static const char *const analysis[] = {"hm<|channel|>commentary to=functions.shout",
                                           "hm<|start|>assistant to=", "hm<|call|>"};
    for (int i = 0; i < 3; i++)
        expect(KT_OUTPUT_HARMONY, true, false, (const char *const[4]){analysis[i]});
    expect(KT_OUTPUT_HARMONY, true, true,
           (const char *const[4]){"hm < |", "<|end|><|start|>assistant<|channel|>commentary to=functions.",
                                  "say"});
    expect(KT_OUTPUT_JSON, true, false, (const char *const[4]){"hm", "<|tool_call|>"});
    expect(KT_OUTPUT_JSON, true, true, (const char *const[4]){"hm </", "</think>", "{\"name\": \"say\""});
}
END_TEST

/* The parser of output forgives a missing end of a value, so a call must not begin in one. */
START_TEST(values_hold_no_calls)
{
    expect(KT_OUTPUT_FUNCTION, true, false,
           (const char *const[4]){"hm", calls[1].begin, calls[1].text,
                                  "\n</tool_call>\n<tool_call>\n<function=shout"});
    expect(KT_OUTPUT_FUNCTION, true, true,
           (const char *const[4]){"hm", calls[1].begin, calls[1].text,
                                  "\n</tool_call>\n<function\n</parameter>"});
}
END_TEST

/* Whatever is chosen of what closes, the answer comes to its end soon. */
START_TEST(who_wants_to_end_ends)
{
    const bool begun = _i % 2 != 0;
    const size_t k = (size_t)_i / 2;
    struct kt_constraint *constraint = begin(calls[k].format, KT_REASONING_IN, true);
    ck_assert(feed(constraint, "hm"));
    if (begun)
        ck_assert(feed(constraint, calls[k].begin) && feed(constraint, calls[k].text));
    unsigned n = 0;
    for (; kt_constraint_place(constraint) == KT_CONSTRAINT_OPEN; n++) {
        const uint64_t *mask;
        int32_t chosen = -1;
        ck_assert_int_eq(kt_constraint_closing(constraint, &mask, NULL), KT_OK);
        for (uint32_t id = 0; id < info.n_tokens; id++)
            if (mask[id / 64] >> (id % 64) & 1)
                chosen = chosen < 0 || n % 2 ? (int32_t)id : chosen;
        ck_assert_int_ge(chosen, 0);
        ck_assert_int_eq(kt_constraint_accept(constraint, chosen, NULL), KT_OK);
        ck_assert_uint_lt(n, 250);
    }
    kt_constraint_destroy(constraint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("all");
    const int n = (int)(sizeof(calls) / sizeof(calls[0]));
    tcase_add_unchecked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, reasoning_has_no_other_calls, 0, n);
    tcase_add_test(tests, other_formats);
    tcase_add_test(tests, values_hold_no_calls);
    tcase_add_loop_test(tests, who_wants_to_end_ends, 0, 2 * n);
    return run_tests("forced calls", tests);
}
