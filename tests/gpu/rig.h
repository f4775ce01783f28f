/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - a model of a few layers whose batches lie in a GPU's memory, as an engine has them. A pass on a
 * stream, for each layer:
 *
 *     copies    mask, number of tokens, ids, weights and input, to pinned memory
 *     submit    kt_submit_on_stream
 *     a copy    in place of the GPU's own experts
 *     sync      kt_sync_on_stream
 *     a copy    of the output, to the GPU
 *
 * There is a plan for each size that graphs are captured for. What should come out was computed before by
 * layers of the same weights on the CPU alone.
 */
#ifndef KT_TESTS_GPU_RIG_H
#define KT_TESTS_GPU_RIG_H

#include "tests/gpu/gpu.h"
#include "tests/support/layer_fixture.h"

enum {
    RIG_LAYERS = 3,
    RIG_EXPERTS = 6,
    RIG_TOP_K = 3,
    RIG_TOKENS = 8,
    RIG_HIDDEN = 48,
    RIG_PLANS = 3,
    RIG_BATCHES = 24,
    RIG_BURST = 8 /* replays without waiting */
};

/* A batch as it lies in the GPU's memory: the inputs of all layers. */
struct rig_batch {
    int64_t ids[RIG_LAYERS][RIG_TOKENS * RIG_TOP_K];
    float weights[RIG_LAYERS][RIG_TOKENS * RIG_TOP_K];
    float x[RIG_LAYERS][RIG_TOKENS * RIG_HIDDEN];
    int32_t n_tokens;
    uint8_t mask[RIG_LAYERS][RIG_EXPERTS];
};

struct rig_output {
    float y[RIG_LAYERS][RIG_TOKENS * RIG_HIDDEN];
};

/* A pass for batches of at most max_tokens. */
struct rig_plan {
    uint32_t max_tokens;
    struct kt_staging slot[KT_STAGING_SLOTS];
    struct kt_host_call *call[RIG_LAYERS];
    cudaGraphExec_t graph;
};

/* The same layers twice: for streams, and for the results that are expected. */
struct rig_model {
    struct kt_layer *layer[RIG_LAYERS];
    struct kt_deferral *deferral; /* or NULL */
    uint8_t *mask;                /* [RIG_LAYERS][RIG_EXPERTS] */
};

struct rig {
    struct kt_context *context;
    struct kt_stream_runtime *runtime;
    struct kt_allocator pinned;
    struct kt_staging_params staging;
    struct fixture fixture[RIG_LAYERS];
    struct rig_model streamed, plain;
    struct rig_plan plan[RIG_PLANS];
    cudaStream_t stream, side; /* `side`: where the experts of the CPU are, or the same */
    cudaEvent_t fork, join;
    /* pinned memory */
    struct rig_batch *batches;  /* [RIG_BATCHES] */
    struct rig_output *results; /* [RIG_BURST] */
    /* the GPU's */
    struct rig_batch *gpu_batches, *gpu_batch;   /* all, and the one that graphs read */
    struct rig_output *gpu_results, *gpu_result; /* likewise */
    struct rig_output expected[RIG_BATCHES];
    uint64_t state; /* of random numbers */
};

/* `setting`: one more of the context, or NULL. */
enum { RIG_DEFERS = 1, RIG_HAS_SIDE = 2 }; /* `how` */
void rig_open(struct rig *rig, unsigned how, const char *setting);
void rig_close(struct rig *rig);
/* A context that lost its GPU: nothing that calls the runtime has to succeed. */
void rig_abandon(struct rig *rig);

/* The smallest plan for a batch. */
struct rig_plan *rig_plan_of(struct rig *rig, uint32_t batch);

/* Puts a pass on the streams; a capture may be under way on `stream`. */
void rig_pass(struct rig *rig, struct rig_plan *plan);
void rig_capture(struct rig *rig, struct rig_plan *plan);

/* Around passes: batch `batch` becomes the one that is read; the output goes to results[place]. */
void rig_bring(struct rig *rig, uint32_t batch);
void rig_fetch(struct rig *rig, uint32_t place);

/* After a synchronization: no call failed, results[place] is what the batch should give. */
void rig_check_calls(struct rig *rig);
void rig_check(const struct rig *rig, uint32_t batch, uint32_t place);

/* One pass of a batch, waited for and checked. */
void rig_run(struct rig *rig, uint32_t batch);

#endif
