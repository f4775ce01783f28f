/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - an inference engine in small, as an example and a test: a model whose layers are partly dense
 * and partly have experts, some of these on a "GPU". The GPU is a stream that calls functions of the CPU; its
 * experts are computed there by a context of its own, the others by the context that is under test.
 *
 * A pass, all of it functions that the stream calls in order, captured once for each batch size:
 *     dense layer        the hidden states change
 *     layer of experts   experts move between GPU and CPU, if they do
 *                        the router's ids and weights and the input go to the staging buffers
 *                        kt_submit_on_stream   the CPU begins
 *                        the GPU's experts
 *                        kt_sync_on_stream     the CPU is done
 *                        both sums are added to the hidden states
 */
#ifndef KT_TESTS_CORE_ASYNC_ENGINE_ENGINE_H
#define KT_TESTS_CORE_ASYNC_ENGINE_ENGINE_H

#include "tests/gpu/gpu.h"
#include "tests/support/layer_fixture.h"

#include <stdbool.h>

enum { ENGINE_LAYERS = 19, ENGINE_MOE = 12, ENGINE_EXPERTS = 8, ENGINE_TOP_K = 3, ENGINE_TOKENS = 20 };
enum { ENGINE_HIDDEN = 40, ENGINE_CAPTURED = 3 }; /* hidden_size at most; sizes with a graph */

struct engine_params {
    uint64_t hidden;
    uint64_t seed;
    uint32_t instance;    /* of its staging buffers */
    uint32_t input_dtype; /* KT_DTYPE_F32 or KT_DTYPE_BF16 */
    uint32_t max_deferred, per_token;
    bool moves; /* experts, while it serves */
};

/* What happened at a layer of experts, for engine_check. */
struct engine_record {
    uint32_t n_tokens;
    uint8_t on_gpu[ENGINE_EXPERTS];
    int64_t ids[ENGINE_TOKENS * ENGINE_TOP_K];
    float weights[ENGINE_TOKENS * ENGINE_TOP_K];
    float input[ENGINE_TOKENS * ENGINE_HIDDEN]; /* as many bytes as input_dtype has */
    float output[ENGINE_TOKENS * ENGINE_HIDDEN];
};

struct engine;
struct engine_plan;

/* What the functions of a layer are called with. */
struct engine_step {
    struct engine *engine;
    struct engine_plan *plan;
    uint32_t layer;
    uint32_t position; /* among those with experts */
};

/* A pass for a batch size. */
struct engine_plan {
    struct engine *engine;
    struct kt_staging slot[KT_STAGING_SLOTS];
    struct kt_host_call *call[ENGINE_MOE];
    struct engine_step step[ENGINE_LAYERS];
    cudaGraphExec_t graph; /* NULL: it is launched step by step */
};

struct engine {
    struct engine_params params;
    struct kt_stream_runtime *streams;
    cudaStream_t stream;
    struct kt_context *cpu, *gpu; /* `cpu` is the caller's, retained by the layers */
    struct fixture fixture[ENGINE_MOE];
    struct kt_layer *cpu_layer[ENGINE_MOE], *gpu_layer[ENGINE_MOE];
    struct kt_layer *all[ENGINE_MOE]; /* every expert, for engine_check */
    uint8_t on_gpu[ENGINE_MOE][ENGINE_EXPERTS], on_cpu[ENGINE_MOE][ENGINE_EXPERTS];
    struct kt_deferral *deferral; /* or NULL */
    struct engine_plan plan[ENGINE_CAPTURED];
    /* the batch that is on its way */
    uint64_t state; /* of random numbers */
    uint32_t n_tokens;
    float hidden[ENGINE_TOKENS * ENGINE_HIDDEN], gpu_sum[ENGINE_TOKENS * ENGINE_HIDDEN];
    struct engine_record record[ENGINE_MOE];
    uint64_t n_moves;
    struct kt_error error; /* the GPU's first one */
};

void engine_open(struct engine *engine, struct kt_context *cpu, const struct engine_params *params);
void engine_close(struct engine *engine);

/* Puts a pass of 1 to ENGINE_TOKENS random tokens on the stream: a graph, or for sizes above all that were
 * captured step by step with `eager`, which the caller gives back once it has synchronized. */
void engine_launch(struct engine *engine, uint32_t n_tokens, struct engine_plan *eager);
void engine_synchronize(struct engine *engine, struct engine_plan *eager);

/* Compares what the last pass has recorded with the same experts computed one by one and added up in double.
 */
void engine_check(const struct engine *engine);

#endif
