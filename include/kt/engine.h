/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/engine.h - whole language models on CPUs: ids of tokens in, logits out. A part of libktengine
 * (pkg-config kt-kernel-engine); <kt/text.h> has what makes ids of text.
 *
 *     kt_model_open()         weights of a checkpoint, packed by the backends of a context; a bounded cache
 *     kt_session_open()       a sequence of tokens, empty
 *     kt_model_step()         the next tokens of any number of sessions, prompts and single tokens mixed
 *     kt_model_step_hidden()  the same, and hidden states
 *     kt_session_truncate()   back to an earlier token
 *     kt_session_save()       a session in a file
 *
 * Families: qwen3moe, qwen3, qwen2, llama, Mixtral, gpt-oss, glm4moe (GLM-4.5 to 4.7), minimax-m2,
 * deepseek2 (DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash), qwen3next, qwen35moe and qwen35 (text only), each
 * from GGUF files and from safetensors folders. What a checkpoint has and is not computed is refused by its
 * name; but blocks that predict tokens after the next are left out, or, where it is asked for, the first one
 * is loaded: kt_session_draft().
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
    uint64_t max_tokens;   /**< of one session; 0: as many as the model was made for, at most 4096 */
    uint64_t cache_tokens; /**< room of all sessions together; 0: each of them can be full */
    uint32_t max_sessions; /**< open at once; 0: 1 */
    uint32_t max_batch;    /**< tokens that are computed at once; more run in slices. 0: 512, at most 1024 */
    uint32_t cache_dtype;  /**< KT_DTYPE_BF16, KT_DTYPE_Q8_0 or KT_DTYPE_F32; 0: KT_DTYPE_BF16 */
    uint32_t mtp; /**< not 0: with the block that predicts the token after the next, if there is one */
    /** Called while weights are packed, by the calling thread: bytes of packed weights that are done, of all;
     * NULL: not wanted. Not 0: stop, and kt_model_open fails with KT_E_STATE. */
    int (*progress)(void *data, uint64_t done, uint64_t total);
    void *data;
    /** Takes the experts from here instead: a store that `kt convert` made, or another file of the same
     * model; their sizes must be the model's. Lives as long as the model. NULL: they are in the checkpoint.
     */
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
    uint64_t context_length; /**< that the model was made for */
    uint64_t max_tokens;     /**< of a session */
    uint64_t weight_size;    /**< bytes of packed weights */
    uint64_t cache_size;     /**< bytes of the cache */
    /** What products read of weights, as these are kept, here or in the checkpoint itself: of all but
     * experts, and of all experts, of which a token reads top_k of n_experts. */
    uint64_t dense_bytes, expert_bytes;
    uint32_t top_k;            /**< experts of a token */
    uint32_t has_states;       /**< not 0: sessions keep states, see kt_session_truncate */
    uint64_t n_weights;        /**< numbers in matrices, but for the embedding */
    uint64_t n_expert_weights; /**< of these, those of experts */
    const char *instruction; /**< that multiplies the largest part of them, as struct kt_layer_info has it */
    const char *level;       /**< of the backend that does */
    uint32_t has_mtp;        /**< not 0: kt_session_draft() can be called */
    uint32_t reserved;
};

/** Where the time of all steps went so far, in seconds of the calling thread. What is missing of `total` are
 * norms, rope, routers and all else that works on rows. */
struct kt_model_times {
    uint64_t n_tokens;
    double total;
    double linears; /**< of layers */
    double experts;
    double attention;
    double head; /**< the product that gives logits */
};

/** What a model will take, in bytes. */
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
    /** Norms, routers, angles of rope, rows of max_batch tokens, n_logits rows of logits, and the rest of
     * pages that weights and buffers do not fill. */
    uint64_t row_size;
    /** What is read in the files themselves: the embedding, and weights of backends that do not pack them.
     * Those of a mapped store are in weight_size. */
    uint64_t mapped_size;
    uint64_t total;
    uint64_t available;  /**< kt_memory_available(); 0: unknown */
    uint64_t max_tokens; /**< of a session, with the default filled in */
    /** For people, which values of kt tune are in force for attention; of layers that differ those of the
     * first that has some. "": none. */
    char attention_tuned[256];
    /** What kt_model_info would say. `family` lives as long as the library; instruction and level are NULL,
     * as nothing is packed yet, and cache_size is what is planned. */
    struct kt_model_info model;
};

/** What kt_model_open would take, without taking it; it fails where that would fail, but for what the weights
 * hold. Where it fails, plan->model has the family and its context_length if these are known, else NULL and
 * 0. */
enum kt_status kt_model_plan(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const struct kt_model_params *params, struct kt_model_plan *plan,
                             struct kt_error *error);

/**
 * Loads a model. The context and the checkpoint must live longer than it: rows of the embedding are read
 * there. KT_E_UNSUPPORTED names the family, the setting or the tensor that is not computed; KT_E_FORMAT sizes
 * that contradict each other; KT_E_NOMEM what is needed and what there is, before anything large is read.
 */
enum kt_status kt_model_open(struct kt_context *context, struct kt_checkpoint *checkpoint,
                             const struct kt_model_params *params, struct kt_model **model,
                             struct kt_error *error);
/** Its sessions must be closed. `model` may be NULL. */
void kt_model_close(struct kt_model *model);
void kt_model_info(const struct kt_model *model, struct kt_model_info *info);
void kt_model_times(const struct kt_model *model, struct kt_model_times *times);
/** The cache of all sessions: pages, how many are free now, sessions that are open. state_bytes not 0: layers
 * have recurrent states, and sessions are truncated and forked with all of their tokens or none. Any thread.
 */
void kt_model_cache(const struct kt_model *model, struct kt_kv_info *info);

/** An empty session. KT_E_NOMEM: max_sessions are open. */
enum kt_status kt_session_open(struct kt_model *model, struct kt_session **session, struct kt_error *error);
/** `session` may be NULL. */
void kt_session_close(struct kt_session *session);
/** Tokens that it holds. */
uint64_t kt_session_tokens(const struct kt_session *session);
/**
 * Keeps the first n_tokens. A session with states, of layers that keep no row for each token (Gated
 * DeltaNet), can only keep all of its tokens or none, else KT_E_UNSUPPORTED: fork it where you may want to
 * return to.
 */
enum kt_status kt_session_truncate(struct kt_session *session, uint64_t n_tokens, struct kt_error *error);
/** Opens a session of the first n_tokens of another one; memory is shared until one of them goes on. One with
 * states can be forked with all of its tokens or none; the states are copied. */
enum kt_status kt_session_fork(struct kt_session *session, uint64_t n_tokens, struct kt_session **fork,
                               struct kt_error *error);

/**
 * Writes a session to a file, which appears only when it is complete, with checksums of everything: what the
 * cache has of its tokens, and `ids`, all of them. It does not depend on threads or NUMA nodes.
 */
enum kt_status kt_session_save(struct kt_session *session, const char *path, const int32_t *ids,
                               struct kt_error *error);
/**
 * Opens a session as it was saved; *ids: its *n_ids tokens, for kt_ids_free() of <kt/text.h>.
 * KT_E_UNSUPPORTED: the file is of another model, or of a cache of another form; KT_E_FORMAT: it is damaged,
 * at which byte; KT_E_RANGE: it has more tokens than a
 * session may have; KT_E_NOMEM: no page or session is free. A file that anybody could have written does no
 * harm, apart from the logits of the session.
 */
enum kt_status kt_session_restore(struct kt_model *model, const char *path, struct kt_session **session,
                                  int32_t **ids, uint64_t *n_ids, struct kt_error *error);

/** The next tokens of a session. */
struct kt_step {
    struct kt_session *session;
    const int32_t *ids; /**< [n_ids] */
    uint32_t n_ids;
    uint32_t n_logits; /**< logits of so many tokens, the last ones; 0: none */
    float *logits;     /**< [n_logits][vocabulary] */
};

/**
 * Computes the next tokens of sessions, each of which may stand here once. Checks everything before it
 * computes. Logits have the same bits for any number of threads where the
 * backends promise that (core.deterministic). KT_E_RANGE names an id that is none, or a
 * session that would be longer than max_tokens; KT_E_NOMEM: the cache is full. After KT_E_BACKEND, sessions
 * have the tokens of whole slices; else, on failure, they are as they were. But a session with states that
 * had tokens and was being computed can then only be truncated to 0, or closed: all else is KT_E_STATE.
 */
enum kt_status kt_model_step(struct kt_model *model, const struct kt_step *steps, uint32_t n_steps,
                             struct kt_error *error);

/** Hidden states of a step's last tokens: what stands behind the last layer, float32. */
struct kt_hidden {
    uint32_t n_rows; /**< of so many tokens, the last ones; 0: none */
    uint32_t reserved;
    float *before; /**< [n_rows][hidden_size] as the last layer left it; NULL: not wanted */
    float *after;  /**< [n_rows][hidden_size] behind the last norm: what logits are made of; NULL: likewise */
};

/** The same, with hidden states: hidden[n_steps], one for each step. */
enum kt_status kt_model_step_hidden(struct kt_model *model, const struct kt_step *steps,
                                    const struct kt_hidden *hidden, uint32_t n_steps, struct kt_error *error);

/**
 * What the model's own next-token block (MTP) thinks comes behind `next`, the token that follows those of the
 * session and is not in it yet: logits[vocabulary]. The session is as it was. The block has a small cache of
 * its own, which follows a session's last tokens: where a session was restored, or the cache is full, it
 * begins anew, which makes it guess worse for a while. KT_E_UNSUPPORTED: the model was opened without it;
 * KT_E_STATE: the session has no tokens, or none since it was restored.
 */
enum kt_status kt_session_draft(struct kt_session *session, int32_t next, float *logits,
                                struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
