/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - verbs that need whole models: other programs run them, so that kt needs no libraries for that.
 */
#include "tools/kt/base/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Which program has which verbs, and the package that brings it. */
static const struct helper {
    const char *verb, *program, *package;
} helpers[] = {
    {"chat", "kt-serve", "kt-kernel-serve"},
    {"model", "kt-serve", "kt-kernel-serve"}, /* of its actions pull and verify */
    {"run", "kt-serve", "kt-kernel-serve"},
    {NULL, "kt-engine", "kt-kernel-engine"}, /* all others */
};

static const struct helper *find_helper(const char *verb)
{
    const struct helper *helper = helpers;
    while (helper->verb && strcmp(helper->verb, verb) != 0)
        helper++;
    return helper;
}

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

int kt_cmd_engine(struct kt_cli *cli, int argc, char **argv)
{
    static char name[] = "kt";
    const struct helper *helper = find_helper(argv[0]);
    char own[PATH_MAX - 32], moved[PATH_MAX];
    char **words = kt_cli_alloc(cli, (size_t)argc + 2, sizeof(*words));
    words[0] = name;
    memcpy(words + 1, argv, (size_t)argc * sizeof(*words));
    words[argc + 1] = NULL;
    find_own_folder(own, sizeof(own));
    snprintf(moved, sizeof(moved), "%s/../libexec/kt-kernel", own);
    /* Beside kt in a build; below the same prefix, wherever that was moved to; where it was configured. */
    const char *const folders[] = {own, moved, KT_LIBEXECDIR};
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && code == KT_EXIT_OK; i++) {
        run_there(folders[i], helper->program, words);
        if (errno != ENOENT && errno != ENOTDIR)
            code = kt_cli_error(cli, "%s/%s cannot be run: %s", folders[i], helper->program, strerror(errno));
    }
    free(words);
    if (code != KT_EXIT_OK)
        return code;
    return kt_cli_error(cli,
                        "'kt %s' needs the program %s, which is in neither %s nor " KT_LIBEXECDIR
                        "; install the package %s",
                        argv[0], helper->program, own, helper->package);
}
