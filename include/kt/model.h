/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/model.h - the parts of a checkpoint that engines read besides its experts: metadata of GGUF models,
 * files of safetensors folders, weights of linears and norms, rows of embeddings. kt/kt.h includes it.
 *
 * All pointers are valid until the checkpoint is closed. A checkpoint may be used by one thread at a time.
 */
#ifndef KT_MODEL_H
#define KT_MODEL_H

#include <kt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kt_checkpoint;

/* ---- metadata of GGUF files ------------------------------------------------------------------- */

/** Types of values, with their numbers in GGUF files. */
enum kt_value_type {
    KT_VALUE_U8 = 0,
    KT_VALUE_I8 = 1,
    KT_VALUE_U16 = 2,
    KT_VALUE_I16 = 3,
    KT_VALUE_U32 = 4,
    KT_VALUE_I32 = 5,
    KT_VALUE_F32 = 6,
    KT_VALUE_BOOL = 7,
    KT_VALUE_TEXT = 8,
    KT_VALUE_U64 = 10,
    KT_VALUE_I64 = 11,
    KT_VALUE_F64 = 12
};

/** A key and its value, which is not copied: `data` points into the file. */
struct kt_value {
    const char *key;
    uint32_t type;     /**< enum kt_value_type, for an array that of its elements; 9: elements are arrays,
                          for which only data, size and count are set */
    uint32_t is_array; /**< not 0: an array */
    uint64_t count;    /**< elements of an array, which may be 0; else 1 */
    const void *data;  /**< little-endian and not aligned: contiguous numbers; for strings, each a u64
                          length and its bytes, without a terminating 0 */
    uint64_t size;     /**< bytes of data */
};

/** The number of keys, 0 for formats other than GGUF; for a split model, those of the first file. */
uint64_t kt_checkpoint_value_count(const struct kt_checkpoint *checkpoint);
/** Key number `index`, in the order of their names. */
enum kt_status kt_checkpoint_value(struct kt_checkpoint *checkpoint, uint64_t index, struct kt_value *value,
                                   struct kt_error *error);
/** The value of a key; KT_E_NOT_FOUND: there is no such key. */
enum kt_status kt_checkpoint_value_find(struct kt_checkpoint *checkpoint, const char *key,
                                        struct kt_value *value, struct kt_error *error);

/** Element `index` (0 if it is not an array) as a number. Integers of any size and sign are converted to an
 * integer if they fit, all numbers to a real number, and bools to a truth value; else KT_E_FORMAT, with the
 * key. KT_E_RANGE: there is no such element. */
enum kt_status kt_value_uint(const struct kt_value *value, uint64_t index, uint64_t *number,
                             struct kt_error *error);
enum kt_status kt_value_int(const struct kt_value *value, uint64_t index, int64_t *number,
                            struct kt_error *error);
enum kt_status kt_value_real(const struct kt_value *value, uint64_t index, double *number,
                             struct kt_error *error);
enum kt_status kt_value_bool(const struct kt_value *value, uint64_t index, int *truth,
                             struct kt_error *error);
/** The string at byte *at of data; sets *at to the next one: start with *at = 0 and stop when *at is
 * value->size. Strings may have any bytes. */
enum kt_status kt_value_text(const struct kt_value *value, uint64_t *at, const char **text, uint64_t *length,
                             struct kt_error *error);

/* ---- files of a safetensors folder ------------------------------------------------------------ */

/** The bytes of a file of the folder, such as "config.json", "generation_config.json" or "tokenizer.json".
 * `name` has no slash; at most 1 GiB. KT_E_NOT_FOUND: no such file, or the checkpoint is not a folder. */
enum kt_status kt_checkpoint_file(struct kt_checkpoint *checkpoint, const char *name, const void **data,
                                  uint64_t *size, struct kt_error *error);

/* ---- weights ---------------------------------------------------------------------------------- */

/**
 * The weight of a linear, an embedding or a norm by its name without the suffix: "blk.0.attn_q" in GGUF
 * files, "model.layers.0.self_attn.q_proj" in safetensors files. The view includes its scales: FP8 (E4M3) and
 * MXFP8, 4 bits of compressed-tensors, GPTQ and AWQ (which is decoded here, once), MXFP4; in GGUF files the
 * single value NAME.scale. `bias`: view->rows values as float32, NULL if it has none; the argument may be
 * NULL. The name may also be the full name of a tensor, such as "linear_attn.A_log", then without scales and
 * bias. A tensor of one dimension is a row; of more than two dimensions, all but the last are rows. For a
 * linear of a store, the view has sizes and the source type, but no data: kt_linear_load_checkpoint loads it.
 * KT_E_NOT_FOUND: there is no such weight. KT_E_UNSUPPORTED: its format is not supported, or an unknown
 * tensor NAME.something may change its values. Scales for rounding activations, keys and values are ignored.
 */
enum kt_status kt_checkpoint_weight(struct kt_checkpoint *checkpoint, const char *name, struct kt_view *view,
                                    const float **bias, struct kt_error *error);

/**
 * Rows ids[0 .. n_ids - 1] of any view, dequantized: row i goes to out + i * out_stride bytes (0: dense) as
 * view->cols values of out_dtype, KT_DTYPE_F32, F16 or BF16 (rounded to nearest, ties to even). KT_E_RANGE:
 * an id is not a row; nothing is written then. Any thread.
 */
enum kt_status kt_view_gather(const struct kt_view *view, const int64_t *ids, uint64_t n_ids,
                              uint32_t out_dtype, void *out, int64_t out_stride, struct kt_error *error);

#ifdef __cplusplus
}
#endif
#endif
