/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - the known name that is nearest to a wrong one, for "did you mean". */
#include "tools/kt/cli.h"

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
