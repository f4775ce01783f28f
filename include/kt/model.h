/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/model.h - what an engine reads of a checkpoint besides its experts: metadata of a GGUF model, files of a
 * safetensors folder, weights of its linears and norms, rows of its embeddings. kt/kt.h includes it.
 *
 * Everything here lives until the checkpoint is closed. A checkpoint may be asked by one thread at a time.
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

/** A key and its value, which is not copied: `data` is where the file has it. */
struct kt_value {
    const char *key;
    uint32_t type;     /**< enum kt_value_type, of an array that of its elements; 9: they are arrays again, of
                          which only data, size and count are shown */
    uint32_t is_array; /**< not 0: an array */
    uint64_t count;    /**< elements of an array, which may be 0; else 1 */
    const void *data;  /**< little-endian and not aligned: numbers one after the other; of texts each a u64
                          length  and its bytes, without a 0 at their end */
    uint64_t size;     /**< bytes of data */
};

/** How many keys there are, 0 in other formats than GGUF; of a model in several files those of the first. */
uint64_t kt_checkpoint_value_count(const struct kt_checkpoint *checkpoint);
/** Key number `index`, in the order of their names. */
enum kt_status kt_checkpoint_value(struct kt_checkpoint *checkpoint, uint64_t index, struct kt_value *value,
                                   struct kt_error *error);
/** The value of a key; KT_E_NOT_FOUND if there is none. */
enum kt_status kt_checkpoint_value_find(struct kt_checkpoint *checkpoint, const char *key,
                                        struct kt_value *value, struct kt_error *error);

/** Element `index` (0 of what is no array) as a number. KT_E_FORMAT names the key if its type is another:
 * whole numbers come of integers of any size and sign that the result can hold, reals of all numbers, truth
 * of bools. KT_E_RANGE: there is no such element. */
enum kt_status kt_value_uint(const struct kt_value *value, uint64_t index, uint64_t *number,
                             struct kt_error *error);
enum kt_status kt_value_int(const struct kt_value *value, uint64_t index, int64_t *number,
                            struct kt_error *error);
enum kt_status kt_value_real(const struct kt_value *value, uint64_t index, double *number,
                             struct kt_error *error);
enum kt_status kt_value_bool(const struct kt_value *value, uint64_t index, int *truth,
                             struct kt_error *error);
/** The text at byte *at of data, and the place of the next one: start with *at = 0 and stop when *at is
 * value->size. Texts are any bytes. */
enum kt_status kt_value_text(const struct kt_value *value, uint64_t *at, const char **text, uint64_t *length,
                             struct kt_error *error);

/* ---- files of a safetensors folder ------------------------------------------------------------ */

/** The bytes of a file of the folder, such as "config.json", "generation_config.json" or "tokenizer.json".
 * `name` has no slash; at most 1 GiB. KT_E_NOT_FOUND: there is none, or the checkpoint is no folder. */
enum kt_status kt_checkpoint_file(struct kt_checkpoint *checkpoint, const char *name, const void **data,
                                  uint64_t *size, struct kt_error *error);

/* ---- weights ---------------------------------------------------------------------------------- */

/**
 * The weight of a linear, an embedding or a norm by its name without the ending: "blk.0.attn_q" in GGUF
 * files, "model.layers.0.self_attn.q_proj" in safetensors ones. The view has the scales that stand beside it
 * there: FP8 (E4M3) and MXFP8, 4 bits of compressed-tensors, GPTQ and AWQ (which is decoded here, once),
 * MXFP4; in GGUF files the one number of NAME.scale. `bias`: its view->rows numbers as float32, NULL if it
 * has none; the argument may be NULL. A tensor of exactly this name serves, too, such as
 * "linear_attn.A_log", without scales and bias. One dimension is a row; of more than two, all but the last
 * count rows. Of a store's linear, the view has sizes and the source type, but no data:
 * kt_linear_load_checkpoint loads it. Without such a weight: KT_E_NOT_FOUND. If its format cannot be read, or
 * a tensor NAME.something that is not known may change its values: KT_E_UNSUPPORTED. Scales for rounding
 * activations, keys and values are ignored.
 */
enum kt_status kt_checkpoint_weight(struct kt_checkpoint *checkpoint, const char *name, struct kt_view *view,
                                    const float **bias, struct kt_error *error);

/**
 * Rows ids[0 .. n_ids - 1] of any view, dequantized: row i goes to out + i * out_stride bytes (0: dense) as
 * view->cols numbers of out_dtype, KT_DTYPE_F32, F16 or BF16 (rounded to nearest, ties to even). KT_E_RANGE
 * names an id that is no row; nothing is written then. Any thread.
 */
enum kt_status kt_view_gather(const struct kt_view *view, const int64_t *ids, uint64_t n_ids,
                              uint32_t out_dtype, void *out, int64_t out_stride, struct kt_error *error);

#ifdef __cplusplus
}
#endif
#endif
