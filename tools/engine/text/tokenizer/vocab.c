/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/vocab.h"

#define XXH_INLINE_ALL
#include <kt/text.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <xxhash.h>

static bool add_bytes(struct kt_vocab *vocab, const char *text, size_t length, uint32_t *at)
{
    *at = (uint32_t)vocab->bytes.length;
    return length < UINT32_MAX - vocab->bytes.length && kt_buffer_add(&vocab->bytes, text, length);
}

bool kt_vocab_set(struct kt_vocab *vocab, uint32_t id, const char *text, size_t length, const char *shown,
                  size_t shown_length, uint8_t type)
{
    struct kt_vocab_token token = {.type = type};
    if (id >= vocab->n) {
        struct kt_vocab_token *grown =
            kt_array_grow(vocab->tokens, &vocab->capacity, (size_t)id + 1, sizeof(*grown));
        if (!grown)
            return false;
        vocab->tokens = grown;
        memset(grown + vocab->n, 0, (id + 1 - vocab->n) * sizeof(*grown));
        vocab->n = (size_t)id + 1;
    }
    if (!add_bytes(vocab, text, length, &token.at))
        return false;
    token.shown_at = token.at;
    if ((shown_length != length || memcmp(shown, text, length) != 0) &&
        !add_bytes(vocab, shown, shown_length, &token.shown_at))
        return false;
    token.length = (uint32_t)length;
    token.shown_length = (uint32_t)shown_length;
    vocab->tokens[id] = token;
    return true;
}

uint64_t kt_draw_seed(void)
{
    static uint64_t none;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = (uint64_t)(uintptr_t)&none ^ (uint64_t)time(NULL);
    return seed;
}

bool kt_vocab_index(struct kt_vocab *vocab, size_t n)
{
    size_t size = 16;
    vocab->seed = kt_draw_seed();
    while (size < 2 * n)
        size *= 2;
    free(vocab->slots);
    vocab->slots = calloc(size, sizeof(*vocab->slots));
    vocab->mask = size - 1;
    return vocab->slots != NULL;
}

/* The slot of a text, or the empty one where it would be. */
static uint64_t *find_slot(const struct kt_vocab *vocab, const char *text, size_t length, uint64_t hash)
{
    for (size_t i = hash & vocab->mask;; i = (i + 1) & vocab->mask) {
        uint64_t *slot = &vocab->slots[i];
        if (*slot == 0)
            return slot;
        if ((*slot ^ hash) >> 32 != 0)
            continue;
        const struct kt_vocab_token *token = &vocab->tokens[(uint32_t)*slot - 1];
        if (token->length == length && memcmp(vocab->bytes.data + token->at, text, length) == 0)
            return slot;
    }
}

void kt_vocab_enter(struct kt_vocab *vocab, uint32_t id)
{
    const char *text = kt_vocab_text(vocab, id);
    uint64_t hash = XXH3_64bits_withSeed(text, vocab->tokens[id].length, vocab->seed);
    uint64_t *slot = find_slot(vocab, text, vocab->tokens[id].length, hash);
    if (*slot == 0)
        *slot = (hash >> 32 << 32) | (id + 1);
}

int32_t kt_vocab_find_any(const struct kt_vocab *vocab, const char *text, size_t length)
{
    if (!vocab->slots)
        return -1;
    return (int32_t)(uint32_t)*find_slot(vocab, text, length,
                                         XXH3_64bits_withSeed(text, length, vocab->seed)) -
           1;
}

int32_t kt_vocab_find(const struct kt_vocab *vocab, const char *text, size_t length)
{
    int32_t id = kt_vocab_find_any(vocab, text, length);
    if (id < 0)
        return -1;
    uint8_t type = vocab->tokens[id].type;
    return type == KT_TOKEN_NORMAL || type == KT_TOKEN_USER ? id : -1;
}

void kt_vocab_free(struct kt_vocab *vocab)
{
    kt_buffer_free(&vocab->bytes);
    free(vocab->tokens);
    free(vocab->slots);
    *vocab = (struct kt_vocab){.n = 0};
}
