/* SPDX-License-Identifier: Apache-2.0 */
/* failures.c - what goes wrong on a stream is told by a sentence, and what follows is right again. */
#include "tests/gpu/cases.h"
#include "tests/gpu/rig.h"

#include <string.h>

static struct rig rig;

static void expect(enum kt_status status, enum kt_status wanted, const char *words,
                   const struct kt_error *error)
{
    ck_assert_msg(status == wanted && strstr(error->message, words), "%s (%s) instead of %s, %s",
                  kt_status_name(status), error->message, kt_status_name(wanted), words);
}

/* Of a pass in a graph. Ids are looked at when the pass runs. */
START_TEST(a_bad_id_is_told)
{
    const uint32_t good = RIG_TOKENS, bad = 4;
    struct kt_error error = {KT_OK, ""};
    rig_open(&rig, (unsigned)_i, NULL);
    struct rig_plan *plan = rig_plan_of(&rig, bad);
    rig_capture(&rig, plan);
    rig.batches[bad].ids[1][2] = RIG_EXPERTS + 93;
    ck_cuda(cudaMemcpyAsync(rig.gpu_batches, rig.batches, RIG_BATCHES * sizeof *rig.batches,
                            cudaMemcpyHostToDevice, rig.stream));
    rig_bring(&rig, bad);
    ck_cuda(cudaGraphLaunch(plan->graph, rig.stream));
    ck_cuda(cudaStreamSynchronize(rig.stream));
    ck_ok(kt_host_call_status(plan->call[0], &ck_error));
    expect(kt_host_call_status(plan->call[1], &error), KT_E_RANGE, "asks for expert 99", &error);
    (void)kt_host_call_status(plan->call[2], &error);
    for (uint32_t i = 0; i < 3; i++)
        rig_run(&rig, good + i % 2);
    rig_close(&rig);
}
END_TEST

/* A stream that refuses: its capture has become invalid. No error is left for the caller's next call. */
START_TEST(a_refused_launch_is_told)
{
    struct kt_error error = {KT_OK, ""};
    cudaGraph_t graph = NULL;
    rig_open(&rig, 0, NULL);
    struct kt_host_call *call = rig.plan[0].call[0];
    ck_cuda(cudaStreamBeginCapture(rig.stream, cudaStreamCaptureModeGlobal));
    ck_assert_int_ne(cudaStreamSynchronize(rig.stream), cudaSuccess);
    ck_assert_int_ne(cudaGetLastError(), cudaSuccess);
    expect(kt_submit_on_stream(rig.runtime, rig.stream, call, &error), KT_E_SYSTEM,
           "cudaLaunchHostFunc: operation failed due to a previous error during capture (901)", &error);
    expect(kt_sync_on_stream(rig.runtime, rig.stream, call, &error), KT_E_SYSTEM, "(901)", &error);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    ck_assert_int_ne(cudaStreamEndCapture(rig.stream, &graph), cudaSuccess);
    (void)cudaGetLastError();
    ck_assert_ptr_null(rig.pinned.allocate(rig.pinned.data, PTRDIFF_MAX));
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    rig_run(&rig, 5);
    rig_close(&rig);
}
END_TEST

/* What was launched is done all the same, as CUDA has it. */
START_TEST(a_stream_is_destroyed_with_work)
{
    const uint32_t batch = RIG_TOKENS;
    rig_open(&rig, (unsigned)_i, NULL);
    cudaStream_t stream = rig.stream, side = rig.side;
    for (int i = 0; i < 20; i++) {
        cudaStream_t brief;
        ck_cuda(cudaStreamCreateWithFlags(&brief, cudaStreamNonBlocking));
        rig.stream = brief;
        rig.side = side == stream ? brief : side;
        rig_bring(&rig, batch);
        rig_pass(&rig, rig_plan_of(&rig, batch));
        rig_fetch(&rig, 0);
        ck_cuda(cudaStreamDestroy(brief));
        ck_cuda(cudaDeviceSynchronize());
        rig_check_calls(&rig);
        rig_check(&rig, batch, 0);
    }
    rig.stream = stream;
    rig.side = side;
    rig_close(&rig);
}
END_TEST

/* Only the submit was launched: the sync may come by another stream, or by the CPU. */
START_TEST(a_stream_is_destroyed_before_the_sync)
{
    rig_open(&rig, 0, NULL);
    struct rig_plan *plan = &rig.plan[0];
    for (int i = 0; i < 20; i++) {
        cudaStream_t brief;
        ck_cuda(cudaStreamCreateWithFlags(&brief, cudaStreamNonBlocking));
        ck_ok(kt_submit_on_stream(rig.runtime, brief, plan->call[0], &ck_error));
        ck_cuda(cudaStreamDestroy(brief));
        ck_cuda(cudaDeviceSynchronize());
        if (i % 2)
            ck_ok(kt_sync_on_stream(rig.runtime, rig.stream, plan->call[0], &ck_error));
        else
            kt_host_wait(plan->call[0]);
        rig_run(&rig, 1);
    }
    /* Or never: what the call has submitted is waited for when it is destroyed. */
    ck_ok(kt_submit_on_stream(rig.runtime, rig.stream, plan->call[0], &ck_error));
    rig_close(&rig);
}
END_TEST

/* Two streams that no event orders: the output would be that of the last forward. */
START_TEST(a_sync_that_overtakes_is_told)
{
    struct kt_error error = {KT_OK, ""};
    rig_open(&rig, (unsigned)_i, NULL);
    struct kt_host_call *call = rig.plan[0].call[0];
    rig_run(&rig, 1);
    ck_ok(kt_sync_on_stream(rig.runtime, rig.stream, call, &ck_error));
    ck_cuda(cudaStreamSynchronize(rig.stream));
    expect(kt_host_call_status(call, &error), KT_E_STATE, "before its submit", &error);
    ck_ok(kt_host_call_status(call, &ck_error));
    rig_run(&rig, 1);
    rig_close(&rig);
}
END_TEST

#ifndef KT_TEST_CUDA
/* With NVIDIA's runtime this is undefined, and may end the process. */
START_TEST(a_destroyed_stream_is_refused)
{
    struct kt_error error = {KT_OK, ""};
    cudaStream_t brief;
    rig_open(&rig, 0, NULL);
    ck_cuda(cudaStreamCreate(&brief));
    ck_cuda(cudaStreamDestroy(brief));
    expect(kt_submit_on_stream(rig.runtime, brief, rig.plan[0].call[0], &error), KT_E_SYSTEM,
           "invalid resource handle (400); was the stream destroyed?", &error);
    rig_run(&rig, 1);
    rig_close(&rig);
}
END_TEST
#endif

/* A kernel between submit and sync goes wrong: no call of the runtime succeeds after it, and functions of
 * streams are not called. The CPU's part goes on, and nothing waits for what does not come. */
START_TEST(a_lost_context_is_told)
{
    const uint32_t batch = 7;
    struct kt_error error = {KT_OK, ""};
    struct rig_output output;
    rig_open(&rig, (unsigned)_i, NULL);
    struct rig_plan *plan = rig_plan_of(&rig, batch);
    rig_run(&rig, batch);
    ck_ok(kt_submit_on_stream(rig.runtime, rig.stream, plan->call[0], &ck_error));
    gpu_break(rig.stream);
    (void)kt_sync_on_stream(rig.runtime, rig.stream, plan->call[0], NULL); /* which may know already */
    ck_assert_int_eq(cudaStreamSynchronize(rig.stream), cudaErrorIllegalAddress);
    expect(kt_submit_on_stream(rig.runtime, rig.stream, plan->call[1], &error), KT_E_SYSTEM,
           "cudaLaunchHostFunc: an illegal memory access was encountered (700)", &error);
    expect(kt_sync_on_stream(rig.runtime, rig.stream, plan->call[1], &error), KT_E_SYSTEM,
           "the GPU's context is lost", &error);
    ck_ok(kt_host_call_status(plan->call[0], &ck_error));

    for (uint32_t l = 0; l < RIG_LAYERS && !rig.streamed.deferral; l++) {
        struct kt_forward forward = plan->slot[0].forward;
        forward.n_tokens = (uint32_t)rig.batches[batch].n_tokens;
        forward.expert_ids = rig.batches[batch].ids[l];
        forward.router_weights = rig.batches[batch].weights[l];
        forward.input = rig.batches[batch].x[l];
        forward.output = output.y[l];
        ck_ok(kt_layer_forward(rig.streamed.layer[l], &forward, &ck_error));
        ck_assert_mem_eq(output.y[l], rig.expected[batch].y[l],
                         forward.n_tokens * RIG_HIDDEN * sizeof(float));
    }
    rig_abandon(&rig);
}
END_TEST

TCase *failure_cases(void)
{
    TCase *tests = tcase_create("failures");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_bad_id_is_told, 0, 4);
    tcase_add_test(tests, a_refused_launch_is_told);
    tcase_add_loop_test(tests, a_stream_is_destroyed_with_work, 0, 4);
    tcase_add_test(tests, a_stream_is_destroyed_before_the_sync);
    tcase_add_loop_test(tests, a_sync_that_overtakes_is_told, 0, 2);
#ifndef KT_TEST_CUDA
    tcase_add_test(tests, a_destroyed_stream_is_refused);
#endif
    tcase_add_loop_test(tests, a_lost_context_is_told, 0, 2);
    return tests;
}
