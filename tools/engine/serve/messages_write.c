/* SPDX-License-Identifier: Apache-2.0 */
/* messages_write.c - answers as Anthropic's Messages API has them. */
#include "tools/engine/base/load.h"
#include "tools/engine/serve/dialect.h"

#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static const char *name_error(unsigned status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return status < 500 ? "invalid_request_error" : "api_error";
    }
}

json_t *kt_messages_problem(const struct kt_problem *problem)
{
    char message[sizeof(problem->message) + 32];
    /* By these words its clients know that they have to make the conversation shorter. */
    bool is_long = problem->code && strcmp(problem->code, "context_length_exceeded") == 0;
    (void)snprintf(message, sizeof(message), "%s%s", is_long ? "prompt is too long: " : "", problem->message);
    return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type", name_error(problem->status),
                     "message", kt_json_text(message, strlen(message)));
}

/* ---- parts ---- */

static json_t *make_usage(const struct kt_job *job)
{
    struct kt_usage usage = kt_shape_usage(job);
    return json_pack("{s:I, s:i, s:I, s:I, s:{s:I}}", "input_tokens", usage.n_prompt - usage.n_cached,
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", usage.n_cached,
                     "output_tokens", usage.n_tokens, "output_tokens_details", "thinking_tokens",
                     usage.n_reasoning);
}

/* The name of what ended the answer, and the stop string that did. */
static json_t *make_end(const struct kt_job *job, const struct kt_answer *answer)
{
    const char *reason = "end_turn";
    json_t *stop = NULL;
    if (strcmp(answer->finish, "length") == 0) {
        bool is_full =
            answer->end.reason == KT_END_LENGTH && answer->n_tokens < (uint64_t)job->ask.max_tokens;
        reason = is_full ? "model_context_window_exceeded" : "max_tokens";
    } else if (strcmp(answer->finish, "tool_calls") == 0) {
        reason = "tool_use";
    } else if (answer->stop_number >= 0) {
        const struct kt_stop_text *text = &job->ask.stops[answer->stop_number];
        reason = "stop_sequence";
        stop = kt_json_text(text->text, text->length);
    }
    return json_pack("{s:s, s:o?}", "stop_reason", reason, "stop_sequence", stop);
}

static json_t *make_message(const struct kt_job *job, json_t *content)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:n, s:n, s:o}", "id", job->id, "type", "message", "role",
                     "assistant", "model", kt_json_text(job->ask.model, strlen(job->ask.model)), "content",
                     content, "stop_reason", "stop_sequence", "usage", make_usage(job));
}

/* A block with `text`, or as it begins. The signature is nobody's: what a client sends back is read as it is.
 */
static json_t *make_block(const struct kt_block *block, const struct kt_buffer *text)
{
    if (block->kind == KT_PIECE_CONTENT)
        return json_pack("{s:s, s:o}", "type", "text", "text", kt_shape_text(text));
    if (block->kind == KT_PIECE_REASONING)
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", kt_shape_text(text), "signature",
                         "");
    json_error_t where;
    json_t *input =
        text->length > 0 ? kt_json_load(text->data, text->length, JSON_ALLOW_NUL, NULL, &where) : NULL;
    if (!input) /* it was cut off: the reason to stop says so */
        input = json_object();
    return json_pack("{s:s, s:s, s:o, s:o}", "type", "tool_use", "id", block->id, "name",
                     kt_shape_text(&block->name), "input", input);
}

/* ---- streams ---- */

static bool send_begin(struct kt_job *job, struct kt_answer *answer)
{
    if (answer->has_begun)
        return true;
    answer->has_begun = true;
    return kt_shape_send(job, "message_start",
                         json_pack("{s:s, s:o}", "type", "message_start", "message",
                                   make_message(job, json_array())));
}

static int find_index(const struct kt_answer *answer, const struct kt_block *block)
{
    return (int)(block - answer->blocks);
}

static bool open_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    static const struct kt_buffer none = {.data = NULL};
    return send_begin(job, answer) &&
           kt_shape_send(job, "content_block_start",
                         json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index",
                                   find_index(answer, block), "content_block", make_block(block, &none)));
}

static bool add_to_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block,
                         const char *text, uint64_t length)
{
    static const char *const names[][2] = {[KT_PIECE_CONTENT] = {"text_delta", "text"},
                                           [KT_PIECE_REASONING] = {"thinking_delta", "thinking"},
                                           [KT_PIECE_CALL] = {"input_json_delta", "partial_json"}};
    return kt_shape_send(job, "content_block_delta",
                         json_pack("{s:s, s:i, s:{s:s, s:o}}", "type", "content_block_delta", "index",
                                   find_index(answer, block), "delta", "type", names[block->kind][0],
                                   names[block->kind][1], kt_json_text(text, length)));
}

static bool close_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    return kt_shape_send(job, "content_block_stop",
                         json_pack("{s:s, s:i}", "type", "content_block_stop", "index",
                                   find_index(answer, block)));
}

static bool send_finish(struct kt_job *job, struct kt_answer *answer)
{
    (void)job;
    (void)answer;
    return true; /* with the usage, which is known when the scheduler has let the request go */
}

static bool send_end(struct kt_job *job)
{
    struct kt_answer *answer = &job->answers[0];
    return send_begin(job, answer) &&
           kt_shape_send(job, "message_delta",
                         json_pack("{s:s, s:o, s:o}", "type", "message_delta", "delta", make_end(job, answer),
                                   "usage", make_usage(job))) &&
           kt_shape_send(job, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static bool send_error(struct kt_job *job)
{
    return kt_shape_send(job, "error", kt_messages_problem(&job->problem));
}

/* ---- whole replies ---- */

static json_t *make_reply(struct kt_job *job)
{
    const struct kt_answer *answer = &job->answers[0];
    json_t *content = json_array();
    for (size_t i = 0; content && i < answer->n_blocks; i++)
        if (json_array_append_new(content, make_block(&answer->blocks[i], &answer->blocks[i].text)) != 0) {
            json_decref(content);
            content = NULL;
        }
    json_t *message = make_message(job, content), *end = make_end(job, answer);
    bool done = message && end && json_object_update(message, end) == 0 &&
                json_object_set_new(message, "timings", kt_shape_timings(job)) == 0;
    json_decref(end);
    if (done)
        return message;
    json_decref(message);
    return NULL;
}

const struct kt_dialect kt_dialect_messages = {.is_chat = true,
                                               .id_prefix = "msg_",
                                               .stop = "stop_sequences",
                                               .ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n",
                                               .translate = kt_messages_translate,
                                               .open = open_block,
                                               .add = add_to_block,
                                               .close = close_block,
                                               .finish = send_finish,
                                               .end = send_end,
                                               .error = send_error,
                                               .reply = make_reply};
