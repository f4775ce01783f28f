/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - the messages of a chat, as the model's template takes them. */
#define _GNU_SOURCE

#include "tools/engine/serve/dialect.h"
#include "tools/engine/text/template/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a body says of its chat; texts and values are the body's. */
struct chat {
    json_t *messages, *tools, *kwargs, *response_format;
    const char *reasoning_effort;
    bool add_generation_prompt, continue_final_message;
    char mark[48]; /* where the final message ends, which is to be continued */
};

static const struct kt_field fields[] =
    {{"messages", KT_FIELD_LIST, offsetof(struct chat, messages), 0, 0},
     {"tools", KT_FIELD_LIST, offsetof(struct chat, tools), 0, 0},
     {"chat_template_kwargs", KT_FIELD_OBJECT, offsetof(struct chat, kwargs), 0, 0},
     {"response_format", KT_FIELD_OBJECT, offsetof(struct chat, response_format), 0, 0},
     {"reasoning_effort", KT_FIELD_TEXT, offsetof(struct chat, reasoning_effort), 0, 0},
     {"add_generation_prompt", KT_FIELD_BOOL, offsetof(struct chat, add_generation_prompt), 0, 0},
     {"continue_final_message", KT_FIELD_BOOL, offsetof(struct chat, continue_final_message), 0, 0},
     {.name = NULL}};

/* ---- messages ---- */

/* The text of a part; what a model refused to say is text, too. */
static const json_t *text_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    bool is_refusal = type && strcmp(type, "refusal") == 0;
    const json_t *words = json_object_get(part, is_refusal ? "refusal" : "text");
    return json_is_string(words) && type && (is_refusal || strstr(type, "text")) ? words : NULL;
}

/* The texts of a list of parts, joined by newlines; NULL after a problem. */
static json_t *join_parts(const json_t *parts, const char *param, struct kt_problem *problem)
{
    struct kt_buffer text = {.data = NULL};
    const json_t *part;
    size_t i;
    bool done = true;
    json_array_foreach (parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = text_of(part);
        if (!words) {
            kt_buffer_free(&text);
            kt_problem_field(problem, param,
                             "part %zu of '%s' is no {\"type\": \"text\", \"text\": ..}: %.40s%s", i, param,
                             type ? type : "it has no type",
                             type && !strstr(type, "text") ? " is not supported" : "");
            return NULL;
        }
        done = done && (i == 0 || kt_buffer_add(&text, "\n", 1)) &&
               kt_buffer_add(&text, json_string_value(words), json_string_length(words));
    }
    json_t *joined = done ? json_stringn(text.data ? text.data : "", text.length) : NULL;
    kt_buffer_free(&text);
    if (!joined)
        kt_problem_memory(problem);
    return joined;
}

json_t *kt_chat_text(json_t *content, const char *param, struct kt_problem *problem)
{
    if (json_is_array(content))
        return join_parts(content, param, problem);
    if (!json_is_string(content))
        kt_problem_field(problem, param, "'%s' must be a string or an array of parts, not %s", param,
                         content ? kt_fields_type(content) : "missing");
    return json_is_string(content) ? json_incref(content) : NULL;
}

/* Do all parts have the form that templates know? */
static bool are_plain(const json_t *parts)
{
    const json_t *part;
    size_t i;
    json_array_foreach (parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || strcmp(type, "text") != 0)
            return false;
    }
    return json_array_size(parts) > 0;
}

/* Sets the content of a copied message: a text, or parts of texts. */
static bool set_content(json_t *message, const char *param, struct kt_problem *problem)
{
    const json_t *content = json_object_get(message, "content");
    json_t *refusal = json_object_get(message, "refusal");
    if (json_is_string(content))
        return true;
    if (!content || json_is_null(content)) {
        json_t *none = json_is_string(refusal) ? json_incref(refusal) : json_string("");
        return json_object_set_new(message, "content", none) == 0 || kt_problem_memory(problem);
    }
    if (!json_is_array(content))
        return kt_problem_field(problem, param, "'%s' must be a string, an array of parts or null, not %s",
                                param, kt_fields_type(content));
    json_t *joined = join_parts(content, param, problem);
    if (!joined || are_plain(content)) {
        json_decref(joined);
        return joined != NULL;
    }
    return json_object_set_new(message, "content", joined) == 0 || kt_problem_memory(problem);
}

/* Whatever the arguments are: kt_mend_arguments. */
static bool check_call(const json_t *call, const char *param, size_t i, struct kt_problem *problem)
{
    const json_t *function = json_object_get(call, "function"), *custom = json_object_get(call, "custom");
    bool has_input = !custom || json_is_string(json_object_get(custom, "input"));
    return (has_input && json_is_string(json_object_get(custom ? custom : function, "name"))) ||
           kt_problem_field(problem, param,
                            "'%s[%zu]' needs a function with a name and arguments as JSON text", param, i);
}

static bool check_calls(const json_t *message, size_t at, struct kt_problem *problem)
{
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    const json_t *old = json_object_get(message, "function_call");
    char param[64];
    size_t i;
    (void)snprintf(param, sizeof(param), "messages[%zu].tool_calls", at);
    if (calls && !json_is_null(calls) && !json_is_array(calls))
        return kt_problem_field(problem, param, "'%s' must be an array, not %s", param,
                                kt_fields_type(calls));
    json_array_foreach (calls, i, call) {
        if (!check_call(call, param, i, problem))
            return false;
    }
    return !old || json_is_null(old) || json_is_string(json_object_get(old, "name")) ||
           kt_problem_field(problem, "messages", "'messages[%zu].function_call' needs a name", at);
}

/* What is null is not there: some templates only ask whether a name is. */
static void drop_nulls(json_t *message)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe (message, next, name, value) {
        if (json_is_null(value) && strcmp(name, "content") != 0)
            (void)json_object_del(message, name);
    }
}

/* A copy of a message that is fit for templates. */
static bool add_message(json_t *messages, const json_t *given, size_t at, struct kt_problem *problem)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
    char param[48];
    bool is_known = false;
    (void)snprintf(param, sizeof(param), "messages[%zu].role", at);
    const char *role = json_string_value(json_object_get(given, "role"));
    for (size_t i = 0; role && i < sizeof(roles) / sizeof(roles[0]); i++)
        is_known |= strcmp(role, roles[i]) == 0;
    if (!is_known)
        return kt_problem_field(problem, param, "'%s' must be system, developer, user, assistant or tool",
                                param);
    if (!check_calls(given, at, problem))
        return false;
    json_t *message = json_copy((json_t *)(uintptr_t)given); /* only counts references in it */
    if (!message || json_array_append_new(messages, message) != 0)
        return kt_problem_memory(problem);
    drop_nulls(message);
    if (strcmp(role, "developer") == 0 && json_object_set_new(message, "role", json_string("system")) != 0)
        return kt_problem_memory(problem);
    (void)snprintf(param, sizeof(param), "messages[%zu].content", at);
    return set_content(message, param, problem);
}

/* Puts the mark behind the message that the answer is to continue with. */
static bool mark_final(const struct chat *chat, json_t *messages, struct kt_problem *problem)
{
    json_t *final = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(final, "role"));
    json_t *content = json_object_get(final, "content");
    if (strcmp(role, "assistant") != 0 || json_array_size(json_object_get(final, "tool_calls")) > 0)
        return kt_problem_field(
            problem, "continue_final_message",
            "'continue_final_message' needs a text of the assistant's as the last message");
    json_t *text = kt_chat_text(content, "messages", problem);
    if (!text)
        return false;
    struct kt_buffer both = {.data = NULL};
    bool done = kt_buffer_add(&both, json_string_value(text), json_string_length(text)) &&
                kt_buffer_add_text(&both, chat->mark);
    json_t *marked = done ? json_stringn(both.data, both.length) : NULL;
    kt_buffer_free(&both);
    json_decref(text);
    return json_object_set_new(final, "content", marked) == 0 || kt_problem_memory(problem);
}

/* The messages for the template, with the server's own system message before them. NULL after a problem. */
static json_t *make_messages(const struct kt_served *model, const struct chat *chat, const json_t *tools,
                             struct kt_problem *problem)
{
    json_t *messages = json_array(), *given = chat->messages;
    const json_t *message;
    size_t i;
    bool done = messages != NULL || kt_problem_memory(problem);
    const char *first = json_string_value(json_object_get(json_array_get(given, 0), "role"));
    if (done && model->system && first && strcmp(first, "system") != 0 && strcmp(first, "developer") != 0)
        done = json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content",
                                                         model->system)) == 0 ||
               kt_problem_memory(problem);
    json_array_foreach (given, i, message) {
        done = done && add_message(messages, message, i, problem);
    }
    if (done && (!chat->continue_final_message || mark_final(chat, messages, problem))) {
        messages = kt_history_fit(&model->chat_needs, messages, tools);
        if (!messages)
            kt_problem_memory(problem);
        return messages;
    }
    json_decref(messages);
    return NULL;
}

/* ---- tools ---- */

/* Older names of `tools`: if they were ignored, the client would wait for calls that never come. */
static bool check_functions(const json_t *body, struct kt_problem *problem)
{
    static const char *const names[] = {"functions", "function_call"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *value = json_object_get(body, names[i]);
        if (value && !json_is_null(value))
            return kt_problem_field(problem, names[i], "'%s' is not supported; use 'tools' and 'tool_choice'",
                                    names[i]);
    }
    return true;
}

static bool check_tools(const json_t *tools, struct kt_problem *problem)
{
    const json_t *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        const char *type = json_string_value(json_object_get(tool, "type"));
        const json_t *function = json_object_get(tool, "function"), *parameters;
        if (!type || strcmp(type, "function") != 0)
            return kt_problem_field(problem, "tools", "'tools[%zu].type' must be function", i);
        const char *name = json_string_value(json_object_get(function, "name"));
        if (!name || !*name)
            return kt_problem_field(problem, "tools", "'tools[%zu].function.name' must be a name", i);
        parameters = json_object_get(function, "parameters");
        if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
            return kt_problem_field(problem, "tools",
                                    "'tools[%zu].function.parameters' must be an object, not %s", i,
                                    kt_fields_type(parameters));
    }
    return true;
}

/* The tools that the model may call, borrowed; *tools is NULL where there are none. */
static bool choose_tools(const json_t *body, json_t *given, json_t **tools, struct kt_problem *problem)
{
    const json_t *choice = json_object_get(body, "tool_choice");
    const char *word = json_string_value(choice);
    *tools = json_array_size(given) > 0 ? given : NULL;
    if (!check_functions(body, problem))
        return false;
    if (!choice || json_is_null(choice))
        return check_tools(given, problem);
    if (word && strcmp(word, "none") == 0) {
        *tools = NULL;
        return check_tools(given, problem);
    }
    if (word && strcmp(word, "auto") == 0)
        return check_tools(given, problem);
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (!name && !(word && strcmp(word, "required") == 0))
        return kt_problem_field(problem, "tool_choice",
                                "'tool_choice' must be auto, none, required, or a function with its name");
    if (!*tools)
        return kt_problem_field(problem, "tool_choice",
                                "'tool_choice' wants a call, and there are no 'tools'");
    return check_tools(given, problem);
}

/* ---- rendering ---- */

static bool read_chat(const json_t *body, struct chat *chat, struct kt_problem *problem)
{
    *chat = (struct chat){.add_generation_prompt = true};
    if (!kt_fields_read(body, fields, chat, problem))
        return false;
    if (json_array_size(chat->messages) == 0)
        return kt_problem_field(problem, "messages", "'messages' must hold at least one message");
    if (chat->continue_final_message && json_is_true(json_object_get(body, "add_generation_prompt")))
        return kt_problem_field(problem, "continue_final_message",
                                "'continue_final_message' and 'add_generation_prompt' exclude each other");
    if (chat->continue_final_message) {
        chat->add_generation_prompt = false;
        kt_make_id("kt-end-", chat->mark, sizeof(chat->mark));
    }
    return true;
}

/* Variables of the request's own. Names that end in _token are the model's: templates print these as control
 * tokens, which no text of a request may become. */
static bool add_kwargs(json_t *variables, json_t *kwargs)
{
    const char *name;
    json_t *value;
    bool done = true;
    json_object_foreach (kwargs, name, value) {
        size_t length = strlen(name);
        if (length < 6 || strcmp(name + length - 6, "_token") != 0)
            done = done && json_object_set(variables, name, value) == 0;
    }
    return done;
}

/* All that the template may ask for. NULL after a problem. */
static json_t *make_variables(const struct kt_served *model, const struct chat *chat, json_t *tools,
                              struct kt_problem *problem)
{
    bool has_place = !model->chat_needs.no_tools;
    json_t *messages = make_messages(model, chat, has_place ? NULL : tools, problem), *fitted = NULL;
    if (!messages)
        return NULL;
    json_t *variables = json_object();
    bool done = variables && add_kwargs(variables, chat->kwargs);
    if (tools && has_place)
        done = done && (fitted = kt_history_tools(&model->chat_needs, tools)) != NULL;
    if (!done || json_object_set(variables, "messages", messages) != 0 ||
        json_object_set_new(variables, "add_generation_prompt", json_boolean(chat->add_generation_prompt)) !=
            0 ||
        (fitted && json_object_set(variables, "tools", fitted) != 0) ||
        (chat->reasoning_effort &&
         json_object_set_new(variables, "reasoning_effort", json_string(chat->reasoning_effort)) != 0) ||
        !kt_chat_add_tokens(model->tokenizer, variables)) {
        json_decref(variables);
        variables = NULL;
        kt_problem_memory(problem);
    }
    json_decref(fitted);
    json_decref(messages);
    return variables;
}

/* With the place in the template, but without the folder of this machine where that stands. */
static bool refuse(const struct kt_served *model, struct kt_error *error, struct kt_problem *problem)
{
    const char *file = model->chat_file ? model->chat_file : "", *last = strrchr(file, '/');
    size_t length = strnlen(file, 200); /* no message has more of it */
    if (last && strncmp(error->message, file, length) == 0 && error->message[length] == ':') {
        size_t folder = (size_t)(last - file) + 1;
        folder = folder < length ? folder : length;
        memmove(error->message, error->message + folder, strlen(error->message + folder) + 1);
    }
    return kt_problem_error(problem, 400, error);
}

static bool render(struct kt_served *model, const struct chat *chat, json_t *tools,
                   struct kt_rendering **rendering, struct kt_problem *problem)
{
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_error error;
    if (!model->chat)
        return kt_problem_set(
            problem, 400, "no_chat_template", NULL,
            "the model has no chat template; the server's option --chat-template gives it one");
    json_t *variables = make_variables(model, chat, tools, problem);
    if (!variables)
        return false;
    enum kt_status status = kt_template_render_values(model->chat, variables, &params, rendering, &error);
    json_decref(variables);
    /* Whatever a template refuses, it refuses this request. */
    return status == KT_OK || refuse(model, &error, problem);
}

/* Cuts the prompt where its mark is. */
static bool cut_prompt(const struct chat *chat, struct kt_chat_prompt *prompt, struct kt_problem *problem)
{
    size_t length = strlen(chat->mark);
    const char *found = NULL, *from = prompt->text, *at;
    while ((at = memmem(from, prompt->length - (size_t)(from - prompt->text), chat->mark, length)) != NULL) {
        found = at;
        from = at + length;
    }
    if (!found)
        return kt_problem_field(problem, "continue_final_message",
                                "'continue_final_message': the model's template leaves the last message out");
    prompt->length = (uint64_t)(found - prompt->text);
    uint64_t left = prompt->length, n = 0;
    for (; n < prompt->n_parts && left > 0; n++) {
        struct kt_text_part *part = &prompt->parts[n];
        part->length = part->length < left ? part->length : left;
        left -= part->length;
    }
    prompt->n_parts = n;
    return true;
}

void kt_chat_prompt_free(struct kt_chat_prompt *prompt)
{
    kt_rendering_destroy(prompt->rendering);
    free(prompt->parts);
}

static bool make_prompt(struct kt_served *model, const struct chat *chat, json_t *tools,
                        struct kt_chat_prompt *prompt, struct kt_problem *problem)
{
    *prompt = (struct kt_chat_prompt){.rendering = NULL};
    if (!render(model, chat, tools, &prompt->rendering, problem))
        return false;
    const struct kt_text_part *parts = kt_rendering_parts(prompt->rendering, &prompt->n_parts);
    prompt->text = kt_rendering_text(prompt->rendering, &prompt->length);
    prompt->parts = malloc((prompt->n_parts + 1) * sizeof(*parts));
    bool done = prompt->parts != NULL || kt_problem_memory(problem);
    if (done && prompt->n_parts > 0)
        memcpy(prompt->parts, parts, prompt->n_parts * sizeof(*parts));
    if (done && (!*chat->mark || cut_prompt(chat, prompt, problem)))
        return true;
    kt_chat_prompt_free(prompt);
    return false;
}

bool kt_chat_render(struct kt_served *model, const json_t *body, struct kt_chat_prompt *prompt,
                    struct kt_problem *problem)
{
    struct chat chat;
    json_t *tools;
    return read_chat(body, &chat, problem) && choose_tools(body, chat.tools, &tools, problem) &&
           make_prompt(model, &chat, tools, prompt, problem);
}

bool kt_ask_read_chat(struct kt_served *model, struct kt_ask *ask, struct kt_problem *problem)
{
    struct kt_chat_prompt prompt;
    struct kt_error error;
    struct chat chat;
    json_t *tools;
    if (!read_chat(ask->body, &chat, problem) || !choose_tools(ask->body, chat.tools, &tools, problem) ||
        !make_prompt(model, &chat, tools, &prompt, problem))
        return false;
    ask->parser = (struct kt_parser_params)KT_PARSER_PARAMS_INIT;
    ask->parser.format = tools && model->chat_needs.no_tools && !model->chat_needs.own_calls
                             ? KT_OUTPUT_HERMES /* kt_history_about_tools tells the model so */
                             : kt_chat_format(model->chat_info.format, tools != NULL);
    ask->thought = kt_chat_thought(prompt.text, prompt.length);
    ask->parser.starts_reasoning = ask->thought == KT_THOUGHT_BEGUN;
    const struct kt_wished_form form = {json_object_get(ask->body, "tool_choice"), tools,
                                        chat.continue_final_message};
    ask->tools = json_incref(tools);
    ask->prompts = calloc(1, sizeof(*ask->prompts));
    bool done = ask->prompts || kt_problem_memory(problem);
    done = done && kt_ask_read_form(model, ask, &form, problem);
    if (done) {
        ask->n_prompts = 1;
        done = kt_tokenizer_encode(model->tokenizer, prompt.parts, prompt.n_parts, KT_ENCODE_BOS,
                                   &ask->prompts->ids, &ask->prompts->n_ids, &error) == KT_OK ||
               kt_problem_error(problem, 400, &error);
    }
    kt_chat_prompt_free(&prompt);
    return done && (ask->prompts->n_ids > 0 ||
                    kt_problem_field(problem, "messages", "the template made no text of these messages"));
}

const struct kt_field *const kt_chat_table = fields;
