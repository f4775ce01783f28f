/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - words that are not known, or not here: "did you mean". */
#include "tools/kt/base/options.h"

#include <stdio.h>
#include <string.h>

struct kt_cli_hint kt_cli_hint(const char *word, const char *const *candidates, size_t n)
{
    struct kt_cli_hint hint = {.text = ""};
    const char *near = kt_nearest(word, candidates, n);
    if (near && strcmp(near, word) != 0)
        (void)snprintf(hint.text, sizeof(hint.text), ", did you mean %s?", near);
    return hint;
}

struct kt_cli_hint kt_cli_hint_of(const char *word, const char *words)
{
    struct kt_cli_hint hint;
    (void)kt_hint(word, words, hint.text, sizeof(hint.text));
    return hint;
}

int kt_cli_action(const struct kt_cli *cli, const char *word, const char *const *actions, size_t n,
                  const char *needed)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, actions[i]) == 0)
            return (int)i;
    const char *near = kt_nearest(word, actions, n);
    if (near)
        kt_cli_usage(cli, "unknown action '%s', did you mean '%s'?", word, near);
    else
        kt_cli_usage(cli, "unknown action '%s': %s is needed", word, needed);
    return -1;
}

bool kt_cli_lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ", ");
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

int kt_cli_check_of(const struct kt_cli *cli, const struct kt_cli_command *command, const char *action)
{
    struct kt_cli_rows list;
    kt_cli_options(command, &list);
    for (int i = 0; i < list.n; i++) {
        const struct kt_cli_option *row = list.row[i];
        if (row->of && kt_cli_given(cli, row->name) && !kt_cli_lists(row->of, action))
            return kt_cli_usage(cli, "--%s is not an option of kt %s %s", row->name, cli->verb, action);
    }
    return KT_EXIT_OK;
}
