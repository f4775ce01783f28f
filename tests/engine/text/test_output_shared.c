/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every assistant message of the conversations in KT_TEST_DATA_SHARED/chat-templates, as its template renders
 * it, read back: the same calls, text and reasoning. What a template leaves out is left out of the
 * comparison.
 */
#include "tests/engine/text/output_cases.h"
#include "tests/support/suite.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_CALLS = 1, FIRST_CALL = 2, NO_TEXT = 4, RAW_TAGS = 8 };

/* How a template marks the model's turns, and what it leaves out: calls, all but the first one, text beside
 * calls; RAW_TAGS: <think> is text in its format. */
static const struct model {
    const char *name;
    uint32_t format;
    const char *begin[2], *end;
    int lacks;
} models[] = {
    {"deepseek-v3.1",
     KT_OUTPUT_DEEPSEEK,
     {"<｜Assistant｜>", "<｜tool▁output▁end｜>"},
     "<｜end▁of▁sentence｜>",
     0},
    {"deepseek-v3.2",
     KT_OUTPUT_DSML,
     {"<｜Assistant｜>", "</function_results>\n\n"},
     "<｜end▁of▁sentence｜>",
     0},
    {"glm-4.6", KT_OUTPUT_GLM, {"<|assistant|>"}, "<|", 0},
    {"gpt-oss", KT_OUTPUT_HARMONY, {"<|start|>assistant"}, NULL, FIRST_CALL | NO_TEXT | RAW_TAGS},
    {"granite", KT_OUTPUT_JSON, {"assistant<|end_of_role|>"}, "<|end_of_text|>", NO_CALLS},
    {"kimi-k2", KT_OUTPUT_KIMI, {"<|im_assistant|>assistant<|im_middle|>"}, "<|im_end|>", 0},
    {"kimi-k2-thinking", KT_OUTPUT_KIMI, {"<|im_assistant|>assistant<|im_middle|>"}, "<|im_end|>", 0},
    {"lfm2", KT_OUTPUT_JSON, {"<|im_start|>assistant\n"}, "<|im_end|>", NO_CALLS},
    {"llama-3.1",
     KT_OUTPUT_JSON,
     {"<|start_header_id|>assistant<|end_header_id|>\n\n"},
     "<|eot_id|>",
     NO_TEXT},
    {"mistral-small", KT_OUTPUT_MISTRAL, {"[/INST]", "[/TOOL_RESULTS]"}, "<EOS>", NO_TEXT | RAW_TAGS},
    {"nemotron-3-nano", KT_OUTPUT_FUNCTION, {"<|im_start|>assistant\n"}, "<|im_end|>", 0},
    {"phi-3.5", KT_OUTPUT_PLAIN, {"<|assistant|>\n"}, "<|end|>", NO_CALLS},
    {"qwen3", KT_OUTPUT_HERMES, {"<|im_start|>assistant\n"}, "<|im_end|>", 0},
    {"qwen3-coder", KT_OUTPUT_FUNCTION, {"<|im_start|>assistant\n"}, "<|im_end|>", 0},
    {"qwen3.5", KT_OUTPUT_FUNCTION, {"<|im_start|>assistant\n"}, "<|im_end|>", 0},
    {"step-3.5", KT_OUTPUT_FUNCTION, {"<|im_start|>assistant\n"}, "<|im_end|>", 0},
};

static const char *folder(void)
{
    const char *shared = getenv("KT_TEST_DATA_SHARED");
    return shared && *shared ? shared : NULL; /* make check sets it, to nothing where there is none */
}

/* One result of a tool may follow another, which is no turn of the model. */
static bool is_result(const char *text)
{
    static const char deepseek[] = "<｜tool▁output▁begin｜>", mistral[] = "[TOOL_RESULTS]";
    return strncmp(text, deepseek, sizeof deepseek - 1) == 0 ||
           strncmp(text, mistral, sizeof mistral - 1) == 0;
}

/* Where the next of the model's turns begins, from `text` on; NULL: there is none. */
static const char *next_turn(const struct model *model, const char *text)
{
    const char *found = NULL;
    for (int i = 0; i < 2 && model->begin[i]; i++) {
        const char *at = strstr(text, model->begin[i]);
        if (at && (!found || at < found))
            found = at + strlen(model->begin[i]);
    }
    return found && is_result(found) ? next_turn(model, found) : found;
}

/* A turn of gpt-oss goes on through messages of the assistant. */
static const char *turn_end(const struct model *model, const char *turn)
{
    if (model->end)
        return strstr(turn, model->end);
    for (const char *at = strstr(turn, "<|start|>"); at; at = strstr(at + 1, "<|start|>"))
        if (strncmp(at, "<|start|>assistant", 18) != 0)
            return at;
    return strstr(turn, "<|return|>");
}

struct message {
    json_t *calls; /* name, arguments; in the order of the events */
    char text[2][4096];
    char arguments[4096];
};

static void append(char *text, const struct kt_parser_event *event)
{
    size_t used = strlen(text);
    ck_assert_uint_lt(used + event->length, 4096);
    memcpy(text + used, event->text, event->length);
    text[used + event->length] = '\0';
}

static void take_event(struct message *message, const struct kt_parser_event *event)
{
    json_t *call = NULL;
    switch (event->kind) {
    case KT_OUTPUT_REASONING:
    case KT_OUTPUT_CONTENT:
        append(message->text[event->kind == KT_OUTPUT_CONTENT], event);
        return;
    case KT_OUTPUT_ARGUMENTS:
        append(message->arguments, event);
        return;
    case KT_OUTPUT_CALL:
        *message->arguments = '\0';
        call = json_pack("{s:s%}", "name", event->text, (size_t)event->length);
        ck_assert_int_eq(json_array_append_new(message->calls, call), 0);
        return;
    case KT_OUTPUT_CALL_END:
        ck_assert(!event->is_cut);
        call = json_array_get(message->calls, event->call);
        ck_assert_int_eq(json_object_set_new(call, "arguments", json_loads(message->arguments, 0, NULL)), 0);
        return;
    default:
        ck_assert(!event->is_cut);
    }
}

static void parse_turn(const struct model *model, json_t *tools, const char *turn, size_t length,
                       struct message *message)
{
    struct kt_parser_params params = KT_PARSER_PARAMS_INIT;
    struct kt_parser *parser;
    const struct kt_parser_event *events;
    uint64_t n;
    char *text = tools ? json_dumps(tools, 0) : NULL;
    params.format = model->format;
    params.tools = text;
    params.tools_length = text ? strlen(text) : 0;
    ck_assert_int_eq(kt_parser_create(&params, &parser, NULL), KT_OK);
    *message = (struct message){.calls = json_array()};
    for (size_t i = 0; i < length; i++) {
        ck_assert_int_eq(kt_parser_add(parser, turn + i, 1, &events, &n, NULL), KT_OK);
        for (uint64_t e = 0; e < n; e++)
            take_event(message, &events[e]);
    }
    ck_assert_int_eq(kt_parser_end(parser, &events, &n, NULL), KT_OK);
    for (uint64_t e = 0; e < n; e++)
        take_event(message, &events[e]);
    kt_parser_destroy(parser);
    free(text);
}

/* The calls of the request, as parsed: name, and arguments as an object. */
static json_t *wanted_calls(const struct model *model, const json_t *message)
{
    json_t *calls = json_array(), *call;
    size_t i;
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        json_t *function = json_object_get(call, "function");
        json_t *arguments = json_object_get(function, "arguments");
        arguments = json_is_string(arguments) ? json_loads(json_string_value(arguments), 0, NULL)
                                              : json_incref(arguments);
        if (!(model->lacks & NO_CALLS) && !(i && model->lacks & FIRST_CALL))
            (void)json_array_append_new(calls,
                                        json_pack("{s:O,s:O}", "name", json_object_get(function, "name"),
                                                  "arguments", arguments));
        json_decref(arguments);
    }
    return calls;
}

static const char *wanted_text(const struct model *model, const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    const char *text = json_string_value(content), *think = text ? strstr(text, "</think>") : NULL;
    if (json_is_array(content)) /* the conversations have one part there */
        text = json_string_value(json_object_get(json_array_get(content, 0), "text"));
    if (think && !(model->lacks & RAW_TAGS))
        text = think + strlen("</think>") + strspn(think + strlen("</think>"), "\n");
    return text ? text : "";
}

static void check_turn(const struct model *model, const char *name, const json_t *message, const char *turn,
                       size_t length, json_t *tools)
{
    struct message got;
    parse_turn(model, tools, turn, length, &got);
    json_t *calls = wanted_calls(model, message);
    const char *text = wanted_text(model, message);
    bool has_calls = json_array_size(json_object_get(message, "tool_calls"));
    ck_assert_msg(json_equal(calls, got.calls), "%s, %s: %s, but in\n%.*s\n", model->name, name,
                  json_dumps(got.calls, JSON_ENCODE_ANY), (int)length, turn);
    if (!has_calls || !(model->lacks & NO_TEXT))
        ck_assert_msg(strcmp(got.text[1], text) == 0, "%s, %s: content \"%s\", not \"%s\", in\n%.*s\n",
                      model->name, name, got.text[1], text, (int)length, turn);
    const char *reasoning = json_string_value(json_object_get(message, "reasoning_content"));
    if (*got.text[0] && reasoning)
        ck_assert_str_eq(got.text[0], reasoning);
    json_decref(calls);
    json_decref(got.calls);
}

/* What cannot be read back: arguments that are text make this template write "None" and no arguments; and
 * this one writes the word null for a content that is null. */
static bool is_lost(const struct model *model, const char *name)
{
    bool is_text = strcmp(name, "arguments_text") == 0;
    return is_text && (strcmp(model->name, "glm-4.6") == 0 || strcmp(model->name, "lfm2") == 0);
}

/* The user's first message, behind what the system says, which may quote the marks of turns. */
static const char *first_user(const char *text, const json_t *messages)
{
    const char *content = "";
    size_t i;
    json_t *message;
    json_array_foreach (messages, i, message) {
        bool is_user = strcmp(json_string_value(json_object_get(message, "role")), "user") == 0;
        if (is_user && !*content && json_is_string(json_object_get(message, "content")))
            content = json_string_value(json_object_get(message, "content"));
    }
    for (const char *at = text; at && (at = strstr(at + 1, content));)
        if (strchr(">]\n", at[-1]) && strchr("<[\n/", at[strlen(content)]))
            return at;
    return text;
}

static size_t check_case(const struct model *model, json_t *one)
{
    const char *name = json_string_value(json_object_get(one, "case"));
    const char *text = json_string_value(json_object_get(one, "text"));
    json_t *arguments = json_object_get(one, "arguments"), *message,
           *tools = json_object_get(arguments, "tools");
    size_t i, n_calls = 0;
    text = first_user(text, json_object_get(arguments, "messages"));
    json_array_foreach (json_object_get(arguments, "messages"), i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!text || strcmp(role, "assistant") != 0)
            continue;
        text = next_turn(model, text);
        ck_assert_msg(text, "%s, %s: turn %zu is missing", model->name, name, i);
        const char *end = turn_end(model, text);
        size_t length = end ? (size_t)(end - text) : strlen(text);
        if (!is_lost(model, name))
            check_turn(model, name, message, text, length, tools);
        n_calls += json_array_size(json_object_get(message, "tool_calls")) > 0;
        text += length;
    }
    return n_calls;
}

START_TEST(test_model)
{
    char path[4096];
    const struct model *model = &models[_i];
    (void)snprintf(path, sizeof path, "%s/chat-templates/%s.json", folder(), model->name);
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error), *one;
    ck_assert_msg(list, "%s: %s", path, error.text);
    size_t i, n = 0;
    json_array_foreach (list, i, one)
        n += check_case(model, one);
    ck_assert_uint_gt(n, 0);
    json_decref(list);
}
END_TEST

int main(void)
{
    if (!folder()) {
        printf("SKIP: conversations of real templates: KT_TEST_DATA_SHARED names no folder\n");
        return 77;
    }
    TCase *tests = tcase_create("templates");
    tcase_add_loop_test(tests, test_model, 0, (int)(sizeof models / sizeof *models));
    return run_tests("output_shared", tests);
}
