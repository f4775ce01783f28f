/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - the known name that is nearest to a wrong one, for "did you mean". */
#include "tools/kt/base/cli.h"

#include <stdio.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t line[64];
    size_t length = strlen(b);
    if (length >= 64)
        return SIZE_MAX;
    for (size_t j = 0; j <= length; j++)
        line[j] = j;
    for (size_t i = 1; *a; i++, a++) {
        size_t corner = line[0];
        line[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t replaced = corner + (*a != b[j - 1]);
            corner = line[j];
            line[j] = smaller(replaced, smaller(line[j], line[j - 1]) + 1);
        }
    }
    return line[length];
}

const char *kt_cli_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t best_distance = 4;
    size_t length = strlen(word);
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i]);
        /* Any prefix of a name counts as near. */
        if (length >= 2 && strncmp(word, candidates[i], length) == 0)
            d = 1;
        if (d < best_distance && 2 * d <= strlen(candidates[i])) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}

struct kt_cli_hint kt_cli_hint(const char *word, const char *const *candidates, size_t n)
{
    struct kt_cli_hint hint = {.text = ""};
    const char *near = kt_cli_nearest(word, candidates, n);
    if (near && strcmp(near, word) != 0)
        (void)snprintf(hint.text, sizeof(hint.text), ", did you mean %s?", near);
    return hint;
}

struct kt_cli_hint kt_cli_hint_of(const char *word, const char *words)
{
    static const char between[] = "|, ";
    char copy[1024], *rest = NULL;
    const char *names[64];
    size_t n = 0;
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *name = strtok_r(copy, between, &rest); name && n < sizeof(names) / sizeof(names[0]);
         name = strtok_r(NULL, between, &rest))
        names[n++] = name;
    return kt_cli_hint(word, names, n);
}

int kt_cli_action(const struct kt_cli *cli, const char *word, const char *const *actions, size_t n,
                  const char *needed)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, actions[i]) == 0)
            return (int)i;
    const char *near = kt_cli_nearest(word, actions, n);
    if (near)
        kt_cli_usage(cli, "unknown action '%s', did you mean '%s'?", word, near);
    else
        kt_cli_usage(cli, "unknown action '%s': %s is needed", word, needed);
    return -1;
}
