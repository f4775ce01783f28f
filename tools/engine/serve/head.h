/* SPDX-License-Identifier: Apache-2.0 */
/* head.h - a request's head: its headers, its target, and whatever can be refused by it alone. */
#ifndef KT_ENGINE_SERVE_HEAD_H
#define KT_ENGINE_SERVE_HEAD_H

#include "tools/engine/serve/problem.h"

#include <stdbool.h>

struct MHD_Connection;
struct kt_admission;
struct kt_exchange;

/* The headers that this server reads. */
enum kt_header {
    KT_HEADER_HOST,
    KT_HEADER_LENGTH,
    KT_HEADER_CODING,
    KT_HEADER_ORIGIN,
    KT_HEADER_AUTHORIZATION,
    KT_HEADER_KEY,
    KT_HEADER_ASKED, /* the headers that a page wants to send */
    KT_N_HEADERS
};

struct kt_head {
    char
        *values[KT_N_HEADERS]; /* the first of each name, without the blanks around it; NULL: there is none */
    unsigned counts[KT_N_HEADERS];
    bool is_chunked; /* the library reads the body so */
};

/* Copies the headers. False: no memory. */
bool kt_head_read(struct kt_head *head, struct MHD_Connection *connection);
void kt_head_free(struct kt_head *head);
/* The path of a request's target. Of http://HOST/PATH, HOST takes the place of the header (RFC 9112, 3.2.2).
 * NULL: it is none, or there is no memory. */
const char *kt_head_path(struct kt_head *head, const char *target);

/* Each false with a problem. Whoever it is, and whatever is asked for; `path` as of kt_head_path. */
bool kt_head_check_open(struct kt_exchange *exchange, const char *version, const char *path,
                        const struct kt_admission *admission, struct kt_problem *problem);
/* Before the body: finds the route, and refuses what can be refused without the body. */
bool kt_head_check(struct kt_exchange *exchange, const char *method, const char *path,
                   struct kt_problem *problem);
/* The body's length, as the header says and as it came. */
bool kt_head_check_length(const struct kt_exchange *exchange, struct kt_problem *problem);
/* The headers that a page of another origin may send. */
const char *kt_head_allowed(const struct kt_head *head);

#endif
