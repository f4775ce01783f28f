/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intree.c - kt plugin new --in-tree: a backend of the source tree, as a copy of another one under a
 * new name: its folder in plugins/ and its line in plugins/plugins.am. Both, or nothing.
 */
#define _GNU_SOURCE
#include "tools/kt/plugin/plugin.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct copy {
    const struct kt_cli *cli;
    const char *name, *like;
    char upper_name[32], upper_like[32]; /* as conditionals and guards have them */
    char *plugins;                       /* TREE/plugins */
    char *folder;                        /* that is written to, until it is renamed to plugins/NAME */
    char *list;                          /* likewise for plugins/plugins.am */
};

static int say_errno(const struct copy *copy, const char *path, const char *what)
{
    return kt_cli_error(copy->cli, "%s cannot be %s: %s", path, what, strerror(errno));
}

/* ---- files ------------------------------------------------------------------------------------ */

/* Sources, and not what an editor or a build within the sources left between them. */
static bool is_source(const char *name)
{
    static const char *const endings[] = {".c", ".h", ".am", ".ini", ".info", ".sh"};
    const char *dot = strrchr(name, '.');
    if (!dot)
        return strcmp(name, "README") == 0;
    for (size_t i = 0; *name != '.' && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0)
            return true;
    return false;
}

/* The text with one name in place of the other. */
static char *rename_in(const struct copy *copy, const char *text)
{
    const struct {
        const char *from, *to;
    } words[] = {{copy->like, copy->name}, {copy->upper_like, copy->upper_name}};
    char *out = NULL;
    size_t size;
    FILE *file = open_memstream(&out, &size);
    while (file && *text) {
        size_t i = 0;
        while (i < 2 && strncmp(text, words[i].from, strlen(words[i].from)) != 0)
            i++;
        if (i < 2)
            fputs(words[i].to, file);
        else
            fputc(*text, file);
        text += i < 2 ? strlen(words[i].from) : 1;
    }
    if (!file || fclose(file) != 0)
        abort();
    return out;
}

/* What was decided about the other backend is not what will be about this one. */
static void write_readme(const struct copy *copy, FILE *to)
{
    fprintf(to, "%s\n", copy->name);
    for (size_t i = 0; copy->name[i]; i++)
        fputc('=', to);
    fprintf(
        to,
        "\nMade of %s by kt plugin new --in-tree. Here stands what is decided about this backend, why, and\n"
        "what was measured; plugins/README says how it becomes one of its own.\n",
        copy->like);
}

/* Packages recommend a backend by decision, not by descent. */
static void write_lines(const struct copy *copy, FILE *from, FILE *to)
{
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, from) >= 0) {
        if (strncmp(line, "Recommended:", 12) == 0)
            continue;
        char *text = rename_in(copy, line);
        fputs(text, to);
        free(text);
    }
    free(line);
}

static bool close_written(FILE *file)
{
    bool written = !ferror(file);
    int failure = errno;
    if (fclose(file) != 0)
        return false;
    errno = failure;
    return written;
}

static int copy_file(const struct copy *copy, const char *from, const char *to, mode_t mode)
{
    const char *base = strrchr(from, '/') + 1;
    FILE *in = fopen(from, "re");
    if (!in)
        return say_errno(copy, from, "read");
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0111 ? 0777 : 0666);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    int code = KT_EXIT_OK;
    if (out && strcmp(base, "README") == 0)
        write_readme(copy, out);
    else if (out)
        write_lines(copy, in, out);
    if (!out || !close_written(out))
        code = say_errno(copy, to, "written");
    else if (ferror(in))
        code = say_errno(copy, from, "read");
    fclose(in);
    return code;
}

static int copy_folder(const struct copy *copy, const char *from, const char *to);

static int copy_entry(const struct copy *copy, const char *from, const char *to, const char *name)
{
    struct stat entry;
    char *source = kt_cli_format(copy->cli, "%s/%s", from, name), *renamed = rename_in(copy, name);
    char *target = kt_cli_format(copy->cli, "%s/%s", to, renamed);
    int code = KT_EXIT_OK;
    if (*name == '.')
        ;
    else if (lstat(source, &entry) != 0)
        code = say_errno(copy, source, "read");
    else if (S_ISDIR(entry.st_mode) && mkdir(target, 0777) != 0)
        code = say_errno(copy, target, "made");
    else if (S_ISDIR(entry.st_mode))
        code = copy_folder(copy, source, target);
    else if (S_ISREG(entry.st_mode) && is_source(name))
        code = copy_file(copy, source, target, entry.st_mode);
    free(target);
    free(renamed);
    free(source);
    return code;
}

static int copy_folder(const struct copy *copy, const char *from, const char *to)
{
    DIR *folder = opendir(from);
    if (!folder)
        return say_errno(copy, from, "read");
    int code = KT_EXIT_OK;
    const struct dirent *entry;
    while (code == KT_EXIT_OK && (entry = readdir(folder)) != NULL)
        code = copy_entry(copy, from, to, entry->d_name);
    closedir(folder);
    return code;
}

/* All that is in a folder that this command has made. */
static void remove_folder(const struct copy *copy, const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *inner = kt_cli_format(copy->cli, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0)
            remove_folder(copy, inner);
        free(inner);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

/* ---- plugins.am -------------------------------------------------------------------------------- */

/* NAME of "include plugins/NAME/NAME.am", into name; false: the line is another one. */
static bool read_row(const char *line, char name[64])
{
    char second[64];
    int end = 0;
    return sscanf(line, "include plugins/%63[a-z0-9_]/%63[a-z0-9_].am %n", name, second, &end) == 2 &&
           line[end] == '\0' && strcmp(name, second) == 0 && strcmp(name, "common") != 0;
}

/* Copies the list with the new line, before the first name that goes behind it. */
static void add_row(const struct copy *copy, FILE *from, FILE *to)
{
    char *line = NULL, name[64];
    size_t size = 0;
    bool added = false, among = false;
    while (getline(&line, &size, from) >= 0) {
        bool row = read_row(line, name);
        if (!added && ((row && strcmp(name, copy->name) > 0) || (among && !row))) {
            fprintf(to, "include plugins/%s/%s.am\n", copy->name, copy->name);
            added = true;
        }
        among = row;
        fputs(line, to);
    }
    if (!added)
        fprintf(to, "include plugins/%s/%s.am\n", copy->name, copy->name);
    free(line);
}

static int write_list(const struct copy *copy, const char *path)
{
    struct stat entry;
    FILE *in = fopen(path, "re");
    if (!in)
        return say_errno(copy, path, "read");
    int code = KT_EXIT_OK, fd = fstat(fileno(in), &entry) == 0 ? mkostemp(copy->list, O_CLOEXEC) : -1;
    FILE *out = fd >= 0 && fchmod(fd, entry.st_mode & 0777) == 0 ? fdopen(fd, "w") : NULL;
    if (out)
        add_row(copy, in, out);
    if (!out || !close_written(out))
        code = say_errno(copy, copy->list, "written");
    fclose(in);
    return code;
}

/* Is there such a row? Names of all rows into `names`. */
static bool has_row(FILE *list, const char *wanted, char *names, size_t size)
{
    char *line = NULL, name[64];
    size_t length = 0, used = 0;
    bool found = false;
    while (getline(&line, &length, list) >= 0) {
        if (!read_row(line, name))
            continue;
        found = found || strcmp(name, wanted) == 0;
        if (used < size)
            used += (size_t)snprintf(names + used, size - used, " %s", name);
    }
    free(line);
    return found;
}

/* ---- the backend ------------------------------------------------------------------------------- */

/* Of what stands in the tree. */
static int check_tree(const struct copy *copy, const char *tree)
{
    char names[1024] = "";
    struct stat entry;
    char *list = kt_cli_format(copy->cli, "%s/plugins.am", copy->plugins);
    char *taken = kt_cli_format(copy->cli, "%s/%s", copy->plugins, copy->name);
    char *header = kt_cli_format(copy->cli, "%s/include/kt/plugin.h", tree);
    FILE *file = fopen(list, "re");
    int code = KT_EXIT_OK;
    if (!file || lstat(header, &entry) != 0)
        code =
            kt_cli_error(copy->cli, "%s is not the source tree of kt-kernel: it has no %s; name it by --dir",
                         tree, file ? "include/kt/plugin.h" : "plugins/plugins.am");
    else if (lstat(taken, &entry) == 0)
        code = kt_cli_error(copy->cli, "%s is there already, and is left as it is", taken);
    else if (has_row(file, copy->name, names, sizeof names))
        code = kt_cli_error(copy->cli, "%s has a row of %s already", list, copy->name);
    else if (rewind(file), *names = '\0', !has_row(file, copy->like, names, sizeof names))
        code = kt_cli_error(copy->cli, "the tree has no backend %s to copy; there are:%s", copy->like, names);
    if (file)
        fclose(file);
    free(header);
    free(taken);
    free(list);
    return code;
}

/* The folder first: without its line it changes nothing. */
static int move_in(const struct copy *copy, const char *list)
{
    char *folder = kt_cli_format(copy->cli, "%s/%s", copy->plugins, copy->name);
    int code = KT_EXIT_OK;
    if (!plugin_move_to(copy->folder, folder)) {
        code = say_errno(copy, folder, "made");
    } else if (rename(copy->list, list) != 0) {
        code = say_errno(copy, list, "written");
        remove_folder(copy, folder);
    }
    free(folder);
    return code;
}

static int write_backend(struct copy *copy)
{
    mode_t mask = umask(0);
    umask(mask);
    char *from = kt_cli_format(copy->cli, "%s/%s", copy->plugins, copy->like);
    char *list = kt_cli_format(copy->cli, "%s/plugins.am", copy->plugins);
    copy->folder = kt_cli_format(copy->cli, "%s/.%s.XXXXXX", copy->plugins, copy->name);
    copy->list = kt_cli_format(copy->cli, "%s/.plugins.am.XXXXXX", copy->plugins);
    int code = KT_EXIT_OK;
    if (!mkdtemp(copy->folder)) {
        code = say_errno(copy, copy->folder, "made");
    } else {
        code = chmod(copy->folder, 0777 & ~mask) == 0 ? copy_folder(copy, from, copy->folder)
                                                      : say_errno(copy, copy->folder, "made");
        if (code == KT_EXIT_OK)
            code = write_list(copy, list);
        if (code == KT_EXIT_OK)
            code = move_in(copy, list);
        if (code != KT_EXIT_OK) {
            remove_folder(copy, copy->folder);
            unlink(copy->list);
        }
    }
    free(copy->list);
    free(copy->folder);
    free(list);
    free(from);
    return code;
}

static void print_next(const struct copy *copy)
{
    printf(
        "%s/%s: the backend %s, a copy of %s that computes already; its line stands in %s/plugins.am.\n"
        "Next:\n\n"
        "    autoreconf -fi && mkdir -p build && cd build && ../configure && make\n"
        "    make check-backend BACKEND=%s\n\n"
        "then make it one of its own: plugins/README says file by file how, and what may follow elsewhere.\n",
        copy->plugins, copy->name, copy->name, copy->like, copy->plugins, copy->name);
}

static void to_upper(const char *name, char upper[32])
{
    size_t i = 0;
    for (; name[i]; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    upper[i] = '\0';
}

int plugin_new_in_tree(struct kt_cli *cli, const char *name, const char *like, const char *tree)
{
    struct copy copy = {.cli = cli, .name = name, .like = like};
    sigset_t ends, before;
    if (!plugin_check_name(name) || !plugin_check_name(like))
        return plugin_refuse_name(cli, plugin_check_name(name) ? like : name);
    if (kt_dtype_parse(like) != KT_DTYPE_NONE)
        return kt_cli_usage(
            cli, "%s is a number format, too, which its sources name: it cannot be renamed in them", like);
    to_upper(name, copy.upper_name);
    to_upper(like, copy.upper_like);
    copy.plugins = kt_cli_format(cli, "%s/plugins", tree);
    int code = check_tree(&copy, tree);
    if (code == KT_EXIT_OK) {
        /* Whole, or not at all, whatever the user types meanwhile. */
        sigemptyset(&ends);
        sigaddset(&ends, SIGINT);
        sigaddset(&ends, SIGTERM);
        sigaddset(&ends, SIGHUP);
        sigprocmask(SIG_BLOCK, &ends, &before);
        code = write_backend(&copy);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    if (code == KT_EXIT_OK) {
        print_next(&copy);
        code = kt_cli_finish(cli, code);
    }
    free(copy.plugins);
    return code;
}
