/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connections.h - who may have a connection, and how long it may wait for the head of a request. The library
 * counts silence only, and so a client that sends a byte now and then would have it, and its thread, for
 * ever; and connections that nobody uses would keep others out.
 */
#ifndef KT_ENGINE_SERVE_CONNECTIONS_H
#define KT_ENGINE_SERVE_CONNECTIONS_H

#include <kt/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct kt_connections;
struct kt_connection;

/* What becomes of a request whose head is there. */
struct kt_admission {
    enum kt_admission_verdict {
        KT_ADMIT_WORK,
        KT_ADMIT_FULL,  /* as many are being answered as may be */
        KT_ADMIT_SHARE, /* as many of its address */
        KT_ADMIT_ENDED  /* its connection was chosen to make room */
    } verdict;
    unsigned n_answered, n_left; /* those, and the places that are left */
};

struct kt_connections_params {
    int fd;           /* listens; is closed by this */
    uint64_t most;    /* requests that may be answered at once */
    unsigned timeout; /* seconds from which on a connection without a whole head is shut */
    /* Takes a connection and its socket. False: it is closed already. */
    bool (*take)(void *data, int fd, const struct sockaddr *address, socklen_t length);
    void *data;
};

/* How many of `wanted` requests can be answered at once with the files that this process may open; raises its
 * limit for them. */
uint64_t kt_connections_fit(uint64_t wanted);
/* How many connections there may be: some that wait, or are told that there is no place, and some that have
 * been chosen to end and have not ended yet. */
unsigned kt_connections_limit(uint64_t most);

enum kt_status kt_connections_create(const struct kt_connections_params *params,
                                     struct kt_connections **connections, struct kt_error *error);
/* With a thread that accepts them. If there are too many, another one that waits is ended for each: of the
 * address that has most of those, the one that has waited longest. */
enum kt_status kt_connections_start(struct kt_connections *connections, struct kt_error *error);
/* Accepts no more. */
void kt_connections_quiesce(struct kt_connections *connections);
/* Ends the thread; nothing is taken any more. */
void kt_connections_stop(struct kt_connections *connections);
/* All connections must have been closed. */
void kt_connections_free(struct kt_connections *connections);

/* The one with that socket. */
struct kt_connection *kt_connection_find(struct kt_connections *connections, int fd);
/* Its request's head is there; or its reply is out, and it waits for the next. */
void kt_connection_work(struct kt_connection *connection, struct kt_admission *admission);
void kt_connection_rest(struct kt_connection *connection);
/* Before its socket is closed. */
void kt_connection_close(struct kt_connection *connection);

#endif
