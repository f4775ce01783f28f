/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that run through a dlopened plugin, one that packs: the same results as by the definition.
 */
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void load_level(struct fixture *fixture, uint32_t threads, uint32_t panel_rows, const char *level)
{
    char module[256], count[64], panel[64], wanted[64];
    struct kt_layer_params params = fixture_params(fixture);
    struct kt_error error = {0};
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    (void)snprintf(count, sizeof count, "core.threads=%u", threads);
    (void)snprintf(panel, sizeof panel, "plugin.fake.panel_rows=%u", panel_rows);
    (void)snprintf(wanted, sizeof wanted, "plugin.fake.level=%s", level);
    fixture->context =
        fixture_context_with((const char *const[]){module, count, panel, wanted, "core.strict=yes"}, 5);
    params.backend = "fake";
    ck_assert_msg(kt_layer_create(fixture->context, &params, &fixture->layer, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_msg(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &error) == KT_OK, "%s",
                  error.message);
    struct kt_layer_info info;
    kt_layer_info(fixture->layer, &info);
    ck_assert_str_eq(info.backend, "fake");
    ck_assert_str_eq(info.level, level);
}

static void load(struct fixture *fixture, uint32_t threads, uint32_t panel_rows)
{
    load_level(fixture, threads, panel_rows, "swift");
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
        .activation = fixture_activation(_i),
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

/* A plugin is never called with an activation that its ABI lacks; other backends compute it. */
START_TEST(newer_activations_and_an_older_plugin)
{
    struct fixture fixture = {.activation = KT_ACTIVATION_GELU_TANH};
    struct kt_error error = {0};
    char module[256];
    (void)snprintf(module, sizeof module, "plugin.older.module=%s",
                   sandbox_plugin("older", "lib/kt_older.so"));
    fixture_fill(&fixture, 3);
    fixture.context = fixture_context_with((const char *const[]){module, "core.strict=yes"}, 2);
    struct kt_layer_params params = fixture_params(&fixture);
    params.backend = "older";
    ck_assert_int_eq(kt_layer_create(fixture.context, &params, &fixture.layer, &error), KT_OK);
    ck_assert_int_eq(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &error),
                     KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(error.message,
                         "it was built for plugin ABI 1.4, which lacks the activation gelu_tanh; build it "
                         "again with the headers of this kt-kernel") != NULL,
                  "%s", error.message);
    kt_layer_destroy(fixture.layer);
    params.activation = KT_ACTIVATION_SWIGLUOAI;
    params.limit = 7;
    ck_assert_int_eq(kt_layer_create(fixture.context, &params, &fixture.layer, &error), KT_OK);
    ck_assert_int_eq(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &error), KT_OK);
    fixture_free(&fixture);
}
END_TEST

START_TEST(threads_and_panels_do_not_change_a_bit)
{
    float first[20 * 33];
    for (uint32_t round = 0; round < 6; round++) {
        struct fixture fixture =
            {.n_experts = 4, .top_k = 2, .n_tokens = 20, .max_tokens = 20, .hidden = 33, .intermediate = 18};
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

/* A layer of a context whose only plugin packs as `rounds` says. */
static void open_rounding(struct fixture *fixture, const char *rounds, const char *backend)
{
    char module[256], wanted[64];
    struct kt_layer_params params = fixture_params(fixture);
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    (void)snprintf(wanted, sizeof wanted, "plugin.fake.rounds=%s", rounds);
    fixture->context = fixture_context_with((const char *const[]){module, wanted, "core.threads=2"}, 3);
    params.backend = backend;
    ck_ok(kt_layer_create(fixture->context, &params, &fixture->layer, &ck_error));
}

START_TEST(nothing_is_rounded_unasked)
{
    struct fixture fixture = {0};
    struct kt_plan plan;
    struct kt_layer_info info;
    struct kt_error error;
    fixture_fill(&fixture, 3);
    open_rounding(&fixture, "yes", NULL);
    ck_assert_int_eq(kt_layer_plan(fixture.layer, fixture.experts, &plan, &error), KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "fake (a guess)") &&
                      strstr(error.message, "backend = fake in [core]"),
                  "%s", error.message);
    ck_assert_uint_eq(plan.n_candidates, 2);
    ck_assert_ptr_nonnull(strstr(plan.candidate[0].reason, "round the weights again (a guess)"));
    ck_assert_ptr_nonnull(strstr(plan.candidate[1].reason, "is slow"));
    ck_assert_int_eq(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &error),
                     KT_E_UNSUPPORTED);
    kt_layer_info(fixture.layer, &info);
    ck_assert_str_eq(info.rounding, "");
    fixture_free(&fixture);
}
END_TEST

START_TEST(rounding_when_asked)
{
    struct fixture fixture = {0};
    struct kt_plan plan;
    struct kt_layer_info info;
    fixture_fill(&fixture, 3);
    open_rounding(&fixture, "yes", "fake");
    ck_ok(kt_layer_plan(fixture.layer, fixture.experts, &plan, &ck_error));
    ck_assert_str_eq(plan.rounding, "a guess");
    ck_ok(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &ck_error));
    kt_layer_info(fixture.layer, &info);
    ck_assert_str_eq(info.backend, "fake");
    ck_assert_str_eq(info.rounding, "a guess");
    fixture_free(&fixture);
}
END_TEST

/* Four experts of some 3 MiB each, or of a few bytes. */
START_TEST(short_memory_takes_the_smaller_form)
{
    static const char *const limits[] = {"core.memory_mib=64", "core.memory_mib=1", "core.memory_mib=0"};
    for (int i = 0; i < 3; i++) {
        struct fixture fixture = {0};
        struct kt_plan plan;
        struct kt_layer_info info;
        char module[256];
        struct kt_layer_params params;
        bool wanted = i == 1;
        fixture_fill(&fixture, 3);
        params = fixture_params(&fixture);
        params.backend = NULL;
        (void)snprintf(module, sizeof module, "plugin.fake.module=%s",
                       sandbox_plugin("fake", "lib/kt_fake.so"));
        fixture.context = fixture_context_with((const char *const[]){module, "plugin.fake.roomy=yes",
                                                                     "core.threads=2", limits[i]},
                                               4);
        ck_ok(kt_layer_create(fixture.context, &params, &fixture.layer, &ck_error));
        ck_ok(kt_layer_plan(fixture.layer, fixture.experts, &plan, &ck_error));
        ck_assert_int_eq(*plan.compact != '\0', wanted);
        ck_assert(!wanted ||
                  (strstr(plan.compact, "this layer would take") && strstr(plan.compact, "allowed")));
        ck_assert_int_eq(plan.weight_size < 3 << 20, wanted);
        ck_ok(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &ck_error));
        kt_layer_info(fixture.layer, &info);
        ck_assert_uint_eq(info.packed_size, plan.weight_size);
        run(&fixture);
        fixture_model(&fixture);
        ck_assert_double_le(fixture_error(&fixture), 5e-6);
        fixture_free(&fixture);
    }
}
END_TEST

START_TEST(what_is_kept_needs_no_name)
{
    struct fixture fixture = {0};
    struct kt_plan plan;
    fixture_fill(&fixture, 3);
    open_rounding(&fixture, "no", NULL);
    ck_ok(kt_layer_plan(fixture.layer, fixture.experts, &plan, &ck_error));
    ck_assert_str_eq(plan.rounding, "");
    ck_assert_int_eq(plan.candidate[0].chosen, 1);
    fixture_free(&fixture);
}
END_TEST

/* Inputs that all three formats hold exactly give the same output. */
START_TEST(formats_of_the_input)
{
    struct fixture fixture =
        {.n_experts = 3, .top_k = 2, .n_tokens = 7, .max_tokens = 7, .hidden = 24, .intermediate = 10};
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
        ck_assert_msg(kt_layer_forward(fixture.layer, &forward, &error) == KT_OK, "%s", error.message);
        ck_assert_mem_eq(out, wanted, sizeof wanted);
    }
    fixture_free(&fixture);
}
END_TEST

START_TEST(packed_weights_are_the_source)
{
    struct fixture fixture =
        {.n_experts = 3, .top_k = 2, .n_tokens = 1, .max_tokens = 4, .hidden = 13, .intermediate = 11};
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

/* A plugin's numbers and texts are checked before they are used; each mistake has its own words. */
START_TEST(a_plugin_that_lies)
{
    static const struct {
        const char *lie, *words;
    } rows[] = {
        {"panels", "panel_rows[1] = 18446744073709551615"},
        {"size", "scratch_size"},
        {"y", "y_dtype = 77"},
        {"shape", "changed the requested shape"},
        {"text", "AAAA"},
        {"no_text", "without a reason"},
        {"pack", "packing failed without a reason"},
        {"tuned", "work = 17; 1 to 16 is possible"},
    };
    char module[256], lie[64];
    struct fixture fixture = {0};
    struct kt_error error = {0};
    fixture_fill(&fixture, 3);
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    (void)snprintf(lie, sizeof lie, "plugin.fake.lie=%s", rows[_i].lie);
    fixture.context = fixture_context_with((const char *const[]){module, lie, "core.strict=yes"}, 3);
    struct kt_layer_params params = fixture_params(&fixture);
    params.backend = "fake";
    ck_assert_int_eq(kt_layer_create(fixture.context, &params, &fixture.layer, &error), KT_OK);
    ck_assert_int_ne(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &error), KT_OK);
    ck_assert_msg(strstr(error.message, rows[_i].words) != NULL, "%s", error.message);
    fixture_free(&fixture);
}
END_TEST

/* Each stage fails, of whole experts and of experts that are shared out, of the first chunk of the batch and
 * of the last: the forward and the ticket say so, nothing else of the batch is written, and what follows is
 * right. */
static const struct {
    float input;
    const char *words;
} failures[] = {
    {2048, "failed in gather of expert 0: gather was asked to fail"},
    {4096, "failed in act_pack: act_pack was asked to fail"},
    {8192, "failed in gate_up of expert 0: gate_up was asked to fail"},
    {16384, "failed in act_pack of h of expert 0: act_pack of h was asked to fail"},
    {32768, "failed in down of expert 0: down was asked to fail"},
    {65536, "failed in gate_up of expert 0: no reason given"},
};
enum { N_FAILURES = sizeof failures / sizeof failures[0] };

static void expect_failure(enum kt_status status, const struct kt_error *error, const char *words)
{
    ck_assert_int_eq(status, KT_E_BACKEND);
    ck_assert_int_eq(error->status, KT_E_BACKEND);
    ck_assert_msg(strstr(error->message, ": backend fake (level scalar) failed in ") != NULL &&
                      strstr(error->message, words) != NULL,
                  "%s", error->message);
}

/* Expert 0 gets the token that fails, and all tokens of a batch that is to be shared out. */
START_TEST(a_stage_that_fails)
{
    bool shared = _i % 2, last = _i / 2 % 2;
    uint32_t threads = _i / 4 % 2 ? 4 : 1, stage = (uint32_t)_i / 8;
    struct fixture fixture = {.n_experts = shared ? 1 : 9,
                              .top_k = 1,
                              .n_tokens = 23,
                              .max_tokens = 10,
                              .hidden = 17,
                              .intermediate = 40};
    float wanted[23 * 17];
    struct kt_error error = {0};
    uint64_t ticket;
    fixture_fill(&fixture, (uint64_t)_i);
    for (uint32_t t = 0; t < fixture.n_tokens; t++)
        fixture.ids[t] = shared ? 0 : t % 9;
    load_level(&fixture, threads, 3, "scalar");
    run(&fixture);
    memcpy(wanted, fixture.output, sizeof wanted);

    struct kt_forward forward = fixture_forward(&fixture);
    uint32_t token = last ? 20 : 0;
    float *input = fixture.input + token * fixture.hidden, kept = *input;
    for (int way = 0; way < 2; way++) {
        fixture.ids[token] = 0;
        *input = failures[stage].input;
        for (size_t i = 0; i < 23 * 17; i++)
            fixture.output[i] = -77;
        enum kt_status status = way ? kt_layer_submit(fixture.layer, &forward, &ticket, &error)
                                    : kt_layer_forward(fixture.layer, &forward, &error);
        if (way) {
            ck_assert_int_eq(status, KT_OK);
            status = kt_wait(fixture.context, ticket, &error);
        }
        expect_failure(status, &error, failures[stage].words);
        for (size_t i = last ? 20 * 17 : 0; i < 23 * 17; i++)
            ck_assert(fixture.output[i] == -77);

        *input = kept;
        fixture.ids[token] = shared ? 0 : token % 9;
        run(&fixture);
        ck_assert_mem_eq(fixture.output, wanted, sizeof wanted);
    }
    fixture_free(&fixture);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("plugin_layer");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, results_are_those_of_the_definition, 0, 12);
    tcase_add_test(tests, newer_activations_and_an_older_plugin);
    tcase_add_test(tests, threads_and_panels_do_not_change_a_bit);
    tcase_add_test(tests, nothing_is_rounded_unasked);
    tcase_add_test(tests, rounding_when_asked);
    tcase_add_test(tests, short_memory_takes_the_smaller_form);
    tcase_add_test(tests, what_is_kept_needs_no_name);
    tcase_add_test(tests, formats_of_the_input);
    tcase_add_test(tests, packed_weights_are_the_source);
    tcase_add_loop_test(tests, a_plugin_that_lies, 0, 8);
    tcase_add_loop_test(tests, a_stage_that_fails, 0, 8 * N_FAILURES);
    return run_tests("plugin_layer", tests);
}
