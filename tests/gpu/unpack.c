/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c - experts come into a GPU's memory byte for byte, while a stream's forwards run. */
#include "tests/gpu/cases.h"
#include "tests/gpu/rig.h"
#include "tests/support/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 3, HIDDEN = 64, INTERMEDIATE = 96, RANKS = 2, WEIGHTS = HIDDEN * INTERMEDIATE };

static struct rig rig;

struct source {
    uint16_t gate[EXPERTS][WEIGHTS], up[EXPERTS][WEIGHTS], down[EXPERTS][WEIGHTS];
    struct kt_expert expert[EXPERTS];
};
static struct source source;

static void make_view(struct kt_view *view, uint16_t *weights, uint64_t rows, uint64_t cols)
{
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (uint16_t)(0x3c00 + fixture_uniform(&rig.state) * 0x200);
    ck_ok(kt_view_dense(view, KT_DTYPE_BF16, weights, WEIGHTS * sizeof *weights, rows, cols, &ck_error));
}

static struct kt_layer *make_layer(void)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer = NULL;
    memset(source.expert, 0, sizeof source.expert);
    for (int e = 0; e < EXPERTS; e++) {
        make_view(&source.expert[e].gate, source.gate[e], INTERMEDIATE, HIDDEN);
        make_view(&source.expert[e].up, source.up[e], INTERMEDIATE, HIDDEN);
        make_view(&source.expert[e].down, source.down[e], HIDDEN, INTERMEDIATE);
    }
    params.n_experts = EXPERTS;
    params.top_k = 1;
    params.hidden_size = HIDDEN;
    params.intermediate_size = INTERMEDIATE;
    params.max_tokens = 1;
    params.backend = "bf16";
    ck_ok(kt_layer_create(rig.context, &params, &layer, &ck_error));
    ck_ok(kt_layer_load(layer, source.expert, EXPERTS, &ck_error));
    return layer;
}

/* A rank's part, by the definition: rows of gate and up, columns of down. */
static void cut(int expert, uint32_t rank, uint32_t n_ranks, uint16_t *to)
{
    uint64_t rows = INTERMEDIATE / n_ranks, first = rank * rows;
    memcpy(to, &source.gate[expert][first * HIDDEN], rows * HIDDEN * sizeof *to);
    memcpy(to + rows * HIDDEN, &source.up[expert][first * HIDDEN], rows * HIDDEN * sizeof *to);
    for (uint64_t row = 0; row < HIDDEN; row++)
        memcpy(to + 2 * rows * HIDDEN + row * rows, &source.down[expert][row * INTERMEDIATE + first],
               rows * sizeof *to);
}

/* The stream of a rank: its part of an expert goes from pinned memory to the GPU and back. */
struct rank {
    cudaStream_t stream;
    char *pinned, *back, *on_gpu;
    size_t size;
};

static void open_rank(struct rank *rank, const struct kt_unpack_info *info)
{
    void *on_gpu = NULL;
    rank->size = info->w13.size + info->w2.size;
    rank->pinned = rig.pinned.allocate(rig.pinned.data, rank->size);
    rank->back = rig.pinned.allocate(rig.pinned.data, rank->size);
    ck_assert(rank->pinned && rank->back);
    ck_cuda(cudaMalloc(&on_gpu, rank->size));
    rank->on_gpu = on_gpu;
    ck_cuda(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking));
}

static void close_rank(struct rank *rank)
{
    ck_cuda(cudaStreamDestroy(rank->stream));
    ck_cuda(cudaFree(rank->on_gpu));
    rig.pinned.release(rig.pinned.data, rank->pinned, rank->size);
    rig.pinned.release(rig.pinned.data, rank->back, rank->size);
}

static void unpack(struct kt_layer *layer, uint32_t expert, uint32_t n_ranks,
                   const struct kt_unpack_buffers *to)
{
    uint64_t ticket;
    if (expert % 2) {
        ck_ok(kt_layer_submit_unpack(layer, expert, n_ranks, to, &ticket, &ck_error));
        ck_ok(kt_wait(rig.context, ticket, &ck_error));
    } else {
        ck_ok(kt_layer_unpack(layer, expert, n_ranks, to, &ck_error));
    }
}

static void move_expert(struct kt_layer *layer, int expert, uint32_t n_ranks, struct rank *rank,
                        const struct kt_unpack_info *info)
{
    struct kt_unpack_buffers to[RANKS] = {{0}};
    uint16_t expected[3 * WEIGHTS];
    for (uint32_t r = 0; r < n_ranks; r++) {
        to[r].w13 = rank[r].pinned;
        to[r].w2 = rank[r].pinned + info->w13.size;
    }
    unpack(layer, (uint32_t)expert, n_ranks, to);
    for (uint32_t r = 0; r < n_ranks; r++) {
        ck_cuda(cudaMemcpyAsync(rank[r].on_gpu, rank[r].pinned, rank[r].size, cudaMemcpyHostToDevice,
                                rank[r].stream));
        ck_cuda(cudaMemcpyAsync(rank[r].back, rank[r].on_gpu, rank[r].size, cudaMemcpyDeviceToHost,
                                rank[r].stream));
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        ck_cuda(cudaStreamSynchronize(rank[r].stream));
        cut(expert, r, n_ranks, expected);
        ck_assert_uint_eq(rank[r].size, sizeof expected / n_ranks);
        ck_assert_mem_eq(rank[r].back, expected, rank[r].size);
    }
}

START_TEST(experts_come_to_the_gpu)
{
    uint32_t n_ranks = (uint32_t)_i, batch = RIG_BATCHES - 1;
    char setting[4200];
    struct kt_unpack_info info;
    struct rank rank[RANKS];
    const char *module = sandbox_backend("bf16");
    if (!module)
        return;
    (void)snprintf(setting, sizeof setting, "plugin.bf16.module=%s", module);
    rig_open(&rig, 0, setting);
    rig_capture(&rig, rig_plan_of(&rig, batch));
    struct kt_layer *layer = make_layer();
    ck_ok(kt_layer_unpack_info(layer, n_ranks, &info, &ck_error));
    for (uint32_t r = 0; r < n_ranks; r++)
        open_rank(&rank[r], &info);
    for (int e = 0; e < EXPERTS; e++) {
        rig_bring(&rig, batch);
        for (int i = 0; i < RIG_BURST; i++)
            ck_cuda(cudaGraphLaunch(rig_plan_of(&rig, batch)->graph, rig.stream));
        rig_fetch(&rig, 0);
        move_expert(layer, e, n_ranks, rank, &info);
        ck_cuda(cudaStreamSynchronize(rig.stream));
        rig_check_calls(&rig);
        rig_check(&rig, batch, 0);
    }
    for (uint32_t r = 0; r < n_ranks; r++)
        close_rank(&rank[r]);
    kt_layer_destroy(layer);
    rig_close(&rig);
}
END_TEST

TCase *unpack_cases(void)
{
    TCase *tests = tcase_create("unpack");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, experts_come_to_the_gpu, 1, RANKS + 1);
    return tests;
}
