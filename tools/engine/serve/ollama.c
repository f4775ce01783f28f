/* SPDX-License-Identifier: Apache-2.0 */
/* ollama.c - Ollama's API: what its clients ask for, as a chat or a completion, and answers as lines of JSON.
 */
#include "tools/engine/base/load.h"
#include "tools/engine/serve/dialect.h"
#include "tools/engine/serve/native.h"
#include "tools/engine/serve/wish.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The version of Ollama whose API this is: clients ask whether it is new enough for them. */
#define SPOKEN "0.12.0"

json_t *kt_ollama_problem(const struct kt_problem *problem)
{
    return json_pack("{s:o}", "error", kt_json_text(problem->message, strlen(problem->message)));
}

/* ---- what is asked for ---- */

struct given {
    json_t *messages, *options, *tools, *images, *context;
    const char *model, *prompt, *system, *suffix, *template;
    bool stream, raw, logprobs;
};

#define FIELD(name, type)                               \
    {                                                   \
#name, type, offsetof(struct given, name), 0, 0 \
    }
static const struct kt_field fields[] = {FIELD(messages, KT_FIELD_LIST), FIELD(options, KT_FIELD_OBJECT),
                                         FIELD(tools, KT_FIELD_LIST),    FIELD(images, KT_FIELD_LIST),
                                         FIELD(context, KT_FIELD_LIST),  FIELD(model, KT_FIELD_TEXT),
                                         FIELD(prompt, KT_FIELD_TEXT),   FIELD(system, KT_FIELD_TEXT),
                                         FIELD(suffix, KT_FIELD_TEXT),   FIELD(template, KT_FIELD_TEXT),
                                         FIELD(stream, KT_FIELD_BOOL),   FIELD(raw, KT_FIELD_BOOL),
                                         FIELD(logprobs, KT_FIELD_BOOL), {.name = NULL}};

/* "name:latest" is that name, too: NULL, or the name. */
static const char *choose_model(struct kt_exchange *exchange, const char *given)
{
    static const char latest[] = ":latest";
    const struct kt_models *models = &exchange->server->models;
    size_t length = strlen(given), n = sizeof(latest) - 1;
    bool has_tag = length > n && strcmp(given + length - n, latest) == 0;
    const char *name = kt_models_find(models, given, length, &exchange->model);
    return name || !has_tag ? name : kt_models_find(models, given, length - n, &exchange->model);
}

const char *kt_ollama_model(struct kt_exchange *exchange, const char *given, struct kt_problem *problem)
{
    const char *name = given ? choose_model(exchange, given) : NULL;
    if (!given)
        (void)kt_problem_field(problem, "model", "'model' is missing");
    else if (!name)
        (void)kt_problem_set(problem, 404, "model_not_found", "model", "model '%.100s' not found", given);
    return name;
}

static bool check_given(struct kt_exchange *exchange, struct given *given, struct kt_problem *problem)
{
    given->model = kt_ollama_model(exchange, given->model, problem);
    if (!given->model)
        return false;
    if (json_array_size(given->images) > 0)
        return kt_problem_field(problem, "images", "'images' are not supported");
    if (json_array_size(given->context) > 0)
        return kt_problem_field(problem, "context", "'context' is not supported; /api/chat takes messages");
    if (given->template && *given->template)
        return kt_problem_field(problem, "template",
                                "'template' is not supported; 'raw' takes a whole prompt");
    return !given->logprobs ||
           kt_problem_field(problem, "logprobs", "'logprobs' is not supported; /v1/completions has it");
}

static const struct kt_name names[] = {{"num_predict", "max_tokens"},
                                       {"repeat_penalty", "repetition_penalty"},
                                       {"temperature", "temperature"},
                                       {"top_k", "top_k"},
                                       {"top_p", "top_p"},
                                       {"min_p", "min_p"},
                                       {"typical_p", "typical_p"},
                                       {"seed", "seed"},
                                       {"stop", "stop"},
                                       {"presence_penalty", "presence_penalty"},
                                       {"frequency_penalty", "frequency_penalty"},
                                       {"repeat_last_n", "repeat_last_n"},
                                       {NULL, NULL}};

/* Options about memory and speed are the server's; of those that would change the answer none is ignored. */
static bool set_options(json_t *to, json_t *options, struct kt_problem *problem)
{
    const json_t *mirostat = json_object_get(options, "mirostat");
    if (json_number_value(mirostat) != 0)
        return kt_problem_field(problem, "options", "'options.mirostat' is not supported");
    if (!kt_native_rename(to, options, names, problem))
        return false;
    if (json_integer_value(json_object_get(to, "max_tokens")) == -2) /* until the context is full, as -1 */
        (void)json_object_set_new(to, "max_tokens", json_integer(-1));
    return true;
}

/* "json", or a schema. */
static bool set_format(json_t *to, json_t *format, struct kt_problem *problem)
{
    json_t *made = NULL;
    const char *word = json_string_value(format);
    if (!format || json_is_null(format) || (word && !*word))
        return true;
    if (word && strcmp(word, "json") == 0)
        made = json_pack("{s:s}", "type", "json_object");
    else if (json_is_object(format))
        made = json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name", "format",
                         "schema", format);
    else
        return kt_problem_field(problem, "format", "'format' must be \"json\" or a schema, not %s",
                                kt_fields_type(format));
    return json_object_set_new(to, "response_format", made) == 0 || kt_problem_memory(problem);
}

/* true, false, or how much. */
static bool set_think(json_t *to, json_t *think, struct kt_problem *problem)
{
    bool is_on = json_is_true(think);
    if (!think || json_is_null(think))
        return true;
    if (json_is_string(think))
        return json_object_set(to, "reasoning_effort", think) == 0 || kt_problem_memory(problem);
    if (!json_is_boolean(think))
        return kt_problem_field(problem, "think", "'think' must be a boolean or a string, not %s",
                                kt_fields_type(think));
    return json_object_set_new(to, "chat_template_kwargs",
                               json_pack("{s:b, s:b}", "enable_thinking", is_on, "thinking", is_on)) == 0 ||
           kt_problem_memory(problem);
}

static bool set_message(json_t *messages, json_t *given, size_t at, struct kt_problem *problem)
{
    json_t *thinking = json_object_get(given, "thinking"), *message, *call;
    size_t i;
    if (json_array_size(json_object_get(given, "images")) > 0)
        return kt_problem_field(problem, "images", "'messages[%zu].images' are not supported", at);
    message = json_is_object(given) ? json_copy(given) : json_incref(given);
    if (json_is_string(thinking) && (json_object_set(message, "reasoning_content", thinking) != 0 ||
                                     json_object_del(message, "thinking") != 0)) {
        json_decref(message);
        return kt_problem_memory(problem);
    }
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        if (json_is_object(call) && !json_object_get(call, "type"))
            (void)json_object_set_new(call, "type", json_string("function"));
    }
    return json_array_append_new(messages, message) == 0 || kt_problem_memory(problem);
}

static bool set_messages(json_t *to, const struct given *given, struct kt_problem *problem)
{
    json_t *messages = json_array(), *message;
    size_t i;
    bool done =
        (messages && json_object_set_new(to, "messages", messages) == 0) || kt_problem_memory(problem);
    if (done && given->system && *given->system)
        done = json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content",
                                                         given->system)) == 0 ||
               kt_problem_memory(problem);
    if (done && given->prompt)
        done = json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content",
                                                         given->prompt)) == 0 ||
               kt_problem_memory(problem);
    json_array_foreach (given->prompt ? NULL : given->messages, i, message) {
        done = done && set_message(messages, message, i, problem);
    }
    return done;
}

/* NULL after a problem. */
static json_t *make_body(const struct kt_served *model, const json_t *body, const struct given *given,
                         bool is_chat, struct kt_problem *problem)
{
    json_t *to =
        json_pack("{s:s, s:b, s:i}", "model", given->model, "stream", given->stream, "max_tokens", -1);
    bool done = to != NULL || kt_problem_memory(problem);
    done = done && (!given->options || set_options(to, given->options, problem)) &&
           (kt_wish_copy(body, to) || kt_problem_memory(problem)) &&
           set_format(to, json_object_get(body, "format"), problem);
    if (done && is_chat)
        done =
            set_think(to, json_object_get(body, "think"), problem) && set_messages(to, given, problem) &&
            (!given->tools || json_object_set(to, "tools", given->tools) == 0 || kt_problem_memory(problem));
    else if (done && given->suffix && *given->suffix)
        done = kt_native_infill(model, to,
                                &(struct kt_gap){.prefix = given->prompt ? given->prompt : "",
                                                 .more = "",
                                                 .suffix = given->suffix,
                                                 .param = "suffix"},
                                problem);
    else if (done)
        done = json_object_set_new(to, "prompt", json_string(given->prompt ? given->prompt : "")) == 0 ||
               kt_problem_memory(problem);
    if (done)
        return to;
    json_decref(to);
    return NULL;
}

/* ---- answers ---- */

static json_t *make_object(const char *model)
{
    char now[40];
    return json_pack("{s:o, s:s}", "model", kt_json_text(model, strlen(model)), "created_at",
                     kt_native_time(time(NULL), now));
}

static const struct kt_dialect of_chats;

/* A part of an answer under the name that the path has for it; takes the references, NULL: nothing of it. */
static json_t *make_part(const struct kt_job *job, json_t *text, json_t *thinking, json_t *calls)
{
    json_t *object = make_object(job->ask.model), *part = object;
    bool is_chat = job->ask.dialect == &of_chats;
    if (is_chat)
        (void)json_object_set_new(object, "message", part = json_pack("{s:s}", "role", "assistant"));
    (void)json_object_set_new(part, is_chat ? "content" : "response", text ? text : json_string(""));
    if (thinking)
        (void)json_object_set_new(part, "thinking", thinking);
    if (calls)
        (void)json_object_set_new(part, "tool_calls", calls);
    (void)json_object_set_new(object, "done", json_false());
    return object;
}

/* NULL: its arguments were cut off. */
static json_t *make_call(const struct kt_block *block)
{
    json_error_t where;
    json_t *arguments = kt_json_load(block->text.data ? block->text.data : "", block->text.length,
                                     JSON_ALLOW_NUL, NULL, &where);
    return arguments
               ? json_pack("{s:s, s:{s:i, s:o, s:o}}", "id", block->id, "function", "index", (int)block->call,
                           "name", kt_shape_text(&block->name), "arguments", arguments)
               : NULL;
}

static bool send(struct kt_job *job, json_t *object)
{
    return kt_native_send(job, "", object, "\n");
}

static bool add_to_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block,
                         const char *bytes, uint64_t length)
{
    (void)answer;
    if (block->kind == KT_PIECE_CALL)
        return true;
    json_t *text = kt_json_text(bytes, length);
    return text && send(job, block->kind == KT_PIECE_CONTENT ? make_part(job, text, NULL, NULL)
                                                             : make_part(job, NULL, text, NULL));
}

static bool close_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    json_t *call = block->kind == KT_PIECE_CALL ? make_call(block) : NULL;
    (void)answer;
    return !call || send(job, make_part(job, NULL, NULL, json_pack("[o]", call)));
}

static bool send_finish(struct kt_job *job, struct kt_answer *answer)
{
    (void)job, (void)answer;
    return true;
}

/* Adds how it ended. */
static json_t *finish(const struct kt_job *job, json_t *object)
{
    const struct kt_answer *answer = &job->answers[0];
    const struct kt_request_end *end = &answer->end;
    struct kt_usage usage = kt_shape_usage(job);
    const char *why = strcmp(answer->finish, "length") == 0 ? "length" : "stop";
    json_t *more =
        json_pack("{s:b, s:s, s:I, s:i, s:I, s:I, s:I, s:I}", "done", 1, "done_reason", why, "total_duration",
                  (json_int_t)(end->queue_ns + end->prompt_ns + end->decode_ns), "load_duration", 0,
                  "prompt_eval_count", usage.n_prompt, "prompt_eval_duration", (json_int_t)end->prompt_ns,
                  "eval_count", usage.n_tokens, "eval_duration", (json_int_t)end->decode_ns);
    if (object && more && json_object_update(object, more) == 0) {
        json_decref(more);
        return object;
    }
    json_decref(more);
    json_decref(object);
    return NULL;
}

static bool send_end(struct kt_job *job)
{
    return send(job, finish(job, make_part(job, NULL, NULL, NULL)));
}

static bool send_error(struct kt_job *job)
{
    return send(job, kt_ollama_problem(&job->problem));
}

static json_t *make_reply(struct kt_job *job)
{
    const struct kt_answer *answer = &job->answers[0];
    struct kt_buffer texts[2] = {{.data = NULL}, {.data = NULL}};
    json_t *calls = NULL, *call;
    bool done = true;
    for (size_t i = 0; done && i < answer->n_blocks; i++) {
        const struct kt_block *block = &answer->blocks[i];
        if (block->kind != KT_PIECE_CALL) {
            done = kt_buffer_add(&texts[block->kind == KT_PIECE_REASONING], block->text.data,
                                 block->text.length);
        } else if ((call = make_call(block)) != NULL) {
            calls = calls ? calls : json_array();
            done = json_array_append_new(calls, call) == 0;
        }
    }
    json_t *reply = make_part(job, kt_shape_text(&texts[0]),
                              texts[1].length > 0 ? kt_shape_text(&texts[1]) : NULL, calls);
    kt_buffer_free(&texts[0]);
    kt_buffer_free(&texts[1]);
    if (done)
        return finish(job, reply);
    json_decref(reply);
    return NULL;
}

#define WRITERS                                                                                             \
    .type = "application/x-ndjson", .id_prefix = "", .stop = "stop", .ping = "", .keeps_text = true,        \
    .add = add_to_block, .close = close_block, .finish = send_finish, .end = send_end, .error = send_error, \
    .reply = make_reply

static const struct kt_dialect of_chats = {.is_chat = true, WRITERS};
static const struct kt_dialect of_prompts = {.is_chat = true, WRITERS};
static const struct kt_dialect of_raw_prompts = {.is_endless = true, WRITERS};

/* ---- paths that answer ---- */

static bool answer(struct kt_exchange *exchange, bool is_chat)
{
    struct given given = {.stream = true};
    struct kt_problem problem;
    json_t *body = kt_body_parse(exchange, &problem), *made = NULL;
    bool is_read =
        body && kt_fields_read(body, fields, &given, &problem) && check_given(exchange, &given, &problem);
    if (is_chat)
        given.prompt = given.system = given.suffix = NULL;
    bool is_empty = is_chat ? json_array_size(given.messages) == 0 : !given.prompt || !*given.prompt;
    if (is_read && is_empty && !given.suffix) { /* it wants the model to be loaded */
        const char *name = given.model;
        json_decref(body);
        kt_body_done(exchange);
        if (!kt_models_wish(exchange, &problem))
            return exchange->hung_up ? kt_reply_hung_up(exchange) : kt_reply_problem(exchange, &problem);
        json_t *reply = make_object(name);
        (void)(is_chat ? json_object_set_new(reply, "message",
                                             json_pack("{s:s, s:s}", "role", "assistant", "content", ""))
                       : json_object_set_new(reply, "response", json_string("")));
        (void)json_object_set_new(reply, "done", json_true());
        (void)json_object_set_new(reply, "done_reason", json_string("load"));
        return kt_reply_json(exchange, 200, reply);
    }
    bool has_template = is_chat || (!given.raw && !(given.suffix && *given.suffix));
    if (is_read)
        made = make_body(exchange->model, body, &given, has_template, &problem);
    json_decref(body);
    return kt_job_answer_body(exchange,
                              is_chat        ? &of_chats
                              : has_template ? &of_prompts
                                             : &of_raw_prompts,
                              made, &problem);
}

bool kt_answer_ollama_chat(struct kt_exchange *exchange)
{
    return answer(exchange, true);
}

bool kt_answer_ollama_generate(struct kt_exchange *exchange)
{
    return answer(exchange, false);
}

/* ---- what there is ---- */

static json_t *make_details(const struct kt_served *model)
{
    double n = (double)model->info.n_weights;
    char size[32];
    (void)snprintf(size, sizeof(size), n >= 1e9 ? "%.1fB" : "%.1fM", n >= 1e9 ? n / 1e9 : n / 1e6);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "", "family",
                     model->info.family, "families", model->info.family, "parameter_size", size,
                     "quantization_level", "");
}

static json_t *list_model(const struct kt_served *model, const char *name, bool runs)
{
    char time[40];
    const struct kt_model_info *info = &model->info;
    json_t *text = kt_json_text(name, strlen(name));
    json_t *object = json_pack("{s:O, s:o, s:s, s:I, s:s, s:o}", "name", text, "model", text, "modified_at",
                               kt_native_time(model->created, time), "size",
                               (json_int_t)(info->weight_size + (runs ? info->cache_size : 0)), "digest", "",
                               "details", make_details(model));
    if (runs) {
        (void)json_object_set_new(object, "size_vram", json_integer(0));
        (void)json_object_set_new(object, "context_length", json_integer((json_int_t)info->max_tokens));
        (void)json_object_set_new(object, "expires_at", json_string("9999-12-31T23:59:59Z"));
    }
    return object;
}

static bool answer_list(struct kt_exchange *exchange, bool runs)
{
    const struct kt_models *models = &exchange->server->models;
    json_t *list = json_array();
    for (size_t i = 0; list && i < models->n; i++) {
        struct kt_served *model = &models->list[i];
        for (size_t j = 0; j < model->n_names && (!runs || kt_models_is_here(model)); j++)
            (void)json_array_append_new(list, list_model(model, model->names[j], runs));
    }
    return kt_reply_json(exchange, 200, json_pack("{s:o}", "models", list));
}

bool kt_answer_ollama_tags(struct kt_exchange *exchange)
{
    return answer_list(exchange, false);
}

bool kt_answer_ollama_ps(struct kt_exchange *exchange)
{
    return answer_list(exchange, true);
}

bool kt_answer_ollama_version(struct kt_exchange *exchange)
{
    return kt_reply_json(exchange, 200, json_pack("{s:s}", "version", SPOKEN));
}

static json_t *make_capabilities(const struct kt_served *model)
{
    json_t *list = json_pack("[s]", "completion");
    if (model->chat && model->chat_info.takes_tools)
        (void)json_array_append_new(list, json_string("tools"));
    if (model->chat && (model->chat_info.switches_thinking || model->chat_info.starts_reasoning))
        (void)json_array_append_new(list, json_string("thinking"));
    if (kt_native_infills(model))
        (void)json_array_append_new(list, json_string("insert"));
    return list;
}

bool kt_answer_ollama_show(struct kt_exchange *exchange)
{
    struct given given = {.model = NULL};
    struct kt_problem problem;
    char key[80], time[40];
    json_t *body = kt_body_parse(exchange, &problem);
    bool done = body && kt_fields_read(body, fields, &given, &problem);
    if (done && !given.model) /* as it was called before */
        given.model = json_string_value(json_object_get(body, "name"));
    done = done && check_given(exchange, &given, &problem);
    json_decref(body);
    kt_body_done(exchange);
    if (!done)
        return kt_reply_problem(exchange, &problem);
    const struct kt_served *model = exchange->model;
    const struct kt_model_info *info = &model->info;
    json_t *facts = json_pack("{s:s, s:I}", "general.architecture", info->family, "general.parameter_count",
                              (json_int_t)info->n_weights);
    (void)snprintf(key, sizeof(key), "%s.context_length", info->family);
    (void)json_object_set_new(facts, key, json_integer((json_int_t)info->context_length));
    (void)snprintf(key, sizeof(key), "%s.embedding_length", info->family);
    (void)json_object_set_new(facts, key, json_integer((json_int_t)info->hidden_size));
    return kt_reply_json(exchange, 200,
                         json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:s}", "modelfile", "", "parameters", "",
                                   "template", kt_native_template(model), "details", make_details(model),
                                   "model_info", facts, "capabilities", make_capabilities(model),
                                   "modified_at", kt_native_time(model->created, time)));
}
