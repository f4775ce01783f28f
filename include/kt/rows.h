/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/rows.h - computations on rows between a model's matrices and its attention: norms, gates, rotary
 * positions, router products and selection, causal convolutions, the gated delta rule. Part of <kt/kt.h>,
 * which includes it and describes what all functions have in common.
 *
 * A row is a token. A function computes the rows of its job in the caller's thread: a caller divides rows,
 * heads or channels over threads, each with its own job whose pointers begin elsewhere. All functions may be
 * called by a function that runs on a context's threads (kt_context_run_threads).
 *
 * Rows need not be dense: strides are bytes from one row, or part of a row, to the next; 0 means dense. They
 * must be multiples of the element size. An output may be the same memory as an input of the same dtype and
 * strides where this is documented; otherwise outputs must not overlap anything. Jobs of zero rows do
 * nothing.
 *
 * Errors. A job is checked before anything is written; messages have the actual and the expected sizes.
 * Memory that it points to is not checked. No function allocates.
 *
 * Bits. A level (struct kt_rows_info) computes a row with one method, regardless of other rows in the job and
 * of how rows, heads and channels are divided; the only exception is kt_rows_delta. Levels differ in the last
 * bits. NaN and infinities of a row stay in that row.
 */
#ifndef KT_ROWS_H
#define KT_ROWS_H

#include <kt/types.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_context;

/** The functions of a CPU level, of a plugin. */
struct kt_rows;

/**
 * The plugin that computes rows: the one with this name, or with NULL the loaded one with the highest
 * priority. Lives as long as the context. Takes no lock. KT_E_NOT_FOUND: no such plugin is loaded.
 */
enum kt_status kt_rows_find(const struct kt_context *context, const char *backend,
                            const struct kt_rows **rows, struct kt_error *error);

struct kt_rows_info {
    const char *backend; /**< lives as long as the context */
    const char *level;
    const char *instruction;
};
void kt_rows_info(const struct kt_rows *rows, struct kt_rows_info *info);

/** Rows that are read. Part p of row r begins at data + r * stride + p * part_stride. */
struct kt_rows_input {
    const void *data;
    int64_t stride;      /**< 0: all parts of a row, dense */
    int64_t part_stride; /**< 0: the elements of a part, dense */
    uint32_t dtype;      /**< KT_DTYPE_F32, KT_DTYPE_BF16 or KT_DTYPE_F16 */
    uint32_t reserved;
};

/** Rows that are written, likewise. */
struct kt_rows_output {
    void *data;
    int64_t stride;
    int64_t part_stride;
    uint32_t dtype;
    uint32_t reserved;
};

/* ---- norms ------------------------------------------------------------------------------------ */

enum kt_norm {
    KT_NORM_RMS = 0,  /**< x / sqrt(mean(x^2) + eps) */
    KT_NORM_L2 = 1,   /**< x / sqrt(sum(x^2) + eps) */
    KT_NORM_LAYER = 2 /**< (x - mean) / sqrt(mean((x - mean)^2) + eps) */
};

/**
 * Normalizes each part of a row (`size` elements) separately with the same weights:
 *
 *     residual += input                                               if there is a residual
 *     output = norm(x) * scale * (weight_offset + weight) + bias      x: the residual, or else the input
 *     output = output * silu(gate)                                    if there is a gate
 *
 * A layer's norm has one part; the norm of queries and keys has one per head; Gated DeltaNet normalizes its
 * heads with a gate, and its queries and keys with KT_NORM_L2. Sums are float32. The output may be the memory
 * of the input, the residual (F32) or the gate.
 */
struct kt_rows_norm {
    size_t struct_size;
    uint32_t norm; /**< enum kt_norm */
    uint32_t n_rows;
    uint32_t n_parts; /**< of a row; 0: 1 */
    uint32_t size;    /**< numbers of a part, 1 to 2^24 */
    struct kt_rows_input input;
    struct kt_rows_output output;
    struct kt_rows_output residual; /**< F32; data NULL: none */
    struct kt_rows_input gate;      /**< data NULL: none */
    const float *weight;            /**< [size], or NULL: 1 */
    const float *bias;              /**< [size], or NULL: 0 */
    float weight_offset;            /**< 1 if the checkpoint has weights minus 1; ignored without weights */
    float eps;                      /**< not below 0 */
    float scale;                    /**< 0: 1 */
    uint32_t reserved;
};
#define KT_ROWS_NORM_INIT KT_INIT(kt_rows_norm)
enum kt_status kt_rows_norm(const struct kt_rows *rows, const struct kt_rows_norm *job,
                            struct kt_error *error);

/* ---- gates ------------------------------------------------------------------------------------ */

enum kt_gating {
    KT_GATING_PLAIN = 0,   /**< g itself */
    KT_GATING_SIGMOID = 1, /**< 1 / (1 + exp(-g)) */
    KT_GATING_SILU = 2,    /**< g / (1 + exp(-g)) */
    KT_GATING_GELU = 3     /**< g / 2 (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3)))     (Gemma) */
};

/**
 *     output = input * f(gate)         or, with accumulate, output += input * f(gate)
 *
 * Examples: the output gate of attention (SIGMOID, one per element), the gate of a shared expert (SIGMOID,
 * one per row, accumulated), a dense layer's silu(gate) * up (SILU). Without a gate, f is 1: rows are copied,
 * converted or added. The output may be the memory of the input or of the gate.
 */
struct kt_rows_gate {
    size_t struct_size;
    uint32_t gating; /**< enum kt_gating */
    uint32_t n_rows;
    uint32_t n_parts; /**< of a row; 0: 1 */
    uint32_t size;    /**< numbers of a part, 1 to 2^24 */
    struct kt_rows_input input;
    struct kt_rows_input gate; /**< data NULL: none */
    struct kt_rows_output output;
    uint32_t one_gate;   /**< not 0: the gate has one element per part, else `size` */
    uint32_t accumulate; /**< not 0: the output is added to */
};
#define KT_ROWS_GATE_INIT KT_INIT(kt_rows_gate)
enum kt_status kt_rows_gate(const struct kt_rows *rows, const struct kt_rows_gate *job,
                            struct kt_error *error);

/* ---- rotary positions -------------------------------------------------------------------------- */

enum kt_rope_pairing {
    KT_ROPE_NEOX = 0, /**< pair i is numbers i and i + size / 2 */
    KT_ROPE_NORM = 1  /**< pair i is numbers 2i and 2i + 1 */
};

/**
 * Rotates the first `size` elements of each head of float32 rows, in place; the others do not change. With c
 * and s of the pair in the row's table, (a, b) becomes (a c - b s, a s + b c). To rotate later elements, as
 * in multi-head latent attention, let data begin there.
 */
struct kt_rows_rotate {
    size_t struct_size;
    uint32_t pairing; /**< enum kt_rope_pairing */
    uint32_t n_rows;
    uint32_t n_heads;
    uint32_t size;             /**< even, 2 to 1024 */
    float *data;               /**< [n_rows][n_heads][head_stride] */
    int64_t stride;            /**< bytes from row to row; 0: n_heads * head_stride */
    int64_t head_stride;       /**< bytes from head to head; 0: size numbers */
    const float *table;        /**< [][size / 2][2] as kt_rope_table makes it: cos and sin */
    int64_t table_stride;      /**< bytes from row to row of the table; 0: dense */
    const uint32_t *table_row; /**< [n_rows]: row r has row table_row[r] of the table; NULL: row r */
    uint32_t n_table_rows;     /**< that the table has */
    uint32_t reserved;
};
#define KT_ROWS_ROTATE_INIT KT_INIT(kt_rows_rotate)
enum kt_status kt_rows_rotate(const struct kt_rows *rows, const struct kt_rows_rotate *job,
                              struct kt_error *error);

enum kt_rope_scaling {
    KT_ROPE_PLAIN = 0,
    KT_ROPE_LINEAR = 1, /**< frequencies divided by the factor */
    KT_ROPE_YARN = 2,
    KT_ROPE_LLAMA3 = 3
};

/**
 * The angle of pair i at position p is p * f_i, with f_i = base^(-2i / size) / divisor_i, and then, s being
 * the factor and L the original positions:
 *
 *     LINEAR   f_i / s
 *     YARN     corr(b) = size ln(L / (2 pi b)) / (2 ln base)
 *              low = max(0, floor corr(beta_fast)), high = min(size - 1, ceil corr(beta_slow));
 *              with no_truncate neither floor nor ceil
 *              t = clamp((i - low) / max(0.001, high - low), 0, 1);  f_i (t / s + 1 - t)
 *              cos and sin times a: the attention factor if that is given; else m(mscale) / m(mscale_all_dim)
 *              if both are; else 0.1 ln s + 1; with m(c) = 0.1 c ln s + 1, and 1 where s <= 1
 *     LLAMA3   with a wave length w = 2 pi / f_i: f_i where w < L / high_frequency, f_i / s where w >
 *              L / low_frequency, else f_i (u + (1 - u) / s), u = (L / w - low_frequency) /
 *              (high_frequency - low_frequency)
 *
 * as in Hugging Face transformers (modeling_rope_utils.py). All in double precision.
 */
struct kt_rope_params {
    size_t struct_size;
    uint32_t size;                        /**< numbers of a head that are rotated: even, 2 to 1024 */
    uint32_t scaling;                     /**< enum kt_rope_scaling */
    double base;                          /**< theta, above 1 */
    double factor;                        /**< not PLAIN: above 0 */
    double original_positions;            /**< YARN and LLAMA3: original_max_position_embeddings, above 0 */
    double beta_fast, beta_slow;          /**< YARN; 0: 32 and 1 */
    double attention_factor;              /**< YARN; 0: not given */
    double mscale, mscale_all_dim;        /**< YARN; 0: not given */
    double low_frequency, high_frequency; /**< LLAMA3; 0: 1 and 4 */
    const float *divisors;                /**< [size / 2] as GGUF's rope_freqs, or NULL: 1 */
    uint32_t no_truncate;                 /**< YARN, not 0: "truncate": false */
    uint32_t reserved;
};
#define KT_ROPE_PARAMS_INIT KT_INIT(kt_rope_params)

/** Fills rows of a table for the positions first, first + 1, ...; [n_rows][size / 2][2], `stride` bytes from
 * row to row, 0: dense. Does not require a plugin. */
enum kt_status kt_rope_table(const struct kt_rope_params *params, uint64_t first, uint32_t n_rows,
                             float *table, int64_t stride, struct kt_error *error);

/** The additional factor of the softmax scale in a YARN model with multi-head latent attention:
 * m(mscale_all_dim)^2; 1 if that is not given or the scaling is not YARN. */
enum kt_status kt_rope_softmax_factor(const struct kt_rope_params *params, double *factor,
                                      struct kt_error *error);

/* ---- routers ----------------------------------------------------------------------------------- */

/**
 *     output[t][e] = bias[e] + sum over c of input[t][c] * weight[e][c]
 *
 * in float32, as required for router logits: with bfloat16, other experts would be selected. Each sum has a
 * fixed order. Tokens are divided over threads with pointers, and so are outputs (weight, bias and output
 * begin later).
 */
struct kt_rows_multiply {
    size_t struct_size;
    uint32_t n_rows;
    uint32_t n_outputs;
    uint32_t size;              /**< numbers of an input, 1 to 2^24 */
    uint32_t weight_dtype;      /**< KT_DTYPE_F32, KT_DTYPE_BF16 or KT_DTYPE_F16 */
    struct kt_rows_input input; /**< one part */
    const void *weight;         /**< [n_outputs][size] */
    int64_t weight_stride;      /**< 0: dense */
    const float *bias;          /**< [n_outputs], or NULL */
    float *output;
    int64_t output_stride; /**< bytes from row to row; 0: n_outputs numbers */
};
#define KT_ROWS_MULTIPLY_INIT KT_INIT(kt_rows_multiply)
enum kt_status kt_rows_multiply(const struct kt_rows *rows, const struct kt_rows_multiply *job,
                                struct kt_error *error);

enum kt_routing {
    KT_ROUTING_SOFTMAX =
        0,              /**< p = softmax over all experts; w = p                    (Qwen3-MoE, Mixtral) */
    KT_ROUTING_TOP = 1, /**< as SOFTMAX, but over the selected: always normalized   (gpt-oss) */
    KT_ROUTING_SIGMOID = 2, /**< p = sigmoid; w = p                      (DeepSeek-V3, GLM-4.5, MiniMax-M2) */
    KT_ROUTING_LOGITS = 3,  /**< p = z; w = sigmoid(z)                                          (Kolibri) */
    KT_ROUTING_MIXER = 4    /**< p = z; w: see below                                   (Phi-3.5-MoE) */
};

/** The score of a group of experts. */
enum kt_group_score {
    KT_GROUP_BEST_TWO = 0, /**< the sum of its two largest p + correction          (DeepSeek-V3) */
    KT_GROUP_BEST = 1      /**< its largest                                        (DeepSeek-V2) */
};

/**
 * Chooses top_k experts for each row of logits z:
 *
 *     c = p + correction                            what experts are chosen by
 *     n_groups above 1: only the top_groups groups with the best scores keep their experts
 *     ids = the top_k of c, largest first; weights = w of these
 *     normalize: weights / (their sum [+ 1e-20 if SIGMOID]);  weights * scale
 *
 * MIXER has no correction and no groups. With m the z of an expert that is chosen, w of it is 1 / (the sum of
 * exp(z - m) over all experts that were not chosen before it and are near: m - z <= near max(|z|, m)).
 *
 * Ties are resolved in the order of expert numbers, and of group numbers. Without correction and groups,
 * softmax selects by z, which has the same order as p, exactly and at any level. A NaN stays in its row,
 * whose weights all become NaN; its ids are still top_k different ones, as NaN is treated as less than any
 * number.
 */
struct kt_rows_route {
    size_t struct_size;
    uint32_t routing; /**< enum kt_routing */
    uint32_t n_rows;
    uint32_t n_experts; /**< 1 to 4096 */
    uint32_t top_k;     /**< 1 to 128, at most the experts of the groups that are kept */
    uint32_t n_groups;  /**< 0 or 1: none; else the experts must divide into them */
    uint32_t top_groups;
    uint32_t group_score;    /**< enum kt_group_score */
    uint32_t normalize;      /**< not 0: the weights of a row sum up to `scale` */
    float scale;             /**< 0: 1 */
    float near;              /**< MIXER; not below 0 */
    const float *logits;     /**< [n_rows][n_experts] */
    int64_t logits_stride;   /**< bytes from row to row; 0: dense */
    const float *correction; /**< [n_experts] (e_score_correction_bias), or NULL */
    int64_t *ids;            /**< [n_rows][top_k], dense, as in struct kt_forward */
    float *weights;          /**< [n_rows][top_k], dense */
};
#define KT_ROWS_ROUTE_INIT KT_INIT(kt_rows_route)
enum kt_status kt_rows_route(const struct kt_rows *rows, const struct kt_rows_route *job,
                             struct kt_error *error);

/* ---- Gated DeltaNet ----------------------------------------------------------------------------- */

/**
 * A causal convolution of each channel by itself, over rows in the order of a sequence:
 *
 *     output[t][c] = f(bias[c] + sum over i < width of weight[i][c] * x[t - width + 1 + i][c])
 *
 * f is silu unless `plain` is set. Inputs before the first row come from the state, which afterwards has the
 * last width - 1 inputs; for a new sequence it is zero. Channels are divided over threads with pointers.
 * Weights are [width][n_channels]: the transpose of a checkpoint's conv1d.weight.
 */
struct kt_rows_convolve {
    size_t struct_size;
    uint32_t n_rows;
    uint32_t n_channels;          /**< 1 to 2^24 */
    uint32_t width;               /**< 2 to 8 */
    uint32_t plain;               /**< not 0: no silu */
    struct kt_rows_input input;   /**< one part */
    struct kt_rows_output output; /**< one part; not the input's memory */
    const float *weight;          /**< [width][n_channels], the newest input's last */
    int64_t weight_stride;        /**< 0: dense */
    const float *bias;            /**< [n_channels], or NULL */
    float *state;                 /**< [width - 1][n_channels], the oldest first */
    int64_t state_stride;         /**< 0: dense */
};
#define KT_ROWS_CONVOLVE_INIT KT_INIT(kt_rows_convolve)
enum kt_status kt_rows_convolve(const struct kt_rows *rows, const struct kt_rows_convolve *job,
                                struct kt_error *error);

/**
 *     log_decay[t][h] = a[h] * softplus(x[t][h] + dt_bias[h])         softplus(x) = ln(1 + exp(x))
 *     beta[t][h] = sigmoid(y[t][h])
 *
 * the inputs of kt_rows_delta, computed from the outputs x and y of a layer's two small projections; a is
 * -exp(A_log), as in GGUF's ssm_a. log_decay may be the memory of x, and beta that of y.
 */
struct kt_rows_decay {
    size_t struct_size;
    uint32_t n_rows;
    uint32_t n_heads;         /**< 1 to 2^24 */
    struct kt_rows_input x;   /**< one part */
    struct kt_rows_input y;   /**< one part */
    const float *a, *dt_bias; /**< [n_heads] */
    float *log_decay, *beta;
    int64_t log_decay_stride, beta_stride; /**< 0: dense */
};
#define KT_ROWS_DECAY_INIT KT_INIT(kt_rows_decay)
enum kt_status kt_rows_decay(const struct kt_rows *rows, const struct kt_rows_decay *job,
                             struct kt_error *error);

/** Key head of value head h, with r value heads for each of them. */
enum kt_delta_order {
    KT_DELTA_GROUPED = 0,    /**< h / r: safetensors, qwen3next */
    KT_DELTA_INTERLEAVED = 1 /**< h mod n_key_heads: qwen35moe in GGUF */
};

/** Rows of a chunk of the chunked form. */
#define KT_DELTA_CHUNK 32

/**
 * The gated delta rule: heads of one sequence, rows in its order. For each value head with its key head:
 *
 *     S = exp(log_decay) S;  d = beta (v - S^T k);  S = S + k d^T;  output = S^T q
 *
 * S [key_size][value_size] is the state of the sequence and head, float32; for a new sequence it is zero. All
 * values are float32. A log_decay below -200 is treated as -200, which erases S. Heads are divided over
 * threads with first_head and end_head; all pointers are those of head 0.
 *
 * Few rows are computed one after the other. From KT_DELTA_CHUNKED rows, chunks of KT_DELTA_CHUNK rows are
 * computed with matrix products (the WY form), which rounds differently. The method only depends on n_rows,
 * and chunks begin at the first row of the job. With `deterministic`, or core.deterministic of the context's
 * configuration, rows are always computed one by one, so bits do not depend on how a sequence is divided into
 * jobs.
 */
#define KT_DELTA_CHUNKED 16
struct kt_rows_delta {
    size_t struct_size;
    uint32_t n_rows;
    uint32_t n_heads;              /**< of values */
    uint32_t n_key_heads;          /**< n_heads is a multiple of them */
    uint32_t order;                /**< enum kt_delta_order */
    uint32_t key_size;             /**< a multiple of 16, 16 to 512 */
    uint32_t value_size;           /**< likewise */
    uint32_t first_head, end_head; /**< the heads of this job */
    uint32_t deterministic;
    uint32_t reserved;
    const float *query, *key; /**< [n_rows][n_key_heads][key_size], normed and scaled */
    const float *value;       /**< [n_rows][n_heads][value_size] */
    const float *log_decay;   /**< [n_rows][n_heads] */
    const float *beta;        /**< [n_rows][n_heads] */
    float *state;             /**< [n_heads][key_size][value_size] */
    float *output;            /**< [n_rows][n_heads][value_size]; may be the memory of `value` */
    int64_t query_stride, key_stride, value_stride; /**< bytes from row to row; 0: dense */
    int64_t log_decay_stride, beta_stride, output_stride;
    int64_t state_stride;  /**< bytes from head to head; 0: dense */
    void *scratch;         /**< of this thread, aligned to 64 bytes */
    uint64_t scratch_size; /**< at least kt_rows_delta_scratch */
};
#define KT_ROWS_DELTA_INIT KT_INIT(kt_rows_delta)
enum kt_status kt_rows_delta(const struct kt_rows *rows, const struct kt_rows_delta *job,
                             struct kt_error *error);

/** Bytes of scratch that kt_rows_delta requires for these sizes, for any number of rows and heads. */
enum kt_status kt_rows_delta_scratch(const struct kt_rows *rows, uint32_t key_size, uint32_t value_size,
                                     uint64_t *size, struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
