/* SPDX-License-Identifier: Apache-2.0 */
/* select.h - the selection of rows for a layer of a cache, with the plugin that computes scores. */
#ifndef KT_CORE_ATTENTION_SELECT_H
#define KT_CORE_ATTENTION_SELECT_H

#include <kt/kt.h>
#include <kt/plugin_attention.h>

struct kt_backend;

/* Tokens that are scored together, so that they share what is read of keys. */
#define KT_SELECT_TOKENS 8
/* Tokens that have scores at once. */
#define KT_SELECT_ROWS 256

/* Some tokens of an item, which have scores from row `row` of the buffer on. */
struct kt_select_tile {
    uint32_t item, token, n_tokens, row;
    uint32_t n_parts; /* of KT_SCORE_ROWS keys */
};

struct kt_selector {
    struct kt_context *context;
    const struct kt_kv *kv;
    const struct kt_backend *backend;
    const struct kt_attention_ops *ops;
    void *instance;
    struct kt_kv_place keys;
    uint32_t scoring, n_heads, budget, max_sequences;
    uint64_t max_tokens;
    uint64_t row_size;            /* bytes of the scores of a token */
    uint32_t n_rows;              /* tokens that the buffer has room for */
    struct kt_select_tile *tiles; /* [KT_SELECT_ROWS] of a round; the pool's lock is held */
    char *name;
};

/* The budget largest of n scores, ascending by position; of equal ones the earlier, NaN behind all numbers.
 * budget is below n. The scores are overwritten. */
void kt_select_top(float *scores, uint32_t n, uint32_t budget, uint32_t *rows);

#endif
