/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - answers as JSON, in the shapes of OpenAI's API. */
#include "tools/engine/serve/job.h"
#include "tools/engine/text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void kt_make_id(const char *prefix, char *id, size_t size)
{
    unsigned char bytes[12];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        memset(bytes, 0, sizeof(bytes));
    size_t used = (size_t)snprintf(id, size, "%s", prefix);
    for (size_t i = 0; i < sizeof(bytes) && used + 2 < size; i++)
        used += (size_t)snprintf(id + used, size - used, "%02x", bytes[i]);
}

/* What all objects of a reply begin with. */
static json_t *make_object(const struct kt_job *job, bool is_chunk)
{
    const char *name =
        job->ask.is_chat ? (is_chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
    return json_pack("{s:s, s:s, s:I, s:o}", "id", job->id, "object", name, "created",
                     (json_int_t)job->created, "model", kt_json_text(job->ask.model, strlen(job->ask.model)));
}

/* ---- logprobs ---- */

static json_t *make_bytes(const char *text, uint64_t length)
{
    json_t *bytes = json_array();
    for (uint64_t i = 0; bytes && i < length; i++)
        if (json_array_append_new(bytes, json_integer((unsigned char)text[i])) != 0) {
            json_decref(bytes);
            bytes = NULL;
        }
    return bytes;
}

/* JSON has no -inf: OpenAI's smallest number stands for it. */
static double limit(float logprob)
{
    return logprob > -9999.0F ? (double)logprob : -9999.0;
}

static json_t *make_logprob(const struct kt_job *job, int32_t id, float logprob)
{
    struct kt_token token;
    if (kt_tokenizer_token(job->server->loaded.tokenizer, id, &token, NULL) != KT_OK)
        return NULL;
    return json_pack("{s:o, s:f, s:o}", "token", kt_json_text(token.text, token.length), "logprob",
                     limit(logprob), "bytes", make_bytes(token.text, token.length));
}

bool kt_shape_logprob(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event)
{
    json_t *entry = make_logprob(job, event->id, event->logprob), *top = json_array();
    bool done = entry && top;
    for (uint32_t i = 0; done && i < event->n_top; i++)
        done = json_array_append_new(top, make_logprob(job, event->top[i].id, event->top[i].logprob)) == 0;
    done = done && json_object_set(entry, "top_logprobs", top) == 0 &&
           json_array_append(answer->logprobs, entry) == 0;
    json_decref(top);
    json_decref(entry);
    return done;
}

static uint64_t count_characters(const json_t *text)
{
    uint64_t n = 0;
    const char *bytes = json_string_value(text);
    for (size_t i = 0; i < json_string_length(text); i++)
        n += ((unsigned char)bytes[i] & 0xc0) != 0x80;
    return n;
}

/* The same of completions: lists beside each other. */
static json_t *make_old_logprobs(struct kt_answer *answer, json_t *entries)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array();
    json_t *entry, *other;
    size_t i, j;
    json_array_foreach (entries, i, entry) {
        json_t *top = json_object();
        json_array_foreach (json_object_get(entry, "top_logprobs"), j, other) {
            /* Keys must have no zero bytes. */
            const char *name = json_string_value(json_object_get(other, "token"));
            (void)json_object_set(top, name ? name : "", json_object_get(other, "logprob"));
        }
        (void)json_array_append(tokens, json_object_get(entry, "token"));
        (void)json_array_append(values, json_object_get(entry, "logprob"));
        (void)json_array_append_new(tops, top);
        (void)json_array_append_new(offsets, json_integer((json_int_t)answer->text_offset));
        answer->text_offset += count_characters(json_object_get(entry, "token"));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops,
                     "text_offset", offsets);
}

/* The logprobs that were not sent yet, in the shape of the reply; null where none were asked for. */
static json_t *take_logprobs(struct kt_job *job, struct kt_answer *answer)
{
    if (!answer->logprobs || (job->ask.streams && json_array_size(answer->logprobs) == 0))
        return json_null();
    json_t *entries = answer->logprobs;
    answer->logprobs = json_array();
    json_t *shaped =
        job->ask.is_chat ? json_pack("{s:O}", "content", entries) : make_old_logprobs(answer, entries);
    json_decref(entries);
    return shaped;
}

/* ---- chunks ---- */

/* Many clients split events at any line end that Unicode knows, not just those of SSE: U+0085, U+2028 and
 * U+2029, which JSON may hold as they are. They occur in strings only, so they can be escaped there. */
static bool add_escaped(struct kt_buffer *out, const char *text)
{
    static const struct {
        char bytes[4], escape[8];
    } ends[] = {{"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};
    bool done = true;
    while (done && *text) {
        size_t length = strcspn(text, "\xc2\xe2"), i = 0;
        done = kt_buffer_add(out, text, length);
        text += length;
        while (i < 3 && strncmp(text, ends[i].bytes, strlen(ends[i].bytes)) != 0)
            i++;
        if (i < 3) {
            done = done && kt_buffer_add_text(out, ends[i].escape);
            text += strlen(ends[i].bytes);
        } else if (*text) {
            done = done && kt_buffer_add(out, text++, 1);
        }
    }
    return done;
}

static bool send(struct kt_job *job, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    bool done = text && kt_buffer_add_text(job->out, "data: ") && add_escaped(job->out, text) &&
                kt_buffer_add_text(job->out, "\n\n");
    free(text);
    return done;
}

/* One chunk: of a chat `delta` is an object, else a text. Takes the reference. */
static bool send_chunk(struct kt_job *job, struct kt_answer *answer, json_t *delta, bool is_last)
{
    json_t *object = make_object(job, true);
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)answer->number,
                               job->ask.is_chat ? "delta" : "text", delta, "logprobs",
                               take_logprobs(job, answer), "finish_reason", is_last ? answer->finish : NULL);
    if (!object || !choice || json_object_set_new(object, "choices", json_pack("[o]", choice)) != 0 ||
        (job->ask.includes_usage && json_object_set_new(object, "usage", json_null()) != 0)) {
        json_decref(object);
        return false;
    }
    return send(job, object);
}

static bool send_begin(struct kt_job *job, struct kt_answer *answer)
{
    if (answer->has_begun || !job->ask.is_chat)
        return true;
    answer->has_begun = true;
    json_t *kept = answer->logprobs; /* they go with the first token's text */
    answer->logprobs = NULL;
    bool done = send_chunk(job, answer, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), false);
    answer->logprobs = kept;
    return done;
}

static json_t *make_delta(const struct kt_job *job, const struct kt_piece *piece)
{
    json_t *text = kt_json_text(piece->text, piece->length);
    if (!job->ask.is_chat)
        return text;
    switch (piece->kind) {
    case KT_PIECE_CONTENT:
        return json_pack("{s:o}", "content", text);
    case KT_PIECE_REASONING:
        return json_pack("{s:o}", "reasoning_content", text);
    case KT_PIECE_CALL:
        return json_pack("{s:[{s:i, s:s, s:s, s:{s:o, s:s}}]}", "tool_calls", "index", (int)piece->call, "id",
                         piece->id, "type", "function", "function", "name", text, "arguments", "");
    default:
        return json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", (int)piece->call, "function",
                         "arguments", text);
    }
}

/* ---- what is collected ---- */

static bool collect_call(struct kt_answer *answer, const struct kt_piece *piece)
{
    if (piece->kind == KT_PIECE_CALL)
        return json_array_append_new(answer->calls, json_pack("{s:s, s:s, s:{s:o, s:s}}", "id", piece->id,
                                                              "type", "function", "function", "name",
                                                              kt_json_text(piece->text, piece->length),
                                                              "arguments", "")) == 0;
    json_t *function =
        json_object_get(json_array_get(answer->calls, json_array_size(answer->calls) - 1), "function");
    const json_t *before = json_object_get(function, "arguments");
    struct kt_buffer joined = {.data = NULL};
    bool done = before && kt_buffer_add(&joined, json_string_value(before), json_string_length(before)) &&
                kt_buffer_add(&joined, piece->text, piece->length) &&
                json_object_set_new(function, "arguments", kt_json_text(joined.data, joined.length)) == 0;
    kt_buffer_free(&joined);
    return done;
}

bool kt_shape_piece(struct kt_job *job, struct kt_answer *answer, const struct kt_piece *piece)
{
    if (job->ask.streams)
        return send_begin(job, answer) && send_chunk(job, answer, make_delta(job, piece), false);
    if (piece->kind == KT_PIECE_CONTENT)
        return kt_buffer_add(&answer->content, piece->text, piece->length);
    if (piece->kind == KT_PIECE_REASONING)
        return kt_buffer_add(&answer->reasoning, piece->text, piece->length);
    return collect_call(answer, piece);
}

bool kt_shape_finish(struct kt_job *job, struct kt_answer *answer)
{
    if (!job->ask.streams)
        return true;
    return send_begin(job, answer) &&
           send_chunk(job, answer, job->ask.is_chat ? json_object() : json_string(""), true);
}

/* ---- usage ---- */

static json_t *make_usage(const struct kt_job *job)
{
    uint64_t n_prompt = 0, n_cached = 0, n_tokens = 0, n_reasoning = 0;
    for (size_t i = 0; i < job->n_answers; i++) {
        const struct kt_answer *answer = &job->answers[i];
        bool is_first = i % (size_t)job->ask.n == 0; /* a prompt counts once */
        n_prompt += is_first ? answer->prompt->n_ids : 0;
        n_cached += is_first ? answer->end.n_cached : 0;
        n_tokens += answer->n_tokens;
        n_reasoning += answer->n_reasoning;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)n_prompt,
                     "completion_tokens", (json_int_t)n_tokens, "total_tokens",
                     (json_int_t)(n_prompt + n_tokens), "prompt_tokens_details", "cached_tokens",
                     (json_int_t)n_cached, "completion_tokens_details", "reasoning_tokens",
                     (json_int_t)n_reasoning);
}

/* How fast the first answer came. */
static json_t *make_timings(const struct kt_job *job)
{
    const struct kt_request_end *end = &job->answers[0].end;
    uint64_t n_read = end->n_prompt - end->n_cached, n_next = end->n_generated > 0 ? end->n_generated - 1 : 0;
    double prompt = (double)end->prompt_ns * 1e-9, decode = (double)end->decode_ns * 1e-9;
    return json_pack("{s:f, s:I, s:f, s:f, s:I, s:f, s:f}", "queue_ms", (double)end->queue_ns * 1e-6,
                     "prompt_n", (json_int_t)n_read, "prompt_ms", prompt * 1e3, "prompt_per_second",
                     prompt > 0 ? (double)n_read / prompt : 0.0, "predicted_n", (json_int_t)end->n_generated,
                     "predicted_ms", decode * 1e3, "predicted_per_second",
                     decode > 0 ? (double)n_next / decode : 0.0);
}

bool kt_shape_end(struct kt_job *job)
{
    if (job->ask.includes_usage) {
        json_t *object = make_object(job, true);
        if (!object || json_object_set_new(object, "choices", json_array()) != 0 ||
            json_object_set_new(object, "usage", make_usage(job)) != 0 ||
            json_object_set_new(object, "timings", make_timings(job)) != 0) {
            json_decref(object);
            return false;
        }
        if (!send(job, object))
            return false;
    }
    return kt_buffer_add_text(job->out, "data: [DONE]\n\n");
}

bool kt_shape_error(struct kt_job *job)
{
    return send(job, kt_problem_json(&job->problem));
}

/* ---- whole replies ---- */

static json_t *make_message(struct kt_answer *answer)
{
    /* Calls alone have a content of null. */
    json_t *content =
        answer->content.length == 0 && json_array_size(answer->calls) > 0
            ? json_null()
            : kt_json_text(answer->content.data ? answer->content.data : "", answer->content.length);
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    bool done = message != NULL;
    if (done && answer->reasoning.length > 0)
        done = json_object_set_new(message, "reasoning_content",
                                   kt_json_text(answer->reasoning.data, answer->reasoning.length)) == 0;
    if (done && json_array_size(answer->calls) > 0)
        done = json_object_set(message, "tool_calls", answer->calls) == 0;
    if (done)
        return message;
    json_decref(message);
    return NULL;
}

json_t *kt_shape_reply(struct kt_job *job)
{
    json_t *object = make_object(job, false), *choices = json_array();
    bool done = object && choices;
    for (size_t i = 0; done && i < job->n_answers; i++) {
        struct kt_answer *answer = &job->answers[i];
        json_t *text = job->ask.is_chat ? make_message(answer)
                                        : kt_json_text(answer->content.data ? answer->content.data : "",
                                                       answer->content.length);
        done = json_array_append_new(choices, json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)i,
                                                        job->ask.is_chat ? "message" : "text", text,
                                                        "logprobs", take_logprobs(job, answer),
                                                        "finish_reason", answer->finish)) == 0;
    }
    done = done && json_object_set(object, "choices", choices) == 0 &&
           json_object_set_new(object, "usage", make_usage(job)) == 0 &&
           json_object_set_new(object, "timings", make_timings(job)) == 0;
    json_decref(choices);
    if (done)
        return object;
    json_decref(object);
    return NULL;
}
