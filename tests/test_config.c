/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: layers, origins, environment, settings, and every way to get it wrong. */
#include "core/config.h"
#include "tests/alloc_faults.h"
#include "tests/sandbox.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct kt_config *create(const char *const *settings, size_t n)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config = NULL;
    struct kt_error error = {0};
    params.settings = settings;
    params.n_settings = n;
    ck_assert_msg(kt_config_create(&params, &config, &error) == KT_OK, "%s", error.message);
    return config;
}

/* Creates a config from the sandbox's files and expects the failure, with all of these texts in it.
 */
static void expect_failure(enum kt_status status, const char *first, const char *second)
{
    struct kt_config *config = NULL;
    struct kt_error error = {0};
    ck_assert_int_eq(kt_config_create(NULL, &config, &error), status);
    ck_assert_ptr_null(config);
    ck_assert_int_eq(error.status, status);
    ck_assert_msg(strstr(error.message, first) != NULL, "\"%s\" is not in \"%s\"", first,
                  error.message);
    ck_assert_msg(strstr(error.message, second) != NULL, "\"%s\" is not in \"%s\"", second,
                  error.message);
}

static void expect_setting(const struct kt_config *config, const char *section, const char *key,
                           const char *value, const char *origin)
{
    const struct kt_setting *setting = kt_config_find(config, section, key);
    ck_assert_msg(setting != NULL, "%s.%s is not there", section, key);
    ck_assert_str_eq(setting->value, value);
    ck_assert_str_eq(setting->origin, origin);
}

static const char *at_line(const char *relative, unsigned line)
{
    static char text[256];
    (void)snprintf(text, sizeof text, "%s:%u", sandbox_path(relative), line);
    return text;
}

/* ---- layers --------------------------------------------------------------------------------- */

START_TEST(defaults_are_all_there_in_order)
{
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(kt_config_setting_count(config), 10);
    struct kt_setting setting, last = {.key = ""};
    for (size_t i = 0; i < 10; i++) {
        ck_assert_int_eq(kt_config_setting(config, i, &setting, NULL), KT_OK);
        ck_assert_str_eq(setting.section, "core");
        ck_assert_str_eq(setting.origin, "default");
        ck_assert_uint_gt(strlen(setting.help), 0);
        ck_assert_int_lt(strcmp(last.key, setting.key), 0);
        last = setting;
    }
    ck_assert_int_eq(kt_config_setting(config, 10, &setting, NULL), KT_E_NOT_FOUND);
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
    sandbox_write("etc/plugins.d/fake.ini",
                  "; ours\n[plugin.fake]\nb = 2\nc = 2\nd = 2\ne = 2\nf = 2\n");
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
    ck_assert_uint_eq(kt_config_setting_count(config), 10);
    kt_config_destroy(config);
}
END_TEST

/* ---- one file ------------------------------------------------------------------------------- */

START_TEST(forms_that_are_fine)
{
    sandbox_write("etc/kt.ini", "\xef\xbb\xbf; with a byte order mark\r\n"
                                "   [core]  ; the core\r\n"
                                "\tthreads=2 ; two\r\n"
                                "    spin_us : 5\r\n"
                                "\r\n"
                                "# a comment\r\n"
                                "plugin_path = /a;b:/c=d ;not this\r\n"
                                "[plugin.fake]#x\r\n"
                                "note =\r\n"
                                "two = a b  c\r\n"
                                "last = yes");
    struct kt_config *config = create(NULL, 0);
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 2);
    expect_setting(config, "core", "spin_us", "5", at_line("etc/kt.ini", 4));
    expect_setting(config, "core", "plugin_path", "/a;b:/c=d", at_line("etc/kt.ini", 7));
    expect_setting(config, "plugin.fake", "note", "", at_line("etc/kt.ini", 9));
    expect_setting(config, "plugin.fake", "two", "a b  c", at_line("etc/kt.ini", 10));
    expect_setting(config, "plugin.fake", "last", "yes", at_line("etc/kt.ini", 11));
    kt_config_destroy(config);
}
END_TEST

static const struct {
    const char *text, *line, *message;
} wrong[] = {
    {"[core]\nthread = 2\n", ":2: ", "[core] has no setting \"thread\"; did you mean threads?"},
    {"[core]\nlevitation = 2\n", ":2: ", "has no setting \"levitation\""},
    {"[core]\n\n\nthreads = many\n",
     ":4: ", "threads = \"many\": must be a whole number from 0 to 4096"},
    {"[core]\nthreads = 4097\n", ":2: ", "from 0 to 4096"},
    {"[core]\nthreads = -1\n", ":2: ", "from 0 to 4096"},
    {"[core]\nthreads = 99999999999999999999\n", ":2: ", "from 0 to 4096"},
    {"[core]\nthreads = 0x10\n", ":2: ", "from 0 to 4096"},
    {"[core]\nthreads = 2 3\n", ":2: ", "from 0 to 4096"},
    {"[core]\nthreads =\n", ":2: ", "threads = \"\""},
    {"[core]\nqueue_depth = 0\n", ":2: ", "from 1 to 65536"},
    {"[core]\nstrict = maybe\n", ":2: ", "must be yes or no"},
    {"[core]\nnuma_nodes = first\n", ":2: ", "must be all, or a list of numbers"},
    {"[core]\nbackend = ../evil\n", ":2: ", "must be auto or a backend's name"},
    {"[core]\nplugin_path = plugins\n", ":2: ", "must be absolute folders"},
    {"[core]\nplugin_path = /a:b\n", ":2: ", "must be absolute folders"},
    {"[core]\ncpu_variant = avx1024\n", ":2: ", "must be one of"},
    {"[plugin.fake]\nenabled = perhaps\n", ":2: ", "must be one of no|yes|required"},
    {"[plugin.fake]\npriority = 1001\n", ":2: ", "from -1000 to 1000"},
    {"[Core]\nthreads = 2\n", ":1: ", "unknown section [Core]; did you mean [core]?"},
    {"[plugin.fake]\n[plugins.fake]\n", ":2: ", "did you mean [plugin.fake]?"},
    {"[plugin.fake]\n[fake]\n", ":2: ", "did you mean [plugin.fake]?"},
    {"[somewhere]\n", ":1: ", "known are [core] and [plugin.NAME]"},
    {"[plugin.Fake]\n", ":1: ", "lower-case letters"},
    {"[plugin.]\n", ":1: ", "lower-case letters"},
    {"[plugin.../x]\n", ":1: ", "lower-case letters"},
    {"[plugin.a_name_that_is_much_too_long_for_it]\n", ":1: ", "at most 31"},
    {"[plugin.reference]\n", ":1: ", "built in"},
    {"threads = 2\n[core]\n", ":1: ", "before the first section"},
    {"[core\nthreads = 2\n", ":1: ", "not closed by ]"},
    {"[core] threads = 2\n", ":1: ", "text after ]"},
    {"[]\n", ":1: ", "1 to 48 characters"},
    {"[core ; x]\n", ":1: ", "and no ;"},
    {"[core]\nthreads\n", ":2: ", "neither [section] nor key = value"},
    {"[core]\n= 2\n", ":2: ", "no key"},
    {"[core]\nthreads = 2\n\nthreads = 3\n", ":4: ", "core.threads is set twice"},
    {"[core]\nthreads = 2\x01\n", ":2: ", "byte 0x01 at column 12"},
    {"[core]\nthreads = 2\rspin_us = 3\n", ":2: ", "byte 0x0d"},
};

START_TEST(forms_that_are_wrong)
{
    sandbox_write("etc/kt.ini", "%s", wrong[_i].text);
    char place[256];
    (void)snprintf(place, sizeof place, "%s%s", sandbox_path("etc/kt.ini"), wrong[_i].line);
    expect_failure(KT_E_CONFIG, place, wrong[_i].message);
}
END_TEST

START_TEST(a_nul_byte_is_refused)
{
    static const char text[] = "[core]\nthreads = 2\0007\n";
    sandbox_write_bytes("etc/kt.ini", text, sizeof text - 1);
    expect_failure(KT_E_CONFIG, at_line("etc/kt.ini", 2), "byte 0x00");
}
END_TEST

/* inih's buffer has 200 bytes; what does not fit would be read as a line of its own. */
START_TEST(long_lines)
{
    char folder[512];
    memset(folder, 'x', sizeof folder);
    static const char key[] = "plugin_path = /";
    const int fits = 190 - (int)(sizeof key - 1);
    sandbox_write("etc/kt.ini", "[core]\n%s%.*s\nthreads = 2\n", key, fits, folder);
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(strlen(kt_config_text(config, "core", "plugin_path")), (size_t)fits + 1);
    expect_setting(config, "core", "threads", "2", at_line("etc/kt.ini", 3));
    kt_config_destroy(config);
    sandbox_write("etc/kt.ini", "[core]\n%s%.*s\nthreads = 2\n", key, fits + 1, folder);
    expect_failure(KT_E_CONFIG, at_line("etc/kt.ini", 2), "the line has 191 bytes; at most 190");
    for (int length = 196; length < 206; length++) {
        sandbox_write("etc/kt.ini", "[core]\n%s%.*sthreads = 2\n", key, length, folder);
        expect_failure(KT_E_CONFIG, at_line("etc/kt.ini", 2), "at most 190");
    }
    sandbox_write("etc/kt.ini", "[core]\n; %.*s\nthreads = 2\n", 500, folder);
    config = create(NULL, 0);
    ck_assert_int_eq(kt_config_int(config, "core", "threads"), 2);
    kt_config_destroy(config);
}
END_TEST

/* Any first bytes of a good file are a good file or an error with a line, never more. */
START_TEST(truncated_at_every_byte)
{
    static const char text[] = "; x\n[core]\nthreads = 12\n[plugin.fake]\nnote = \"a ; b\"\n";
    for (size_t size = 0; size < sizeof text; size++) {
        struct kt_config *config = NULL;
        struct kt_error error = {0};
        sandbox_write_bytes("etc/kt.ini", text, size);
        enum kt_status status = kt_config_create(NULL, &config, &error);
        ck_assert(status == KT_OK || status == KT_E_CONFIG);
        ck_assert_int_eq(status == KT_OK, config != NULL);
        ck_assert_int_eq(status != KT_OK, strstr(error.message, "/etc/kt.ini:") != NULL);
        kt_config_destroy(config);
        if (size > 11)
            size += size % 3; /* spare the disk */
    }
}
END_TEST

/* ---- files that are none -------------------------------------------------------------------- */

START_TEST(odd_files)
{
    static char large[(1 << 20) + 1];
    const char *file = sandbox_path("etc/kt.ini");
    sandbox_folder("etc/kt.ini");
    expect_failure(KT_E_IO, file, "is a directory");
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(symlink("/nowhere/kt.ini", file), 0);
    expect_failure(KT_E_IO, file, "a symbolic link to nothing");
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(symlink(file, file), 0);
    expect_failure(KT_E_IO, file, "leads back to itself");
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(mkfifo(file, 0600), 0);
    expect_failure(KT_E_IO, file, "a device or pipe");
    ck_assert_int_eq(unlink(file), 0);
    memset(large, '\n', sizeof large);
    sandbox_write_bytes("etc/kt.ini", large, sizeof large - 1);
    kt_config_destroy(create(NULL, 0));
    sandbox_write_bytes("etc/kt.ini", large, sizeof large);
    expect_failure(KT_E_CONFIG, file, "larger than 1 MiB");
}
END_TEST

START_TEST(odd_dropins)
{
    const char *file = sandbox_path("shipped/odd.ini");
    sandbox_folder("shipped/odd.ini");
    expect_failure(KT_E_IO, file, "is a directory");
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(symlink("gone", file), 0);
    expect_failure(KT_E_IO, file, "a symbolic link to nothing");
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(symlink("odd.ini", file), 0);
    expect_failure(KT_E_IO, file, "leads back to itself");
    ck_assert_int_eq(unlink(file), 0);
    sandbox_write("shipped/odd.ini", "[plugin.fake]\n[core]\nthreads = 2\n");
    expect_failure(KT_E_CONFIG, at_line("shipped/odd.ini", 2), "a drop-in may hold sections");
    sandbox_write("shipped/odd.ini", "x\n");
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGINCONFDIR", file, 1), 0);
    expect_failure(KT_E_IO, file, "folder of drop-ins cannot be read");
}
END_TEST

START_TEST(files_without_permission)
{
    sandbox_write("etc/kt.ini", "[core]\n");
    ck_assert_int_eq(chmod(sandbox_path("etc/kt.ini"), 0), 0);
    if (access(sandbox_path("etc/kt.ini"), R_OK) == 0)
        return; /* root reads all */
    expect_failure(KT_E_IO, sandbox_path("etc/kt.ini"), "cannot be opened");
    ck_assert_int_eq(chmod(sandbox_path("etc/kt.ini"), 0644), 0);
    /* A home that may not be looked into has no settings for us. */
    ck_assert_int_eq(chmod(sandbox_path("home"), 0), 0);
    kt_config_destroy(create(NULL, 0));
    ck_assert_int_eq(chmod(sandbox_path("home"), 0755), 0);
}
END_TEST

START_TEST(two_dropins_with_one_section)
{
    sandbox_write("shipped/a.ini", "[plugin.fake]\na = 1\n[plugin.fake]\nb = 1\n");
    kt_config_destroy(create(NULL, 0));
    sandbox_write("etc/plugins.d/b.ini", "[plugin.fake]\n"); /* another layer */
    kt_config_destroy(create(NULL, 0));
    sandbox_write("shipped/b.ini", "\n[plugin.fake]\n");
    expect_failure(KT_E_CONFIG, at_line("shipped/b.ini", 2), sandbox_path("shipped/a.ini"));
}
END_TEST

/* The example says of every setting what its default is: with the comment signs of its settings
 * taken away it is a file that changes nothing. */
START_TEST(the_example_file_holds_every_setting)
{
    static char text[1 << 16];
    const char *source = getenv("KT_TEST_SOURCE");
    char path[4096], line[512];
    size_t used = 0;
    ck_assert_msg(source != NULL, "KT_TEST_SOURCE must name the source folder");
    (void)snprintf(path, sizeof path, "%s/etc/kt.ini", source);
    FILE *example = fopen(path, "r");
    ck_assert_msg(example != NULL, "%s cannot be opened", path);
    while (fgets(line, sizeof line, example)) {
        bool setting = line[0] == ';' && ((line[1] >= 'a' && line[1] <= 'z') || line[1] == '[');
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", setting ? line + 1 : line);
    }
    ck_assert_int_eq(fclose(example), 0);
    struct kt_config *plain =
        create((const char *const[]){"plugin.llamafile.module=kt_llamafile.so"}, 1);
    sandbox_write("etc/kt.ini", "%s", text);
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(kt_config_setting_count(config), kt_config_setting_count(plain));
    for (size_t i = 0; i < kt_config_setting_count(plain); i++) {
        struct kt_setting setting;
        ck_assert_int_eq(kt_config_setting(plain, i, &setting, NULL), KT_OK);
        const struct kt_setting *shown = kt_config_find(config, setting.section, setting.key);
        ck_assert_msg(shown && strstr(shown->origin, "kt.ini:"), "%s.%s is not in the example",
                      setting.section, setting.key);
        ck_assert_str_eq(shown->value, setting.value);
    }
    kt_config_destroy(config);
    kt_config_destroy(plain);
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
    expect_setting(config, "plugin.amx_int4", "level", "amx",
                   "environment KT_KERNEL_PLUGIN_AMX_INT4_LEVEL");
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
    {"plugin.zebra.level=avx2", "needs plugin.zebra.module=FILE too"},
    {"plugin.reference.level=avx2", "built in"},
    {"plugin..level=avx2", "lower-case letters"},
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
    sandbox_write("home/kt-kernel/kt.ini", "[core]\nthreads = 2\n");
    ck_assert_int_eq(kt_config_check(NULL, note_visit, &visits, &error), KT_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, at_line("shipped/b.ini", 2)));
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
    ck_assert_int_eq(visits.file[4].state, KT_CONFIG_FILE_READ);
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
    Suite *suite = suite_create("config");
    TCase *tests = tcase_create("config");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, defaults_are_all_there_in_order);
    tcase_add_test(tests, each_layer_overrides_the_one_below_key_by_key);
    tcase_add_test(tests, a_named_file_stands_for_the_last_three_layers);
    tcase_add_test(tests, dropins_are_read_in_order_of_their_bytes);
    tcase_add_test(tests, the_users_file_is_found_by_xdg_or_home);
    tcase_add_test(tests, folders_that_are_not_there_hold_nothing);
    tcase_add_test(tests, forms_that_are_fine);
    tcase_add_loop_test(tests, forms_that_are_wrong, 0, (int)COUNT(wrong));
    tcase_add_test(tests, a_nul_byte_is_refused);
    tcase_add_test(tests, long_lines);
    tcase_add_test(tests, truncated_at_every_byte);
    tcase_add_test(tests, odd_files);
    tcase_add_test(tests, odd_dropins);
    tcase_add_test(tests, files_without_permission);
    tcase_add_test(tests, two_dropins_with_one_section);
    tcase_add_test(tests, the_example_file_holds_every_setting);
    tcase_add_test(tests, environment_forms);
    tcase_add_loop_test(tests, environment_that_is_wrong, 0, (int)COUNT(wrong_variable));
    tcase_add_test(tests, environment_with_lengthy_names);
    tcase_add_test(tests, both_forms_of_one_variable);
    tcase_add_test(tests, settings_of_the_caller);
    tcase_add_loop_test(tests, settings_that_are_wrong, 0, (int)COUNT(wrong_setting));
    tcase_add_test(tests, check_reports_every_file);
    tcase_add_test(tests, check_tells_what_create_would_say);
    tcase_add_test(tests, arguments_that_are_wrong);
    tcase_add_test(tests, a_config_is_shared_by_count);
    tcase_add_test(tests, debug_tells_which_files_are_read);
    tcase_add_test(tests, every_allocation_may_fail);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
