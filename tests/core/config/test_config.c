/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: layers, origins, environment and settings. */
#include "tests/support/alloc_faults.h"
#include "tests/support/config_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- layers --------------------------------------------------------------------------------- */

START_TEST(defaults_are_all_there_in_order)
{
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(kt_config_setting_count(config), 12);
    struct kt_setting setting, last = {.key = ""};
    for (size_t i = 0; i < 12; i++) {
        ck_assert_int_eq(kt_config_setting(config, i, &setting, NULL), KT_OK);
        ck_assert_str_eq(setting.section, "core");
        ck_assert_str_eq(setting.origin, "default");
        ck_assert_uint_gt(strlen(setting.help), 0);
        ck_assert_int_lt(strcmp(last.key, setting.key), 0);
        last = setting;
    }
    ck_assert_int_eq(kt_config_setting(config, 12, &setting, NULL), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 0);
    ck_assert_int_eq(kt_config_int(config, "core", "spin_us"), 1000);
    ck_assert_int_eq(kt_config_int(config, "core", "queue_depth"), 256);
    ck_assert_str_eq(kt_config_text(config, "core", "backend"), "auto");
    ck_assert_str_eq(kt_config_text(config, "core", "numa_nodes"), "all");
    ck_assert(kt_config_bool(config, "core", "huge_pages"));
    ck_assert(!kt_config_bool(config, "core", "strict"));
    ck_assert_uint_eq(kt_config_plugin_count(config), 0);
    kt_config_destroy(config);
}
END_TEST

START_TEST(each_layer_overrides_the_one_below_key_by_key)
{
    static const char *const settings[] = {"plugin.fake.f=parameter"};
    sandbox_write("shipped/fake.ini", "[plugin.fake]\na = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf = 1\n");
    sandbox_write("etc/plugins.d/fake.ini", "; ours\n[plugin.fake]\nb = 2\nc = 2\nd = 2\ne = 2\nf = 2\n");
    sandbox_write("etc/kt.ini", "[core]\nthreads = 3\n[plugin.fake]\nc = 3\nd = 3\ne = 3\nf = 3\n");
    sandbox_write("home/kt-kernel/kt.ini", "[plugin.fake]\nd = 4\ne = 4\nf = 4\n");
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGIN_FAKE_E", "5", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGIN_FAKE_F", "5", 1), 0);
    struct kt_config *config = create(settings, 1);
    expect_setting(config, "plugin.fake", "a", "1", at_line("shipped/fake.ini", 2));
    expect_setting(config, "plugin.fake", "b", "2", at_line("etc/plugins.d/fake.ini", 3));
    expect_setting(config, "plugin.fake", "c", "3", at_line("etc/kt.ini", 4));
    expect_setting(config, "plugin.fake", "d", "4", at_line("home/kt-kernel/kt.ini", 2));
    expect_setting(config, "plugin.fake", "e", "5", "environment KT_KERNEL_PLUGIN_FAKE_E");
    expect_setting(config, "plugin.fake", "f", "parameter", "parameter");
    expect_setting(config, "plugin.fake", "module", "kt_fake.so", "default");
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 3);
    ck_assert_uint_eq(kt_config_plugin_count(config), 1);
    ck_assert_str_eq(kt_config_plugin(config, 0), "fake");
    ck_assert_str_eq(kt_config_plugin_origin(config, 0), at_line("shipped/fake.ini", 1));
    kt_config_destroy(config);
}
END_TEST

START_TEST(a_named_file_stands_for_the_last_three_layers)
{
    sandbox_write("shipped/fake.ini", "[plugin.fake]\na = 1\n");
    sandbox_write("etc/plugins.d/other.ini", "[plugin.other]\n");
    sandbox_write("etc/kt.ini", "[core]\nthreads = 3\nspin_us = 3\n");
    sandbox_write("home/kt-kernel/kt.ini", "[core]\nthreads = 4\n");
    sandbox_write("mine.ini", "[core]\nspin_us = 9\n");
    sandbox_write("yours.ini", "[core]\nspin_us = 8\n");
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    params.file = sandbox_path("mine.ini");
    ck_assert_int_eq(setenv("KT_KERNEL_CONFIG", sandbox_path("yours.ini"), 1), 0);
    ck_assert_int_eq(kt_config_create(&params, &config, NULL), KT_OK);
    expect_setting(config, "core", "spin_us", "9", at_line("mine.ini", 2));
    expect_setting(config, "core", "threads", "0", "default");
    ck_assert_uint_eq(kt_config_plugin_count(config), 1);
    kt_config_destroy(config);
    config = create(NULL, 0);
    expect_setting(config, "core", "spin_us", "8", at_line("yours.ini", 2));
    kt_config_destroy(config);
    ck_assert_int_eq(setenv("KT_KERNEL_CONFIG", "/dev/null", 1), 0);
    config = create(NULL, 0);
    expect_setting(config, "core", "spin_us", "1000", "default");
    kt_config_destroy(config);
    ck_assert_int_eq(setenv("KT_KERNEL_CONFIG", "/nowhere/kt.ini", 1), 0);
    expect_failure(KT_E_IO, "/nowhere/kt.ini", "no such file");
}
END_TEST

START_TEST(dropins_are_read_in_order_of_their_bytes)
{
    sandbox_write("shipped/b.ini", "[plugin.b]\n");
    sandbox_write("shipped/B.ini", "[plugin.bb]\n");
    sandbox_write("shipped/a.ini", "[plugin.a]\n");
    sandbox_write("shipped/.hidden.ini", "what is this\n");
    sandbox_write("shipped/a.ini.orig", "what is this\n");
    sandbox_write("shipped/.ini", "what is this\n");
    sandbox_write("shipped/README", "what is this\n");
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(kt_config_plugin_count(config), 3);
    ck_assert_str_eq(kt_config_plugin(config, 0), "a");
    ck_assert_str_eq(kt_config_plugin(config, 1), "b");
    ck_assert_str_eq(kt_config_plugin(config, 2), "bb");
    kt_config_destroy(config);
}
END_TEST

START_TEST(the_users_file_is_found_by_xdg_or_home)
{
    sandbox_write("nohome/.config/kt-kernel/kt.ini", "[core]\nthreads = 7\n");
    sandbox_write("home/kt-kernel/kt.ini", "[core]\nthreads = 8\n");
    struct kt_config *config = create(NULL, 0);
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 8);
    kt_config_destroy(config);
    ck_assert_int_eq(setenv("XDG_CONFIG_HOME", "relative/path", 1), 0);
    config = create(NULL, 0);
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 7);
    kt_config_destroy(config);
    ck_assert_int_eq(unsetenv("HOME"), 0);
    config = create(NULL, 0);
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 0);
    kt_config_destroy(config);
}
END_TEST

START_TEST(folders_that_are_not_there_hold_nothing)
{
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGINCONFDIR", "/nowhere/plugins.d", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_SYSCONFDIR", "/nowhere/etc", 1), 0);
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(kt_config_setting_count(config), 12);
    kt_config_destroy(config);
}
END_TEST

/* ---- environment and settings --------------------------------------------------------------- */

START_TEST(environment_forms)
{
    sandbox_write("shipped/amx.ini", "[plugin.amx]\n");
    sandbox_write("shipped/amx_int4.ini", "[plugin.amx_int4]\n");
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_THREADS", "5", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_SPIN_US", "", 1), 0); /* as if it were not set */
    ck_assert_int_eq(setenv("KT_KERNEL_CPU_VARIANT", "avx2", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_DEBUG", "1", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGIN_AMX_INT4_LEVEL", "amx", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGIN_AMX_PRIORITY", "-3", 1), 0);
    struct kt_config *config = create(NULL, 0);
    expect_setting(config, "core", "threads", "5", "environment KT_KERNEL_CORE_THREADS");
    expect_setting(config, "core", "spin_us", "1000", "default");
    expect_setting(config, "core", "cpu_variant", "avx2", "environment KT_KERNEL_CPU_VARIANT");
    expect_setting(config, "core", "debug", "1", "environment KT_KERNEL_DEBUG");
    ck_assert(kt_config_bool(config, "core", "debug"));
    ck_assert_int_eq(kt_config_log(config)->level, KT_LOG_DEBUG);
    expect_setting(config, "plugin.amx_int4", "level", "amx", "environment KT_KERNEL_PLUGIN_AMX_INT4_LEVEL");
    ck_assert_int_eq(kt_config_int(config, "plugin.amx", "priority"), -3);
    kt_config_destroy(config);
}
END_TEST

static const struct {
    const char *name, *value, *message;
} wrong_variable[] = {
    {"KT_KERNEL_CORE_THREDS", "2", "did you mean KT_KERNEL_CORE_THREADS?"},
    {"KT_KERNEL_CPU_VARIAN", "avx2", "did you mean KT_KERNEL_CPU_VARIANT?"},
    {"KT_KERNEL_PLUGIN_FAKE2_LEVEL", "avx2", "did you mean KT_KERNEL_PLUGIN_FAKE_LEVEL?"},
    {"KT_KERNEL_", "2", "the form is KT_KERNEL_CORE_KEY"},
    {"KT_KERNEL_PLUGIN_", "2", "names no setting"},
    {"KT_KERNEL_PLUGIN_FAKE_", "2", "names no setting"},
    {"KT_KERNEL_core_threads", "2", "names no setting"},
    {"KT_KERNEL_NUMBER_OF_THREADS", "2", "the form is KT_KERNEL_CORE_KEY"},
    {"KT_KERNEL_CORE_THREADS", "two", "must be a whole number"},
    {"KT_KERNEL_CPU_VARIANT", "best", "must be one of"},
};

START_TEST(environment_that_is_wrong)
{
    sandbox_write("shipped/fake.ini", "[plugin.fake]\n");
    ck_assert_int_eq(setenv(wrong_variable[_i].name, wrong_variable[_i].value, 1), 0);
    expect_failure(KT_E_CONFIG, wrong_variable[_i].name, wrong_variable[_i].message);
}
END_TEST

START_TEST(environment_with_lengthy_names)
{
    char name[300] = "KT_KERNEL_PLUGIN_FAKE_";
    sandbox_write("shipped/fake.ini", "[plugin.fake]\n");
    memset(name + strlen(name), 'X', sizeof name - 1 - strlen(name));
    ck_assert_int_eq(setenv(name, "1", 1), 0);
    expect_failure(KT_E_CONFIG, "KT_KERNEL_PLUGIN_FAKE_XXX", "names no setting");
}
END_TEST

START_TEST(both_forms_of_one_variable)
{
    ck_assert_int_eq(setenv("KT_KERNEL_DEBUG", "1", 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_DEBUG", "no", 1), 0);
    expect_failure(KT_E_CONFIG, "core.debug is set twice", "DEBUG");
}
END_TEST

START_TEST(settings_of_the_caller)
{
    static const char *const settings[] = {"core.threads=2", " core . threads = 3 ",
                                           "plugin.fake.level=a.b=c", "plugin.mine.enabled=no",
                                           "plugin.mine.module=/x/kt_mine.so"};
    sandbox_write("shipped/fake.ini", "[plugin.fake]\n");
    struct kt_config *config = create(settings, COUNT(settings));
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 3);
    expect_setting(config, "plugin.fake", "level", "a.b=c", "parameter");
    expect_setting(config, "plugin.mine", "module", "/x/kt_mine.so", "parameter");
    expect_setting(config, "plugin.mine", "enabled", "no", "parameter");
    ck_assert_str_eq(kt_config_plugin_origin(config, 1), "parameter");
    kt_config_destroy(config);
}
END_TEST

static const struct {
    const char *text, *message;
} wrong_setting[] = {
    {"", "the form is section.key=value"},
    {"core.threads", "the form is section.key=value"},
    {"threads=2", "the form is section.key=value"},
    {".threads=2", "the form is section.key=value"},
    {"core.=2", "the form is section.key=value"},
    {"a=b.c=2", "the form is section.key=value"},
    {"core.thread=2", "did you mean threads?"},
    {"core.threads=x", "must be a whole number"},
    {"cores.threads=2", "did you mean [core]?"},
    {"plugin.fakes.level=avx2", "no plugin \"fakes\" is configured (did you mean fake?)"},
    {"plugin.zebra.level=avx2", "also requires plugin.zebra.module=FILE"},
    {"plugin.reference.level=avx2", "built in"},
    {"plugin..level=avx2", "lower-case letters"},
    {"plugin.fake.module=", "without this setting it is kt_fake.so"},
    {"core.backend=AMXINT8", "the backend of this method is amx_int8"},
    {"core.backend=AMXINT9", "must be auto or a backend's name"},
};

START_TEST(settings_that_are_wrong)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config = NULL;
    struct kt_error error = {0};
    sandbox_write("shipped/fake.ini", "[plugin.fake]\n");
    params.settings = &wrong_setting[_i].text;
    params.n_settings = 1;
    ck_assert_int_eq(kt_config_create(&params, &config, &error), KT_E_CONFIG);
    ck_assert_ptr_null(config);
    ck_assert_msg(strstr(error.message, wrong_setting[_i].message) != NULL, "%s", error.message);
    ck_assert_ptr_nonnull(strstr(error.message, wrong_setting[_i].text));
}
END_TEST

/* ---- checking, counting, arguments ---------------------------------------------------------- */

struct visits {
    struct {
        char path[256], message[512];
        enum kt_config_file_state state;
    } file[16];
    size_t n;
};

static void note_visit(void *data, const struct kt_config_file *file)
{
    struct visits *visits = data;
    ck_assert_uint_lt(visits->n, COUNT(visits->file));
    (void)snprintf(visits->file[visits->n].path, 256, "%s", file->path);
    (void)snprintf(visits->file[visits->n].message, 512, "%s", file->message);
    visits->file[visits->n++].state = file->state;
}

START_TEST(check_reports_every_file)
{
    struct visits visits = {.n = 0};
    struct kt_error error;
    sandbox_write("shipped/a.ini", "[plugin.a]\n");
    sandbox_write("shipped/b.ini", "[plugin.b]\nx\n");
    sandbox_write("etc/plugins.d/c.ini", "[plugin.c]\npriority = x\n");
    sandbox_write("home/kt-kernel/kt.ini", "[core]\nthreads = x\n");
    ck_assert_int_eq(kt_config_check(NULL, note_visit, &visits, &error), KT_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, at_line("home/kt-kernel/kt.ini", 2)));
    ck_assert_uint_eq(visits.n, 5);
    ck_assert_str_eq(visits.file[0].path, sandbox_path("shipped/a.ini"));
    ck_assert_int_eq(visits.file[0].state, KT_CONFIG_FILE_READ);
    ck_assert_str_eq(visits.file[0].message, "");
    ck_assert_int_eq(visits.file[1].state, KT_CONFIG_FILE_FAILED);
    ck_assert_ptr_nonnull(strstr(visits.file[1].message, at_line("shipped/b.ini", 2)));
    ck_assert_int_eq(visits.file[2].state, KT_CONFIG_FILE_FAILED);
    ck_assert_ptr_nonnull(strstr(visits.file[2].message, at_line("etc/plugins.d/c.ini", 2)));
    ck_assert_str_eq(visits.file[3].path, sandbox_path("etc/kt.ini"));
    ck_assert_int_eq(visits.file[3].state, KT_CONFIG_FILE_ABSENT);
    ck_assert_int_eq(visits.file[4].state, KT_CONFIG_FILE_FAILED);
    sandbox_write("home/kt-kernel/kt.ini", "[core]\nthreads = 2\n");
    ck_assert_int_eq(kt_config_check(NULL, note_visit, &(struct visits){.n = 0}, &error), KT_OK);
}
END_TEST

START_TEST(check_reports_every_line)
{
    struct visits visits = {.n = 0};
    struct kt_error error;
    sandbox_write("shipped/a.ini", "[plugin.a]\npriority = x\nenabled = y\n");
    sandbox_write("home/kt-kernel/kt.ini", "[core]\nthread = 1\nspin_us = x\nz\n[croe]\nz = 1\n");
    ck_assert_int_eq(kt_config_check(NULL, note_visit, &visits, &error), KT_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, at_line("home/kt-kernel/kt.ini", 2)));
    size_t at = 0;
    for (unsigned line = 2; line <= 3; line++)
        ck_assert_ptr_nonnull(strstr(visits.file[at++].message, at_line("shipped/a.ini", line)));
    while (visits.file[at].state == KT_CONFIG_FILE_ABSENT)
        at++;
    for (unsigned line = 2; line <= 5; line++)
        ck_assert_ptr_nonnull(strstr(visits.file[at++].message, at_line("home/kt-kernel/kt.ini", line)));
    ck_assert_uint_eq(visits.n, at);
}
END_TEST

START_TEST(check_tells_what_create_would_say)
{
    struct visits visits = {.n = 0};
    struct kt_error error;
    ck_assert_int_eq(kt_config_check(NULL, note_visit, &visits, &error), KT_OK);
    ck_assert_int_eq(setenv("KT_KERNEL_CORE_THREDS", "2", 1), 0);
    ck_assert_int_eq(kt_config_check(NULL, note_visit, &visits, &error), KT_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, "KT_KERNEL_CORE_THREDS"));
    ck_assert_int_eq(kt_config_check(NULL, NULL, &visits, &error), KT_E_INVALID);
}
END_TEST

START_TEST(arguments_that_are_wrong)
{
    struct kt_config_params params = {0};
    struct kt_config *config = NULL;
    struct kt_setting setting;
    struct kt_error error;
    static const char *const nothing[] = {NULL};
    ck_assert_int_eq(kt_config_create(NULL, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_config_create(&params, &config, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "KT_CONFIG_PARAMS_INIT"));
    params.struct_size = sizeof params;
    params.n_settings = 1;
    ck_assert_int_eq(kt_config_create(&params, &config, NULL), KT_E_INVALID);
    params.settings = nothing;
    ck_assert_int_eq(kt_config_create(&params, &config, &error), KT_E_INVALID);
    ck_assert_ptr_null(config);
    ck_assert_uint_eq(kt_config_setting_count(NULL), 0);
    ck_assert_int_eq(kt_config_setting(NULL, 0, &setting, &error), KT_E_INVALID);
    config = create(NULL, 0);
    ck_assert_int_eq(kt_config_setting(config, 0, NULL, &error), KT_E_INVALID);
    kt_config_destroy(config);
    kt_config_destroy(NULL);
}
END_TEST

START_TEST(a_config_is_shared_by_count)
{
    struct kt_config *config = create(NULL, 0);
    struct kt_config *shared = kt_config_retain(config);
    ck_assert_ptr_eq(config, shared);
    kt_config_destroy(config);
    ck_assert_str_eq(kt_config_text(shared, "core", "backend"), "auto");
    kt_config_destroy(shared);
}
END_TEST

static void count_lines(void *data, enum kt_log_level level, const char *message)
{
    size_t *n = data;
    ck_assert_int_eq(level, KT_LOG_DEBUG);
    ck_assert_ptr_nonnull(strstr(message, "config: reading /"));
    ++*n;
}

START_TEST(debug_tells_which_files_are_read)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    size_t n = 0;
    params.log = count_lines;
    params.log_data = &n;
    ck_assert_int_eq(kt_config_create(&params, &config, NULL), KT_OK);
    kt_config_destroy(config);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(setenv("KT_KERNEL_DEBUG", "yes", 1), 0);
    ck_assert_int_eq(kt_config_create(&params, &config, NULL), KT_OK);
    kt_config_destroy(config);
    ck_assert_uint_eq(n, 2); /* both kt.ini */
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static const char *const settings[] = {"core.threads=2", "plugin.new.module=/x/kt_new.so"};
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    params.settings = settings;
    params.n_settings = COUNT(settings);
    sandbox_write("shipped/a.ini", "[plugin.a]\nx = 1\n");
    sandbox_write("shipped/b.ini", "[plugin.b]\n");
    sandbox_write("shipped/half.ini", "[plugin.half]\nenabled = required\nlev");
    sandbox_write("shipped/twin.ini", "[plugin.b]\n");
    sandbox_write("etc/plugins.d/a.ini", "[plugin.a]\nx = 2\n");
    sandbox_write("etc/kt.ini", "[core]\nspin_us = 7\n");
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGIN_A_X", "3", 1), 0);
    for (unsigned long n = 1;; n++) {
        struct kt_config *config = NULL;
        struct kt_error error = {0};
        ck_assert_uint_lt(n, 10000);
        faults_arm(n);
        enum kt_status status = kt_config_create(&params, &config, &error);
        bool hit = faults_hit();
        faults_arm(0);
        if (!hit) {
            ck_assert_int_eq(status, KT_OK);
            expect_setting(config, "plugin.a", "x", "3", "environment KT_KERNEL_PLUGIN_A_X");
            kt_config_destroy(config);
            ck_assert_uint_gt(n, 50);
            return;
        }
        ck_assert_int_eq(status, KT_E_NOMEM);
        ck_assert_ptr_null(config);
        ck_assert_uint_gt(strlen(error.message), 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("config");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, defaults_are_all_there_in_order);
    tcase_add_test(tests, each_layer_overrides_the_one_below_key_by_key);
    tcase_add_test(tests, a_named_file_stands_for_the_last_three_layers);
    tcase_add_test(tests, dropins_are_read_in_order_of_their_bytes);
    tcase_add_test(tests, the_users_file_is_found_by_xdg_or_home);
    tcase_add_test(tests, folders_that_are_not_there_hold_nothing);
    tcase_add_test(tests, environment_forms);
    tcase_add_loop_test(tests, environment_that_is_wrong, 0, (int)COUNT(wrong_variable));
    tcase_add_test(tests, environment_with_lengthy_names);
    tcase_add_test(tests, both_forms_of_one_variable);
    tcase_add_test(tests, settings_of_the_caller);
    tcase_add_loop_test(tests, settings_that_are_wrong, 0, (int)COUNT(wrong_setting));
    tcase_add_test(tests, check_reports_every_file);
    tcase_add_test(tests, check_reports_every_line);
    tcase_add_test(tests, check_tells_what_create_would_say);
    tcase_add_test(tests, arguments_that_are_wrong);
    tcase_add_test(tests, a_config_is_shared_by_count);
    tcase_add_test(tests, debug_tells_which_files_are_read);
    tcase_add_test(tests, every_allocation_may_fail);
    return run_tests("config", tests);
}
