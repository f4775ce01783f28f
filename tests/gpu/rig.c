/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/rig.h"

#include <stdlib.h>
#include <string.h>

/* With the stand-in, threads that spin would be most of what is run. */
#ifdef KT_TEST_CUDA
#define THREADS "core.threads=0", "core.spin_us=1000"
#else
#define THREADS "core.threads=1", "core.spin_us=0"
#endif

static const uint32_t plan_sizes[RIG_PLANS] = {1, 4, RIG_TOKENS};

/* ---- layers ---- */

static void make_model(struct rig *rig, struct rig_model *model, bool defers)
{
    for (int l = 0; l < RIG_LAYERS; l++) {
        struct kt_layer_params params = fixture_params(&rig->fixture[l]);
        params.skip_mask = &model->mask[l * RIG_EXPERTS];
        ck_ok(kt_layer_create(rig->context, &params, &model->layer[l], &ck_error));
        ck_ok(kt_layer_load(model->layer[l], rig->fixture[l].experts, RIG_EXPERTS, &ck_error));
    }
    if (!defers)
        return;
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    params.n_layers = RIG_LAYERS;
    params.n_experts = RIG_EXPERTS;
    params.top_k = RIG_TOP_K;
    params.max_tokens = RIG_TOKENS;
    params.hidden_size = RIG_HIDDEN;
    params.max_deferred = 2;
    params.per_token = 1;
    ck_ok(kt_deferral_create(rig->context, &params, &model->deferral, &ck_error));
}

static void free_model(struct rig_model *model)
{
    kt_deferral_destroy(model->deferral);
    for (int l = 0; l < RIG_LAYERS; l++)
        kt_layer_destroy(model->layer[l]);
}

/* ---- batches and what they give ---- */

static void make_batch(struct rig *rig, uint32_t batch)
{
    struct rig_batch *made = &rig->batches[batch];
    made->n_tokens = (int32_t)(batch % (RIG_TOKENS + 1));
    for (int l = 0; l < RIG_LAYERS; l++) {
        for (int e = 0; e < RIG_EXPERTS; e++)
            made->mask[l][e] = fixture_uniform(&rig->state) < 0.3;
        for (int i = 0; i < RIG_TOKENS * RIG_TOP_K; i++) {
            bool none = fixture_uniform(&rig->state) < 0.1;
            made->ids[l][i] = none ? -1 : (int64_t)(fixture_uniform(&rig->state) * RIG_EXPERTS);
            made->weights[l][i] = (float)fixture_uniform(&rig->state);
        }
        for (int i = 0; i < RIG_TOKENS * RIG_HIDDEN; i++)
            made->x[l][i] = (float)fixture_gaussian(&rig->state);
    }
}

static void compute_expected(struct rig *rig, uint32_t batch)
{
    const struct rig_batch *given = &rig->batches[batch];
    memcpy(rig->plain.mask, given->mask, sizeof given->mask);
    for (uint32_t l = 0; l < RIG_LAYERS; l++) {
        struct kt_forward forward = KT_FORWARD_INIT;
        uint64_t ticket;
        forward.n_tokens = (uint32_t)given->n_tokens;
        forward.top_k = RIG_TOP_K;
        forward.expert_ids = given->ids[l];
        forward.router_weights = given->weights[l];
        forward.input = given->x[l];
        forward.output = rig->expected[batch].y[l];
        forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
        if (rig->plain.deferral)
            ck_ok(kt_deferral_submit(rig->plain.deferral, l, rig->plain.layer[l], &forward, &ticket,
                                     &ck_error));
        else
            ck_ok(kt_layer_submit(rig->plain.layer[l], &forward, &ticket, &ck_error));
        ck_ok(kt_wait(rig->context, ticket, &ck_error));
    }
}

/* ---- plans ---- */

static void make_plan(struct rig *rig, struct rig_plan *plan, uint32_t max_tokens)
{
    *plan = (struct rig_plan){.max_tokens = max_tokens};
    for (uint32_t s = 0; s < KT_STAGING_SLOTS; s++)
        ck_ok(kt_staging_get(rig->context, &rig->staging, max_tokens, s, &plan->slot[s], &ck_error));
    for (uint32_t l = 0; l < RIG_LAYERS; l++) {
        struct kt_host_params params = KT_HOST_PARAMS_INIT;
        params.layer = rig->streamed.layer[l];
        params.deferral = rig->streamed.deferral;
        params.position = l;
        params.max_tokens = max_tokens;
        params.n_tokens = plan->slot[l % KT_STAGING_SLOTS].n_tokens;
        params.forward = plan->slot[l % KT_STAGING_SLOTS].forward;
        ck_ok(kt_host_call_create(&params, &plan->call[l], &ck_error));
    }
}

struct rig_plan *rig_plan_of(struct rig *rig, uint32_t batch)
{
    struct rig_plan *plan = rig->plan;
    while ((int32_t)plan->max_tokens < rig->batches[batch].n_tokens)
        plan++;
    return plan;
}

static void copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    ck_cuda(cudaMemcpyAsync(to, from, size, kind, stream));
}

/* As much as the plan has room for, whatever the number of tokens: a graph's copies are of fixed sizes. */
static void bring_layer(struct rig *rig, const struct rig_plan *plan, uint32_t l)
{
    const struct kt_staging *slot = &plan->slot[l % KT_STAGING_SLOTS];
    const struct rig_batch *from = rig->gpu_batch;
    uint64_t n = plan->max_tokens;
    copy(&rig->streamed.mask[l * RIG_EXPERTS], from->mask[l], RIG_EXPERTS, cudaMemcpyDeviceToHost, rig->side);
    copy(slot->n_tokens, &from->n_tokens, sizeof from->n_tokens, cudaMemcpyDeviceToHost, rig->side);
    copy(slot->expert_ids, from->ids[l], n * RIG_TOP_K * sizeof *from->ids[l], cudaMemcpyDeviceToHost,
         rig->side);
    copy(slot->router_weights, from->weights[l], n * RIG_TOP_K * sizeof *from->weights[l],
         cudaMemcpyDeviceToHost, rig->side);
    copy(slot->input, from->x[l], n * RIG_HIDDEN * sizeof *from->x[l], cudaMemcpyDeviceToHost, rig->side);
}

void rig_pass(struct rig *rig, struct rig_plan *plan)
{
    bool forks = rig->side != rig->stream;
    for (uint32_t l = 0; l < RIG_LAYERS; l++) {
        const struct kt_staging *slot = &plan->slot[l % KT_STAGING_SLOTS];
        size_t size = plan->max_tokens * RIG_HIDDEN * sizeof(float);
        if (forks) {
            ck_cuda(cudaEventRecord(rig->fork, rig->stream));
            ck_cuda(cudaStreamWaitEvent(rig->side, rig->fork, 0));
        }
        bring_layer(rig, plan, l);
        ck_ok(kt_submit_on_stream(rig->runtime, rig->side, plan->call[l], &ck_error));
        copy(rig->gpu_result->y[l], rig->gpu_batch->x[l], size, cudaMemcpyDeviceToDevice, rig->stream);
        ck_ok(kt_sync_on_stream(rig->runtime, rig->side, plan->call[l], &ck_error));
        if (forks) {
            ck_cuda(cudaEventRecord(rig->join, rig->side));
            ck_cuda(cudaStreamWaitEvent(rig->stream, rig->join, 0));
        }
        copy(rig->gpu_result->y[l], slot->output, size, cudaMemcpyHostToDevice, rig->stream);
    }
}

void rig_capture(struct rig *rig, struct rig_plan *plan)
{
    ck_cuda(cudaStreamBeginCapture(rig->stream, cudaStreamCaptureModeGlobal));
    rig_pass(rig, plan);
    plan->graph = gpu_end_capture(rig->stream);
}

void rig_bring(struct rig *rig, uint32_t batch)
{
    copy(rig->gpu_batch, &rig->gpu_batches[batch], sizeof *rig->gpu_batch, cudaMemcpyDeviceToDevice,
         rig->stream);
}

void rig_fetch(struct rig *rig, uint32_t place)
{
    copy(&rig->gpu_results[place], rig->gpu_result, sizeof *rig->gpu_result, cudaMemcpyDeviceToDevice,
         rig->stream);
    copy(&rig->results[place], &rig->gpu_results[place], sizeof *rig->results, cudaMemcpyDeviceToHost,
         rig->stream);
}

void rig_check_calls(struct rig *rig)
{
    for (int p = 0; p < RIG_PLANS; p++)
        for (int l = 0; l < RIG_LAYERS; l++)
            ck_ok(kt_host_call_status(rig->plan[p].call[l], &ck_error));
}

/* Bit for bit: the same layers of the same weights computed it. */
void rig_check(const struct rig *rig, uint32_t batch, uint32_t place)
{
    size_t size = (size_t)rig->batches[batch].n_tokens * RIG_HIDDEN * sizeof(float);
    for (int l = 0; l < RIG_LAYERS; l++)
        ck_assert_msg(memcmp(rig->results[place].y[l], rig->expected[batch].y[l], size) == 0,
                      "batch %u of %d tokens: layer %d gives other numbers than on the CPU alone", batch,
                      (int)rig->batches[batch].n_tokens, l);
}

void rig_run(struct rig *rig, uint32_t batch)
{
    rig_bring(rig, batch);
    rig_pass(rig, rig_plan_of(rig, batch));
    rig_fetch(rig, 0);
    ck_cuda(cudaStreamSynchronize(rig->stream));
    rig_check_calls(rig);
    rig_check(rig, batch, 0);
}

/* ---- all of it ---- */

static void *pin(struct rig *rig, size_t size)
{
    void *memory = rig->pinned.allocate(rig->pinned.data, size);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0, size);
    return memory;
}

static void *on_gpu(size_t size)
{
    void *memory = NULL;
    ck_cuda(cudaMalloc(&memory, size));
    return memory;
}

static void open_layers(struct rig *rig, bool defers)
{
    for (int l = 0; l < RIG_LAYERS; l++) {
        rig->fixture[l] = (struct fixture){.n_experts = RIG_EXPERTS,
                                           .top_k = RIG_TOP_K,
                                           .n_tokens = RIG_TOKENS,
                                           .max_tokens = RIG_TOKENS,
                                           .hidden = RIG_HIDDEN,
                                           .intermediate = 16};
        fixture_fill(&rig->fixture[l], 200 + (uint64_t)l);
    }
    rig->streamed.mask = pin(rig, RIG_LAYERS * RIG_EXPERTS);
    rig->plain.mask = calloc(RIG_LAYERS, RIG_EXPERTS);
    make_model(rig, &rig->streamed, defers);
    make_model(rig, &rig->plain, defers);
}

static void open_memory(struct rig *rig)
{
    rig->batches = pin(rig, RIG_BATCHES * sizeof *rig->batches);
    rig->results = pin(rig, RIG_BURST * sizeof *rig->results);
    rig->gpu_batches = on_gpu(RIG_BATCHES * sizeof *rig->batches);
    rig->gpu_batch = on_gpu(sizeof *rig->gpu_batch);
    rig->gpu_results = on_gpu(RIG_BURST * sizeof *rig->gpu_results);
    rig->gpu_result = on_gpu(sizeof *rig->gpu_result);
    for (uint32_t b = 0; b < RIG_BATCHES; b++) {
        make_batch(rig, b);
        compute_expected(rig, b);
    }
    copy(rig->gpu_batches, rig->batches, RIG_BATCHES * sizeof *rig->batches, cudaMemcpyHostToDevice,
         rig->stream);
    ck_cuda(cudaStreamSynchronize(rig->stream));
}

void rig_open(struct rig *rig, unsigned how, const char *setting)
{
    memset(rig, 0, sizeof *rig);
    rig->state = 7 + how;
    rig->context =
        fixture_context_with((const char *const[]){THREADS, "core.queue_depth=8", setting}, setting ? 4 : 3);
    ck_ok(kt_stream_runtime_open(gpu_runtime_path(), &rig->runtime, &ck_error));
    ck_ok(kt_stream_runtime_allocator(rig->runtime, &rig->pinned, &ck_error));
    ck_cuda(cudaStreamCreateWithFlags(&rig->stream, cudaStreamNonBlocking));
    rig->side = rig->stream;
    if (how & RIG_HAS_SIDE)
        ck_cuda(cudaStreamCreateWithFlags(&rig->side, cudaStreamNonBlocking));
    ck_cuda(cudaEventCreateWithFlags(&rig->fork, cudaEventDisableTiming));
    ck_cuda(cudaEventCreateWithFlags(&rig->join, cudaEventDisableTiming));
    open_layers(rig, how & RIG_DEFERS);
    open_memory(rig);
    rig->staging = (struct kt_staging_params)KT_STAGING_PARAMS_INIT;
    rig->staging.hidden_size = RIG_HIDDEN;
    rig->staging.top_k = RIG_TOP_K;
    rig->staging.input_dtype = rig->staging.output_dtype = KT_DTYPE_F32;
    rig->staging.allocator = rig->pinned;
    ck_ok(kt_capture_batch_sizes(rig->context, &rig->staging, plan_sizes, RIG_PLANS, &ck_error));
    for (int p = 0; p < RIG_PLANS; p++)
        make_plan(rig, &rig->plan[p], plan_sizes[p]);
}

/* What the runtime made; after a lost context each call tells of it, but gives back what it can. */
static cudaError_t free_runtime_objects(struct rig *rig)
{
    cudaError_t code = cudaDeviceSynchronize();
    for (int p = 0; p < RIG_PLANS; p++)
        if (rig->plan[p].graph)
            code |= cudaGraphExecDestroy(rig->plan[p].graph);
    if (rig->side != rig->stream)
        code |= cudaStreamDestroy(rig->side);
    code |= cudaStreamDestroy(rig->stream);
    code |= cudaEventDestroy(rig->fork);
    code |= cudaEventDestroy(rig->join);
    void *const memory[] = {rig->gpu_batches, rig->gpu_batch, rig->gpu_results, rig->gpu_result};
    for (int i = 0; i < 4; i++)
        code |= cudaFree(memory[i]);
    return code;
}

static void free_library_objects(struct rig *rig)
{
    for (int p = 0; p < RIG_PLANS; p++)
        for (int l = 0; l < RIG_LAYERS; l++)
            kt_host_call_destroy(rig->plan[p].call[l]);
    free_model(&rig->streamed);
    free_model(&rig->plain);
    ck_ok(kt_clear_buffers(rig->context, NULL, &ck_error));
    kt_context_destroy(rig->context);
    for (int l = 0; l < RIG_LAYERS; l++)
        fixture_free(&rig->fixture[l]);
    free(rig->plain.mask);
    void *const memory[] = {rig->batches, rig->results, rig->streamed.mask};
    for (int i = 0; i < 3; i++)
        rig->pinned.release(rig->pinned.data, memory[i], 0);
    kt_stream_runtime_close(rig->runtime);
}

void rig_abandon(struct rig *rig)
{
    (void)free_runtime_objects(rig);
    free_library_objects(rig);
    (void)cudaDeviceReset(); /* for what comes next in this process */
}

void rig_close(struct rig *rig)
{
    ck_cuda(free_runtime_objects(rig));
    free_library_objects(rig);
}
