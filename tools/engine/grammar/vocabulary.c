/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c - tokens as a tree of bytes, and those that any JSON string may have. */
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/grammar/plain.h"
#include "tools/engine/grammar/vocabulary.h"
#include "tools/engine/text/utf8.h"

#include <kt/text.h>
#include <stdlib.h>
#include <string.h>

/* Longer tokens are none of JSON's: depths are 16 bits. */
#define MOST_BYTES 4096

static uint32_t kind_of(const struct kt_token *token)
{
    if (token->ends)
        return KT_WORD_END;
    if (token->length == 0 || token->length > MOST_BYTES)
        return KT_WORD_NONE;
    switch (token->type) {
    case KT_TOKEN_NORMAL:
    case KT_TOKEN_BYTE:
        return KT_WORD_TEXT;
    case KT_TOKEN_CONTROL:
        return KT_WORD_TAG;
    case KT_TOKEN_USER: /* a tag, or blanks and the like */
        return strchr("<[|", token->text[0]) && token->length > 1 ? KT_WORD_TAG : KT_WORD_TEXT;
    default:
        return KT_WORD_NONE;
    }
}

/* Characters that stand for themselves in a JSON string, and their groups; 0: there are others, or half ones.
 */
static uint32_t count_plain(const char *text, size_t length, uint32_t *groups)
{
    uint32_t n = 0, code;
    *groups = 0;
    for (size_t i = 0; i < length; n++) {
        size_t size = kt_utf8_read(text + i, length - i, &code);
        *groups |= size ? kt_plain_group(code) : KT_PLAIN_NOT;
        if (*groups & KT_PLAIN_NOT)
            return 0;
        i += size;
    }
    return n;
}

static void add_plain(struct kt_vocabulary *v, int32_t id, uint32_t groups, uint32_t n)
{
    kt_mask_set(v->plain_mask, id);
    if (n > KT_PLAIN_SHORT)
        kt_mask_set(v->long_mask, id);
    for (uint32_t i = 0; i < KT_PLAIN_GROUPS; i++)
        if (groups >> i & 1)
            kt_mask_set(v->with_group + i * kt_mask_words(v), id);
}

static bool read_words(struct kt_vocabulary *v, const struct kt_tokenizer *tokenizer)
{
    struct kt_buffer bytes = {.data = NULL};
    for (uint32_t id = 0; id < v->n; id++) {
        struct kt_token token;
        v->plain[id] = KT_PLAIN_NOT;
        if (kt_tokenizer_token(tokenizer, id, &token, NULL) != KT_OK)
            continue;
        struct kt_word *word = &v->words[id];
        *word = (struct kt_word){(uint32_t)bytes.length, (uint32_t)token.length, kind_of(&token)};
        if (word->kind == KT_WORD_END)
            v->ends[v->n_ends++] = (int32_t)id;
        else if (word->kind == KT_WORD_TAG)
            v->tags[v->n_tags++] = (int32_t)id;
        if (word->kind == KT_WORD_TEXT && v->deepest < word->length)
            v->deepest = (uint16_t)word->length;
        uint32_t groups, n = count_plain(token.text, token.length, &groups);
        if (word->kind == KT_WORD_TEXT && n > 0 && n <= UINT8_MAX) {
            v->plain[id] = groups;
            v->n_characters[id] = (uint8_t)n;
            add_plain(v, (int32_t)id, groups, n);
        }
        if ((word->kind == KT_WORD_TEXT || word->kind == KT_WORD_TAG) &&
            !kt_buffer_add(&bytes, token.text, token.length)) {
            kt_buffer_free(&bytes);
            return false;
        }
    }
    v->bytes = bytes.data;
    return true;
}

/* ---- the tree ---- */

struct entry {
    const unsigned char *text;
    uint32_t length;
    int32_t id;
};

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    if (order == 0)
        order = (x->length > y->length) - (x->length < y->length);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* How many bytes an entry has in common with the one before it. */
static uint32_t common(const struct entry *entries, uint32_t i)
{
    uint32_t n = 0;
    while (i > 0 && n < entries[i].length && n < entries[i - 1].length &&
           entries[i].text[n] == entries[i - 1].text[n])
        n++;
    return n;
}

/* Ends a node: what is in it is in the one above, too. */
static void close_node(struct kt_trie *trie, const uint32_t *path, uint32_t depth)
{
    struct kt_trie_node *node = &trie->nodes[path[depth]];
    node->end = trie->n_nodes;
    if (depth == 0)
        return;
    struct kt_trie_node *above = &trie->nodes[path[depth - 1]];
    above->plain |= node->plain;
    if (above->n_characters < node->n_characters)
        above->n_characters = node->n_characters;
}

/* Of sorted entries; `path` has room for a node of each depth. */
static void fill(const struct kt_vocabulary *v, struct kt_trie *trie, const struct entry *entries, uint32_t n,
                 uint32_t *path)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t shared = common(entries, i);
        while (depth > shared)
            close_node(trie, path, --depth);
        while (depth < entries[i].length) {
            path[depth] = trie->n_nodes;
            trie->nodes[trie->n_nodes++] = (struct kt_trie_node){.first = trie->n_ids,
                                                                 .byte = entries[i].text[depth],
                                                                 .depth = (uint16_t)(depth + 1)};
            depth++;
        }
        struct kt_trie_node *node = &trie->nodes[path[depth - 1]];
        node->n++;
        node->plain |= v->plain[entries[i].id];
        node->n_characters = v->n_characters[entries[i].id]; /* the same of all tokens of its bytes */
        trie->ids[trie->n_ids++] = entries[i].id;
    }
    while (depth > 0)
        close_node(trie, path, --depth);
}

static bool make_trie(struct kt_vocabulary *v, struct kt_trie *trie, bool without_plain)
{
    struct entry *entries = calloc((size_t)v->n + 1, sizeof(*entries));
    uint32_t *path = calloc((size_t)v->deepest + 1, sizeof(*path)), n = 0;
    size_t n_nodes = 0;
    for (uint32_t id = 0; id < v->n && entries; id++) {
        const struct kt_word *word = &v->words[id];
        if (word->kind == KT_WORD_TEXT && !(without_plain && v->n_characters[id]))
            entries[n++] =
                (struct entry){(const unsigned char *)v->bytes + word->text, word->length, (int32_t)id};
    }
    if (entries && path) {
        qsort(entries, n, sizeof(*entries), compare);
        for (uint32_t i = 0; i < n; i++)
            n_nodes += entries[i].length - common(entries, i);
        trie->nodes = calloc(n_nodes + 1, sizeof(*trie->nodes));
        trie->ids = calloc((size_t)n + 1, sizeof(*trie->ids));
    }
    bool done = trie->nodes && trie->ids;
    if (done)
        fill(v, trie, entries, n, path);
    free(entries);
    free(path);
    return done;
}

enum kt_status kt_vocabulary_create(const struct kt_tokenizer *tokenizer, struct kt_vocabulary **vocabulary,
                                    struct kt_error *error)
{
    struct kt_tokenizer_info info;
    if (!tokenizer || !vocabulary)
        return kt_engine_fail(error, KT_E_INVALID, "kt_vocabulary_create: %s is NULL",
                              tokenizer ? "vocabulary" : "tokenizer");
    struct kt_vocabulary *v = calloc(1, sizeof(*v));
    kt_tokenizer_info(tokenizer, &info);
    if (v) {
        v->n = info.n_tokens;
        v->words = calloc((size_t)v->n + 1, sizeof(*v->words));
        v->tags = calloc((size_t)v->n + 1, sizeof(*v->tags));
        v->ends = calloc((size_t)v->n + 1, sizeof(*v->ends));
        v->plain_mask = calloc(kt_mask_words(v) + 1, sizeof(*v->plain_mask));
        v->long_mask = calloc(kt_mask_words(v) + 1, sizeof(*v->long_mask));
        v->with_group = calloc(KT_PLAIN_GROUPS * kt_mask_words(v) + 1, sizeof(*v->with_group));
        v->plain = calloc((size_t)v->n + 1, sizeof(*v->plain));
        v->n_characters = calloc((size_t)v->n + 1, 1);
    }
    if (!v || !v->words || !v->tags || !v->ends || !v->plain_mask || !v->long_mask || !v->with_group ||
        !v->plain || !v->n_characters || !read_words(v, tokenizer) || !make_trie(v, &v->all, false) ||
        !make_trie(v, &v->rest, true)) {
        kt_vocabulary_destroy(v);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for the tree of %u tokens", info.n_tokens);
    }
    free(v->plain);
    v->plain = NULL;
    *vocabulary = v;
    return KT_OK;
}

void kt_vocabulary_destroy(struct kt_vocabulary *v)
{
    if (!v)
        return;
    free(v->words);
    free(v->bytes);
    free(v->all.nodes);
    free(v->all.ids);
    free(v->rest.nodes);
    free(v->rest.ids);
    free(v->plain);
    free(v->plain_mask);
    free(v->long_mask);
    free(v->with_group);
    free(v->n_characters);
    free(v->tags);
    free(v->ends);
    free(v);
}
