/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: forms, right and wrong, and files that are none. */
#include "tests/support/config_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    {"[core]\n\n\nthreads = many\n", ":4: ", "threads = \"many\": must be a whole number from 0 to 4096"},
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
    {"[tuned.fake]\ncpu = x\n", ":1: ", "measured values belong in tuned.ini"},
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

/* tuned.ini has sections for a CPU each. */
START_TEST(measured_values_that_are_wrong)
{
    static const struct {
        const char *text, *line, *message;
    } rows[] = {
        {"[core]\nthreads = 2\n", ":1: ", "has sections [tuned.NAME] only"},
        {"[plugin.fake]\n", ":1: ", "has sections [tuned.NAME] only"},
        {"[tuned.]\n", ":1: ", "lower-case letters"},
        {"[tuned.fake]\na.b.c.d = 2\n", ":2: ", "the first setting must be cpu, such as cpu = "},
        {"[tuned.fake]\ncpu = x\na.b.c.d = 2\nmicrocode = 1\n", ":4: ", "must directly follow cpu"},
        {"[tuned.fake]\ncpu = x\n[tuned.other]\nmicrocode = 1\n", ":4: ", "must be cpu"},
    };
    sandbox_write("home/kt-kernel/tuned.ini", "%s", rows[_i].text);
    char place[256];
    (void)snprintf(place, sizeof place, "%s%s", sandbox_path("home/kt-kernel/tuned.ini"), rows[_i].line);
    expect_failure(KT_E_CONFIG, place, rows[_i].message);
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

/* Messages are UTF-8 whatever a file holds, and a list that is too long is refused at once. */
START_TEST(odd_bytes_and_long_lists)
{
    static char text[1 << 17];
    sandbox_write("etc/kt.ini", "[core]\n\xff\xfe\tx\xc3 = 1\n");
    expect_failure(KT_E_CONFIG, at_line("etc/kt.ini", 2), "?? x?");
    sandbox_write("etc/kt.ini", "[core]\nbackend\xc2\x9b = \xc3\xa4\n");
    expect_failure(KT_E_CONFIG, at_line("etc/kt.ini", 2), "backend??");
    for (int i = 0, used = 0; i < 300; i++)
        used += sprintf(text + used, "[plugin.p%d]\nenabled = no\n", i);
    sandbox_write_bytes("etc/kt.ini", text, strlen(text));
    expect_failure(KT_E_CONFIG, at_line("etc/kt.ini", 513), "256 plugins already");
    int used = sprintf(text, "[plugin.p]\n");
    for (int i = 0; i < 9000; i++)
        used += sprintf(text + used, "k%d=\n", i);
    sandbox_write_bytes("etc/kt.ini", text, strlen(text));
    expect_failure(KT_E_CONFIG, sandbox_path("etc/kt.ini"), "8192 settings already");
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
    expect_failure(KT_E_IO, file, "broken symbolic link");
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

/* The configuration stands, but says of the plugin why it cannot be used, with both texts. */
static struct kt_config *expect_broken(const char *name, const char *first, const char *second)
{
    struct kt_config *config = create(NULL, 0);
    const char *broken = kt_config_plugin_broken(config, name);
    ck_assert_msg(broken && strstr(broken, first) && strstr(broken, second),
                  "%s: \"%s\" and \"%s\" are not both in \"%s\"", name, first, second,
                  broken ? broken : "(not broken)");
    return config;
}

START_TEST(odd_dropins)
{
    const char *file = sandbox_path("shipped/odd.ini");
    sandbox_folder("shipped/odd.ini");
    kt_config_destroy(expect_broken("odd", file, "is a directory"));
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(symlink("gone", file), 0);
    kt_config_destroy(expect_broken("odd", file, "broken symbolic link"));
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(symlink("odd.ini", file), 0);
    kt_config_destroy(expect_broken("odd", file, "leads back to itself"));
    ck_assert_int_eq(unlink(file), 0);
    sandbox_write("shipped/odd.ini", "[plugin.fake]\n[core]\nthreads = 2\n");
    kt_config_destroy(expect_broken("fake", at_line("shipped/odd.ini", 2), "a drop-in may hold sections"));
    /* Named after nothing that a plugin could be called. */
    sandbox_write("shipped/Odd one.ini", "x\n");
    sandbox_write("shipped/reference.ini", "x\n");
    struct kt_config *config = create(NULL, 0);
    ck_assert_uint_eq(kt_config_plugin_count(config), 1);
    kt_config_destroy(config);
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGINCONFDIR", file, 1), 0);
    expect_failure(KT_E_IO, file, "folder of drop-ins cannot be read");
}
END_TEST

/* Of a drop-in with an error nothing is used, and each plugin that it is about is out, but no other. */
START_TEST(half_written_dropins)
{
    sandbox_write("shipped/good.ini", "[plugin.good]\npriority = 3\n");
    sandbox_write("shipped/half.ini", "[plugin.one]\npriority = 4\n[plugin.half]\nenabled = required\nlev");
    struct kt_config *config = expect_broken("half", at_line("shipped/half.ini", 5), "neither [section]");
    ck_assert_ptr_nonnull(kt_config_plugin_broken(config, "one"));
    expect_setting(config, "plugin.one", "priority", "0", "default");
    expect_setting(config, "plugin.half", "enabled", "required", at_line("shipped/half.ini", 4));
    ck_assert_ptr_null(kt_config_plugin_broken(config, "good"));
    ck_assert_int_eq(kt_config_int(config, "plugin.good", "priority"), 3);
    kt_config_destroy(config);
    /* Files after it go before it, as before a good one. */
    sandbox_write("etc/plugins.d/mine.ini", "[plugin.half]\nenabled = no\n");
    config = expect_broken("half", at_line("shipped/half.ini", 5), "");
    expect_setting(config, "plugin.half", "enabled", "no", at_line("etc/plugins.d/mine.ini", 2));
    kt_config_destroy(config);
    sandbox_write("etc/plugins.d/mine.ini", "[plugin.half]\nenabled = nope\n");
    kt_config_destroy(expect_broken("half", at_line("shipped/half.ini", 5), ""));
    /* Cut before its section. */
    sandbox_write("shipped/half.ini", "; half\n[plug");
    kt_config_destroy(expect_broken("half", at_line("shipped/half.ini", 2), "not closed by ]"));
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
    struct kt_config *config = create(NULL, 0);
    ck_assert_ptr_null(kt_config_plugin_broken(config, "fake"));
    kt_config_destroy(config);
    sandbox_write("shipped/b.ini", "[plugin.other]\n[plugin.fake]\nenabled = required\n");
    config = expect_broken("fake", at_line("shipped/b.ini", 2), sandbox_path("shipped/a.ini"));
    ck_assert_ptr_nonnull(kt_config_plugin_broken(config, "other"));
    expect_setting(config, "plugin.fake", "enabled", "required", at_line("shipped/b.ini", 3));
    kt_config_destroy(config);
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
    struct kt_config *plain = create((const char *const[]){"plugin.llamafile.module=kt_llamafile.so"}, 1);
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

int main(void)
{
    TCase *tests = tcase_create("config_files");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, forms_that_are_fine);
    tcase_add_loop_test(tests, forms_that_are_wrong, 0, (int)COUNT(wrong));
    tcase_add_loop_test(tests, measured_values_that_are_wrong, 0, 6);
    tcase_add_test(tests, a_nul_byte_is_refused);
    tcase_add_test(tests, long_lines);
    tcase_add_test(tests, odd_bytes_and_long_lists);
    tcase_add_test(tests, truncated_at_every_byte);
    tcase_add_test(tests, odd_files);
    tcase_add_test(tests, odd_dropins);
    tcase_add_test(tests, half_written_dropins);
    tcase_add_test(tests, files_without_permission);
    tcase_add_test(tests, two_dropins_with_one_section);
    tcase_add_test(tests, the_example_file_holds_every_setting);
    return run_tests("config_files", tests);
}
