/* SPDX-License-Identifier: Apache-2.0 */
/* responses_read.c - what a request of OpenAI's Responses API asks for, as a chat. */
#include "tools/engine/base/dump.h"
#include "tools/engine/serve/dialect.h"
#include "tools/engine/serve/turn.h"
#include "tools/engine/serve/wish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct given {
    json_t *tools, *text, *reasoning, *include, *metadata, *kwargs;
    const char *instructions, *truncation;
    bool parallel_tool_calls, store, background;
    int64_t max_output_tokens, top_logprobs;
};

#define FIELD(name, type, least, most)                         \
    {                                                          \
#name, type, offsetof(struct given, name), least, most \
    }
static const struct kt_field fields[] = {FIELD(tools, KT_FIELD_LIST, 0, 0),
                                         FIELD(text, KT_FIELD_OBJECT, 0, 0),
                                         FIELD(reasoning, KT_FIELD_OBJECT, 0, 0),
                                         FIELD(include, KT_FIELD_LIST, 0, 0),
                                         FIELD(metadata, KT_FIELD_OBJECT, 0, 0),
                                         {"chat_template_kwargs", KT_FIELD_OBJECT,
                                          offsetof(struct given, kwargs), 0, 0},
                                         FIELD(instructions, KT_FIELD_TEXT, 0, 0),
                                         FIELD(truncation, KT_FIELD_TEXT, 0, 0),
                                         FIELD(parallel_tool_calls, KT_FIELD_BOOL, 0, 0),
                                         FIELD(store, KT_FIELD_BOOL, 0, 0),
                                         FIELD(background, KT_FIELD_BOOL, 0, 0),
                                         FIELD(max_output_tokens, KT_FIELD_INT, 1, UINT32_MAX),
                                         FIELD(top_logprobs, KT_FIELD_INT, 0, 20),
                                         {.name = NULL}};

/* Those that chats have, too. */
static const char *const same[] = {"model",
                                   "stream",
                                   "temperature",
                                   "top_p",
                                   "parallel_tool_calls",
                                   "stop",
                                   "top_k",
                                   "min_p",
                                   "seed",
                                   "repetition_penalty",
                                   "presence_penalty",
                                   "frequency_penalty",
                                   "min_tokens",
                                   "ignore_eos"};

/* ---- what is not there ---- */

/* Nothing is kept from one request to the next: whoever counts on that is told so. "store", which clients set
 * unasked, is no such wish, and a reply says that it is false. */
static bool check_state(const json_t *body, struct kt_problem *problem)
{
    static const char *const names[] = {"previous_response_id", "conversation", "prompt"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *value = json_object_get(body, names[i]);
        if (value && !json_is_null(value))
            return kt_problem_field(problem, names[i],
                                    "'%s' is not supported, as nothing is stored here; send all of the "
                                    "conversation as 'input'",
                                    names[i]);
    }
    if (json_is_true(json_object_get(body, "background")))
        return kt_problem_field(problem, "background",
                                "'background' can only be false: nothing is stored here");
    return true;
}

static bool check_given(const struct given *given, struct kt_problem *problem)
{
    const json_t *item;
    size_t i;
    /* "auto" asks for no more where the input is short enough; where it is not, it is rejected as ever. */
    if (given->truncation && strcmp(given->truncation, "disabled") != 0 &&
        strcmp(given->truncation, "auto") != 0)
        return kt_problem_field(problem, "truncation", "'truncation' must be auto or disabled");
    json_array_foreach (given->include, i, item) {
        if (json_is_string(item) && strcmp(json_string_value(item), "message.output_text.logprobs") == 0)
            return kt_problem_field(problem, "include",
                                    "'include' cannot ask for logprobs; /v1/chat/completions has them");
    }
    if (given->top_logprobs > 0)
        return kt_problem_field(problem, "top_logprobs",
                                "'top_logprobs' is not supported; /v1/chat/completions has it");
    return true;
}

/* ---- items ---- */

/* Clients send null where there was no text. */
static json_t *read_text(json_t *content, const char *param, struct kt_problem *problem)
{
    json_t *text = json_is_null(content) ? json_string("") : kt_chat_text(content, param, problem);
    if (!text && json_is_null(content))
        kt_problem_memory(problem);
    return text;
}

static bool add_message(struct kt_turn *turn, const json_t *item, const char *param,
                        struct kt_problem *problem)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const char *role = json_string_value(json_object_get(item, "role")), *known = NULL;
    for (size_t i = 0; role && i < sizeof(roles) / sizeof(roles[0]); i++)
        if (strcmp(role, roles[i]) == 0)
            known = i == 3 ? "system" : roles[i];
    if (!known)
        return kt_problem_field(problem, param, "'%s.role' must be user, assistant, system or developer",
                                param);
    json_t *text = read_text(json_object_get(item, "content"), param, problem);
    /* Users' messages stay as they are; what the model said belongs together, and so do instructions. */
    bool done = text && (strcmp(known, "user") != 0 || kt_turn_end(turn, problem)) &&
                kt_turn_begin(turn, known, problem) && kt_turn_text(turn, text, problem);
    json_decref(text);
    return done;
}

static bool add_call(struct kt_turn *turn, const json_t *item, const char *param, struct kt_problem *problem)
{
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    json_t *arguments = json_object_get(item, "arguments");
    bool is_none = !arguments || json_is_null(arguments);
    if (!json_is_string(id) || !json_is_string(name) || !(is_none || json_is_string(arguments)))
        return kt_problem_field(problem, param, "'%s' needs a call_id, a name and arguments as JSON text",
                                param);
    return kt_turn_begin(turn, "assistant", problem) &&
           kt_turn_call(turn, id, name, is_none ? json_string("") : json_incref(arguments), problem);
}

static json_t *write_text(const json_t *value, struct kt_problem *problem)
{
    char *text = kt_json_dump(value, JSON_COMPACT);
    json_t *json = text ? kt_json_text(text, strlen(text)) : NULL;
    free(text);
    if (!json)
        kt_problem_memory(problem);
    return json;
}

static bool add_output(struct kt_turn *turn, const json_t *item, const char *param,
                       struct kt_problem *problem)
{
    json_t *id = json_object_get(item, "call_id");
    if (!json_is_string(id))
        return kt_problem_field(problem, param, "'%s' needs a call_id", param);
    json_t *output = json_object_get(item, "output"), *text;
    if (!output && json_object_get(item, "status")) /* of a patch, it may be all there is */
        output = json_object_get(item, "status");
    if (json_object_get(json_array_get(output, 0), "stdout")) /* of a shell */
        text = write_text(output, problem);
    else
        text = read_text(output, param, problem);
    return text && kt_turn_result(turn, id, text, problem);
}

/* All of it, or a summary where there is no more. */
static bool add_reasoning(struct kt_turn *turn, const json_t *item, const char *param,
                          struct kt_problem *problem)
{
    json_t *parts = json_object_get(item, "content");
    if (json_array_size(parts) == 0)
        parts = json_object_get(item, "summary");
    if (!kt_turn_begin(turn, "assistant", problem))
        return false;
    if (json_array_size(parts) == 0)
        return true; /* encrypted: nobody here can read it */
    json_t *text = kt_chat_text(parts, param, problem);
    bool done = text && kt_turn_reasoning(turn, text, problem);
    json_decref(text);
    return done;
}

static bool add_custom_call(struct kt_turn *turn, const json_t *item, const char *param,
                            struct kt_problem *problem)
{
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    json_t *input = json_object_get(item, "input");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(input))
        return kt_problem_field(problem, param,
                                "'%s' needs a call_id, a name and an input, which is a string", param);
    return kt_turn_begin(turn, "assistant", problem) &&
           kt_turn_call(turn, id, name, kt_custom_arguments(input), problem);
}

/* A command or a patch that the client was told to run, by a server that has this tool. */
static bool add_shell_call(struct kt_turn *turn, const json_t *item, const char *param,
                           struct kt_problem *problem)
{
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "type");
    const json_t *action = json_object_get(item, "action");
    char *text = kt_json_dump(action ? action : json_object_get(item, "operation"), JSON_COMPACT);
    if (!json_is_string(id) || !text) {
        free(text);
        return kt_problem_field(problem, param, "'%s' needs a call_id, and an action or operation", param);
    }
    json_t *arguments = kt_json_text(text, strlen(text));
    free(text);
    return kt_turn_begin(turn, "assistant", problem) && kt_turn_call(turn, id, name, arguments, problem);
}

/* What a server did by itself: there is nothing in it for the model. */
static bool skip_item(struct kt_turn *turn, const json_t *item, const char *param, struct kt_problem *problem)
{
    (void)turn, (void)item, (void)param, (void)problem;
    return true;
}

static bool add_item(struct kt_turn *turn, const json_t *item, const char *param, struct kt_problem *problem)
{
    static const struct {
        const char *type;
        bool (*add)(struct kt_turn *turn, const json_t *item, const char *param, struct kt_problem *problem);
    } kinds[] = {{"message", add_message},
                 {"function_call", add_call},
                 {"function_call_output", add_output},
                 {"custom_tool_call", add_custom_call},
                 {"custom_tool_call_output", add_output},
                 {"local_shell_call", add_shell_call},
                 {"local_shell_call_output", add_output},
                 {"shell_call", add_shell_call},
                 {"shell_call_output", add_output},
                 {"apply_patch_call", add_shell_call},
                 {"apply_patch_call_output", add_output},
                 {"reasoning", add_reasoning},
                 {"web_search_call", skip_item},
                 {"file_search_call", skip_item},
                 {"code_interpreter_call", skip_item},
                 {"image_generation_call", skip_item},
                 {"tool_search_call", skip_item},
                 {"tool_search_output", skip_item},
                 {"mcp_list_tools", skip_item},
                 {"mcp_call", skip_item},
                 {"mcp_approval_request", skip_item},
                 {"mcp_approval_response", skip_item},
                 {"compaction", skip_item}};
    const json_t *type = json_object_get(item, "type");
    const char *name = type && !json_is_null(type) ? json_string_value(type) : "message";
    for (size_t i = 0; name && json_is_object(item) && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i].type) == 0)
            return kinds[i].add(turn, item, param, problem);
    return kt_problem_field(problem, param,
                            "'%s' must be a message, reasoning, a call of a tool or its output, not %.40s",
                            param, json_is_object(item) && name ? name : kt_fields_type(item));
}

static bool set_messages(json_t *chat, const json_t *body, const struct given *given,
                         struct kt_problem *problem)
{
    const json_t *input = json_object_get(body, "input"), *item;
    json_t *instructions = json_object_get(body, "instructions");
    struct kt_turn turn = {.messages = json_array()};
    char param[64];
    size_t i;
    bool done = (turn.messages && json_object_set_new(chat, "messages", turn.messages) == 0) ||
                kt_problem_memory(problem);
    if (done && given->instructions)
        done = kt_turn_begin(&turn, "system", problem) && kt_turn_text(&turn, instructions, problem);
    if (done && json_is_string(input))
        done = kt_turn_begin(&turn, "user", problem) && kt_turn_text(&turn, input, problem);
    else if (done && json_array_size(input) == 0)
        done = kt_problem_field(problem, "input", "'input' must be a string or an array of items");
    json_array_foreach (input, i, item) {
        (void)snprintf(param, sizeof(param), "input[%zu]", i);
        done = done && add_item(&turn, item, param, problem);
    }
    return kt_turn_end(&turn, problem) && done;
}

/* ---- tools ---- */

static bool add_function(json_t *tools, const json_t *tool, size_t at, struct kt_problem *problem)
{
    json_t *parameters = json_object_get(tool, "parameters");
    if (json_string_length(json_object_get(tool, "name")) == 0)
        return kt_problem_field(problem, "tools", "'tools[%zu].name' must be a name", at);
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        return kt_problem_field(problem, "tools", "'tools[%zu].parameters' must be an object", at);
    json_t *function = json_copy((json_t *)(uintptr_t)tool); /* only counts references in it */
    (void)json_object_del(function, "type");
    return json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function)) ==
               0 ||
           kt_problem_memory(problem);
}

/* Tools that OpenAI's servers run, such as web_search, are left out: clients like Codex offer them unasked.
 */
static bool set_tools(const struct kt_served *model, json_t *chat, const struct given *given,
                      struct kt_problem *problem)
{
    const json_t *tool;
    char param[32];
    size_t i;
    bool done = true;
    if (json_array_size(given->tools) == 0)
        return true;
    json_t *tools = json_array();
    if (!tools || json_object_set_new(chat, "tools", tools) != 0)
        return kt_problem_memory(problem);
    json_array_foreach (given->tools, i, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        (void)snprintf(param, sizeof(param), "tools[%zu]", i);
        if (!type)
            return kt_problem_field(problem, "tools", "'%s.type' is missing", param);
        if (strcmp(type, "function") == 0)
            done = done && add_function(tools, tool, i, problem);
        else if (strcmp(type, "custom") == 0)
            done = done && kt_custom_add_custom(model, chat, tools, tool, param, problem);
        else
            kt_ask_note(model, "a tool of type", type);
    }
    return done;
}

static bool set_choice(json_t *chat, json_t *choice, struct kt_problem *problem)
{
    const char *type = json_string_value(json_object_get(choice, "type"));
    json_t *name = json_object_get(choice, "name");
    if (!choice || json_is_null(choice))
        return true;
    if (json_is_string(choice))
        return json_object_set(chat, "tool_choice", choice) == 0 || kt_problem_memory(problem);
    if (type && strcmp(type, "allowed_tools") == 0)
        return kt_custom_allow(chat, choice, problem);
    if (!type || (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0) || !json_is_string(name))
        return kt_problem_field(problem, "tool_choice",
                                "'tool_choice' must be auto, none, required, allowed_tools, or a function or "
                                "custom tool with its name");
    return json_object_set_new(chat, "tool_choice",
                               json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name)) ==
               0 ||
           kt_problem_memory(problem);
}

/* ---- the rest ---- */

static bool set_format(json_t *chat, const struct given *given, struct kt_problem *problem)
{
    json_t *format = json_object_get(given->text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || json_is_null(format))
        return true;
    if (!type)
        return kt_problem_field(problem, "text.format", "'text.format' must be an object with a type");
    if (json_object_get(chat, "response_format"))
        return kt_problem_field(problem, "response_format",
                                "'response_format' and 'text.format' exclude each other");
    if (strcmp(type, "json_schema") != 0)
        return json_object_set(chat, "response_format", format) == 0 || kt_problem_memory(problem);
    json_t *schema = json_copy(format);
    (void)json_object_del(schema, "type");
    return json_object_set_new(chat, "response_format",
                               json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", schema)) == 0 ||
           kt_problem_memory(problem);
}

static bool set_reasoning(json_t *chat, const struct given *given, struct kt_problem *problem)
{
    json_t *effort = json_object_get(given->reasoning, "effort");
    bool is_none = json_is_string(effort) && strcmp(json_string_value(effort), "none") == 0;
    json_t *kwargs = given->kwargs ? json_copy(given->kwargs) : json_object();
    bool done = kwargs && json_object_set_new(chat, "chat_template_kwargs", kwargs) == 0;
    if (done && is_none && !json_object_get(kwargs, "enable_thinking"))
        done = json_object_set_new(kwargs, "enable_thinking", json_false()) == 0;
    else if (done && json_is_string(effort) && !is_none)
        done = json_object_set(chat, "reasoning_effort", effort) == 0;
    return done || kt_problem_memory(problem);
}

/* What a reply repeats of its request. */
static bool set_echo(json_t *chat, const json_t *body, struct kt_problem *problem)
{
    static const char *const names[] =
        {"instructions", "tools",    "tool_choice",       "parallel_tool_calls",
         "temperature",  "top_p",    "max_output_tokens", "metadata",
         "text",         "reasoning"};
    json_t *echo = json_pack("{s:n, s:[], s:s, s:b, s:n, s:n, s:n, s:{}, s:{s:{s:s}}, s:{s:n, s:n}, s:s, "
                             "s:b, s:b, s:n, s:n}",
                             "instructions", "tools", "tool_choice", "auto", "parallel_tool_calls", 1,
                             "temperature", "top_p", "max_output_tokens", "metadata", "text", "format",
                             "type", "text", "reasoning", "effort", "summary", "truncation", "disabled",
                             "store", 0, "background", 0, "previous_response_id", "error");
    bool done = echo && json_object_set_new(chat, KT_ECHO, echo) == 0;
    for (size_t i = 0; done && i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *value = json_object_get(body, names[i]);
        done = !value || json_is_null(value) || json_object_set(echo, names[i], value) == 0;
    }
    return done || kt_problem_memory(problem);
}

/* NULL after a problem. */
static json_t *make_chat(const struct kt_served *model, const json_t *body, const struct given *given,
                         struct kt_problem *problem)
{
    json_t *chat = json_object(), *most = json_object_get(body, "max_output_tokens");
    bool done = chat && (given->max_output_tokens == 0 || json_object_set(chat, "max_tokens", most) == 0);
    for (size_t i = 0; done && i < sizeof(same) / sizeof(same[0]); i++) {
        json_t *value = json_object_get(body, same[i]);
        done = !value || json_object_set(chat, same[i], value) == 0;
    }
    done = done && kt_wish_copy(body, chat);
    done = (done || kt_problem_memory(problem)) && set_messages(chat, body, given, problem) &&
           set_tools(model, chat, given, problem) &&
           set_choice(chat, json_object_get(body, "tool_choice"), problem) &&
           set_format(chat, given, problem) && set_reasoning(chat, given, problem) &&
           set_echo(chat, body, problem);
    if (done)
        return chat;
    json_decref(chat);
    return NULL;
}

json_t *kt_responses_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    struct given given = {.tools = NULL};
    json_t *chat = NULL;
    if (kt_fields_read(body, fields, &given, problem) && check_state(body, problem) &&
        check_given(&given, problem))
        chat = make_chat(model, body, &given, problem);
    json_decref(body);
    return chat;
}

bool kt_answer_input_tokens(struct kt_exchange *exchange)
{
    return kt_job_count(exchange, &kt_dialect_responses, "response.input_tokens");
}

const struct kt_field *const kt_responses_table = fields;
