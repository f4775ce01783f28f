/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/attention.h - attention over the keys and values of a cache (<kt/kv.h>): many sequences at once, prompts
 * and decoding mixed. Part of <kt/kt.h>, which includes it and describes what all functions have in common.
 *
 *     s_j = scale * (q . k_j)              keys j = i - window + 1 .. i of a query at position i, from
 *                                          first_key of its item on
 *     s_j = softcap * tanh(s_j / softcap)  if there is a softcap
 *     p_j = exp(s_j) / (sum_j exp(s_j) + exp(sink))
 *     o   = sum_j p_j v_j
 *
 * Query head h uses head h / (n_heads / key heads) of keys and values. The output of a query that sees no key
 * is zero. Keys and values are those of the cache: BF16, Q8_0 or F32, keys in the layout KEY, values in
 * VALUE. A level rounds in the same way for all queries: levels that multiply bfloat16 pairs round the scaled
 * queries, and the p_j relative to the largest one of a chunk, to bfloat16.
 *
 * Multi-head latent attention has one field with one head: keys are its rows of 576 elements, values their
 * first 512 (value_field equal to key_field), and queries are absorbed. Its plain form is attention over keys
 * of 192 and values of 128 elements, with as many key heads as query heads.
 *
 * Latents may also be kept in the layout PLAIN, whose rows can be read one by one. Then each token of an item
 * may have a selection of rows (<kt/selection.h>), and only these are attended to:
 * p_j and the sum over j are of the selected rows alone. Rows are copied into blocks of keys,
 * KT_ATTENTION_CHUNK at a time in their order, and computed as any other keys by every plugin.
 */
#ifndef KT_ATTENTION_H
#define KT_ATTENTION_H

#include <kt/kt.h>
#include <kt/kv.h>
#include <kt/selection.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_attention;

struct kt_attention_params {
    size_t struct_size;
    uint32_t layer;         /**< of the cache */
    uint32_t key_field;     /**< index of a field of the layer: KT_KV_ROWS in KT_KV_KEY, stride 1; or in
                                 KT_KV_PLAIN, if value_field is the same and there is no window, and rows
                                 are whole 4 bytes of elements */
    uint32_t value_field;   /**< in KT_KV_VALUE, same number of heads; or key_field: prefixes of the keys */
    uint32_t n_heads;       /**< query heads: a multiple of the key heads */
    uint32_t value_size;    /**< elements of a value; 0: the width of value_field */
    float scale;            /**< 0: 1 / sqrt(width of the keys) */
    float softcap;          /**< 0: none */
    uint32_t max_sequences; /**< of a forward; 0: 64 */
    uint64_t window;        /**< tokens that a query sees, including its own; 0: all up to its own */
    const float *sinks;     /**< [n_heads], or NULL: none. Copied. */
    const char *backend;    /**< name of an attention plugin, or NULL: the first one that supports it */
    const char *name;       /**< for messages, such as "blk.0.attn"; NULL: "attention". Copied. */
};
#define KT_ATTENTION_PARAMS_INIT KT_INIT(kt_attention_params)

/**
 * Prepares attention of a layer of a cache. Keeps the cache's context alive, but not the cache: destroy
 * attention before the cache. KT_E_UNSUPPORTED: no plugin supports the shape; the message has the reasons.
 * KT_E_NOT_FOUND: no attention plugin is loaded.
 */
enum kt_status kt_attention_create(struct kt_kv *kv, const struct kt_attention_params *params,
                                   struct kt_attention **attention, struct kt_error *error);
/** `attention` may be NULL. No forward of it may run. */
void kt_attention_destroy(struct kt_attention *attention);

struct kt_attention_info {
    const char *backend; /**< lives as long as the context */
    const char *level;
    const char *instruction;
    uint32_t max_queries; /**< multiplied at once */
    uint32_t reserved;
    uint64_t buffer_size; /**< of all nodes, shared by all layers of the context */
};
void kt_attention_info(const struct kt_attention *attention, struct kt_attention_info *info);

/** The next n_tokens queries of a sequence, whose own keys and values have been written, and their outputs:
 * queries [n_tokens][n_heads][width of the keys], output [n_tokens][n_heads][value_size]. */
struct kt_attention_item {
    const struct kt_kv_sequence *sequence; /**< of the cache of kt_attention_create */
    uint64_t position;                     /**< of the first query; all must be committed or reserved */
    uint32_t n_tokens;                     /**< 0 does nothing */
    uint32_t first_key; /**< keys before it are not seen: a multiple of KT_KV_PAGE, `position` at most */
    const void *queries;
    void *output; /**< must not overlap its queries (KT_E_INVALID) or other data of the batch */
};

struct kt_attention_batch {
    size_t struct_size;
    const struct kt_attention_item *items;
    uint32_t n_items;      /**< at most max_sequences; a sequence may occur in several */
    uint32_t query_dtype;  /**< KT_DTYPE_F32, KT_DTYPE_BF16 or KT_DTYPE_F16 */
    uint32_t output_dtype; /**< likewise */
    uint32_t reserved;
    int64_t query_stride;  /**< bytes from token to token; 0: dense */
    int64_t output_stride; /**< likewise */

    /** [n_items] of keys in KT_KV_PLAIN, or NULL: all tokens see all rows up to their own. */
    const struct kt_selected_rows *selections;
};
#define KT_ATTENTION_BATCH_INIT KT_INIT(kt_attention_batch)

/**
 * Computes all outputs in one dispatch. Checks everything before it writes. Outputs have the same bits for
 * any number of threads and nodes, and regardless of other items in the batch. NaN and infinities of a
 * sequence do not affect others. Allocates nothing. Any thread; the caller's thread takes part. KT_E_BACKEND:
 * the plugin failed during computation; outputs are then undefined.
 */
enum kt_status kt_attention_forward(const struct kt_attention *attention,
                                    const struct kt_attention_batch *batch, struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
