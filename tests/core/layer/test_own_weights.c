/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_weights.c - weights of the caller's own in every dtype, with scales and zeros of every dtype,
 * beside pages that fault: each is computed with or refused, and nothing is read that is not theirs.
 */
#include "tests/support/layer_fixture.h"
#include "tests/support/own_view.h"
#include "tests/support/random_view.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, COLS = 256, HIDDEN = 64 };

static const char *const backends[] = {"reference",  "llamafile", "bf16",     "rawint4",
                                       "avx512_fp8", "amx_int8",  "amx_int4", "blis_int8"};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

static struct kt_context *open_context(const char *backend)
{
    const struct random_source source = {.backend = backend};
    return random_view_context(&source, NULL, 1, NULL, NULL);
}

static bool is_dtype(uint32_t dtype)
{
    return dtype != KT_DTYPE_NONE && kt_dtype_parse(kt_dtype_name(dtype)) == (enum kt_dtype)dtype;
}

/* Two behind the last one. */
static uint32_t end_of_dtypes(void)
{
    uint32_t last = 256;
    while (!is_dtype(last))
        last--;
    return last + 2;
}

static bool may_scale(uint32_t dtype)
{
    return (dtype >= KT_DTYPE_F32 && dtype <= KT_DTYPE_F64) ||
           (dtype >= KT_DTYPE_F8_E4M3 && dtype <= KT_DTYPE_F8_E8M0);
}

/* Does the reference, which takes all that has a meaning, take this? */
static bool has_meaning(const struct own_shape *shape)
{
    bool integers = shape->dtype == KT_DTYPE_I8 || shape->dtype == KT_DTYPE_INT4;
    bool numbers = may_scale(shape->dtype) || integers || shape->dtype == KT_DTYPE_F4_E2M1 ||
                   (shape->dtype >= KT_DTYPE_Q4_0 && is_dtype(shape->dtype) &&
                    shape->dtype != KT_DTYPE_Q8_1 && shape->dtype != KT_DTYPE_Q8_K);
    bool scaled = shape->scale_dtype ? may_scale(shape->scale_dtype) : !integers;
    bool shifted = !shape->zero_dtype || (shape->zero_dtype == KT_DTYPE_U8 && shape->dtype == KT_DTYPE_INT4);
    return numbers && scaled && shifted;
}

static void name_shape(const struct own_shape *shape, char *text, size_t size)
{
    (void)snprintf(text, size, "%s (%u), scales %s (%u), zeros %s (%u)", kt_dtype_name(shape->dtype),
                   shape->dtype, kt_dtype_name(shape->scale_dtype), shape->scale_dtype,
                   kt_dtype_name(shape->zero_dtype), shape->zero_dtype);
}

static void judge(const char *backend, const struct own_shape *shape, enum kt_status status,
                  const struct kt_error *error)
{
    char text[160];
    name_shape(shape, text, sizeof text);
    if (strcmp(backend, "reference") == 0)
        ck_assert_msg((status == KT_OK) == has_meaning(shape), "%s: %s: %s", text, kt_status_name(status),
                      status == KT_OK ? "" : error->message);
    if (status != KT_OK)
        ck_assert_msg(status == KT_E_UNSUPPORTED || status == KT_E_INVALID || status == KT_E_FORMAT,
                      "%s: %s: %s", text, kt_status_name(status), error->message);
    if (!has_meaning(shape))
        ck_assert_msg(status != KT_OK, "%s by %s: what have they become?", text, backend);
}

/* What a linear was loaded with is what it computes with. */
static void compare_rows(const struct kt_linear *linear, const struct kt_view *view)
{
    static float loaded[COLS], expected[COLS];
    ck_ok(kt_view_row(view, ROWS - 1, expected, &ck_error));
    ck_ok(kt_linear_weights(linear, ROWS - 1, 1, loaded, &ck_error));
    ck_assert_mem_eq(loaded, expected, sizeof loaded);
}

static void run_linear(const struct kt_linear *linear)
{
    static float input[COLS], output[ROWS];
    struct kt_linear_output to = {.linear = linear, .output = output, .output_dtype = KT_DTYPE_F32};
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    batch.outputs = &to;
    batch.n_outputs = batch.n_tokens = 1;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    ck_ok(kt_linear_forward(&batch, &ck_error));
}

static void try_linear(const char *backend, struct kt_linear *linear, const struct own_shape *shape)
{
    struct kt_error error = {KT_OK, ""};
    uint64_t state = shape->dtype * 64 + shape->scale_dtype;
    struct kt_view view;
    struct kt_plan plan;
    float row[COLS];
    ck_assert(own_view(0, shape, &state, &view));
    enum kt_status status = kt_view_row(&view, ROWS / 2, row, &error);
    judge("reference", shape, status, &error);
    status = kt_linear_plan(linear, &view, 0, &plan, &error);
    if (shape->scale_dtype && !may_scale(shape->scale_dtype))
        ck_assert_msg(status != KT_OK, "a plan for %s with scales in %s", kt_dtype_name(shape->dtype),
                      kt_dtype_name(shape->scale_dtype));
    status = kt_linear_load(linear, &view, NULL, &error);
    judge(backend, shape, status, &error);
    if (status != KT_OK)
        return;
    run_linear(linear);
    if (strcmp(backend, "reference") == 0)
        compare_rows(linear, &view);
}

/* All three projections in this dtype; their strides differ. */
static void make_expert(const struct own_shape *shape, struct kt_expert *expert)
{
    struct kt_view *const views[] = {&expert->gate, &expert->up, &expert->down};
    uint64_t state = shape->dtype;
    memset(expert, 0, sizeof *expert);
    for (unsigned p = 0; p < 3; p++) {
        struct own_shape own = *shape;
        own.way = (shape->dtype + p) % OWN_WAYS & ~(unsigned)OWN_GAPS;
        own.scale_way = (shape->scale_dtype + p) % OWN_WAYS;
        ck_assert(own_view(p, &own, &state, views[p]));
    }
}

static void try_linears(const char *backend, struct kt_context *context)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct own_shape shape = {.rows = ROWS, .cols = COLS, .group_rows = 1};
    struct kt_linear *linear;
    const uint32_t end = end_of_dtypes();
    params.rows = ROWS;
    params.cols = COLS;
    params.max_tokens = 1;
    params.backend = backend;
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));
    for (shape.dtype = 0; shape.dtype < end; shape.dtype++)
        for (shape.scale_dtype = 0; shape.scale_dtype < end; shape.scale_dtype++) {
            shape.way = shape.dtype % OWN_WAYS;
            shape.scale_way = (shape.dtype / 2 + shape.scale_dtype) % OWN_WAYS;
            shape.group_cols = shape.scale_dtype % 2 ? COLS : 32;
            shape.zero_dtype = KT_DTYPE_NONE;
            try_linear(backend, linear, &shape);
            shape.zero_dtype = KT_DTYPE_U8;
            try_linear(backend, linear, &shape);
            shape.zero_dtype = shape.scale_dtype;
            shape.scale_dtype = KT_DTYPE_F32;
            try_linear(backend, linear, &shape);
            shape.scale_dtype = shape.zero_dtype;
        }
    kt_linear_destroy(linear);
}

static void try_layers(const char *backend, struct kt_context *context)
{
    static const uint32_t dtypes[] = {KT_DTYPE_INT4, KT_DTYPE_I8, KT_DTYPE_F8_E4M3};
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_store_params store = KT_STORE_PARAMS_INIT;
    struct own_shape shape = {.rows = HIDDEN, .cols = HIDDEN, .group_rows = 1, .group_cols = HIDDEN};
    struct kt_error error = {KT_OK, ""};
    struct kt_layer *layer;
    const uint32_t end = end_of_dtypes();
    sandbox_folder("store");
    store.folder = sandbox_path("store");
    params.n_experts = params.top_k = params.max_tokens = 1;
    params.hidden_size = params.intermediate_size = HIDDEN;
    params.backend = backend;
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    for (int d = 0; d < 3; d++)
        for (shape.scale_dtype = 0; shape.scale_dtype < end; shape.scale_dtype++) {
            struct kt_expert expert;
            shape.dtype = dtypes[d];
            make_expert(&shape, &expert);
            judge(backend, &shape, kt_layer_load(layer, &expert, 1, &error), &error);
            if (!has_meaning(&shape))
                ck_assert_int_ne(kt_layer_store_experts(layer, &expert, 1, 0, &store, &error), KT_OK);
        }
    kt_layer_destroy(layer);
}

START_TEST(every_dtype)
{
    sandbox_open();
    struct kt_context *context = open_context(backends[_i]);
    if (context) {
        try_linears(backends[_i], context);
        try_layers(backends[_i], context);
    }
    kt_context_destroy(context);
    sandbox_close();
}
END_TEST

/* A linear's load with scale `at` of row 3 and column 32 made these bytes. */
static void try_scale(struct kt_linear *linear, const struct kt_view *view, const uint8_t *bytes,
                      uint32_t size, bool fine)
{
    const struct kt_scales *scales = &view->scales;
    uint8_t *one = (uint8_t *)(uintptr_t)scales->data + 3 * scales->row_stride + scales->col_stride;
    memcpy(one, bytes, size);
    if (fine)
        ck_ok(kt_linear_load(linear, view, NULL, &ck_error));
    else
        ck_fails(kt_linear_load(linear, view, NULL, &ck_error), KT_E_FORMAT, "the scale of row 3, column 32");
}

/* A scale that is not finite, or negative where it must not be, is found in every type, dense or not. */
START_TEST(odd_scales_are_found)
{
    static const struct {
        uint32_t dtype, size;
        uint8_t infinite[8], negative[8];
    } odd[] = {{KT_DTYPE_F32, 4, {0, 0, 0x80, 0x7f}, {0, 0, 0x80, 0xbf}},
               {KT_DTYPE_F16, 2, {0, 0x7c}, {0, 0xbc}},
               {KT_DTYPE_BF16, 2, {0x80, 0x7f}, {0x80, 0xbf}},
               {KT_DTYPE_F64, 8, {0, 0, 0, 0xf0, 0xff, 0xff, 0xef, 0x47}, {0, 0, 0, 0, 0, 0, 0xf0, 0xbf}},
               {KT_DTYPE_F8_E4M3, 1, {0x7f}, {0xb8}},
               {KT_DTYPE_F8_E5M2, 1, {0x7c}, {0xbc}},
               {KT_DTYPE_F8_E8M0, 1, {0xff}, {1}}}; /* none is negative */
    struct kt_context *context = fixture_context(1);
    struct own_shape shape = {.rows = ROWS, .cols = COLS, .group_rows = 1, .group_cols = 32};
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear *linear;
    params.rows = ROWS;
    params.cols = COLS;
    params.max_tokens = 1;
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));
    for (unsigned i = 0; i < 16 * sizeof odd / sizeof odd[0]; i++) {
        struct kt_view view;
        uint64_t state = i;
        shape.dtype = i & 1 ? KT_DTYPE_I8 : KT_DTYPE_F8_E4M3;
        shape.scale_dtype = odd[i / 16].dtype;
        shape.scale_way = i / 2 % 8;
        ck_assert(own_view(0, &shape, &state, &view));
        ck_ok(kt_linear_load(linear, &view, NULL, &ck_error));
        try_scale(linear, &view, odd[i / 16].infinite, odd[i / 16].size, false);
        try_scale(linear, &view, odd[i / 16].negative, odd[i / 16].size,
                  i & 1 || shape.scale_dtype == KT_DTYPE_F8_E8M0);
    }
    kt_linear_destroy(linear);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("own_weights");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, every_dtype, 0, BACKENDS);
    tcase_add_test(tests, odd_scales_are_found);
    return run_tests("own_weights", tests);
}
