/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/merges.h"
#include "tools/engine/text/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

bool kt_merges_create(struct kt_merges *merges, size_t n)
{
    size_t size = 16;
    while (size < n + n / 2)
        size *= 2;
    merges->slots = malloc(size * sizeof(*merges->slots));
    if (!merges->slots)
        return false;
    memset(merges->slots, 0xFF, size * sizeof(*merges->slots));
    merges->mask = size - 1;
    merges->multiplier = kt_draw_seed() | 1;
    return true;
}

void kt_merges_add(struct kt_merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t i = kt_merges_slot(merges, pair);
    while (merges->slots[i].pair != UINT64_MAX && merges->slots[i].pair != pair)
        i = (i + 1) & merges->mask;
    merges->slots[i] = (struct kt_merge){.pair = pair, .rank = rank, .id = id};
}

void kt_merges_free(struct kt_merges *merges)
{
    free(merges->slots);
    *merges = (struct kt_merges){.slots = NULL};
}
