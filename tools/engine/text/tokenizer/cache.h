/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - the ids of words that were cut before: most words of a text come again. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_CACHE_H
#define KT_ENGINE_TEXT_TOKENIZER_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KT_CACHE_BYTES 22
#define KT_CACHE_IDS 10
#ifndef KT_CACHE_SLOTS /* fewer where tokenizers live for one text: tests/fuzz/run */
#define KT_CACHE_SLOTS 32768
#endif

/** A cache line. */
struct kt_cache_slot {
    uint8_t length; /**< 0: empty */
    uint8_t n_ids;
    char word[KT_CACHE_BYTES];
    int32_t ids[KT_CACHE_IDS];
};

/** The slot of a word of 1 to KT_CACHE_BYTES bytes: *hit if it holds this word, else it may be overwritten.
 */
struct kt_cache_slot *kt_cache_find(struct kt_cache_slot *slots, const char *word, size_t length, bool *hit);

#endif
