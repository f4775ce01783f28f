/* SPDX-License-Identifier: Apache-2.0 */
/* connections.h - how long a connection may wait for the head of a request. The library counts silence only,
 * and so a client that sends a byte now and then would have it, and its thread, for ever. */
#ifndef KT_ENGINE_SERVE_CONNECTIONS_H
#define KT_ENGINE_SERVE_CONNECTIONS_H

#include <kt/types.h>

struct kt_connections;
struct kt_connection;

/* With a thread that shuts the sockets of those that have no whole head after `timeout` seconds. */
enum kt_status kt_connections_start(unsigned timeout, struct kt_connections **connections,
                                    struct kt_error *error);
/* All connections must have been closed. May be NULL. */
void kt_connections_stop(struct kt_connections *connections);
/* A connection begins, and waits for a head; NULL: no memory, and nobody watches it. */
struct kt_connection *kt_connection_open(struct kt_connections *connections, int fd);
/* Its request's head is there; or its reply is out, and it waits for the next. `connection` may be NULL, as
 * for all of them. */
void kt_connection_work(struct kt_connection *connection);
void kt_connection_rest(struct kt_connection *connection);
/* Before its socket is closed. */
void kt_connection_close(struct kt_connection *connection);

#endif
