/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/support/sandbox.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS = 256 };

static char root[64];
static char *path[PATHS];
static size_t n_paths;

static void clear_environment(void)
{
    static const char prefix[] = "KT_KERNEL_";
    for (char **at = environ; *at;) {
        if (strncmp(*at, prefix, sizeof prefix - 1) != 0) {
            at++;
            continue;
        }
        char *name = strndup(*at, strcspn(*at, "="));
        ck_assert_int_eq(unsetenv(name), 0);
        free(name);
        at = environ;
    }
}

/* Under /tmp, whose folders everybody's umask leaves safe to hold plugins. */
void sandbox_open(void)
{
    clear_environment();
    (void)snprintf(root, sizeof root, "/tmp/kt-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    sandbox_folder("shipped");
    sandbox_folder("etc/plugins.d");
    sandbox_folder("home/kt-kernel");
    ck_assert_int_eq(setenv("KT_KERNEL_PLUGINCONFDIR", sandbox_path("shipped"), 1), 0);
    ck_assert_int_eq(setenv("KT_KERNEL_SYSCONFDIR", sandbox_path("etc"), 1), 0);
    ck_assert_int_eq(setenv("XDG_CONFIG_HOME", sandbox_path("home"), 1), 0);
    ck_assert_int_eq(setenv("HOME", sandbox_path("nohome"), 1), 0);
}

static int delete_entry(const char *name, const struct stat *entry, int kind, struct FTW *state)
{
    (void)entry;
    (void)kind;
    (void)state;
    return remove(name);
}

void sandbox_close(void)
{
    clear_environment();
    ck_assert_int_eq(nftw(root, delete_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    while (n_paths > 0)
        free(path[--n_paths]);
}

const char *sandbox_path(const char *relative)
{
    ck_assert_uint_lt(n_paths, PATHS);
    ck_assert_int_gt(asprintf(&path[n_paths], "%s/%s", root, relative), 0);
    return path[n_paths++];
}

void sandbox_folder(const char *relative)
{
    char *whole;
    ck_assert_int_gt(asprintf(&whole, "%s/%s", root, relative), 0);
    for (char *slash = whole + strlen(root) + 1;; slash++) {
        slash = strchrnul(slash, '/');
        char end = *slash;
        *slash = '\0';
        ck_assert(mkdir(whole, 0755) == 0 || errno == EEXIST);
        ck_assert_int_eq(chmod(whole, 0755), 0);
        *slash = end;
        if (end == '\0')
            break;
    }
    free(whole);
}

void sandbox_write_bytes(const char *relative, const void *data, size_t size)
{
    char *folder = strdup(relative), *slash = strrchr(folder, '/');
    if (slash) {
        *slash = '\0';
        sandbox_folder(folder);
    }
    free(folder);
    FILE *file = fopen(sandbox_path(relative), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(sandbox_path(relative), 0644), 0);
}

void sandbox_write(const char *relative, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    ck_assert_int_ge(length, 0);
    sandbox_write_bytes(relative, text, (size_t)length);
    free(text);
}

/* A copy in a folder that the library trusts; a former one may be loaded, so it is not written over. */
static const char *copy(const char *source, const char *relative)
{
    FILE *file = fopen(source, "r");
    ck_assert_msg(file != NULL, "%s cannot be opened", source);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    char *data = malloc(size);
    ck_assert(data != NULL && size > 0);
    rewind(file);
    ck_assert_uint_eq(fread(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    (void)unlink(sandbox_path(relative));
    sandbox_write_bytes(relative, data, size);
    free(data);
    return sandbox_path(relative);
}

static const char *build_folder(void)
{
    const char *build = getenv("KT_TEST_BUILD");
    ck_assert_msg(build != NULL, "KT_TEST_BUILD must name the build folder");
    return build;
}

const char *sandbox_plugin(const char *name, const char *relative)
{
    char source[4096];
    (void)snprintf(source, sizeof source, "%s/tests/plugins/kt_%s.so", build_folder(), name);
    return copy(source, relative);
}

const char *sandbox_backend(const char *name)
{
    const char *plugins = getenv("KT_TEST_PLUGINS");
    char source[4096], relative[64];
    ck_assert_msg(plugins != NULL, "KT_TEST_PLUGINS must name the plugins that are built");
    (void)snprintf(relative, sizeof relative, "kt_%s.la", name);
    if (!strstr(plugins, relative))
        return NULL;
    (void)snprintf(source, sizeof source, "%s/.libs/kt_%s.so", build_folder(), name);
    (void)snprintf(relative, sizeof relative, "lib/kt_%s.so", name);
    return copy(source, relative);
}

bool sandbox_skips(const char *level)
{
    const char *skip = getenv("KT_TEST_SKIP");
    size_t length = strlen(level);
    for (const char *at = skip ? skip : ""; *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        if (strcspn(at, " ") == length && strncmp(at, level, length) == 0)
            return true;
    }
    return false;
}
