/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - requests and replies. One thread serves a connection, so whoever answers a request may wait. What
 * stands here holds for every path: the limits, the log, and what head.h checks.
 */
#ifndef KT_ENGINE_SERVE_HTTP_H
#define KT_ENGINE_SERVE_HTTP_H

#include "tools/engine/base/buffer.h"
#include "tools/engine/serve/head.h"
#include "tools/engine/serve/problem.h"

#include <stdint.h>

struct MHD_Connection;
struct kt_http;
struct kt_served;
struct kt_server;

/* One request. */
struct kt_exchange {
    struct kt_server *server;
    struct kt_served *model; /* that is asked */
    struct MHD_Connection *connection;
    const struct kt_route *route; /* NULL: refused before that was known */
    struct kt_head head;
    struct kt_buffer body;
    uint64_t json_size; /* what its JSON takes of the turns of server.h; 0: no turn */
    bool is_large;      /* the body was longer than it may be */
    bool is_counted;    /* as one of the requests that are being answered */
    bool closes;        /* the connection ends with the reply */
    bool hung_up;       /* the client went away while it waited */
    size_t key;         /* which API key was given, from 1 on; 0: none is asked for */
    int fd;             /* the socket */
    double start;       /* seconds, as of kt_cli_now */
    unsigned status;    /* of the reply */
    char method[16];    /* for the log, printable */
    char path[128];     /* likewise, without its query */
    char rest[256];     /* what a route that ends in * stands for, as it was sent */
    char address[72];   /* the client's; of IPv6 with its interface */
    char about[240];    /* what the path's own function adds to the line in the log */
};

struct kt_route {
    const char *method, *path; /* "/v1/models/" and a star: all below it */
    /* Makes one reply. False: none could be made, and the connection is closed. */
    bool (*answer)(struct kt_exchange *exchange);
    bool is_open;                                         /* needs no API key */
    bool needs_model;                                     /* 503 until it is loaded */
    json_t *(*problem)(const struct kt_problem *problem); /* how errors look; NULL: as OpenAI has them */
};
/* Ends with a row whose path is NULL. */
extern const struct kt_route kt_routes[];

struct kt_http_params {
    const char *host;
    uint16_t port; /* 0: any */
    uint64_t max_connections;
    unsigned timeout; /* seconds that a client may be silent, and that a body may take */
};

/* Starts to listen, and answers by threads of its own. */
enum kt_status kt_http_start(struct kt_server *server, const struct kt_http_params *params,
                             struct kt_http **http, struct kt_error *error);
/* Takes no further connections; those that are there go on. */
void kt_http_quiesce(struct kt_http *http);
/* Waits for the threads, which must have been told to end. `http` may be NULL. */
void kt_http_stop(struct kt_http *http);
uint16_t kt_http_port(const struct kt_http *http);
/* Requests that are being answered. */
unsigned kt_http_running(const struct kt_http *http);

/* ---- replies: one for each request; false: the connection is to be closed ---- */

bool kt_reply_bytes(struct kt_exchange *exchange, unsigned status, const char *type, const char *bytes,
                    size_t length);
/* A page or a part of it, which must live on; it may load nothing from elsewhere. */
bool kt_reply_page(struct kt_exchange *exchange, const char *type, const char *page, size_t length);
/* JSON, whose bytes it takes. */
bool kt_reply_buffer(struct kt_exchange *exchange, unsigned status, struct kt_buffer *json);
/* Takes the reference to `body`; NULL: a 500. */
bool kt_reply_json(struct kt_exchange *exchange, unsigned status, json_t *body);
bool kt_reply_problem(struct kt_exchange *exchange, const struct kt_problem *problem);
/* Nobody is there any more: false. */
bool kt_reply_hung_up(struct kt_exchange *exchange);

/* A reply that is sent as it is made. */
struct kt_stream {
    /* Waits for something to send and appends it; false: that was the last. */
    bool (*next)(void *data, struct kt_buffer *out);
    void (*end)(void *data); /* called once, also where the client is gone */
    void *data;
    const char *type; /* NULL: server-sent events */
};
bool kt_reply_stream(struct kt_exchange *exchange, const struct kt_stream *stream);

/* While a reply is computed, silence is no timeout. */
void kt_exchange_wait(struct kt_exchange *exchange, bool waits);

#endif
