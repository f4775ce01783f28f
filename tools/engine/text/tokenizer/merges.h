/* SPDX-License-Identifier: Apache-2.0 */
/* merges.h - pairs of tokens that become one, by rank. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_MERGES_H
#define KT_ENGINE_TEXT_TOKENIZER_MERGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A bit of a rank: the pair becomes a control token. */
#define KT_MERGE_CONTROL (1U << 31)

struct kt_merge {
    uint64_t pair; /**< left id << 32 | right id; UINT64_MAX: an empty slot */
    uint32_t rank; /**< below KT_MERGE_CONTROL, and that bit */
    int32_t id;    /**< what they become */
};

/** All zero has no pairs. */
struct kt_merges {
    struct kt_merge *slots; /**< [mask + 1] */
    size_t mask;
    uint64_t multiplier; /**< of the hash: odd, and not known to files */
};

/** Room for n pairs. False: no memory. */
bool kt_merges_create(struct kt_merges *merges, size_t n);
/** Of two ranks of a pair, the last one counts. */
void kt_merges_add(struct kt_merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id);
void kt_merges_free(struct kt_merges *merges);

static inline size_t kt_merges_slot(const struct kt_merges *merges, uint64_t pair)
{
    return (size_t)((pair ^ pair >> 29) * merges->multiplier >> 32) & merges->mask;
}

/** NULL: they stay two. */
static inline const struct kt_merge *kt_merges_find(const struct kt_merges *merges, int32_t left,
                                                    int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t i = kt_merges_slot(merges, pair);; i = (i + 1) & merges->mask) {
        const struct kt_merge *merge = &merges->slots[i];
        if (merge->pair == pair)
            return merge;
        if (merge->pair == UINT64_MAX)
            return NULL;
    }
}

#endif
