/* SPDX-License-Identifier: Apache-2.0 */
/* openai.c - answers as OpenAI's chats and completions have them. */
#include "tools/engine/serve/native.h"

#include <math.h>
#include <string.h>

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
    if (kt_tokenizer_token(job->model->tokenizer, id, &token, NULL) != KT_OK)
        return NULL;
    json_t *entry = json_pack("{s:o, s:f, s:o}", "token", kt_json_text(token.text, token.length), "logprob",
                              limit(logprob), "bytes", make_bytes(token.text, token.length));
    if (job->ask.dialect->lists_entries)
        (void)json_object_set_new(entry, "id", json_integer(id));
    return entry;
}

/* An entry of a chat's list. */
static json_t *make_entry(const struct kt_job *job, const struct kt_feed_event *event)
{
    json_t *entry = make_logprob(job, event->id, event->logprob), *top = json_array();
    bool done = entry && top;
    for (uint32_t i = 0; done && i < event->n_top; i++)
        done = json_array_append_new(top, make_logprob(job, event->top[i].id, event->top[i].logprob)) == 0;
    done = done && json_object_set(entry, "top_logprobs", top) == 0;
    json_decref(top);
    if (done)
        return entry;
    json_decref(entry);
    return NULL;
}

/* Characters of a token in the text, where control tokens do not stand. */
static uint64_t count_characters(const struct kt_token *token)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < token->length && token->type != KT_TOKEN_CONTROL; i++)
        n += ((unsigned char)token->text[i] & 0xc0) != 0x80;
    return n;
}

/* The same of completions, for lists beside each other: token, logprob, top, offset. Prompts have many. */
static json_t *make_old_entry(const struct kt_job *job, struct kt_answer *answer,
                              const struct kt_feed_event *event)
{
    bool has_none = isnan(event->logprob);
    struct kt_token token, other;
    if (kt_tokenizer_token(job->model->tokenizer, event->id, &token, NULL) != KT_OK)
        return NULL;
    json_t *top = has_none ? json_null() : json_object();
    for (uint32_t i = 0; i < event->n_top; i++) {
        if (kt_tokenizer_token(job->model->tokenizer, event->top[i].id, &other, NULL) != KT_OK)
            continue;
        json_t *name = kt_json_text(other.text, other.length); /* keys must have no zero bytes */
        if (name)
            (void)json_object_set_new(top, json_string_value(name), json_real(limit(event->top[i].logprob)));
        json_decref(name);
    }
    json_t *entry = json_pack("[o, o, o, I]", kt_json_text(token.text, token.length),
                              has_none ? json_null() : json_real(limit(event->logprob)), top,
                              (json_int_t)answer->text_offset);
    answer->text_offset += count_characters(&token);
    return entry;
}

bool kt_shape_logprob(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event)
{
    bool is_listed = job->ask.is_chat || job->ask.dialect->lists_entries;
    json_t *entry = is_listed ? make_entry(job, event) : make_old_entry(job, answer, event);
    return json_array_append_new(answer->logprobs, entry) == 0;
}

/* Entries of completions as lists beside each other. */
static json_t *make_old_logprobs(const json_t *entries)
{
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    json_t *lists = json_object(), *entry;
    size_t at;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        json_t *list = json_array();
        json_array_foreach (entries, at, entry) {
            (void)json_array_append(list, json_array_get(entry, i));
        }
        (void)json_object_set_new(lists, names[i], list);
    }
    return lists;
}

/* The logprobs that were not sent yet, in the shape of the reply; null where none were asked for. */
static json_t *take_logprobs(struct kt_job *job, struct kt_answer *answer)
{
    if (!answer->logprobs || (job->ask.streams && json_array_size(answer->logprobs) == 0))
        return json_null();
    json_t *entries = answer->logprobs;
    answer->logprobs = json_array();
    json_t *shaped = job->ask.is_chat ? json_pack("{s:O}", "content", entries) : make_old_logprobs(entries);
    json_decref(entries);
    return shaped;
}

/* ---- usage ---- */

static json_t *make_usage(const struct kt_job *job)
{
    struct kt_usage usage = kt_shape_usage(job);
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", usage.n_prompt,
                     "completion_tokens", usage.n_tokens, "total_tokens", usage.n_prompt + usage.n_tokens,
                     "prompt_tokens_details", "cached_tokens", usage.n_cached, "completion_tokens_details",
                     "reasoning_tokens", usage.n_reasoning);
}

/* ---- chunks ---- */

/* One chunk: of a chat `delta` is an object, else a text. Takes the reference. */
static bool send_chunk(struct kt_job *job, struct kt_answer *answer, json_t *delta, bool is_last)
{
    json_t *object = make_object(job, true);
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)answer->number,
                               job->ask.is_chat ? "delta" : "text", delta, "logprobs",
                               take_logprobs(job, answer), "finish_reason", is_last ? answer->finish : NULL);
    json_t *usage = !job->ask.includes_usage    ? NULL
                    : job->ask.has_usage_always ? make_usage(job)
                                                : json_null();
    if (!object || !choice || json_object_set_new(object, "choices", json_pack("[o]", choice)) != 0 ||
        (usage && json_object_set_new(object, "usage", usage) != 0)) {
        json_decref(object);
        return false;
    }
    return kt_shape_send(job, NULL, object);
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

static bool open_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    if (block->kind != KT_PIECE_CALL)
        return true;
    if (kt_custom_is_custom(job, block)) /* its input is a part of the arguments */
        return send_begin(job, answer);
    return send_begin(job, answer) &&
           send_chunk(job, answer,
                      json_pack("{s:[{s:i, s:s, s:s, s:{s:o, s:s}}]}", "tool_calls", "index",
                                (int)block->call, "id", block->id, "type", "function", "function", "name",
                                kt_shape_text(&block->name), "arguments", ""),
                      false);
}

static bool add_to_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block,
                         const char *bytes, uint64_t length)
{
    if (kt_custom_is_custom(job, block))
        return true;
    json_t *text = kt_json_text(bytes, length), *delta = text;
    if (block->kind == KT_PIECE_CALL)
        delta = json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", (int)block->call, "function",
                          "arguments", text);
    else if (job->ask.is_chat)
        delta = json_pack("{s:o}", block->kind == KT_PIECE_REASONING ? "reasoning_content" : "content", text);
    return send_begin(job, answer) && send_chunk(job, answer, delta, false);
}

static json_t *make_custom(const struct kt_block *block)
{
    return json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", block->id, "type", "custom", "custom", "name",
                     kt_shape_text(&block->name), "input", kt_custom_input(&block->text));
}

static bool close_block(struct kt_job *job, struct kt_answer *answer, const struct kt_block *block)
{
    if (!kt_custom_is_custom(job, block))
        return true;
    json_t *call = make_custom(block);
    (void)json_object_set_new(call, "index", json_integer(block->call));
    return send_chunk(job, answer, json_pack("{s:[o]}", "tool_calls", call), false);
}

static bool send_finish(struct kt_job *job, struct kt_answer *answer)
{
    return send_begin(job, answer) &&
           send_chunk(job, answer, job->ask.is_chat ? json_object() : json_string(""), true);
}

/* ---- the end ---- */

static bool send_end(struct kt_job *job)
{
    if (job->ask.includes_usage) {
        json_t *object = make_object(job, true);
        if (!object || json_object_set_new(object, "choices", json_array()) != 0 ||
            json_object_set_new(object, "usage", make_usage(job)) != 0 ||
            json_object_set_new(object, "timings", kt_shape_timings(job)) != 0) {
            json_decref(object);
            return false;
        }
        if (!kt_shape_send(job, NULL, object))
            return false;
    }
    return kt_buffer_add_text(job->out, "data: [DONE]\n\n");
}

static bool send_error(struct kt_job *job)
{
    return kt_shape_send(job, NULL, kt_problem_json(&job->problem));
}

/* ---- whole replies ---- */

/* All texts of a kind, joined. */
static json_t *join_text(const struct kt_answer *answer, enum kt_piece_kind kind)
{
    struct kt_buffer joined = {.data = NULL};
    bool done = true;
    for (size_t i = 0; done && i < answer->n_blocks; i++)
        if (answer->blocks[i].kind == kind)
            done = kt_buffer_add(&joined, answer->blocks[i].text.data, answer->blocks[i].text.length);
    json_t *text = done ? kt_shape_text(&joined) : NULL;
    kt_buffer_free(&joined);
    return text;
}

static json_t *make_calls(const struct kt_job *job, const struct kt_answer *answer)
{
    json_t *calls = json_array();
    for (size_t i = 0; calls && i < answer->n_blocks; i++) {
        const struct kt_block *block = &answer->blocks[i];
        if (block->kind != KT_PIECE_CALL)
            continue;
        json_t *call =
            kt_custom_is_custom(job, block)
                ? make_custom(block)
                : json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", block->id, "type", "function", "function",
                            "name", kt_shape_text(&block->name), "arguments", kt_shape_text(&block->text));
        if (json_array_append_new(calls, call) != 0) {
            json_decref(calls);
            calls = NULL;
        }
    }
    return calls;
}

static json_t *make_message(const struct kt_job *job, const struct kt_answer *answer)
{
    json_t *calls = make_calls(job, answer), *content = join_text(answer, KT_PIECE_CONTENT);
    json_t *reasoning = join_text(answer, KT_PIECE_REASONING);
    bool has_calls = json_array_size(calls) > 0;
    if (has_calls && content && json_string_length(content) == 0) { /* calls alone have a content of null */
        json_decref(content);
        content = json_null();
    }
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    bool done = message && calls && reasoning;
    if (done && json_string_length(reasoning) > 0)
        done = json_object_set(message, "reasoning_content", reasoning) == 0;
    if (done && has_calls)
        done = json_object_set(message, "tool_calls", calls) == 0;
    json_decref(calls);
    json_decref(reasoning);
    if (done)
        return message;
    json_decref(message);
    return NULL;
}

/* Of a token on average; one without tokens is the least likely. */
static double likelihood(const struct kt_answer *answer)
{
    return answer->n_weighed > 0 ? answer->logprob / (double)answer->n_weighed : -HUGE_VAL;
}

/* Of n answers to a prompt, how many are likelier, or as likely and earlier. */
static int64_t rank(const struct kt_answer *answers, int64_t n, int64_t at)
{
    int64_t before = 0;
    for (int64_t i = 0; i < n; i++) {
        double other = likelihood(&answers[i]), own = likelihood(&answers[at]);
        before += other > own || (i < at && !(other < own));
    }
    return before;
}

/* Answer number `index` of those that are shown: of each prompt the likeliest first, if some are not. */
static struct kt_answer *find_shown(struct kt_job *job, size_t index)
{
    size_t n = (size_t)job->ask.n, n_shown = (size_t)job->ask.n_shown;
    struct kt_answer *answers = &job->answers[index / n_shown * n];
    size_t at = index % n_shown;
    for (size_t i = 0; n_shown < n && i < n; i++)
        if (rank(answers, job->ask.n, (int64_t)i) == (int64_t)(index % n_shown))
            at = i;
    return &answers[at];
}

static json_t *make_reply(struct kt_job *job)
{
    json_t *object = make_object(job, false), *choices = json_array();
    bool done = object && choices;
    size_t n = job->n_answers / (size_t)job->ask.n * (size_t)job->ask.n_shown;
    for (size_t i = 0; done && i < n; i++) {
        struct kt_answer *answer = find_shown(job, i);
        json_t *text = job->ask.is_chat ? make_message(job, answer) : join_text(answer, KT_PIECE_CONTENT);
        done = json_array_append_new(choices, json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)i,
                                                        job->ask.is_chat ? "message" : "text", text,
                                                        "logprobs", take_logprobs(job, answer),
                                                        "finish_reason", answer->finish)) == 0;
    }
    done = done && json_object_set(object, "choices", choices) == 0 &&
           json_object_set_new(object, "usage", make_usage(job)) == 0 &&
           json_object_set_new(object, "timings", kt_shape_timings(job)) == 0;
    json_decref(choices);
    if (done)
        return object;
    json_decref(object);
    return NULL;
}

#define WRITERS                                                                                           \
    .stop = "stop", .open = open_block, .add = add_to_block, .close = close_block, .finish = send_finish, \
    .end = send_end, .error = send_error, .reply = make_reply

const struct kt_dialect kt_dialect_chat = {.is_chat = true,
                                           .id_prefix = "chatcmpl-",
                                           .keeps_text = true,
                                           .translate = kt_custom_translate,
                                           WRITERS};
const struct kt_dialect kt_dialect_completion = {.id_prefix = "cmpl-",
                                                 .translate = kt_native_suffix,
                                                 WRITERS};
