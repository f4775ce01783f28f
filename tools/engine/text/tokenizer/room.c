/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/room.h"

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

struct kt_room *kt_room_take(struct kt_tokenizer *tokenizer)
{
    (void)pthread_mutex_lock(&tokenizer->lock);
    struct kt_room *room = tokenizer->rooms;
    if (room)
        tokenizer->rooms = room->next;
    (void)pthread_mutex_unlock(&tokenizer->lock);
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
    }
    if (room->bpe.capacity > KEPT_BYTES / sizeof(struct kt_symbol))
        kt_bpe_room_free(&room->bpe);
    (void)pthread_mutex_lock(&tokenizer->lock);
    room->next = tokenizer->rooms;
    tokenizer->rooms = room;
    (void)pthread_mutex_unlock(&tokenizer->lock);
}
