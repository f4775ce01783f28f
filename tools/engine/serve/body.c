/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/body.h"
#include "tools/engine/serve/fields.h"
#include "tools/engine/serve/server.h"

#include <malloc.h>

#define SMALL (UINT64_C(256) << 10) /* needs no turn */
#define TRIMMED (UINT64_C(16) << 20)
#define MOST (UINT64_C(256) << 20) /* of all that are read now */

static void take_turn(struct kt_body_turns *turns, uint64_t size)
{
    pthread_mutex_lock(&turns->lock);
    uint64_t turn = turns->given++;
    while (turn != turns->served || turns->taken + size > MOST)
        pthread_cond_wait(&turns->change, &turns->lock);
    turns->served++;
    turns->taken += size;
    pthread_cond_broadcast(&turns->change);
    pthread_mutex_unlock(&turns->lock);
}

json_t *kt_body_parse(struct kt_exchange *exchange, struct kt_problem *problem)
{
    uint64_t size = kt_fields_size(exchange->body.data, exchange->body.length);
    if (size > SMALL) {
        exchange->json_size = size < MOST ? size : MOST;
        take_turn(&exchange->server->turns, exchange->json_size);
    }
    json_t *object = kt_fields_parse(exchange->body.data, exchange->body.length, problem);
    kt_buffer_free(&exchange->body);
    return object;
}

void kt_body_done(struct kt_exchange *exchange)
{
    struct kt_body_turns *turns = &exchange->server->turns;
    if (exchange->json_size == 0)
        return;
    if (exchange->json_size > TRIMMED)
        malloc_trim(0); /* else each thread's heap keeps as much as its largest request took */
    pthread_mutex_lock(&turns->lock);
    turns->taken -= exchange->json_size;
    pthread_cond_broadcast(&turns->change);
    pthread_mutex_unlock(&turns->lock);
    exchange->json_size = 0;
}
