/* SPDX-License-Identifier: Apache-2.0 */
/* test_overlap.c - outputs that lie in inputs are found; rows between other rows are no such outputs. */
#include "core/base/overlap.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY = 96 };

static uint64_t below(uint64_t *state, uint64_t n)
{
    return (uint64_t)(fixture_uniform(state) * (double)n);
}

static void mark(const struct kt_memory_rows *rows, const uint8_t *memory, uint8_t *marks)
{
    const uint8_t *data = rows->data;
    for (uint64_t r = 0; r < rows->n; r++)
        for (uint64_t i = 0; i < rows->size; i++)
            marks[(uint64_t)(data - memory) + r * rows->stride + i] = 1;
}

START_TEST(as_bytes_say)
{
    static uint8_t memory[8 * MEMORY];
    uint64_t state = 1, found = 0;
    for (int i = 0; i < 20000; i++) {
        struct kt_memory_rows rows[2];
        uint8_t marks[2][8 * MEMORY] = {{0}};
        for (int k = 0; k < 2; k++) {
            rows[k] = (struct kt_memory_rows){memory + below(&state, MEMORY), below(&state, 12), 0,
                                              below(&state, 8)};
            rows[k].stride = rows[k].size + below(&state, 3) * below(&state, 12);
            mark(&rows[k], memory, marks[k]);
        }
        bool expected = false;
        for (int b = 0; b < 8 * MEMORY; b++)
            expected |= marks[0][b] && marks[1][b];
        found += expected;
        ck_assert_int_eq(kt_rows_overlap(&rows[0], &rows[1]), expected);
        ck_assert_int_eq(kt_rows_overlap(&rows[1], &rows[0]), expected);
    }
    ck_assert(found > 5000 && found < 15000);
    struct kt_memory_rows all = {memory, UINT64_MAX / 2, UINT64_MAX / 2, 9}, one = {memory + 5, 1, 1, 1};
    ck_assert(kt_rows_overlap(&all, &one));
}
END_TEST

START_TEST(layers_refuse)
{
    struct fixture fixture = {.n_tokens = 6, .max_tokens = 2, .hidden = 64, .intermediate = 32};
    fixture_fill(&fixture, 1);
    fixture_load(&fixture, 2);
    fixture_model(&fixture);
    uint64_t ticket;
    struct kt_forward good = fixture_forward(&fixture), forward = good;
    forward.output = fixture.input;
    ck_fails(kt_layer_forward(fixture.layer, &forward, &ck_error), KT_E_INVALID, "output overlaps input");
    ck_fails(kt_layer_submit(fixture.layer, &forward, &ticket, &ck_error), KT_E_INVALID,
             "output overlaps input");
    forward.output = fixture.input + 5 * 64 + 63; /* the very last number */
    ck_fails(kt_layer_forward(fixture.layer, &forward, &ck_error), KT_E_INVALID, "output overlaps input");
    forward = good;
    forward.output = fixture.ids + 1;
    ck_fails(kt_layer_forward(fixture.layer, &forward, &ck_error), KT_E_INVALID, "overlaps expert_ids");
    forward = good;
    forward.output = fixture.router + 1;
    ck_fails(kt_layer_forward(fixture.layer, &forward, &ck_error), KT_E_INVALID, "overlaps router_weights");
    /* In one matrix, one beside the other. */
    float both[6][2][64];
    for (int t = 0; t < 6; t++)
        memcpy(both[t][0], fixture.input + t * 64, sizeof both[t][0]);
    forward = good;
    forward.input = both[0][0];
    forward.output = both[0][1];
    forward.input_stride = forward.output_stride = sizeof both[0];
    ck_ok(kt_layer_forward(fixture.layer, &forward, &ck_error));
    for (int t = 0; t < 6; t++)
        memcpy(fixture.output + t * 64, both[t][1], sizeof both[t][1]);
    ck_assert_double_le(fixture_error(&fixture), 2e-6);
    /* Of a host call's tokens it is known only later how many there are. */
    struct kt_host_params params = KT_HOST_PARAMS_INIT;
    struct kt_host_call *call;
    const int32_t n_tokens = 6;
    params.layer = fixture.layer;
    params.forward = good;
    params.forward.input = both[0][0];
    params.forward.output = both[3][0];
    params.n_tokens = &n_tokens;
    params.max_tokens = 60;
    ck_ok(kt_host_call_create(&params, &call, &ck_error));
    kt_host_submit(call);
    kt_host_wait(call);
    ck_ok(kt_host_call_status(call, &ck_error));
    kt_host_call_destroy(call);
    fixture_free(&fixture);
}
END_TEST

START_TEST(linears_refuse)
{
    static float weights[8 * 16], memory[4 * 16 + 2 * 4 * 8];
    float *input = memory, *first = memory + 4 * 16, *second = first + 4 * 8;
    struct kt_context *context = fixture_context(2);
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    struct kt_linear *linear;
    struct kt_view view;
    params.rows = 8;
    params.cols = 16;
    params.max_tokens = 4;
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));
    ck_ok(kt_view_dense(&view, KT_DTYPE_F32, weights, sizeof weights, 8, 16, &ck_error));
    ck_ok(kt_linear_load(linear, &view, NULL, &ck_error));
    struct kt_linear_output outputs[2] = {{.linear = linear, .output = first, .output_dtype = KT_DTYPE_F32},
                                          {.linear = linear, .output = second, .output_dtype = KT_DTYPE_F32}};
    batch.outputs = outputs;
    batch.n_outputs = 2;
    batch.n_tokens = 4;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    ck_ok(kt_linear_forward(&batch, &ck_error));
    outputs[0].output = first - 1;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "output overlaps input");
    outputs[0].output = first + 1;
    ck_fails(kt_linear_forward(&batch, &ck_error), KT_E_INVALID, "output overlaps that of linear");
    kt_linear_destroy(linear);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("overlap");
    tcase_add_test(tests, as_bytes_say);
    tcase_add_test(tests, layers_refuse);
    tcase_add_test(tests, linears_refuse);
    return run_tests("overlap", tests);
}
