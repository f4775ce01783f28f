/* SPDX-License-Identifier: Apache-2.0 */
/* Tunables: values of tuned.ini, of parameters and of kt_layer_tune reach the plugin, and wrong ones do not.
 */
#include "core/machine/cpu_model.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORK, VALLEY, MORE_ROWS, MOST = 4 };

/* A layer of 6 x 5 by the plugin fake; `extra` are n more settings. */
static void open_layer(struct fixture *fixture, const char *const *extra, size_t n)
{
    char module[256];
    const char *settings[2 + MOST] = {module, "core.threads=2"};
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    for (size_t i = 0; i < n; i++)
        settings[2 + i] = extra[i];
    fixture->hidden = 6;
    fixture->intermediate = 5;
    fixture_fill(fixture, 77);
    fixture->context = fixture_context_with(settings, 2 + n);
    struct kt_layer_params params = fixture_params(fixture);
    params.backend = "fake";
    ck_ok(kt_layer_create(fixture->context, &params, &fixture->layer, &ck_error));
}

static void load_layer(struct fixture *fixture, const char *const *extra, size_t n)
{
    open_layer(fixture, extra, n);
    ck_ok(kt_layer_load(fixture->layer, fixture->experts, fixture->n_experts, &ck_error));
}

static uint64_t value_of(const struct fixture *fixture, uint32_t index)
{
    struct kt_tunable_info info;
    ck_ok(kt_layer_tunable(fixture->layer, index, &info, &ck_error));
    return info.value;
}

static void run(struct fixture *fixture)
{
    struct kt_forward forward = fixture_forward(fixture);
    ck_ok(kt_layer_forward(fixture->layer, &forward, &ck_error));
}

START_TEST(tunables_are_listed)
{
    struct fixture fixture = {0};
    struct kt_tunable_info info;
    load_layer(&fixture, NULL, 0);
    ck_ok(kt_layer_tunable(fixture.layer, WORK, &info, &ck_error));
    ck_assert_str_eq(info.name, "work");
    ck_assert_str_eq(info.section, "tuned.fake");
    ck_assert_str_eq(info.key, "swift.f32.experts-6x5.work");
    ck_assert_uint_eq(info.minimum, 1);
    ck_assert_uint_eq(info.maximum, 16);
    ck_assert_uint_eq(info.value, 1);
    ck_assert(info.doubling && !info.bits && !info.forbidden);
    ck_assert_uint_eq(value_of(&fixture, VALLEY), 3); /* which layout() says */
    ck_ok(kt_layer_tunable(fixture.layer, MORE_ROWS, &info, &ck_error));
    ck_assert(info.bits && !info.forbidden);
    ck_fails(kt_layer_tunable(fixture.layer, 3, &info, &ck_error), KT_E_RANGE, "level swift of fake has 3");
    fixture_free(&fixture);
}
END_TEST

START_TEST(the_key_that_names_most_wins)
{
    static const char *const settings[] = {"tuned.fake.swift.*.*.work=2",
                                           "tuned.fake.swift.*.experts-6x5.work=4",
                                           "tuned.fake.swift.f32.*.work=8",
                                           "tuned.fake.swift.f32.experts-6x5.work=16"};
    for (size_t n = 0; n <= 4; n++) {
        struct fixture fixture = {0};
        load_layer(&fixture, settings, n);
        ck_assert_uint_eq(value_of(&fixture, WORK), UINT64_C(1) << n);
        ck_assert_uint_eq(value_of(&fixture, VALLEY), 3);
        fixture_free(&fixture);
    }
}
END_TEST

START_TEST(a_layer_is_tuned_while_it_is_loaded)
{
    struct fixture fixture = {.n_tokens = 5, .max_tokens = 5};
    load_layer(&fixture, (const char *const[]){"tuned.fake.swift.f32.*.work=2"}, 1);
    ck_ok(kt_layer_tune(fixture.layer, "work", 16, &ck_error)); /* needs more scratch */
    ck_ok(kt_layer_tune(fixture.layer, "valley", 5, &ck_error));
    ck_assert_uint_eq(value_of(&fixture, WORK), 16);
    ck_assert_uint_eq(value_of(&fixture, VALLEY), 5);
    run(&fixture);
    fixture_model(&fixture);
    ck_assert_double_le(fixture_error(&fixture), 5e-6);
    ck_ok(kt_layer_tune(fixture.layer, "work", 0, &ck_error)); /* not the configured one */
    ck_ok(kt_layer_tune(fixture.layer, "valley", 0, &ck_error));
    ck_assert_uint_eq(value_of(&fixture, WORK), 1);
    ck_assert_uint_eq(value_of(&fixture, VALLEY), 3);
    ck_ok(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &ck_error));
    ck_assert_uint_eq(value_of(&fixture, WORK), 2);
    fixture_free(&fixture);
}
END_TEST

START_TEST(wrong_values_change_nothing)
{
    struct fixture fixture = {0};
    open_layer(&fixture, NULL, 0);
    ck_fails(kt_layer_tune(fixture.layer, "work", 2, &ck_error), KT_E_STATE, "load it first");
    ck_ok(kt_layer_load(fixture.layer, fixture.experts, fixture.n_experts, &ck_error));
    ck_fails(kt_layer_tune(fixture.layer, "work", 17, &ck_error), KT_E_RANGE, "1 to 16");
    ck_fails(kt_layer_tune(fixture.layer, "wok", 2, &ck_error), KT_E_INVALID, "did you mean work?");
    ck_fails(kt_layer_tune(fixture.layer, NULL, 2, &ck_error), KT_E_INVALID, "no tunable NULL");
    ck_fails(kt_layer_tune(NULL, "work", 2, &ck_error), KT_E_INVALID, "is NULL");
    ck_assert_uint_eq(value_of(&fixture, WORK), 1);
    fixture_free(&fixture);
}
END_TEST

/* One of them changes results from 2 rows on. */
START_TEST(bits_stay_where_they_must)
{
    static const char *const settings[] = {"tuned.fake.swift.*.*.more_rows=2", "core.deterministic=yes"};
    float output[2][8 * 6];
    for (size_t n = 1; n <= 2; n++) {
        struct fixture fixture = {.n_experts = 2, .top_k = 2, .n_tokens = 8, .max_tokens = 8};
        struct kt_tunable_info info;
        load_layer(&fixture, settings, n);
        run(&fixture);
        memcpy(output[n - 1], fixture.output, sizeof output[0]);
        ck_ok(kt_layer_tunable(fixture.layer, MORE_ROWS, &info, &ck_error));
        ck_assert_uint_eq(info.value, n == 1 ? 2 : 2048);
        ck_assert_uint_eq(info.forbidden, n == 2);
        if (n == 2)
            ck_fails(kt_layer_tune(fixture.layer, "more_rows", 4, &ck_error), KT_E_UNSUPPORTED,
                     "core.deterministic forbids");
        fixture_free(&fixture);
    }
    ck_assert_mem_ne(output[0], output[1], sizeof output[0]);
}
END_TEST

START_TEST(plans_say_what_is_tuned)
{
    static const char *const settings[] = {"tuned.fake.swift.*.*.work=8",
                                           "tuned.fake.swift.*.experts-6x5.gain=1.065",
                                           "tuned.fake.swift.*.*.more_rows=64", "core.deterministic=yes"};
    static const char *const texts[] =
        {"", "work 8 instead of 1", "work 8 instead of 1; 6.5 % faster",
         "work 8 instead of 1, more_rows 64 instead of 2048 (where bits change); 6.5 % faster",
         "work 8 instead of 1, more_rows ignored for core.deterministic; 6.5 % faster"};
    for (size_t n = 0; n <= 4; n++) {
        struct fixture fixture = {0};
        struct kt_plan plan;
        open_layer(&fixture, settings, n);
        ck_ok(kt_layer_plan(fixture.layer, fixture.experts, &plan, &ck_error));
        ck_assert_str_eq(plan.tuned, texts[n]);
        fixture_free(&fixture);
    }
}
END_TEST

static const struct {
    const char *text, *line, *message;
} wrong[] = {
    {"[tuned.fake]\ncpu = %s\nswift.f32.*.work = 17\n", ":3: ", "must be a number from 1 to 16"},
    {"[tuned.fake]\ncpu = %s\nswift.f32.*.work = 0\n", ":3: ", "must be a number from 1 to 16"},
    {"[tuned.fake]\ncpu = %s\nswift.f32.*.work = 2x\n", ":3: ", "must be a number from 1 to 16"},
    {"[tuned.fake]\ncpu = %s\nswift.f32.*.wark = 2\n", ":3: ", "did you mean work?"},
    {"[tuned.fake]\ncpu = %s\nbrisk.f32.*.work = 2\n", ":3: ", "fake has no level \"brisk\"; it has"},
    {"[tuned.fake]\ncpu = %s\nswift.work = 2\n", ":3: ", "the form is LEVEL.FORMAT.SHAPE.TUNABLE"},
    {"[tuned.fake]\ncpu = %s\nswift..*.work = 2\n", ":3: ", "the form is LEVEL.FORMAT.SHAPE.TUNABLE"},
    {"[tuned.fake]\ncpu = %s\nswift.f32.*.gain = fast\n", ":3: ", "a ratio of times"},
};

START_TEST(settings_that_do_not_fit)
{
    char cpu[KT_CPU_MODEL_SIZE], place[256], module[256];
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_context *context;
    struct kt_backend_info info = {0};
    kt_cpu_model(cpu);
    sandbox_write("home/kt-kernel/tuned.ini", wrong[_i].text, cpu);
    (void)snprintf(place, sizeof place, "%s%s", sandbox_path("home/kt-kernel/tuned.ini"), wrong[_i].line);
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    params.settings = (const char *const[]){module};
    params.n_settings = 1;
    ck_ok(kt_config_create(&params, &config, &ck_error));
    ck_ok(kt_context_create(config, &context, &ck_error));
    for (size_t b = 0; b < kt_context_backend_count(context) && strcmp(info.name ? info.name : "", "fake");
         b++)
        ck_ok(kt_context_backend(context, b, &info, &ck_error));
    ck_assert_int_eq(info.state, KT_BACKEND_FAILED);
    ck_assert_msg(strstr(info.reason, place) && strstr(info.reason, wrong[_i].message), "%s", info.reason);
    kt_context_destroy(context);
    kt_config_destroy(config);
}
END_TEST

START_TEST(values_of_this_cpu_only)
{
    char cpu[KT_CPU_MODEL_SIZE];
    kt_cpu_model(cpu);
    sandbox_write("tuned.ini", /* beside the shipped drop-ins */
                  "[tuned.fake]\ncpu = GenuineIntel-0-0\nswift.f32.*.work = 4\nbrisk.x = 3\n"
                  "[tuned.fake]\ncpu = GenuineIntel-0-1 %s\nswift.f32.*.work = 8\n",
                  cpu);
    struct fixture shipped = {0};
    load_layer(&shipped, NULL, 0);
    ck_assert_uint_eq(value_of(&shipped, WORK), 8);
    fixture_free(&shipped);

    sandbox_write("home/kt-kernel/tuned.ini", "[tuned.fake]\ncpu = %s\nswift.f32.*.work = 2\n", cpu);
    struct fixture own = {0};
    load_layer(&own, NULL, 0);
    ck_assert_uint_eq(value_of(&own, WORK), 2);
    fixture_free(&own);

    sandbox_write("home/kt-kernel/tuned.ini",
                  "[tuned.fake]\ncpu = %s\nmicrocode = 0xbad\nswift.f32.*.work = 2\n", cpu);
    struct fixture stale = {0};
    load_layer(&stale, NULL, 0);
    ck_assert_uint_eq(value_of(&stale, WORK), 8);
    fixture_free(&stale);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tune");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, tunables_are_listed);
    tcase_add_test(tests, the_key_that_names_most_wins);
    tcase_add_test(tests, a_layer_is_tuned_while_it_is_loaded);
    tcase_add_test(tests, wrong_values_change_nothing);
    tcase_add_test(tests, bits_stay_where_they_must);
    tcase_add_test(tests, plans_say_what_is_tuned);
    tcase_add_loop_test(tests, settings_that_do_not_fit, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tests, values_of_this_cpu_only);
    return run_tests("tune", tests);
}
