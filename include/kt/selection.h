/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/selection.h - which rows of a cache (<kt/kv.h>) a query attends to: rows are scored, and the best ones
 * are selected, up to a budget. <kt/attention.h> attends to them. Part of <kt/kt.h>, which includes it and
 * describes what all functions have in common.
 *
 *     KT_SCORING_RELU   s_j = sum over heads h of weight_h * max(0, query_h . key_j)        (DeepSeek-V3.2)
 *
 * A query at position i sees rows 0 .. i. If these are no more than the budget, all are selected, and nothing
 * is computed. Otherwise the rows with the largest s_j are; among equal ones, the lower position comes first,
 * and NaN comes after all numbers. Heads are added in their order. So a selection does not depend on
 * threads, nodes, other items or how a prompt is divided.
 */
#ifndef KT_SELECTION_H
#define KT_SELECTION_H

#include <kt/types.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_kv;
struct kt_kv_sequence;
struct kt_selector;

enum kt_scoring { KT_SCORING_RELU = 0 };

/** kt_selected_rows.n_rows of a token that sees all rows up to its own. */
#define KT_SELECTION_ALL UINT32_MAX

/** The rows of n_tokens tokens of a sequence. Memory of the caller. */
struct kt_selected_rows {
    uint32_t *rows;   /**< [n_tokens][stride], of each token the first n_rows, ascending */
    uint32_t *n_rows; /**< [n_tokens] 1 to stride, or KT_SELECTION_ALL, which has nothing in `rows` */
    uint32_t stride;  /**< numbers from token to token, at least the budget */
    uint32_t reserved;
};

struct kt_selector_params {
    size_t struct_size;
    uint32_t layer;         /**< of the cache */
    uint32_t field;         /**< index of a field of the layer: KT_KV_ROWS of one head in KT_KV_KEY, stride 1,
                                 F32 or BF16, of an even width up to 1024 */
    uint32_t scoring;       /**< enum kt_scoring */
    uint32_t n_heads;       /**< of queries, 1 to 256 */
    uint32_t budget;        /**< rows that are selected, at least 1 */
    uint32_t max_sequences; /**< of a forward; 0: 64 */
    uint64_t max_tokens;    /**< of a sequence, 1 to 2^31; memory for scores depends on it */
    const char *backend;    /**< name of an attention plugin, or NULL: the first one that has scores */
    const char *name;       /**< for messages, such as "blk.0.indexer"; NULL: "selector". Copied. */
};
#define KT_SELECTOR_PARAMS_INIT KT_INIT(kt_selector_params)

/**
 * Prepares the selection for a layer of a cache. Keeps the cache's context alive, but not the cache: destroy
 * the selector before the cache. KT_E_UNSUPPORTED: the field or the plugin has not what is required;
 * KT_E_NOT_FOUND: no attention plugin is loaded that computes scores (plugin ABI 1.10).
 */
enum kt_status kt_selector_create(struct kt_kv *kv, const struct kt_selector_params *params,
                                  struct kt_selector **selector, struct kt_error *error);
/** `selector` may be NULL. No forward of it may run. */
void kt_selector_destroy(struct kt_selector *selector);

struct kt_selector_info {
    const char *backend; /**< lives as long as the context */
    const char *level;
    uint64_t buffer_size; /**< shared by all selectors, layers and attentions of the context */
};
void kt_selector_info(const struct kt_selector *selector, struct kt_selector_info *info);

/** The next n_tokens queries of a sequence, whose own keys have been written. */
struct kt_selector_item {
    const struct kt_kv_sequence *sequence; /**< of the cache of kt_selector_create */
    uint64_t position;                     /**< of the first query; all must be committed or reserved */
    uint32_t n_tokens;                     /**< 0 does nothing */
    uint32_t reserved;
    const float *queries; /**< [n_tokens][n_heads][width of the keys] */
    const float *weights; /**< [n_tokens][n_heads]; may be negative */
    struct kt_selected_rows selection;
};

struct kt_selector_batch {
    size_t struct_size;
    const struct kt_selector_item *items;
    uint32_t n_items; /**< at most max_sequences */
    uint32_t reserved;
    int64_t query_stride;  /**< bytes from token to token; 0: dense */
    int64_t weight_stride; /**< likewise */
};
#define KT_SELECTOR_BATCH_INIT KT_INIT(kt_selector_batch)

/** Fills the selections of all items. Checks everything before it writes. Allocates nothing. Any thread; the
 * caller's thread takes part. KT_E_BACKEND: the plugin failed; selections are then undefined. */
enum kt_status kt_selector_forward(const struct kt_selector *selector, const struct kt_selector_batch *batch,
                                   struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
