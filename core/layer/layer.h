/* SPDX-License-Identifier: Apache-2.0 */
/* layer.h - a layer: its shape, its packed weights on every node, and where its buffers lie. */
#ifndef KT_CORE_LAYER_LAYER_H
#define KT_CORE_LAYER_LAYER_H

#include "core/context/context.h"
#include "core/machine/outcome.h"
#include "core/layer/recorder.h"
#include "core/layer/usage.h"

#include <kt/kt.h>

/* Rows of one expert are multiplied in blocks of at most this many, so that a thread's buffers are
 * bounded. The same for any number of threads: a kernel may choose its way by the rows. */
#define KT_ROW_BLOCK 1024

/* Where a node's buffers start in its part of the arena. Whole groups use the parts of the threads,
 * split groups the split_ ones; both lie at the same place because a forward uses one kind. */
struct kt_buffers {
    uint64_t act;     /* packed activation rows of all tokens */
    uint64_t y;       /* down's output of every (token, slot) */
    uint64_t scratch; /* of thread 0 of the node; the next threads' follow */
    uint64_t scratch_stride;
    uint64_t thread; /* of thread 0; inside it gather, h and packed h */
    uint64_t thread_stride;
    uint64_t thread_h, thread_act; /* relative to the thread's part, which starts with gather */
    uint64_t split_gather, split_h, split_act;
    uint64_t size;
};

/* A node's slice of intermediate_size. */
struct kt_shard {
    uint64_t begin, end;     /* begin == end: the node has none */
    struct kt_layout layout; /* valid if begin < end */
    uint64_t y_row_size;
    uint64_t down_offset; /* of the stage 1 object behind the stage 0 object of an expert */
    uint64_t expert_stride;
    const char *packed; /* experts' objects: in `weights`, or in a mapped store */
    struct kt_buffer weights;
    struct kt_expert *source; /* cut views if layout.keeps_source, else NULL */
    float *bias[3];           /* by projection: [n_experts][rows], or NULL */
    uint64_t bias_stride[3];  /* rows */
    struct kt_buffers buffers;
};

struct kt_layer {
    struct kt_context *context;
    struct kt_layer_params params; /* pointers: name and expert_map are our own */
    char *name;
    int64_t *expert_map; /* or NULL */
    bool loaded;
    const struct kt_backend *backend; /* NULL before load */
    uint32_t n_shards;
    struct kt_shard *shard;
    struct kt_format format[3];
    uint64_t packed_size;
    uint64_t nominal_size;
    struct kt_checkpoint *checkpoint; /* retained if products read it, else NULL */
    uint64_t checkpoint_layer;        /* of it, in use */
    struct kt_check *check;           /* of objects that are still to be checked, or NULL */
    void *source_copy;                /* n_experts copies of views from the caller's memory, or NULL */
    struct kt_usage usage;
    struct kt_recording recording; /* guarded by the pool's lock */
    atomic_uint outstanding;       /* submitted, not yet done */
    struct {
        _Atomic uint64_t done, total; /* bytes */
        atomic_bool stopped;
    } load;
};

/* A backend and how it would hold the layer. */
struct kt_choice {
    const struct kt_backend *backend;
    uint32_t n_shards;
    struct kt_shard shard[KT_MAX_NODES]; /* begin, end, layout and what follows from them */
    uint64_t nominal_size;
    bool fallback;
};

/* What a backend is chosen for. */
struct kt_request {
    const struct kt_expert *example; /* formats and sizes; its data is not read */
    const char *backend;             /* the only one that may take it; NULL: as the layer wishes */
    const char *form;                /* of the objects that a store holds; NULL: they are yet to be made */
    bool whole;                      /* not cut over the nodes */
    bool stored;                     /* a store is to be made of the objects */
};

/* Chooses the backend; candidates go to plan if it is not NULL. kt_choice_release gives the layouts
 * back unless the layer takes them. */
enum kt_status kt_choice_make(const struct kt_layer *layer, const struct kt_request *request,
                              struct kt_choice *choice, struct kt_plan *plan, struct kt_error *error);
void kt_choice_release(struct kt_choice *choice);

/* How a layer's objects come to be. */
struct kt_filling {
    const char *mapped; /* where they lie already, on the only node; NULL: buffers are to be filled */
    enum kt_status (*run)(struct kt_layer *layer, void *data, struct kt_error *error);
    void *data;
};

/* Takes what was chosen and fills it. `experts` hold biases, and views that a backend may keep. The
 * caller unloads the layer after a failure. */
enum kt_status kt_layer_fill(struct kt_layer *layer, struct kt_choice *choice,
                             const struct kt_expert *experts, const struct kt_filling *filling,
                             struct kt_error *error);

/* Counts an object, or a part of one, that a load has made on a node. */
void kt_layer_load_count(struct kt_layer *layer, uint64_t size);

/* Has the load been stopped? Fails it if so. */
bool kt_layer_load_stopped(struct kt_layer *layer, struct kt_outcome *outcome);

/* Views of n_experts experts, as the layer needs them? */
enum kt_status kt_layer_check_experts(const struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, struct kt_error *error);

/* The same of views that no checkpoint handed out, which would have looked at their scales. */
enum kt_status kt_layer_check_own(const struct kt_layer *layer, const struct kt_expert *experts,
                                  uint32_t n_experts, struct kt_error *error);

/* Are the layer's sizes those of layer `index` of the checkpoint? */
enum kt_status kt_layer_check_moe(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                  uint64_t index, struct kt_error *error);

/* The layer's experts in a checkpoint; the caller frees the array. */
enum kt_status kt_layer_take_experts(const struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                     uint64_t index, struct kt_expert **experts, struct kt_error *error);

/* Packs the shard's part of an expert; the job says which panels of which stage, and where to. */
enum kt_status kt_layer_pack(const struct kt_shard *shard, const struct kt_backend *backend,
                             const struct kt_expert *expert, struct kt_pack *job, struct kt_error *error);

/* Bytes of the route arrays of the layer. */
uint64_t kt_route_size(const struct kt_layer *layer);

/* Moves the shards' views from the caller's memory, which may be freed after load, into our own. */
enum kt_status kt_layer_copy_source(struct kt_layer *layer, struct kt_error *error);

/* Frees what load made. */
void kt_layer_unload(struct kt_layer *layer);

static inline const struct kt_ops *kt_layer_ops(const struct kt_layer *layer)
{
    return layer->backend->level->ops;
}

/* Panels of a stage, the last one perhaps partly empty. */
static inline uint64_t kt_layout_panels(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t rows = stage == KT_STAGE_DOWN ? layout->shape.hidden_size : layout->shape.intermediate_size;
    return (rows + layout->panel_rows[stage] - 1) / layout->panel_rows[stage];
}

#endif
