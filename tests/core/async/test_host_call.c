/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards that a stream submits and waits for, also from captured graphs; tests/gpu has the runtime. */
#include "tests/gpu/gpu.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an engine: layers whose input is the last one's output ---- */

enum { LAYERS = 3, EXPERTS = 5, TOP_K = 3, MAX_TOKENS = 6, HIDDEN = 20 };

struct engine {
    struct kt_context *context;
    struct fixture fixture[LAYERS];
    struct kt_layer *layer[LAYERS];
    struct kt_host_call *call[LAYERS];
    struct step {
        struct engine *engine;
        int layer;
    } step[LAYERS];
    cudaStream_t stream;
    cudaGraphExec_t graph;
    /* what a GPU would have written before each layer */
    int32_t n_tokens;
    uint64_t seed;
    int64_t ids[MAX_TOKENS * TOP_K];
    float weights[MAX_TOKENS * TOP_K], x[MAX_TOKENS * HIDDEN], y[MAX_TOKENS * HIDDEN];
};

static void open_engine(struct engine *engine, const char *depth)
{
    memset(engine, 0, sizeof *engine);
    engine->context =
        fixture_context_with((const char *const[]){"core.threads=2", depth, "core.spin_us=50"}, 3);
    for (int l = 0; l < LAYERS; l++) {
        struct fixture *fixture = &engine->fixture[l];
        *fixture = (struct fixture){.n_experts = EXPERTS,
                                    .top_k = TOP_K,
                                    .n_tokens = MAX_TOKENS,
                                    .max_tokens = MAX_TOKENS,
                                    .hidden = HIDDEN,
                                    .intermediate = 12};
        fixture_fill(fixture, 70 + (uint64_t)l);
        struct kt_layer_params params = fixture_params(fixture);
        ck_ok(kt_layer_create(engine->context, &params, &engine->layer[l], &ck_error));
        ck_ok(kt_layer_load(engine->layer[l], fixture->experts, EXPERTS, &ck_error));
        engine->step[l] = (struct step){engine, l};
    }
    ck_cuda(cudaStreamCreateWithFlags(&engine->stream, cudaStreamNonBlocking));
}

static void close_engine(struct engine *engine)
{
    ck_cuda(cudaStreamDestroy(engine->stream));
    if (engine->graph)
        ck_cuda(cudaGraphExecDestroy(engine->graph));
    for (int l = 0; l < LAYERS; l++) {
        kt_host_call_destroy(engine->call[l]);
        kt_layer_destroy(engine->layer[l]);
        fixture_free(&engine->fixture[l]);
    }
    kt_context_destroy(engine->context);
}

static struct kt_host_params host_params(struct engine *engine, int l)
{
    struct kt_host_params params = KT_HOST_PARAMS_INIT;
    params.layer = engine->layer[l];
    params.position = (uint32_t)l;
    params.max_tokens = MAX_TOKENS;
    params.n_tokens = &engine->n_tokens;
    params.forward.expert_ids = engine->ids;
    params.forward.router_weights = engine->weights;
    params.forward.input = engine->x;
    params.forward.output = engine->y;
    params.forward.input_dtype = params.forward.output_dtype = KT_DTYPE_F32;
    return params;
}

/* Routes and attention of layer l: in a stream they run before the experts. */
static void prepare(float *x, int64_t *ids, float *weights, const float *y, int l, int n_tokens,
                    uint64_t seed)
{
    uint64_t state = seed * 10 + (uint64_t)l;
    for (int i = 0; i < n_tokens * HIDDEN; i++)
        x[i] = (l ? 0.5f * y[i] : 0) + (float)fixture_gaussian(&state);
    for (int t = 0; t < n_tokens; t++)
        for (int k = 0; k < TOP_K; k++) {
            ids[t * TOP_K + k] = ((int64_t)(fixture_uniform(&state) * EXPERTS) + k) % EXPERTS;
            weights[t * TOP_K + k] = (float)fixture_uniform(&state);
        }
}

static void run_step(void *argument)
{
    struct step *step = argument;
    struct engine *engine = step->engine;
    prepare(engine->x, engine->ids, engine->weights, engine->y, step->layer, engine->n_tokens, engine->seed);
}

static void capture_pass(struct engine *engine, struct kt_deferral *deferral)
{
    ck_cuda(cudaStreamBeginCapture(engine->stream, cudaStreamCaptureModeGlobal));
    for (int l = 0; l < LAYERS; l++) {
        struct kt_host_params params = host_params(engine, l);
        params.deferral = deferral;
        ck_ok(kt_host_call_create(&params, &engine->call[l], &ck_error));
        ck_cuda(cudaLaunchHostFunc(engine->stream, run_step, &engine->step[l]));
        ck_cuda(cudaLaunchHostFunc(engine->stream, kt_host_submit, engine->call[l]));
        ck_cuda(cudaLaunchHostFunc(engine->stream, kt_host_wait, engine->call[l]));
    }
    engine->graph = gpu_end_capture(engine->stream);
}

/* The same pass without a stream. */
static void run_plain(struct engine *engine, struct kt_deferral *deferral, int n_tokens, uint64_t seed,
                      float *y)
{
    int64_t ids[MAX_TOKENS * TOP_K];
    float weights[MAX_TOKENS * TOP_K], x[MAX_TOKENS * HIDDEN];
    for (int l = 0; l < LAYERS; l++) {
        struct kt_forward forward = host_params(engine, l).forward;
        uint64_t ticket;
        prepare(x, ids, weights, y, l, n_tokens, seed);
        forward.n_tokens = (uint32_t)n_tokens;
        forward.expert_ids = ids;
        forward.router_weights = weights;
        forward.input = x;
        forward.output = y;
        if (deferral) {
            ck_ok(kt_deferral_submit(deferral, (uint32_t)l, engine->layer[l], &forward, &ticket, &ck_error));
            ck_ok(kt_wait(engine->context, ticket, &ck_error));
        } else {
            ck_ok(kt_layer_forward(engine->layer[l], &forward, &ck_error));
        }
    }
}

static void check_replays(struct engine *engine, struct kt_deferral *plain, int n)
{
    for (int i = 0; i < n; i++) {
        float expected[MAX_TOKENS * HIDDEN];
        engine->n_tokens = i % (MAX_TOKENS + 1);
        engine->seed++;
        ck_cuda(cudaGraphLaunch(engine->graph, engine->stream));
        ck_cuda(cudaStreamSynchronize(engine->stream));
        for (int l = 0; l < LAYERS; l++)
            ck_ok(kt_host_call_status(engine->call[l], &ck_error));
        run_plain(engine, plain, engine->n_tokens, engine->seed, expected);
        ck_assert_mem_eq(engine->y, expected, (size_t)engine->n_tokens * HIDDEN * sizeof(float));
    }
}

static struct kt_deferral *make_deferral(struct engine *engine)
{
    struct kt_deferral_params params = KT_DEFERRAL_PARAMS_INIT;
    struct kt_deferral *deferral;
    params.n_layers = LAYERS;
    params.n_experts = EXPERTS;
    params.top_k = TOP_K;
    params.max_tokens = MAX_TOKENS;
    params.hidden_size = HIDDEN;
    params.max_deferred = 2;
    ck_ok(kt_deferral_create(engine->context, &params, &deferral, &ck_error));
    return deferral;
}

START_TEST(a_captured_pass_replays_with_new_data)
{
    static struct engine engine;
    open_engine(&engine, "core.queue_depth=8");
    struct kt_deferral *captured = _i ? make_deferral(&engine) : NULL,
                       *plain = _i ? make_deferral(&engine) : NULL;
    capture_pass(&engine, captured);
    check_replays(&engine, plain, 60);
    kt_deferral_destroy(captured);
    kt_deferral_destroy(plain);
    close_engine(&engine);
}
END_TEST

static void expect(enum kt_status status, enum kt_status wanted, const char *words,
                   const struct kt_error *error)
{
    ck_assert_msg(status == wanted && strstr(error->message, words), "%s (%s) instead of %s, %s",
                  kt_status_name(status), error->message, kt_status_name(wanted), words);
}

static void bad_id(void *argument)
{
    struct engine *engine = argument;
    engine->ids[1] = EXPERTS + 3;
}

/* Each failure is told once, and the next pass is right. */
START_TEST(failures_are_kept)
{
    static struct engine engine;
    struct kt_error error = {0};
    open_engine(&engine, "core.queue_depth=2");
    struct kt_deferral *captured = _i ? make_deferral(&engine) : NULL,
                       *plain = _i ? make_deferral(&engine) : NULL;
    capture_pass(&engine, captured);
    check_replays(&engine, plain, 3);

    engine.n_tokens = MAX_TOKENS + 1;
    ck_cuda(cudaLaunchHostFunc(engine.stream, kt_host_submit, engine.call[0]));
    ck_cuda(cudaLaunchHostFunc(engine.stream, kt_host_wait, engine.call[0]));
    ck_cuda(cudaStreamSynchronize(engine.stream));
    expect(kt_host_call_status(engine.call[0], &error), KT_E_RANGE, "7 tokens; 0 to max_tokens 6", &error);
    ck_ok(kt_host_call_status(engine.call[0], &ck_error));
    engine.n_tokens = -1;
    kt_host_submit(engine.call[0]);
    kt_host_wait(engine.call[0]);
    expect(kt_host_call_status(engine.call[0], &error), KT_E_RANGE, "-1 tokens", &error);
    check_replays(&engine, plain, 3);

    /* Ids are looked at when the queue runs; the first failure counts. */
    engine.n_tokens = 2;
    ck_cuda(cudaLaunchHostFunc(engine.stream, run_step, &engine.step[0]));
    ck_cuda(cudaLaunchHostFunc(engine.stream, bad_id, &engine));
    ck_cuda(cudaLaunchHostFunc(engine.stream, kt_host_submit, engine.call[0]));
    ck_cuda(cudaLaunchHostFunc(engine.stream, kt_host_wait, engine.call[0]));
    ck_cuda(cudaStreamSynchronize(engine.stream));
    engine.n_tokens = -1;
    kt_host_submit(engine.call[0]);
    expect(kt_host_call_status(engine.call[0], &error), KT_E_RANGE, "asks for expert 8", &error);
    check_replays(&engine, plain, 3);

    /* A queue full of tickets that nobody waits for. */
    struct kt_forward forward = host_params(&engine, 0).forward;
    uint64_t ticket[2];
    for (int i = 0; i < 2; i++)
        ck_ok(kt_layer_submit(engine.layer[0], &forward, &ticket[i], &ck_error));
    ck_cuda(cudaGraphLaunch(engine.graph, engine.stream));
    ck_cuda(cudaStreamSynchronize(engine.stream));
    for (int l = 0; l < LAYERS; l++)
        expect(kt_host_call_status(engine.call[l], &error), KT_E_BUSY, "queue_depth is 2", &error);
    for (int i = 0; i < 2; i++)
        ck_ok(kt_wait(engine.context, ticket[i], &ck_error));
    check_replays(&engine, plain, 3);
    kt_deferral_destroy(captured);
    kt_deferral_destroy(plain);
    close_engine(&engine);
}
END_TEST

/* Holds the context's threads until it is told to let go. */
struct blocker {
    struct kt_context *context;
    sem_t holds, let_go;
};

static void hold(void *data, uint32_t thread, uint32_t n_threads)
{
    struct blocker *blocker = data;
    (void)n_threads;
    if (thread > 0)
        return;
    ck_assert_int_eq(sem_post(&blocker->holds), 0);
    while (sem_wait(&blocker->let_go) != 0)
        ck_assert_int_eq(errno, EINTR);
}

static void *block(void *data)
{
    struct blocker *blocker = data;
    ck_assert_int_eq(kt_context_run(blocker->context, hold, blocker, NULL), KT_OK);
    return NULL;
}

/* As often as it takes: the machine may be slow. */
static void wait_until_done(struct kt_host_call *call)
{
    struct kt_error error = {KT_OK, ""};
    do
        kt_host_wait(call);
    while (kt_host_call_status(call, &error) == KT_E_BUSY);
    ck_assert_msg(error.status == KT_OK || error.status == KT_E_BUSY, "%s", error.message);
}

START_TEST(a_wait_ends)
{
    static struct engine engine;
    struct kt_error error = {0};
    struct kt_host_call *call;
    pthread_t thread;
    open_engine(&engine, "core.queue_depth=8");
    struct blocker blocker = {.context = engine.context};
    ck_assert_int_eq(sem_init(&blocker.holds, 0, 0), 0);
    ck_assert_int_eq(sem_init(&blocker.let_go, 0, 0), 0);
    struct kt_host_params params = host_params(&engine, 0);
    params.timeout_ms = 30;
    params.n_tokens = NULL;
    params.forward.n_tokens = 2;
    ck_ok(kt_host_call_create(&params, &call, &ck_error));
    ck_assert_int_eq(pthread_create(&thread, NULL, block, &blocker), 0);
    while (sem_wait(&blocker.holds) != 0)
        ck_assert_int_eq(errno, EINTR);

    prepare(engine.x, engine.ids, engine.weights, engine.y, 0, 2, 9);
    kt_host_submit(call);
    kt_host_wait(call);
    expect(kt_host_call_status(call, &error), KT_E_BUSY, "not done after 30 ms", &error);
    kt_host_submit(call);
    expect(kt_host_call_status(call, &error), KT_E_BUSY, "submitted again before", &error);
    ck_assert_int_eq(sem_post(&blocker.let_go), 0);
    (void)pthread_join(thread, NULL);
    wait_until_done(call);

    float expected[2 * HIDDEN];
    struct kt_forward forward = params.forward;
    forward.output = expected;
    ck_ok(kt_layer_forward(engine.layer[0], &forward, &ck_error));
    ck_assert_mem_eq(engine.y, expected, sizeof expected);
    memset(engine.y, 0, sizeof engine.y);
    kt_host_submit(call);
    wait_until_done(call);
    ck_assert_mem_eq(engine.y, expected, sizeof expected);
    kt_host_submit(call); /* destroyed while it may still run */
    kt_host_call_destroy(call);
    close_engine(&engine);
}
END_TEST

START_TEST(a_runtime_that_is_loaded)
{
    static struct engine engine;
    struct kt_error error = {0};
    struct kt_stream_runtime *loaded;
    float expected[MAX_TOKENS * HIDDEN];
    expect(kt_stream_runtime_open("tests/libcudart.so", &loaded, &error), KT_E_INVALID, "absolute path",
           &error);
    expect(kt_stream_runtime_open("", &loaded, &error), KT_E_INVALID, "absolute path", &error);
    expect(kt_stream_runtime_open("/nowhere/libcudart.so", &loaded, &error), KT_E_NOT_FOUND,
           "/nowhere/libcudart.so cannot be loaded", &error);
    expect(kt_stream_runtime_open("libc.so.6", &loaded, &error), KT_E_UNSUPPORTED,
           "neither cudaLaunchHostFunc", &error);
    open_engine(&engine, "core.queue_depth=8");
    ck_ok(kt_stream_runtime_open(gpu_runtime_path(), &loaded, &ck_error));
    struct kt_host_params params = host_params(&engine, 0);
    ck_ok(kt_host_call_create(&params, &engine.call[0], &ck_error));
    expect(kt_sync_on_stream(loaded, engine.stream, NULL, &error), KT_E_INVALID, "NULL", &error);

    engine.n_tokens = 4;
    prepare(engine.x, engine.ids, engine.weights, engine.y, 0, 4, 5);
    ck_ok(kt_submit_on_stream(loaded, engine.stream, engine.call[0], &ck_error));
    ck_ok(kt_sync_on_stream(loaded, engine.stream, engine.call[0], &ck_error));
    ck_cuda(cudaStreamSynchronize(engine.stream));
    struct kt_allocator allocator;
    expect(kt_stream_runtime_allocator(loaded, NULL, &error), KT_E_INVALID, "NULL", &error);
    ck_ok(kt_stream_runtime_allocator(loaded, &allocator, &ck_error));
    char *memory = allocator.allocate(allocator.data, 100);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 1, 100);
    allocator.release(allocator.data, memory, 100);
    ck_assert_ptr_null(allocator.allocate(allocator.data, PTRDIFF_MAX));
    kt_stream_runtime_close(loaded);
    kt_stream_runtime_close(NULL);
    ck_ok(kt_host_call_status(engine.call[0], &ck_error));
    params.forward.n_tokens = 4;
    params.forward.output = expected;
    ck_ok(kt_layer_forward(engine.layer[0], &params.forward, &ck_error));
    ck_assert_mem_eq(engine.y, expected, 4 * HIDDEN * sizeof(float));
    close_engine(&engine);
}
END_TEST

START_TEST(wrong_params)
{
    static struct engine engine;
    struct kt_error error = {0};
    struct kt_host_call *call;
    open_engine(&engine, "core.queue_depth=8");
    struct kt_host_params params = host_params(&engine, 0);
    params.max_tokens = 0;
    expect(kt_host_call_create(&params, &call, &error), KT_E_INVALID, "max_tokens 0", &error);
    params = host_params(&engine, 0);
    params.forward.output = NULL;
    expect(kt_host_call_create(&params, &call, &error), KT_E_INVALID, "must not be NULL", &error);
    params.layer = NULL;
    expect(kt_host_call_create(&params, &call, &error), KT_E_INVALID, "NULL", &error);
    params = host_params(&engine, 0);
    params.n_tokens = NULL;
    params.forward.n_tokens = MAX_TOKENS + 1;
    expect(kt_host_call_create(&params, &call, &error), KT_E_INVALID, "7 tokens in buffers", &error);
    params.struct_size = 3;
    expect(kt_host_call_create(&params, &call, &error), KT_E_INVALID, "struct_size 3", &error);
    expect(kt_host_call_create(NULL, &call, &error), KT_E_INVALID, "NULL", &error);
    expect(kt_host_call_status(NULL, &error), KT_E_INVALID, "NULL", &error);
    close_engine(&engine);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host_call");
    tcase_add_loop_test(tests, a_captured_pass_replays_with_new_data, 0, 2);
    tcase_add_loop_test(tests, failures_are_kept, 0, 2);
    tcase_add_test(tests, a_wait_ends);
    tcase_add_test(tests, a_runtime_that_is_loaded);
    tcase_add_test(tests, wrong_params);
    return run_tests("host_call", tests);
}
