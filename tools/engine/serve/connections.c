/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/serve/connections.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/base/thread.h"
#include "tools/kt/base/cli.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* An address may have as many requests answered as SHARE times the places that are free, as in the queue. */
#define SHARE 7
/* Connections above the limit of requests: they wait, or are told that there is no place. As many again have
 * been chosen to end and have not ended yet. */
#define SPARE 16
/* Files that are open besides connections: the model's, while it is loaded. */
#define OTHER_FILES 256
#define PERIOD 1 /* seconds from one look at the time to the next */

/* An address that has connections. */
struct peer {
    struct peer *next, **link; /* what points to it */
    unsigned n_open, n_waiting, n_answered;
    unsigned length;
    unsigned char bytes[8];
};

enum state { WAITS, IS_ANSWERED, IS_REFUSED, HAS_ENDED };

struct kt_connection {
    struct kt_connections *all;
    struct kt_connection *next, **link;
    struct peer *peer;
    int fd;
    enum state state;
    double since; /* when it began to wait, or was ended */
};

struct kt_connections {
    struct kt_connections_params params;
    pthread_mutex_t lock; /* a socket is not closed while its connection is in the list */
    pthread_t thread;
    int wake; /* an eventfd */
    struct kt_connection *first;
    struct peer *peers;
    uint64_t n_open, n_live, n_answered; /* the latter two without those that have ended */
    bool is_waiting;                     /* for one to be closed */
    bool is_short;                       /* of files or memory */
    bool is_quiet, stops, has_thread;
};

/* ---- limits ---- */

uint64_t kt_connections_fit(uint64_t wanted)
{
    struct rlimit files;
    rlim_t needed =
        kt_connections_limit(wanted) + wanted + OTHER_FILES; /* and what wakes an answer's thread */
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed)
        return wanted;
    files.rlim_cur = needed < files.rlim_max ? needed : files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 && getrlimit(RLIMIT_NOFILE, &files) != 0)
        return wanted;
    if (files.rlim_cur >= needed)
        return wanted;
    const rlim_t others = kt_connections_limit(0) + OTHER_FILES;
    return files.rlim_cur < others + 2 ? 1 : (files.rlim_cur - others) / 2;
}

unsigned kt_connections_limit(uint64_t most)
{
    return (unsigned)most + 2 * SPARE;
}

/* ---- addresses ---- */

/* What of an address stands for one client: all of IPv4; of IPv6 the network, as one has all of that. */
static unsigned read_address(const struct sockaddr *address, unsigned char bytes[8])
{
    if (address && address->sa_family == AF_INET) {
        memcpy(bytes, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return 4;
    }
    if (!address || address->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(six);
    memcpy(bytes, six->s6_addr + (is_mapped ? 12 : 0), is_mapped ? 4 : 8);
    return is_mapped ? 4 : 8;
}

/* NULL: no memory. */
static struct peer *find_peer(struct kt_connections *all, const struct sockaddr *address)
{
    struct peer new = {.next = all->peers, .link = &all->peers};
    new.length = read_address(address, new.bytes);
    for (struct peer *peer = all->peers; peer; peer = peer->next)
        if (peer->length == new.length && memcmp(peer->bytes, new.bytes, new.length) == 0)
            return peer;
    struct peer *peer = malloc(sizeof(*peer));
    if (!peer)
        return NULL;
    *peer = new;
    if (all->peers)
        all->peers->link = &peer->next;
    all->peers = peer;
    return peer;
}

static void leave_peer(struct peer *peer)
{
    if (--peer->n_open > 0)
        return;
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    free(peer);
}

/* ---- connections ---- */

/* Counts it where it belongs. */
static void enter(struct kt_connection *c, enum state state)
{
    if (c->state == WAITS)
        c->peer->n_waiting--;
    if (c->state == IS_ANSWERED) {
        c->peer->n_answered--;
        c->all->n_answered--;
    }
    if (state == WAITS)
        c->peer->n_waiting++;
    if (state == IS_ANSWERED) {
        c->peer->n_answered++;
        c->all->n_answered++;
    }
    if (state == HAS_ENDED)
        c->all->n_live--;
    c->state = state;
    c->since = kt_cli_now();
}

/* A request that comes just now is read, and told why it is not answered. */
static void end_one(struct kt_connections *all, const struct kt_connection *newest)
{
    struct kt_connection *found = NULL;
    for (struct kt_connection *c = all->first; c; c = c->next) {
        if (c->state != WAITS || c == newest)
            continue;
        bool is_longer = found && c->peer->n_waiting == found->peer->n_waiting && c->since < found->since;
        if (!found || c->peer->n_waiting > found->peer->n_waiting || is_longer)
            found = c;
    }
    if (!found)
        return;
    enter(found, HAS_ENDED);
    shutdown(found->fd, SHUT_RD);
}

/* Before its socket is closed. */
static void drop(struct kt_connection *c)
{
    if (c->state != HAS_ENDED)
        enter(c, HAS_ENDED);
    c->all->n_open--;
    leave_peer(c->peer);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    free(c);
}

static struct kt_connection *find(const struct kt_connections *all, int fd)
{
    struct kt_connection *c = all->first;
    while (c && c->fd != fd)
        c = c->next;
    return c;
}

/* NULL: no memory. */
static struct kt_connection *add(struct kt_connections *all, int fd, const struct sockaddr *address)
{
    struct kt_connection *lost = find(all, fd);
    if (lost) /* the library has closed it without a word: it had no memory */
        drop(lost);
    struct kt_connection *connection = calloc(1, sizeof(*connection));
    struct peer *peer = connection ? find_peer(all, address) : NULL;
    if (!peer) {
        free(connection);
        return NULL;
    }
    *connection = (struct kt_connection){.all = all,
                                         .next = all->first,
                                         .link = &all->first,
                                         .peer = peer,
                                         .fd = fd,
                                         .state = WAITS,
                                         .since = kt_cli_now()};
    if (all->first)
        all->first->link = &connection->next;
    all->first = connection;
    peer->n_open++;
    peer->n_waiting++;
    all->n_open++;
    all->n_live++;
    return connection;
}

struct kt_connection *kt_connection_find(struct kt_connections *all, int fd)
{
    pthread_mutex_lock(&all->lock);
    struct kt_connection *connection = find(all, fd);
    pthread_mutex_unlock(&all->lock);
    return connection;
}

void kt_connection_work(struct kt_connection *connection, struct kt_admission *admission)
{
    *admission = (struct kt_admission){.verdict = KT_ADMIT_WORK};
    struct kt_connections *all = connection->all;
    pthread_mutex_lock(&all->lock);
    uint64_t left = all->params.most > all->n_answered ? all->params.most - all->n_answered : 0;
    admission->n_left = (unsigned)left;
    admission->n_answered = (unsigned)all->n_answered;
    if (connection->state == HAS_ENDED) {
        admission->verdict = KT_ADMIT_ENDED;
    } else if (left == 0) {
        admission->verdict = KT_ADMIT_FULL;
    } else if (connection->peer->n_answered >= SHARE * left) {
        admission->verdict = KT_ADMIT_SHARE;
        admission->n_answered = connection->peer->n_answered;
    }
    if (connection->state != HAS_ENDED)
        enter(connection, admission->verdict == KT_ADMIT_WORK ? IS_ANSWERED : IS_REFUSED);
    pthread_mutex_unlock(&all->lock);
}

void kt_connection_rest(struct kt_connection *connection)
{
    pthread_mutex_lock(&connection->all->lock);
    if (connection->state != HAS_ENDED)
        enter(connection, WAITS);
    pthread_mutex_unlock(&connection->all->lock);
}

static void wake(const struct kt_connections *all)
{
    if (eventfd_write(all->wake, 1) != 0)
        return; /* it is awake already */
}

void kt_connection_close(struct kt_connection *connection)
{
    struct kt_connections *all = connection->all;
    pthread_mutex_lock(&all->lock);
    drop(connection);
    bool is_waiting = all->is_waiting;
    pthread_mutex_unlock(&all->lock);
    if (is_waiting)
        wake(all);
}

/* ---- the thread: it alone accepts sockets and shuts them ---- */

static void shut_late(const struct kt_connections *all, double now)
{
    for (const struct kt_connection *c = all->first; c; c = c->next)
        if ((c->state == WAITS || c->state == HAS_ENDED) && now - c->since > all->params.timeout)
            shutdown(c->fd, SHUT_RDWR);
}

static void accept_one(struct kt_connections *all)
{
    struct sockaddr_storage storage;
    struct sockaddr *address = (struct sockaddr *)&storage;
    socklen_t length = sizeof(storage);
    int fd = accept4(all->params.fd, address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool is_short = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
    pthread_mutex_lock(&all->lock);
    struct kt_connection *connection = fd >= 0 ? add(all, fd, address) : NULL;
    all->is_short = is_short || (fd >= 0 && !connection);
    if (all->is_short || all->n_live > all->params.most + SPARE)
        end_one(all, connection);
    pthread_mutex_unlock(&all->lock);
    if (fd >= 0 && !connection)
        close(fd);
    else if (fd >= 0 && !all->params.take(all->params.data, fd, address, length))
        kt_connection_close(connection);
}

static void close_listener(struct kt_connections *all)
{
    if (all->params.fd >= 0)
        close(all->params.fd);
    all->params.fd = -1;
}

static void *watch(void *data)
{
    struct kt_connections *all = data;
    const uint64_t limit = kt_connections_limit(all->params.most);
    double looked = kt_cli_now();
    pthread_mutex_lock(&all->lock);
    while (!all->stops) {
        eventfd_t n;
        if (all->is_quiet)
            close_listener(all);
        all->is_waiting = all->is_short || all->n_open >= limit;
        struct pollfd files[2] = {{.fd = all->wake, .events = POLLIN},
                                  {.fd = all->is_waiting ? -1 : all->params.fd, .events = POLLIN}};
        pthread_mutex_unlock(&all->lock);
        if (poll(files, 2, PERIOD * 1000) < 0)
            files[0].revents = files[1].revents = 0;
        if (files[1].revents)
            accept_one(all);
        double now = kt_cli_now();
        bool is_awake = files[0].revents && eventfd_read(all->wake, &n) == 0;
        pthread_mutex_lock(&all->lock);
        if (is_awake || now - looked >= PERIOD)
            all->is_short = false; /* perhaps no more */
        if (now - looked >= PERIOD) {
            shut_late(all, now);
            looked = now;
        }
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

enum kt_status kt_connections_create(const struct kt_connections_params *params,
                                     struct kt_connections **connections, struct kt_error *error)
{
    struct kt_connections *all = calloc(1, sizeof(*all));
    int fd = all ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (fd < 0) {
        free(all);
        close(params->fd);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory or file for the HTTP server");
    }
    all->params = *params;
    all->wake = fd;
    pthread_mutex_init(&all->lock, NULL);
    *connections = all;
    return KT_OK;
}

enum kt_status kt_connections_start(struct kt_connections *all, struct kt_error *error)
{
    int failed = kt_engine_thread(&all->thread, watch, all);
    all->has_thread = failed == 0;
    return failed ? kt_engine_fail(error, KT_E_SYSTEM, "no thread for the HTTP server: %s", strerror(failed))
                  : KT_OK;
}

void kt_connections_quiesce(struct kt_connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->is_quiet = true;
    pthread_mutex_unlock(&all->lock);
    wake(all);
}

void kt_connections_stop(struct kt_connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->stops = true;
    pthread_mutex_unlock(&all->lock);
    wake(all);
    if (all->has_thread)
        pthread_join(all->thread, NULL);
    all->has_thread = false;
}

void kt_connections_free(struct kt_connections *all)
{
    close_listener(all);
    close(all->wake);
    pthread_mutex_destroy(&all->lock);
    free(all);
}
