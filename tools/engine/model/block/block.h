/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h - what layers are made of, and what they share: a mixer (attention or its like), then a dense
 * network or experts. Each kind loads its weights once and runs for each slice of a step.
 */
#ifndef KT_ENGINE_MODEL_BLOCK_BLOCK_H
#define KT_ENGINE_MODEL_BLOCK_BLOCK_H

#include "tools/engine/model/config/config.h"

#include <kt/engine.h>

/** Rows of a slice, float32 and dense: as wide as the layer that uses them wants. Which layer uses a buffer
 * for what is that layer's business, but for the first two. */
enum kt_buffer {
    KT_BUFFER_X, /**< [hidden_size] from layer to layer */
    KT_BUFFER_H, /**< [hidden_size] normed: what mixers and networks read */
    KT_BUFFER_Q,
    KT_BUFFER_K,
    KT_BUFFER_V,
    KT_BUFFER_ABSORBED, /**< queries of latent attention */
    KT_BUFFER_MIX,      /**< what a mixer's last matrix reads */
    KT_BUFFER_GATE,     /**< dense networks */
    KT_BUFFER_UP,
    KT_BUFFER_LOGITS,  /**< of routers */
    KT_BUFFER_WEIGHTS, /**< of the chosen experts */
    KT_BUFFER_JOINT,   /**< what the block that predicts is given: a token and a hidden state */
    KT_BUFFER_INPUTS,  /**< [layers * input_size] inputs of single layers */
    KT_BUFFER_TABLE,   /**< the same, of which they are made */
    KT_BUFFER_EXPERTS, /**< [hidden_size] what experts give, where that is normed alone or kept */
    KT_BUFFER_SELF,    /**< weights of the experts that give what they read, summed up */
    KT_BUFFER_RESULT,  /**< [hidden_size] what a half of a layer gives, where that is not added at once */
    KT_BUFFERS
};

/** A norm of hidden states, or none. */
struct kt_hidden_norm {
    bool is_there;
    const float *weight, *bias; /**< [hidden_size], or NULL */
    float scale;                /**< 0: 1 */
};

/** What is around a mixer or a network. */
struct kt_place {
    struct kt_hidden_norm before, after;
    float keep, add; /**< x becomes keep x + add f */
};

struct kt_block {
    const struct kt_mixer *mixer;
    const struct kt_layer_config *config;
    void *mixer_weights;        /**< of the mixer's own type */
    struct kt_indexer *indexer; /**< NULL: none */
    struct kt_place places[KT_HALVES];
    struct kt_ffn *ffn;
    struct kt_layer_input *input; /**< NULL: none */
};

struct kt_model {
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_checkpoint *expert_source; /**< the same, or another one */
    struct kt_assumed *assumed;          /**< NULL; else there is no checkpoint, and weights are assumed */
    struct kt_engine_config config;
    struct kt_model_params params; /**< with defaults filled in */
    uint64_t vocabulary;
    const struct kt_rows *rows;
    struct kt_view embedding;
    struct kt_linear *head;
    struct kt_hidden_norm final_norm;
    float *ropes[KT_LAYER_ROPES]; /**< [max_tokens][rotated / 2][2]; NULL: no layer has it */
    struct kt_kv *kv;
    struct kt_block *blocks;  /**< [n_layers] */
    struct kt_inputs *inputs; /**< of single layers; NULL: none */
    struct kt_mtp *mtp;       /**< NULL: it was not asked for, or there is none */
    struct kt_kv *mtp_kv;     /**< its cache: sequences are behind those of sessions, see mtp.c */
    struct kt_model_plan plan;
    uint64_t weight_size;               /**< bytes */
    uint64_t dense_bytes, expert_bytes; /**< of weights, which products read */
    uint64_t n_weights, n_expert_weights;
    uint64_t most_weights; /**< with one instruction */
    const char *instruction, *level;
    uint32_t n_threads; /**< of the context */
    struct kt_model_times times;

    float *logits; /**< of several sessions at once; kept, as new pages would cost more than the copy */
    uint64_t n_logits;

    /* Room for a slice of max_batch tokens. */
    float *buffers[KT_BUFFERS];
    uint64_t widths[KT_BUFFERS]; /**< the widest that a layer wants */
    int64_t *experts;            /**< [max_batch][top_k] */
    int64_t *ids;                /**< of tokens */
    uint32_t *positions;
    struct kt_attention_item *items; /**< [kt_model_most_items] */

    /* Rows that an indexer selected for the tokens of a slice, for its layer and those that share them. */
    struct kt_selected_rows
        *selections; /**< [max_sessions] of a slice's pieces; NULL: the model has no indexer */
    struct kt_selector_item *selector_items; /**< [max_sessions] */
    uint32_t *selected_rows;                 /**< [max_batch][selection_stride] */
    uint32_t *selected_counts;               /**< [max_batch] */
    uint32_t selection_stride;
    char *scratch;         /**< [n_threads][scratch_size], aligned to 64 bytes */
    uint64_t scratch_size; /**< the most that a layer wants for a thread, a multiple of 64 */

    /* What kt_model_close frees. */
    struct kt_owned *owned;
    uint32_t n_owned, owned_capacity;
    uint64_t owned_size; /**< bytes of memory among it */
    uint8_t *used;       /**< [n_tensors] of the checkpoint: computed with */
};

struct kt_session {
    struct kt_model *model;
    struct kt_kv_sequence *sequence;
    bool spoilt;          /**< its states have seen tokens that it does not have */
    struct kt_tail *tail; /**< for kt_session_draft; NULL: nothing yet */
};
/** KT_E_STATE if they have. */
enum kt_status kt_session_check_states(const struct kt_session *session, const char *function,
                                       struct kt_error *error);

/* ---- slices ----------------------------------------------------------------------------------- */

/** Tokens of a session in a slice. */
struct kt_piece {
    const struct kt_step *step;
    const struct kt_hidden *hidden; /**< NULL: not wanted */
    uint32_t first;                 /**< of the step's ids */
    uint32_t begin, n;              /**< tokens of the slice */
    uint64_t position;              /**< of the first one in the session */
};

struct kt_slice {
    struct kt_model *model;
    const struct kt_block *block;
    uint32_t layer;
    struct kt_piece *pieces;
    uint32_t n_pieces, n_tokens;
};

/** Items begin .. end - 1, tokens or heads, for thread number `thread`, below kt_model.n_threads. */
struct kt_range {
    uint32_t begin, end, thread;
};
typedef enum kt_status (*kt_part_fn)(const struct kt_slice *slice, struct kt_range range,
                                     struct kt_error *error);

/** Divides the slice's tokens over the threads; few tokens are the caller's alone. */
enum kt_status kt_slice_run_tokens(const struct kt_slice *slice, kt_part_fn function, struct kt_error *error);
/** So few tokens. */
bool kt_slice_is_small(const struct kt_slice *slice);
/** Divides n items over the threads in any case. */
enum kt_status kt_slice_run_items(const struct kt_slice *slice, uint32_t n, kt_part_fn function,
                                  struct kt_error *error);

/** Norms n_parts parts of `size` numbers of n rows, with the model's epsilon and offset of weights. */
enum kt_status kt_slice_norm(const struct kt_model *model, const float *in, const float *weight, float *out,
                             uint32_t n, uint32_t n_parts, uint64_t size, struct kt_error *error);
/** Norms n rows of hidden states; copies them if there is no norm. */
enum kt_status kt_slice_norm_hidden(const struct kt_model *model, const float *in,
                                    const struct kt_hidden_norm *norm, float *out, uint32_t n,
                                    struct kt_error *error);
/** Those of tokens, KT_BUFFER_X, into KT_BUFFER_H. */
enum kt_status kt_slice_norm_tokens(const struct kt_slice *slice, const struct kt_hidden_norm *norm,
                                    struct kt_range range, struct kt_error *error);
/** Rotates the first numbers of each head in place, unless the layer has no rope; rows begin .. end - 1 of
 * the slice, data at row begin. */
enum kt_status kt_slice_rotate(const struct kt_slice *slice, float *data, uint32_t n_heads,
                               uint32_t head_size, struct kt_range range, struct kt_error *error);
/** The same with pairs of another kind (enum kt_rope_pairing) than the model's. */
enum kt_status kt_slice_rotate_pairs(const struct kt_slice *slice, uint32_t pairing, float *data,
                                     uint32_t n_heads, uint32_t head_size, struct kt_range range,
                                     struct kt_error *error);
/** Multiplies rows of `width` numbers, rows as above, by what queries grow by at their positions. */
void kt_slice_grow(const struct kt_slice *slice, const struct kt_growth_config *growth, float *data,
                   uint64_t width, struct kt_range range);
/** Multiplies rows of all tokens by matrices over one input. The time counts as that of linears. */
enum kt_status kt_slice_multiply(const struct kt_slice *slice, const float *input,
                                 const struct kt_linear_output *outputs, uint32_t n_outputs,
                                 struct kt_error *error);
/** Items of attention over a slice, at most: each piece may begin and end within a chunk. */
uint32_t kt_model_most_items(const struct kt_model *model);
/** Attention of all pieces over their sessions' cache, of selected rows if the model has selections: rows of
 * all heads in a buffer, outputs to KT_BUFFER_MIX. */
enum kt_status kt_slice_attend(const struct kt_slice *slice, const struct kt_attention *attention,
                               enum kt_buffer queries, uint64_t query_width, uint64_t output_width,
                               struct kt_error *error);
/** Such an output of float32 rows; `adds`: to what stands there. */
struct kt_linear_output kt_slice_output(const struct kt_linear *linear, float *output, bool adds);
/* residual.c */

/** Where a half of the layer puts what it gives: KT_BUFFER_X, to which it adds, or KT_BUFFER_RESULT. */
struct kt_linear_output kt_slice_result(const struct kt_slice *slice, enum kt_half half,
                                        const struct kt_linear *linear);
/** Whether it is KT_BUFFER_X. */
bool kt_slice_adds(const struct kt_slice *slice, enum kt_half half);
/** Norms KT_BUFFER_RESULT and adds it to KT_BUFFER_X, if the half put something there. */
enum kt_status kt_slice_settle(const struct kt_slice *slice, enum kt_half half, struct kt_error *error);
/** The same of tokens begin .. end - 1 and any place. */
enum kt_status kt_slice_settle_place(const struct kt_slice *slice, struct kt_range range,
                                     const struct kt_place *place, struct kt_error *error);
/** The rows of the ids of a slice, tokens begin .. end - 1, to KT_BUFFER_X. */
enum kt_status kt_slice_embed(const struct kt_slice *slice, struct kt_range range, struct kt_error *error);
/** Scales and caps n rows of logits. */
enum kt_status kt_slice_cap(const struct kt_slice *slice, float *logits, uint32_t n, struct kt_error *error);

/** Writes rows begin .. end - 1 of the slice into a field of their sessions' cache; data: [n_tokens][heads]
 * [width] of the whole slice. */
enum kt_status kt_slice_write(const struct kt_slice *slice, uint32_t field, uint32_t n_heads, uint64_t width,
                              const float *data, struct kt_range range, struct kt_error *error);

/** Seconds of a clock. */
double kt_slice_now(void);

/* ---- kinds of layers --------------------------------------------------------------------------- */

#define KT_MIXER_FIELDS 4

/** What mixes the tokens of a sequence: it reads KT_BUFFER_H and gives kt_slice_result. */
struct kt_mixer {
    /** What the cache keeps for a layer; returns how many fields, at most KT_MIXER_FIELDS. */
    uint32_t (*fields)(const struct kt_engine_config *config, uint32_t layer, uint32_t cache_dtype,
                       struct kt_kv_field *fields);
    enum kt_status (*load)(struct kt_model *model, uint32_t layer, struct kt_block *block,
                           struct kt_error *error);
    enum kt_status (*run)(const struct kt_slice *slice, struct kt_error *error);
};
extern const struct kt_mixer kt_mixer_attention, kt_mixer_latent, kt_mixer_delta;
/** The mixer of an enum kt_mixer_kind. */
const struct kt_mixer *kt_mixer_find(uint32_t kind);

/** Dense networks, experts, and experts that every token goes through. */
enum kt_status kt_ffn_load(struct kt_model *model, uint32_t layer, struct kt_block *block,
                           struct kt_error *error);
/** Norms KT_BUFFER_X into KT_BUFFER_H, which it reads, and gives kt_slice_result. */
enum kt_status kt_ffn_run(const struct kt_slice *slice, struct kt_error *error);
/** Adds what experts of an earlier layer gave to KT_BUFFER_X, if that belongs behind this one. */
enum kt_status kt_ffn_add_kept(const struct kt_slice *slice, struct kt_error *error);

/* inputs.c: inputs of single layers */

/** Bytes of the file that their table is. */
uint64_t kt_inputs_size(const struct kt_inputs *inputs);
enum kt_status kt_inputs_load(struct kt_model *model, struct kt_error *error);
enum kt_status kt_layer_input_load(struct kt_model *model, uint32_t layer, struct kt_block *block,
                                   struct kt_error *error);
/** What is around what it adds. */
struct kt_place *kt_layer_input_place(struct kt_layer_input *input);
/** Makes those of a slice's tokens, whose embedding is in KT_BUFFER_X. */
enum kt_status kt_inputs_prepare(const struct kt_slice *slice, struct kt_error *error);
/** Adds what the layer makes of its own to KT_BUFFER_X. */
enum kt_status kt_layer_input_run(const struct kt_slice *slice, struct kt_error *error);

/* ---- loading -----------------------------------------------------------------------------------
 * Loading a layer makes the objects, reads vectors, and plans what is large; kt_model_finish() packs that,
 * after all is known to fit. */

#define KT_WEIGHT_NAME 160

/** The name of a layer's weight in GGUF files or in safetensors, by the layer's number here; NULL or ""
 * there: no name, which is not found. */
void kt_weight_name(const struct kt_model *model, uint32_t layer, const char *gguf, const char *json,
                    char *name);
/** What safetensors call the layers, between the stem and a number: "layers". */
const char *kt_layers_name(const struct kt_model *model);
/** The name of a weight before or behind the layers, load.c. */
void kt_end_name(const struct kt_engine_config *config, const char *gguf, const char *json, char *name);
/** Zeroed memory that lives as long as the model; NULL: none. */
void *kt_model_alloc(struct kt_model *model, uint64_t n, uint64_t size);
/** What the library takes more than `size` bytes, as it takes whole pages. */
uint64_t kt_page_rest(uint64_t size);
/** Adds what attentions work in, by making them on caches of the same layers. */
enum kt_status kt_model_plan_attention(struct kt_model *model, struct kt_kv *kv, struct kt_kv *mtp_kv,
                                       struct kt_error *error);
/** A buffer is to have rows of that many numbers at least. */
void kt_model_need(struct kt_model *model, enum kt_buffer buffer, uint64_t width);
/** A thread is to have so many bytes of scratch at least. */
void kt_model_need_scratch(struct kt_model *model, uint64_t size);

/* assume.c: of a model without a checkpoint. Views last until the next one is made. */

enum kt_status kt_assume_open(struct kt_model *model, const char *json, uint64_t size,
                              struct kt_error *error);
void kt_assume_close(struct kt_model *model);
/** Zeros in the format of weights that are not quantized. */
enum kt_status kt_assume_numbers(struct kt_model *model, uint64_t rows, uint64_t cols, struct kt_view *view,
                                 struct kt_error *error);
/** The same in the format of linears, for matrices that are none. */
enum kt_status kt_assume_heads(struct kt_model *model, uint64_t rows, uint64_t cols, struct kt_view *view,
                               struct kt_error *error);
/** What a linear and a layer's experts would take. */
enum kt_status kt_assume_linear(struct kt_model *model, uint64_t rows, uint64_t cols,
                                struct kt_linear *linear, struct kt_plan *plan, struct kt_error *error);
enum kt_status kt_assume_params(const struct kt_model *model, struct kt_layer_params *params,
                                struct kt_error *error);
enum kt_status kt_assume_experts(struct kt_model *model, const struct kt_layer_params *params,
                                 struct kt_layer *layer, struct kt_plan *plan, struct kt_error *error);

/** A weight of rows x cols and its bias, which may be NULL; KT_E_FORMAT: it has other sizes. */
enum kt_status kt_find_weight(struct kt_model *model, const char *name, uint64_t rows, uint64_t cols,
                              struct kt_view *view, const float **bias, struct kt_error *error);
/** The numbers of a tensor of rows x cols as float32; all of them live as long as the model. */
enum kt_status kt_load_numbers(struct kt_model *model, const char *name, uint64_t rows, uint64_t cols,
                               float **out, struct kt_error *error);

/** Rows of numbers: float32, or bfloat16 where that says the same, at half the memory. */
struct kt_numbers {
    const uint8_t *data;
    uint64_t row_size; /**< bytes */
    uint32_t dtype;
};
enum kt_status kt_load_exact(struct kt_model *model, const char *name, uint64_t rows, uint64_t cols,
                             struct kt_numbers *weight, struct kt_error *error);
/** A matrix of any name. It has no weights before kt_model_finish. */
enum kt_status kt_load_linear(struct kt_model *model, const char *name, uint64_t rows, uint64_t cols,
                              struct kt_linear **out, struct kt_error *error);
/** A layer's norm, if it has one there; load.c. */
enum kt_status kt_load_layer_norm(struct kt_model *model, uint32_t layer, enum kt_norm_place place,
                                  struct kt_hidden_norm *norm, struct kt_error *error);
/** A norm of hidden states by its full name. */
enum kt_status kt_load_norm(struct kt_model *model, const char *name, struct kt_hidden_norm *norm,
                            struct kt_error *error);
/** The same of a layer. */
enum kt_status kt_load_vector(struct kt_model *model, uint32_t layer, const char *gguf, const char *json,
                              uint64_t rows, uint64_t cols, float **out, struct kt_error *error);
enum kt_status kt_load_matrix(struct kt_model *model, uint32_t layer, const char *gguf, const char *json,
                              uint64_t rows, uint64_t cols, struct kt_linear **out, struct kt_error *error);

/* biases.c */

/** The file and the configuration must agree on the bias of a matrix of attention. */
enum kt_status kt_check_bias(const struct kt_model *model, uint32_t layer, const char *gguf, const char *json,
                             bool wanted, struct kt_error *error);
/** Fails on biases of other matrices that were loaded, but that the class of config.json has none for. */
enum kt_status kt_refuse_biases(const struct kt_model *model, struct kt_error *error);
/** The experts of a layer, by its number in files; those fields of params that do not come from the
 * checkpoint are set here. */
enum kt_status kt_load_experts(struct kt_model *model, uint32_t layer, struct kt_layer_params *params,
                               struct kt_layer **out, struct kt_error *error);
/** Attention over the cache. `params` is copied, what it points to must live as long as the model; its name
 * is set here. *out is set by kt_model_finish. */
enum kt_status kt_load_attention(struct kt_model *model, uint32_t layer,
                                 const struct kt_attention_params *params, struct kt_attention **out,
                                 struct kt_error *error);
/** Destroys it with what the model owns. */
enum kt_status kt_model_own_selector(struct kt_model *model, struct kt_selector *selector,
                                     struct kt_error *error);
/** Weights that a mixer packs itself, `size` bytes of them: function(model, data) does that in
 * kt_model_finish. */
typedef enum kt_status (*kt_later_fn)(struct kt_model *model, void *data, struct kt_error *error);
enum kt_status kt_load_later(struct kt_model *model, uint64_t n_weights, uint64_t size, kt_later_fn function,
                             void *data, struct kt_error *error);

/** Tells the caller how far loading has come; fails if that stops it. */
enum kt_status kt_model_tell(const struct kt_model *model, struct kt_error *error);
/** Loads and creates what was only planned so far, in the order in which it was asked for. */
enum kt_status kt_model_finish(struct kt_model *model, struct kt_error *error);
/** Frees all of that, the newest first. */
void kt_model_free_owned(struct kt_model *model);

/** A tensor counts as computed with, by its exact name. */
void kt_model_mark_used(struct kt_model *model, const char *tensor);
/** NAME, NAME.weight, its scale and, of a matrix, whatever else is NAME.something: its bias, its scales. The
 * library refuses a weight beside which something stands that it does not know. */
void kt_model_mark_weight(struct kt_model *model, const char *name, bool is_matrix);
/** Whether a tensor is one of those that the library finds experts by. */
bool kt_is_expert(const char *tensor);
/** KT_E_UNSUPPORTED names a tensor that nothing was computed with. */
enum kt_status kt_model_refuse_unused(const struct kt_model *model, struct kt_error *error);

#endif
