/* SPDX-License-Identifier: Apache-2.0 */
/* vocab.h - the tokens of a vocabulary: their texts, types and scores, and the token that a text is. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_VOCAB_H
#define KT_ENGINE_TEXT_TOKENIZER_VOCAB_H

#include "tools/engine/base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

/** Ids are below this, far above every model's. */
#define KT_VOCAB_MAX (1U << 21)

/** What a token is besides its type. */
enum kt_vocab_flag {
    KT_VOCAB_NO_CONTENT = 1, /**< content is never joined to it */
    KT_VOCAB_STANDS_IN = 2   /**< for a byte, or for an unknown character, in a vocabulary of characters */
};

/** Texts are in kt_vocab.bytes. */
struct kt_vocab_token {
    uint32_t at, length;             /**< as words are looked up */
    uint32_t shown_at, shown_length; /**< as it stands in decoded text */
    uint8_t type;                    /**< enum kt_token_type; 0: no token has this id */
    uint8_t ends;
    uint8_t flags; /**< enum kt_vocab_flag, once kt_tokenizer_finish was called */
};

/** All zero is an empty one. */
struct kt_vocab {
    struct kt_buffer bytes;
    struct kt_vocab_token *tokens; /**< [n] */
    size_t n, capacity;
    uint64_t *slots; /**< [mask + 1] id + 1 below, the upper half of the hash above; 0: empty */
    size_t mask;
    uint64_t seed; /**< of the hashes */
};

/** A seed of hashes that differs from run to run: a file whose tokens or merges shared their places would be
 * read in quadratic time (150,000 tokens, 2 MB, in 5 s). */
uint64_t kt_draw_seed(void);

/** Sets token `id`, with two texts that may be the same. False: no memory. */
bool kt_vocab_set(struct kt_vocab *vocab, uint32_t id, const char *text, size_t length, const char *shown,
                  size_t shown_length, uint8_t type);
/** Sizes the table for n tokens. False: no memory. */
bool kt_vocab_index(struct kt_vocab *vocab, size_t n);
/** Lets kt_vocab_find find token `id`; of two with one text the first. */
void kt_vocab_enter(struct kt_vocab *vocab, uint32_t id);
/** The id of a text, -1 if no token that was entered has it. */
int32_t kt_vocab_find_any(const struct kt_vocab *vocab, const char *text, size_t length);
/** The same, without tokens that text between added tokens never becomes: control tokens, bytes, unused ones.
 */
int32_t kt_vocab_find(const struct kt_vocab *vocab, const char *text, size_t length);
void kt_vocab_free(struct kt_vocab *vocab);

static inline const char *kt_vocab_text(const struct kt_vocab *vocab, uint32_t id)
{
    return vocab->bytes.data + vocab->tokens[id].at;
}

#endif
