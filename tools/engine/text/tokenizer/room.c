/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/room.h"

#include <stdbool.h>
#include <stdlib.h>

/* A long text leaves no more than this behind. */
#define KEPT_BYTES (4U << 20)

static void drop_large(struct kt_buffer *buffer)
{
    if (buffer->capacity > KEPT_BYTES)
        kt_buffer_free(buffer);
}

static void free_one(struct kt_room *room)
{
    kt_regex_room_free(&room->regexes);
    kt_norm_room_free(&room->norm);
    kt_norm_room_free(&room->piece);
    kt_bpe_room_free(&room->bpe);
    kt_buffer_free(&room->text);
    kt_buffer_free(&room->marks);
    free(room->cache);
    free(room);
}

void kt_rooms_free(struct kt_room *room)
{
    while (room) {
        struct kt_room *next = room->next;
        free_one(room);
        room = next;
    }
}

/* Nobody waits for the lock, which is held for a few instructions only: in a child that was forked then it is
 * held forever. Who does not get it makes a room, or frees one. */
static bool is_mine(struct kt_tokenizer *tokenizer)
{
    for (int i = 0; i < 100; i++)
        if (pthread_mutex_trylock(&tokenizer->lock) == 0)
            return true;
    return false;
}

struct kt_room *kt_room_take(struct kt_tokenizer *tokenizer)
{
    struct kt_room *room = NULL;
    if (is_mine(tokenizer)) {
        room = tokenizer->rooms;
        if (room)
            tokenizer->rooms = room->next;
        (void)pthread_mutex_unlock(&tokenizer->lock);
    }
    if (room)
        return room;
    room = calloc(1, sizeof(*room));
    if (!room)
        return NULL;
    room->cache = calloc(KT_CACHE_SLOTS, sizeof(*room->cache));
    if (room->cache && kt_regex_room_create(&room->regexes))
        return room;
    free_one(room);
    return NULL;
}

void kt_room_give_back(struct kt_tokenizer *tokenizer, struct kt_room *room)
{
    drop_large(&room->text);
    drop_large(&room->marks);
    for (int i = 0; i < 2; i++) {
        drop_large(&room->norm.text[i]);
        drop_large(&room->norm.marks[i]);
        drop_large(&room->piece.text[i]);
        drop_large(&room->piece.marks[i]);
    }
    if (room->bpe.capacity > KEPT_BYTES / sizeof(struct kt_symbol))
        kt_bpe_room_free(&room->bpe);
    if (!is_mine(tokenizer)) {
        free_one(room);
        return;
    }
    room->next = tokenizer->rooms;
    tokenizer->rooms = room;
    (void)pthread_mutex_unlock(&tokenizer->lock);
}
