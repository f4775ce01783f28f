/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out, memory that stays bounded, wrong arguments, deep and long input. */
#include "tests/engine/text/output_cases.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/suite.h"

#include "tools/engine/text/output/parser.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMATS 13

static struct output_cases cases;

static void setup(void)
{
    output_cases_read(&cases);
}

static void teardown(void)
{
    output_cases_free(&cases);
}

/* Parses the case in two pieces; the status of the first call that failed. */
static enum kt_status parse(const struct output_case *one)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser;
    const struct kt_parser_event *events;
    struct kt_error error = {.status = KT_OK};
    uint64_t n, half = one->length / 2;
    params.format = one->format;
    params.starts_reasoning = one->starts_reasoning;
    params.tools = cases.tools;
    params.tools_length = strlen(cases.tools);
    enum kt_status status = kt_parser_create(&params, &parser, &error);
    if (status != KT_OK) {
        ck_assert_int_eq(error.status, status);
        return status;
    }
    status = kt_parser_add(parser, one->input, half, &events, &n, &error);
    if (status == KT_OK)
        status = kt_parser_add(parser, one->input + half, one->length - half, &events, &n, &error);
    if (status == KT_OK)
        status = kt_parser_end(parser, &events, &n, &error);
    if (status != KT_OK) { /* and it stays so */
        ck_assert_int_eq(error.status, status);
        ck_assert_int_eq(kt_parser_add(parser, "x", 1, &events, &n, NULL), KT_E_NOMEM);
        ck_assert_int_eq(kt_parser_end(parser, &events, &n, NULL), KT_E_NOMEM);
    }
    kt_parser_destroy(parser);
    return status;
}

START_TEST(test_faults)
{
    unsigned long n_faults = 0;
    for (size_t i = 0; i < cases.n; i++)
        for (unsigned long n = 1;; n++) {
            faults_arm(n);
            enum kt_status status = parse(&cases.cases[i]);
            bool hit = faults_hit();
            faults_arm(0);
            ck_assert_msg(status == (hit ? KT_E_NOMEM : KT_OK), "%s: allocation %lu, status %d",
                          cases.cases[i].name, n, status);
            if (!hit)
                break;
            n_faults++;
        }
    ck_assert_uint_gt(n_faults, 5 * cases.n);
}
END_TEST

START_TEST(test_arguments)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser = NULL;
    const struct kt_parser_event *events;
    struct kt_error error;
    uint64_t n;
    ck_assert_int_eq(kt_parser_create(NULL, &parser, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_parser_create(&params, NULL, &error), KT_E_INVALID);
    params.format = FORMATS;
    ck_assert_int_eq(kt_parser_create(&params, &parser, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "format 13"));
    params.format = KT_OUTPUT_JSON;
    params.struct_size--;
    ck_assert_int_eq(kt_parser_create(&params, &parser, &error), KT_E_INVALID);
    params.struct_size++;
    params.tools = "[{]";
    params.tools_length = 3;
    ck_assert_int_eq(kt_parser_create(&params, &parser, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "tools: "));
    params.tools = "{} ";
    ck_assert_int_eq(kt_parser_create(&params, &parser, &error), KT_E_FORMAT);
    ck_assert_ptr_null(parser);
    params.tools = "[5, {\"function\": 7}]";
    params.tools_length = 20;
    ck_assert_int_eq(kt_parser_create(&params, &parser, &error), KT_OK);
    ck_assert_int_eq(kt_parser_add(parser, NULL, 1, &events, &n, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_parser_add(parser, "x", 1, NULL, &n, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_parser_add(parser, NULL, 0, &events, &n, &error), KT_OK);
    ck_assert_uint_eq(n, 0);
    kt_parser_destroy(parser);
    kt_parser_destroy(NULL);
    ck_assert_str_eq(kt_output_format_name(KT_OUTPUT_HERMES), "hermes");
    ck_assert_ptr_nonnull(kt_output_format_name(FORMATS - 1));
    ck_assert_ptr_null(kt_output_format_name(FORMATS));
}
END_TEST

static struct kt_parser *open_format(uint32_t format)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser;
    params.format = format;
    ck_assert_int_eq(kt_parser_create(&params, &parser, NULL), KT_OK);
    return parser;
}

/* What each format makes long: text, an argument, a candidate that is none, a run of beginnings of tags. */
static const struct {
    uint32_t format;
    const char *before, *again;
} long_inputs[] = {
    {KT_OUTPUT_PLAIN, "", "word "},
    {KT_OUTPUT_PLAIN, "<think>", "<"},
    {KT_OUTPUT_PLAIN, "<think>", "</thin"},
    {KT_OUTPUT_HERMES, "x", "\n"},
    {KT_OUTPUT_HERMES, "", "<tool_call>"},
    {KT_OUTPUT_HERMES, "", "<tool_call>{\"a\":\""},
    {KT_OUTPUT_HERMES, "<tool_call>{\"arguments\": {\"a\": \"", "<tool_call>"},
    {KT_OUTPUT_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", "</tool_call>"},
    {KT_OUTPUT_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {a", "</tool_call"},
    {KT_OUTPUT_HERMES, "<tool_call>{\"name\": \"f\"}", "}"},
    {KT_OUTPUT_HERMES, "", "<tool_call>{\"name\": \"f\"}"},
    {KT_OUTPUT_FUNCTION, "<tool_call><function=f><parameter=a>", "</parameter>\n"},
    {KT_OUTPUT_FUNCTION, "<tool_call><function=f>", "<parameter=a>\n1\n</parameter>"},
    {KT_OUTPUT_FUNCTION, "<tool_call><function=f><parameter=", "key"},
    {KT_OUTPUT_GLM, "<tool_call>f", "\n"},
    {KT_OUTPUT_GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>", "</arg_value><arg_ke"},
    {KT_OUTPUT_DEEPSEEK, "", "<｜tool▁calls▁begin｜>"},
    {KT_OUTPUT_DEEPSEEK, "<｜tool▁call▁begin｜>", "long"},
    {KT_OUTPUT_KIMI, "<|tool_call_begin|>f<|tool_call_argument_begin|>", "["},
    {KT_OUTPUT_DSML, "", "<｜DSML｜function_calls>\n"},
    {KT_OUTPUT_MINIMAX, "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">", "</parameter>"},
    {KT_OUTPUT_HARMONY, "<|channel|>", "analysis"},
    {KT_OUTPUT_HARMONY, "", "<|start|>"},
    {KT_OUTPUT_HARMONY, "", "<|channel|>analysis<|message|>x<|end|>"},
    {KT_OUTPUT_MISTRAL, "", "[TOOL_CALLS]["},
    {KT_OUTPUT_MISTRAL, "", "[TOOL_CALLS]f[CALL_ID]"},
    {KT_OUTPUT_JSON, "", "{\"name\": "},
    {KT_OUTPUT_JSON, "<|tool_call_start|>[f(a=", "["},
    {KT_OUTPUT_JSON, "<|tool_call_start|>[f(a=[", "{1: 'x'}, "},
    {KT_OUTPUT_JSON, "<|tool_call_start|>[", "f(a=1),"},
};

/* Bytes that all buffers of the parser have room for. */
static size_t room_of(const struct kt_parser *parser)
{
    return parser->text.room + parser->held.room + parser->name.room + parser->id.room + parser->header.room +
           parser->key.room + parser->value.room + parser->gap.room + parser->stash.room +
           parser->room_marks * sizeof *parser->marks + parser->room_events * sizeof *parser->events;
}

/* Bytes of the events that the input gives, in pieces of this size; UINT64_MAX: a call failed. */
static uint64_t feed(struct kt_parser *parser, const char *input, size_t length, size_t piece)
{
    const struct kt_parser_event *events;
    uint64_t n, n_bytes = 0;
    for (size_t at = 0; at < length; at += piece) {
        if (kt_parser_add(parser, input + at, piece, &events, &n, NULL) != KT_OK)
            return UINT64_MAX;
        for (uint64_t i = 0; i < n; i++)
            n_bytes += events[i].length;
    }
    if (kt_parser_end(parser, &events, &n, NULL) != KT_OK)
        return UINT64_MAX;
    for (uint64_t i = 0; i < n; i++)
        n_bytes += events[i].length;
    return n_bytes;
}

/* 1 MB at once and byte by byte. The machine counts its steps: each byte once, and again after it was unread,
 * at most a tag's length; so the work is linear. Memory is, too. */
START_TEST(test_long)
{
    const char *again = long_inputs[_i].again;
    size_t length = 1000000, n_again = strlen(again), n_before = strlen(long_inputs[_i].before);
    char *input = malloc(length);
    ck_assert_ptr_nonnull(input);
    for (size_t i = 0; i < length; i++)
        input[i] = i < n_before ? long_inputs[_i].before[i] : again[(i - n_before) % n_again];
    struct kt_parser *parser = open_format(long_inputs[_i].format);
    uint64_t whole = feed(parser, input, length, length), bytewise = feed(parser, input, length, 1);
    ck_assert_uint_eq(whole, bytewise);
    ck_assert_uint_gt(whole, 0);
    ck_assert_uint_le(whole, 7 * length); /* a control character is 6 bytes in JSON */
    ck_assert_uint_ge(parser->n_steps, 2 * length);
    ck_assert_uint_le(parser->n_steps, 2 * length * 4);
    ck_assert_uint_le(room_of(parser), 80 * length);
    kt_parser_destroy(parser);
    free(input);
}
END_TEST

/* Text that is not a candidate is not kept: what a call of kt_parser_add needs does not grow with what came
 * before. */
START_TEST(test_memory)
{
    struct kt_parser *parser = open_format(KT_OUTPUT_HERMES);
    const struct kt_parser_event *events;
    uint64_t n;
    static const char head[] = "<think>", text[] = "Some words of text.\n";
    static const char call[] = "</think><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"";
    ck_assert_int_eq(kt_parser_add(parser, head, sizeof head - 1, &events, &n, NULL), KT_OK);
    for (int i = 0; i < 100000; i++) {
        if (i == 50000)
            ck_assert_int_eq(kt_parser_add(parser, call, sizeof call - 1, &events, &n, NULL), KT_OK);
        ck_assert_int_eq(kt_parser_add(parser, text, sizeof text - 1, &events, &n, NULL), KT_OK);
    }
    ck_assert_uint_le(room_of(parser), 16384);
    kt_parser_destroy(parser);
}
END_TEST

/* Zero bytes and bytes that are not UTF-8 pass. */
START_TEST(test_bytes)
{
    static const char text[] = "a\0<\0\xff<think>\xe2\x82 <tool_call>\0{";
    static const char call[] =
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\0y\xff\"}}</tool_call>";
    struct kt_parser *parser = open_format(KT_OUTPUT_HERMES);
    char *got = output_run(parser, text, sizeof text - 1, NULL, 0);
    ck_assert_str_eq(got, "C a\\0<\\0\xff<think>\xe2\x82 <tool_call>\\0{\n");
    free(got);
    got = output_run(parser, call, sizeof call - 1, NULL, 0);
    ck_assert_str_eq(got, "F f\nA {\"a\": \"x\\\\u0000y\xff\"}\n/F\n");
    free(got);
    kt_parser_destroy(parser);
}
END_TEST

static struct kt_parser *open_with_tools(void)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser;
    params.format = KT_OUTPUT_FUNCTION;
    params.tools = cases.tools;
    params.tools_length = strlen(cases.tools);
    ck_assert_int_eq(kt_parser_create(&params, &parser, NULL), KT_OK);
    return parser;
}

/* What may be a key where a value's end was forgotten: with a zero byte it is none, and it is not kept beyond
 * the length of a key. */
START_TEST(test_next_key)
{
    static const char zero[] =
        "<tool_call><function=write_file><parameter=path\0>\na\n<parameter=content\0>\n"
        "<parameter=path>\nb</parameter></function></tool_call>";
    static const char head[] = "<tool_call><function=write_file><parameter=path>\n<parameter=";
    struct kt_parser *parser = open_with_tools();
    const struct kt_parser_event *events;
    uint64_t n, n_bytes = 0;
    char *got = output_run(parser, zero, sizeof zero - 1, NULL, 0);
    ck_assert_str_eq(got, "F write_file\nA {\"path\\\\u0000\": \"a\\\\n<parameter=content\\\\u0000>\", "
                          "\"path\": \"b\"}\n/F\n");
    free(got);
    ck_assert_int_eq(kt_parser_add(parser, head, sizeof head - 1, &events, &n, NULL), KT_OK);
    for (int i = 0; i < 2000; i++) {
        ck_assert_int_eq(kt_parser_add(parser, "x", 1, &events, &n, NULL), KT_OK);
        for (uint64_t k = 0; k < n; k++)
            n_bytes += events[k].length;
    }
    ck_assert_uint_eq(n_bytes, 2000 + strlen("<parameter="));
    kt_parser_destroy(parser);
}
END_TEST

/* As deep as KT_JSON_DEPTH, and one deeper, which is not JSON here. */
START_TEST(test_depth)
{
    static const char head[] = "<tool_call>{\"name\": \"f\", \"arguments\": ", middle[] = "{\"a\":";
    for (size_t more = 0; more < 2; more++) {
        char text[16 * KT_JSON_DEPTH], *to = text;
        to += sprintf(to, "%s%s", head, middle);
        for (size_t i = 1; i < KT_JSON_DEPTH + more; i++)
            *to++ = '[';
        for (size_t i = 1; i < KT_JSON_DEPTH + more; i++)
            *to++ = ']';
        to += sprintf(to, "}}</tool_call>");
        struct kt_parser *parser = open_format(KT_OUTPUT_HERMES);
        char *got = output_run(parser, text, (uint64_t)(to - text), NULL, 0);
        ck_assert_ptr_nonnull(strstr(got, more ? "\n/F!\n" : "\n/F\n"));
        free(got);
        kt_parser_destroy(parser);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("limits");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_faults);
    tcase_add_test(tests, test_arguments);
    tcase_add_loop_test(tests, test_long, 0, (int)(sizeof long_inputs / sizeof *long_inputs));
    tcase_add_test(tests, test_memory);
    tcase_add_test(tests, test_bytes);
    tcase_add_test(tests, test_next_key);
    tcase_add_test(tests, test_depth);
    return run_tests("output_limits", tests);
}
