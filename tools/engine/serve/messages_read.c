/* SPDX-License-Identifier: Apache-2.0 */
/* messages_read.c - what a request of Anthropic's Messages API asks for, as a chat of OpenAI's. */
#include "tools/engine/serve/dialect.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/turn.h"
#include "tools/engine/serve/wish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a body says that OpenAI's has not, or not so. */
struct given {
    json_t *messages, *tools, *tool_choice, *thinking, *output_config, *output_format, *kwargs;
    int64_t max_tokens;
};

static const struct kt_field fields[] =
    {{"messages", KT_FIELD_LIST, offsetof(struct given, messages), 0, 0},
     {"tools", KT_FIELD_LIST, offsetof(struct given, tools), 0, 0},
     {"tool_choice", KT_FIELD_OBJECT, offsetof(struct given, tool_choice), 0, 0},
     {"thinking", KT_FIELD_OBJECT, offsetof(struct given, thinking), 0, 0},
     {"output_config", KT_FIELD_OBJECT, offsetof(struct given, output_config), 0, 0},
     {"output_format", KT_FIELD_OBJECT, offsetof(struct given, output_format), 0, 0},
     {"chat_template_kwargs", KT_FIELD_OBJECT, offsetof(struct given, kwargs), 0, 0},
     {"max_tokens", KT_FIELD_INT, offsetof(struct given, max_tokens), 1, UINT32_MAX},
     {.name = NULL}};

/* Those that are the same. */
static const char *const same[] = {"model", "max_tokens", "stream", "temperature", "top_p", "top_k",
                                   "stop_sequences",
                                   /* what others than Anthropic have */
                                   "min_p", "seed", "repetition_penalty", "presence_penalty",
                                   "frequency_penalty", "min_tokens", "ignore_eos"};

/* ---- messages ---- */

static bool add_call(struct kt_turn *turn, const json_t *block, const char *param, struct kt_problem *problem)
{
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
    json_t *input = json_object_get(block, "input");
    bool is_text = !input || json_is_null(input) || json_is_string(input); /* of a call that was cut off */
    if (!json_is_string(id) || !json_is_string(name) || !(is_text || json_is_object(input)))
        return kt_problem_field(problem, param, "'%s' needs an id, a name and an input, which is an object",
                                param);
    if (is_text)
        return kt_turn_call(turn, id, name, json_is_string(input) ? json_incref(input) : json_string(""),
                            problem);
    char *text = kt_json_dump(input, JSON_COMPACT);
    json_t *arguments = text ? kt_json_text(text, strlen(text)) : NULL;
    free(text);
    return kt_turn_call(turn, id, name, arguments, problem);
}

/* The texts in content: parts, and documents, results and tools that were found, which hold some. False:
 * there is something else, or no memory. */
static bool collect(json_t *parts, json_t *content, int depth)
{
    json_t *block, *text;
    size_t i;
    bool done = json_is_string(content) || json_is_array(content);
    if (json_is_string(content))
        return json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", content)) == 0;
    json_array_foreach (content, i, block) {
        const char *type = json_string_value(json_object_get(block, "type"));
        bool is_text = type && strcmp(type, "text") == 0,
             is_tool = type && strcmp(type, "tool_reference") == 0;
        text = json_object_get(block, is_tool ? "tool_name" : is_text ? "text" : "content");
        if (type && strcmp(type, "document") == 0) {
            json_t *source = json_object_get(block, "source");
            const char *kind = json_string_value(json_object_get(source, "type"));
            bool is_plain = kind && strcmp(kind, "text") == 0;
            is_text = is_plain;
            text = is_plain || (kind && strcmp(kind, "content") == 0)
                       ? json_object_get(source, is_plain ? "data" : "content")
                       : NULL;
        } else if (!is_text && !is_tool && (!type || strcmp(type, "search_result") != 0)) {
            text = NULL;
        }
        done = done && text && depth > 0 && (json_is_string(text) || !(is_text || is_tool)) &&
               collect(parts, text, depth - 1);
    }
    return done;
}

/* What is said in content, joined; NULL after a problem. */
static json_t *read_content(json_t *content, const char *param, struct kt_problem *problem)
{
    json_t *parts = json_array();
    bool is_text = parts && collect(parts, content, 2);
    json_t *text = kt_chat_text(is_text && json_is_array(content) ? parts : content, param, problem);
    json_decref(parts);
    return text;
}

static bool add_result(struct kt_turn *turn, const json_t *block, const char *param,
                       struct kt_problem *problem)
{
    json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content");
    if (!json_is_string(id))
        return kt_problem_field(problem, param, "'%s' needs a tool_use_id", param);
    bool is_empty = !content || json_is_null(content);
    json_t *text = is_empty ? json_string("") : read_content(content, param, problem);
    return (text || (is_empty && kt_problem_memory(problem))) && kt_turn_result(turn, id, text, problem) &&
           kt_turn_begin(turn, "user", problem);
}

static bool add_document(struct kt_turn *turn, const json_t *block, const char *param,
                         struct kt_problem *problem)
{
    json_t *blocks = json_pack("[O]", block);
    json_t *text = blocks ? read_content(blocks, param, problem) : NULL;
    bool done = text && kt_turn_text(turn, text, problem);
    if (!blocks)
        kt_problem_memory(problem);
    json_decref(blocks);
    json_decref(text);
    return done;
}

static bool add_block(struct kt_turn *turn, const json_t *block, const char *param,
                      struct kt_problem *problem)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    bool is_user = strcmp(turn->role, "user") == 0, is_model = strcmp(turn->role, "assistant") == 0;
    if (!type)
        return kt_problem_field(problem, param, "'%s' must be an object with a type", param);
    if (strcmp(type, "text") == 0 || strcmp(type, "thinking") == 0) {
        const json_t *text = json_object_get(block, type);
        if (!json_is_string(text))
            return kt_problem_field(problem, param, "'%s' is of type %s and needs a string '%s'", param, type,
                                    type);
        if (strcmp(type, "text") == 0)
            return kt_turn_text(turn, text, problem);
        return !is_model || kt_turn_reasoning(turn, text, problem);
    }
    if (strcmp(type, "redacted_thinking") == 0)
        return true; /* nobody here can read it */
    size_t length = strlen(type), n = strlen("_tool_result");
    if (is_model && (strcmp(type, "server_tool_use") == 0 || strcmp(type, "mcp_tool_use") == 0 ||
                     (length > n && strcmp(type + length - n, "_tool_result") == 0)))
        return true; /* what a server did by itself: there is nothing in it for the model */
    if (strcmp(type, "document") == 0 || strcmp(type, "search_result") == 0)
        return add_document(turn, block, param, problem);
    if (is_model && strcmp(type, "tool_use") == 0)
        return add_call(turn, block, param, problem);
    if (is_user && strcmp(type, "tool_result") == 0)
        return add_result(turn, block, param, problem);
    return kt_problem_field(problem, param,
                            "'%s' is of type %.40s, which is not supported in a message of %s", param, type,
                            turn->role);
}

/* Results of tools, or all other blocks: results come first, wherever they stand, as templates want them
 * directly behind the calls. */
static bool add_blocks(struct kt_turn *turn, const json_t *content, size_t at, bool are_results,
                       struct kt_problem *problem)
{
    const json_t *block;
    char param[64];
    size_t i;
    json_array_foreach (content, i, block) {
        const char *type = json_string_value(json_object_get(block, "type"));
        (void)snprintf(param, sizeof(param), "messages[%zu].content[%zu]", at, i);
        if ((type && strcmp(type, "tool_result") == 0) == are_results &&
            !add_block(turn, block, param, problem))
            return false;
    }
    return true;
}

static bool add_message(struct kt_turn *turn, const json_t *message, size_t at, struct kt_problem *problem)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    char param[64];
    (void)snprintf(param, sizeof(param), "messages[%zu].role", at);
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0))
        return kt_problem_field(problem, param, "'%s' must be user, assistant or system", param);
    if (!kt_turn_begin(turn, role, problem))
        return false;
    if (json_is_string(content))
        return kt_turn_text(turn, content, problem);
    if (json_is_array(content) && json_array_size(content) == 0) /* an answer may have been empty */
        return kt_turn_text(turn, NULL, problem);
    (void)snprintf(param, sizeof(param), "messages[%zu].content", at);
    if (!json_is_array(content))
        return kt_problem_field(problem, param, "'%s' must be a string or an array of blocks", param);
    return add_blocks(turn, content, at, true, problem) && add_blocks(turn, content, at, false, problem);
}

static bool add_system(json_t *messages, json_t *system, struct kt_problem *problem)
{
    if (!system || json_is_null(system))
        return true;
    json_t *text = kt_chat_text(system, "system", problem);
    return text && (json_array_append_new(messages,
                                          json_pack("{s:s, s:o}", "role", "system", "content", text)) == 0 ||
                    kt_problem_memory(problem));
}

/* A last message of the assistant's is the beginning of the answer. */
static bool set_messages(json_t *chat, const json_t *body, const struct given *given,
                         struct kt_problem *problem)
{
    struct kt_turn turn = {.messages = json_array()};
    const json_t *message;
    size_t i;
    bool done = (turn.messages && json_object_set_new(chat, "messages", turn.messages) == 0) ||
                kt_problem_memory(problem);
    done = done && add_system(turn.messages, json_object_get(body, "system"), problem);
    json_array_foreach (given->messages, i, message) {
        done = done && add_message(&turn, message, i, problem);
    }
    bool is_begun = turn.role && strcmp(turn.role, "assistant") == 0;
    bool is_call = json_array_size(turn.calls) > 0;
    if (done && is_begun && is_call)
        kt_problem_field(problem, "messages", "'messages' ends with a tool_use; its tool_result is missing");
    done = kt_turn_end(&turn, problem) && done && !(is_begun && is_call);
    if (done && is_begun && json_object_set_new(chat, "continue_final_message", json_true()) != 0)
        return kt_problem_memory(problem);
    return done;
}

/* ---- tools ---- */

/* Tools that run elsewhere than at the client, and those that only Anthropic's models know, are left out; if
 * one is required, that is refused since it is not there. */
static bool set_tools(const struct kt_served *model, json_t *chat, const struct given *given,
                      struct kt_problem *problem)
{
    const json_t *tool;
    size_t i;
    if (json_array_size(given->tools) == 0)
        return true;
    json_t *tools = json_array();
    if (!tools || json_object_set_new(chat, "tools", tools) != 0)
        return kt_problem_memory(problem);
    json_array_foreach (given->tools, i, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        json_t *name = json_object_get(tool, "name"), *schema = json_object_get(tool, "input_schema");
        json_t *about = json_object_get(tool, "description");
        if (!type && json_object_get(tool, "type") && !json_is_null(json_object_get(tool, "type")))
            return kt_problem_field(problem, "tools", "'tools[%zu].type' must be a string", i);
        if (type && strcmp(type, "custom") != 0) {
            kt_ask_note(model, "a tool of type", type);
            continue;
        }
        about = json_is_string(about) ? about : NULL;
        if (json_string_length(name) == 0 || !json_is_object(schema))
            return kt_problem_field(problem, "tools",
                                    "'tools[%zu]' needs a name and an input_schema, which is an object", i);
        /* In the order in which others write them, and so templates print them. */
        json_t *function =
            json_pack("{s:O, s:O*, s:O}", "name", name, "description", about, "parameters", schema);
        if (json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function)) !=
            0)
            return kt_problem_memory(problem);
    }
    return true;
}

static bool set_choice(json_t *chat, const struct given *given, struct kt_problem *problem)
{
    static const char *const words[][2] = {{"auto", "auto"}, {"none", "none"}, {"any", "required"}};
    const char *type = json_string_value(json_object_get(given->tool_choice, "type"));
    json_t *name = json_object_get(given->tool_choice, "name"), *choice = NULL;
    if (!given->tool_choice)
        return true;
    for (size_t i = 0; type && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(type, words[i][0]) == 0)
            choice = json_string(words[i][1]);
    if (type && strcmp(type, "tool") == 0 && json_is_string(name))
        choice = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    if (!choice)
        return kt_problem_field(problem, "tool_choice",
                                "'tool_choice.type' must be auto, any, none, or tool with a name");
    bool is_serial = json_is_true(json_object_get(given->tool_choice, "disable_parallel_tool_use"));
    return (json_object_set_new(chat, "tool_choice", choice) == 0 &&
            json_object_set_new(chat, "parallel_tool_calls", json_boolean(!is_serial)) == 0) ||
           kt_problem_memory(problem);
}

/* ---- the rest ---- */

/* Thinking is the template's matter: these are the names by which most of them know it. Where a request says
 * nothing, the model does as it was made. */
static bool set_thinking(json_t *chat, const struct given *given, struct kt_problem *problem)
{
    static const char *const names[] = {"enable_thinking", "thinking"};
    const char *type = json_string_value(json_object_get(given->thinking, "type"));
    json_t *kwargs = given->kwargs ? json_copy(given->kwargs) : json_object();
    bool done = kwargs && json_object_set_new(chat, "chat_template_kwargs", kwargs) == 0;
    for (size_t i = 0; done && type && i < sizeof(names) / sizeof(names[0]); i++)
        if (!json_object_get(kwargs, names[i]))
            done = json_object_set_new(kwargs, names[i], json_boolean(strcmp(type, "disabled") != 0)) == 0;
    return done || kt_problem_memory(problem);
}

/* Schemas for the answer, in today's place and in that of the API's first version. */
static bool set_output(json_t *chat, const struct given *given, struct kt_problem *problem)
{
    const json_t *format = json_object_get(given->output_config, "format");
    json_t *effort = json_object_get(given->output_config, "effort");
    format = format && !json_is_null(format) ? format : given->output_format;
    const char *type = json_string_value(json_object_get(format, "type"));
    json_t *schema = json_object_get(format, "schema");
    bool done = true;
    if (format && (!type || strcmp(type, "json_schema") != 0 || !json_is_object(schema)))
        return kt_problem_field(problem, "output_config",
                                "'output_config.format' must be of type json_schema, with a schema");
    if (format && json_object_get(chat, "response_format"))
        return kt_problem_field(problem, "response_format",
                                "'response_format' and 'output_config.format' exclude each other");
    if (format)
        done = json_object_set_new(chat, "response_format",
                                   json_pack("{s:s, s:{s:s, s:O, s:b}}", "type", "json_schema", "json_schema",
                                             "name", "output", "schema", schema, "strict", 1)) == 0;
    if (done && json_is_string(effort))
        done = json_object_set(chat, "reasoning_effort", effort) == 0;
    return done || kt_problem_memory(problem);
}

/* NULL after a problem. */
static json_t *make_chat(const struct kt_served *model, const json_t *body, const struct given *given,
                         struct kt_problem *problem)
{
    json_t *chat = json_object();
    bool done = chat != NULL || kt_problem_memory(problem);
    for (size_t i = 0; done && i < sizeof(same) / sizeof(same[0]); i++) {
        json_t *value = json_object_get(body, same[i]);
        done = !value || json_object_set(chat, same[i], value) == 0 || kt_problem_memory(problem);
    }
    done = done && (kt_wish_copy(body, chat) || kt_problem_memory(problem));
    if (done && set_messages(chat, body, given, problem) && set_tools(model, chat, given, problem) &&
        set_choice(chat, given, problem) && set_thinking(chat, given, problem) &&
        set_output(chat, given, problem))
        return chat;
    json_decref(chat);
    return NULL;
}

/* max_tokens may be missing where only the prompt's tokens are counted. */
static json_t *translate(const struct kt_served *model, json_t *body, bool has_answer,
                         struct kt_problem *problem)
{
    struct given given = {.messages = NULL};
    json_t *chat = NULL;
    if (!kt_fields_read(body, fields, &given, problem))
        chat = NULL;
    else if (json_array_size(given.messages) == 0)
        kt_problem_field(problem, "messages", "'messages' must hold at least one message");
    else if (has_answer && given.max_tokens == 0)
        kt_problem_field(problem, "max_tokens", "'max_tokens' is missing");
    else
        chat = make_chat(model, body, &given, problem);
    json_decref(body);
    return chat;
}

json_t *kt_messages_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    return translate(model, body, true, problem);
}

static json_t *translate_prompt(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    return translate(model, body, false, problem);
}

bool kt_answer_count_tokens(struct kt_exchange *exchange)
{
    static const struct kt_dialect dialect = {.is_chat = true,
                                              .stop = "stop_sequences",
                                              .translate = translate_prompt};
    return kt_job_count(exchange, &dialect, NULL);
}

const struct kt_field *const kt_messages_table = fields;
