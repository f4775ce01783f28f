/* SPDX-License-Identifier: Apache-2.0 */
/* custom.c - tools that are no functions: a custom one takes any text, and becomes a function with that text
 * as its only argument; and tool_choice with a list of tools. */
#include "tools/engine/base/dump.h"
#include "tools/engine/base/load.h"
#include "tools/engine/serve/ask.h"
#include "tools/engine/serve/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- custom tools ---- */

/* A grammar is told to the model, and not enforced: that is said in the log. */
static json_t *describe(const struct kt_served *model, const json_t *custom)
{
    const char *about = json_string_value(json_object_get(custom, "description"));
    const json_t *format = json_object_get(custom, "format"), *grammar = json_object_get(format, "grammar");
    grammar = grammar ? grammar : format;
    const char *syntax = json_string_value(json_object_get(grammar, "syntax"));
    const char *definition = json_string_value(json_object_get(grammar, "definition"));
    about = about ? about : "";
    if (!syntax || !definition)
        return json_string(about);
    kt_ask_note(model, "a custom tool with a grammar of the syntax", syntax);
    return json_sprintf("%s\nThe input must follow this grammar (%s):\n%s", about, syntax, definition);
}

bool kt_custom_add_custom(const struct kt_served *model, json_t *chat, json_t *tools, const json_t *custom,
                          const char *param, struct kt_problem *problem)
{
    json_t *name = json_object_get(custom, "name"), *known = json_object_get(chat, KT_CUSTOM);
    if (json_string_length(name) == 0 || strlen(json_string_value(name)) != json_string_length(name))
        return kt_problem_field(problem, "tools", "'%s.name' must be a name", param);
    if (!known && json_object_set_new(chat, KT_CUSTOM, known = json_object()) != 0)
        return kt_problem_memory(problem);
    json_t *tool =
        json_pack("{s:s, s:{s:O, s:o, s:{s:s, s:{s:{s:s}}, s:[s], s:b}}}", "type", "function", "function",
                  "name", name, "description", describe(model, custom), "parameters", "type", "object",
                  "properties", "input", "type", "string", "required", "input", "additionalProperties", 0);
    return (json_array_append_new(tools, tool) == 0 &&
            json_object_set_new(known, json_string_value(name), json_true()) == 0) ||
           kt_problem_memory(problem);
}

json_t *kt_custom_arguments(json_t *input)
{
    json_t *object = json_pack("{s:O}", "input", input);
    char *text = object ? kt_json_dump(object, JSON_COMPACT) : NULL;
    json_t *arguments = text ? json_string(text) : NULL;
    json_decref(object);
    free(text);
    return arguments;
}

bool kt_custom_is_custom(const struct kt_job *job, const struct kt_block *block)
{
    const json_t *known = json_object_get(job->ask.body, KT_CUSTOM);
    return known && block->kind == KT_PIECE_CALL &&
           json_object_getn(known, block->name.data, block->name.length);
}

json_t *kt_custom_input(const struct kt_buffer *arguments)
{
    json_error_t where;
    json_t *object = arguments->length > 0
                         ? kt_json_load(arguments->data, arguments->length, JSON_ALLOW_NUL, NULL, &where)
                         : NULL;
    json_t *input = json_object_get(object, "input");
    input = json_is_string(input) ? json_incref(input) : kt_shape_text(arguments); /* cut off: as it stands */
    json_decref(object);
    return input;
}

/* ---- tool_choice: allowed_tools ---- */

static const char *name_of(const json_t *tool)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *of = type ? json_object_get(tool, type) : NULL;
    return json_string_value(json_object_get(of ? of : tool, "name"));
}

static bool has_name(const json_t *tools, const char *name)
{
    const json_t *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        const char *other = name_of(tool);
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

bool kt_custom_allow(json_t *chat, const json_t *choice, struct kt_problem *problem)
{
    json_t *mode = json_object_get(choice, "mode"), *tools = json_object_get(chat, "tools");
    const json_t *allowed = json_object_get(choice, "tools"), *tool;
    const char *word = json_string_value(mode);
    size_t i;
    if (!word || (strcmp(word, "auto") != 0 && strcmp(word, "required") != 0) || !json_is_array(allowed))
        return kt_problem_field(
            problem, "tool_choice",
            "'tool_choice' of type allowed_tools needs a mode, auto or required, and tools");
    json_array_foreach (allowed, i, tool) {
        const char *name = name_of(tool);
        if (name && !has_name(tools, name))
            return kt_problem_field(problem, "tool_choice",
                                    "'tool_choice' allows '%.64s', which is none of the 'tools'", name);
    }
    for (i = json_array_size(tools); i-- > 0;) {
        const char *name = name_of(json_array_get(tools, i));
        if (!name || !has_name(allowed, name))
            (void)json_array_remove(tools, i);
    }
    return (json_object_set(chat, "tool_choice", mode) == 0 &&
            json_object_set_new(chat, KT_LIMITED, json_true()) == 0) ||
           kt_problem_memory(problem);
}

/* ---- chats ---- */

static bool read_tools(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    json_t *given = json_object_get(body, "tools"), *tools = json_array(), *tool;
    char param[48];
    size_t i;
    bool done = tools != NULL || kt_problem_memory(problem);
    json_array_foreach (given, i, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        (void)snprintf(param, sizeof(param), "tools[%zu].custom", i);
        if (done && type && strcmp(type, "custom") == 0)
            done = kt_custom_add_custom(model, body, tools, json_object_get(tool, "custom"), param, problem);
        else
            done = done && (json_array_append(tools, tool) == 0 || kt_problem_memory(problem));
    }
    done = done && (!json_is_array(given) || json_object_set(body, "tools", tools) == 0 ||
                    kt_problem_memory(problem));
    json_decref(tools);
    return done;
}

static bool read_choice(json_t *body, struct kt_problem *problem)
{
    json_t *choice = json_object_get(body, "tool_choice");
    const char *type = json_string_value(json_object_get(choice, "type"));
    json_t *name = json_object_get(json_object_get(choice, "custom"), "name");
    if (type && strcmp(type, "allowed_tools") == 0)
        return kt_custom_allow(body, json_object_get(choice, "allowed_tools"), problem);
    return !type || strcmp(type, "custom") != 0 || !json_is_string(name) ||
           json_object_set_new(body, "tool_choice",
                               json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name)) ==
               0 ||
           kt_problem_memory(problem);
}

/* Calls of custom tools that are sent back. */
static bool read_calls(json_t *message, struct kt_problem *problem)
{
    json_t *call;
    size_t i;
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        json_t *custom = json_object_get(call, "custom"), *input = json_object_get(custom, "input");
        json_t *name = json_object_get(custom, "name");
        if (!json_is_string(name) || !json_is_string(input) || json_object_get(call, "function"))
            continue;
        json_t *function = json_pack("{s:O, s:o}", "name", name, "arguments", kt_custom_arguments(input));
        if (json_object_set_new(call, "function", function) != 0 ||
            json_object_set_new(call, "type", json_string("function")) != 0 ||
            json_object_del(call, "custom") != 0)
            return kt_problem_memory(problem);
    }
    return true;
}

json_t *kt_custom_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem)
{
    static const char *const own[] = {KT_ECHO, KT_CUSTOM, KT_LIMITED};
    json_t *message;
    size_t i;
    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        (void)json_object_del(body, own[i]); /* a client has no say in these */
    bool done = read_tools(model, body, problem) && read_choice(body, problem);
    json_array_foreach (json_object_get(body, "messages"), i, message) {
        done = done && read_calls(message, problem);
    }
    if (done)
        return body;
    json_decref(body);
    return NULL;
}
