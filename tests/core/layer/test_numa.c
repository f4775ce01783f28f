/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_numa.c - layers of every backend, cut over nodes: the result is that of its shards, and on this
 * machine's own nodes packed weights, buffers and threads are where they belong. Most machines have one node;
 * `make check-numa` boots one that has two, and says so in KT_TEST_NODES.
 */
#define _GNU_SOURCE
#include "core/layer/layer.h"
#include "core/weights/decode/view.h"
#include "core/context/context.h"
#include "core/machine/topology.h"
#include "core/machine/pool.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PAGE 4096

/*
 * What nodes together may differ from their shards computed one after another on one node, as a fraction of
 * the output: both quantize the same parts of rows, so only float32 is added in another order.
 */
#define REORDERED 1e-6

static const struct {
    const char *name;
    const char *setting;
    uint32_t dtype; /* of the weights, with scales of groups of rows x cols; 0: float32 */
    uint64_t rows, cols;
} backends[] = {
    {"reference", "", 0, 0, 0},
    {"llamafile", "", 0, 0, 0},
    {"bf16", "plugin.bf16.wider=round", 0, 0, 0},
    {"amx_int8", "", 0, 0, 0},
    {"amx_int4", "", 0, 0, 0},
    {"blis_int8", "", 0, 0, 0},
    {"kml_arm", "", 0, 0, 0},
    {"rawint4", "", KT_DTYPE_INT4, 1, 32},
    {"avx512_fp8", "", KT_DTYPE_F8_E4M3, 128, 128},
};

/* Makes codes and scales of a matrix of random floats, in its own memory. No code is NaN. */
static void code_view(size_t backend, struct kt_view *view)
{
    uint8_t *codes = (uint8_t *)(uintptr_t)view->data;
    uint64_t n = view->rows * view->cols, cols = (view->cols - 1) / backends[backend].cols + 1;
    uint64_t n_scales = ((view->rows - 1) / backends[backend].rows + 1) * cols;
    for (uint64_t i = 0; i < n; i++)
        codes[i] = codes[4 * i + 1] & 0xbf;
    float *scales = (float *)(void *)(codes + n);
    for (uint64_t i = 0; i < n_scales; i++)
        scales[i] = 0.01f * (float)(1 + i % 7);
    uint32_t elements, bytes;
    kt_dtype_block(backends[backend].dtype, &elements, &bytes);
    view->dtype = backends[backend].dtype;
    view->block_stride = bytes;
    view->row_stride = (int64_t)(view->cols / elements * bytes);
    view->size = n / elements * bytes;
    view->scales = (struct kt_scales){.data = scales,
                                      .size = n_scales * sizeof *scales,
                                      .dtype = KT_DTYPE_F32,
                                      .group_rows = backends[backend].rows,
                                      .group_cols = backends[backend].cols,
                                      .row_stride = (int64_t)(cols * sizeof *scales),
                                      .col_stride = sizeof *scales};
}

/* A context with that backend alone; false if it is not built. */
static bool make_context(struct fixture *fixture, size_t backend, const char *nodes)
{
    char module[512] = "core.strict=yes", list[64];
    const char *name = backends[backend].name;
    if (backend > 0) {
        const char *file = sandbox_backend(name);
        if (!file)
            return false;
        (void)snprintf(module, sizeof module, "plugin.%s.module=%s", name, file);
    }
    (void)snprintf(list, sizeof list, "core.numa_nodes=%s", nodes);
    const char *const settings[] = {module, list, "core.strict=yes", "core.spin_us=0",
                                    backends[backend].setting};
    fixture->context = fixture_context_with(settings, *backends[backend].setting ? 5 : 4);
    return true;
}

/* Some 50 pages of packed weights on each of two nodes. */
static bool load(struct fixture *fixture, size_t backend, const char *nodes)
{
    fixture->n_experts = 4;
    fixture->hidden = 64;
    fixture->intermediate = 512;
    fixture_fill(fixture, 17 + backend);
    for (uint32_t e = 0; backends[backend].dtype && e < fixture->n_experts; e++) {
        code_view(backend, &fixture->experts[e].gate);
        code_view(backend, &fixture->experts[e].up);
        code_view(backend, &fixture->experts[e].down);
    }
    if (!make_context(fixture, backend, nodes)) {
        fixture_free(fixture);
        return false;
    }
    struct kt_layer_params params = fixture_params(fixture);
    params.backend = backends[backend].name;
    ck_ok(kt_layer_create(fixture->context, &params, &fixture->layer, &ck_error));
    ck_ok(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &ck_error));
    return true;
}

static void run(struct fixture *fixture)
{
    struct kt_forward forward = fixture_forward(fixture);
    memset(fixture->output, 0x55, fixture->n_tokens * fixture->hidden * sizeof(float));
    ck_ok(kt_layer_forward(fixture->layer, &forward, &ck_error));
}

/* ---- results ---- */

/* The same bits in each run, with other nodes between them, and whenever the weights are packed. */
static void check_runs(struct fixture *fixture)
{
    size_t size = fixture->n_tokens * fixture->hidden * sizeof(float);
    float *first = malloc(size);
    run(fixture);
    memcpy(first, fixture->output, size);
    for (int again = 0; again < 3; again++) {
        run(fixture);
        ck_assert_mem_eq(first, fixture->output, size);
    }
    ck_ok(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &ck_error));
    run(fixture);
    ck_assert_mem_eq(first, fixture->output, size);
    free(first);
}

/* What the columns begin..end-1 of intermediate_size add to the output, computed by a layer of their own. */
static void add_shard(struct fixture *one, size_t backend, uint64_t begin, uint64_t end, float *sum)
{
    struct kt_layer_params params = fixture_params(one);
    struct kt_expert expert[4];
    struct kt_layer *layer;
    struct kt_forward forward = fixture_forward(one);
    ck_assert_uint_eq(one->n_experts, COUNT(expert));
    for (uint32_t e = 0; e < one->n_experts; e++) {
        const struct kt_expert *whole = &one->experts[e];
        expert[e] = *whole;
        ck_ok(kt_view_slice(&whole->gate, begin, end - begin, 0, one->hidden, &expert[e].gate, &ck_error));
        ck_ok(kt_view_slice(&whole->up, begin, end - begin, 0, one->hidden, &expert[e].up, &ck_error));
        ck_ok(kt_view_slice(&whole->down, 0, one->hidden, begin, end - begin, &expert[e].down, &ck_error));
    }
    params.intermediate_size = end - begin;
    params.backend = backends[backend].name;
    ck_ok(kt_layer_create(one->context, &params, &layer, &ck_error));
    ck_ok(kt_layer_load(layer, expert, one->n_experts, &ck_error));
    ck_ok(kt_layer_forward(layer, &forward, &ck_error));
    kt_layer_destroy(layer);
    for (uint64_t i = 0; i < one->n_tokens * one->hidden; i++)
        sum[i] += one->output[i];
}

static double distance(const float *a, const float *b, uint64_t n)
{
    double difference = 0, norm = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        difference += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

static void compare(size_t backend, const char *nodes, const char *node)
{
    struct fixture many = {0}, one = {0};
    if (!load(&many, backend, nodes))
        return;
    check_runs(&many);
    ck_assert(load(&one, backend, node));
    uint64_t size = one.n_tokens * one.hidden, columns = 0;
    float *sum = calloc(size, sizeof *sum);
    for (uint32_t n = 0; n < many.layer->n_shards; n++) {
        const struct kt_shard *shard = &many.layer->shard[n];
        if (shard->begin < shard->end)
            add_shard(&one, backend, shard->begin, shard->end, sum);
        columns += shard->end - shard->begin;
    }
    ck_assert_uint_eq(columns, many.intermediate);
    double far = distance(many.output, sum, size);
    ck_assert_msg(far <= REORDERED, "%s, nodes %s: %g from its shards on node %s", backends[backend].name,
                  nodes, far, node);
    free(sum);
    fixture_free(&many);
    fixture_free(&one);
}

/* Even and uneven cuts, nodes that are skipped, and more nodes than blocks of columns. */
START_TEST(result_is_that_of_its_shards)
{
    static const struct {
        const char *machine, *nodes;
    } rows[] = {
        {"numa:2 core:2 pu:1", "all"},
        {"numa:3 core:1 pu:1", "all"},
        {"numa:4 core:1 pu:1", "0,3"},
        {"numa:16 core:1 pu:1", "1-15"},
    };
    for (size_t row = 0; row < COUNT(rows); row++) {
        ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", rows[row].machine, 1), 0);
        compare((size_t)_i, rows[row].nodes, "0");
    }
}
END_TEST

START_TEST(result_is_that_of_shards_on_each_real_node)
{
    compare((size_t)_i, "all", "0");
    compare((size_t)_i, "all", "1");
}
END_TEST

/* ---- this machine's nodes ---- */

/* Do all pages lie on `node`, or nowhere yet, if not `whole`? False: the kernel does not say. */
static bool check_pages(const char *what, const void *data, uint64_t size, uint32_t node, bool whole)
{
    uint64_t n = (size + PAGE - 1) / PAGE, elsewhere = 0, absent = 0;
    void **page = calloc(n, sizeof *page);
    int *status = calloc(n, sizeof *status);
    for (uint64_t i = 0; i < n; i++)
        page[i] = (char *)(uintptr_t)data + i * PAGE;
    long failure = syscall(SYS_move_pages, 0, n, page, NULL, status, 0);
    int why = errno;
    for (uint64_t i = 0; i < n; i++) {
        absent += status[i] < 0; /* also those that were only read, which are all one page of zeros */
        elsewhere += status[i] >= 0 && status[i] != (int)node;
    }
    free(page);
    free(status);
    if (failure) {
        printf("SKIP: where pages lie: %s\n", strerror(why));
        return false;
    }
    ck_assert_msg(elsewhere == 0, "%s: %llu of %llu pages are not on node %u", what,
                  (unsigned long long)elsewhere, (unsigned long long)n, node);
    ck_assert_msg(!whole || absent == 0, "%s: %llu of %llu pages are nowhere", what,
                  (unsigned long long)absent, (unsigned long long)n);
    ck_assert_msg(absent < n, "%s: no page was touched", what);
    return true;
}

START_TEST(packed_weights_lie_on_their_node)
{
    struct fixture fixture = {0};
    if (!load(&fixture, (size_t)_i, "all"))
        return;
    run(&fixture);
    const struct kt_layer *layer = fixture.layer;
    const char *wanted = getenv("KT_TEST_NODES");
    ck_assert_uint_ge(layer->n_shards, wanted ? (uint32_t)atoi(wanted) : 1);
    ck_assert(!wanted || atomic_load(&fixture.context->topology->membind_failures) == 0);
    bool binds = fixture.context->topology->binds_memory &&
                 atomic_load(&fixture.context->topology->membind_failures) == 0;
    for (uint32_t n = 0; n < layer->n_shards && binds; n++) {
        const struct kt_shard *shard = &layer->shard[n];
        const struct kt_buffer *buffers = &fixture.context->arena.node[n];
        uint32_t node = fixture.context->topology->node[n].os_index;
        if (shard->weights.size && !check_pages("weights", shard->weights.data,
                                                shard->expert_stride * layer->params.n_experts, node, true))
            break;
        if (!check_pages("buffers", buffers->data, buffers->size, node, false))
            break;
    }
    fixture_free(&fixture);
}
END_TEST

static void note_node(void *data, uint32_t thread, uint32_t n_threads)
{
    unsigned cpu = 0, node = UINT32_MAX;
    (void)n_threads;
    (void)syscall(SYS_getcpu, &cpu, &node, NULL);
    ((unsigned *)data)[thread] = node;
}

START_TEST(threads_run_on_their_node)
{
    struct fixture fixture = {0};
    unsigned node[1024];
    ck_assert(make_context(&fixture, 0, "all"));
    const struct kt_pool *pool = fixture.context->pool;
    for (int again = 0; again < 20 && pool->bound && pool->n_threads <= COUNT(node); again++) {
        ck_ok(kt_context_run(fixture.context, note_node, node, &ck_error));
        for (uint32_t i = 1; i < pool->n_threads; i++)
            ck_assert_uint_eq(node[i], fixture.context->topology->node[pool->worker[i].node].os_index);
    }
    kt_context_destroy(fixture.context);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_checked_fixture(all, sandbox_open, sandbox_close);
    if (getenv("KT_TEST_NODES")) /* where each instruction is emulated, more nodes than there are take long */
        tcase_add_loop_test(all, result_is_that_of_shards_on_each_real_node, 0, (int)COUNT(backends));
    else
        tcase_add_loop_test(all, result_is_that_of_its_shards, 0, (int)COUNT(backends));
    tcase_add_loop_test(all, packed_weights_lie_on_their_node, 0, (int)COUNT(backends));
    tcase_add_test(all, threads_run_on_their_node);
    return run_tests("numa", all);
}
