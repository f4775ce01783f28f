/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/engine.h - whole language models on CPUs: token ids in, logits out. Part of libktengine (pkg-config
 * kt-kernel-engine); <kt/text.h> converts text to ids.
 *
 *     kt_model_open()         weights of a checkpoint, packed by the backends of a context; a bounded cache
 *     kt_session_open()       a sequence of tokens, empty
 *     kt_model_step()         the next tokens of any number of sessions, prompts and single tokens mixed
 *     kt_model_step_hidden()  the same, with hidden states
 *     kt_session_truncate()   go back to an earlier token
 *     kt_session_save()       write a session to a file
 *
 * Families: qwen3moe, qwen3, qwen2, llama, Mixtral, gpt-oss, glm4moe (GLM-4.5 to 4.7), minimax-m2,
 * deepseek2 (DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash), qwen3next, qwen35moe and qwen35 (text only), each
 * from GGUF files and from safetensors folders. Unsupported parts of a checkpoint are an error that names
 * them, except blocks that predict tokens after the next: they are ignored, or the first one is loaded on
 * request: kt_session_draft().
 *
 * Thread-safety: a model's functions, those of its sessions included, are called by one thread at a time.
 */
#ifndef KT_ENGINE_H
#define KT_ENGINE_H

#include <kt/kt.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_model;
struct kt_session;

struct kt_model_params {
    size_t struct_size;
    uint64_t max_tokens;   /**< of one session; 0: the model's context length, at most 4096 */
    uint64_t cache_tokens; /**< capacity of all sessions together; 0: each of them can be full */
    uint32_t max_sessions; /**< open at once; 0: 1 */
    uint32_t max_batch;    /**< tokens computed at once; more run in slices. 0: 512, at most 1024 */
    uint32_t cache_dtype;  /**< KT_DTYPE_BF16, KT_DTYPE_Q8_0 or KT_DTYPE_F32; 0: KT_DTYPE_BF16 */
    uint32_t mtp; /**< not 0: load the block that predicts the token after the next, if there is one */
    /** Called by the calling thread while weights are packed, with the bytes done and the total; may be NULL.
     * If it returns a value other than 0, loading stops and kt_model_open fails with KT_E_STATE. */
    int (*progress)(void *data, uint64_t done, uint64_t total);
    void *data;
    /** Experts are loaded from here: a store of `kt convert`, or another file of the same model; their sizes
     * must match the model. Must outlive the model. NULL: they are in the checkpoint. */
    struct kt_checkpoint *experts;
    uint32_t n_logits; /**< rows of logits that the caller keeps at once: the plan counts them */
    uint32_t reserved;
};
#define KT_MODEL_PARAMS_INIT KT_INIT(kt_model_params)

/** Strings live as long as the model. */
struct kt_model_info {
    const char *family; /**< "qwen3moe" */
    uint32_t n_layers;
    uint32_t n_experts; /**< of a layer; 0: a dense model */
    uint64_t hidden_size;
    uint64_t vocabulary;     /**< logits of a token */
    uint64_t context_length; /**< according to the checkpoint */
    uint64_t max_tokens;     /**< of a session */
    uint64_t weight_size;    /**< bytes of packed weights */
    uint64_t cache_size;     /**< bytes of the cache */
    /** Bytes of weights that products read, as stored here or in the checkpoint itself: of everything except
     * experts, and of all experts, of which a token reads top_k of n_experts. */
    uint64_t dense_bytes, expert_bytes;
    uint32_t top_k;            /**< experts of a token */
    uint32_t has_states;       /**< not 0: sessions have states, see kt_session_truncate */
    uint64_t n_weights;        /**< elements of all matrices except the embedding */
    uint64_t n_expert_weights; /**< of these, those of experts */
    const char *instruction;   /**< that multiplies most of them, as in struct kt_layer_info */
    const char *level;         /**< of the backend that does so */
    uint32_t has_mtp;          /**< not 0: kt_session_draft() can be called */
    uint32_t reserved;
};

/** The time of all steps so far, in seconds of the calling thread. The rest of `total` is norms, RoPE,
 * routers and other work on rows. */
struct kt_model_times {
    uint64_t n_tokens;
    double total;
    double linears; /**< of layers */
    double experts;
    double attention;
    double head; /**< the product that gives logits */
};

/** The memory that a model requires, in bytes. */
struct kt_model_plan {
    uint32_t n_nodes;
    uint32_t reserved;
    struct {
        uint64_t weight_size; /**< packed weights on this NUMA node */
        uint64_t buffer_size; /**< activations and outputs */
    } node[KT_MAX_NODES];
    uint64_t weight_size; /**< of all nodes */
    uint64_t buffer_size;
    uint64_t cache_size; /**< of max_tokens and cache_tokens, spread over the nodes by heads */
    /** Norms, routers, angles of RoPE, rows of max_batch tokens, n_logits rows of logits, and the unused ends
     * of pages of weights and buffers. */
    uint64_t row_size;
    /** Data read directly from the files: the embedding, and weights of backends that do not pack them. Those
     * of a mapped store are in weight_size. */
    uint64_t mapped_size;
    uint64_t total;
    uint64_t available;  /**< kt_memory_available(); 0: unknown */
    uint64_t max_tokens; /**< of a session, with the default filled in */
    /** The values of kt tune in effect for attention, as text; if layers differ, those of the first layer
     * with any. "": none. */
    char attention_tuned[256];
    /** As from kt_model_info. `family` lives as long as the library; instruction and level are NULL, because
     * nothing is packed yet, and cache_size is the planned size. */
    struct kt_model_info model;
};

/** Computes the memory that kt_model_open would require, without allocating it. Fails if that would fail,
 * except for errors in the weights themselves. On failure, plan->model has the family and context_length if
 * they are known, else NULL and 0. */
enum kt_status kt_model_plan(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const struct kt_model_params *params, struct kt_model_plan *plan,
                             struct kt_error *error);

/**
 * The same for a model of which only config.json is at hand, `size` bytes of JSON: its weights have the
 * shapes that it says and the format that it names. params->experts must be NULL. KT_E_NOT_FOUND: the model
 * can be computed as far as config.json says, but not how much memory it needs, because only the files of
 * weights have their format.
 */
enum kt_status kt_model_plan_config(struct kt_context *context, const char *json, uint64_t size,
                                    const struct kt_model_params *params, struct kt_model_plan *plan,
                                    struct kt_error *error);

/**
 * Loads a model. The context and the checkpoint must outlive it, because rows of the embedding are read from
 * the checkpoint. KT_E_UNSUPPORTED: the message names the family, setting or tensor; KT_E_FORMAT: sizes
 * contradict each other; KT_E_NOMEM: the message has the required and the available memory. This is checked
 * before anything large is read.
 */
enum kt_status kt_model_open(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const struct kt_model_params *params, struct kt_model **model,
                             struct kt_error *error);
/** All sessions must be closed. `model` may be NULL. */
void kt_model_close(struct kt_model *model);
void kt_model_info(const struct kt_model *model, struct kt_model_info *info);
void kt_model_times(const struct kt_model *model, struct kt_model_times *times);
/** The cache of all sessions: pages, free pages, open sessions. If state_bytes is not 0, layers have
 * recurrent states, and sessions can only be truncated and forked with all of their tokens or none. Any
 * thread. */
void kt_model_cache(const struct kt_model *model, struct kt_kv_info *info);

/** An empty session. KT_E_NOMEM: max_sessions are open. */
enum kt_status kt_session_open(struct kt_model *model, struct kt_session **session, struct kt_error *error);
/** `session` may be NULL. */
void kt_session_close(struct kt_session *session);
/** The number of its tokens. */
uint64_t kt_session_tokens(const struct kt_session *session);
/**
 * Keeps the first n_tokens. A session with states, of layers without a row per token (Gated DeltaNet), can
 * only keep all of its tokens or none, else KT_E_UNSUPPORTED: fork it at positions to which you may want to
 * return.
 */
enum kt_status kt_session_truncate(struct kt_session *session, uint64_t n_tokens, struct kt_error *error);
/** Opens a session with the first n_tokens of another one; memory is shared until one of them continues. A
 * session with states can be forked with all of its tokens or none; the states are copied. */
enum kt_status kt_session_fork(struct kt_session *session, uint64_t n_tokens, struct kt_session **fork,
                               struct kt_error *error);

/**
 * Writes a session to a file, which appears only when it is complete: the cached data of its tokens and all
 * of `ids`, with checksums. The file does not depend on threads or NUMA nodes.
 */
enum kt_status kt_session_save(struct kt_session *session, const char *path, const int32_t *ids,
                               struct kt_error *error);
/**
 * Opens a saved session. *ids are its *n_ids tokens; free them with kt_ids_free() of <kt/text.h>.
 * KT_E_UNSUPPORTED: the file is of another model or cache data type; KT_E_FORMAT: it is damaged, and the
 * message has the byte; KT_E_RANGE: it has more tokens than a session may have; KT_E_NOMEM: no page or
 * session is free. An untrusted file is safe to open; it only determines the logits of its session.
 */
enum kt_status kt_session_restore(struct kt_model *model, const char *path, struct kt_session **session,
                                  int32_t **ids, uint64_t *n_ids, struct kt_error *error);

/** The next tokens of a session. */
struct kt_step {
    struct kt_session *session;
    const int32_t *ids; /**< [n_ids] */
    uint32_t n_ids;
    uint32_t n_logits; /**< number of last tokens whose logits are computed; 0: none */
    float *logits;     /**< [n_logits][vocabulary] */
};

/**
 * Computes the next tokens of sessions, each of which may occur once. Checks everything before it computes.
 * Logits have the same bits for any number of threads if the backends guarantee this (core.deterministic).
 * KT_E_RANGE: an id is invalid, or a session would exceed max_tokens; KT_E_NOMEM: the cache is full. After
 * KT_E_BACKEND, sessions have the tokens of complete slices; after other failures, they are unchanged.
 * However, a session with states that had tokens and was being computed can then only be truncated to 0 or
 * closed; everything else fails with KT_E_STATE.
 */
enum kt_status kt_model_step(struct kt_model *model, const struct kt_step *steps, uint32_t n_steps,
                             struct kt_error *error);

/** Hidden states of a step's last tokens, after the last layer, float32. */
struct kt_hidden {
    uint32_t n_rows; /**< number of last tokens; 0: none */
    uint32_t reserved;
    float *before; /**< [n_rows][hidden_size] after the last layer, before the norm; may be NULL */
    float *after;  /**< [n_rows][hidden_size] after the last norm, the input of the head; may be NULL */
};

/** The same, with hidden states: hidden[n_steps], one for each step. */
enum kt_status kt_model_step_hidden(struct kt_model *model, const struct kt_step *steps,
                                    const struct kt_hidden *hidden, uint32_t n_steps, struct kt_error *error);

/**
 * Computes logits[vocabulary] for the token after `next` with the model's own multi-token prediction block
 * (MTP). `next` follows the tokens of the session, and is not in it yet. The session does not change. The
 * block has its own small cache of a session's last tokens. If a session was restored or the cache is full,
 * the block starts again, and its predictions are worse for a while. KT_E_UNSUPPORTED: the model was opened
 * without the block; KT_E_STATE: the session has no tokens, or none since it was restored.
 */
enum kt_status kt_session_draft(struct kt_session *session, int32_t next, float *logits,
                                struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
