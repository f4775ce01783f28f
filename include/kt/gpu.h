/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/gpu.h - experts on the CPU, others on a GPU: placement, deferred experts, forwards from a GPU stream,
 * staging buffers for these, and weights for GPU memory. Part of <kt/kt.h>, which includes it and describes
 * what all functions have in common.
 */
#ifndef KT_GPU_H
#define KT_GPU_H

#include <kt/kt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- placement of experts on a GPU ---------------------------------------------------------- */

/** How kt_place chooses. */
enum kt_placement {
    KT_PLACE_UNIFORM = 0, /**< the first experts, equally many per layer; the remainder in the first layers */
    KT_PLACE_FREQUENCY = 1, /**< the most used experts of all layers */
    KT_PLACE_FRONT = 2,     /**< all experts of the first layers */
    KT_PLACE_RANDOM = 3     /**< random; the same seed gives the same ones on every machine */
};

struct kt_place_params {
    size_t struct_size;
    enum kt_placement placement;
    uint32_t n_layers;  /**< that have experts */
    uint32_t n_experts; /**< of each */
    uint32_t reserved;
    uint64_t n_on_gpu;      /**< of all layers together, at most n_layers * n_experts */
    uint64_t seed;          /**< of KT_PLACE_RANDOM */
    const uint64_t *counts; /**< [n_layers][n_experts]: how often each was used (kt_layer_usage); may be NULL
                               if not required */
};
#ifdef __cplusplus
extern "C++" {
namespace kt_cxx
{
KT_CONSTEXPR struct kt_place_params place_params()
{
    struct kt_place_params value = sized<struct kt_place_params>();
    value.seed = 42;
    return value;
}
} // namespace kt_cxx
}
#define KT_PLACE_PARAMS_INIT kt_cxx::place_params()
#else
#define KT_PLACE_PARAMS_INIT                                      \
    {                                                             \
        .struct_size = sizeof(struct kt_place_params), .seed = 42 \
    }
#endif

/**
 * Chooses n_on_gpu experts: masks, [n_layers][n_experts], gets 1 for each of them and 0 for all others; a
 * layer's row of it may be its skip_mask. Among experts used equally often, lower layers and then lower
 * numbers come first. Any thread. KT_E_INVALID, KT_E_RANGE, KT_E_NOMEM; masks is then unchanged.
 */
enum kt_status kt_place(const struct kt_place_params *params, uint8_t *masks, struct kt_error *error);

/** A swap: an expert that leaves the GPU, and one of the same layer that takes its place. */
struct kt_place_move {
    uint32_t layer;
    uint32_t leaves, comes;
};

/**
 * Adapts masks to recent use, such as the last prompt: in at most max_moves swaps, the least used expert on
 * the GPU is swapped with the most used one of its layer that is not on the GPU, the largest gain first, as
 * long as there is a gain. Each layer keeps its number of experts on the GPU. Changes masks and lists the
 * swaps in order in moves[0 .. *n_moves - 1], an array of max_moves. Allocates nothing. Any thread.
 */
enum kt_status kt_place_update(const uint64_t *counts, uint32_t n_layers, uint32_t n_experts, uint8_t *masks,
                               uint32_t max_moves, struct kt_place_move *moves, uint32_t *n_moves,
                               struct kt_error *error);

/* ---- deferred experts ----------------------------------------------------------------------- */

/**
 * Experts whose results may be added one layer later. For each token, the experts with the highest router
 * weights are computed immediately. The others of layer L are computed from L's input while the engine works
 * on everything between L and the next layer with experts, and are added to the output of that next layer. So
 * CPU and GPU work at the same time. The result differs from that without deferral, in proportion to the
 * weights of those experts.
 *
 *   protected   the top_k - max_deferred experts of a token with the highest weights, the first of equal
 *               ones, including negative ones and those in skip_mask
 *   immediate   an expert that is protected for any token of the batch is immediate for each token that
 *               requests it, so fewer are deferred in larger batches. With per_token, only a token's own
 *               protected experts count.
 *   deferred    all others; none in the last layer
 *
 * One object per model and batch in flight; it holds the deferred experts. Positions count only layers with
 * experts, 0 .. n_layers - 1.
 */
struct kt_deferral;

struct kt_deferral_params {
    size_t struct_size;
    uint32_t n_layers;   /**< layers with experts that a pass goes through */
    uint32_t n_experts;  /**< of these layers, at most */
    uint32_t top_k;      /**< at most */
    uint32_t max_tokens; /**< of a batch, at most */
    uint64_t hidden_size;
    uint32_t max_deferred;           /**< experts of a token; 0: none, top_k and more: all */
    uint32_t per_token;              /**< not 0: only a token's own weights determine protected experts */
    const uint32_t *max_deferred_of; /**< [n_layers]: max_deferred of each layer; NULL: the same for
                                          all. Copied. */
};
#define KT_DEFERRAL_PARAMS_INIT KT_INIT(kt_deferral_params)

/** Keeps the context alive. Allocates a batch's input and output once, 8 bytes per element. */
enum kt_status kt_deferral_create(struct kt_context *context, const struct kt_deferral_params *params,
                                  struct kt_deferral **deferral, struct kt_error *error);
/** Waits for all submitted work of the context first. `deferral` may be NULL. */
void kt_deferral_destroy(struct kt_deferral *deferral);

/**
 * kt_layer_submit for the layer at `position`: the ticket is done when output has the immediate experts of
 * this layer and the deferred ones of position - 1. Input, ids and weights are then no longer used: those of
 * deferred experts are copied, and skip_mask has been read for both. Position 0 begins a pass and discards
 * the rest of an abandoned pass. Positions of a pass are submitted in order, all with the same n_tokens and
 * output_dtype; otherwise, if experts are pending, the ticket fails with KT_E_STATE. Deferred experts that
 * fail make the next position's ticket fail. After a failure nothing is pending. Allocates nothing. One
 * thread at a time.
 */
enum kt_status kt_deferral_submit(struct kt_deferral *deferral, uint32_t position, struct kt_layer *layer,
                                  const struct kt_forward *forward, uint64_t *ticket, struct kt_error *error);

/* ---- forwards from a GPU's stream ----------------------------------------------------------- */

/**
 * A forward whose submit and wait are functions of the type void (*)(void *), for a GPU runtime that calls
 * them when the preceding work of a stream is done (cudaLaunchHostFunc, hipLaunchHostFunc):
 *
 *     cudaLaunchHostFunc(stream, kt_host_submit, call);
 *     ...                                                 the GPU's own experts
 *     cudaLaunchHostFunc(stream, kt_host_wait, call);
 *
 * The number of tokens, ids, weights and input are read when kt_host_submit runs, not before, so a captured
 * graph that holds the two replays with new data. A call belongs to one place in a stream: graphs for
 * several batch sizes need separate calls. It must live as long as the graphs.
 */
struct kt_host_call;

struct kt_host_params {
    size_t struct_size;
    struct kt_layer *layer;       /**< must live longer than the call */
    struct kt_deferral *deferral; /**< or NULL: all experts at once; must live longer than the call */
    uint32_t position;            /**< position of the layer in `deferral` */
    uint32_t max_tokens;          /**< for which the buffers have room */
    const int32_t *n_tokens;      /**< read when submit runs, 0 .. max_tokens; NULL: forward.n_tokens */
    uint32_t timeout_ms;          /**< longest wait in kt_host_wait; 0: a minute */
    uint32_t reserved;
    struct kt_forward forward; /**< copied; what it points to must live as long as the call */
};
#ifdef __cplusplus
extern "C++" {
namespace kt_cxx
{
KT_CONSTEXPR struct kt_host_params host_params()
{
    struct kt_host_params value = sized<struct kt_host_params>();
    value.forward = KT_FORWARD_INIT;
    return value;
}
} // namespace kt_cxx
}
#define KT_HOST_PARAMS_INIT kt_cxx::host_params()
#else
#define KT_HOST_PARAMS_INIT                                                      \
    {                                                                            \
        .struct_size = sizeof(struct kt_host_params), .forward = KT_FORWARD_INIT \
    }
#endif

/** Makes a call; checks everything that does not depend on a batch. */
enum kt_status kt_host_call_create(const struct kt_host_params *params, struct kt_host_call **call,
                                   struct kt_error *error);
/** Waits for the forward that the call has submitted. No stream may run the call any more: one that was
 * destroyed may, until the device is synchronized. It may be NULL. */
void kt_host_call_destroy(struct kt_host_call *call);

/**
 * Adds the forward to the context's queue; kt_host_wait returns when its output is complete. Both accept a
 * struct kt_host_call, call no GPU runtime, allocate nothing and may run on any thread, but not at the same
 * time for one call. They cannot return errors: a failure is stored for kt_host_call_status, the output must
 * then not be used, and a kt_host_wait without a forward returns immediately. Without a submit since the last
 * wait, the status is KT_E_STATE; the order of launches on two streams requires an event. A wait of more than
 * timeout_ms fails; the buffers are then in use until a later submit or wait of the call finds the forward
 * done, and submits before that fail with KT_E_BUSY.
 */
void kt_host_submit(void *call);
void kt_host_wait(void *call);

/** The first failure since the last call of this function, or KT_OK; the host call can be used again in
 * either case. Any thread. */
enum kt_status kt_host_call_status(struct kt_host_call *call, struct kt_error *error);

/** The runtime of a GPU, loaded at run time: kt-kernel is not linked to any. */
struct kt_stream_runtime;

/**
 * Loads the runtime whose function launches calls on streams: cudaLaunchHostFunc or hipLaunchHostFunc.
 * `library` is an absolute path, or a name that the dynamic linker knows, such as "libcudart.so.12"; NULL:
 * libcudart or libamdhip64, preferably one that the process has already loaded. KT_E_NOT_FOUND with the
 * dynamic linker's message if there is none, KT_E_UNSUPPORTED if it lacks the function.
 */
enum kt_status kt_stream_runtime_open(const char *library, struct kt_stream_runtime **runtime,
                                      struct kt_error *error);
/** Launched calls need not have finished. `runtime` may be NULL. */
void kt_stream_runtime_close(struct kt_stream_runtime *runtime);

/** Launches kt_host_submit or kt_host_wait of a call on a stream (a cudaStream_t or hipStream_t), which may
 * be capturing. KT_E_SYSTEM with the runtime's message if the launch fails; its last error is then reset.
 * After a failed kernel, the runtime rejects all launches and no longer runs launched calls, so a sync may
 * never run; calls, layers and the context still work, and can be destroyed. Any thread. */
enum kt_status kt_submit_on_stream(const struct kt_stream_runtime *runtime, void *stream,
                                   struct kt_host_call *call, struct kt_error *error);
enum kt_status kt_sync_on_stream(const struct kt_stream_runtime *runtime, void *stream,
                                 struct kt_host_call *call, struct kt_error *error);

/** Functions that allocate memory, such as cudaHostAlloc and cudaFreeHost for buffers that a GPU copies to
 * and from. Both are called by the thread that needs memory and must not call the library; `release` may
 * also be called by the thread that ends the context, so `data` must live until then. */
struct kt_allocator {
    void *(*allocate)(void *data, size_t size); /**< any alignment; returns NULL if there is no memory */
    void (*release)(void *data, void *memory, size_t size);
    void *data;
};

/** Fills an allocator of the runtime's pinned host memory: cudaHostAlloc or hipHostMalloc, also while a
 * stream is capturing. `runtime` must be open as long as memory of it is in use. KT_E_UNSUPPORTED if the
 * runtime lacks these functions. */
enum kt_status kt_stream_runtime_allocator(struct kt_stream_runtime *runtime, struct kt_allocator *allocator,
                                           struct kt_error *error);

/* ---- staging buffers ------------------------------------------------------------------------ */

/** The purpose of buffers: layers that are equal in everything but `allocator` share them. */
struct kt_staging_params {
    size_t struct_size;
    uint64_t hidden_size;
    uint32_t top_k;
    uint32_t input_dtype; /**< as in struct kt_forward */
    uint32_t output_dtype;
    uint32_t instance;             /**< distinguishes models of the same sizes that run at the same time */
    struct kt_allocator allocator; /**< for buffers that a call makes; without functions: ordinary memory */
};
#define KT_STAGING_PARAMS_INIT KT_INIT(kt_staging_params)

/** A layer uses the slot of its position (counting layers with experts) modulo this number, so the next
 * layer's input can be copied while this one's is read. */
#define KT_STAGING_SLOTS 2

/** The buffers of a layer's batch, dense and aligned to 64 bytes. The context owns them. */
struct kt_staging {
    uint32_t max_tokens; /**< that they are for */
    uint32_t reserved;
    int32_t *n_tokens;         /**< 0 at first */
    int64_t *expert_ids;       /**< [max_tokens][top_k] */
    float *router_weights;     /**< [max_tokens][top_k] */
    void *input, *output;      /**< [max_tokens][hidden_size] */
    struct kt_forward forward; /**< with these pointers, top_k, dtypes, and the requested n_tokens */
};

/**
 * Allocates buffers for batches of each of n_sizes sizes, in any order: the sizes for which graphs are
 * captured. Existing buffers do not move. KT_E_INVALID, KT_E_RANGE for a size of 0 or above 16777216,
 * KT_E_NOMEM; nothing changes then. Any thread.
 */
enum kt_status kt_capture_batch_sizes(struct kt_context *context, const struct kt_staging_params *params,
                                      const uint32_t *sizes, uint32_t n_sizes, struct kt_error *error);

/**
 * Returns the smallest buffers for n_tokens tokens, in the slot of a layer's position. If all are too
 * small (n_tokens is above all captured sizes, or there are none), buffers for the next power of two are
 * allocated and kept; an engine that runs prompts in chunks should capture the size of the chunks as well.
 * Otherwise nothing is allocated. An address stays valid until kt_clear_buffers or the end of the context,
 * so a captured graph and struct kt_host_params may hold it. Batches of one size share their buffers: to
 * stage one while another runs, give each an instance. Any thread. KT_E_INVALID, KT_E_RANGE, KT_E_NOMEM;
 * nothing is changed then.
 */
enum kt_status kt_staging_get(struct kt_context *context, const struct kt_staging_params *params,
                              uint32_t n_tokens, uint32_t position, struct kt_staging *staging,
                              struct kt_error *error);

/**
 * Waits for all submitted work of the context, then frees all buffers for `params`, or with NULL all
 * buffers. Graphs, calls and forwards that use them must never run again. Any thread.
 */
enum kt_status kt_clear_buffers(struct kt_context *context, const struct kt_staging_params *params,
                                struct kt_error *error);

/* ---- experts for GPUs ----------------------------------------------------------------------- */

/** One of the two matrices that a GPU rank gets of an expert: rows of quants without gaps, and likewise
 * scales and zeros, a row for each group of rows. Sizes are in bytes, 0 for missing parts. */
struct kt_unpack_matrix {
    uint32_t dtype;       /**< enum kt_dtype of the quants, as in the source */
    uint32_t scale_dtype; /**< KT_DTYPE_NONE: no scales */
    uint32_t zero_dtype;  /**< KT_DTYPE_NONE: no zeros */
    uint32_t reserved;
    uint64_t rows, row_size;
    uint64_t scale_rows, scale_row_size, zero_row_size; /**< zeros have scale_rows rows too */
    uint64_t size, scale_size, zero_size;
};

/** The part of one expert that each of n_ranks GPU ranks gets. */
struct kt_unpack_info {
    uint32_t n_ranks;
    uint32_t reserved;
    uint64_t intermediate_size;  /**< of a rank: the layer's / n_ranks; rank r has rows (columns of down)
                                      from r times this on */
    struct kt_unpack_matrix w13; /**< [2 * intermediate_size][hidden_size]: gate's rows, then up's; so
                                      are the scales: gate's groups, then up's. Without a gate up's alone */
    struct kt_unpack_matrix w2;  /**< [hidden_size][intermediate_size] */
};

/** The buffers for a rank's part of an expert, of the sizes in struct kt_unpack_info and any alignment.
 * Buffers for parts that the format does not have are ignored. */
struct kt_unpack_buffers {
    void *w13, *w13_scales, *w13_zeros;
    void *w2, *w2_scales, *w2_zeros;
};

/**
 * Describes what kt_layer_unpack writes for n_ranks ranks. A scale for all of intermediate_size goes to
 * every rank. KT_E_UNSUPPORTED, with the reason: the backend cannot give (these) weights back;
 * intermediate_size is not divisible by n_ranks, or a rank's slice would cut a group of the format.
 * KT_E_STATE without weights. Any thread, also while the layer computes.
 */
enum kt_status kt_layer_unpack_info(const struct kt_layer *layer, uint32_t n_ranks,
                                    struct kt_unpack_info *info, struct kt_error *error);

/**
 * Writes expert `expert` of the layer (after its expert_map) to the buffers of n_ranks ranks, bit for bit
 * as in the source, row after row whatever the strides there were; skip_mask is ignored. The NUMA nodes
 * that hold the expert may be fewer or more than the ranks. Runs in parallel on the context's threads and
 * the caller's. Allocates nothing. Any thread. Fails like kt_layer_unpack_info, with KT_E_RANGE for an
 * expert that does not exist, KT_E_INVALID for a missing buffer, KT_E_FORMAT if a store's object is
 * damaged; nothing is written then.
 */
enum kt_status kt_layer_unpack(struct kt_layer *layer, uint32_t expert, uint32_t n_ranks,
                               const struct kt_unpack_buffers *ranks, struct kt_error *error);

/** Puts the same on the queue, as kt_layer_submit does: arguments are checked here, `ranks` and the
 *  buffers must live until kt_wait. */
enum kt_status kt_layer_submit_unpack(struct kt_layer *layer, uint32_t expert, uint32_t n_ranks,
                                      const struct kt_unpack_buffers *ranks, uint64_t *ticket,
                                      struct kt_error *error);

#ifdef __cplusplus
}
#endif
#endif
