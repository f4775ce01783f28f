/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/cache.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

struct kt_cache_slot *kt_cache_find(struct kt_cache_slot *slots, const char *word, size_t length, bool *hit)
{
    struct kt_cache_slot *slot = &slots[XXH3_64bits(word, length) % KT_CACHE_SLOTS];
    *hit = slot->length == length && memcmp(slot->word, word, length) == 0;
    return slot;
}
