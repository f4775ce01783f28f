/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - "did you mean", for words that are not known. */
#include "tools/kt/base/cli.h"

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
