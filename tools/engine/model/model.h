/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a loaded model. */
#ifndef KT_ENGINE_MODEL_MODEL_H
#define KT_ENGINE_MODEL_MODEL_H

#include "tools/engine/model/config.h"

#include <kt/engine.h>

/** A layer: attention, then experts or a dense network. */
struct kt_block {
    float *attention_norm, *ffn_norm; /**< [hidden_size] */
    float *query_norm, *key_norm;     /**< [head_size], or NULL */
    struct kt_linear *q, *k, *v, *o;
    struct kt_attention *attention;
    struct kt_linear *gate, *up, *down; /**< dense; NULL: experts */
    uint64_t width;                     /**< of the dense network */
    float *router;                      /**< [n_experts][hidden_size] */
    struct kt_layer *experts;
};

/** Room for a slice of max_batch tokens; rows of float32. */
struct kt_scratch {
    float *x, *h;           /**< [hidden_size] */
    float *q, *k, *v, *mix; /**< heads */
    float *gate, *up;       /**< dense networks */
    float *logits;          /**< of the router */
    float *weights;         /**< [top_k] */
    int64_t *experts;       /**< [top_k] */
    int64_t *ids;           /**< of tokens */
    uint32_t *positions;
    struct kt_attention_item *items; /**< [max_sessions] */
};

struct kt_model {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model_config config;
    struct kt_model_params params; /**< with defaults filled in */
    uint64_t vocabulary;
    const struct kt_rows *rows;
    struct kt_view embedding;
    struct kt_linear *head;
    float *final_norm;
    float *divisors; /**< of frequencies, or NULL */
    float *rope;     /**< [max_tokens][rotated / 2][2] */
    struct kt_kv *kv;
    struct kt_block *blocks; /**< [n_layers] */
    struct kt_scratch scratch;
    uint8_t *used; /**< [n_tensors] of the checkpoint: computed with */
    uint64_t weight_size;
    uint32_t n_sessions;
};

struct kt_session {
    struct kt_model *model;
    struct kt_kv_sequence *sequence;
};

/** Loads weights, after the configuration and the sizes are known. */
enum kt_status kt_model_load(struct kt_model *model, struct kt_error *error);
/** Names of tensors in GGUF files and in safetensors. */
void kt_model_name(const struct kt_model *model, uint32_t layer, const char *gguf, const char *hf, char *name,
                   size_t size);

#endif
