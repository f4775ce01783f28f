/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - answers by a server that speaks OpenAI's API, such as kt run. */
#define _GNU_SOURCE

#include "tools/engine/base/fail.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/chat/sse.h"
#include "tools/engine/chat/talk.h"
#include "tools/engine/serve/guard.h"
#include "tools/engine/serve/problem.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define TICK 50                     /* milliseconds from one question whether the answer ends to the next */
#define MOST_BODY ((size_t)1 << 20) /* bytes of a reply that is not a stream */

struct client {
    struct kt_talk talk;
    CURL *curl;
    CURLM *multi;
    struct curl_slist *headers;
    json_t *fields; /* of every request */
    char *base;     /* the URL up to /v1 */
    bool is_local;
    const struct kt_chat_args *args;
    uint64_t n_sent;
    char problem[CURL_ERROR_SIZE];
};

/* A reply while it comes. */
struct reply {
    struct client *client;
    const struct kt_talk_listener *listener; /* NULL: it is no answer */
    struct kt_talk_end *end;
    struct kt_sse sse;
    struct kt_buffer body; /* where it is not a stream */
    enum kt_status status;
    struct kt_error *error;
    double start, first, last;
    uint64_t n_pieces;
    bool has_finished, is_done; /* the model has; [DONE] came */
};

/* ---- events ---- */

static void hand_out(struct reply *reply, enum kt_talk_kind kind, const json_t *text)
{
    if (json_string_length(text) == 0)
        return;
    reply->last = kt_cli_now();
    if (reply->n_pieces++ == 0)
        reply->first = reply->last;
    reply->listener->piece(reply->listener->data, kind, json_string_value(text), json_string_length(text));
}

static void take_delta(struct reply *reply, const json_t *delta)
{
    const json_t *calls = json_object_get(delta, "tool_calls"), *call;
    size_t i;
    hand_out(reply, KT_TALK_REASONING, json_object_get(delta, "reasoning_content"));
    hand_out(reply, KT_TALK_REASONING, json_object_get(delta, "reasoning"));
    hand_out(reply, KT_TALK_CONTENT, json_object_get(delta, "content"));
    json_array_foreach (calls, i, call) {
        const json_t *function = json_object_get(call, "function");
        hand_out(reply, KT_TALK_CALL, json_object_get(function, "name"));
        hand_out(reply, KT_TALK_CALL, json_object_get(function, "arguments"));
    }
}

static uint64_t read_count(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static void take_usage(struct reply *reply, const json_t *event)
{
    const json_t *usage = json_object_get(event, "usage");
    const json_t *rate = json_object_get(json_object_get(event, "timings"), "predicted_per_second");
    if (json_is_object(usage)) {
        reply->end->n_prompt = read_count(usage, "prompt_tokens");
        reply->end->n_answer = read_count(usage, "completion_tokens");
        reply->end->n_cached = read_count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    }
    if (json_is_number(rate) && json_number_value(rate) > 0)
        reply->end->rate = json_number_value(rate);
}

/* What a server says is wrong; NULL: it does not. */
static const char *find_message(const json_t *object)
{
    static const char *const names[] = {"message", "detail", "status"};
    const json_t *error = json_object_get(object, "error");
    if (json_is_string(error))
        return json_string_value(error);
    const json_t *within = json_is_object(error) ? error : object;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = json_string_value(json_object_get(within, names[i]));
        if (text && *text)
            return text;
    }
    return NULL;
}

/* JSON of a server's bytes, with U+FFFD for what is not UTF-8. */
static json_t *parse(const char *text, size_t length, json_error_t *place)
{
    json_t *mended = kt_json_text(text, length);
    json_t *value = json_loadb(json_string_value(mended), json_string_length(mended), JSON_ALLOW_NUL, place);
    json_decref(mended);
    return value;
}

/* The code unit of an escape \uXXXX; UINT32_MAX: there is none. */
static uint32_t read_unit(const char *text, const char *end)
{
    char digits[5] = "";
    if (end - text < 6 || text[0] != '\\' || text[1] != 'u')
        return UINT32_MAX;
    memcpy(digits, text + 2, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (uint32_t)strtoul(digits, NULL, 16) : UINT32_MAX;
}

/* Halves of characters, as servers send them that cut text within one: U+FFFD in their place. */
static void mend_halves(char *text, size_t length)
{
    char *end = text + length;
    for (char *c = memchr(text, '\\', length); c && c < end; c = memchr(c, '\\', (size_t)(end - c))) {
        uint32_t unit = read_unit(c, end), next = unit == UINT32_MAX ? 0 : read_unit(c + 6, end);
        bool is_pair = unit >= 0xd800 && unit < 0xdc00 && next >= 0xdc00 && next < 0xe000;
        if (!is_pair && unit >= 0xd800 && unit < 0xe000)
            memcpy(c + 2, "fffd", 4);
        c += unit == UINT32_MAX ? 2 : is_pair ? 12 : 6;
        if (c > end)
            break;
    }
}

static enum kt_status take_event(void *user, char *data, size_t length, struct kt_error *error)
{
    struct reply *reply = user;
    json_error_t place;
    if (reply->is_done)
        return KT_OK;
    reply->is_done = strcmp(data, "[DONE]") == 0;
    if (reply->is_done)
        return KT_OK;
    mend_halves(data, length);
    json_t *event = parse(data, length, &place);
    if (!json_is_object(event)) {
        json_decref(event);
        return kt_engine_fail(error, KT_E_FORMAT, "the server sent an event that is not a JSON object: %.80s",
                              data);
    }
    enum kt_status status = KT_OK;
    const json_t *wrong = json_object_get(event, "error");
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    if (wrong && !json_is_null(wrong)) {
        const char *message = find_message(event);
        status = kt_engine_fail(error, KT_E_STATE, "the server aborted the response: %s",
                                message ? message : "no reason given");
    } else {
        take_delta(reply, json_object_get(choice, "delta"));
        take_usage(reply, event);
        reply->has_finished |= finish != NULL;
        if (finish && strcmp(finish, "length") == 0)
            reply->end->reason = KT_TALK_LENGTH;
    }
    json_decref(event);
    return status;
}

static bool is_stream(struct client *client)
{
    static const char wanted[] = "text/event-stream";
    const char *type = NULL;
    long code = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(client->curl, CURLINFO_CONTENT_TYPE, &type);
    return code == 200 && type && strncasecmp(type, wanted, sizeof(wanted) - 1) == 0;
}

static size_t take_bytes(char *bytes, size_t size, size_t n, void *user)
{
    struct reply *reply = user;
    (void)size;
    if (reply->listener && is_stream(reply->client)) {
        reply->status = kt_sse_add(&reply->sse, bytes, n, take_event, reply, reply->error);
    } else if (reply->body.length + n > MOST_BODY) {
        reply->status = kt_engine_fail(reply->error, KT_E_RANGE, "the server's reply is larger than %zu MiB",
                                       MOST_BODY >> 20);
    } else if (!kt_buffer_add(&reply->body, bytes, n)) {
        reply->status = kt_engine_fail(reply->error, KT_E_NOMEM, "no memory for the server's reply");
    }
    return reply->status == KT_OK ? n : 0;
}

/* ---- requests ---- */

/* Of a transfer that failed: what, where, and what to do. */
static enum kt_status fail_transfer(struct reply *reply, CURLcode code)
{
    const struct client *client = reply->client;
    const char *why = *client->problem ? client->problem : curl_easy_strerror(code);
    if (reply->status != KT_OK)
        return reply->status; /* take_bytes has said it */
    long reason = 0;
    curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &reason);
    if (code == CURLE_COULDNT_CONNECT)
        return kt_engine_fail(reply->error, KT_E_IO,
                              "no server answers at %s (%s); 'kt run MODEL' starts one, and 'kt chat MODEL' "
                              "needs none",
                              client->talk.where, reason ? strerror((int)reason) : why);
    if (code == CURLE_GOT_NOTHING || code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR)
        return kt_engine_fail(reply->error, KT_E_IO, "the server at %s hung up%s (%s)", client->talk.where,
                              reply->n_pieces > 0 ? " in the middle of its answer" : "", why);
    if (code == CURLE_OUT_OF_MEMORY)
        return kt_engine_fail(reply->error, KT_E_NOMEM,
                              "%s: there is no memory, or a header of the reply is too long",
                              client->talk.where);
    return kt_engine_fail(reply->error, KT_E_IO, "%s: %s", client->talk.where, why);
}

/* Moves bytes until the reply is whole, or the listener has enough. */
static enum kt_status move(struct reply *reply)
{
    struct client *client = reply->client;
    const struct kt_talk_listener *listener = reply->listener;
    for (;;) {
        int n_running, n_left;
        if (curl_multi_perform(client->multi, &n_running) != CURLM_OK)
            return kt_engine_fail(reply->error, KT_E_IO, "%s: libcurl fails", client->talk.where);
        const CURLMsg *message = curl_multi_info_read(client->multi, &n_left);
        if (message && message->msg == CURLMSG_DONE && !reply->is_done && message->data.result != CURLE_OK)
            return fail_transfer(reply, message->data.result);
        if (message || reply->is_done)
            return reply->status;
        if (listener && listener->stops(listener->data)) {
            reply->end->reason = KT_TALK_BREAK;
            return KT_OK;
        }
        (void)curl_multi_poll(client->multi, NULL, 0, TICK, NULL);
    }
}

/* Asks for BASE/v1PATH; `body` NULL: by GET. Sets *code to the status of HTTP. */
static enum kt_status ask(struct client *client, const char *path, const char *body, struct reply *reply,
                          long *code)
{
    char *url;
    if (asprintf(&url, "%s%s", client->base, path) < 0)
        return kt_engine_fail(reply->error, KT_E_NOMEM, "out of memory");
    curl_easy_reset(client->curl);
    *client->problem = '\0';
    curl_easy_setopt(client->curl, CURLOPT_URL, url);
    curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, client->problem);
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, reply);
    curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, 20L);
    curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(client->curl, CURLOPT_USERAGENT, "kt-chat");
    curl_easy_setopt(client->curl, CURLOPT_ACCEPT_ENCODING,
                     "identity"); /* some compress nevertheless: read it */
    if (client->is_local)
        curl_easy_setopt(client->curl, CURLOPT_PROXY, "");
    if (body)
        curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body);
    enum kt_status status = KT_OK;
    if (curl_multi_add_handle(client->multi, client->curl) == CURLM_OK)
        status = move(reply);
    else
        status = kt_engine_fail(reply->error, KT_E_NOMEM, "out of memory");
    *code = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, code);
    curl_multi_remove_handle(client->multi, client->curl); /* closes what was not read to its end */
    free(url);
    return status;
}

/* The server's own words for a status that is not 200. */
static enum kt_status fail_status(const struct reply *reply, long code)
{
    json_error_t place;
    json_t *body = parse(reply->body.data ? reply->body.data : "", reply->body.length, &place);
    const char *message = find_message(body);
    char moved[256] = "", *to = NULL;
    curl_easy_getinfo(reply->client->curl, CURLINFO_REDIRECT_URL, &to);
    if (to && !message)
        (void)snprintf(moved, sizeof(moved), "it has moved to %.160s; --host takes a URL", to);
    const char *word = json_string_value(json_object_get(json_object_get(body, "error"), "code"));
    const char *advice = code == 401 || code == 403 ? "; --api-key or KT_API_KEY gives it a key" : "";
    enum kt_status status =
        kt_engine_fail(reply->error,
                       word && strcmp(word, "context_length_exceeded") == 0 ? KT_E_RANGE : KT_E_STATE,
                       "the server at %s returned status %ld: %s%s", reply->client->talk.where, code,
                       message  ? message
                       : *moved ? moved
                                : "no reason given",
                       advice);
    json_decref(body);
    return status;
}

/* ---- answers ---- */

static char *make_body(struct client *client, const json_t *messages)
{
    json_t *body = json_copy(client->fields);
    const json_t *seed = json_object_get(body, "seed");
    char *text = NULL;
    bool done = body != NULL && json_object_set(body, "messages", (json_t *)(uintptr_t)messages) == 0;
    if (done && seed) /* asked again, it answers something else */
        done = json_object_set_new(body, "seed",
                                   json_integer(json_integer_value(seed) + (json_int_t)client->n_sent)) == 0;
    client->n_sent++;
    if (done)
        text = kt_json_dump(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

static enum kt_status judge_end(struct reply *reply, long code)
{
    struct kt_talk_end *end = reply->end;
    if (end->reason == KT_TALK_BREAK)
        return KT_OK;
    if (code != 200)
        return fail_status(reply, code);
    if (reply->body.length > 0)
        return kt_engine_fail(reply->error, KT_E_FORMAT,
                              "the server at %s did not send a stream; it may not implement the OpenAI API",
                              reply->client->talk.where);
    if (!reply->is_done && !reply->has_finished)
        return kt_engine_fail(reply->error, KT_E_IO, "the server at %s hung up in the middle of its answer",
                              reply->client->talk.where);
    return KT_OK;
}

static enum kt_status answer(struct kt_talk *talk, const json_t *messages,
                             const struct kt_talk_listener *listener, struct kt_talk_end *end,
                             struct kt_error *error)
{
    struct client *client = (struct client *)talk;
    struct reply reply = {.client = client,
                          .listener = listener,
                          .end = end,
                          .error = error,
                          .start = kt_cli_now()};
    long code;
    *end = (struct kt_talk_end){.reason = KT_TALK_STOP};
    char *body = make_body(client, messages);
    if (!body)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the request");
    enum kt_status status = ask(client, "/chat/completions", body, &reply, &code);
    if (status == KT_OK)
        status = judge_end(&reply, code);
    if (reply.n_pieces > 0)
        end->first = reply.first - reply.start;
    if (end->rate <= 0 && end->n_answer > 1 && reply.last > reply.first + 0.01) /* else it came at once */
        end->rate = (double)(end->n_answer - 1) / (reply.last - reply.first);
    free(body);
    kt_sse_free(&reply.sse);
    kt_buffer_free(&reply.body);
    return status;
}

/* ---- opening ---- */

static void close_client(struct kt_talk *talk)
{
    struct client *client = (struct client *)talk;
    if (client->multi)
        curl_multi_cleanup(client->multi);
    if (client->curl)
        curl_easy_cleanup(client->curl);
    curl_slist_free_all(client->headers);
    json_decref(client->fields);
    free(client->base);
    free(client);
    curl_global_cleanup();
}

/* Whether the URL's host is this machine, which needs no proxy. False, too, if it is not a URL. */
static bool is_local(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL;
    bool is_own = false;
    if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        is_own = kt_host_is_local(host) || strcmp(host, "[::1]") == 0;
    curl_free(host);
    curl_url_cleanup(parts);
    return is_own;
}

/* "127.0.0.1" -> http://127.0.0.1:30000/v1; a URL gets /v1 unless it ends so. */
static bool set_base(struct client *client)
{
    const char *host = client->args->host;
    size_t length = strlen(host);
    bool is_url = strstr(host, "://") != NULL, is_v6 = !is_url && strchr(host, ':') && *host != '[';
    char *server;
    while (is_url && length > 0 && host[length - 1] == '/')
        length--;
    int n = is_url ? asprintf(&server, "%.*s", (int)length, host)
                   : asprintf(&server, "http://%s%s%s:%d", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                              (int)client->args->port);
    if (n < 0)
        return false;
    (void)snprintf(client->talk.where, sizeof(client->talk.where), "%s", server);
    bool has_version = n >= 3 && strcmp(server + n - 3, "/v1") == 0;
    n = asprintf(&client->base, "%s%s", server, has_version ? "" : "/v1");
    client->is_local = is_local(server);
    free(server);
    return n >= 0;
}

static int add_header(const struct kt_cli *cli, struct client *client, const char *text)
{
    struct curl_slist *grown = curl_slist_append(client->headers, text);
    if (!grown)
        return kt_cli_error(cli, "out of memory");
    client->headers = grown;
    return KT_EXIT_OK;
}

static int set_headers(const struct kt_cli *cli, struct client *client)
{
    const char *key = client->args->key ? client->args->key : getenv("KT_API_KEY");
    int code = add_header(cli, client, "Content-Type: application/json");
    if (code == KT_EXIT_OK) /* else libcurl asks first whether a long conversation may be sent */
        code = add_header(cli, client, "Expect:");
    if (code != KT_EXIT_OK || !key || !*key)
        return code;
    for (const char *c = key; *c; c++)
        if (*c <= ' ' || *c > '~')
            return kt_cli_usage(cli, "the API key has a character that no header can have");
    char *header = kt_cli_format(cli, "Authorization: Bearer %s", key);
    code = add_header(cli, client, header);
    explicit_bzero(header, strlen(header));
    free(header);
    return code;
}

static int set_fields(const struct kt_cli *cli, struct client *client)
{
    const struct kt_chat_args *args = client->args;
    client->fields = json_pack("{s:b, s:{s:b}}", "stream", 1, "stream_options", "include_usage", 1);
    bool done = client->fields != NULL;
    if (done && args->n > 0)
        done = json_object_set_new(client->fields, "max_tokens", json_integer((json_int_t)args->n)) == 0;
    if (done && args->no_think)
        done = json_object_set_new(client->fields, "chat_template_kwargs",
                                   json_pack("{s:b, s:b}", "enable_thinking", 0, "thinking", 0)) == 0;
    int code =
        done ? kt_sampling_fields(cli, &args->sampling, client->fields) : kt_cli_error(cli, "out of memory");
    (void)snprintf(client->talk.sampling, sizeof(client->talk.sampling),
                   "the server's choice, but for the options given here");
    client->talk.is_fixed = args->sampling.temperature == 0;
    return code;
}

/* Which of the models is to answer: the one that was named, or the first. */
static bool choose_model(struct client *client, const json_t *list)
{
    const char *wished = client->args->model;
    const json_t *model, *chosen = NULL;
    size_t i;
    json_array_foreach (json_object_get(list, "data"), i, model) {
        const char *id = json_string_value(json_object_get(model, "id"));
        if (id && !chosen && (!wished || strcmp(id, wished) == 0))
            chosen = model;
    }
    const char *name = wished ? wished : json_string_value(json_object_get(chosen, "id"));
    (void)snprintf(client->talk.model, sizeof(client->talk.model), "%s", name ? name : "");
    client->talk.context = read_count(chosen, "max_model_len");
    return !name || json_object_set_new(client->fields, "model", json_string(name)) == 0;
}

/* Asks for the models; waits while the server loads one. A server that has no such list may still answer. */
static int find_model(struct kt_cli *cli, struct client *client)
{
    for (bool has_said = false;; has_said = true) {
        const struct timespec pause = {.tv_nsec = 500000000};
        struct kt_error error;
        struct reply reply = {.client = client, .error = &error};
        json_error_t place;
        long code;
        enum kt_status status = ask(client, "/models", NULL, &reply, &code);
        if (status == KT_OK && code != 200 && code != 404 && code != 405 && code != 503)
            status = fail_status(&reply, code);
        json_t *list = parse(reply.body.data ? reply.body.data : "", reply.body.length, &place);
        const char *message = find_message(list);
        bool is_loading = status == KT_OK && code == 503 && message && strstr(message, "load");
        if (status == KT_OK && code == 503 && !is_loading)
            status = fail_status(&reply, code);
        if (status == KT_OK && !is_loading && !choose_model(client, list))
            status = kt_engine_fail(&error, KT_E_INVALID, "--model is not UTF-8, or there is no memory");
        json_decref(list);
        kt_buffer_free(&reply.body);
        if (status != KT_OK)
            return kt_cli_fail(cli, &error);
        if (!is_loading)
            return KT_EXIT_OK;
        if (!has_said)
            kt_cli_note(cli, "the server at %s is loading its model; Ctrl-C ends the waiting",
                        client->talk.where);
        (void)nanosleep(&pause, NULL);
    }
}

int kt_talk_client(struct kt_cli *cli, const struct kt_chat_args *args, struct kt_talk **talk)
{
    struct client *client = kt_cli_alloc(cli, 1, sizeof(*client));
    *client = (struct client){.talk = {.send = answer, .close = close_client, .room = "kt run --context"},
                              .args = args};
    int code = KT_EXIT_OK;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == 0) {
        client->curl = curl_easy_init();
        client->multi = curl_multi_init();
    }
    if (!client->curl || !client->multi || !set_base(client))
        code = kt_cli_error(cli, "cannot use libcurl, or no memory");
    if (code == KT_EXIT_OK)
        code = set_headers(cli, client);
    if (code == KT_EXIT_OK)
        code = set_fields(cli, client);
    if (code == KT_EXIT_OK)
        code = find_model(cli, client);
    if (code != KT_EXIT_OK) {
        close_client(&client->talk);
        return code;
    }
    *talk = &client->talk;
    return KT_EXIT_OK;
}
