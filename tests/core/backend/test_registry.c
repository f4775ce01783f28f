/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: each plugin ends in its own clear state, and the others go on working. */
#include "core/machine/cpu.h"
#include "core/machine/cpu_features.h"
#include "tests/core/backend/registry_world.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A feature that no CPU of this architecture has. */
#if defined __x86_64__
#define FOREIGN "sve2"
#else
#define FOREIGN "amx_int8"
#endif

#define TEXT(macro) TEXT_OF(macro)
#define TEXT_OF(text) #text
#define ABI_OWN TEXT(KT_PLUGIN_ABI_MAJOR) "." TEXT(KT_PLUGIN_ABI_MINOR)

START_TEST(the_reference_is_always_there_and_last)
{
    struct kt_registry *registry = registry_open_all();
    ck_assert_uint_eq(registry->n_backends, 1);
    const struct kt_backend *reference = registry_expect(registry, "reference", KT_BACKEND_LOADED, "");
    ck_assert_int_eq(reference->priority, -1000);
    ck_assert_str_eq(reference->file, "");
    ck_assert_str_eq(reference->origin, "built in");
    ck_assert_ptr_null(kt_registry_find(registry, "nobody"));
    kt_registry_destroy(registry);
    kt_registry_destroy(NULL);
}
END_TEST

START_TEST(a_good_plugin_is_loaded)
{
    registry_add_plugin("fake", "priority = 7\npanel_rows = 8\nmode = loud\ncheck = on\n");
    struct kt_registry *registry = registry_open_all();
    const struct kt_backend *fake = registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    ck_assert_str_eq(fake->level->name, "swift");
    ck_assert_str_eq(fake->levels, "future swift scalar");
    ck_assert_str_eq(fake->file, sandbox_path("lib/kt_fake.so"));
    ck_assert_int_eq(fake->priority, 7);
    ck_assert_ptr_eq(fake, &registry->backend[0]);
    ck_assert_int_eq(fake->values[0].number, 8);
    ck_assert_str_eq(fake->values[1].text, "hello");
    ck_assert_str_eq(fake->value_origins[1], "default");
    ck_assert_int_eq(fake->values[2].number, 1);
    ck_assert_int_eq(fake->values[3].number, 1);
    char place[256];
    (void)snprintf(place, sizeof place, "%s:4", sandbox_path("shipped/fake.ini"));
    ck_assert_str_eq(fake->value_origins[0], place);
    ck_assert_ptr_nonnull(strstr(registry_log, "info: fake: open, hello, check 1\n"));
    kt_registry_destroy(registry);
    ck_assert_ptr_nonnull(strstr(registry_log, "info: fake: closed\n"));
}
END_TEST

/* ---- broken ones ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum kt_backend_state state;
    const char *text;
} broken[] = {
    {"wrong_major", KT_BACKEND_FAILED, "was built for plugin ABI 2, this core has 1"},
    {"newer_minor", KT_BACKEND_FAILED,
     "was built for plugin ABI " TEXT(KT_PLUGIN_ABI_MAJOR) ".99, this core has " ABI_OWN
                                                           "; update kt-kernel"},
    {"short_struct", KT_BACKEND_FAILED, "struct_size is 20"},
    {"long_struct", KT_BACKEND_FAILED, "struct_size says 1000000 bytes, but its symbol has"},
    {"function_symbol", KT_BACKEND_FAILED, "is a function"},
    {"tiny_symbol", KT_BACKEND_FAILED, "is not a struct kt_plugin"},
    {"unresolved", KT_BACKEND_FAILED, "cannot be loaded: undefined symbol: kt_nobody_has_this"},
    {"other_name", KT_BACKEND_FAILED, "calls itself \"somebody\""},
    {"null_levels", KT_BACKEND_FAILED, "no list of them"},
    {"null_level", KT_BACKEND_FAILED, "its level 1 of 2 is NULL"},
    {"twin_levels", KT_BACKEND_FAILED, "two of its levels are called first"},
    {"short_level", KT_BACKEND_FAILED, "struct kt_level of 8 bytes"},
    {"null_ops", KT_BACKEND_FAILED, "its level first has no functions"},
    {"short_ops", KT_BACKEND_FAILED, "struct kt_ops of 16 bytes"},
    {"null_function", KT_BACKEND_FAILED, "has no function down, which is required"},
    {"half_hook", KT_BACKEND_FAILED, "both or none"},
    {"reserved_option", KT_BACKEND_FAILED, "\"level\" has a name that is the core's own"},
    {"twin_options", KT_BACKEND_FAILED, "\"cols\" is there twice"},
    {"option_default", KT_BACKEND_FAILED, "rows = \"70\""},
    {"option_count", KT_BACKEND_FAILED, "100000 options"},
    {"future_cpu", KT_BACKEND_REFUSED, "none of its levels (first second) fits: second needs bit63"},
    {"probe_refuses", KT_BACKEND_REFUSED, "its probe refused: there is no vendor library here"},
    {"open_fails", KT_BACKEND_REFUSED, "it could not be opened: system error"},
};

START_TEST(broken_plugins_have_a_state_each_and_harm_no_other)
{
    registry_add_plugin("fake", "");
    for (size_t i = 0; i < COUNT(broken); i++)
        registry_add_plugin(broken[i].name, "");
    struct kt_registry *registry = registry_open_all();
    ck_assert_uint_eq(registry->n_backends, COUNT(broken) + 2);
    for (size_t i = 0; i < COUNT(broken); i++) {
        char line[128];
        const struct kt_backend *backend =
            registry_expect(registry, broken[i].name, broken[i].state, broken[i].text);
        ck_assert_str_ne(backend->file, "");
        (void)snprintf(line, sizeof line, "warning: plugin %s: %s: ", broken[i].name,
                       broken[i].state == KT_BACKEND_FAILED ? "failed" : "refused");
        ck_assert_msg(strstr(registry_log, line) != NULL, "%s is not in the log", line);
    }
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    registry_expect(registry, "reference", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
}
END_TEST

/* Each has its own message, with the place, and what is right works. */
START_TEST(dropins_that_cannot_be_used_harm_no_other)
{
    registry_add_plugin("fake", "");
    sandbox_write("shipped/half.ini", "[plugin.half]\nenabled = yes\nmodule = kt_ha");
    sandbox_write("shipped/torn.ini", "[plugin.torn]\nenabled = yes\nmod");
    sandbox_write("shipped/twin_one.ini", "[plugin.twin]\n");
    sandbox_write("shipped/twin_two.ini", "[plugin.twin]\n");
    sandbox_write("etc/plugins.d/torn_off.ini", "[plugin.torn_off]\nenabled = ye\n");
    sandbox_write("etc/kt.ini", "[plugin.torn_off]\nenabled = no\n");
    struct kt_registry *registry = registry_open_all();
    registry_expect(registry, "half", KT_BACKEND_FAILED, "kt_ha is not in ");
    registry_expect(registry, "torn", KT_BACKEND_FAILED, "torn.ini:3: neither [section] nor key = value");
    registry_expect(registry, "twin", KT_BACKEND_FAILED, "twin_two.ini:1: [plugin.twin] is also defined in ");
    registry_expect(registry, "twin", KT_BACKEND_FAILED, "twin_one.ini; remove one of the files");
    registry_expect(registry, "torn_off", KT_BACKEND_DISABLED, "disabled by ");
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
    sandbox_write("shipped/torn.ini", "[plugin.torn]\nenabled = required\nmod");
    struct kt_error error = {0};
    ck_assert_int_eq(registry_open_with(NULL, 0, &registry, &error), KT_E_PLUGIN);
    ck_assert_ptr_nonnull(strstr(error.message, "torn.ini:2), but cannot be used: "));
    ck_assert_ptr_nonnull(strstr(error.message, "torn.ini:3: neither"));
}
END_TEST

START_TEST(files_that_are_no_plugins)
{
    registry_add_plugin("fake", "");
    sandbox_write("lib/kt_text.so", "hello\n");
    sandbox_write("lib/kt_empty.so", "%s", "");
    sandbox_folder("lib/kt_folder.so");
    (void)sandbox_plugin("fake", "lib/kt_writable.so");
    ck_assert_int_eq(chmod(sandbox_path("lib/kt_writable.so"), 0666), 0);
    (void)sandbox_plugin("fake", "open/kt_exposed.so");
    ck_assert_int_eq(chmod(sandbox_path("open"), 0777), 0);
    const char *lib = sandbox_path("lib");
    sandbox_write("etc/kt.ini",
                  "[core]\nplugin_path = %s\n[plugin.text]\n[plugin.empty]\n[plugin.folder]\n"
                  "[plugin.writable]\n[plugin.exposed]\nmodule = %s/kt_exposed.so\n"
                  "[plugin.fakes]\n[plugin.relative]\nmodule = ./kt_fake.so\n"
                  "[plugin.swapped]\nmodule = kt_fake.so\n",
                  lib, sandbox_path("open"));
    struct kt_registry *registry = registry_open_all();
    registry_expect(registry, "text", KT_BACKEND_FAILED, "is not an ELF file");
    registry_expect(registry, "empty", KT_BACKEND_FAILED, "is an empty file");
    registry_expect(registry, "folder", KT_BACKEND_FAILED, "is a directory");
    registry_expect(registry, "writable", KT_BACKEND_FAILED, "is writable by everybody (mode 0666)");
    registry_expect(registry, "exposed", KT_BACKEND_FAILED, "open is writable by everybody");
    registry_expect(registry, "fakes", KT_BACKEND_FAILED, "kt_fakes.so is not in ");
    registry_expect(registry, "fakes", KT_BACKEND_FAILED, "did you mean [plugin.fake]?");
    registry_expect(registry, "relative", KT_BACKEND_FAILED, "never looked for in the current folder");
    registry_expect(registry, "swapped", KT_BACKEND_FAILED, "its section must be [plugin.fake]");
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
}
END_TEST

/* ---- what the configuration says ------------------------------------------------------------ */

START_TEST(disabled_by_a_line)
{
    registry_add_plugin("fake", "enabled = no\n");
    registry_add_plugin("wrong_major", "enabled = no\n");
    struct kt_registry *registry = registry_open_all();
    char text[256];
    (void)snprintf(text, sizeof text, "disabled by %s:3", sandbox_path("shipped/fake.ini"));
    registry_expect(registry, "fake", KT_BACKEND_DISABLED, text);
    registry_expect(registry, "wrong_major", KT_BACKEND_DISABLED, "disabled by");
    kt_registry_destroy(registry);
}
END_TEST

/* The file is not a plugin: were it opened, the state would say so. */
START_TEST(a_plugin_that_the_cpu_cannot_run_is_not_opened)
{
    sandbox_write("lib/kt_text.so", "hello\n");
    sandbox_write("etc/kt.ini",
                  "[plugin.text]\nmodule = %s\ncpu = " FOREIGN "\n"
                  "[plugin.typo]\nmodule = %s\ncpu = avx2 amx_int\n",
                  sandbox_path("lib/kt_text.so"), sandbox_path("lib/kt_text.so"));
    struct kt_registry *registry = registry_open_all();
    registry_expect(registry, "text", KT_BACKEND_UNFIT, "needs " FOREIGN ", which this CPU lacks");
    registry_expect(registry, "typo", KT_BACKEND_FAILED, ":6: cpu = avx2 amx_int: CPU feature \"amx_int\"");
    registry_expect(registry, "typo", KT_BACKEND_FAILED, "did you mean amx_int8?");
    kt_registry_destroy(registry);
}
END_TEST

/* Whichever is first of what this CPU has, masked off. */
START_TEST(masked_features_are_told_from_lacking_ones)
{
    uint64_t hardware = kt_cpu_hardware();
    if (hardware == 0)
        return; /* there is nothing to mask */
    char name[32], lines[64], text[256];
    kt_cpu_names(hardware & -hardware, name, sizeof name);
    (void)snprintf(lines, sizeof lines, "cpu = %s\n", name);
    registry_add_plugin("fake", lines);
    struct kt_registry *registry = registry_open_all();
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
    ck_assert_int_eq(setenv("KT_KERNEL_CPU_VARIANT", "scalar", 1), 0);
    registry = registry_open_all();
    (void)snprintf(text, sizeof text,
                   "needs %s, masked off by core.cpu_variant = scalar (environment "
                   "KT_KERNEL_CPU_VARIANT)",
                   name);
    registry_expect(registry, "fake", KT_BACKEND_UNFIT, text);
    kt_registry_destroy(registry);
}
END_TEST

START_TEST(levels_by_name)
{
    registry_add_plugin("fake", "level = scalar\n");
    struct kt_registry *registry = registry_open_all();
    ck_assert_str_eq(registry_expect(registry, "fake", KT_BACKEND_LOADED, "")->level->name, "scalar");
    kt_registry_destroy(registry);
    registry_add_plugin("fake", "level = future\n");
    registry = registry_open_all();
    registry_expect(registry, "fake", KT_BACKEND_REFUSED, "fake.ini:3: level = future needs bit63");
    kt_registry_destroy(registry);
    registry_add_plugin("fake", "level = avx3\n");
    registry = registry_open_all();
    const struct kt_backend *fake =
        registry_expect(registry, "fake", KT_BACKEND_FAILED, "not one of its levels: auto future swift");
    ck_assert_str_eq(fake->levels, "future swift scalar"); /* still there to be shown */
    ck_assert_ptr_nonnull(fake->plugin);
    ck_assert_ptr_nonnull(fake->values);
    kt_registry_destroy(registry);
}
END_TEST

/* A level that the plugin itself cannot work at: the next one is taken, unless it was asked for by name. */
START_TEST(levels_that_the_plugin_refuses)
{
    registry_add_plugin("fake", "swift = missing\n");
    struct kt_registry *registry = registry_open_all();
    const struct kt_backend *fake =
        registry_expect(registry, "fake", KT_BACKEND_LOADED, "not swift: libswift.so is not there");
    ck_assert_str_eq(fake->level->name, "scalar");
    kt_registry_destroy(registry);
    registry_add_plugin("fake", "swift = mute\n");
    registry = registry_open_all();
    fake = registry_expect(registry, "fake", KT_BACKEND_LOADED, "not swift: ");
    ck_assert_str_eq(fake->level->name, "scalar");
    kt_registry_destroy(registry);
    registry_add_plugin("fake", "level = swift\nswift = missing\n");
    registry = registry_open_all();
    registry_expect(registry, "fake", KT_BACKEND_REFUSED,
                    "fake.ini:3: level = swift: libswift.so is not there");
    kt_registry_destroy(registry);
    registry_add_plugin("fake", "level = scalar\nswift = missing\n"); /* then it is not even asked */
    registry = registry_open_all();
    registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
}
END_TEST

static const struct {
    const char *lines, *text;
} wrong_option[] = {
    {"panel_row = 8\n", "fake.ini:3: [plugin.fake] has no option \"panel_row\"; did you mean "
                        "panel_rows?"},
    {"levle = 8\n", "did you mean level?"},
    {"turbo_boost = 8\n", "has no option \"turbo_boost\"; remove it"},
    {"panel_rows = 129\n", "fake.ini:3: panel_rows = \"129\": must be a whole number from 1 to 128"},
    {"panel_rows = few\n", "must be a whole number from 1 to 128"},
    {"mode = noisy\n", "fake.ini:3: mode = \"noisy\": must be one of quiet|loud"},
    {"check = perhaps\n", "fake.ini:3: check = \"perhaps\": must be yes or no"},
};

START_TEST(options_that_are_wrong)
{
    registry_add_plugin("fake", wrong_option[_i].lines);
    struct kt_registry *registry = registry_open_all();
    registry_expect(registry, "fake", KT_BACKEND_FAILED, wrong_option[_i].text);
    kt_registry_destroy(registry);
}
END_TEST

START_TEST(required_plugins)
{
    struct kt_registry *registry = NULL;
    struct kt_error error = {0};
    registry_add_plugin("fake", "enabled = required\n");
    registry = registry_open_all();
    kt_registry_destroy(registry);
    registry = NULL;
    registry_add_plugin("wrong_major", "enabled = required\n");
    ck_assert_int_eq(registry_open_with(NULL, 0, &registry, &error), KT_E_PLUGIN);
    ck_assert_ptr_null(registry);
    ck_assert_ptr_nonnull(strstr(error.message, "plugin wrong_major is required"));
    ck_assert_ptr_nonnull(strstr(error.message, sandbox_path("shipped/wrong_major.ini")));
    ck_assert_ptr_nonnull(strstr(error.message, "plugin ABI 2"));
}
END_TEST

START_TEST(the_caller_may_bring_a_plugin)
{
    char module[256], level[] = "plugin.fake.level=scalar";
    struct kt_registry *registry = NULL;
    struct kt_error error = {0};
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_plugin("fake", "lib/kt_fake.so"));
    const char *settings[] = {level, module};
    ck_assert_msg(registry_open_with(settings, 2, &registry, &error) == KT_OK, "%s", error.message);
    const struct kt_backend *fake = registry_expect(registry, "fake", KT_BACKEND_LOADED, "");
    ck_assert_str_eq(fake->level->name, "scalar");
    ck_assert_str_eq(fake->origin, "parameter");
    kt_registry_destroy(registry);
}
END_TEST

/* What a program carries with it, in folders that it names. */
START_TEST(plugins_beside_the_program)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config = NULL;
    struct kt_context *context = NULL;
    struct kt_backend_info info;
    struct kt_error error = {0};
    (void)sandbox_plugin("fake", "carried/lib/kt_fake.so");
    sandbox_write("carried/ini/fake.ini", "[plugin.fake]\n");
    ck_assert_int_eq(unsetenv("KT_KERNEL_PLUGINCONFDIR"), 0);
    params.plugin_folder = "carried/lib";
    ck_assert_int_eq(kt_config_create(&params, &config, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "absolute"));
    params.plugin_folder = sandbox_path("carried/lib");
    params.dropin_folder = sandbox_path("carried/ini");
    ck_assert_msg(kt_config_create(&params, &config, &error) == KT_OK, "%s", error.message);
    ck_assert_msg(kt_context_create(config, &context, &error) == KT_OK, "%s", error.message);
    kt_config_destroy(config);
    ck_assert_int_eq(kt_context_backend(context, 0, &info, &error), KT_OK);
    ck_assert_str_eq(info.name, "fake");
    ck_assert_msg(info.state == KT_BACKEND_LOADED, "%s", info.reason);
    ck_assert_str_eq(info.file, sandbox_path("carried/lib/kt_fake.so"));
    kt_context_destroy(context);
}
END_TEST

START_TEST(methods_stand_for_backends)
{
    ck_assert_str_eq(kt_method_backend("AMXINT4"), "amx_int4");
    ck_assert_str_eq(kt_method_backend("fp8_perchannel"), "avx512_fp8");
    ck_assert_str_eq(kt_method_backend("my_own"), "my_own");
    ck_assert_ptr_null(kt_method_backend("AMXINT5"));
    ck_assert_ptr_null(kt_method_backend(""));
    ck_assert_ptr_null(kt_method_backend(NULL));
    size_t n = 0;
    for (const char *name; (name = kt_method_name(n)); n++)
        ck_assert_str_ne(kt_method_backend(name), name);
    ck_assert_uint_gt(n, 10);
    ck_assert_ptr_null(kt_method_setting("AMXINT4"));
    ck_assert_ptr_null(kt_method_setting("kml_arm"));
    ck_assert_ptr_null(kt_method_setting(NULL));
#if defined __aarch64__
    ck_assert_str_eq(kt_method_backend("moe_int4"), "kml_arm");
    ck_assert_str_eq(kt_method_setting("moe_int4"), "plugin.kml_arm.weights=int4");
    ck_assert_str_eq(kt_method_setting("MOE_INT8"), "plugin.kml_arm.weights=int8");
#else
    ck_assert_str_eq(kt_method_backend("moe_int4"), "amx_int4");
    ck_assert_ptr_null(kt_method_setting("MOE_INT4"));
#endif
}
END_TEST

START_TEST(two_registries_live_side_by_side)
{
    registry_add_plugin("fake", "mode = loud\n");
    struct kt_registry *first = registry_open_all(), *second = registry_open_all();
    const struct kt_backend *one = registry_expect(first, "fake", KT_BACKEND_LOADED, "");
    const struct kt_backend *two = registry_expect(second, "fake", KT_BACKEND_LOADED, "");
    ck_assert_ptr_ne(one->instance, two->instance);
    kt_registry_destroy(first);
    registry_expect(second, "fake", KT_BACKEND_LOADED, "");
    ck_assert_int_eq(two->values[2].number, 1);
    kt_registry_destroy(second);
}
END_TEST

/* ---- services ------------------------------------------------------------------------------- */

START_TEST(services_of_the_host)
{
    registry_add_plugin("fake", "");
    struct kt_registry *registry = registry_open_all();
    const struct kt_host *host = &kt_registry_find(registry, "fake")->host;
    ck_assert_uint_eq(host->struct_size, sizeof *host);
    ck_assert_uint_eq(host->abi_minor, KT_PLUGIN_ABI_MINOR);
    for (uint64_t size = 0; size < 200; size += 33) {
        void *memory = host->allocate(host, size);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 64, 0);
        memset(memory, 1, size);
        host->release(host, memory, size);
    }
    host->release(host, NULL, 0);
    ck_assert_ptr_null(host->allocate(host, UINT64_MAX));
    ck_assert_ptr_null(host->allocate(host, UINT64_MAX - 64));
    host->log(host, KT_LOG_WARNING, "%d of %s", 3, "four");
    ck_assert_ptr_nonnull(strstr(registry_log, "warning: fake: 3 of four\n"));
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    float out[2] = {0};
    struct kt_view view = KT_VIEW_INIT;
    ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_F32, numbers, sizeof numbers, 2, 3, NULL), KT_OK);
    ck_assert_int_eq(host->dequantize(host, &view, 1, 1, 2, out, NULL), KT_OK);
    ck_assert(out[0] > 4.5f && out[0] < 5.5f && out[1] > 5.5f);
    kt_registry_destroy(registry);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("registry");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, the_reference_is_always_there_and_last);
    tcase_add_test(tests, a_good_plugin_is_loaded);
    tcase_add_test(tests, broken_plugins_have_a_state_each_and_harm_no_other);
    tcase_add_test(tests, dropins_that_cannot_be_used_harm_no_other);
    tcase_add_test(tests, files_that_are_no_plugins);
    tcase_add_test(tests, disabled_by_a_line);
    tcase_add_test(tests, a_plugin_that_the_cpu_cannot_run_is_not_opened);
    tcase_add_test(tests, masked_features_are_told_from_lacking_ones);
    tcase_add_test(tests, levels_by_name);
    tcase_add_test(tests, levels_that_the_plugin_refuses);
    tcase_add_loop_test(tests, options_that_are_wrong, 0, (int)COUNT(wrong_option));
    tcase_add_test(tests, required_plugins);
    tcase_add_test(tests, the_caller_may_bring_a_plugin);
    tcase_add_test(tests, plugins_beside_the_program);
    tcase_add_test(tests, methods_stand_for_backends);
    tcase_add_test(tests, two_registries_live_side_by_side);
    tcase_add_test(tests, services_of_the_host);
    return run_tests("registry", tests);
}
