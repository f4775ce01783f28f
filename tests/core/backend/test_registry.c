/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: each plugin ends in its own clear state, and the others go on working. */
#include "core/machine/cpu.h"
#include "core/machine/cpu_features.h"
#include "core/backend/registry.h"
#include "core/config/config.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

static char log_text[1 << 16];

static void collect(void *data, enum kt_log_level level, const char *message)
{
    static const char *const words[] = {"error", "warning", "info", "debug"};
    size_t used = strlen(log_text);
    (void)data;
    (void)snprintf(log_text + used, sizeof log_text - used, "%s: %s\n", words[level], message);
}

static enum kt_status open_with(const char *const *settings, size_t n, struct kt_registry **registry,
                                struct kt_error *error)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_caps caps;
    params.settings = settings;
    params.n_settings = n;
    params.log = collect;
    log_text[0] = '\0';
    enum kt_status status = kt_config_create(&params, &config, error);
    if (status != KT_OK)
        return status;
    status = kt_cpu_detect(kt_config_text(config, "core", "cpu_variant"), &caps, error);
    if (status == KT_OK)
        status = kt_registry_create(config, &caps, registry, error);
    kt_config_destroy(config);
    return status;
}

static struct kt_registry *open_all(void)
{
    struct kt_registry *registry = NULL;
    struct kt_error error = {0};
    ck_assert_msg(open_with(NULL, 0, &registry, &error) == KT_OK, "%s", error.message);
    return registry;
}

/* A drop-in for a plugin copied into the sandbox; more lines for its section may follow. */
static void configure(const char *name, const char *lines)
{
    char relative[128], folder[128];
    (void)snprintf(folder, sizeof folder, "lib/kt_%s.so", name);
    (void)snprintf(relative, sizeof relative, "shipped/%s.ini", name);
    const char *file = sandbox_plugin(name, folder);
    sandbox_write(relative, "[plugin.%s]\nmodule = %s\n%s", name, file, lines);
}

static const struct kt_backend *expect_state(const struct kt_registry *registry, const char *name,
                                             enum kt_backend_state state, const char *text)
{
    const struct kt_backend *backend = kt_registry_find(registry, name);
    ck_assert_msg(backend != NULL, "%s is not there", name);
    ck_assert_msg(backend->state == state, "%s: state %d, \"%s\"", name, (int)backend->state,
                  backend->reason);
    ck_assert_msg(strstr(backend->reason, text) != NULL, "\"%s\" is not in \"%s\"", text, backend->reason);
    ck_assert_int_eq(backend->level != NULL, state == KT_BACKEND_LOADED);
    ck_assert_int_eq(backend->reason[0] == '\0', text[0] == '\0' && state == KT_BACKEND_LOADED);
    return backend;
}

START_TEST(the_reference_is_always_there_and_last)
{
    struct kt_registry *registry = open_all();
    ck_assert_uint_eq(registry->n_backends, 1);
    const struct kt_backend *reference = expect_state(registry, "reference", KT_BACKEND_LOADED, "");
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
    configure("fake", "priority = 7\npanel_rows = 8\nmode = loud\ncheck = on\n");
    struct kt_registry *registry = open_all();
    const struct kt_backend *fake = expect_state(registry, "fake", KT_BACKEND_LOADED, "");
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
    ck_assert_ptr_nonnull(strstr(log_text, "info: fake: open, hello, check 1\n"));
    kt_registry_destroy(registry);
    ck_assert_ptr_nonnull(strstr(log_text, "info: fake: closed\n"));
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
    {"tiny_symbol", KT_BACKEND_FAILED, "is no struct kt_plugin"},
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
    configure("fake", "");
    for (size_t i = 0; i < COUNT(broken); i++)
        configure(broken[i].name, "");
    struct kt_registry *registry = open_all();
    ck_assert_uint_eq(registry->n_backends, COUNT(broken) + 2);
    for (size_t i = 0; i < COUNT(broken); i++) {
        char line[128];
        const struct kt_backend *backend =
            expect_state(registry, broken[i].name, broken[i].state, broken[i].text);
        ck_assert_str_ne(backend->file, "");
        (void)snprintf(line, sizeof line, "warning: plugin %s: %s: ", broken[i].name,
                       broken[i].state == KT_BACKEND_FAILED ? "failed" : "refused");
        ck_assert_msg(strstr(log_text, line) != NULL, "%s is not in the log", line);
    }
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
    expect_state(registry, "reference", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
}
END_TEST

/* Each has its own message, with the place, and what is right works. */
START_TEST(dropins_that_cannot_be_used_harm_no_other)
{
    configure("fake", "");
    sandbox_write("shipped/half.ini", "[plugin.half]\nenabled = yes\nmodule = kt_ha");
    sandbox_write("shipped/torn.ini", "[plugin.torn]\nenabled = yes\nmod");
    sandbox_write("shipped/twin_one.ini", "[plugin.twin]\n");
    sandbox_write("shipped/twin_two.ini", "[plugin.twin]\n");
    sandbox_write("etc/plugins.d/torn_off.ini", "[plugin.torn_off]\nenabled = ye\n");
    sandbox_write("etc/kt.ini", "[plugin.torn_off]\nenabled = no\n");
    struct kt_registry *registry = open_all();
    expect_state(registry, "half", KT_BACKEND_FAILED, "kt_ha is not in ");
    expect_state(registry, "torn", KT_BACKEND_FAILED, "torn.ini:3: neither [section] nor key = value");
    expect_state(registry, "twin", KT_BACKEND_FAILED, "twin_two.ini:1: [plugin.twin] stands in ");
    expect_state(registry, "twin", KT_BACKEND_FAILED, "twin_one.ini too; remove one of the two files");
    expect_state(registry, "torn_off", KT_BACKEND_DISABLED, "disabled by ");
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
    sandbox_write("shipped/torn.ini", "[plugin.torn]\nenabled = required\nmod");
    struct kt_error error = {0};
    ck_assert_int_eq(open_with(NULL, 0, &registry, &error), KT_E_PLUGIN);
    ck_assert_ptr_nonnull(strstr(error.message, "torn.ini:2), but cannot be used: "));
    ck_assert_ptr_nonnull(strstr(error.message, "torn.ini:3: neither"));
}
END_TEST

START_TEST(files_that_are_no_plugins)
{
    configure("fake", "");
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
    struct kt_registry *registry = open_all();
    expect_state(registry, "text", KT_BACKEND_FAILED, "is not an ELF file");
    expect_state(registry, "empty", KT_BACKEND_FAILED, "is an empty file");
    expect_state(registry, "folder", KT_BACKEND_FAILED, "is a directory");
    expect_state(registry, "writable", KT_BACKEND_FAILED, "is writable by everybody (mode 0666)");
    expect_state(registry, "exposed", KT_BACKEND_FAILED, "open is writable by everybody");
    expect_state(registry, "fakes", KT_BACKEND_FAILED, "kt_fakes.so is not in ");
    expect_state(registry, "fakes", KT_BACKEND_FAILED, "did you mean [plugin.fake]?");
    expect_state(registry, "relative", KT_BACKEND_FAILED, "never looked for in the current folder");
    expect_state(registry, "swapped", KT_BACKEND_FAILED, "its section must be [plugin.fake]");
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
}
END_TEST

/* ---- what the configuration says ------------------------------------------------------------ */

START_TEST(disabled_by_a_line)
{
    configure("fake", "enabled = no\n");
    configure("wrong_major", "enabled = no\n");
    struct kt_registry *registry = open_all();
    char text[256];
    (void)snprintf(text, sizeof text, "disabled by %s:3", sandbox_path("shipped/fake.ini"));
    expect_state(registry, "fake", KT_BACKEND_DISABLED, text);
    expect_state(registry, "wrong_major", KT_BACKEND_DISABLED, "disabled by");
    kt_registry_destroy(registry);
}
END_TEST

/* The file is no plugin: were it opened, the state would say so. */
START_TEST(a_plugin_that_the_cpu_cannot_run_is_not_opened)
{
    sandbox_write("lib/kt_text.so", "hello\n");
    sandbox_write("etc/kt.ini",
                  "[plugin.text]\nmodule = %s\ncpu = " FOREIGN "\n"
                  "[plugin.typo]\nmodule = %s\ncpu = avx2 amx_int\n",
                  sandbox_path("lib/kt_text.so"), sandbox_path("lib/kt_text.so"));
    struct kt_registry *registry = open_all();
    expect_state(registry, "text", KT_BACKEND_UNFIT, "needs " FOREIGN ", which this CPU lacks");
    expect_state(registry, "typo", KT_BACKEND_FAILED, ":6: cpu = avx2 amx_int: CPU feature \"amx_int\"");
    expect_state(registry, "typo", KT_BACKEND_FAILED, "did you mean amx_int8?");
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
    configure("fake", lines);
    struct kt_registry *registry = open_all();
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
    ck_assert_int_eq(setenv("KT_KERNEL_CPU_VARIANT", "scalar", 1), 0);
    registry = open_all();
    (void)snprintf(text, sizeof text,
                   "needs %s, masked off by core.cpu_variant = scalar (environment "
                   "KT_KERNEL_CPU_VARIANT)",
                   name);
    expect_state(registry, "fake", KT_BACKEND_UNFIT, text);
    kt_registry_destroy(registry);
}
END_TEST

START_TEST(levels_by_name)
{
    configure("fake", "level = scalar\n");
    struct kt_registry *registry = open_all();
    ck_assert_str_eq(expect_state(registry, "fake", KT_BACKEND_LOADED, "")->level->name, "scalar");
    kt_registry_destroy(registry);
    configure("fake", "level = future\n");
    registry = open_all();
    expect_state(registry, "fake", KT_BACKEND_REFUSED, "fake.ini:3: level = future needs bit63");
    kt_registry_destroy(registry);
    configure("fake", "level = avx3\n");
    registry = open_all();
    const struct kt_backend *fake =
        expect_state(registry, "fake", KT_BACKEND_FAILED, "none of its levels: auto future swift");
    ck_assert_str_eq(fake->levels, "future swift scalar"); /* still there to be shown */
    ck_assert_ptr_nonnull(fake->plugin);
    ck_assert_ptr_nonnull(fake->values);
    kt_registry_destroy(registry);
}
END_TEST

/* A level that the plugin itself cannot work at: the next one is taken, unless it was asked for by name. */
START_TEST(levels_that_the_plugin_refuses)
{
    configure("fake", "swift = missing\n");
    struct kt_registry *registry = open_all();
    const struct kt_backend *fake =
        expect_state(registry, "fake", KT_BACKEND_LOADED, "not swift: libswift.so is not there");
    ck_assert_str_eq(fake->level->name, "scalar");
    kt_registry_destroy(registry);
    configure("fake", "swift = mute\n");
    registry = open_all();
    fake = expect_state(registry, "fake", KT_BACKEND_LOADED, "not swift: ");
    ck_assert_str_eq(fake->level->name, "scalar");
    kt_registry_destroy(registry);
    configure("fake", "level = swift\nswift = missing\n");
    registry = open_all();
    expect_state(registry, "fake", KT_BACKEND_REFUSED, "fake.ini:3: level = swift: libswift.so is not there");
    kt_registry_destroy(registry);
    configure("fake", "level = scalar\nswift = missing\n"); /* then it is not even asked */
    registry = open_all();
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
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
    configure("fake", wrong_option[_i].lines);
    struct kt_registry *registry = open_all();
    expect_state(registry, "fake", KT_BACKEND_FAILED, wrong_option[_i].text);
    kt_registry_destroy(registry);
}
END_TEST

START_TEST(required_plugins)
{
    struct kt_registry *registry = NULL;
    struct kt_error error = {0};
    configure("fake", "enabled = required\n");
    registry = open_all();
    kt_registry_destroy(registry);
    registry = NULL;
    configure("wrong_major", "enabled = required\n");
    ck_assert_int_eq(open_with(NULL, 0, &registry, &error), KT_E_PLUGIN);
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
    ck_assert_msg(open_with(settings, 2, &registry, &error) == KT_OK, "%s", error.message);
    const struct kt_backend *fake = expect_state(registry, "fake", KT_BACKEND_LOADED, "");
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
    configure("fake", "mode = loud\n");
    struct kt_registry *first = open_all(), *second = open_all();
    const struct kt_backend *one = expect_state(first, "fake", KT_BACKEND_LOADED, "");
    const struct kt_backend *two = expect_state(second, "fake", KT_BACKEND_LOADED, "");
    ck_assert_ptr_ne(one->instance, two->instance);
    kt_registry_destroy(first);
    expect_state(second, "fake", KT_BACKEND_LOADED, "");
    ck_assert_int_eq(two->values[2].number, 1);
    kt_registry_destroy(second);
}
END_TEST

/* ---- services ------------------------------------------------------------------------------- */

START_TEST(services_of_the_host)
{
    configure("fake", "");
    struct kt_registry *registry = open_all();
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
    ck_assert_ptr_nonnull(strstr(log_text, "warning: fake: 3 of four\n"));
    static const float numbers[] = {1, 2, 3, 4, 5, 6};
    float out[2] = {0};
    struct kt_view view = KT_VIEW_INIT;
    ck_assert_int_eq(kt_view_dense(&view, KT_DTYPE_F32, numbers, sizeof numbers, 2, 3, NULL), KT_OK);
    ck_assert_int_eq(host->dequantize(host, &view, 1, 1, 2, out, NULL), KT_OK);
    ck_assert(out[0] > 4.5f && out[0] < 5.5f && out[1] > 5.5f);
    kt_registry_destroy(registry);
}
END_TEST

/* The dynamic linker's own memory is not ours to fail; all else is. */
/* One that takes its process with it, and one that does not come back, are found by a process of their own.
 */
START_TEST(plugins_are_tried_first)
{
    struct kt_config *config;
    struct kt_caps caps;
    struct kt_registry *registry;
    configure("fake", "");
    configure("wrong_major", "");
    configure("crashes", "");
    configure("exits", "");
    configure("hangs", "");
    sandbox_write("etc/kt.ini", "[plugin.off]\nenabled = no\n");
    ck_assert_int_eq(kt_config_create(NULL, &config, NULL), KT_OK);
    ck_assert_int_eq(kt_config_try_plugins(config, 400, NULL), KT_OK);
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    ck_assert_int_eq(kt_registry_create(config, &caps, &registry, NULL), KT_OK);
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
    expect_state(registry, "off", KT_BACKEND_DISABLED, "");
    expect_state(registry, "wrong_major", KT_BACKEND_FAILED, "it was built for plugin ABI");
    expect_state(registry, "crashes", KT_BACKEND_FAILED, "it crashed with SIGABRT when it was opened");
    expect_state(registry, "exits", KT_BACKEND_FAILED, "it ended the process with exit status 7");
    expect_state(registry, "hangs", KT_BACKEND_FAILED, "it did not come back within 0.4 seconds");
    kt_registry_destroy(registry);
    kt_config_destroy(config);
    ck_assert_int_eq(kt_config_try_plugins(NULL, 400, NULL), KT_E_INVALID);
}
END_TEST

/* What may be over in a second is an error of the call, not of the plugin, which another would replace. */
START_TEST(errors_that_pass_change_no_backend)
{
    struct kt_config *config;
    struct kt_caps caps;
    struct kt_registry *registry;
    struct kt_error error = {0};
    struct rlimit before, few;
    int fds[64], n = 0;
    configure("fake", "");
    ck_assert_int_eq(kt_config_create(NULL, &config, NULL), KT_OK);
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 40;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < 64 && (fds[n] = dup(0)) >= 0)
        n++;
    /* One descriptor after the other is free, until all is well. */
    enum kt_status status = KT_E_SYSTEM;
    int failures = 0;
    for (; status != KT_OK && n > 0; failures++) {
        status = kt_registry_create(config, &caps, &registry, &error);
        ck_assert_msg(status == KT_OK || (status == KT_E_SYSTEM && strstr(error.message, "plugin fake: ")),
                      "%d: %s", (int)status, error.message);
        (void)close(fds[--n]);
    }
    ck_assert_int_eq(status, KT_OK);
    ck_assert_int_ge(failures, 3);
    expect_state(registry, "fake", KT_BACKEND_LOADED, "");
    kt_registry_destroy(registry);
    kt_config_destroy(config);
    configure("lacks_memory", "");
    ck_assert_int_eq(open_with(NULL, 0, &registry, &error), KT_E_NOMEM);
    ck_assert_ptr_nonnull(strstr(error.message, "lacks_memory"));
    while (n > 0)
        (void)close(fds[--n]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    struct kt_config *config;
    struct kt_caps caps;
    configure("fake", "check = yes\n");
    configure("null_function", "");
    sandbox_write("etc/kt.ini", "[plugin.off]\nenabled = no\n");
    ck_assert_int_eq(kt_config_create(NULL, &config, NULL), KT_OK);
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    for (unsigned long n = 1;; n++) {
        struct kt_registry *registry = NULL;
        struct kt_error error = {0};
        ck_assert_uint_lt(n, 10000);
        faults_arm(n);
        enum kt_status status = kt_registry_create(config, &caps, &registry, &error);
        bool hit = faults_hit();
        faults_arm(0);
        if (!hit) {
            ck_assert_int_eq(status, KT_OK);
            expect_state(registry, "fake", KT_BACKEND_LOADED, "");
            kt_registry_destroy(registry);
            ck_assert_uint_gt(n, 15);
            break;
        }
        ck_assert_int_eq(status, KT_E_NOMEM);
        ck_assert_ptr_null(registry);
        ck_assert_uint_gt(strlen(error.message), 0);
    }
    kt_config_destroy(config);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry");
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
    tcase_add_test(tests, plugins_are_tried_first);
    tcase_add_test(tests, errors_that_pass_change_no_backend);
    tcase_add_test(tests, every_allocation_may_fail);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
