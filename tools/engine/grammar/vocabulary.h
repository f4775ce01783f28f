/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.h - a tokenizer's tokens by their bytes. */
#ifndef KT_ENGINE_GRAMMAR_VOCABULARY_H
#define KT_ENGINE_GRAMMAR_VOCABULARY_H

#include <kt/constraint.h>
#include <stdbool.h>

/** A node of a tree of tokens; its children follow it, so a subtree is a row of nodes. */
struct kt_trie_node {
    uint32_t end;   /**< behind its subtree */
    uint32_t first; /**< tokens of exactly these bytes: ids[first .. first + n - 1] */
    uint32_t plain; /**< groups of all tokens in the subtree (plain.h) */
    uint16_t n;
    uint16_t depth; /**< bytes */
    uint8_t byte;
    uint8_t n_characters; /**< of the longest of those, if all of them are plain */
};

struct kt_trie {
    struct kt_trie_node *nodes;
    int32_t *ids;
    uint32_t n_nodes, n_ids;
};

enum kt_vocabulary_kind {
    KT_WORD_NONE, /**< no text */
    KT_WORD_TEXT,
    KT_WORD_TAG, /**< control tokens, and added ones such as <tool_call>: only where a grammar has a tag */
    KT_WORD_END
};

struct kt_word {
    uint32_t text, length; /**< bytes of the vocabulary */
    uint32_t kind;
};

#define KT_PLAIN_GROUPS 31
#define KT_PLAIN_SHORT 16

struct kt_vocabulary {
    uint32_t n;
    struct kt_word *words; /**< [n] */
    char *bytes;
    uint16_t deepest;      /**< bytes of the longest text */
    struct kt_trie all;    /**< words of KT_WORD_TEXT */
    struct kt_trie rest;   /**< those of them that are not in `plain` */
    uint32_t *plain;       /**< [n] groups of characters, KT_PLAIN_NOT: others; while the trees are made */
    uint8_t *n_characters; /**< [n] of tokens whose characters have all groups; else 0 */
    uint64_t *plain_mask;  /**< those tokens */
    uint64_t *long_mask;   /**< those of them that have more than KT_PLAIN_SHORT characters */
    uint64_t *with_group;  /**< [31][words of a mask] tokens with characters of the group 1 << i */
    int32_t *tags, *ends;
    uint32_t n_tags, n_ends;
};

static inline uint64_t kt_mask_words(const struct kt_vocabulary *vocabulary)
{
    return ((uint64_t)vocabulary->n + 63) / 64;
}

static inline void kt_mask_set(uint64_t *mask, int32_t id)
{
    mask[id / 64] |= UINT64_C(1) << (id % 64);
}

#endif
