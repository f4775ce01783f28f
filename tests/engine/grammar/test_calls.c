/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of tools in each format: what random walks write, the parser of output reads as calls that fit. */
#include "tests/engine/grammar/fixture.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include "tools/engine/base/big.h"
#include "tools/engine/grammar/calls.h"
#include "tools/engine/text/utf8.h"

#include <check.h>
#include <jansson.h>
#include <kt/constraint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"note\", \"strict\": true, \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"level\": {\"enum\": [\"low\", \"high\"]}, \"n\": {\"$ref\": \"#/$defs/n\"}, \"text\": {\"anyOf\":"
    " [{\"type\": \"string\"}, {\"type\": \"null\"}]}, \"list\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"},"
    " \"maxItems\": 2}}, \"required\": [\"level\", \"n\"], \"additionalProperties\": false,"
    " \"$defs\": {\"n\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 20}}}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"say\", \"parameters\": {\"type\": \"object\", \"properties\":"
    " {\"words\": {\"type\": \"string\"}}, \"required\": [\"words\"], \"additionalProperties\": false}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"any\"}}]";

static const char form[] = "{\"type\": \"object\", \"properties\": {\"ok\": {\"type\": \"boolean\"}},"
                           " \"required\": [\"ok\"], \"additionalProperties\": false}";

static struct kt_calls_params params_of(uint32_t format)
{
    struct kt_calls_params params = KT_CALLS_PARAMS_INIT;
    params.format = format;
    params.tools = tools;
    params.tools_length = strlen(tools);
    params.is_required = 1;
    return params;
}

static struct kt_constraint *begin(const struct kt_calls_params *params)
{
    struct kt_grammar *grammar;
    struct kt_constraint *constraint;
    struct kt_error error = {KT_OK, ""};
    ck_assert_msg(kt_grammar_calls(params, &grammar, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(kt_constraint_create(grammar, vocabulary, &constraint, NULL), KT_OK);
    kt_grammar_destroy(grammar);
    return constraint;
}

/* ---- what is written ---- */

struct text {
    char bytes[8192];
    size_t length;
};

/* Continues with a text if it may come. */
static bool try(struct kt_constraint **constraint, struct text *text, const char *more)
{
    struct kt_constraint *fork;
    ck_assert_int_eq(kt_constraint_fork(*constraint, &fork, NULL), KT_OK);
    if (!feed(fork, more)) {
        kt_constraint_destroy(fork);
        return false;
    }
    kt_constraint_destroy(*constraint);
    *constraint = fork;
    ck_assert_uint_lt(text->length + strlen(more), sizeof(text->bytes));
    memcpy(text->bytes + text->length, more, strlen(more));
    text->length += strlen(more);
    return true;
}

static uint64_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* Tokens at random, and what ends strings and values more and more often. */
static void walk(uint32_t format, struct kt_constraint **constraint, uint64_t *random, struct text *text)
{
    const char *tag = format == KT_OUTPUT_FUNCTION         ? "\n</parameter>"
                      : format == KT_OUTPUT_GLM            ? "</arg_value>"
                      : format == KT_OUTPUT_LONGCAT_MARKUP ? "</longcat_arg_value>"
                      : format == KT_OUTPUT_MINIMAX        ? "</parameter>"
                      : format == KT_OUTPUT_DSML           ? "</｜DSML｜parameter>"
                                                           : "\"";
    const char *call = format == KT_OUTPUT_FUNCTION         ? "</function>"
                       : format == KT_OUTPUT_GLM            ? "</tool_call>"
                       : format == KT_OUTPUT_LONGCAT_MARKUP ? "</longcat_tool_call>"
                       : format == KT_OUTPUT_MINIMAX        ? "</invoke>"
                       : format == KT_OUTPUT_DSML           ? "</｜DSML｜invoke>"
                                                            : "\"";
    const char *key = format == KT_OUTPUT_GLM              ? "</arg_key>"
                      : format == KT_OUTPUT_LONGCAT_MARKUP ? "</longcat_arg_key>"
                      : format == KT_OUTPUT_DSML           ? "\" string=\"true\">"
                      : format == KT_OUTPUT_MINIMAX        ? "\">"
                                                           : ">";
    const char *const ends[] = {tag, key, call, "\"", "}", "]"};
    text->length = 0;
    for (uint64_t step = 0; kt_constraint_place(*constraint) == KT_CONSTRAINT_OPEN; step++) {
        const uint64_t *mask;
        int32_t chosen = -1;
        uint64_t n = 0;
        bool done = false;
        for (size_t i = 0; i < 6 && !done && draw(random) % 8 < step / 8; i++)
            done = try(constraint, text, ends[i]);
        if (done)
            continue;
        ck_assert_int_eq(kt_constraint_mask(*constraint, &mask, NULL, NULL), KT_OK);
        for (uint32_t id = 0; id < info.n_tokens; id++)
            if (mask[id / 64] >> (id % 64) & 1 && draw(random) % ++n == 0)
                chosen = (int32_t)id;
        ck_assert_int_ge(chosen, 0);
        struct kt_token token;
        ck_assert_int_eq(kt_tokenizer_token(tokenizer, chosen, &token, NULL), KT_OK);
        ck_assert_int_eq(kt_constraint_accept(*constraint, chosen, NULL), KT_OK);
        ck_assert_uint_lt(text->length + token.length, sizeof(text->bytes) - 100);
        memcpy(text->bytes + text->length, token.text, token.length);
        text->length += token.length;
    }
}

/* ---- and read ---- */

static void check_arguments(const char *name, const char *bytes, size_t length)
{
    json_t *made = json_loadb(bytes, length, JSON_ALLOW_NUL, NULL), *one;
    const char *key;
    ck_assert_msg(made, "no JSON: %.*s", (int)length, bytes);
    if (strcmp(name, "say") == 0) {
        ck_assert(json_is_string(json_object_get(made, "words")) && json_object_size(made) == 1);
    } else if (strcmp(name, "any") == 0) {
        ck_assert_msg(json_is_object(made), "%.*s", (int)length, bytes);
    } else {
        const char *level = json_string_value(json_object_get(made, "level"));
        json_int_t n = json_integer_value(json_object_get(made, "n"));
        ck_assert_str_eq(name, "note");
        ck_assert_msg(level && (strcmp(level, "low") == 0 || strcmp(level, "high") == 0), "%.*s", (int)length,
                      bytes);
        ck_assert(json_is_integer(json_object_get(made, "n")) && n >= 1 && n <= 20);
        json_object_foreach (made, key, one) {
            ck_assert_msg(strcmp(key, "level") == 0 || strcmp(key, "n") == 0 ||
                              (strcmp(key, "text") == 0 && (json_is_string(one) || json_is_null(one))) ||
                              (strcmp(key, "list") == 0 && json_is_array(one) && json_array_size(one) <= 2),
                          "%.*s", (int)length, bytes);
        }
    }
    json_decref(made);
}

/* Half characters become U+FFFD, as the detokenizer of a server makes them. */
static void mend(struct text *text)
{
    struct text whole = {.length = 0};
    for (size_t i = 0; i < text->length;) {
        size_t n = kt_utf8_valid(text->bytes + i, text->length - i);
        bool is_cut = n == 0;
        ck_assert_uint_lt(whole.length + n + 3, sizeof(whole.bytes));
        memcpy(whole.bytes + whole.length, is_cut ? "\xef\xbf\xbd" : text->bytes + i, is_cut ? 3 : n);
        whole.length += is_cut ? 3 : n;
        i += is_cut ? 1 : n;
    }
    *text = whole;
}

/* The calls that the parser finds; everything else must be white space. */
static int read_calls(uint32_t format, const struct text *text)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser;
    const struct kt_parser_event *events;
    char name[64] = "", arguments[8192];
    size_t length = 0;
    uint64_t n;
    int n_calls = 0;
    params.format = format;
    params.tools = tools;
    params.tools_length = strlen(tools);
    ck_assert_int_eq(kt_parser_create(&params, &parser, NULL), KT_OK);
    for (int part = 0; part < 2; part++) {
        ck_assert_int_eq(part ? kt_parser_end(parser, &events, &n, NULL)
                              : kt_parser_add(parser, text->bytes, text->length, &events, &n, NULL),
                         KT_OK);
        for (uint64_t i = 0; i < n; i++) {
            const struct kt_parser_event *event = &events[i];
            if (event->kind == KT_OUTPUT_CALL) {
                memcpy(name, event->text, event->length);
                name[event->length] = '\0';
                length = 0;
            } else if (event->kind == KT_OUTPUT_ARGUMENTS) {
                ck_assert_uint_lt(length + event->length, sizeof(arguments));
                memcpy(arguments + length, event->text, event->length);
                length += event->length;
            } else if (event->kind == KT_OUTPUT_CALL_END) {
                ck_assert_msg(!event->is_cut, "cut: %.*s", (int)text->length, text->bytes);
                check_arguments(name, arguments, length);
                n_calls++;
            } else if (event->kind == KT_OUTPUT_CONTENT) {
                for (uint64_t k = 0; k < event->length; k++)
                    ck_assert_msg(strchr(" \n", event->text[k]), "content: %.*s", (int)text->length,
                                  text->bytes);
            }
        }
    }
    kt_parser_destroy(parser);
    return n_calls;
}

START_TEST(test_walks)
{
    uint32_t format = (uint32_t)_i + 1;
    struct kt_calls_params params = params_of(format);
    uint64_t random = (uint64_t)_i;
    struct text text;
    for (int round = 0; round < 12; round++) {
        params.is_serial = round % 2 != 0;
        params.name = round % 4 == 3 ? "note" : NULL;
        struct kt_constraint *constraint = begin(&params);
        walk(format, &constraint, &random, &text);
        mend(&text);
        int n = read_calls(format, &text);
        ck_assert_msg(n == 1 || (n > 1 && !params.is_serial), "%d calls: %.*s", n, (int)text.length,
                      text.bytes);
        bool has_more = !params.is_serial && format != KT_OUTPUT_HARMONY && format != KT_OUTPUT_JSON;
        bool has_section = text.bytes[text.length - 1] == '>'; /* then its end is behind the last call */
        if (has_more && !has_section)
            ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_MAY_END);
        kt_constraint_destroy(constraint);
    }
}
END_TEST

/* As templates write calls. */
static const struct {
    uint32_t format, is_serial;
    const char *good, *bad;
} cases[] = {
    {KT_OUTPUT_FUNCTION, 0,
     "<tool_call>\n<function=any>\n<parameter=it is \xc3\xa9>\n2024-01-01\n</parameter>\n<parameter=b>\n\n</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=any>\nnone"},
    {KT_OUTPUT_GLM, 0, "<tool_call>any\n<arg_key>a</arg_key>\n<arg_value>[x</arg_value>\n</tool_call>",
     "<tool_call>any\nx"},
    {KT_OUTPUT_HERMES, 0,
     "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"words\": \"x\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"note\", \"arguments\": {\"level\": \"low\", \"n\": 3}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"words\": 1}}\n</tool_call>"},
    {KT_OUTPUT_HERMES, 1, "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"words\": \"x\"}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"words\": \"x\"}}\n</tool_call>\n<tool_call>"},
    {KT_OUTPUT_FUNCTION, 0,
     "<tool_call>\n<function=note>\n<parameter=level>\nlow\n</parameter>\n<parameter=n>\n12\n</parameter>\n<parameter=text>\na < b\n</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=note>\n<parameter=level>\nlower\n</parameter>"},
    {KT_OUTPUT_GLM, 0,
     "<tool_call>note\n<arg_key>level</arg_key>\n<arg_value>high</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
     "<tool_call>note\n<arg_key>n</arg_key>"},
    {KT_OUTPUT_LONGCAT, 0,
     "<longcat_tool_call>\n{\"name\": \"say\", \"arguments\": {\"words\": \"x\"}}\n</longcat_tool_call>",
     "<longcat_tool_call>\n{\"name\": \"say\", \"arguments\": {\"words\": \"x\"}}\n</tool_call>"},
    {KT_OUTPUT_LONGCAT_MARKUP, 0,
     "<longcat_tool_call>note\n<longcat_arg_key>level</longcat_arg_key>\n<longcat_arg_value>high</longcat_arg_value>\n<longcat_arg_key>n</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n</longcat_tool_call>",
     "<longcat_tool_call>note\n<longcat_arg_key>n</longcat_arg_key>"},
    {KT_OUTPUT_DEEPSEEK, 0,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>say<｜tool▁sep｜>{\"words\":\"x\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"},
    {KT_OUTPUT_DEEPSEEK, 0,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>say\n```json\n{\"words\":\"x\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>shout"},
    {KT_OUTPUT_DSML, 0,
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"note\">\n<｜DSML｜parameter name=\"level\" string=\"true\">low</｜DSML｜parameter>\n<｜DSML｜parameter name=\"n\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"note\">\n<｜DSML｜parameter name=\"level\" string=\"false\">"},
    {KT_OUTPUT_KIMI, 0,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.say:0<|tool_call_argument_begin|>{\"words\": \"x\"}<|tool_call_end|><|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>say"},
    {KT_OUTPUT_MINIMAX, 0,
     "<minimax:tool_call>\n<invoke name=\"say\">\n<parameter name=\"words\">123</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"say\">\n</invoke>"},
    {KT_OUTPUT_HARMONY, 0,
     "<|channel|>commentary to=functions.say <|constrain|>json<|message|>{\"words\":\"x\"}",
     "<|channel|>final<|message|>"},
    {KT_OUTPUT_MISTRAL, 0,
     "[TOOL_CALLS]say[ARGS]{\"words\": \"x\"}[TOOL_CALLS]note[CALL_ID]abcdefghi[ARGS]{\"level\": \"low\", \"n\": 3}",
     "[TOOL_CALLS]say{"},
    {KT_OUTPUT_JSON, 0, "{\"name\": \"say\", \"parameters\": {\"words\": \"x\"}}",
     "{\"name\": \"say\", \"arguments\""},
};

START_TEST(test_texts)
{
    struct kt_calls_params params = params_of(cases[_i].format);
    params.is_serial = cases[_i].is_serial;
    struct kt_constraint *constraint = begin(&params);
    ck_assert_msg(feed(constraint, cases[_i].good), "refuses %s", cases[_i].good);
    ck_assert_int_ne(kt_constraint_place(constraint), KT_CONSTRAINT_OPEN);
    kt_constraint_destroy(constraint);
    constraint = begin(&params);
    ck_assert_msg(!feed(constraint, cases[_i].bad), "takes %s", cases[_i].bad);
    kt_constraint_destroy(constraint);
    /* Where calls only may come, text may stand before or instead; strict tools bind all the same. */
    params.is_required = 0;
    constraint = begin(&params);
    ck_assert_int_eq(kt_constraint_place(constraint), KT_CONSTRAINT_MAY_END);
    if (cases[_i].format == KT_OUTPUT_JSON)
        ck_assert(feed(constraint, "I say {"));
    else
        ck_assert(feed(constraint, "I say < and") && feed(constraint, cases[_i].good));
    ck_assert_int_ne(kt_constraint_place(constraint), KT_CONSTRAINT_OPEN);
    kt_constraint_destroy(constraint);
}
END_TEST

/* The answer is calls, or JSON of a form, and nothing else; where calls are required the form does not count.
 */
START_TEST(a_form_beside_tools)
{
    const bool has_channels = cases[_i].format == KT_OUTPUT_HARMONY;
    const struct {
        const char *text;
        bool beside, required; /* may it come? */
    } texts[] = {
        {cases[_i].good, true, true},
        {has_channels ? "<|channel|>final<|message|>{\"ok\": true}" : "{\"ok\": true}", true, false},
        {has_channels ? "<|channel|>final<|message|>{\"no\"" : "{\"no\"", false, false},
        {has_channels ? "<|channel|>final<|message|>I say" : "I say", false, false},
    };
    struct kt_calls_params params = params_of(cases[_i].format);
    params.is_serial = cases[_i].is_serial;
    params.form = form;
    params.form_length = strlen(form);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (params.is_required = 0; params.is_required < 2; params.is_required++) {
            bool wanted = params.is_required ? texts[i].required : texts[i].beside;
            struct kt_constraint *constraint = begin(&params);
            ck_assert_msg(feed(constraint, texts[i].text) == wanted, "%s %s%s", wanted ? "refuses" : "takes",
                          texts[i].text, params.is_required ? " (calls are required)" : "");
            if (wanted)
                ck_assert_int_ne(kt_constraint_place(constraint), KT_CONSTRAINT_OPEN);
            kt_constraint_destroy(constraint);
        }
}
END_TEST

#define TOOL(schema) "[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", " schema "}}}]"
static const struct {
    const char *tools, *words;
} markups[] = {
    {"[{\"function\": {\"name\": \"a b\"}}]", "tool 0 has no name, or none that can be called"},
    {TOOL("\"properties\": {}, \"required\": [\"a\"]"), "a required argument is not in 'properties'"},
    {TOOL("\"properties\": {}, \"patternProperties\": {\"^a\": {}}"),
     "patternProperties of a tool's arguments"},
    {TOOL("\"properties\": {\"a<b\": {\"type\": \"string\"}}"), "holds <, >, a quote or a newline"},
    {TOOL("\"properties\": {\"a\": {\"enum\": [\"x</arg_value>\"]}}"),
     "a constant holds the format's own tag"},
};

/* Arguments that are lists: a call within a call, of which a way to the end is found that is not the lowest.
 */
START_TEST(test_lists)
{
    static const char lists[] = TOOL(
        "\"properties\": {\"a\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}, \"b\": {\"type\": [\"array\","
        " \"null\"]}, \"c\": {\"type\": [\"string\", \"array\"]}, \"d\": {}}, \"required\": [\"a\", \"b\", \"c\", \"d\"]");
    static const struct {
        uint32_t format;
        const char *begin, *between, *end; /* between: of an argument's name and value; end: of the value */
    } forms[] = {
        {KT_OUTPUT_FUNCTION, "<tool_call>\n<function=f>\n<parameter=a>", "\n", "\n</parameter>"},
        {KT_OUTPUT_GLM, "<tool_call>f\n<arg_key>a</arg_key>", "\n<arg_value>", "</arg_value>"},
        {KT_OUTPUT_DSML,
         "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"false\"",
         ">", "</｜DSML｜parameter>"},
        {KT_OUTPUT_MINIMAX, "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\"", ">",
         "</parameter>"},
    };
    struct kt_calls_params params = params_of(forms[_i].format);
    params.tools = lists;
    params.tools_length = strlen(lists);
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        struct kt_constraint *constraint = begin(&params);
        ck_assert(feed(constraint, forms[_i].begin) && feed(constraint, forms[_i].between));
        ck_assert(feed(constraint, is_empty ? "[]" : "[\"x\", \"y\"]") && feed(constraint, forms[_i].end));
        kt_constraint_destroy(constraint);
    }
}
END_TEST

/* Strings stand as they are in tags, whatever a schema says of them. */
START_TEST(test_limited_strings)
{
    static const char limited[] = TOOL(
        "\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"^<[a-z\\\"\\\\\\\\\\\\n]+>?$\", \"maxLength\": 5},"
        " \"b\": {\"type\": \"string\", \"format\": \"date\"}, \"c\": {\"type\": [\"string\", \"integer\"], \"minLength\": 2},"
        " \"d\": {\"type\": \"string\", \"not\": {\"enum\": [\"x\", \"<y\"]}}}, \"required\": [\"a\", \"b\", \"c\", \"d\"],"
        " \"additionalProperties\": false");
    static const struct {
        uint32_t format;
        const char *begin, *key, *value, *end; /* around an argument's name and value */
    } forms[] = {
        {KT_OUTPUT_FUNCTION, "<tool_call>\n<function=f>\n", "<parameter=%s>", "\n", "\n</parameter>\n"},
        {KT_OUTPUT_GLM, "<tool_call>f\n", "<arg_key>%s</arg_key>\n", "<arg_value>", "</arg_value>\n"},
        {KT_OUTPUT_MINIMAX, "<minimax:tool_call>\n<invoke name=\"f\">\n", "<parameter name=\"%s\">", "",
         "</parameter>\n"},
    };
    static const struct {
        const char *values[4];
        int wrong; /* the first that may not come; -1: none */
    } calls[] = {{{"<a\"\\>", "2024-02-29", "ab", ""}, -1},
                 {{"<z", "1999-12-31", "17", "xy"}, -1},
                 {{"<abcde", "", "", ""}, 0},
                 {{"a", "", "", ""}, 0},
                 {{"<a", "2023-02-29", "", ""}, 1},
                 {{"<a", "2024-01-01", "a", ""}, 2},
                 {{"<a", "2024-01-01", "abc", "x"}, 3},
                 {{"<a", "2024-01-01", "abc", "<y"}, 3}};
    struct kt_calls_params params = params_of(forms[_i].format);
    params.tools = limited;
    params.tools_length = strlen(limited);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct kt_constraint *constraint = begin(&params);
        ck_assert(feed(constraint, forms[_i].begin));
        for (int k = 0; k < 4; k++) {
            char key[64], name[2] = {(char)('a' + k), 0};
            (void)snprintf(key, sizeof(key), forms[_i].key, name);
            ck_assert_msg(feed(constraint, key) && feed(constraint, forms[_i].value), "%s", key);
            bool fits = feed(constraint, calls[i].values[k]) && feed(constraint, forms[_i].end);
            ck_assert_msg(fits == (k != calls[i].wrong), "format %u, call %zu, value %d", forms[_i].format, i,
                          k);
            if (!fits)
                break;
        }
        kt_constraint_destroy(constraint);
    }
}
END_TEST

/* Bounds beyond 64 bits, in a tool and in a form. */
START_TEST(test_large_bounds)
{
    static const char large[] =
        TOOL("\"properties\": {\"n\": {\"type\": \"integer\", \"minimum\": 18446744073709551615}},"
             " \"required\": [\"n\"]");
    static const char end[] = "}}\n</tool_call>";
    struct kt_calls_params params = params_of(KT_OUTPUT_HERMES);
    params.tools = large;
    params.tools_length = strlen(large);
    params.form = "{\"const\": 36893488147419103231}";
    params.form_length = strlen(params.form);
    struct kt_constraint *constraint = begin(&params), *fork;
    ck_assert(feed(constraint, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1844674407370955161"));
    ck_assert_int_eq(kt_constraint_fork(constraint, &fork, NULL), KT_OK);
    ck_assert(feed(constraint, "5") && feed(constraint, end) && !(feed(fork, "4") && feed(fork, end)));
    kt_constraint_destroy(constraint);
    kt_constraint_destroy(fork);
    params.is_required = 0;
    constraint = begin(&params);
    ck_assert(feed(constraint, "36893488147419103231") &&
              kt_constraint_place(constraint) != KT_CONSTRAINT_OPEN);
    kt_constraint_destroy(constraint);
}
END_TEST

START_TEST(test_refusals)
{
    struct kt_calls_params params = params_of(KT_OUTPUT_HERMES);
    struct kt_grammar *grammar;
    struct kt_error error;
    static const char differing[] =
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"array\","
        " \"uniqueItems\": true}}}}}]";
    static const char wrong[] =
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"contentEncoding\": \"x\"}}}}}]";
    params.name = "shout";
    ck_assert_int_eq(kt_grammar_calls(&params, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "'shout'"));
    params.name = NULL;
    params.format = KT_OUTPUT_PLAIN;
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_E_UNSUPPORTED);
    params.format = KT_OUTPUT_GLM;
    params.tools = differing;
    params.tools_length = strlen(differing);
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "#/properties/a: 'uniqueItems'"));
    for (size_t i = 0; i < sizeof(markups) / sizeof(markups[0]); i++) {
        params.tools = markups[i].tools;
        params.tools_length = strlen(markups[i].tools);
        enum kt_status status = kt_grammar_calls(&params, &grammar, &error);
        ck_assert_msg((status == KT_E_UNSUPPORTED || status == KT_E_FORMAT) &&
                          strstr(error.message, markups[i].words),
                      "%s: %d, %s", markups[i].tools, (int)status, error.message);
    }
    params.format = KT_OUTPUT_KIMI;
    params.tools = wrong;
    params.tools_length = strlen(wrong);
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "#/properties/a/contentEncoding"));
    params.is_required = 0; /* the tool is not strict */
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_OK);
    kt_grammar_destroy(grammar);
    params.form = "{\"type\": ";
    params.form_length = strlen(params.form);
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "form: "));
    params.tools_length = 3;
    ck_assert_int_eq(kt_grammar_calls(&params, &grammar, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "tools: "));
    ck_assert_int_eq(kt_grammar_calls(NULL, &grammar, &error), KT_E_INVALID);
}
END_TEST

/* Tools that were read already, as a server has them: shared, not changed, and numbers keep their digits. */
START_TEST(test_values)
{
    static const struct {
        const char *schema, *fits, *fails;
    } values[] = {{"{\"const\": 7}", "7}", "8"},
                  {"{\"const\": 18446744073709551617}", "18446744073709551617}", "18446744073709551616"},
                  {"{\"enum\": [\"\\u0000\"]}", NULL, NULL}};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct kt_calls_params params = params_of(KT_OUTPUT_HERMES);
        struct kt_grammar *grammar = NULL;
        struct kt_constraint *constraint;
        struct kt_error error = {KT_OK, ""};
        struct text text = {.length = 0};
        char list[512];
        snprintf(
            list, sizeof(list),
            "[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {\"n\": %s},"
            " \"required\": [\"n\"], \"additionalProperties\": false}}}]",
            values[i].schema);
        json_error_t where;
        json_t *value = kt_json_read(list, strlen(list), JSON_ALLOW_NUL, &where),
               *copy = json_deep_copy(value);
        params.tools = NULL;
        ck_assert(kt_json_is_plain(value) == (i == 0));
        enum kt_status status = kt_grammar_calls_of(&params, value, &grammar, &error);
        ck_assert_msg(status == (values[i].fits ? KT_OK : KT_E_FORMAT), "%s: %s", list, error.message);
        ck_assert(json_equal(value, copy) && value->refcount == 1);
        if (values[i].fits) {
            ck_assert_int_eq(kt_constraint_create(grammar, vocabulary, &constraint, NULL), KT_OK);
            ck_assert(try(&constraint, &text, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": "));
            ck_assert(!try(&constraint, &text, values[i].fails));
            ck_assert(try(&constraint, &text, values[i].fits));
            kt_constraint_destroy(constraint);
        }
        kt_grammar_destroy(grammar);
        json_decref(copy);
        json_decref(value);
    }
}
END_TEST

START_TEST(test_faults)
{
    struct kt_calls_params params =
        params_of(_i == 1 ? (uint32_t)KT_OUTPUT_DSML : (uint32_t)KT_OUTPUT_HERMES);
    if (_i == 2) {
        params.is_required = 0;
        params.form = form;
        params.form_length = strlen(form);
    }
    for (unsigned long n = 1;; n++) {
        struct kt_grammar *grammar = NULL;
        faults_arm(n);
        enum kt_status status = kt_grammar_calls(&params, &grammar, NULL);
        bool hit = faults_hit();
        faults_arm(0);
        kt_grammar_destroy(grammar);
        ck_assert_msg(status == (hit ? KT_E_NOMEM : KT_OK), "allocation %lu: %d", n, (int)status);
        if (!hit)
            break;
    }
}
END_TEST

int main(void)
{
    TCase *group = tcase_create("calls");
    tcase_add_unchecked_fixture(group, setup, teardown);
    tcase_add_loop_test(group, test_walks, 0, 12);
    tcase_add_loop_test(group, test_texts, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(group, a_form_beside_tools, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(group, test_faults, 0, 3);
    tcase_add_loop_test(group, test_lists, 0, 4);
    tcase_add_loop_test(group, test_limited_strings, 0, 3);
    tcase_add_test(group, test_large_bounds);
    tcase_add_test(group, test_refusals);
    tcase_add_test(group, test_values);
    return run_tests("calls", group);
}
