/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/plugin_attention.h - the functions of an attention plugin. Since plugin ABI 1.6; <kt/plugin.h> has the
 * rules for all plugins.
 *
 * The core divides the work and implements threads, nodes and the order of sums; a plugin computes parts. A
 * query is a head of a token. Its keys are always divided into chunks of KT_ATTENTION_CHUNK tokens, at
 * multiples of that: for a chunk, attend() computes a partial result
 *
 *     m = max_j s_j          s_j = score of key j, of those keys of the chunk that the query sees
 *     l = sum_j exp(s_j - m)
 *     o = sum_j exp(s_j - m) v_j
 *
 * and merge() adds up partial results. So a query has the same bits in a prompt and in decoding, alone and in
 * a batch, on one thread and on many, as long as attend() uses one method for each query. Adding a chunk's
 * result directly after its products avoids writing it to memory; a level that supports this sets
 * kt_attention_layout.adds (since 1.8).
 */
#ifndef KT_PLUGIN_ATTENTION_H
#define KT_PLUGIN_ATTENTION_H

#include <kt/kv.h>
#include <kt/plugin.h>
#include <kt/selection.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

/** Keys of a chunk: whole pages. */
#define KT_ATTENTION_CHUNK 256

/** What a layer of a model attends to. */
struct kt_attention_shape {
    uint32_t n_heads;    /**< of queries that share a head of keys */
    uint32_t key_size;   /**< numbers of a query and a key */
    uint32_t value_size; /**< numbers of a value and an output */
    uint32_t latent;     /**< not 0: values are the first value_size numbers of the keys */
    float scale;         /**< s = scale * (q . k) */
    float softcap;       /**< above 0: s = softcap * tanh(s / softcap), after the scale */
    uint64_t window;     /**< query i sees keys j with 0 <= i - j < window; UINT64_MAX: all before it */
    struct kt_kv_field key, value; /**< as the cache keeps them, see struct kt_kv_place; latent: equal */
};

/**
 * How a level computes a shape. The core passes it to layout(), zeroed except its first two fields, and then
 * with every job.
 */
struct kt_attention_layout {
    struct kt_attention_shape shape; /**< filled by the core */
    uint32_t deterministic;          /**< filled by the core: as in struct kt_layout */
    uint32_t max_queries;            /**< queries of one attend, at most; at least 1 */
    uint64_t partial_stride;         /**< bytes of a query's partial result, a multiple of 64 */
    uint64_t scratch_size;           /**< bytes that a thread needs for an attend, at most */
    const char *instruction;         /**< as in struct kt_layout; NULL: the level's. Static. */
    uint64_t words[8];               /**< private to the plugin */

    /** Since 1.7, by the order of kt_attention_ops.tunables: as in struct kt_layout. */
    uint64_t tuned[KT_MAX_TUNABLES];

    /** Since 1.8. Not 0: attend() supports keys of several chunks, and kt_attend.add. */
    uint32_t adds;
    uint32_t reserved;
};

/**
 * Queries of one head of keys against the keys [begin, end) of one chunk; with kt_attention_layout.adds,
 * which plugins before 1.8 have not, of any number of them.
 *
 * Query (t, h), token t of n_tokens and head h of n_heads, has key_size elements of query_dtype at
 * queries + t * query_stride + h * key_size elements; its position is position + t, and it sees keys up to
 * its own position. end is at most position + n_tokens; keys after a query's own position have weight 0, and
 * a NaN among their values may affect the query: it stays in the sequence. Its partial result is written to
 * partial + (t * n_heads + h) * partial_stride in a form that only the plugin reads; for a query that sees no
 * key of the chunk, it is one that merge() ignores. For several chunks it is the sum in their order, bit for
 * bit as by merge(); with `add`, it is added to the existing partial result.
 *
 * Sums are float32. A level that rounds scaled queries and weights to bfloat16, and of a cache in Q8_0 also
 * keys and values, has an instruction with "bf" in its name (struct kt_attention_layout.instruction, or the
 * level's), by which `kt plugin check` derives its bounds.
 */
struct kt_attend {
    const struct kt_attention_layout *layout;
    const void *queries;
    int64_t query_stride;
    uint32_t query_dtype; /**< KT_DTYPE_F32, BF16 or F16 */
    uint32_t n_tokens;    /**< n_tokens * n_heads is at most max_queries */
    uint32_t n_heads;
    uint32_t add; /**< not 0: the partial results are those of keys before begin. Since 1.8; 0 before. */
    uint64_t position;
    const struct kt_kv_place *keys, *values; /**< values: those of keys if latent */
    const uint32_t *pages;                   /**< the sequence's page table */
    uint64_t begin, end;                     /**< begin < end; begin is a multiple of KT_KV_PAGE */
    uint64_t next; /**< this thread continues with keys [end, next) of this head; end: unknown */
    void *partial; /**< aligned to 64 bytes */
    void *scratch; /**< scratch_size bytes, aligned to 64, of this thread */
    struct kt_error *error;
};

/**
 * Adds up partial results of queries, chunk after chunk: first + second, with m the larger of both,
 *     l = l1 exp(m1 - m) + l2 exp(m2 - m), o likewise.
 * If one of them saw no key, the result is the other, bit for bit. Results are merged and finished as
 * produced by attend: all queries of a call, in its order, so a plugin may use its own form for the whole
 * call.
 */
struct kt_attention_merge {
    const struct kt_attention_layout *layout;
    uint32_t n_queries;
    uint32_t reserved;
    void *first;        /**< n_queries results, partial_stride apart; holds the sum afterwards */
    const void *second; /**< likewise */
};

/**
 * Outputs of queries: o / l, zeros if l is 0, NaN if o or l is NaN. A sink is a score without a value:
 * l + exp(sink - m), with m the larger of m and the sink.
 */
struct kt_attention_finish {
    const struct kt_attention_layout *layout;
    uint32_t n_tokens, n_heads;
    const void *partial; /**< as attend and merge left it */
    const float *sinks;  /**< [n_heads], or NULL: there are none */
    void *output; /**< value_size numbers of query (t, h) at output + t * output_stride + h * value_size */
    int64_t output_stride;
    uint32_t output_dtype; /**< KT_DTYPE_F32, BF16 or F16 */
    uint32_t reserved;
};

/** Rows of keys of a score: at most so many. */
#define KT_SCORE_ROWS 512

/**
 * Since 1.10. Scores of rows [begin, end) of one head of keys, for the queries of n_tokens tokens, as
 * enum kt_scoring of <kt/selection.h> defines them:
 *
 *     KT_SCORING_RELU   score of row j = sum over h of weight_h * max(0, query_h . key_j)
 *
 * In float32, of keys in F32 or BF16 in the layout KEY; heads are added in their order. A score only depends
 * on its own query and row. Whole blocks of KT_KV_BLOCK rows are computed; what a token does not see is
 * ignored.
 */
struct kt_score {
    uint32_t scoring; /**< enum kt_scoring */
    uint32_t n_tokens, n_heads;
    uint32_t size;        /**< numbers of a key, even, at most 1024 */
    const float *queries; /**< [n_tokens][n_heads][size] */
    const float *weights; /**< [n_tokens][n_heads] */
    int64_t query_stride; /**< bytes from token to token */
    int64_t weight_stride;
    const struct kt_kv_place *keys;
    const uint32_t *pages; /**< the sequence's page table */
    uint64_t begin, end;   /**< begin < end <= begin + KT_SCORE_ROWS; begin is a multiple of KT_KV_PAGE */
    float *scores;         /**< of row `begin` of the first token, aligned to 64 bytes */
    int64_t score_stride;  /**< bytes from token to token, a multiple of 64 */
    struct kt_error *error;
};

/** The functions of a level. struct_size = sizeof(struct kt_attention_ops). Apart from layout, all are called
 * from many threads at once, with jobs that write to disjoint memory. */
struct kt_attention_ops {
    uint32_t struct_size;
    uint32_t reserved;

    /** Required. Fills the layout for layout->shape, or fails with KT_E_UNSUPPORTED and a reason. */
    enum kt_status (*layout)(void *instance, struct kt_attention_layout *layout, struct kt_error *error);
    /** Required. A query's result only depends on its own values, its position and its keys, not on other
     * queries. It may depend on their number, except if layout->deterministic is set. */
    void (*attend)(void *instance, const struct kt_attend *job);
    /** Required. */
    void (*merge)(void *instance, const struct kt_attention_merge *job);
    /** Required. */
    void (*finish)(void *instance, const struct kt_attention_finish *job);
    /** Optional, both or none: around the work of a thread, as in struct kt_ops. */
    void (*thread_enter)(void *instance);
    void (*thread_leave)(void *instance);

    /** Since 1.7: as in struct kt_ops. */
    const struct kt_tunable *tunables;
    uint32_t n_tunables;
    uint32_t reserved_tunables;

    /** Since 1.10, optional. A selector is not made with a plugin that has none. */
    void (*score)(void *instance, const struct kt_score *job);
};
#define KT_ATTENTION_OPS_INIT KT_INIT(kt_attention_ops)

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
