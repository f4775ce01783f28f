/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h - the JSON of requests. A body of 4 MiB may hold a million values and take 200 MB, and there may be
 * hundreds of clients: so what is large is read in turns.
 */
#ifndef KT_ENGINE_SERVE_BODY_H
#define KT_ENGINE_SERVE_BODY_H

#include "tools/engine/serve/problem.h"

#include <pthread.h>
#include <stdint.h>

struct kt_exchange;

/* What the JSON takes that is held now. */
struct kt_body_turns {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint64_t taken;         /* bytes */
    uint64_t given, served; /* numbers of turns: who came first is served first */
};
#define KT_BODY_TURNS_INIT                                                    \
    {                                                                         \
        .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER \
    }

/* Parses the body, an object, and frees its text. Waits for its turn; kt_body_done must be called when
 * nothing of it is held any more, and before the reply, for which a client can let us wait. NULL after a
 * problem. */
json_t *kt_body_parse(struct kt_exchange *exchange, struct kt_problem *problem);
/* May be called again, and without a body. */
void kt_body_done(struct kt_exchange *exchange);

#endif
