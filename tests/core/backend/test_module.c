/* SPDX-License-Identifier: Apache-2.0 */
/* Plugin modules: where they are looked for, who may have written them, what kind of file they are.
 */
#define _GNU_SOURCE
#include "core/backend/module.h"
#include "core/base/option.h"
#include "core/base/trust.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_text(const struct kt_error *error, const char *text)
{
    ck_assert_msg(strstr(error->message, text) != NULL, "\"%s\" is not in \"%s\"", text, error->message);
}

/* Opens the file as plugin `name` and expects a refusal that says `text`. */
static void expect_refusal(const char *file, const char *name, const char *text)
{
    struct kt_module module = {.fd = -1};
    struct kt_error error = {0};
    char *real = NULL;
    enum kt_status status = kt_module_open(file, name, &module, &real, &error);
    ck_assert_msg(status == KT_E_PLUGIN || status == KT_E_NOT_FOUND, "status %d for %s", status, file);
    expect_text(&error, text);
    ck_assert_ptr_null(module.handle);
    ck_assert_ptr_null(real);
    ck_assert_int_eq(module.fd, -1);
}

static void expect_fake(const char *file)
{
    struct kt_module module;
    struct kt_error error = {0};
    char *real;
    ck_assert_msg(kt_module_open(file, "fake", &module, &real, &error) == KT_OK, "%s", error.message);
    ck_assert_str_eq(module.plugin->name, "fake");
    kt_module_close(&module);
    free(real);
}

/* ---- finding -------------------------------------------------------------------------------- */

START_TEST(finding)
{
    char *file = NULL, path[1024];
    struct kt_error error;
    sandbox_write("one/kt_a.so", "1");
    sandbox_write("two/kt_a.so", "2");
    sandbox_write("two/kt_b.so", "2");
    (void)snprintf(path, sizeof path, "%s:%s:", sandbox_path("one"), sandbox_path("two"));
    ck_assert_int_eq(kt_module_find("kt_a.so", path, KT_PLUGINSDIR, &file, &error), KT_OK);
    ck_assert_str_eq(file, sandbox_path("one/kt_a.so"));
    free(file);
    ck_assert_int_eq(kt_module_find("kt_b.so", path, KT_PLUGINSDIR, &file, &error), KT_OK);
    ck_assert_str_eq(file, sandbox_path("two/kt_b.so"));
    free(file);
    ck_assert_int_eq(kt_module_find("/any/where.so", path, KT_PLUGINSDIR, &file, &error), KT_OK);
    ck_assert_str_eq(file, "/any/where.so");
    free(file);
    file = NULL;
    ck_assert_int_eq(kt_module_find("kt_zzz.so", path, KT_PLUGINSDIR, &file, &error), KT_E_NOT_FOUND);
    expect_text(&error, path);
    expect_text(&error, "core.plugin_path");
    ck_assert_int_eq(kt_module_find("kt_zzz.so", "", KT_PLUGINSDIR, &file, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_null(file);
}
END_TEST

START_TEST(never_in_the_current_folder)
{
    char *file = NULL, before[4096];
    struct kt_error error;
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    (void)sandbox_plugin("fake", "here/kt_fake.so");
    ck_assert_int_eq(chdir(sandbox_path("here")), 0);
    ck_assert_int_eq(kt_module_find("kt_fake.so", "", KT_PLUGINSDIR, &file, &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(kt_module_find("./kt_fake.so", "", KT_PLUGINSDIR, &file, &error), KT_E_PLUGIN);
    expect_text(&error, "absolute path");
    ck_assert_int_eq(kt_module_find("../here/kt_fake.so", "/", KT_PLUGINSDIR, &file, &error), KT_E_PLUGIN);
    ck_assert_int_eq(kt_module_find("", "/", KT_PLUGINSDIR, &file, &error), KT_E_PLUGIN);
    expect_refusal("kt_fake.so", "fake", "is not an absolute path");
    ck_assert_ptr_null(file);
    ck_assert_int_eq(chdir(before), 0);
}
END_TEST

/* ---- who may have written it ---------------------------------------------------------------- */

START_TEST(modes_of_the_file)
{
    static const mode_t safe[] = {0755, 0644, 0555, 0500, 0711}, unsafe[] = {0664, 0666, 0602, 0777};
    const char *file = sandbox_plugin("fake", "p/kt_fake.so");
    for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++) {
        ck_assert_int_eq(chmod(file, safe[i]), 0);
        expect_fake(file);
    }
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
        ck_assert_int_eq(chmod(file, unsafe[i]), 0);
        expect_refusal(file, "fake", "chmod go-w");
        expect_refusal(file, "fake", unsafe[i] & 2 ? "by everybody" : "by its group");
    }
}
END_TEST

START_TEST(modes_of_the_folders)
{
    const char *file = sandbox_plugin("fake", "a/b/c/kt_fake.so");
    const char *folders[] = {sandbox_path("a/b/c"), sandbox_path("a/b"), sandbox_path("a")};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(chmod(folders[i], 0777), 0);
        expect_refusal(file, "fake", folders[i]);
        ck_assert_int_eq(chmod(folders[i], 0775), 0);
        expect_refusal(file, "fake", "by its group (mode 0775)");
        ck_assert_int_eq(chmod(folders[i], 0755), 0);
    }
    expect_fake(file);
}
END_TEST

/* A sticky folder is safe only if it is root's: another owner may take the bit away. */
START_TEST(sticky_folders)
{
    const char *file = sandbox_plugin("fake", "a/b/kt_fake.so");
    ck_assert_int_eq(chmod(sandbox_path("a"), 01777), 0);
    if (geteuid() == 0)
        expect_fake(file);
    else
        expect_refusal(file, "fake", "writable by everybody");
}
END_TEST

START_TEST(owners)
{
    const char *file = sandbox_plugin("fake", "a/kt_fake.so");
    if (geteuid() != 0)
        return; /* only root gives files away */
    ck_assert_int_eq(chown(file, 65534, 0), 0);
    expect_refusal(file, "fake", "belongs to user 65534, neither to root nor to user 0");
    ck_assert_int_eq(chown(file, 0, 0), 0);
    ck_assert_int_eq(chown(sandbox_path("a"), 65534, 0), 0);
    expect_refusal(file, "fake", "belongs to user 65534");
    ck_assert_int_eq(chown(sandbox_path("a"), 0, 0), 0);
    expect_fake(file);
}
END_TEST

/* A link is as safe as its target, its own folders and whoever made it. */
START_TEST(links)
{
    const char *file = sandbox_plugin("fake", "real/kt_fake.so");
    sandbox_folder("links");
    const char *link = sandbox_path("links/kt_fake.so");
    ck_assert_int_eq(symlink(file, link), 0);
    struct kt_module module;
    char *real;
    ck_assert_int_eq(kt_module_open(link, "fake", &module, &real, NULL), KT_OK);
    ck_assert_str_eq(real, file);
    kt_module_close(&module);
    free(real);
    ck_assert_int_eq(chmod(sandbox_path("real"), 0777), 0);
    expect_refusal(link, "fake", sandbox_path("real"));
    ck_assert_int_eq(chmod(sandbox_path("real"), 0755), 0);
    ck_assert_int_eq(chmod(sandbox_path("links"), 0777), 0);
    expect_refusal(link, "fake", sandbox_path("links"));
    ck_assert_int_eq(chmod(sandbox_path("links"), 0755), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(lchown(link, 65534, 0), 0);
        expect_refusal(link, "fake", "belongs to user 65534");
    }
    ck_assert_int_eq(unlink(link), 0);
    ck_assert_int_eq(symlink("nowhere.so", link), 0);
    expect_refusal(link, "fake", "a symbolic link to nothing");
    ck_assert_int_eq(unlink(link), 0);
    ck_assert_int_eq(symlink("kt_fake.so", link), 0);
    expect_refusal(link, "fake", "lead too far");
    ck_assert_int_eq(unlink(link), 0);
    ck_assert_int_eq(symlink(sandbox_path("real"), sandbox_path("links/dir")), 0);
    expect_fake(sandbox_path("links/dir/kt_fake.so"));
    /* Also where a link is not the last name, and where one leads through another. */
    sandbox_folder("open");
    ck_assert_int_eq(symlink(sandbox_path("real"), sandbox_path("open/dir")), 0);
    ck_assert_int_eq(symlink("../open/./dir", sandbox_path("links/further")), 0);
    expect_fake(sandbox_path("links/further/kt_fake.so"));
    ck_assert_int_eq(chmod(sandbox_path("open"), 0777), 0);
    expect_refusal(sandbox_path("open/dir/kt_fake.so"), "fake", sandbox_path("open"));
    expect_refusal(sandbox_path("links/further/kt_fake.so"), "fake", sandbox_path("open"));
    ck_assert_int_eq(symlink("loop", sandbox_path("links/loop")), 0);
    expect_refusal(sandbox_path("links/loop/kt_fake.so"), "fake", "lead too far");
}
END_TEST

/* ---- what kind of file ---------------------------------------------------------------------- */

START_TEST(files_that_are_no_shared_object)
{
    sandbox_write("p/kt_fake.so", "#!/bin/sh\n");
    const char *file = sandbox_path("p/kt_fake.so");
    expect_refusal(file, "fake", "is not an ELF file");
    sandbox_write("p/kt_fake.so", "%s", "");
    expect_refusal(file, "fake", "is an empty file");
    ck_assert_int_eq(unlink(file), 0);
    expect_refusal(file, "fake", "does not exist");
    sandbox_folder("p/kt_fake.so");
    expect_refusal(file, "fake", "is a directory, not a file");
    ck_assert_int_eq(rmdir(file), 0);
    ck_assert_int_eq(mkfifo(file, 0600), 0);
    expect_refusal(file, "fake", "a device, pipe or socket");
    expect_refusal("/", "fake", "is a directory");
    expect_refusal("/dev/null", "fake", "/dev");
}
END_TEST

START_TEST(elf_files_of_other_kinds)
{
    static const struct {
        size_t offset;
        unsigned char value;
        const char *text;
    } rows[] = {
        {EI_CLASS, ELFCLASS32, "is a 32-bit ELF file"},
        {offsetof(Elf64_Ehdr, e_machine), EM_S390, "ELF machine 22"},
        {offsetof(Elf64_Ehdr, e_machine), EM_386, "is for i386"},
        {offsetof(Elf64_Ehdr, e_type), ET_REL, "no shared object (ELF type 1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *file = sandbox_plugin("fake", "p/kt_fake.so");
        int fd = open(file, O_WRONLY);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(pwrite(fd, &rows[i].value, 1, (off_t)rows[i].offset), 1);
        ck_assert_int_eq(close(fd), 0);
        if (rows[i].offset == offsetof(Elf64_Ehdr, e_machine)) {
            fd = open(file, O_WRONLY);
            ck_assert_int_eq(pwrite(fd, "", 1, (off_t)rows[i].offset + 1), 1);
            ck_assert_int_eq(close(fd), 0);
        }
        expect_refusal(file, "fake", rows[i].text);
    }
}
END_TEST

/* The dynamic linker would die of a file that ends before its segments do. */
START_TEST(truncated_objects)
{
    static const char *const texts[] = {"is an empty file", "is not an ELF file",
                                        "ends inside its ELF header", "is truncated or damaged"};
    static const struct {
        off_t size;
        int text;
    } rows[] = {{0, 0}, {1, 1}, {3, 1}, {5, 2}, {63, 2}, {64, 3}, {80, 3}, {512, 3}, {5000, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *file = sandbox_plugin("fake", "p/kt_fake.so");
        ck_assert_int_eq(truncate(file, rows[i].size), 0);
        expect_refusal(file, "fake", texts[rows[i].text]);
    }
}
END_TEST

/* ---- loading -------------------------------------------------------------------------------- */

START_TEST(two_plugins_do_not_take_each_others_place)
{
    const char *fake = sandbox_plugin("fake", "p/kt_fake.so");
    const char *half = sandbox_plugin("probe_refuses", "p/kt_probe_refuses.so");
    for (int round = 0; round < 40; round++) {
        struct kt_module first, again, other;
        char *real[3];
        ck_assert_int_eq(kt_module_open(fake, "fake", &first, &real[0], NULL), KT_OK);
        ck_assert_int_eq(kt_module_open(fake, "fake", &again, &real[1], NULL), KT_OK);
        ck_assert_ptr_eq(first.plugin, again.plugin); /* one object, opened twice */
        kt_module_close(&first);                      /* its descriptor is free for the next one */
        ck_assert_int_eq(kt_module_open(half, "probe_refuses", &other, &real[2], NULL), KT_OK);
        ck_assert_str_eq(other.plugin->name, "probe_refuses");
        ck_assert_str_eq(again.plugin->name, "fake");
        kt_module_close(&other);
        kt_module_close(&again);
        for (int i = 0; i < 3; i++)
            free(real[i]);
    }
}
END_TEST

START_TEST(what_was_checked_is_what_is_open)
{
    const char *file = sandbox_plugin("fake", "p/kt_fake.so");
    struct kt_module module;
    char *real;
    struct stat here, there;
    ck_assert_int_eq(kt_module_open(file, "fake", &module, &real, NULL), KT_OK);
    ck_assert_int_eq(fstat(module.fd, &here), 0);
    ck_assert_int_eq(stat(file, &there), 0);
    ck_assert_uint_eq(here.st_ino, there.st_ino);
    ck_assert_int_ne(fcntl(module.fd, F_GETFD) & FD_CLOEXEC, 0);
    kt_module_close(&module);
    ck_assert_int_eq(module.fd, -1);
    free(real);
}
END_TEST

START_TEST(names_that_are_not_its_own)
{
    const char *file = sandbox_plugin("fake", "p/kt_fake.so");
    expect_refusal(file, "other",
                   "is the plugin \"fake\", not \"other\"; its section must be "
                   "[plugin.fake]");
    expect_refusal(sandbox_plugin("fake", "p/renamed.so"), "other", "has no symbol kt_plugin_other");
    expect_refusal(sandbox_plugin("other_name", "p/kt_other_name.so"), "other_name",
                   "calls itself \"somebody\"");
}
END_TEST

/* ---- option values -------------------------------------------------------------------------- */

START_TEST(option_values)
{
    static const struct kt_option rows[] = {
        {"flag", KT_OPTION_BOOL, "no", NULL, 0, 0, ""},
        {"count", KT_OPTION_INT, "0", NULL, INT64_MIN, INT64_MAX, ""},
        {"text", KT_OPTION_STRING, "", NULL, 0, 0, ""},
        {"kind", KT_OPTION_ENUM, "a", "a|bb|", 0, 0, ""},
    };
    static const struct {
        int row;
        const char *text;
        int good;
        int64_t number;
    } cases[] = {
        {0, "yes", 1, 1},
        {0, "true", 1, 1},
        {0, "on", 1, 1},
        {0, "1", 1, 1},
        {0, "no", 1, 0},
        {0, "false", 1, 0},
        {0, "off", 1, 0},
        {0, "0", 1, 0},
        {0, "YES", 0, 0},
        {0, "", 0, 0},
        {0, "2", 0, 0},
        {1, "-7", 1, -7},
        {1, "007", 1, 7},
        {1, "+7", 0, 0},
        {1, " 7", 0, 0},
        {1, "-", 0, 0},
        {1, "7k", 0, 0},
        {1, "1e3", 0, 0},
        {1, "9223372036854775807", 1, INT64_MAX},
        {1, "9223372036854775808", 0, 0},
        {1, "-9223372036854775808", 1, INT64_MIN},
        {1, "-9223372036854775809", 0, 0},
        {2, "", 1, 0},
        {2, "any thing", 1, 0},
        {3, "a", 1, 0},
        {3, "bb", 1, 1},
        {3, "", 1, 2},
        {3, "b", 0, 0},
        {3, "a|bb", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_option_value value = {NULL, 42};
        struct kt_error error = {0};
        enum kt_status status = kt_option_parse(&rows[cases[i].row], cases[i].text, &value, &error);
        ck_assert_msg(status == (cases[i].good ? KT_OK : KT_E_CONFIG), "%s = \"%s\"", rows[cases[i].row].key,
                      cases[i].text);
        ck_assert_int_eq(value.number, cases[i].good ? cases[i].number : 42);
        if (cases[i].good)
            ck_assert_ptr_eq(value.text, cases[i].text);
        else
            expect_text(&error, rows[cases[i].row].key);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("module");
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, finding);
    tcase_add_test(tests, never_in_the_current_folder);
    tcase_add_test(tests, modes_of_the_file);
    tcase_add_test(tests, modes_of_the_folders);
    tcase_add_test(tests, sticky_folders);
    tcase_add_test(tests, owners);
    tcase_add_test(tests, links);
    tcase_add_test(tests, files_that_are_no_shared_object);
    tcase_add_test(tests, elf_files_of_other_kinds);
    tcase_add_test(tests, truncated_objects);
    tcase_add_test(tests, two_plugins_do_not_take_each_others_place);
    tcase_add_test(tests, what_was_checked_is_what_is_open);
    tcase_add_test(tests, names_that_are_not_its_own);
    tcase_add_test(tests, option_values);
    return run_tests("module", tests);
}
