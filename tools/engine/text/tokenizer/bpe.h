/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.h - byte pair encoding of one word: the pair that comes first is made one, the leftmost of equals,
 * until no pair is left. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_BPE_H
#define KT_ENGINE_TEXT_TOKENIZER_BPE_H

#include "tools/engine/text/tokenizer/merges.h"
#include "tools/engine/text/tokenizer/vocab.h"

/** Which pair comes first. */
enum kt_bpe_order {
    KT_BPE_MERGES, /**< the one with the lowest rank of kt_merges */
    KT_BPE_RANKS,  /**< the one whose joined text is the token of the lowest id (tiktoken) */
    KT_BPE_SCORES  /**< the one whose joined text is the token of the highest score (SentencePiece) */
};

struct kt_bpe {
    enum kt_bpe_order order;
    const struct kt_vocab *vocab;
    const struct kt_merges *merges; /**< KT_BPE_MERGES */
    const float *scores;            /**< [vocab->n], KT_BPE_SCORES */
    bool is_content;                /**< KT_BPE_MERGES: no pair becomes a control token */
};

/** A piece of the word: from the start, one symbol each; afterwards those that are left, by `next`. */
struct kt_symbol {
    uint32_t at, length;     /**< bytes of the word; length 0: gone */
    int32_t id;              /**< -1: no token */
    uint32_t previous, next; /**< UINT32_MAX: none */
};

/** A pair that may be joined. */
struct kt_bpe_pair {
    uint32_t priority; /**< lower comes first */
    uint32_t left;     /**< index of its symbol */
    uint32_t length;   /**< bytes of both: if they have others by then, the pair is gone */
    int32_t id;
};

/** What one thread works in. */
struct kt_bpe_room {
    struct kt_symbol *symbols;
    size_t n, capacity;
    struct kt_bpe_pair *heap;
    size_t n_pairs, heap_capacity;
    bool met_control; /**< set where a pair makes a control token, or would if it were not content */
};

/** Adds a symbol behind the others. False: no memory. */
bool kt_bpe_add(struct kt_bpe_room *room, uint32_t at, uint32_t length, int32_t id);
/** Joins the symbols of a word; symbol 0 stays the first one. False: no memory. */
bool kt_bpe_run(const struct kt_bpe *bpe, struct kt_bpe_room *room, const char *word);
void kt_bpe_room_free(struct kt_bpe_room *room);

#endif
