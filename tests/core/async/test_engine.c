/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose experts lie half on a GPU: each layer's sum is that of all its experts on the CPU, with
 * deferral that of the rule; masks change while it serves, and two models share a context. */
#include "tests/core/async/engine/engine.h"
#include "tests/support/suite.h"

#include <stdlib.h>

static struct kt_context *open_context(void)
{
    static const char *const settings[] = {"core.threads=2", "core.queue_depth=8", "core.spin_us=50"};
    return fixture_context_with(settings, 3);
}

static const struct engine_params models[] = {
    {.hidden = 24, .seed = 3, .input_dtype = KT_DTYPE_F32},
    {.hidden = 24, .seed = 4, .input_dtype = KT_DTYPE_F32, .moves = true},
    {.hidden = 40, .seed = 5, .input_dtype = KT_DTYPE_BF16, .max_deferred = 2, .moves = true},
    {.hidden = 24, .seed = 6, .input_dtype = KT_DTYPE_F32, .max_deferred = 1, .per_token = 1, .moves = true},
    {.hidden = 24, .seed = 7, .input_dtype = KT_DTYPE_F32, .max_deferred = 9, .moves = true, .instance = 1},
};
enum { MODELS = sizeof models / sizeof models[0], PASSES = 30 };

/* Sizes that were captured, smaller ones and larger ones. */
static uint32_t size_of(int pass)
{
    static const uint32_t sizes[] = {1, 2, 6, 3, 7, 1, 5, 20, 4, 17};
    return sizes[pass % 10];
}

START_TEST(sums_are_those_of_the_cpu)
{
    static struct engine engine;
    static struct engine_plan eager;
    struct kt_context *context = open_context();
    engine_open(&engine, context, &models[_i]);
    for (int pass = 0; pass < PASSES; pass++) {
        engine_launch(&engine, size_of(pass), &eager);
        engine_synchronize(&engine, &eager);
        engine_check(&engine);
    }
    ck_assert(!models[_i].moves == (engine.n_moves == 0));
    engine_close(&engine);
    kt_context_destroy(context);
}
END_TEST

/* Both streams run at the same time; the second pair has the same sizes and differs by its instance only. */
START_TEST(two_models_at_once)
{
    static struct engine engine[2];
    static struct engine_plan eager[2];
    static const int pairs[][2] = {{1, 2}, {3, 4}, {0, 4}};
    struct kt_context *context = open_context();
    for (int m = 0; m < 2; m++)
        engine_open(&engine[m], context, &models[pairs[_i][m]]);
    for (int pass = 0; pass < PASSES; pass++) {
        for (int m = 0; m < 2; m++)
            engine_launch(&engine[m], size_of(pass + 3 * m), &eager[m]);
        for (int m = 0; m < 2; m++) {
            engine_synchronize(&engine[m], &eager[m]);
            engine_check(&engine[m]);
        }
    }
    engine_close(&engine[0]); /* the other one goes on */
    for (int pass = 0; pass < 10; pass++) {
        engine_launch(&engine[1], size_of(pass), &eager[1]);
        engine_synchronize(&engine[1], &eager[1]);
        engine_check(&engine[1]);
    }
    engine_close(&engine[1]);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("engine");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, sums_are_those_of_the_cpu, 0, MODELS);
    tcase_add_loop_test(tests, two_models_at_once, 0, 3);
    return run_tests("engine", tests);
}
