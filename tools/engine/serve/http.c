/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/serve/http.h"
#include "tools/engine/base/dump.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/serve/connections.h"
#include "tools/engine/serve/listen.h"
#include "tools/engine/serve/server.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A thread's stack: a template takes up to 256 KiB of it, and sanitizers several times as much. */
#define STACK_SIZE (UINT64_C(2) << 20)
#define BLOCK_SIZE 16384

struct kt_http {
    struct MHD_Daemon *daemon;
    struct kt_connections *connections;
    uint16_t port;
    _Atomic unsigned n_running;
};

/* ---- one request ---- */

static void copy_printable(char *to, size_t size, const char *from)
{
    size_t n = 0;
    for (; from[n] && n + 1 < size; n++)
        to[n] = from[n] > ' ' && from[n] < 127 && from[n] != '"' ? from[n] : '?';
    to[n] = '\0';
}

static void find_address(struct kt_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || getnameinfo(info->client_addr,
                             info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                      : sizeof(struct sockaddr_in),
                             exchange->address, sizeof(exchange->address), NULL, 0, NI_NUMERICHOST) != 0)
        strcpy(exchange->address, "?");
}

static void free_exchange(struct kt_exchange *exchange)
{
    if (!exchange)
        return;
    kt_head_free(&exchange->head);
    kt_buffer_free(&exchange->body);
    free(exchange);
}

static struct kt_exchange *open_exchange(struct kt_server *server, struct MHD_Connection *connection,
                                         const char *method)
{
    struct kt_exchange *exchange = calloc(1, sizeof(*exchange));
    if (!exchange || !kt_head_read(&exchange->head, connection)) {
        free_exchange(exchange);
        return NULL;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    exchange->server = server;
    exchange->model = server->models.list;
    exchange->connection = connection;
    exchange->fd = info ? info->connect_fd : -1;
    exchange->start = kt_cli_now();
    copy_printable(exchange->method, sizeof(exchange->method), method);
    find_address(exchange);
    return exchange;
}

static struct kt_connection *find_connection(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void notice_connection(void *data, struct MHD_Connection *connection, void **slot,
                              enum MHD_ConnectionNotificationCode code)
{
    struct kt_http *http = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *slot = kt_connection_find(http->connections,
                                   MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                                       ->connect_fd);
    else if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        kt_connection_close(*slot);
}

/* One line for each request, with nothing of what was said, by one write: lines of threads do not mix. */
static void log_exchange(const struct kt_exchange *exchange, bool is_whole)
{
    char line[512];
    if (exchange->server->log < KT_SERVE_LOG_ACCESS)
        return;
    int length = snprintf(line, sizeof(line), "kt run: %s \"%s %s\" %u %.3f s%s%s%s\n", exchange->address,
                          exchange->method, exchange->path, exchange->status, kt_cli_now() - exchange->start,
                          *exchange->about ? " " : "", exchange->about, is_whole ? "" : " (hung up)");
    if (length > 0)
        (void)kt_progress_log(line, (size_t)length);
}

static void end_exchange(void *data, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct kt_exchange *exchange = *slot;
    (void)data;
    if (!exchange)
        return;
    *slot = NULL;
    if (!exchange->status && code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED)
        exchange->status = 408; /* of the body nothing came any more */
    bool is_whole = code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !exchange->hung_up;
    if (exchange->status) {
        log_exchange(exchange, is_whole);
        kt_metrics_count(&exchange->server->metrics, exchange->status, kt_cli_now() - exchange->start,
                         !is_whole);
    }
    kt_connection_rest(find_connection(connection));
    if (exchange->is_counted)
        atomic_fetch_sub(&exchange->server->http->n_running, 1);
    kt_body_done(exchange);
    free_exchange(exchange);
}

void kt_exchange_wait(struct kt_exchange *exchange, bool waits)
{
    MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              waits ? 0U : exchange->server->timeout);
}

/* ---- replies ---- */

static void add_headers(const struct kt_exchange *exchange, struct MHD_Response *response, const char *type)
{
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (exchange->server->origin)
        MHD_add_response_header(response, "Access-Control-Allow-Origin", exchange->server->origin);
    if (exchange->closes || kt_server_state(exchange->server) >= KT_SERVER_DRAINING)
        MHD_add_response_header(response, "Connection", "close");
}

static bool queue(struct kt_exchange *exchange, unsigned status, struct MHD_Response *response)
{
    exchange->status = status;
    enum MHD_Result result = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    return result == MHD_YES;
}

bool kt_reply_bytes(struct kt_exchange *exchange, unsigned status, const char *type, const char *bytes,
                    size_t length)
{
    /* The library only reads it, and copies it. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return false;
    add_headers(exchange, response, type);
    return queue(exchange, status, response);
}

bool kt_reply_buffer(struct kt_exchange *exchange, unsigned status, struct kt_buffer *json)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(json->length, json->data, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        kt_buffer_free(json);
        return false;
    }
    *json = (struct kt_buffer){.data = NULL};
    add_headers(exchange, response, "application/json");
    return queue(exchange, status, response);
}

bool kt_reply_page(struct kt_exchange *exchange, const char *type, const char *page, size_t length)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)page, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return false;
    add_headers(exchange, response, type);
    MHD_add_response_header(response, "Cache-Control", "no-cache"); /* a newer server has other parts */
    /* It loads nothing from elsewhere, runs nothing but its file, and no other page may frame it. */
    MHD_add_response_header(
        response, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'");
    return queue(exchange, 200, response);
}

static struct MHD_Response *make_json(json_t *body)
{
    char *text = body ? kt_json_dump(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return NULL;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(text);
    return response;
}

bool kt_reply_json(struct kt_exchange *exchange, unsigned status, json_t *body)
{
    struct MHD_Response *response = make_json(body);
    if (!response)
        return kt_reply_bytes(exchange, 500, "text/plain", "out of memory\n", 14);
    add_headers(exchange, response, "application/json");
    return queue(exchange, status, response);
}

/* For the log, the code and the field of what is wrong, as the message may hold what was sent; where there
 * are none, the message. */
static void note_problem(struct kt_exchange *exchange, const struct kt_problem *problem)
{
    char param[sizeof(problem->param)], message[120];
    const char *code = problem->code ? problem->code : "";
    unsigned n = 0;
    copy_printable(param, sizeof(param), problem->param);
    for (; n < problem->told && n + 1 < sizeof(message) && problem->message[n]; n++)
        message[n] =
            (char)(problem->message[n] >= ' ' && problem->message[n] < 127 ? problem->message[n] : '?');
    message[n] = '\0';
    if (!*exchange->about && (*code || *param))
        (void)snprintf(exchange->about, sizeof(exchange->about), "(%s%s%s)", code, *code && *param ? " " : "",
                       param);
    else if (!*exchange->about)
        (void)snprintf(exchange->about, sizeof(exchange->about), "(%s)", message);
}

bool kt_reply_problem(struct kt_exchange *exchange, const struct kt_problem *problem)
{
    char seconds[16];
    json_t *(*word)(const struct kt_problem *problem) = kt_problem_json;
    if (exchange->route && exchange->route->problem)
        word = exchange->route->problem;
    else if (strncmp(exchange->path, "/api/", 5) == 0)
        word = kt_ollama_problem;
    note_problem(exchange, problem);
    struct MHD_Response *response = make_json(word(problem));
    if (!response)
        return kt_reply_bytes(exchange, 500, "text/plain", "out of memory\n", 14);
    add_headers(exchange, response, "application/json");
    if (problem->retry_after) {
        (void)snprintf(seconds, sizeof(seconds), "%u", problem->retry_after);
        MHD_add_response_header(response, "Retry-After", seconds);
    }
    if (problem->status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (problem->status == 405 && exchange->route)
        MHD_add_response_header(response, "Allow", exchange->route->method);
    return queue(exchange, problem->status, response);
}

bool kt_reply_hung_up(struct kt_exchange *exchange)
{
    exchange->status = 499; /* as other servers call it in their logs */
    return false;
}

/* ---- streams ---- */

struct sending {
    struct kt_stream stream;
    struct kt_buffer out;
    size_t sent;
    bool is_last;
};

static ssize_t send_more(void *data, uint64_t position, char *to, size_t room)
{
    struct sending *sending = data;
    (void)position;
    while (sending->sent == sending->out.length) {
        if (sending->is_last)
            return MHD_CONTENT_READER_END_OF_STREAM;
        sending->sent = sending->out.length = 0;
        sending->is_last = !sending->stream.next(sending->stream.data, &sending->out);
    }
    size_t n = sending->out.length - sending->sent;
    n = n < room ? n : room;
    memcpy(to, sending->out.data + sending->sent, n);
    sending->sent += n;
    return (ssize_t)n;
}

static void end_sending(void *data)
{
    struct sending *sending = data;
    sending->stream.end(sending->stream.data);
    kt_buffer_free(&sending->out);
    free(sending);
}

bool kt_reply_stream(struct kt_exchange *exchange, const struct kt_stream *stream)
{
    struct sending *sending = calloc(1, sizeof(*sending));
    struct MHD_Response *response = NULL;
    if (sending) {
        sending->stream = *stream;
        response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, send_more, sending, end_sending);
    }
    if (!response) {
        stream->end(stream->data);
        free(sending);
        return false;
    }
    add_headers(exchange, response, stream->type ? stream->type : "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* proxies pass each event on at once */
    return queue(exchange, 200, response);
}

/* ---- requests ---- */

/* A browser asks so whether a page of another origin may send a request; kt_head_check_open has said yes. */
static enum MHD_Result answer_preflight(struct kt_exchange *exchange)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", exchange->server->origin);
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
    MHD_add_response_header(response, "Access-Control-Allow-Headers", kt_head_allowed(&exchange->head));
    MHD_add_response_header(response, "Vary", "Access-Control-Request-Headers");
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    return queue(exchange, 204, response) ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse(struct kt_exchange *exchange, const struct kt_problem *problem)
{
    return kt_reply_problem(exchange, problem) ? MHD_YES : MHD_NO;
}

/* A part of the body. What is too long is read a while and forgotten, so that the client hears why. */
static enum MHD_Result take_body(struct kt_exchange *exchange, const char *bytes, size_t *length)
{
    uint64_t most = exchange->server->max_body;
    if (kt_cli_now() - exchange->start > exchange->server->timeout) {
        if (!exchange->status)
            exchange->status = 408; /* for the log: while a body comes no reply can be queued */
        return MHD_NO;
    }
    /* Nobody reads it: the request is answered already, or it is one of those that need no key. */
    if (exchange->status || strcmp(exchange->route->method, "GET") == 0) {
        *length = 0;
        return MHD_YES;
    }
    if (exchange->body.length + *length > most)
        exchange->is_large = true;
    if (exchange->is_large && exchange->body.length + *length > 2 * most + 65536) {
        exchange->status = 413;
        return MHD_NO;
    }
    if (exchange->is_large)
        exchange->body.length += *length; /* counted only */
    else if (!kt_buffer_add(&exchange->body, bytes, *length))
        return MHD_NO;
    *length = 0;
    return MHD_YES;
}

/* A request's head is there. */
static enum MHD_Result begin(struct kt_exchange *exchange, const char *target, const char *method,
                             const char *version)
{
    const struct kt_server *server = exchange->server;
    struct kt_admission admission;
    struct kt_problem problem;
    kt_connection_work(find_connection(exchange->connection), &admission);
    exchange->is_counted = true;
    atomic_fetch_add(&server->http->n_running, 1);
    const char *path = kt_head_path(&exchange->head, target);
    copy_printable(exchange->path, sizeof(exchange->path), path ? path : target);
    if (!kt_head_check_open(exchange, version, path, &admission, &problem))
        return refuse(exchange, &problem);
    if (server->origin && strcmp(method, "OPTIONS") == 0)
        return answer_preflight(exchange);
    return kt_head_check(exchange, method, path, &problem) ? MHD_YES : refuse(exchange, &problem);
}

static enum MHD_Result handle(void *data, struct MHD_Connection *connection, const char *target,
                              const char *method, const char *version, const char *bytes, size_t *length,
                              void **slot)
{
    struct kt_exchange *exchange = *slot;
    struct kt_problem problem;
    if (!exchange) {
        *slot = exchange = open_exchange(data, connection, method);
        return exchange ? begin(exchange, target, method, version) : MHD_NO;
    }
    if (*length > 0)
        return take_body(exchange, bytes, length);
    if (exchange->status)
        return MHD_YES;
    if (!kt_head_check_length(exchange, &problem))
        return refuse(exchange, &problem);
    return exchange->route->answer(exchange) ? MHD_YES : MHD_NO;
}

/* ---- the daemon ---- */

/* A path with a zero byte would end there for us, but not for a proxy: it stays as it was sent, and is no
 * path. */
static size_t unescape(void *data, struct MHD_Connection *connection, char *text)
{
    (void)data;
    (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static void log_library(void *data, const char *format, va_list arguments)
{
    struct kt_server *server = data;
    if (server->log < KT_SERVE_LOG_DEBUG)
        return;
    kt_progress_clear();
    (void)vfprintf(stderr, format, arguments);
}

static bool take_connection(void *data, int fd, const struct sockaddr *address, socklen_t length)
{
    struct kt_http *http = data;
    return MHD_add_connection(http->daemon, fd, address, length) == MHD_YES;
}

/* The library does not listen: it would close connections above its limit, and without files wait for one
 * that ends, where an idle one can be ended. It has a limit all the same, above that of connections.c, as it
 * counts those that it has closed a moment longer. */
static struct MHD_Daemon *start_daemon(struct kt_server *server, const struct kt_http_params *params,
                                       struct kt_http *http)
{
    return MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                                MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG,
                            0, NULL, NULL, handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_library, server,
                            MHD_OPTION_CONNECTION_LIMIT, 2 * kt_connections_limit(params->max_connections),
                            MHD_OPTION_CONNECTION_TIMEOUT, params->timeout, MHD_OPTION_THREAD_STACK_SIZE,
                            (size_t)STACK_SIZE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536,
                            MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED,
                            end_exchange, NULL, MHD_OPTION_NOTIFY_CONNECTION, notice_connection, http,
                            MHD_OPTION_END);
}

enum kt_status kt_http_start(struct kt_server *server, const struct kt_http_params *params,
                             struct kt_http **http, struct kt_error *error)
{
    struct kt_connections_params connections = {.most = params->max_connections,
                                                .timeout = params->timeout,
                                                .take = take_connection};
    connections.fd = kt_listen(params->host, params->port, error);
    if (connections.fd < 0)
        return error->status;
    struct kt_http *own = connections.data = calloc(1, sizeof(*own));
    if (!own) {
        close(connections.fd);
        return kt_engine_fail(error, KT_E_NOMEM, "out of memory");
    }
    own->port = kt_listen_port(connections.fd);
    enum kt_status status = kt_connections_create(&connections, &own->connections, error);
    if (status == KT_OK && !(own->daemon = start_daemon(server, params, own)))
        status = kt_engine_fail(error, KT_E_SYSTEM, "cannot start the HTTP server: %s", strerror(errno));
    *http = own; /* requests may come before this returns */
    if (status == KT_OK)
        status = kt_connections_start(own->connections, error);
    if (status != KT_OK) {
        kt_http_stop(own);
        *http = NULL;
    }
    return status;
}

void kt_http_quiesce(struct kt_http *http)
{
    kt_connections_quiesce(http->connections);
}

void kt_http_stop(struct kt_http *http)
{
    if (!http)
        return;
    if (http->connections)
        kt_connections_stop(http->connections);
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    if (http->connections)
        kt_connections_free(http->connections);
    free(http);
}

uint16_t kt_http_port(const struct kt_http *http)
{
    return http->port;
}

unsigned kt_http_running(const struct kt_http *http)
{
    return atomic_load(&http->n_running);
}
