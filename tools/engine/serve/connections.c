/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/connections.h"
#include "tools/engine/base/fail.h"
#include "tools/kt/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

struct kt_connection {
    struct kt_connections *all;
    struct kt_connection *next, **link; /* what points to it */
    int fd;
    bool works;
    double since; /* when it began to wait */
};

struct kt_connections {
    pthread_mutex_t lock; /* a socket is not closed while its connection is in the list */
    pthread_cond_t stop;
    pthread_t thread;
    struct kt_connection *first;
    unsigned timeout;
    bool stops;
};

static void shut_late(const struct kt_connections *all)
{
    double now = kt_cli_now();
    for (const struct kt_connection *c = all->first; c; c = c->next)
        if (!c->works && now - c->since > all->timeout)
            shutdown(c->fd, SHUT_RDWR);
}

static void *watch(void *data)
{
    struct kt_connections *all = data;
    pthread_mutex_lock(&all->lock);
    while (!all->stops) {
        struct timespec next;
        clock_gettime(CLOCK_REALTIME, &next);
        next.tv_sec += 1;
        pthread_cond_timedwait(&all->stop, &all->lock, &next);
        shut_late(all);
    }
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

enum kt_status kt_connections_start(unsigned timeout, struct kt_connections **connections,
                                    struct kt_error *error)
{
    struct kt_connections *all = calloc(1, sizeof(*all));
    sigset_t every, before;
    if (!all)
        return kt_engine_fail(error, KT_E_NOMEM, "out of memory");
    all->timeout = timeout;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->stop, NULL);
    sigfillset(&every); /* signals are for other threads */
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int failed = pthread_create(&all->thread, NULL, watch, all);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(all);
        return kt_engine_fail(error, KT_E_SYSTEM, "no thread for the HTTP server: %s", strerror(failed));
    }
    *connections = all;
    return KT_OK;
}

void kt_connections_stop(struct kt_connections *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    all->stops = true;
    pthread_cond_signal(&all->stop);
    pthread_mutex_unlock(&all->lock);
    pthread_join(all->thread, NULL);
    pthread_cond_destroy(&all->stop);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

struct kt_connection *kt_connection_open(struct kt_connections *all, int fd)
{
    struct kt_connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return NULL;
    pthread_mutex_lock(&all->lock);
    *connection = (struct kt_connection){.all = all,
                                         .next = all->first,
                                         .link = &all->first,
                                         .fd = fd,
                                         .since = kt_cli_now()};
    if (all->first)
        all->first->link = &connection->next;
    all->first = connection;
    pthread_mutex_unlock(&all->lock);
    return connection;
}

static void set(struct kt_connection *connection, bool works)
{
    if (!connection)
        return;
    pthread_mutex_lock(&connection->all->lock);
    connection->works = works;
    connection->since = kt_cli_now();
    pthread_mutex_unlock(&connection->all->lock);
}

void kt_connection_work(struct kt_connection *connection)
{
    set(connection, true);
}

void kt_connection_rest(struct kt_connection *connection)
{
    set(connection, false);
}

void kt_connection_close(struct kt_connection *connection)
{
    if (!connection)
        return;
    pthread_mutex_t *lock = &connection->all->lock;
    pthread_mutex_lock(lock);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    pthread_mutex_unlock(lock);
    free(connection);
}
