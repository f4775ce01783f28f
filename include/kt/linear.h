/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/linear.h - linears: y = x W^T + bias for one matrix W in any format that a backend takes, chosen, packed
 * and laid over NUMA nodes as experts are. Part of <kt/kt.h>, which includes it and describes what all
 * functions have in common.
 *
 * W has `rows` rows, the numbers of an output, and `cols` columns, the numbers of an input:
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
    KT_SPLIT_ROWS = 0, /**< each node computes some of the outputs; the bits do not depend on nodes */
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
 * Chooses a backend for a matrix like `weight` (its format and sizes; data is not read) and says what loading
 * would take; has_bias: one will be passed. Nothing is allocated. Fails as kt_layer_plan does. Of a split by
 * rows, intermediate_begin and intermediate_end of a node are rows, of a split by columns columns.
 */
enum kt_status kt_linear_plan(struct kt_linear *linear, const struct kt_view *weight, int has_bias,
                              struct kt_plan *plan, struct kt_error *error);

/** The same for a weight of a checkpoint by its name, a store's included. */
enum kt_status kt_linear_plan_checkpoint(struct kt_linear *linear, struct kt_checkpoint *checkpoint,
                                         const char *name, struct kt_plan *plan, struct kt_error *error);

/**
 * Packs a matrix of rows x cols, in parallel, on all nodes. bias: `rows` numbers, or NULL. The memory may be
 * freed afterwards. On failure the linear has no weights. KT_E_FORMAT: a scale is NaN, infinite, or negative
 * beside FP8 or FP4.
 */
enum kt_status kt_linear_load(struct kt_linear *linear, const struct kt_view *weight, const float *bias,
                              struct kt_error *error);

/**
 * The same of a weight of a checkpoint by its name, with the bias that it has, see kt_checkpoint_weight. A
 * backend that reads the source in place keeps the checkpoint open.
 * A store's linear is not packed again: its file is compared with its checksums here, on all threads, and
 * used in place on one NUMA node; with several, or KT_IO_READ, it is copied. KT_E_FORMAT: it is damaged.
 */
enum kt_status kt_linear_load_checkpoint(struct kt_linear *linear, struct kt_checkpoint *checkpoint,
                                         const char *name, struct kt_error *error);

/** As kt_layer_populate does it: brings weights that are used where they lie into memory. */
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

/** Rows [row, row + n_rows) of W as the loaded kernel really uses them, dequantized to float32,
 *  [n_rows][cols]. */
enum kt_status kt_linear_weights(const struct kt_linear *linear, uint64_t row, uint64_t n_rows, float *out,
                                 struct kt_error *error);

/* ---- stores --------------------------------------------------------------------------------- */

/**
 * Packs a weight of a checkpoint for the backend that the linear's params name, and writes it into a store,
 * as kt_layer_store does with a layer: one file, linear-NAME.safetensors, which has another name until it is
 * whole and durable. In the store it has this name. Memory: the packed matrix. KT_E_UNSUPPORTED if the
 * backend's weights cannot be stored, KT_E_BUSY if another process is writing this linear.
 */
enum kt_status kt_linear_store(struct kt_linear *linear, struct kt_checkpoint *checkpoint, const char *name,
                               const struct kt_store_params *params, struct kt_error *error);

/** The same for a matrix that is in no checkpoint, with a bias or NULL: it becomes linear `name`, 1 to 248
 *  letters, of the store. A store has such layers and linears only, or those of one checkpoint only. */
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

/** How many linears a store holds; 0 of what is no store. */
uint64_t kt_checkpoint_linear_count(const struct kt_checkpoint *checkpoint);
/** Linear number `index`, in the order of their names. */
enum kt_status kt_checkpoint_linear(const struct kt_checkpoint *checkpoint, uint64_t index,
                                    struct kt_stored_linear_info *info, struct kt_error *error);
/** The linear of a name; KT_E_NOT_FOUND: the checkpoint holds none, or not packed. */
enum kt_status kt_checkpoint_linear_find(const struct kt_checkpoint *checkpoint, const char *name,
                                         struct kt_stored_linear_info *info, struct kt_error *error);
/** Reads all of a store's linear and compares it with its checksums; KT_E_FORMAT says where it is damaged. */
enum kt_status kt_checkpoint_verify_linear(const struct kt_checkpoint *checkpoint, const char *name,
                                           struct kt_error *error);

/* ---- forward -------------------------------------------------------------------------------- */

/** Most linears of one forward. */
#define KT_MAX_LINEARS 8

/** One of the linears that a forward computes, and where its outputs go. */
struct kt_linear_output {
    const struct kt_linear *linear;
    void *output;          /**< [n_tokens][rows]; overlaps neither input nor another output: KT_E_INVALID */
    int64_t output_stride; /**< bytes from token to token; 0: dense */
    uint32_t output_dtype; /**< KT_DTYPE_F32, KT_DTYPE_BF16 or KT_DTYPE_F16 */
    uint32_t accumulate;   /**< not 0: output += result */
};

/** One input for 1 to KT_MAX_LINEARS linears of one context, all with as many columns: q, k and v. */
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
 * Computes all outputs in one dispatch (one for each 1024 tokens, or max_tokens if that is less). Checks
 * everything before it writes. Bit-identical for any number of threads. A NaN in one token stays in that
 * token. Allocates nothing. Any thread; the caller's thread takes part. KT_E_BACKEND: a backend failed while
 * it computed; the message names linear, backend and its reason, and outputs are then undefined.
 */
enum kt_status kt_linear_forward(const struct kt_linear_batch *batch, struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
