/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/async/engine/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t captured[ENGINE_CAPTURED] = {1, 2, 6};

/* The first layer and every third are dense. */
static bool is_dense(uint32_t layer)
{
    return layer % 3 == 0;
}

static struct kt_staging_params staging_params(struct engine *engine)
{
    struct kt_staging_params params = KT_STAGING_PARAMS_INIT;
    params.hidden_size = engine->params.hidden;
    params.top_k = ENGINE_TOP_K;
    params.input_dtype = engine->params.input_dtype;
    params.output_dtype = KT_DTYPE_F32;
    params.instance = engine->params.instance;
    ck_ok(kt_stream_runtime_allocator(engine->streams, &params.allocator, &ck_error));
    return params;
}

/* ---- what the stream calls ---- */

static void run_dense(void *argument)
{
    const struct engine_step *step = argument;
    struct engine *engine = step->engine;
    uint64_t n = engine->n_tokens * engine->params.hidden;
    for (uint64_t i = 0; i < n; i++)
        engine->hidden[i] = tanhf(engine->hidden[i] + 0.25f * engine->hidden[(i + step->layer) % n]);
}

/* One expert comes, another leaves: between the layer's last forward and its next one. */
static void run_move(void *argument)
{
    const struct engine_step *step = argument;
    struct engine *engine = step->engine;
    for (int i = 0; i < 2 && fixture_uniform(&engine->state) < 0.5; i++) {
        uint32_t expert = (uint32_t)(fixture_uniform(&engine->state) * ENGINE_EXPERTS);
        uint8_t *on_gpu = &engine->on_gpu[step->position][expert];
        *on_gpu = !*on_gpu;
        engine->on_cpu[step->position][expert] = !*on_gpu;
        engine->n_moves++;
    }
}

static void copy_input(const struct engine *engine, void *input)
{
    uint64_t n = engine->n_tokens * engine->params.hidden;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &engine->hidden[i], sizeof bits);
        if (engine->params.input_dtype == KT_DTYPE_F32)
            ((float *)input)[i] = engine->hidden[i];
        else
            ((uint16_t *)input)[i] = (uint16_t)(bits >> 16);
    }
}

/* Different experts for a token, or none; weights from a few values, so that some are equal. */
static void run_router(void *argument)
{
    const struct engine_step *step = argument;
    struct engine *engine = step->engine;
    const struct kt_staging *slot = &step->plan->slot[step->position % KT_STAGING_SLOTS];
    for (uint32_t t = 0; t < engine->n_tokens; t++) {
        int64_t first = (int64_t)(fixture_uniform(&engine->state) * ENGINE_EXPERTS);
        for (int64_t k = 0; k < ENGINE_TOP_K; k++) {
            bool none = fixture_uniform(&engine->state) < 0.05;
            slot->expert_ids[t * ENGINE_TOP_K + k] = none ? -1 : (first + k * k) % ENGINE_EXPERTS;
            int eighths = 1 + (int)(fixture_uniform(&engine->state) * 7);
            slot->router_weights[t * ENGINE_TOP_K + k] = (float)eighths / 8;
        }
    }
    copy_input(engine, slot->input);
    *slot->n_tokens = (int32_t)engine->n_tokens;
    struct engine_record *record = &engine->record[step->position];
    record->n_tokens = engine->n_tokens;
    memcpy(record->on_gpu, engine->on_gpu[step->position], sizeof record->on_gpu);
    memcpy(record->ids, slot->expert_ids, engine->n_tokens * ENGINE_TOP_K * sizeof *record->ids);
    memcpy(record->weights, slot->router_weights, engine->n_tokens * ENGINE_TOP_K * sizeof *record->weights);
    memcpy(record->input, slot->input,
           engine->n_tokens * engine->params.hidden * (engine->params.input_dtype == KT_DTYPE_F32 ? 4 : 2));
}

static void run_gpu(void *argument)
{
    const struct engine_step *step = argument;
    struct engine *engine = step->engine;
    struct kt_forward forward = step->plan->slot[step->position % KT_STAGING_SLOTS].forward;
    struct kt_error error;
    forward.n_tokens = engine->n_tokens;
    forward.output = engine->gpu_sum;
    enum kt_status status = kt_layer_forward(engine->gpu_layer[step->position], &forward, &error);
    if (status != KT_OK && engine->error.status == KT_OK)
        engine->error = error;
}

static void run_merge(void *argument)
{
    const struct engine_step *step = argument;
    struct engine *engine = step->engine;
    const float *cpu_sum = step->plan->slot[step->position % KT_STAGING_SLOTS].output;
    float *output = engine->record[step->position].output;
    for (uint64_t i = 0; i < engine->n_tokens * engine->params.hidden; i++) {
        output[i] = engine->gpu_sum[i] + cpu_sum[i];
        engine->hidden[i] += output[i];
    }
}

/* ---- plans ---- */

static void launch(struct engine *engine, void (*function)(void *), struct engine_step *step)
{
    ck_cuda(cudaLaunchHostFunc(engine->stream, function, step));
}

static void launch_pass(struct engine *engine, struct engine_plan *plan)
{
    for (uint32_t l = 0; l < ENGINE_LAYERS; l++) {
        struct engine_step *step = &plan->step[l];
        if (is_dense(l)) {
            launch(engine, run_dense, step);
            continue;
        }
        if (engine->params.moves)
            launch(engine, run_move, step);
        launch(engine, run_router, step);
        ck_ok(kt_submit_on_stream(engine->streams, engine->stream, plan->call[step->position], &ck_error));
        launch(engine, run_gpu, step);
        ck_ok(kt_sync_on_stream(engine->streams, engine->stream, plan->call[step->position], &ck_error));
        launch(engine, run_merge, step);
    }
}

static void plan_make(struct engine *engine, struct engine_plan *plan, uint32_t n_tokens)
{
    struct kt_staging_params params = staging_params(engine);
    uint32_t position = 0;
    *plan = (struct engine_plan){.engine = engine};
    for (uint32_t s = 0; s < KT_STAGING_SLOTS; s++)
        ck_ok(kt_staging_get(engine->cpu, &params, n_tokens, s, &plan->slot[s], &ck_error));
    for (uint32_t l = 0; l < ENGINE_LAYERS; l++) {
        plan->step[l] = (struct engine_step){engine, plan, l, position};
        if (is_dense(l))
            continue;
        const struct kt_staging *slot = &plan->slot[position % KT_STAGING_SLOTS];
        struct kt_host_params host = KT_HOST_PARAMS_INIT;
        host.layer = engine->cpu_layer[position];
        host.deferral = engine->deferral;
        host.position = position;
        host.max_tokens = slot->max_tokens;
        host.n_tokens = slot->n_tokens;
        host.forward = slot->forward;
        ck_ok(kt_host_call_create(&host, &plan->call[position], &ck_error));
        position++;
    }
    ck_assert_uint_eq(position, ENGINE_MOE);
}

static void plan_free(struct engine_plan *plan)
{
    for (int p = 0; p < ENGINE_MOE; p++)
        kt_host_call_destroy(plan->call[p]);
    if (plan->graph)
        ck_cuda(cudaGraphExecDestroy(plan->graph));
}

/* ---- the engine ---- */

static struct kt_layer *make_layer(struct kt_context *context, const struct fixture *fixture,
                                   const uint8_t *mask)
{
    struct kt_layer_params params = fixture_params(fixture);
    struct kt_layer *layer = NULL;
    params.skip_mask = mask;
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    ck_ok(kt_layer_load(layer, fixture->experts, ENGINE_EXPERTS, &ck_error));
    return layer;
}

static void make_layers(struct engine *engine)
{
    for (int p = 0; p < ENGINE_MOE; p++) {
        struct fixture *fixture = &engine->fixture[p];
        *fixture = (struct fixture){.n_experts = ENGINE_EXPERTS,
                                    .top_k = ENGINE_TOP_K,
                                    .n_tokens = ENGINE_TOKENS,
                                    .max_tokens = ENGINE_TOKENS,
                                    .hidden = engine->params.hidden,
                                    .intermediate = 12};
        fixture_fill(fixture, engine->params.seed * 100 + (uint64_t)p);
        for (int e = 0; e < ENGINE_EXPERTS; e++) {
            engine->on_gpu[p][e] = (e + p) % 2 == 0;
            engine->on_cpu[p][e] = !engine->on_gpu[p][e];
        }
        engine->cpu_layer[p] = make_layer(engine->cpu, fixture, engine->on_gpu[p]);
        engine->gpu_layer[p] = make_layer(engine->gpu, fixture, engine->on_cpu[p]);
        engine->all[p] = make_layer(engine->gpu, fixture, NULL);
    }
}

static struct kt_deferral *make_deferral(const struct engine *engine)
{
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_deferral *deferral = NULL;
    params.n_layers = ENGINE_MOE;
    params.n_experts = ENGINE_EXPERTS;
    params.top_k = ENGINE_TOP_K;
    params.max_tokens = 32; /* the staging buffers' size for ENGINE_TOKENS */
    params.hidden_size = engine->params.hidden;
    params.max_deferred = engine->params.max_deferred;
    params.per_token = engine->params.per_token;
    ck_ok(kt_deferral_create(engine->cpu, &params, &deferral, &ck_error));
    return deferral;
}

void engine_open(struct engine *engine, struct kt_context *cpu, const struct engine_params *params)
{
    memset(engine, 0, sizeof *engine);
    engine->params = *params;
    engine->state = params->seed;
    engine->cpu = cpu;
    engine->gpu = fixture_context(1);
    ck_ok(kt_stream_runtime_open(gpu_runtime_path(), &engine->streams, &ck_error));
    ck_cuda(cudaStreamCreateWithFlags(&engine->stream, cudaStreamNonBlocking));
    make_layers(engine);
    engine->deferral = params->max_deferred ? make_deferral(engine) : NULL;
    struct kt_staging_params staging = staging_params(engine);
    ck_ok(kt_capture_batch_sizes(cpu, &staging, captured, ENGINE_CAPTURED, &ck_error));
    for (int i = 0; i < ENGINE_CAPTURED; i++) {
        plan_make(engine, &engine->plan[i], captured[i]);
        ck_assert_uint_eq(engine->plan[i].slot[0].max_tokens, captured[i]);
        ck_cuda(cudaStreamBeginCapture(engine->stream, cudaStreamCaptureModeGlobal));
        launch_pass(engine, &engine->plan[i]);
        engine->plan[i].graph = gpu_end_capture(engine->stream);
    }
}

void engine_close(struct engine *engine)
{
    struct kt_staging_params staging = staging_params(engine);
    ck_cuda(cudaStreamDestroy(engine->stream));
    for (int i = 0; i < ENGINE_CAPTURED; i++)
        plan_free(&engine->plan[i]);
    ck_ok(kt_clear_buffers(engine->cpu, &staging, &ck_error));
    kt_deferral_destroy(engine->deferral);
    for (int p = 0; p < ENGINE_MOE; p++) {
        kt_layer_destroy(engine->cpu_layer[p]);
        kt_layer_destroy(engine->gpu_layer[p]);
        kt_layer_destroy(engine->all[p]);
        fixture_free(&engine->fixture[p]);
    }
    kt_context_destroy(engine->gpu);
    kt_stream_runtime_close(engine->streams);
}

void engine_launch(struct engine *engine, uint32_t n_tokens, struct engine_plan *eager)
{
    engine->n_tokens = n_tokens;
    for (uint64_t i = 0; i < n_tokens * engine->params.hidden; i++)
        engine->hidden[i] = (float)fixture_gaussian(&engine->state);
    for (int i = 0; i < ENGINE_CAPTURED; i++)
        if (n_tokens <= captured[i]) {
            ck_cuda(cudaGraphLaunch(engine->plan[i].graph, engine->stream));
            return;
        }
    plan_make(engine, eager, n_tokens);
    launch_pass(engine, eager);
}

static void check_calls(const struct engine_plan *plan)
{
    for (int p = 0; p < ENGINE_MOE && plan->engine; p++)
        ck_ok(kt_host_call_status(plan->call[p], &ck_error));
}

void engine_synchronize(struct engine *engine, struct engine_plan *eager)
{
    ck_cuda(cudaStreamSynchronize(engine->stream));
    ck_assert_msg(engine->error.status == KT_OK, "the GPU: %s", engine->error.message);
    for (int i = 0; i < ENGINE_CAPTURED; i++)
        check_calls(&engine->plan[i]);
    check_calls(eager);
    if (eager->engine)
        plan_free(eager);
    *eager = (struct engine_plan){.engine = NULL};
}
