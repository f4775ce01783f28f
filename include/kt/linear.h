/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/linear.h - linears: y = x W^T + bias for one matrix W in any format that a backend supports. Backends
 * are chosen, and weights packed and distributed over NUMA nodes, as for experts. Part of <kt/kt.h>, which
 * includes it and describes what all functions have in common.
 *
 * W has `rows` rows, the size of an output, and `cols` columns, the size of an input:
 *     y[t][r] = bias[r] + sum over c of W[r][c] * x[t][c]
 */
#ifndef KT_LINEAR_H
#define KT_LINEAR_H

#include <kt/kt.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_linear;

/** How NUMA nodes share a linear; on one node there is no difference. */
enum kt_split {
    KT_SPLIT_ROWS = 0, /**< each node computes some of the outputs; bits do not depend on nodes */
    KT_SPLIT_COLS = 1 /**< each node has some of the inputs; their sums are added in the order of the nodes */
};

struct kt_linear_params {
    size_t struct_size;
    uint64_t rows, cols; /**< of W, 1 to 2^24 each */
    uint32_t max_tokens; /**< buffers are made for this many inputs, at most 1024; more run in chunks */
    uint32_t split;      /**< enum kt_split */
    const char *backend; /**< name of a backend, or NULL: the configuration's core.backend */
    const char *name;    /**< for messages, such as "blk.0.attn_q"; NULL: "linear". Copied. */
    int stored;          /**< not 0: the linear is for kt_linear_store, as in kt_layer_params */
};
#define KT_LINEAR_PARAMS_INIT KT_INIT(kt_linear_params)

/** Makes a linear without weights. Keeps the context alive. */
enum kt_status kt_linear_create(struct kt_context *context, const struct kt_linear_params *params,
                                struct kt_linear **linear, struct kt_error *error);
/** `linear` may be NULL. No forward of it may run. */
void kt_linear_destroy(struct kt_linear *linear);

/**
 * Chooses a backend for a matrix like `weight` (format and sizes matter; data is not read) and computes the
 * memory that loading would require; has_bias: a bias will be passed. Nothing is allocated. Fails like
 * kt_layer_plan. intermediate_begin and intermediate_end of a node are rows for a split by rows, else
 * columns.
 */
enum kt_status kt_linear_plan(struct kt_linear *linear, const struct kt_view *weight, int has_bias,
                              struct kt_plan *plan, struct kt_error *error);

/** The same for a weight of a checkpoint, which may be a store, by its name. */
enum kt_status kt_linear_plan_checkpoint(struct kt_linear *linear, struct kt_checkpoint *checkpoint,
                                         const char *name, struct kt_plan *plan, struct kt_error *error);

/**
 * Packs a matrix of rows x cols, in parallel, on all nodes. bias: `rows` values, or NULL. The memory may be
 * freed afterwards. On failure the linear has no weights. KT_E_FORMAT: a scale is NaN, infinite, or negative
 * with FP8 or FP4.
 */
enum kt_status kt_linear_load(struct kt_linear *linear, const struct kt_view *weight, const float *bias,
                              struct kt_error *error);

/**
 * The same for a weight of a checkpoint by its name, with its bias if any, see kt_checkpoint_weight. A
 * backend that reads the source in place keeps the checkpoint open.
 * A linear of a store is not packed again: its file is compared with its checksums here, on all threads. It
 * is used in place on one NUMA node; with several, or with KT_IO_READ, it is copied. KT_E_FORMAT: it is
 * damaged.
 */
enum kt_status kt_linear_load_checkpoint(struct kt_linear *linear, struct kt_checkpoint *checkpoint,
                                         const char *name, struct kt_error *error);

/** Like kt_layer_populate: loads weights that are used in place into memory. */
enum kt_status kt_linear_populate(struct kt_linear *linear, struct kt_error *error);

/** The loaded weights. Strings live as long as the linear. */
struct kt_linear_info {
    const char *backend; /**< "" before load */
    const char *level;
    const char *instruction;
    uint64_t packed_size;  /**< bytes of the packed matrix, all nodes */
    uint64_t nominal_size; /**< bytes of the matrix in its format */
    uint64_t rows, cols;
    const char *rounding; /**< kt_plan.rounding */
};
void kt_linear_info(const struct kt_linear *linear, struct kt_linear_info *info);

/** Rows [row, row + n_rows) of W as used by the loaded kernel, dequantized to float32, [n_rows][cols]. */
enum kt_status kt_linear_weights(const struct kt_linear *linear, uint64_t row, uint64_t n_rows, float *out,
                                 struct kt_error *error);

/* ---- stores --------------------------------------------------------------------------------- */

/**
 * Packs a weight of a checkpoint for the backend in the linear's params, and writes it to a store, like
 * kt_layer_store: one file, linear-NAME.safetensors, which has a temporary name until it is complete and
 * durable. It has the same name in the store. Memory: the packed matrix. KT_E_UNSUPPORTED: the backend's
 * weights cannot be stored; KT_E_BUSY: another process is writing this linear.
 */
enum kt_status kt_linear_store(struct kt_linear *linear, struct kt_checkpoint *checkpoint, const char *name,
                               const struct kt_store_params *params, struct kt_error *error);

/** The same for a matrix that is not in a checkpoint, with a bias or NULL: it becomes linear `name`, 1 to 248
 *  characters, of the store. A store has either only such layers and linears, or only those of one
 * checkpoint. */
enum kt_status kt_linear_store_view(struct kt_linear *linear, const struct kt_view *weight, const float *bias,
                                    const char *name, const struct kt_store_params *params,
                                    struct kt_error *error);

/** A linear of a store. Strings live as long as the checkpoint. */
struct kt_stored_linear_info {
    const char *name;
    uint64_t rows, cols;
    uint32_t dtype; /**< before packing */
    uint32_t has_bias;
    uint64_t size;              /**< bytes of the packed matrix */
    const char *stored_backend; /**< that it is packed for */
    const char *stored_form;
    const char *stored_source; /**< fingerprint of the packed checkpoint; "" if there was none */
};

/** The number of linears in a store; 0 if the checkpoint is not a store. */
uint64_t kt_checkpoint_linear_count(const struct kt_checkpoint *checkpoint);
/** Linear number `index`, in the order of their names. */
enum kt_status kt_checkpoint_linear(const struct kt_checkpoint *checkpoint, uint64_t index,
                                    struct kt_stored_linear_info *info, struct kt_error *error);
/** The linear with this name; KT_E_NOT_FOUND: the checkpoint does not have it, or not packed. */
enum kt_status kt_checkpoint_linear_find(const struct kt_checkpoint *checkpoint, const char *name,
                                         struct kt_stored_linear_info *info, struct kt_error *error);
/** Compares a linear of a store with its checksums; KT_E_FORMAT: the message has the damaged position. */
enum kt_status kt_checkpoint_verify_linear(const struct kt_checkpoint *checkpoint, const char *name,
                                           struct kt_error *error);

/* ---- forward -------------------------------------------------------------------------------- */

/** Most linears of one forward. */
#define KT_MAX_LINEARS 8

/** One of the linears that a forward computes, and where its outputs go. */
struct kt_linear_output {
    const struct kt_linear *linear;
    void *output;          /**< [n_tokens][rows]; must not overlap the input or other outputs: KT_E_INVALID */
    int64_t output_stride; /**< bytes from token to token; 0: dense */
    uint32_t output_dtype; /**< KT_DTYPE_F32, KT_DTYPE_BF16 or KT_DTYPE_F16 */
    uint32_t accumulate;   /**< not 0: output += result */
};

/** One input for 1 to KT_MAX_LINEARS linears of one context with the same number of columns: q, k and v. */
struct kt_linear_batch {
    size_t struct_size;
    const struct kt_linear_output *outputs;
    uint32_t n_outputs;
    uint32_t n_tokens;    /**< 0 is allowed and does nothing */
    const void *input;    /**< [n_tokens][cols] */
    int64_t input_stride; /**< bytes from token to token; 0: dense */
    uint32_t input_dtype; /**< KT_DTYPE_BF16, KT_DTYPE_F16 or KT_DTYPE_F32 */
    uint32_t reserved;
};
#define KT_LINEAR_BATCH_INIT KT_INIT(kt_linear_batch)

/**
 * Computes all outputs in one dispatch (one per 1024 tokens, or per max_tokens if that is less). Checks
 * everything before it writes. Bit-identical for any number of threads. A NaN in one token does not affect
 * other tokens. Allocates nothing. Any thread; the caller's thread takes part. KT_E_BACKEND: a backend failed
 * during computation; the message has linear, backend and reason, and outputs are then undefined.
 */
enum kt_status kt_linear_forward(const struct kt_linear_batch *batch, struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
