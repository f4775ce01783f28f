/* SPDX-License-Identifier: Apache-2.0 */
/* room.h - what one call of kt_tokenizer_encode works in, kept for the next one. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_ROOM_H
#define KT_ENGINE_TEXT_TOKENIZER_ROOM_H

#include "tools/engine/text/tokenizer/cache.h"
#include "tools/engine/text/tokenizer/tokenizer.h"

struct kt_room {
    struct kt_room *next;
    struct kt_regex_room regexes;
    struct kt_norm_room norm, piece;
    struct kt_bpe_room bpe;
    struct kt_buffer text, marks; /**< the parts in one piece */
    struct kt_cache_slot *cache;  /**< [KT_CACHE_SLOTS] */
};

/** A room that no other call uses; NULL: no memory. */
struct kt_room *kt_room_take(struct kt_tokenizer *tokenizer);
void kt_room_give_back(struct kt_tokenizer *tokenizer, struct kt_room *room);
/** Frees this one and those behind it. */
void kt_rooms_free(struct kt_room *room);

#endif
