/* SPDX-License-Identifier: Apache-2.0 */
/* new.c - kt plugin new: writes the project of a backend, whole or not at all. */
#define _GNU_SOURCE
#include "tools/kt/plugin/plugin.h"
#include "tools/kt/plugin/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What stands for what in the files and their names. */
struct project {
    const struct kt_cli *cli;
    const char *name;
    char dashed[32]; /* as packages are called, which have no _ */
    char date[40];   /* as Debian's changelogs have it */
    char *folder;    /* that is written to */
};

bool plugin_check_name(const char *name)
{
    return *name >= 'a' && *name <= 'z' && strlen(name) <= 31 &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' &&
           name[strlen(name) - 1] != '_' && !strstr(name, "__") && strcmp(name, "reference") != 0 &&
           strcmp(name, "auto") != 0;
}

int plugin_refuse_name(const struct kt_cli *cli, const char *name)
{
    return kt_cli_usage(
        cli,
        "'%s': a backend's name has at most 31 lower-case letters, digits and single _, begins with "
        "a letter, does not end with _, and is not auto or reference",
        name);
}

/* The project's own backends: two of one name cannot be enabled. */
static bool is_shipped(const char *name)
{
    const char *const *shipped = plugin_shipped;
    while (*shipped && strcmp(*shipped, name) != 0)
        shipped++;
    return *shipped != NULL;
}

/* ---- files ------------------------------------------------------------------------------------ */

static void write_line(const struct project *project, const char *line, FILE *file)
{
    const struct {
        const char *word, *text;
    } words[] = {{"@NAME@", project->name},
                 {"@DASHED@", project->dashed},
                 {"@VERSION@", kt_version()},
                 {"@DATE@", project->date}};
    const size_t n_words = sizeof words / sizeof *words;
    while (*line) {
        size_t i = 0;
        while (i < n_words && strncmp(line, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (i < n_words)
            fputs(words[i].text, file);
        else
            fputc(*line, file);
        line += i < n_words ? strlen(words[i].word) : 1;
    }
}

/* plugin.c and plugin.ini are called as the backend is. */
static char *path_of(const struct project *project, const char *path)
{
    if (strncmp(path, "plugin.", 7) == 0)
        return kt_cli_format(project->cli, "%s/%s%s", project->folder, project->name, path + 6);
    return kt_cli_format(project->cli, "%s/%s", project->folder, path);
}

static bool make_folders(char *path, size_t from)
{
    for (char *slash = strchr(path + from + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int code = mkdir(path, 0777);
        *slash = '/';
        if (code != 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static bool write_file(const struct project *project, const struct plugin_template *template)
{
    char *path = path_of(project, template->path);
    const char *dot = strrchr(template->path, '.');
    bool program = strcmp(template->path, "debian/rules") == 0 || (dot && strcmp(dot, ".sh") == 0);
    FILE *file = NULL;
    if (make_folders(path, strlen(project->folder))) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, program ? 0777 : 0666);
        file = fd >= 0 ? fdopen(fd, "w") : NULL;
    }
    bool written = file != NULL;
    for (const char *const *line = template->lines; file && *line; line++) {
        write_line(project, *line, file);
        fputc('\n', file);
    }
    if (file) {
        written = !ferror(file);
        int failure = errno;
        if (fclose(file) != 0)
            written = false;
        else
            errno = failure;
    }
    if (!written)
        kt_cli_error(project->cli, "%s cannot be written: %s", path, strerror(errno));
    free(path);
    return written;
}

/* Takes away what was written, and nothing else. */
static void remove_all(const struct project *project)
{
    for (const struct plugin_template *file = plugin_template; file->path; file++) {
        char *path = path_of(project, file->path);
        unlink(path);
        for (char *slash = strrchr(path, '/'); slash && slash > path + strlen(project->folder);
             slash = strrchr(path, '/')) {
            *slash = '\0';
            rmdir(path);
        }
        free(path);
    }
    rmdir(project->folder);
}

/* ---- the folder --------------------------------------------------------------------------------- */

bool plugin_move_to(const char *from, const char *to)
{
    struct stat entry;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (lstat(to, &entry) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(from, to) == 0;
}

static int write_project(struct project *project, const char *folder)
{
    mode_t mask = umask(0);

    umask(mask);
    project->folder = kt_cli_format(project->cli, "%s.XXXXXX", folder);
    if (!mkdtemp(project->folder)) {
        int code = kt_cli_error(project->cli, "%s cannot be made: %s", folder, strerror(errno));
        free(project->folder);
        return code;
    }
    bool written = chmod(project->folder, 0777 & ~mask) == 0;
    for (const struct plugin_template *file = plugin_template; file->path && written; file++)
        written = write_file(project, file);
    int code = written ? KT_EXIT_OK : KT_EXIT_PROBLEM;
    if (written && !plugin_move_to(project->folder, folder))
        code = kt_cli_error(project->cli, "%s cannot be made: %s", folder, strerror(errno));
    if (code != KT_EXIT_OK)
        remove_all(project);
    free(project->folder);
    return code;
}

/* What is in the system's own folders is found without being named. */
static void print_steps(const char *name, const char *folder)
{
    bool named = strcmp(KT_ACLOCALDIR, "/usr/share/aclocal") != 0;
    bool found =
        strncmp(KT_PKGCONFIGDIR, "/usr/lib", 8) == 0 || strncmp(KT_PKGCONFIGDIR, "/usr/share/", 11) == 0;
    printf("%s: the backend %s, which computes already. Next:\n\n"
           "    cd %s && autoreconf -fi%s && ./configure%s && make && make check\n",
           folder, name, folder, named ? " -I " KT_ACLOCALDIR : "",
           found ? "" : " PKG_CONFIG_PATH=" KT_PKGCONFIGDIR);
}

int plugin_new(struct kt_cli *cli, const char *name, const char *folder)
{
    struct project project = {.cli = cli, .name = name};
    struct stat entry;
    sigset_t ends, before;

    if (!plugin_check_name(name))
        return plugin_refuse_name(cli, name);
    if (is_shipped(name))
        return kt_cli_usage(cli, "%s is a backend of kt-kernel's own; give yours another name", name);
    time_t now = time(NULL);
    struct tm broken;
    if (strftime(project.date, sizeof project.date, "%a, %d %b %Y %H:%M:%S +0000", gmtime_r(&now, &broken)) ==
        0)
        project.date[0] = '\0';
    for (size_t i = 0; name[i]; i++)
        project.dashed[i] = name[i] == '_' ? '-' : name[i];
    char *place =
        folder ? kt_cli_format(cli, "%s", folder) : kt_cli_format(cli, "kt-kernel-plugin-%s", project.dashed);
    for (size_t n = strlen(place); n > 1 && place[n - 1] == '/'; n--)
        place[n - 1] = '\0';
    if (lstat(place, &entry) == 0) {
        int code =
            kt_cli_error(cli, "%s is there already, and is left as it is; name another one by --dir", place);
        free(place);
        return code;
    }
    /* Whole, or not at all, whatever the user types meanwhile. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, &before);
    int code = write_project(&project, place);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (code == KT_EXIT_OK) {
        print_steps(name, place);
        code = kt_cli_finish(cli, code);
    }
    free(place);
    return code;
}
