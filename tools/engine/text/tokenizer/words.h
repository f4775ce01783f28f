/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - the ids of words: what one word becomes depends on nothing that was encoded before it. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_WORDS_H
#define KT_ENGINE_TEXT_TOKENIZER_WORDS_H

#include "tools/engine/text/tokenizer/room.h"

/** One call of kt_tokenizer_encode at work. */
struct kt_encoding {
    const struct kt_tokenizer *tokenizer;
    struct kt_room *room;
    int32_t *ids;
    size_t n, capacity;
    bool is_content;        /**< all of the text is */
    struct kt_marked piece; /**< what is cut into words */
    bool after_unknown;     /**< of SentencePiece: the last id is the unknown token's, of a character */
    bool met_control;       /**< the word's ids depend on whether it is content */
    bool met_unknown;       /**< the word has what no token writes */
    struct kt_error *error;
};

enum kt_status kt_encoding_add(struct kt_encoding *e, int32_t id);
/** What no token has: its bytes, or else the unknown token. */
enum kt_status kt_encoding_add_unknown(struct kt_encoding *e, const char *text, size_t length);
/** Adds the ids of a word of e->piece; `data` is the struct kt_encoding. */
enum kt_status kt_encode_word(void *data, const char *word, size_t length);
/** The same of a text that is one word, however long. */
enum kt_status kt_encode_uncut(struct kt_encoding *e, const char *text, size_t length);

#endif
