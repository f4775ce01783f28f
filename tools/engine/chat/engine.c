/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - answers by a model in this process. The scheduler keeps what it has computed of a conversation,
 * so that of the next prompt only what is new is computed. */
#include "tools/engine/base/fail.h"
#include "tools/engine/chat/talk.h"
#include "tools/engine/model/config/config.h"
#include "tools/engine/serve/feed.h"
#include "tools/engine/serve/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SESSIONS 4 /* one that answers; the others keep beginnings, of hybrid models at several places */
#define TICK 0.05    /* seconds from one question whether the answer ends to the next */

struct engine {
    struct kt_talk talk;
    struct kt_loaded loaded;
    struct kt_template *chat;
    struct kt_template_info chat_info;
    struct kt_sampling_params sampling;
    struct kt_scheduler *scheduler;
    const struct kt_chat_args *args;
    uint64_t n_sent;
};

/* What makes text of an answer's tokens. */
struct answer {
    struct engine *engine;
    const struct kt_talk_listener *listener;
    struct kt_feed *feed;
    struct kt_ticket *ticket;
    struct kt_detokenizer *detokenizer;
    struct kt_parser *parser;
    struct kt_stop *stop;
    bool has_stopped; /* a stop string */
    double first;
};

/* ---- text ---- */

static enum kt_status add_content(struct answer *a, const char *text, uint64_t length, struct kt_error *error)
{
    int64_t found;
    enum kt_status status = kt_stop_add(a->stop, text, length, &text, &length, &found, error);
    if (status != KT_OK)
        return status;
    if (length > 0)
        a->listener->piece(a->listener->data, KT_TALK_CONTENT, text, length);
    a->has_stopped = found >= 0;
    return KT_OK;
}

static enum kt_status take_events(struct answer *a, const struct kt_parser_event *events, uint64_t n,
                                  struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint64_t i = 0; i < n && status == KT_OK && !a->has_stopped; i++) {
        const struct kt_parser_event *event = &events[i];
        if (event->kind == KT_OUTPUT_CONTENT)
            status = add_content(a, event->text, event->length, error);
        else if (event->length > 0)
            a->listener->piece(a->listener->data,
                               event->kind == KT_OUTPUT_REASONING ? KT_TALK_REASONING : KT_TALK_CALL,
                               event->text, event->length);
    }
    return status;
}

static enum kt_status add_text(struct answer *a, const char *text, uint64_t length, struct kt_error *error)
{
    const struct kt_parser_event *events;
    uint64_t n;
    if (length == 0 || a->has_stopped)
        return KT_OK;
    enum kt_status status = kt_parser_add(a->parser, text, length, &events, &n, error);
    return status == KT_OK ? take_events(a, events, n, error) : status;
}

/* What was held back, when no token follows. */
static enum kt_status flush(struct answer *a, struct kt_error *error)
{
    const struct kt_parser_event *events;
    const char *text;
    uint64_t length, n;
    enum kt_status status = kt_detokenizer_end(a->detokenizer, &text, &length, error);
    if (status == KT_OK)
        status = add_text(a, text, length, error);
    if (status == KT_OK)
        status = kt_parser_end(a->parser, &events, &n, error);
    if (status == KT_OK)
        status = take_events(a, events, n, error);
    if (status != KT_OK || a->has_stopped)
        return status;
    status = kt_stop_end(a->stop, &text, &length, error);
    if (status == KT_OK && length > 0)
        a->listener->piece(a->listener->data, KT_TALK_CONTENT, text, length);
    return status;
}

/* ---- answering ---- */

static json_t *make_variables(const struct engine *e, const json_t *messages)
{
    json_t *variables = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", 1);
    if (variables && e->args->no_think &&
        (json_object_set_new(variables, "enable_thinking", json_false()) != 0 ||
         json_object_set_new(variables, "thinking", json_false()) != 0)) {
        json_decref(variables);
        return NULL;
    }
    if (variables && !kt_chat_add_tokens(e->loaded.tokenizer, variables)) {
        json_decref(variables);
        return NULL;
    }
    return variables;
}

/* Makes a prompt of the messages and puts it into the scheduler's queue. */
static enum kt_status submit(struct engine *e, struct answer *a, const json_t *messages,
                             struct kt_error *error)
{
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_parser_params parser = KT_PARSER_PARAMS_INIT;
    struct kt_sampling_params sampling = e->sampling;
    struct kt_request request = {.max_tokens = e->args->n, .sampling = &sampling};
    int32_t *ids = NULL;
    enum kt_thought thought = KT_THOUGHT_OPEN;
    json_t *variables = make_variables(e, messages);
    if (!variables)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the prompt");
    params.parse_arguments = !e->chat_info.wants_text;
    params.tidy_messages = 1;
    enum kt_status status = kt_prompt_ids(e->loaded.tokenizer, e->chat, variables, &params, &ids,
                                          &request.n_ids, &thought, error);
    json_decref(variables);
    parser.format = kt_chat_format(e->chat_info.format, false);
    parser.starts_reasoning = thought == KT_THOUGHT_BEGUN;
    if (status == KT_OK)
        status = kt_parser_create(&parser, &a->parser, error);
    request.ids = ids;
    sampling.seed += e->n_sent++; /* asked again, it answers something else */
    if (status == KT_OK && !kt_feed_attach(a->feed, 0, NULL, false, &request))
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for the answer");
    else if (status == KT_OK) {
        status = kt_scheduler_submit(e->scheduler, &request, &a->ticket, error);
        if (status != KT_OK)
            kt_feed_cancel(&request);
    }
    kt_ids_free(ids);
    return status;
}

static enum kt_status open_answer(struct engine *e, struct answer *a, const json_t *messages,
                                  struct kt_error *error)
{
    const struct kt_cli_texts *stops = &e->args->sampling.stop;
    struct kt_stop_text texts[sizeof(stops->text) / sizeof(stops->text[0])];
    for (size_t i = 0; i < stops->n; i++)
        texts[i] = (struct kt_stop_text){stops->text[i], strlen(stops->text[i])};
    a->feed = kt_feed_create();
    if (!a->feed)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the answer");
    enum kt_status status = kt_stop_create(texts, stops->n, 0, &a->stop, error);
    if (status == KT_OK) /* the parser reads control tokens */
        status = kt_detokenizer_create(e->loaded.tokenizer, 0, &a->detokenizer, error);
    return status == KT_OK ? submit(e, a, messages, error) : status;
}

static void close_answer(struct answer *a)
{
    if (a->ticket)
        kt_scheduler_cancel(a->ticket);
    kt_ticket_release(a->ticket);
    kt_parser_destroy(a->parser);
    kt_detokenizer_destroy(a->detokenizer);
    kt_stop_destroy(a->stop);
    kt_feed_release(a->feed);
}

static enum kt_status take_token(struct answer *a, int32_t id, struct kt_error *error)
{
    const char *text;
    uint64_t length;
    if (a->first <= 0)
        a->first = kt_cli_now();
    enum kt_status status = kt_detokenizer_add(a->detokenizer, &id, 1, &text, &length, error);
    return status == KT_OK ? add_text(a, text, length, error) : status;
}

/* How an answer that has ended went. */
static enum kt_status take_end(struct answer *a, const struct kt_feed_event *event, bool is_broken,
                               struct kt_talk_end *end, struct kt_error *error)
{
    const struct kt_request_end *told = &event->end;
    if (told->reason == KT_END_ERROR) {
        if (event->error && error)
            *error = *event->error;
        return event->error ? event->error->status : kt_engine_fail(error, KT_E_NOMEM, "out of memory");
    }
    end->n_prompt = told->n_prompt;
    end->n_cached = told->n_cached;
    end->n_answer = told->n_generated;
    if (told->n_generated > 1 && told->decode_ns > 0)
        end->rate = (double)(told->n_generated - 1) / ((double)told->decode_ns * 1e-9);
    end->reason = KT_TALK_STOP;
    if (is_broken)
        end->reason = KT_TALK_BREAK;
    else if (told->reason == KT_END_LENGTH && !a->has_stopped)
        end->reason = KT_TALK_LENGTH;
    return flush(a, error);
}

/* Ends the request at its next token, or behind the slice of its prompt that is being read. */
static void stop_request(struct answer *a, enum kt_status status)
{
    if (status == KT_OK && a->first > 0)
        kt_feed_stop(a->feed);
    else
        kt_scheduler_cancel(a->ticket);
}

/* Hands out pieces until the answer has ended. The scheduler is asked to end it, and then says so. */
static enum kt_status hear(struct answer *a, struct kt_talk_end *end, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    bool is_over = false, is_broken = false;
    while (true) {
        struct kt_feed_event event;
        enum kt_feed_result result = kt_feed_next(a->feed, -1, kt_cli_now() + TICK, &event);
        uint64_t done, total;
        if (result == KT_FEED_GONE)
            return kt_engine_fail(error, KT_E_NOMEM, "no memory for the answer");
        if (result == KT_FEED_EVENT && event.id < 0) {
            if (status == KT_OK)
                status = take_end(a, &event, is_broken, end, error);
            kt_feed_event_free(&event);
            return status;
        }
        if (result == KT_FEED_EVENT && !is_over)
            status = take_token(a, event.id, error);
        if (result == KT_FEED_EVENT)
            kt_feed_event_free(&event);
        kt_feed_progress(a->feed, &done, &total);
        if (!is_over && a->first <= 0)
            a->listener->progress(a->listener->data, done, total);
        is_broken = is_broken || (!is_over && a->listener->stops(a->listener->data));
        if (!is_over && (is_broken || a->has_stopped || status != KT_OK)) {
            is_over = true;
            stop_request(a, status);
        }
    }
}

static enum kt_status send(struct kt_talk *talk, const json_t *messages,
                           const struct kt_talk_listener *listener, struct kt_talk_end *end,
                           struct kt_error *error)
{
    struct engine *e = (struct engine *)talk;
    struct answer a = {.engine = e, .listener = listener};
    double start = kt_cli_now();
    *end = (struct kt_talk_end){.reason = KT_TALK_STOP};
    enum kt_status status = open_answer(e, &a, messages, error);
    if (status == KT_OK)
        status = hear(&a, end, error);
    if (a.first > 0)
        end->first = a.first - start;
    close_answer(&a);
    return status;
}

/* ---- loading ---- */

static void close_engine(struct kt_talk *talk)
{
    struct engine *e = (struct engine *)talk;
    kt_scheduler_destroy(e->scheduler);
    kt_template_destroy(e->chat);
    kt_ids_free((int32_t *)(uintptr_t)e->sampling.dry_breakers);
    kt_loaded_close(&e->loaded);
    free(e);
}

static int open_chat(struct kt_cli *cli, struct engine *e)
{
    struct kt_error error;
    int code = KT_EXIT_OK;
    if (kt_tokenizer_create(e->loaded.checkpoint, &e->loaded.tokenizer, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    if (e->args->chat_template)
        code = kt_chat_read(cli, e->args->chat_template, &e->chat);
    else if (kt_template_open(e->loaded.tokenizer, NULL, &e->chat, &error) != KT_OK)
        return kt_cli_error(cli, "%s; --chat-template gives it one, such as --chat-template chatml",
                            error.message);
    if (code == KT_EXIT_OK && kt_template_info(e->chat, &e->chat_info, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK && e->args->no_think && !e->chat_info.switches_thinking)
        kt_cli_warn(cli, "--no-think: the chat template has no such switch");
    return code;
}

static int open_model(struct kt_cli *cli, struct engine *e)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_engine_config config;
    struct kt_error error;
    if (kt_engine_config_read(e->loaded.checkpoint, &config, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    params.max_tokens = config.context_length < KT_RUN_CONTEXT ? config.context_length : KT_RUN_CONTEXT;
    kt_engine_config_free(&config);
    if (e->args->context > 0)
        params.max_tokens = e->args->context;
    params.cache_tokens = params.max_tokens;
    params.max_sessions = N_SESSIONS;
    params.n_logits = kt_scheduler_rows(1);
    params.cache_dtype = kt_cache_dtypes[e->args->kv];
    params.experts = e->loaded.experts;
    e->talk.context = params.max_tokens;
    return kt_loaded_model(cli, e->loaded.context, e->loaded.checkpoint, &params, &e->loaded.model);
}

static int open_scheduler(const struct kt_cli *cli, struct engine *e)
{
    struct kt_scheduler_params params = {.max_running = 1, .vocabulary = kt_loaded_vocabulary(&e->loaded)};
    struct kt_error error;
    int32_t *ends = kt_loaded_ends(&e->loaded, &params.n_end_ids);
    if (!ends)
        return kt_cli_error(cli, "out of memory");
    params.end_ids = ends;
    enum kt_status status =
        kt_scheduler_create(e->loaded.context, e->loaded.model, &params, &e->scheduler, &error);
    free(ends);
    return status == KT_OK ? KT_EXIT_OK : kt_cli_fail(cli, &error);
}

/* The last part of a path. */
static void set_name(struct engine *e, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    (void)snprintf(e->talk.model, sizeof(e->talk.model), "%.*s", (int)(length - start), path + start);
}

int kt_talk_engine(struct kt_cli *cli, const struct kt_chat_args *args, struct kt_talk **talk)
{
    struct engine *e = kt_cli_alloc(cli, 1, sizeof(*e));
    *e = (struct engine){.talk = {.send = send, .close = close_engine, .room = "kt chat --context"},
                         .args = args};
    set_name(e, cli->arguments[0]);
    int code = kt_cli_context(cli, &e->loaded.context);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(cli, cli->arguments[0], &e->loaded.checkpoint);
    if (code == KT_EXIT_OK && args->experts)
        code = kt_cli_checkpoint(cli, args->experts, &e->loaded.experts);
    if (code == KT_EXIT_OK)
        code = open_chat(cli, e);
    if (code == KT_EXIT_OK)
        code = kt_sampling_choose(cli, &args->sampling, &e->loaded, &e->sampling);
    if (code == KT_EXIT_OK)
        code = open_model(cli, e);
    if (code == KT_EXIT_OK)
        code = open_scheduler(cli, e);
    if (code != KT_EXIT_OK) {
        close_engine(&e->talk);
        return code;
    }
    kt_sampling_text(&e->sampling, e->talk.sampling, sizeof(e->talk.sampling));
    e->talk.is_fixed = e->sampling.temperature == 0;
    *talk = &e->talk;
    return KT_EXIT_OK;
}
