/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - drafts for nothing: how the text went on where its last tokens stood before. */
#ifndef KT_ENGINE_SPECULATE_LOOKUP_H
#define KT_ENGINE_SPECULATE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Lengths of what is looked up; the longest that is found counts. */
#define KT_LOOKUP_GRAMS 4

struct kt_lookup {
    int32_t *ids;
    uint32_t *table; /**< [2^bits]: 1 + where the last n-gram of that hash ends; 0: nowhere */
    size_t n_ids, capacity;
    unsigned int bits;
};

/** The next tokens of the text. False: no memory, and it is as it was. */
bool kt_lookup_add(struct kt_lookup *lookup, const int32_t *ids, size_t n_ids);
/**
 * What could come next, `most` tokens at most; returns how many. *gram: the place of the length that was
 * found, 0 the shortest. Where what is copied reaches the end of the text, it continues with itself.
 */
uint32_t kt_lookup_find(const struct kt_lookup *lookup, uint32_t most, int32_t *ids, uint32_t *gram);
void kt_lookup_free(struct kt_lookup *lookup);

#endif
