/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.h - what struct kt_tokenizer is made of. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_TOKENIZER_H
#define KT_ENGINE_TEXT_TOKENIZER_TOKENIZER_H

#include "tools/engine/text/tokenizer/added.h"
#include "tools/engine/text/tokenizer/bpe.h"
#include "tools/engine/text/tokenizer/chat.h"
#include "tools/engine/text/tokenizer/merges.h"
#include "tools/engine/text/tokenizer/normalize.h"
#include "tools/engine/text/tokenizer/split.h"
#include "tools/engine/text/tokenizer/vocab.h"

#include <kt/text.h>
#include <pthread.h>

struct kt_room;

/** A chat template as a file has it; all owned. */
struct kt_chat_text {
    char *name, *text, *file;
    size_t length;
};

struct kt_tokenizer {
    enum kt_tokenizer_kind kind;
    char pre[32];
    char *source; /**< owned */
    struct kt_vocab vocab;
    struct kt_merges merges;
    float *scores; /**< [vocab.n], of SentencePiece's, owned */
    enum kt_bpe_order order;
    bool has_bytes;        /**< symbols are bytes, not characters */
    bool ignores_merges;   /**< a word that is a token is not cut */
    bool fuses_unknown;    /**< unknown characters next to each other are one unknown token */
    bool strips_space;     /**< the first space of decoded text is none of the text's */
    int32_t byte_ids[256]; /**< the token of a byte; -1: none */
    bool never_cuts;       /**< of SentencePiece: bytes or unknown characters are joined with others */
    bool cuts_at_spaces;   /**< of SentencePiece: no token goes on behind a space, so words end before it */
    uint8_t joined[256]
                  [32]; /**< of SentencePiece: bits of the pairs of bytes that a token has side by side */
    struct kt_normalizer normalizer;
    struct kt_normalizer piece_steps; /**< what is done to each text between added tokens besides */
    struct kt_splitter splitter;
    struct kt_added added;            /**< found in text as it is */
    struct kt_added added_normalized; /**< found in normalized text */
    int32_t bos, eos, unk, pad;
    bool adds_bos, adds_eos;
    struct kt_chat_text *chats; /**< [n_chats], the default one first */
    size_t n_chats, chats_capacity;
    pthread_mutex_t lock;
    struct kt_room *rooms; /**< not in use; under lock */
};

/** An empty tokenizer; NULL: no memory. */
struct kt_tokenizer *kt_tokenizer_new(void);
/** What every loader does last: derives what follows from the vocabulary and the added tokens. */
enum kt_status kt_tokenizer_finish(struct kt_tokenizer *tokenizer, struct kt_error *error);
/** Sets token `id`; in a vocabulary of characters, `text` is shown with spaces and bytes for what stands for
 * them. */
enum kt_status kt_tokenizer_set(struct kt_tokenizer *tokenizer, uint64_t id, const char *text, size_t length,
                                uint8_t type, struct kt_error *error);
/** Changes how token `id` is shown. */
enum kt_status kt_tokenizer_show(struct kt_tokenizer *tokenizer, uint32_t id, const char *text, size_t length,
                                 struct kt_error *error);
/** Makes token `id` one that content never becomes, whatever the vocabulary's own file says. */
enum kt_status kt_tokenizer_make_control(struct kt_tokenizer *tokenizer, int32_t id, struct kt_error *error);
/** Adds a chat template, texts copied; "default" goes to the front. */
enum kt_status kt_tokenizer_add_chat(struct kt_tokenizer *tokenizer, const char *name, const char *text,
                                     size_t length, const char *file, struct kt_error *error);

#endif
