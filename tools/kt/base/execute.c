/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c - the programs that run what needs whole models, text or HTTP, for which kt has no libraries. */
#include "tools/kt/base/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The folder of this very program, without a slash at its end; "" if it cannot be known. */
static void find_own_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

/* Runs FOLDER/PROGRAM; returns only if it cannot, with errno as execv has set it. */
static void run_there(const char *folder, const char *program, char *const *words)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", folder, program) < (int)sizeof(path))
        (void)execv(path, words);
    else
        errno = ENAMETOOLONG;
}

int kt_cli_execute(struct kt_cli *cli)
{
    static char name[] = "kt";
    const struct kt_cli_verb *verb = cli->verbs;
    while (verb->name != cli->verb)
        verb++;
    const char *part = verb->programs & KT_IN_ENGINE ? "engine" : "serve";
    char own[PATH_MAX - 32], moved[PATH_MAX], program[16];
    find_own_folder(own, sizeof(own));
    snprintf(moved, sizeof(moved), "%s/../libexec/kt-kernel", own);
    snprintf(program, sizeof(program), "kt-%s", part);
    cli->words[0] = name;
    /* Beside kt in a build; below the same prefix, wherever that was moved to; where it was configured. */
    const char *const folders[] = {own, moved, KT_LIBEXECDIR};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        run_there(folders[i], program, cli->words);
        if (errno != ENOENT && errno != ENOTDIR)
            return kt_cli_error(cli, "%s/%s cannot be run: %s", folders[i], program, strerror(errno));
    }
    return kt_cli_error(cli,
                        "'kt %s' needs the program %s, which is in neither %s nor " KT_LIBEXECDIR
                        "; install the package kt-kernel-%s",
                        verb->name, program, own, part);
}
