/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/stats.h - statistics of requested experts, recorded batches, and the files of both. Part of <kt/kt.h>,
 * which includes it and describes what all functions have in common.
 */
#ifndef KT_STATS_H
#define KT_STATS_H

#include <kt/kt.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

/* ---- how often each expert was requested ---------------------------------------------------- */

/**
 * The statistics of a model's layers, added up and written to a file. A layer always counts while it
 * runs: for every id of a batch that is not negative, the thread that leads the forward adds to an integer
 * and to a float64. Experts are counted by the ids in forwards (before expert_map), regardless of skip_mask,
 * and once if they are deferred.
 */
struct kt_stats;

/** A row for each layer, ascending by its number. Pointers are valid until the object is changed. */
struct kt_stats_info {
    uint32_t n_layers, n_experts;
    const uint64_t *layers;    /**< [n_layers]: numbers of the layers in the model */
    const uint64_t *n_batches; /**< [n_layers] */
    const uint64_t *n_tokens;  /**< [n_layers] */
    const uint64_t *counts;    /**< [n_layers][n_experts]: requests of each expert, for kt_place */
    const uint64_t *computed;  /**< [n_layers][n_experts]: of these, not masked, so computed on the CPU */
    const double *weights; /**< [n_layers][n_experts]: sum of the router weights of the ids, without weights
                              that are not finite */
};

/** Makes statistics without layers, for layers of n_experts experts (1 to 65536). */
enum kt_status kt_stats_create(uint32_t n_experts, struct kt_stats **stats, struct kt_error *error);
/** `stats` may be NULL. */
void kt_stats_destroy(struct kt_stats *stats);

/**
 * Adds the counts of `layer` since it was created or reset (kt_layer_usage_reset) to the row of layer
 * `number` of the model, which is created if it is missing. May be called while the layer runs: a running
 * forward is then partly counted. KT_E_INVALID: the number of experts differs; KT_E_RANGE: a sum exceeds 2^63
 * - 1; nothing is added then.
 */
enum kt_status kt_stats_add_layer(struct kt_stats *stats, uint64_t number, const struct kt_layer *layer,
                                  struct kt_error *error);

/** Adds all rows of `other`. Fails like kt_stats_add_layer. */
enum kt_status kt_stats_add(struct kt_stats *stats, const struct kt_stats *other, struct kt_error *error);

void kt_stats_info(const struct kt_stats *stats, struct kt_stats_info *info);

/**
 * Writes a safetensors file, completely or not at all (see kt_writer_create):
 *
 *     layers    I64 [n_layers]              counts    I64 [n_layers][n_experts]
 *     batches   I64 [n_layers]              computed  I64 [n_layers][n_experts]
 *     tokens    I64 [n_layers]              weights   F64 [n_layers][n_experts]
 *
 * with the metadata "format": "kt-stats", "version": "1". KT_E_INVALID without a layer.
 */
enum kt_status kt_stats_save(const struct kt_stats *stats, const char *path, struct kt_error *error);

/**
 * Reads such a file. Only `counts` is required: without the others, layers are 0, 1, 2 and so on, and the
 * rest is 0, so counts of another program can be used. KT_E_FORMAT names the invalid tensor and element: a
 * wrong shape or dtype, a number that is negative or not finite, a sum over 2^63 - 1.
 */
enum kt_status kt_stats_open(const char *path, struct kt_stats **stats, struct kt_error *error);

/** How unevenly the experts of a layer were used. */
struct kt_skew {
    uint32_t n_used;    /**< experts with at least one request */
    uint32_t most_used; /**< the first one with the highest count */
    double most_share;  /**< its fraction of the sum of counts */
    double top_share;   /**< fraction of the most used tenth of the experts, rounded up */
    double gini;        /**< 0: all equal; (n_experts - 1) / n_experts: only one expert */
    double entropy;     /**< of the counts in bits, divided by log2(n_experts): 1: all equal; 0: only one */
};

/** Computes these of n_experts counts. If all are 0, n_used and the shares are 0, entropy is 1. KT_E_NOMEM.
 * Any thread. */
enum kt_status kt_usage_skew(const uint64_t *counts, uint32_t n_experts, struct kt_skew *skew,
                             struct kt_error *error);

/* ---- recording batches ---------------------------------------------------------------------- */

/**
 * Records the batches of layers, to replay them with `kt bench --trace` and `kt forward`: ids, router weights
 * and, on request, hidden states, as passed to the forward. They are stored in a buffer of a fixed size,
 * which is allocated and touched when the recorder is created. A batch costs one copy of its data, by the
 * thread that leads the forward, before the forward's work: n_tokens * (12 * top_k + bytes of a row of hidden
 * states) bytes and about 20 ns. This does not allocate, lock or write to files. A batch that does not fit is
 * dropped and counted. Batches are removed from the buffer by kt_recorder_save or kt_recorder_drain, which
 * may run in another thread while forwards run.
 */
struct kt_recorder;

struct kt_recorder_params {
    size_t struct_size;
    uint64_t size; /**< bytes of the buffer, 4 KiB or more; a batch of more than half of it may not fit
                        even if it is empty */
    uint32_t hidden_states; /**< not 0: record them too */
    uint32_t reserved;
};
#define KT_RECORDER_PARAMS_INIT KT_INIT(kt_recorder_params)

/** Makes a recorder for layers of this context, which it keeps alive. */
enum kt_status kt_recorder_create(struct kt_context *context, const struct kt_recorder_params *params,
                                  struct kt_recorder **recorder, struct kt_error *error);
/** Layers that still record keep the recorder alive. `recorder` may be NULL. */
void kt_recorder_destroy(struct kt_recorder *recorder);

/**
 * From the next forward on, batches of `layer` are recorded as layer `number` of the model; recorder NULL
 * ends this. Waits for a running forward. With deferred experts a batch is recorded once, as the engine
 * gave it. KT_E_INVALID: another context, or `number` already has another hidden_size. Any thread.
 */
enum kt_status kt_layer_record(struct kt_layer *layer, struct kt_recorder *recorder, uint64_t number,
                               struct kt_error *error);

/** Batches and tokens are counted since the recorder was made. Any thread. */
struct kt_recorder_info {
    uint64_t n_batches, n_tokens; /**< recorded */
    uint64_t n_dropped_batches, n_dropped_tokens;
    uint64_t used, size; /**< bytes of the buffer */
};
void kt_recorder_info(const struct kt_recorder *recorder, struct kt_recorder_info *info);

/** A batch as passed to a layer. Memory is valid until the function that receives it returns. */
struct kt_recorded {
    uint64_t layer; /**< its number in the model */
    uint64_t batch; /**< number of the batch in this layer, from 0; dropped ones count */
    uint32_t n_tokens, top_k;
    const int64_t *expert_ids;   /**< [n_tokens][top_k] */
    const float *router_weights; /**< [n_tokens][top_k] */
    uint64_t hidden_size;
    uint32_t hidden_dtype; /**< KT_DTYPE_NONE: not recorded */
    uint32_t reserved;
    const void *hidden_states; /**< [n_tokens][hidden_size], dense, or NULL */
};

/** Receives a batch. Not 0: failure, and the batch stays in the buffer. Must not call the recorder. */
typedef int (*kt_recorded_fn)(void *data, const struct kt_recorded *batch);

/** Passes the batches in the buffer to `sink`, oldest first, and removes them. KT_E_IO if `sink` fails. Any
 * thread, but only one at a time. */
enum kt_status kt_recorder_drain(struct kt_recorder *recorder, kt_recorded_fn sink, void *data,
                                 struct kt_error *error);

/**
 * Writes the batches in the buffer to a trace, a safetensors file (see kt_writer_create), and removes them
 * from the buffer; after a failure they are still there. For each layer N:
 *
 *     layers.N.hidden_states  BF16, F16 or F32 [n_tokens][hidden_size]
 *     layers.N.topk_ids       I64 [n_tokens][top_k]
 *     layers.N.topk_weights   F32 [n_tokens][top_k]
 *     layers.N.batch_tokens   I64 [n_batches]: number of tokens of each batch, in order
 *     layers.N.batch_numbers  I64 [n_batches]: as in struct kt_recorded; a gap means that a batch was dropped
 *
 * Batches with fewer experts per token than the layer's widest one are padded with id -1 and weight 0. If
 * batches have different dtypes, hidden states are F32. KT_E_STATE if the buffer is empty.
 */
enum kt_status kt_recorder_save(struct kt_recorder *recorder, const char *path, struct kt_error *error);

/* ---- files of tensors ----------------------------------------------------------------------- */

/** A safetensors file during writing. */
struct kt_writer;

struct kt_writer_params {
    size_t struct_size;
    const struct kt_tensor_info *tensors; /**< name, dtype and dims of each; the rest is ignored */
    uint64_t n_tensors;
    const char *const *metadata; /**< n_metadata keys, each followed by its value */
    uint64_t n_metadata;
};
#define KT_WRITER_PARAMS_INIT KT_INIT(kt_writer_params)

/**
 * Creates the file and writes its header. A regular file has a temporary name in the same folder until
 * kt_writer_finish; then it replaces an existing file, following symbolic links and keeping its
 * permissions. A device or a pipe is written in place. KT_E_INVALID: a name is empty or duplicate, or
 * safetensors does not have a dtype; KT_E_IO: the message has the file.
 */
enum kt_status kt_writer_create(const char *path, const struct kt_writer_params *params,
                                struct kt_writer **writer, struct kt_error *error);
/** The next bytes of the tensors' data, in pieces of any size, in the order of the tensors, without gaps. */
enum kt_status kt_writer_add(struct kt_writer *writer, const void *data, uint64_t size,
                             struct kt_error *error);
/** Makes the file durable and gives it its name. KT_E_INVALID if bytes are missing. Frees `writer`; after a
 * failure an existing file is unchanged. */
enum kt_status kt_writer_finish(struct kt_writer *writer, struct kt_error *error);
/** Removes the temporary file and frees `writer`, which may be NULL. */
void kt_writer_cancel(struct kt_writer *writer);
/** The temporary file's name, for programs that remove it on a signal; NULL: there is none. */
const char *kt_writer_temporary(const struct kt_writer *writer);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
