/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.c - one table for n-grams of all lengths: a hash says where one ended last. A token writes an entry
 * for each length, a search reads one for each, whatever the text's length. Entries that share a place
 * overwrite each other; the tokens themselves are compared before anything is believed.
 */
#include "tools/engine/speculate/lookup.h"

#include <stdlib.h>
#include <string.h>

/* Single tokens say too little, and what has 8 tokens in common goes on alike. */
static const uint32_t grams[KT_LOOKUP_GRAMS] = {2, 3, 5, 8};

/* Places for each token; four are written, most of them again and again where a text repeats itself. */
#define PLACES 16

static size_t place(const struct kt_lookup *l, size_t end, uint32_t n)
{
    uint64_t hash = n;
    for (size_t i = end - n; i < end; i++)
        hash = (hash ^ (uint32_t)l->ids[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> (64 - l->bits));
}

static void enter(struct kt_lookup *l, size_t end)
{
    for (int g = 0; g < KT_LOOKUP_GRAMS && grams[g] <= end; g++)
        l->table[place(l, end, grams[g])] = (uint32_t)end + 1;
}

static bool grow(struct kt_lookup *l, size_t n)
{
    size_t capacity = l->capacity ? l->capacity : 512;
    unsigned int bits = 0;
    while (capacity < n)
        capacity *= 2;
    while ((size_t)1 << bits < PLACES * capacity)
        bits++;
    int32_t *ids = realloc(l->ids, capacity * sizeof(*ids));
    if (!ids)
        return false;
    l->ids = ids;
    uint32_t *table = calloc((size_t)1 << bits, sizeof(*table));
    if (!table)
        return false;
    free(l->table);
    l->table = table;
    l->bits = bits;
    l->capacity = capacity;
    for (size_t end = 1; end < l->n_ids; end++)
        enter(l, end);
    return true;
}

/* The n-grams that end the text are entered with the next token, so that they do not find themselves. */
bool kt_lookup_add(struct kt_lookup *l, const int32_t *ids, size_t n_ids)
{
    if (n_ids >= UINT32_MAX - l->n_ids || (l->n_ids + n_ids > l->capacity && !grow(l, l->n_ids + n_ids)))
        return false;
    for (size_t i = 0; i < n_ids; i++) {
        if (l->n_ids > 0)
            enter(l, l->n_ids);
        l->ids[l->n_ids++] = ids[i];
    }
    return true;
}

uint32_t kt_lookup_find(const struct kt_lookup *l, uint32_t most, int32_t *ids, uint32_t *gram)
{
    for (uint32_t g = KT_LOOKUP_GRAMS; g-- > 0;) {
        uint32_t n = grams[g];
        if (n >= l->n_ids)
            continue;
        size_t found = l->table[place(l, l->n_ids, n)];
        if (found-- == 0 || found < n ||
            memcmp(l->ids + found - n, l->ids + l->n_ids - n, n * sizeof(*ids)) != 0)
            continue;
        for (uint32_t i = 0; i < most; i++) {
            size_t at = found + i;
            ids[i] = at < l->n_ids ? l->ids[at] : ids[at - l->n_ids];
        }
        *gram = g;
        return most;
    }
    return 0;
}

void kt_lookup_free(struct kt_lookup *l)
{
    free(l->ids);
    free(l->table);
    *l = (struct kt_lookup){.ids = NULL};
}
