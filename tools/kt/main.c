/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command `kt`: finds the verb, behind options that may stand before it. */
#include "tools/kt/model/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(name, programs, summary) KT_VERB_ROW(KT_IN_KT, name, programs, summary),
static const struct kt_cli_verb verbs[] = {KT_VERBS(ROW){.name = NULL}};

static int fail_unknown(struct kt_cli *cli, const char *word)
{
    const char *names[sizeof(verbs) / sizeof(verbs[0])] = {"help"};
    size_t n = 1;
    for (const struct kt_cli_verb *verb = verbs; verb->name; verb++)
        names[n++] = verb->name;
    /* What KT-Kernel's command calls it is no slip of a finger. */
    const char *near = strcmp(word, "quant") == 0 ? "convert" : kt_nearest(word, names, n);
    if (near)
        return kt_cli_usage(cli, "unknown verb '%s', did you mean '%s'?", word, near);
    return kt_cli_usage(cli, "unknown verb '%s'", word);
}

/* `kt help VERB` is `kt VERB --help`. Returns the index of the verb, or -1: return cli->exit_code. */
static int turn_help(struct kt_cli *cli, int argc, char **argv, int at)
{
    static char help[] = "--help";
    if (argc - at > 2) {
        cli->exit_code = kt_cli_usage(cli, "'%s' is one argument too many", argv[at + 2]);
        return -1;
    }
    if (argc - at < 2 || strcmp(argv[at + 1], "help") == 0 || strcmp(argv[at + 1], help) == 0 ||
        strcmp(argv[at + 1], "-h") == 0) {
        char *general[] = {argv[0], help, NULL};
        return kt_cli_find_verb(cli, 2, general);
    }
    argv[at] = argv[at + 1];
    argv[at + 1] = help;
    return at;
}

/* Moves the verb to the front, and shared options behind it, where the verb's parser reads them. */
static int run(struct kt_cli *cli, int argc, char **argv)
{
    int at = kt_cli_find_verb(cli, argc, argv);
    if (at < 0)
        return cli->exit_code;
    if (strcmp(argv[at], "help") == 0) {
        at = turn_help(cli, argc, argv, at);
        if (at < 0)
            return cli->exit_code;
        argc = at + 2;
    }
    for (const struct kt_cli_verb *verb = verbs; verb->name; verb++) {
        if (strcmp(verb->name, argv[at]) != 0)
            continue;
        char *name = argv[at];
        memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
        argv[1] = name;
        cli->verb = verb->name;
        cli->words = kt_cli_alloc(cli, (size_t)argc + 1, sizeof(*argv));
        memcpy(cli->words, argv, (size_t)argc * sizeof(*argv));
        return verb->run ? verb->run(cli, argc - 1, argv + 1) : kt_cli_execute(cli);
    }
    return fail_unknown(cli, argv[at]);
}

int main(int argc, char **argv)
{
    struct kt_cli cli = {.verbs = verbs, .models = &kt_models};
    double start = kt_cli_now();
    kt_signals_install();
    int code = kt_cli_finish(&cli, run(&cli, argc, argv));
    kt_verbose_end(&cli, start);
    kt_cli_free(&cli);
    return code;
}
