/* SPDX-License-Identifier: Apache-2.0 */
/* responses_write.c - answers as OpenAI's Responses API has them: a list of items, and events with numbers.
 */
#include "tools/engine/serve/dialect.h"

#include <stdio.h>
#include <string.h>

/* ---- parts ---- */

#define ID_SIZE 96

/* Items have ids of their own, made of the reply's. */
static const char *make_id(const struct kt_job *job, const struct kt_answer *answer,
                           const struct kt_block *block, char *id)
{
    static const char *const prefixes[] =
        {[KT_PIECE_CONTENT] = "msg", [KT_PIECE_REASONING] = "rs", [KT_PIECE_CALL] = "fc"};
    const char *prefix = kt_custom_is_custom(job, block) ? "ctc" : prefixes[block->kind];
    (void)snprintf(id, ID_SIZE, "%s%s_%zu", prefix, strchr(job->id, '_'), (size_t)(block - answer->blocks));
    return id;
}

/* With `text`, or as it begins. */
static json_t *make_part(const struct kt_block *block, const struct kt_buffer *text)
{
    if (block->kind == KT_PIECE_REASONING)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", kt_shape_text(text));
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", kt_shape_text(text),
                     "annotations", "logprobs");
}

static const struct kt_buffer nothing = {.data = NULL};

/* A block as an item; `text` is NULL while it begins. */
static json_t *make_item(const struct kt_job *job, const struct kt_answer *answer,
                         const struct kt_block *block, const struct kt_buffer *text)
{
    char id[ID_SIZE];
    bool is_last = block == &answer->blocks[answer->n_blocks - 1];
    bool is_cut = is_last && answer->finish && strcmp(answer->finish, "length") == 0;
    const char *status = !text ? "in_progress" : is_cut ? "incomplete" : "completed";
    (void)make_id(job, answer, block, id);
    if (kt_custom_is_custom(job, block))
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "type", "custom_tool_call", "id", id, "call_id",
                         block->id, "name", kt_shape_text(&block->name), "input",
                         kt_custom_input(text ? text : &nothing), "status", status);
    if (block->kind == KT_PIECE_CALL)
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "type", "function_call", "id", id, "call_id",
                         block->id, "name", kt_shape_text(&block->name), "arguments",
                         kt_shape_text(text ? text : &nothing), "status", status);
    json_t *content = text ? json_pack("[o]", make_part(block, text)) : json_array();
    if (block->kind == KT_PIECE_REASONING)
        return json_pack("{s:s, s:s, s:[], s:o, s:s}", "type", "reasoning", "id", id, "summary", "content",
                         content, "status", status);
    return json_pack("{s:s, s:s, s:s, s:o, s:s}", "type", "message", "id", id, "role", "assistant", "content",
                     content, "status", status);
}

static json_t *make_output(const struct kt_job *job, const struct kt_answer *answer)
{
    json_t *output = json_array();
    for (size_t i = 0; output && i < answer->n_blocks; i++)
        if (json_array_append_new(output,
                                  make_item(job, answer, &answer->blocks[i], &answer->blocks[i].text)) != 0) {
            json_decref(output);
            output = NULL;
        }
    return output;
}

static json_t *make_usage(const struct kt_job *job)
{
    struct kt_usage usage = kt_shape_usage(job);
    return json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:I}, s:I}", "input_tokens", usage.n_prompt,
                     "input_tokens_details", "cached_tokens", usage.n_cached, "cache_write_tokens", 0,
                     "output_tokens", usage.n_tokens, "output_tokens_details", "reasoning_tokens",
                     usage.n_reasoning, "total_tokens", usage.n_prompt + usage.n_tokens);
}

/* The reply; takes the references to `output` and `usage`. */
static json_t *make_response(const struct kt_job *job, const char *status, json_t *output, json_t *usage)
{
    bool is_cut = strcmp(status, "incomplete") == 0;
    json_t *response = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:o, s:o}", "id", job->id, "object",
                                 "response", "created_at", (json_int_t)job->created, "status", status,
                                 "model", kt_json_text(job->ask.model, strlen(job->ask.model)), "output",
                                 output, "usage", usage, "incomplete_details",
                                 is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null());
    if (response && json_object_update_missing(response, json_object_get(job->ask.body, KT_ECHO)) == 0)
        return response;
    json_decref(response);
    return NULL;
}

/* ---- streams ---- */

/* Takes the reference to `event`. */
static bool send_event(struct kt_job *job, const char *type, json_t *event)
{
    if (event && json_object_set_new(event, "type", json_string(type)) == 0 &&
        json_object_set_new(event, "sequence_number", json_integer(job->n_events++)) == 0)
        return kt_shape_send(job, type, event);
    json_decref(event);
    return false;
}

static bool send_begin(struct kt_job *job, struct kt_answer *answer)
{
    if (answer->has_begun)
        return true;
    answer->has_begun = true;
    json_t *response = make_response(job, "in_progress", json_array(), json_null());
    bool done = send_event(job, "response.created", json_pack("{s:O}", "response", response)) &&
                send_event(job, "response.in_progress", json_pack("{s:O}", "response", response));
    json_decref(response);
    return done;
}

/* An event of an item, with what is special in it: `value` under `name`, whose reference it takes. */
static bool send_item_event(struct kt_job *job, const struct kt_answer *answer, const struct kt_block *block,
                            const char *type, const char *name, json_t *value)
{
    char id[ID_SIZE];
    json_t *event = json_pack("{s:i, s:o}", "output_index", (int)(block - answer->blocks), name, value);
    bool is_part = event && strcmp(name, "item") != 0;
    if (is_part)
        (void)json_object_set_new(event, "item_id", json_string(make_id(job, answer, block, id)));
    if (is_part && block->kind != KT_PIECE_CALL)
        (void)json_object_set_new(event, "content_index", json_integer(0));
    if (is_part && block->kind == KT_PIECE_CONTENT && strcmp(name, "part") != 0)
        (void)json_object_set_new(event, "logprobs", json_array());
    return send_event(job, type, event);
}

static bool open_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    return send_begin(job, answer) &&
           send_item_event(job, answer, block, "response.output_item.added", "item",
                           make_item(job, answer, block, NULL)) &&
           (block->kind == KT_PIECE_CALL || send_item_event(job, answer, block, "response.content_part.added",
                                                            "part", make_part(block, &nothing)));
}

static const char *const deltas[] = {[KT_PIECE_CONTENT] = "response.output_text.delta",
                                     [KT_PIECE_REASONING] = "response.reasoning_text.delta",
                                     [KT_PIECE_CALL] = "response.function_call_arguments.delta"};
static const char *const ends[] = {[KT_PIECE_CONTENT] = "response.output_text.done",
                                   [KT_PIECE_REASONING] = "response.reasoning_text.done",
                                   [KT_PIECE_CALL] = "response.function_call_arguments.done"};

static bool add_to_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block,
                         const char *text, uint64_t length)
{
    if (kt_custom_is_custom(job, block)) /* its input is a part of the arguments */
        return true;
    return send_item_event(job, answer, block, deltas[block->kind], "delta", kt_json_text(text, length));
}

static bool close_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    bool is_call = block->kind == KT_PIECE_CALL;
    if (kt_custom_is_custom(job, block))
        return send_item_event(job, answer, block, "response.custom_tool_call_input.delta", "delta",
                               kt_custom_input(&block->text)) &&
               send_item_event(job, answer, block, "response.custom_tool_call_input.done", "input",
                               kt_custom_input(&block->text)) &&
               send_item_event(job, answer, block, "response.output_item.done", "item",
                               make_item(job, answer, block, &block->text));
    return send_item_event(job, answer, block, ends[block->kind], is_call ? "arguments" : "text",
                           kt_shape_text(&block->text)) &&
           (is_call || send_item_event(job, answer, block, "response.content_part.done", "part",
                                       make_part(block, &block->text))) &&
           send_item_event(job, answer, block, "response.output_item.done", "item",
                           make_item(job, answer, block, &block->text));
}

static bool send_finish(struct kt_job *job, struct kt_answer *answer)
{
    (void)job;
    (void)answer;
    return true; /* with the usage, which is known when the scheduler has let the request go */
}

static const char *name_status(const struct kt_answer *answer)
{
    return strcmp(answer->finish, "length") == 0 ? "incomplete" : "completed";
}

static json_t *make_reply(struct kt_job *job)
{
    const struct kt_answer *answer = &job->answers[0];
    json_t *response = make_response(job, name_status(answer), make_output(job, answer), make_usage(job));
    if (response && json_object_set_new(response, "timings", kt_shape_timings(job)) == 0)
        return response;
    json_decref(response);
    return NULL;
}

static bool send_end(struct kt_job *job)
{
    struct kt_answer *answer = &job->answers[0];
    const char *type = strcmp(answer->finish, "length") == 0 ? "response.incomplete" : "response.completed";
    return send_begin(job, answer) && send_event(job, type, json_pack("{s:o}", "response", make_reply(job)));
}

static bool send_error(struct kt_job *job)
{
    struct kt_answer *answer = &job->answers[0];
    json_t *response = make_response(job, "failed", make_output(job, answer), make_usage(job));
    if (response)
        (void)json_object_set_new(response, "error",
                                  json_pack("{s:s, s:o}", "code", "server_error", "message",
                                            kt_json_text(job->problem.message,
                                                         strlen(job->problem.message))));
    return send_begin(job, answer) &&
           send_event(job, "response.failed", json_pack("{s:o}", "response", response));
}

const struct kt_dialect kt_dialect_responses = {.is_chat = true,
                                                .id_prefix = "resp_",
                                                .stop = "stop",
                                                .keeps_text = true,
                                                .translate = kt_responses_translate,
                                                .open = open_block,
                                                .add = add_to_block,
                                                .close = close_block,
                                                .finish = send_finish,
                                                .end = send_end,
                                                .error = send_error,
                                                .reply = make_reply};
