/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h - the data of a layer: its shape, its packed weights on every node, the places of its buffers.
 *
 * A linear is a layer of one expert that is its down projection alone: activation KT_ACTIVATION_NONE,
 * hidden_size rows and intermediate_size columns.
 */
#ifndef KT_CORE_LAYER_LAYER_H
#define KT_CORE_LAYER_LAYER_H

#include "core/backend/backend.h"
#include "core/layer/recorder.h"
#include "core/layer/usage.h"
#include "core/machine/buffer.h"

#include <kt/kt.h>
#include <kt/plugin.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Most rows of a kt_group (route.h), which bounds the buffers of a thread. It does not depend on the number
 * of threads: a kernel may choose its method by the rows, and results must not differ. */
#define KT_GROUP_ROWS 1024

/* The plugin ABI's first minor that has KT_ACTIVATION_NONE and kt_layout.deterministic. */
#define KT_LINEAR_MINOR 5
/* The first that has activations after KT_ACTIVATION_NONE. */
#define KT_ACTIVATION_MINOR 9

/* Far above any model; with these, no product of sizes overflows 64 bits. */
#define KT_MAX_SIZE (UINT64_C(1) << 24)
#define KT_MAX_TOKENS (1u << 24)

/* Of kt_plan.rounding. */
#define KT_ROUNDING_SIZE sizeof(((struct kt_plan *)0)->rounding)

/* Offsets of a node's buffers in its part of the arena. Whole groups use the buffers of threads, split groups
 * those called split_; both have the same place, because a forward uses one kind. */
struct kt_buffers {
    uint64_t act;     /* packed activation rows of all tokens */
    uint64_t y;       /* down's output of every (token, slot) */
    uint64_t scratch; /* of thread 0 of the node; the next threads' follow */
    uint64_t scratch_stride;
    uint64_t thread; /* of thread 0; inside it gather, h and packed h */
    uint64_t thread_stride;
    uint64_t thread_h, thread_act; /* relative to the thread's part, which starts with gather */
    uint64_t split_gather, split_h, split_act;
    uint64_t linear_size; /* of a linear: its part of the arena, in which act, y and scratch are offsets */
    uint64_t size;
};

/* Most rows of a group for this backend: a plugin that does not know kt_layout.deterministic keeps to it with
 * one row at a time. */
static inline uint32_t kt_backend_group_rows(const struct kt_backend *backend, const struct kt_layout *layout)
{
    return layout->deterministic && backend->plugin->abi_minor < KT_LINEAR_MINOR ? 1 : KT_GROUP_ROWS;
}

/* A node's part: a slice of intermediate_size, or, where a linear is split by rows, panels of down. Then all
 * nodes have one layout and one object, whose pages lie on the nodes that multiply them. */
struct kt_shard {
    uint64_t begin, end;             /* begin == end: the node has none */
    uint64_t panel_begin, panel_end; /* of down, to be packed and multiplied by this node */
    struct kt_layout layout;         /* valid if begin < end */
    uint64_t y_row_size;
    uint64_t down_offset; /* from an expert's object of gate_up to that of down */
    uint64_t expert_stride;
    const char *packed; /* objects of the experts: in `weights`, or in a mapped store */
    struct kt_buffer weights;
    struct kt_expert *source; /* cut views if layout.keeps_source, else NULL */
    float *bias[3];           /* by projection: [n_experts][rows], or NULL */
    uint64_t bias_stride[3];  /* rows */
    struct kt_buffers buffers;
};

/* The objects of a layer in a mapped store that have not been compared with their checksums yet. */
struct kt_lazy_check {
    const struct kt_stored *stored;
    uint32_t n_left; /* experts that are not compared */
    uint32_t n_wanted;
    uint32_t *wanted; /* experts of the current batch; there is room for all */
    uint8_t *done;    /* by expert */
};

struct kt_layer {
    struct kt_context *context;
    struct kt_layer_params params; /* its strings and expert_map are copies */
    char *name;
    int64_t *expert_map; /* or NULL */
    bool splits_rows;    /* a linear, by panels of down */
    bool loaded;
    const struct kt_backend *backend; /* NULL before load */
    uint32_t n_shards;
    struct kt_shard *shard;
    struct kt_format format[3];
    uint64_t packed_size;
    uint64_t nominal_size;
    uint32_t group_rows; /* most rows of a group */
    char rounding[KT_ROUNDING_SIZE];
    struct kt_checkpoint *checkpoint; /* retained if forwards read it or its mapping, else NULL */
    uint64_t checkpoint_layer;        /* its layer that is in use */
    struct kt_lazy_check *check;      /* NULL: nothing is left to be compared */
    void *source_copy; /* weights copied from the caller's memory for a backend that reads them, or NULL */
    uint64_t tuning[KT_MAX_TUNABLES]; /* what kt_layer_tune set; 0: as configured */
    struct kt_usage usage;
    struct kt_recording recording; /* guarded by the pool's lock */
    atomic_uint outstanding;       /* submitted tasks that have not ended */
    struct {
        _Atomic uint64_t done, total; /* bytes */
        atomic_bool stopped;
    } load;
};

/* Makes a layer whose params have been checked, but for what every layer has; see kt_layer_create. */
enum kt_status kt_layer_make(struct kt_context *context, const struct kt_layer_params *params,
                             struct kt_layer **layer, struct kt_error *error);

/* Is a size from 1 to `maximum`? */
enum kt_status kt_layer_check_range(const char *name, const char *what, uint64_t value, uint64_t maximum,
                                    struct kt_error *error);

/* Frees everything that loading made. */
void kt_layer_unload(struct kt_layer *layer);

/* Offset of a stage's object of an expert in the packed weights of a shard. */
static inline uint64_t kt_shard_offset(const struct kt_shard *shard, uint32_t expert, enum kt_stage stage)
{
    return expert * shard->expert_stride + (stage == KT_STAGE_DOWN ? shard->down_offset : 0);
}

/* The object itself; NULL: there is none, the backend reads the source. */
static inline const char *kt_shard_object(const struct kt_shard *shard, uint32_t expert, enum kt_stage stage)
{
    return shard->packed ? shard->packed + kt_shard_offset(shard, expert, stage) : NULL;
}

static inline bool kt_layer_is_linear(const struct kt_layer *layer)
{
    return layer->params.activation == KT_ACTIVATION_NONE;
}

/* The first of the projections that it has. */
static inline enum kt_projection kt_layer_first(const struct kt_layer *layer)
{
    return kt_activation_first(layer->params.activation);
}

static inline const struct kt_ops *kt_layer_ops(const struct kt_layer *layer)
{
    return layer->backend->level->ops;
}

/* Number of panels of a stage; the last one may be partly empty. */
static inline uint64_t kt_layout_panels(const struct kt_layout *layout, enum kt_stage stage)
{
    uint64_t rows = stage == KT_STAGE_DOWN ? layout->shape.hidden_size : layout->shape.intermediate_size;
    return (rows + layout->panel_rows[stage] - 1) / layout->panel_rows[stage];
}

/* Bytes of the packed weights that lie on the shard's node. */
static inline uint64_t kt_shard_size(const struct kt_layer *layer, const struct kt_shard *shard)
{
    uint64_t all = shard->expert_stride * layer->params.n_experts;
    if (!layer->splits_rows || shard->begin == shard->end)
        return all;
    return all / kt_layout_panels(&shard->layout, KT_STAGE_DOWN) * (shard->panel_end - shard->panel_begin);
}

#endif
