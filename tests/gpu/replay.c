/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - passes on streams and in graphs that are replayed give what the CPU alone gives. */
#include "tests/gpu/cases.h"
#include "tests/gpu/rig.h"

#include <stdlib.h>

enum { HOWS = 4, SECONDS = 600 };

static struct rig rig;

/* Every batch, with and without tokens, on a stream and on the default one. */
START_TEST(passes_on_a_stream)
{
    rig_open(&rig, (unsigned)_i, NULL);
    for (uint32_t b = 0; b < RIG_BATCHES; b++)
        rig_run(&rig, b);
    cudaStream_t stream = rig.stream, side = rig.side;
    rig.stream = rig.side = NULL;
    for (uint32_t b = 0; b < RIG_BATCHES; b++)
        rig_run(&rig, b);
    rig.stream = stream;
    rig.side = side;
    rig_close(&rig);
}
END_TEST

static unsigned long count_replays(void)
{
    const char *text = getenv("KT_TEST_REPLAYS");
    return text ? strtoul(text, NULL, 10) : 200;
}

/* Sizes, masks and data change from replay to replay; some are launched before the last one is done. */
START_TEST(graphs_replay)
{
    unsigned long n = count_replays();
    rig_open(&rig, (unsigned)_i, NULL);
    for (int p = 0; p < RIG_PLANS; p++)
        rig_capture(&rig, &rig.plan[p]);
    for (unsigned long done = 0; done < n; done += RIG_BURST) {
        uint32_t batch[RIG_BURST];
        for (uint32_t i = 0; i < RIG_BURST; i++) {
            batch[i] = (uint32_t)(fixture_uniform(&rig.state) * RIG_BATCHES);
            rig_bring(&rig, batch[i]);
            ck_cuda(cudaGraphLaunch(rig_plan_of(&rig, batch[i])->graph, rig.stream));
            rig_fetch(&rig, i);
        }
        ck_cuda(cudaStreamSynchronize(rig.stream));
        rig_check_calls(&rig);
        for (uint32_t i = 0; i < RIG_BURST; i++)
            rig_check(&rig, batch[i], i);
    }
    rig_close(&rig);
}
END_TEST

/* Pinned memory can be had while a graph is captured, and does not end the capture. */
START_TEST(buffers_are_made_in_a_capture)
{
    struct kt_staging staging;
    rig_open(&rig, 0, NULL);
    ck_cuda(cudaStreamBeginCapture(rig.stream, cudaStreamCaptureModeGlobal));
    ck_ok(kt_staging_get(rig.context, &rig.staging, 10 * RIG_TOKENS, 0, &staging, &ck_error));
    ck_ok(kt_capture_batch_sizes(rig.context, &rig.staging, (const uint32_t[]){3, 5}, 2, &ck_error));
    rig_pass(&rig, &rig.plan[RIG_PLANS - 1]);
    cudaGraphExec_t graph = gpu_end_capture(rig.stream);
    for (uint32_t b = 0; b < RIG_BATCHES; b++) {
        rig_bring(&rig, b);
        ck_cuda(cudaGraphLaunch(graph, rig.stream));
        rig_fetch(&rig, 0);
        ck_cuda(cudaStreamSynchronize(rig.stream));
        rig_check_calls(&rig);
        rig_check(&rig, b, 0);
    }
    ck_cuda(cudaGraphExecDestroy(graph));
    rig_close(&rig);
}
END_TEST

TCase *replay_cases(void)
{
    TCase *tests = tcase_create("replay");
    tcase_set_timeout(tests, SECONDS);
    tcase_add_loop_test(tests, passes_on_a_stream, 0, HOWS);
    tcase_add_loop_test(tests, graphs_replay, 0, HOWS);
    tcase_add_test(tests, buffers_are_made_in_a_capture);
    return tests;
}
