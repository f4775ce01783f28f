/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/head.h"
#include "tools/engine/serve/connections.h"
#include "tools/engine/serve/server.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- headers ---- */

static const char *const names[KT_N_HEADERS] = {
    [KT_HEADER_HOST] = "Host",
    [KT_HEADER_LENGTH] = "Content-Length",
    [KT_HEADER_CODING] = "Transfer-Encoding",
    [KT_HEADER_ORIGIN] = "Origin",
    [KT_HEADER_AUTHORIZATION] = "Authorization",
    [KT_HEADER_KEY] = "X-Api-Key",
    [KT_HEADER_ASKED] = "Access-Control-Request-Headers",
};

static char *copy_trimmed(const char *text)
{
    static const char blanks[] = " \t";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    return strndup(text, length);
}

/* The library keeps the blanks behind a value, which are not a part of it (RFC 9112, 5). */
static enum MHD_Result take_header(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct kt_head *head = data;
    (void)kind;
    for (size_t i = 0; i < KT_N_HEADERS; i++) {
        if (strcasecmp(name, names[i]) != 0)
            continue;
        if (i == KT_HEADER_CODING)
            head->is_chunked = value && strcasecmp(value, "chunked") == 0;
        if (head->counts[i]++ == 0)
            head->values[i] = copy_trimmed(value ? value : "");
    }
    return MHD_YES;
}

bool kt_head_read(struct kt_head *head, struct MHD_Connection *connection)
{
    MHD_get_connection_values(connection, MHD_HEADER_KIND, take_header, head);
    for (size_t i = 0; i < KT_N_HEADERS; i++)
        if (head->counts[i] > 0 && !head->values[i])
            return false;
    return true;
}

void kt_head_free(struct kt_head *head)
{
    for (size_t i = 0; i < KT_N_HEADERS; i++)
        free(head->values[i]);
}

const char *kt_head_path(struct kt_head *head, const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t n = strlen(schemes[i]);
        if (strncasecmp(target, schemes[i], n) != 0)
            continue;
        const char *host = target + n;
        size_t length = strcspn(host, "/");
        if (length == 0 || memchr(host, '@', length))
            return NULL;
        free(head->values[KT_HEADER_HOST]);
        head->values[KT_HEADER_HOST] = strndup(host, length);
        return head->values[KT_HEADER_HOST] ? (host[length] ? host + length : "/") : NULL;
    }
    return target;
}

/* ---- whoever it is, and whatever is asked for ---- */

static bool check_origin(const struct kt_exchange *exchange, struct kt_problem *problem)
{
    const struct kt_server *server = exchange->server;
    const char *host = exchange->head.values[KT_HEADER_HOST];
    const char *origin = exchange->head.values[KT_HEADER_ORIGIN];
    if (host && !kt_host_allows(server->host, host))
        return kt_problem_set(problem, 403, "host_not_allowed", NULL,
                              "this server is for this machine only, and the header Host names another one; "
                              "start it with --host to be reached by that name");
    if (!kt_origin_allows(origin, host) &&
        !(server->origin && (strcmp(server->origin, "*") == 0 || strcmp(server->origin, origin) == 0)))
        return kt_problem_set(problem, 403, "origin_not_allowed", NULL,
                              "pages of other origins may not ask this server; --cors allows one");
    return true;
}

/* Headers that a proxy before this server may read in another way: whoever sends such hides a request of its
 * own within the body (RFC 9112, 6.1 and 11.2). */
static bool check_framing(struct kt_exchange *exchange, const char *version, struct kt_problem *problem)
{
    const struct kt_head *head = &exchange->head;
    const unsigned n_hosts = head->counts[KT_HEADER_HOST], n_codings = head->counts[KT_HEADER_CODING];
    const unsigned n_sizes = head->counts[KT_HEADER_LENGTH] + n_codings;
    bool is_newest = strcmp(version, "HTTP/1.1") == 0, needs_body = strcmp(exchange->method, "POST") == 0;
    bool is_read = n_codings == 0 || head->is_chunked;
    exchange->closes = n_codings > 0 && !is_newest; /* HTTP/1.0 has no such header */
    if (is_read && n_hosts <= 1 && n_sizes <= 1 && (n_sizes > 0 || !needs_body) &&
        (n_hosts == 1 || !is_newest))
        return true;
    exchange->closes = true;
    if (n_hosts > 1 || (n_hosts == 0 && is_newest))
        return kt_problem_set(problem, 400, NULL, NULL, "expected one Host header, got %u", n_hosts);
    /* None: perhaps the library took a header without a name for the end of the head, and the rest for a
     * request. */
    if (n_sizes > 1 || (n_sizes == 0 && needs_body))
        return kt_problem_set(problem, 400, NULL, NULL,
                              "expected one Content-Length or Transfer-Encoding header, got %u", n_sizes);
    /* The library would take all that ever comes for the body. */
    return kt_problem_set(problem, 501, "unknown_transfer_coding", NULL,
                          "the only supported Transfer-Encoding is \"chunked\"");
}

/* Whether there is a place for it. */
static bool check_place(struct kt_exchange *exchange, const struct kt_admission *admission,
                        struct kt_problem *problem)
{
    static const char code[] = "too_many_connections";
    if (admission->verdict == KT_ADMIT_WORK)
        return true;
    if (admission->verdict == KT_ADMIT_FULL)
        kt_problem_set(problem, 503, code, NULL, "%u requests are being answered", admission->n_answered);
    else if (admission->verdict == KT_ADMIT_SHARE)
        kt_problem_set(
            problem, 503, code, NULL,
            "%u requests of this client's address are being answered; the last %u places are for others",
            admission->n_answered, admission->n_left);
    else
        kt_problem_set(problem, 503, code, NULL,
                       "this connection was idle, and others needed its place; send the request again");
    exchange->closes = exchange->closes || admission->verdict == KT_ADMIT_ENDED;
    problem->retry_after = 1;
    return false;
}

bool kt_head_check_open(struct kt_exchange *exchange, const char *version, const char *path,
                        const struct kt_admission *admission, struct kt_problem *problem)
{
    if (!check_framing(exchange, version, problem))
        return false;
    if (!path)
        return kt_problem_set(problem, 400, NULL, NULL, "a request's target is /PATH or http://HOST/PATH");
    return check_place(exchange, admission, problem) && check_origin(exchange, problem);
}

/* ---- before the body ---- */

static const struct kt_route *find_route(const char *method, const char *path, bool *is_method)
{
    const struct kt_route *found = NULL;
    bool is_head = strcmp(method, "HEAD") == 0;
    *is_method = false;
    for (const struct kt_route *route = kt_routes; route->path && !*is_method; route++) {
        size_t length = strlen(route->path);
        bool is_prefix = route->path[length - 1] == '*';
        if (is_prefix ? strncmp(route->path, path, length - 1) != 0 : strcmp(route->path, path) != 0)
            continue;
        found = route;
        *is_method = strcmp(route->method, is_head ? "GET" : method) == 0;
    }
    return found;
}

static bool check_key(struct kt_exchange *exchange, struct kt_problem *problem)
{
    static const char bearer[] = "Bearer ";
    const char *given = exchange->head.values[KT_HEADER_AUTHORIZATION];
    if (exchange->server->keys.n == 0 || (exchange->route && exchange->route->is_open))
        return true;
    if (given && strncasecmp(given, bearer, sizeof(bearer) - 1) == 0)
        given += strcspn(given, " ") + strspn(given + strcspn(given, " "), " ");
    else
        given = exchange->head.values[KT_HEADER_KEY];
    if (!given)
        return kt_problem_set(problem, 401, "invalid_api_key", NULL,
                              "an API key is needed, in the header Authorization: Bearer KEY");
    exchange->key = kt_keys_find(&exchange->server->keys, given);
    return exchange->key > 0 ||
           kt_problem_set(problem, 401, "invalid_api_key", NULL, "this API key is not known here");
}

static bool check_state(struct kt_exchange *exchange, struct kt_problem *problem)
{
    struct kt_server *server = exchange->server;
    int state = kt_server_state(server);
    uint64_t all = atomic_load(&server->all_bytes), done = atomic_load(&server->loaded_bytes);
    if (state >= KT_SERVER_DRAINING && !exchange->route->is_open) {
        kt_problem_set(problem, 503, "shutting_down", NULL, "the server is about to end");
    } else if (state == KT_SERVER_LOADING && exchange->route->needs_model) {
        kt_problem_set(problem, 503, "loading_model", NULL, "the model is being loaded: %.0f %%",
                       all ? 100.0 * (double)done / (double)all : 0.0);
    } else {
        return true;
    }
    problem->retry_after = 5;
    return false;
}

bool kt_head_check_length(const struct kt_exchange *exchange, struct kt_problem *problem)
{
    const char *text = exchange->head.values[KT_HEADER_LENGTH];
    uint64_t most = exchange->server->max_body;
    errno = 0;
    if (!exchange->is_large && (!text || (strtoull(text, NULL, 10) <= most && errno == 0)))
        return true;
    return kt_problem_set(problem, 413, "body_too_large", NULL,
                          "the body is longer than %" PRIu64 " bytes; --max-body sets that limit", most);
}

bool kt_head_check(struct kt_exchange *exchange, const char *method, const char *path,
                   struct kt_problem *problem)
{
    bool is_method;
    exchange->route = find_route(method, path, &is_method);
    if (!check_key(exchange, problem))
        return false;
    if (!exchange->route)
        return kt_problem_path(problem, path);
    size_t length = strlen(exchange->route->path);
    if (exchange->route->path[length - 1] == '*')
        (void)snprintf(exchange->rest, sizeof(exchange->rest), "%s", path + length - 1);
    if (!is_method)
        return kt_problem_set(problem, 405, "method_not_allowed", NULL, "this path only accepts %s",
                              exchange->route->method);
    return check_state(exchange, problem) && kt_head_check_length(exchange, problem);
}

/* What is not a list of names is not repeated to the browser. */
const char *kt_head_allowed(const struct kt_head *head)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_, ";
    const char *asked = head->values[KT_HEADER_ASKED];
    return asked && *asked && asked[strspn(asked, letters)] == '\0' ? asked : "Authorization, Content-Type";
}
