/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe.c - a list of symbols and a heap of the pairs in it, so that n symbols take n log n steps. A pair whose
 * symbols were joined with others meanwhile is known by its length and dropped when it comes up.
 */
#include "tools/engine/text/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

bool kt_bpe_add(struct kt_bpe_room *room, uint32_t at, uint32_t length, int32_t id)
{
    struct kt_symbol *grown =
        kt_array_grow(room->symbols, &room->capacity, room->n + 1, sizeof(*room->symbols));
    if (!grown)
        return false;
    uint32_t place = (uint32_t)room->n++;
    room->symbols = grown;
    if (place > 0)
        grown[place - 1].next = place;
    grown[place] = (struct kt_symbol){at, length, id, place ? place - 1 : NONE, NONE};
    return true;
}

void kt_bpe_room_free(struct kt_bpe_room *room)
{
    free(room->symbols);
    free(room->heap);
    *room = (struct kt_bpe_room){.n = 0};
}

/* Order of float32 numbers as unsigned integers, the highest number first. */
static uint32_t rank_score(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof(bits));
    bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return ~bits;
}

static bool may_become_control(const struct kt_bpe *bpe, struct kt_bpe_room *room)
{
    room->met_control = true;
    return !bpe->is_content;
}

/* Can the symbol and the next one be joined? */
static bool find_pair(const struct kt_bpe *bpe, struct kt_bpe_room *room, const char *word, uint32_t left,
                      struct kt_bpe_pair *pair)
{
    const struct kt_symbol *a = &room->symbols[left];
    if (a->next == NONE)
        return false;
    const struct kt_symbol *b = &room->symbols[a->next];
    *pair = (struct kt_bpe_pair){.left = left, .length = a->length + b->length};
    if (bpe->order == KT_BPE_MERGES) {
        const struct kt_merge *merge =
            a->id < 0 || b->id < 0 ? NULL : kt_merges_find(bpe->merges, a->id, b->id);
        if (!merge)
            return false;
        if ((merge->rank & KT_MERGE_CONTROL) && !may_become_control(bpe, room))
            return false;
        pair->priority = merge->rank & ~KT_MERGE_CONTROL;
        pair->id = merge->id;
        return true;
    }
    pair->id = kt_vocab_find(bpe->vocab, word + a->at, pair->length);
    if (pair->id < 0 ||
        ((bpe->vocab->tokens[pair->id].flags & KT_VOCAB_NO_CONTENT) && !may_become_control(bpe, room)))
        return false;
    pair->priority = bpe->order == KT_BPE_RANKS ? (uint32_t)pair->id : rank_score(bpe->scores[pair->id]);
    return true;
}

static void join(struct kt_bpe_room *room, const struct kt_bpe_pair *pair)
{
    struct kt_symbol *symbols = room->symbols, *a = &symbols[pair->left], *b = &symbols[a->next];
    a->length = pair->length;
    a->id = pair->id;
    a->next = b->next;
    b->length = 0;
    if (a->next != NONE)
        symbols[a->next].previous = pair->left;
}

/* ---- few symbols: the first pair is looked for each time ---- */

#define FEW 24

static void run_few(const struct kt_bpe *bpe, struct kt_bpe_room *room, const char *word)
{
    struct kt_bpe_pair pairs[FEW]; /* of each symbol with its next one; length 0: none */
    for (uint32_t i = 0; i < room->n; i++)
        if (!find_pair(bpe, room, word, i, &pairs[i]))
            pairs[i].length = 0;
    for (;;) {
        const struct kt_bpe_pair *first = NULL;
        for (uint32_t i = 0; i != NONE; i = room->symbols[i].next)
            if (pairs[i].length > 0 && (!first || pairs[i].priority < first->priority))
                first = &pairs[i];
        if (!first)
            return;
        uint32_t left = first->left, previous = room->symbols[left].previous;
        join(room, first);
        if (!find_pair(bpe, room, word, left, &pairs[left]))
            pairs[left].length = 0;
        if (previous != NONE && !find_pair(bpe, room, word, previous, &pairs[previous]))
            pairs[previous].length = 0;
    }
}

/* ---- many: a heap ---- */

static bool comes_first(const struct kt_bpe_pair *a, const struct kt_bpe_pair *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->left < b->left;
}

static bool push(struct kt_bpe_room *room, struct kt_bpe_pair pair)
{
    struct kt_bpe_pair *heap =
        kt_array_grow(room->heap, &room->heap_capacity, room->n_pairs + 1, sizeof(*heap));
    if (!heap)
        return false;
    room->heap = heap;
    size_t i = room->n_pairs++;
    for (; i > 0 && comes_first(&pair, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = pair;
    return true;
}

static struct kt_bpe_pair pop(struct kt_bpe_room *room)
{
    struct kt_bpe_pair *heap = room->heap, first = heap[0], last = heap[--room->n_pairs];
    size_t i = 0, n = room->n_pairs;
    for (size_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && comes_first(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_first(&heap[child], &last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

static bool push_found(const struct kt_bpe *bpe, struct kt_bpe_room *room, const char *word, uint32_t left)
{
    struct kt_bpe_pair pair;
    return left == NONE || !find_pair(bpe, room, word, left, &pair) || push(room, pair);
}

static bool run_many(const struct kt_bpe *bpe, struct kt_bpe_room *room, const char *word)
{
    room->n_pairs = 0;
    for (uint32_t i = 0; i + 1 < room->n; i++)
        if (!push_found(bpe, room, word, i))
            return false;
    while (room->n_pairs > 0) {
        struct kt_bpe_pair pair = pop(room);
        const struct kt_symbol *a = &room->symbols[pair.left];
        if (a->length == 0 || a->next == NONE || a->length + room->symbols[a->next].length != pair.length)
            continue;
        join(room, &pair);
        if (!push_found(bpe, room, word, a->previous) || !push_found(bpe, room, word, pair.left))
            return false;
    }
    return true;
}

bool kt_bpe_run(const struct kt_bpe *bpe, struct kt_bpe_room *room, const char *word)
{
    if (room->n > FEW)
        return run_many(bpe, room, word);
    if (room->n > 1)
        run_few(bpe, room, word);
    return true;
}
