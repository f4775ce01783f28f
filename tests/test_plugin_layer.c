/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that run through a dlopened plugin, one that packs: the same results as by the definition.
 */
#include "tests/layer_fixture.h"
#include "tests/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void load(struct fixture *fixture, uint32_t threads, uint32_t panel_rows)
{
    char module[256], count[64], panel[64];
    struct kt_layer_params params = fixture_params(fixture);
    struct kt_error error = {0};
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s",
                   sandbox_plugin("fake", "lib/kt_fake.so"));
    (void)snprintf(count, sizeof count, "core.threads=%u", threads);
    (void)snprintf(panel, sizeof panel, "plugin.fake.panel_rows=%u", panel_rows);
    fixture->context =
        fixture_context_with((const char *const[]){module, count, panel, "core.strict=yes"}, 4);
    params.backend = "fake";
    ck_assert_msg(kt_layer_create(fixture->context, &params, &fixture->layer, &error) == KT_OK,
                  "%s", error.message);
    ck_assert_msg(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &error) ==
                      KT_OK,
                  "%s", error.message);
    struct kt_layer_info info;
    kt_layer_info(fixture->layer, &info);
    ck_assert_str_eq(info.backend, "fake");
    ck_assert_str_eq(info.level, "swift");
}

static void run(struct fixture *fixture)
{
    struct kt_forward forward = fixture_forward(fixture);
    struct kt_error error = {0};
    ck_assert_msg(kt_layer_forward(fixture->layer, &forward, &error) == KT_OK, "%s", error.message);
}

/* Odd shapes whose last panels are not full, all activations, with and without biases. */
START_TEST(results_are_those_of_the_definition)
{
    struct fixture fixture = {
        .n_experts = 2 + (uint32_t)_i % 5,
        .top_k = 1 + (uint32_t)_i % 2,
        .n_tokens = 1 + (uint32_t)_i * 3,
        .max_tokens = 16,
        .hidden = 5 + (uint64_t)_i * 7,
        .intermediate = 3 + (uint64_t)_i * 5,
        .activation = (uint32_t)_i % 3,
        .limit = 0.7f,
        .alpha = 1.702f,
        .bias = _i % 2,
    };
    fixture_fill(&fixture, (uint64_t)_i + 900);
    load(&fixture, 1 + (uint32_t)_i % 4, 1 + (uint32_t)_i);
    run(&fixture);
    fixture_model(&fixture);
    ck_assert_double_le(fixture_error(&fixture), 5e-6);
    fixture_free(&fixture);
}
END_TEST

START_TEST(threads_and_panels_do_not_change_a_bit)
{
    float first[20 * 33];
    for (uint32_t round = 0; round < 6; round++) {
        struct fixture fixture = {.n_experts = 4,
                                  .top_k = 2,
                                  .n_tokens = 20,
                                  .max_tokens = 20,
                                  .hidden = 33,
                                  .intermediate = 18};
        fixture_fill(&fixture, 31);
        load(&fixture, 1 + round, round % 2 ? 3 : 8);
        run(&fixture);
        if (round == 0)
            memcpy(first, fixture.output, sizeof first);
        else
            ck_assert_mem_eq(first, fixture.output, sizeof first);
        fixture_free(&fixture);
    }
}
END_TEST

/* Inputs that all three formats hold exactly give the same output. */
START_TEST(formats_of_the_input)
{
    struct fixture fixture = {.n_experts = 3,
                              .top_k = 2,
                              .n_tokens = 7,
                              .max_tokens = 7,
                              .hidden = 24,
                              .intermediate = 10};
    uint16_t bf16[7 * 24], f16[7 * 24];
    float wanted[7 * 24], out[7 * 24];
    fixture_fill(&fixture, 77);
    for (size_t i = 0; i < 7 * 24; i++) {
        static const uint16_t half[] = {0x0000, 0x3800, 0x3c00, 0x4000, 0xbc00, 0xc200};
        static const float number[] = {0, 0.5f, 1, 2, -1, -3};
        uint32_t bits;
        fixture.input[i] = number[i % 6];
        memcpy(&bits, &number[i % 6], sizeof bits);
        bf16[i] = (uint16_t)(bits >> 16);
        f16[i] = half[i % 6];
    }
    load(&fixture, 2, 4);
    run(&fixture);
    memcpy(wanted, fixture.output, sizeof wanted);
    for (int kind = 0; kind < 2; kind++) {
        struct kt_forward forward = fixture_forward(&fixture);
        struct kt_error error = {0};
        forward.input = kind ? f16 : bf16;
        forward.input_dtype = kind ? KT_DTYPE_F16 : KT_DTYPE_BF16;
        forward.output = out;
        ck_assert_msg(kt_layer_forward(fixture.layer, &forward, &error) == KT_OK, "%s",
                      error.message);
        ck_assert_mem_eq(out, wanted, sizeof wanted);
    }
    fixture_free(&fixture);
}
END_TEST

START_TEST(packed_weights_are_the_source)
{
    struct fixture fixture = {.n_experts = 3,
                              .top_k = 2,
                              .n_tokens = 1,
                              .max_tokens = 4,
                              .hidden = 13,
                              .intermediate = 11};
    float row[13];
    fixture_fill(&fixture, 5);
    load(&fixture, 2, 4);
    for (uint32_t e = 0; e < 3; e++) {
        for (uint64_t r = 0; r < 11; r++) {
            size_t at = (e * 11 + r) * 13;
            ck_assert_int_eq(kt_layer_weights(fixture.layer, e, KT_GATE, r, 1, row, NULL), KT_OK);
            ck_assert_mem_eq(row, fixture.gate + at, 13 * sizeof *row);
            ck_assert_int_eq(kt_layer_weights(fixture.layer, e, KT_UP, r, 1, row, NULL), KT_OK);
            ck_assert_mem_eq(row, fixture.up + at, 13 * sizeof *row);
        }
        for (uint64_t r = 0; r < 13; r++) {
            ck_assert_int_eq(kt_layer_weights(fixture.layer, e, KT_DOWN, r, 1, row, NULL), KT_OK);
            ck_assert_mem_eq(row, fixture.down + (e * 13 + r) * 11, 11 * sizeof *row);
        }
    }
    fixture_free(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin_layer");
    TCase *tests = tcase_create("plugin_layer");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, results_are_those_of_the_definition, 0, 12);
    tcase_add_test(tests, threads_and_panels_do_not_change_a_bit);
    tcase_add_test(tests, formats_of_the_input);
    tcase_add_test(tests, packed_weights_are_the_source);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
