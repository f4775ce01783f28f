/* SPDX-License-Identifier: Apache-2.0 */
/* test_deterministic.c - core.deterministic: a token gives the same bits alone and in every batch, through
 * experts and through linears of every backend, at its best level here and at the scalar one. */
#include "tests/support/layer_fixture.h"
#include "tests/support/random_view.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct random_source sources[] = {
    {"reference", KT_DTYPE_Q8_0, 32, 34, 1, 0x10, 0},    {"llamafile", KT_DTYPE_Q8_0, 32, 34, 1, 0x10, 0},
    {"llamafile", KT_DTYPE_F32, 1, 4, 3, 0x3d, 0},       {"bf16", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0},
    {"rawint4", KT_DTYPE_INT4, 8, 4, 0, 0x77, 32},       {"rawint4", KT_DTYPE_INT4, 8, 4, 0, 0x77, 16},
    {"avx512_fp8", KT_DTYPE_F8_E4M3, 1, 1, 0, 0x33, 32}, {"amx_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0},
    {"amx_int4", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0},       {"blis_int8", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0},
    {"kml_arm", KT_DTYPE_BF16, 1, 2, 1, 0x3d, 0},
};
enum { SOURCES = sizeof sources / sizeof sources[0], TOKENS = 45, HIDDEN = 192, INTERMEDIATE = 128 };

static const uint32_t batches[] = {1, 2, 3, 4, 5, 9, 20, 33, TOKENS};
enum { BATCHES = sizeof batches / sizeof batches[0] };

static struct kt_context *make_context(int i, const char *setting)
{
    if (getenv("KT_TEST_QUICK") && i / 2 % 3 != 0)
        return NULL;
    return random_view_context(&sources[i / 2], i % 2 ? "scalar" : NULL, 2, NULL, setting);
}

static float *make_input(void)
{
    float *input = malloc(TOKENS * HIDDEN * sizeof *input);
    uint64_t state = 5;
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        input[i] = (float)fixture_gaussian(&state);
    input[2 * HIDDEN + 7] = NAN;
    input[6 * HIDDEN + 70] = INFINITY;
    return input;
}

/* Of a NaN only that it is one: its sign depends on the order of an addition's operands. */
static bool is_same(const float *a, const float *b)
{
    for (int i = 0; i < HIDDEN; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* Tokens 0 .. n - 1 in one forward each time; the first batch has one. */
static void compare(const char *what, int i,
                    void (*run)(void *data, uint32_t n, const float *input, float *output), void *data)
{
    float *input = make_input(), *output = malloc(TOKENS * HIDDEN * sizeof *output);
    float *alone = malloc(TOKENS * HIDDEN * sizeof *alone);
    for (int t = 0; t < TOKENS; t++)
        run(data, 1, input + t * HIDDEN, alone + t * HIDDEN);
    for (int b = 0; b < BATCHES; b++) {
        run(data, batches[b], input, output);
        for (uint32_t t = 0; t < batches[b]; t++)
            ck_assert_msg(is_same(alone + t * HIDDEN, output + t * HIDDEN),
                          "%s of %s, %s%s: token %u in a batch of %u differs from itself alone", what,
                          sources[i / 2].backend, kt_dtype_name(sources[i / 2].dtype),
                          i % 2 ? ", scalar" : "", t, batches[b]);
    }
    free(input);
    free(output);
    free(alone);
}

/* All tokens ask for the same two experts, so these get as many rows as there are tokens. */
static void run_layer(void *data, uint32_t n, const float *input, float *output)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    int64_t ids[2 * TOKENS];
    float weights[2 * TOKENS];
    for (uint32_t i = 0; i < 2 * n; i++) {
        ids[i] = 1 + i % 2;
        weights[i] = i % 2 ? 0.75f : 0.5f;
    }
    forward.n_tokens = n;
    forward.expert_ids = ids;
    forward.router_weights = weights;
    forward.input = input;
    forward.output = output;
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    ck_ok(kt_layer_forward(data, &forward, &ck_error));
}

static struct kt_layer *load_layer(struct kt_context *context, const char *backend,
                                   const struct random_source *source)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_expert experts[3];
    struct kt_layer *layer;
    for (int e = 0; e < 3; e++)
        experts[e] = (struct kt_expert){.gate = random_view(source, INTERMEDIATE, HIDDEN),
                                        .up = random_view(source, INTERMEDIATE, HIDDEN),
                                        .down = random_view(source, HIDDEN, INTERMEDIATE)};
    params.n_experts = 3;
    params.top_k = 2;
    params.hidden_size = HIDDEN;
    params.intermediate_size = INTERMEDIATE;
    params.max_tokens = 64;
    params.backend = backend;
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    ck_ok(kt_layer_load(layer, experts, 3, &ck_error));
    for (int e = 0; e < 3; e++) {
        random_view_free(&experts[e].gate);
        random_view_free(&experts[e].up);
        random_view_free(&experts[e].down);
    }
    return layer;
}

START_TEST(experts)
{
    struct kt_context *context = make_context(_i, "core.deterministic=yes");
    if (!context)
        return;
    struct kt_layer *layer = load_layer(context, sources[_i / 2].backend, &sources[_i / 2]);
    compare("experts", _i, run_layer, layer);
    kt_layer_destroy(layer);
    kt_context_destroy(context);
}
END_TEST

static void run_linear(void *data, uint32_t n, const float *input, float *output)
{
    struct kt_linear_output to = {.linear = data, .output = output, .output_dtype = KT_DTYPE_F32};
    struct kt_linear_batch batch = KT_LINEAR_BATCH_INIT;
    batch.outputs = &to;
    batch.n_outputs = 1;
    batch.n_tokens = n;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    ck_ok(kt_linear_forward(&batch, &ck_error));
}

START_TEST(linears)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_context *context = make_context(_i, "core.deterministic=yes");
    struct kt_linear *linear;
    if (!context)
        return;
    struct kt_view view = random_view(&sources[_i / 2], HIDDEN, HIDDEN);
    params.rows = params.cols = HIDDEN;
    params.max_tokens = 64;
    params.backend = sources[_i / 2].backend;
    ck_ok(kt_linear_create(context, &params, &linear, &ck_error));
    ck_ok(kt_linear_load(linear, &view, NULL, &ck_error));
    compare("a linear", _i, run_linear, linear);
    kt_linear_destroy(linear);
    kt_context_destroy(context);
    random_view_free(&view);
}
END_TEST

/* A plugin of an ABI that knows no kt_layout.deterministic gets one row at a time. */
START_TEST(an_older_plugin)
{
    char module[512];
    (void)snprintf(module, sizeof module, "plugin.older.module=%s",
                   sandbox_plugin("older", "lib/kt_older.so"));
    const char *const settings[] = {module, "core.deterministic=yes", "core.strict=yes", "core.threads=2"};
    struct kt_context *context = fixture_context_with(settings, 4);
    struct kt_layer *layer = load_layer(context, "older", &sources[0]);
    compare("experts", 0, run_layer, layer);
    kt_layer_destroy(layer);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("deterministic");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, experts, 0, 2 * SOURCES);
    tcase_add_loop_test(tests, linears, 0, 2 * SOURCES);
    tcase_add_test(tests, an_older_plugin);
    return run_tests("deterministic", tests);
}
