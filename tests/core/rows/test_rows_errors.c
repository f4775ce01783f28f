/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows_errors.c - which plugin computes rows, what jobs are refused and how, jobs of zero rows, jobs on
 * the threads of a context. */
#include "tests/core/rows/rows_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALAR = N_LEVELS - 1 };

static const struct kt_rows *rows;

static void set_up(void)
{
    sandbox_open();
    rows = level_open(SCALAR);
}

static void tear_down(void)
{
    level_close();
    sandbox_close();
}

START_TEST(plugins_are_found)
{
    const struct kt_rows *found = NULL;
    struct kt_rows_info info = {"", "", ""};
    struct kt_context *bare = fixture_context(1);
    ck_fails(kt_rows_find(NULL, NULL, &found, &ck_error), KT_E_INVALID, "NULL");
    ck_fails(kt_rows_find(bare, NULL, NULL, &ck_error), KT_E_INVALID, "NULL");
    ck_fails(kt_rows_find(bare, NULL, &found, &ck_error), KT_E_NOT_FOUND, "kt backends");
    ck_fails(kt_rows_find(bare, "none", &found, &ck_error), KT_E_NOT_FOUND, "no plugin is called none");
    ck_fails(kt_rows_find(bare, "reference", &found, &ck_error), KT_E_NOT_FOUND,
             "reference computes matrices");
    kt_context_destroy(bare);
    if (!rows)
        return;
    ck_ok(kt_rows_find(level_context(), "attention", &found, &ck_error));
    ck_assert_ptr_eq(found, rows);
    kt_rows_info(NULL, &info);
    ck_assert_ptr_null(info.backend);
    kt_rows_info(rows, NULL);
}
END_TEST

static float numbers[4096];

START_TEST(wrong_norms_are_refused)
{
    struct kt_rows_norm job = KT_ROWS_NORM_INIT, good;
    struct kt_rows_gate gate = KT_ROWS_GATE_INIT;
    if (!rows)
        return;
    ck_ok(kt_rows_norm(rows, &job, &ck_error)); /* zero rows */
    ck_ok(kt_rows_gate(rows, &gate, &ck_error));
    ck_fails(kt_rows_norm(NULL, &job, &ck_error), KT_E_INVALID, "NULL");
    ck_fails(kt_rows_norm(rows, NULL, &ck_error), KT_E_INVALID, "NULL");
    job.struct_size = 8;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "struct_size is 8");
    job.struct_size = sizeof job;
    job.n_rows = 2;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "size is 0, expected is 1 to 16777216");
    job.size = 16;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "the input must not be NULL");
    job.input = (struct kt_rows_input){numbers, 0, 0, KT_DTYPE_Q4_K, 0};
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_UNSUPPORTED, "the input has dtype q4_k");
    job.input.dtype = KT_DTYPE_F32;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "the output must not be NULL");
    job.output = (struct kt_rows_output){numbers + 64, 66, 0, KT_DTYPE_F32, 0};
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "stride of 66 bytes");
    job.output.stride = 64;
    job.output.data = (char *)numbers + 258;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID,
             "the output is at an address that is not a mult");
    job.output.data = numbers + 64;
    job.input.data = (char *)numbers + 1;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "not a multiple of its numbers' 4 bytes");
    job.input.data = numbers;
    ck_ok(kt_rows_norm(rows, &job, &ck_error));
    good = job;
    job.norm = 3;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "norm is 3, expected is 0 to 2");
    job = good;
    job.n_parts = UINT32_MAX;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "n_parts is 4294967295");
    job = good;
    job.n_parts = 1 << 24;
    job.input.part_stride = INT64_MAX / 2;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "overflow");
    job = good;
    job.eps = NAN;
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_INVALID, "eps is nan");
    job = good;
    job.residual = (struct kt_rows_output){numbers, 0, 0, KT_DTYPE_BF16, 0};
    ck_fails(kt_rows_norm(rows, &job, &ck_error), KT_E_UNSUPPORTED, "the residual has dtype bf16; it is f32");
    gate.n_rows = 1;
    gate.size = 16;
    gate.input = good.input;
    gate.output = good.output;
    gate.gating = 7;
    ck_fails(kt_rows_gate(rows, &gate, &ck_error), KT_E_INVALID, "gating is 7");
}
END_TEST

START_TEST(wrong_rotations_are_refused)
{
    struct kt_rows_rotate job = KT_ROWS_ROTATE_INIT;
    const uint32_t picks[] = {0, 2};
    if (!rows)
        return;
    ck_ok(kt_rows_rotate(rows, &job, &ck_error));
    job.n_rows = 2;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_INVALID, "n_heads is 0");
    job.n_heads = 2;
    job.size = 1026;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_INVALID, "size is 1026, expected is 2 to 1024");
    job.size = 7;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_INVALID, "must be even");
    job.size = 8;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_INVALID,
             "data (from head to head) must not be NULL");
    job.data = numbers;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_INVALID, "the table must not be NULL");
    job.table = numbers + 100;
    job.n_table_rows = 1;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_INVALID, "the table has 1 rows, for 2 rows");
    job.n_table_rows = 2;
    job.table_row = picks;
    ck_fails(kt_rows_rotate(rows, &job, &ck_error), KT_E_RANGE, "table_row[1] is 2, the table has 2 rows");
    job.n_table_rows = 3;
    ck_ok(kt_rows_rotate(rows, &job, &ck_error));
}
END_TEST

START_TEST(wrong_routes_are_refused)
{
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    struct kt_rows_route job = KT_ROWS_ROUTE_INIT, good;
    int64_t ids[64];
    if (!rows)
        return;
    ck_ok(kt_rows_multiply(rows, &product, &ck_error));
    ck_ok(kt_rows_route(rows, &job, &ck_error));
    product.n_rows = product.n_outputs = product.size = 1;
    product.input = (struct kt_rows_input){numbers, 0, 0, KT_DTYPE_F32, 0};
    product.weight = numbers;
    ck_fails(kt_rows_multiply(rows, &product, &ck_error), KT_E_UNSUPPORTED, "the weight has dtype");
    product.weight_dtype = KT_DTYPE_BF16;
    ck_fails(kt_rows_multiply(rows, &product, &ck_error), KT_E_INVALID, "the output must not be NULL");
    job.n_rows = 1;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "n_experts is 0, expected is 1 to 4096");
    job.n_experts = 64;
    job.top_k = 129;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "top_k is 129, expected is 1 to 128");
    job.top_k = 65;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "top_k is 65, of 64 experts");
    job.top_k = 9;
    job.n_groups = 7;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "64 experts do not divide into 7 groups");
    job.n_groups = 8;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "top_groups is 0, expected is 1 to 8");
    job.top_groups = 1;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "top_k is 9, of 8 experts");
    job.top_k = 8;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "logits must not be NULL");
    job.logits = numbers;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "ids and weights");
    job.ids = ids;
    job.weights = numbers + 64;
    ck_ok(kt_rows_route(rows, &job, &ck_error));
    good = job;
    good.routing = 5;
    ck_fails(kt_rows_route(rows, &good, &ck_error), KT_E_INVALID, "routing is 5");
    good.routing = KT_ROUTING_MIXER;
    ck_fails(kt_rows_route(rows, &good, &ck_error), KT_E_INVALID, "no correction and no groups");
    good.n_groups = 1;
    ck_ok(kt_rows_route(rows, &good, &ck_error));
    good.near = -1;
    ck_fails(kt_rows_route(rows, &good, &ck_error), KT_E_INVALID, "near is -1, expected is 0 or more");
    job.group_score = 2;
    ck_fails(kt_rows_route(rows, &job, &ck_error), KT_E_INVALID, "group_score is 2");
}
END_TEST

START_TEST(wrong_deltas_are_refused)
{
    struct kt_rows_convolve convolve = KT_ROWS_CONVOLVE_INIT;
    struct kt_rows_decay decay = KT_ROWS_DECAY_INIT;
    struct kt_rows_delta job = KT_ROWS_DELTA_INIT;
    uint64_t size;
    if (!rows)
        return;
    ck_ok(kt_rows_convolve(rows, &convolve, &ck_error));
    ck_ok(kt_rows_decay(rows, &decay, &ck_error));
    ck_ok(kt_rows_delta(rows, &job, &ck_error));
    convolve.n_rows = decay.n_rows = job.n_rows = 1;
    convolve.n_channels = 4;
    convolve.width = 9;
    ck_fails(kt_rows_convolve(rows, &convolve, &ck_error), KT_E_INVALID, "width is 9, expected is 2 to 8");
    convolve.width = 4;
    convolve.input = (struct kt_rows_input){numbers, 0, 0, KT_DTYPE_F32, 0};
    convolve.output = (struct kt_rows_output){numbers, 0, 0, KT_DTYPE_F32, 0};
    convolve.weight = numbers;
    ck_fails(kt_rows_convolve(rows, &convolve, &ck_error), KT_E_INVALID, "the state must not be NULL");
    convolve.state = numbers + 500;
    ck_fails(kt_rows_convolve(rows, &convolve, &ck_error), KT_E_INVALID, "the output is the input's memory");
    decay.n_heads = 2;
    decay.x = decay.y = convolve.input;
    ck_fails(kt_rows_decay(rows, &decay, &ck_error), KT_E_INVALID, "a and dt_bias");
    job.key_size = 20;
    job.value_size = 1024;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_INVALID, "value_size is 1024, expected is 16 to 512");
    job.value_size = 16;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_UNSUPPORTED, "key_size is 20, value_size 16");
    ck_fails(kt_rows_delta_scratch(rows, 20, 16, &size, &ck_error), KT_E_UNSUPPORTED, "multiples of 16");
    ck_fails(kt_rows_delta_scratch(rows, 16, 16, NULL, &ck_error), KT_E_INVALID, "NULL");
    job.key_size = 16;
    job.n_heads = 3;
    job.n_key_heads = 4;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_INVALID, "n_key_heads is 4, expected is 1 to 3");
    job.n_key_heads = 2;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_INVALID, "3 heads of values are not a multiple of 2");
    job.n_key_heads = 1;
    job.end_head = 4;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_RANGE,
             "heads 0 to below 4, expected within 0 to below 3");
    job.end_head = 1;
    job.query = job.key = job.value = numbers;
    job.log_decay = job.beta = numbers;
    job.state = numbers + 1024;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_INVALID, "output must not be NULL");
    job.output = numbers + 2048;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_INVALID, "scratch_size is 0 bytes");
    job.scratch_size = UINT64_MAX;
    ck_fails(kt_rows_delta(rows, &job, &ck_error), KT_E_INVALID, "scratch is NULL or not aligned");
}
END_TEST

/* ---- on the threads of a context ------------------------------------------------------------------- */

enum { TOKENS = 37, HIDDEN = 300, EXPERTS = 24, TOP = 4 };
struct work {
    const float *x, *weight, *norm;
    float normed[TOKENS][HIDDEN], logits[TOKENS][EXPERTS], weights[TOKENS][TOP];
    int64_t ids[TOKENS][TOP];
    bool failed[2];
};

/* A range of rows of all that a router does. */
static bool run_rows(struct work *work, uint32_t first, uint32_t n)
{
    struct kt_rows_norm norm = KT_ROWS_NORM_INIT;
    struct kt_rows_multiply product = KT_ROWS_MULTIPLY_INIT;
    struct kt_rows_route route = KT_ROWS_ROUTE_INIT;
    norm.n_rows = product.n_rows = route.n_rows = n;
    norm.size = product.size = HIDDEN;
    norm.input = (struct kt_rows_input){work->x + first * HIDDEN, 0, 0, KT_DTYPE_F32, 0};
    norm.output = (struct kt_rows_output){work->normed[first], 0, 0, KT_DTYPE_F32, 0};
    norm.weight = work->norm;
    product.input = (struct kt_rows_input){work->normed[first], 0, 0, KT_DTYPE_F32, 0};
    product.weight = work->weight;
    product.weight_dtype = KT_DTYPE_F32;
    product.n_outputs = route.n_experts = EXPERTS;
    product.output = work->logits[first];
    route.logits = work->logits[first];
    route.top_k = TOP;
    route.normalize = 1;
    route.ids = work->ids[first];
    route.weights = work->weights[first];
    return kt_rows_norm(rows, &norm, NULL) == KT_OK && kt_rows_multiply(rows, &product, NULL) == KT_OK &&
           kt_rows_route(rows, &route, NULL) == KT_OK;
}

static void run_thread(void *data, const struct kt_thread *thread)
{
    struct work *work = data;
    uint32_t begin = TOKENS * thread->index / thread->n_threads;
    uint32_t end = TOKENS * (thread->index + 1) / thread->n_threads;
    work->failed[thread->index] = !run_rows(work, begin, end - begin);
}

START_TEST(threads_divide_rows)
{
    static struct work whole, divided;
    uint64_t seed = 1;
    if (!rows)
        return;
    whole.x = divided.x = floats_make(TOKENS * HIDDEN, 1.0, &seed);
    whole.weight = divided.weight = floats_make(EXPERTS * HIDDEN, 1.0, &seed);
    whole.norm = divided.norm = floats_make(HIDDEN, 1.0, &seed);
    ck_assert(run_rows(&whole, 0, TOKENS));
    ck_ok(kt_context_run_threads(level_context(), run_thread, &divided, &ck_error));
    ck_assert(memcmp(&whole, &divided, sizeof whole) == 0);
    free((void *)(uintptr_t)whole.x);
    free((void *)(uintptr_t)whole.weight);
    free((void *)(uintptr_t)whole.norm);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("rows");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, plugins_are_found);
    tcase_add_test(tests, wrong_norms_are_refused);
    tcase_add_test(tests, wrong_rotations_are_refused);
    tcase_add_test(tests, wrong_routes_are_refused);
    tcase_add_test(tests, wrong_deltas_are_refused);
    tcase_add_test(tests, threads_divide_rows);
    return run_tests("rows", tests);
}
