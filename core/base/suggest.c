/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c - the nearest of some words, by edit distance. */
#include "core/base/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 96, FARTHEST = 3, MAX_WORDS = 64, MAX_TEXT = 1024 };

/* Levenshtein's distance; only one row of the table is kept. */
static size_t measure(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

const char *kt_nearest(const char *word, const char *const *candidates, size_t n)
{
    size_t length = strlen(word), least = SIZE_MAX;
    const char *nearest = NULL;
    for (size_t i = 0; i < n && length <= LONGEST; i++) {
        size_t other = strlen(candidates[i]);
        if (other > LONGEST)
            continue;
        size_t distance = measure(word, length, candidates[i], other);
        bool begins = length > 0 && strncmp(word, candidates[i], length) == 0;
        if (!begins && (distance > FARTHEST || 2 * distance > other))
            continue;
        size_t rank = distance + (begins ? 0 : LONGEST); /* of those that begin so, the shortest */
        if (rank < least) {
            least = rank;
            nearest = candidates[i];
        }
    }
    return nearest;
}

const char *kt_hint(const char *word, const char *words, char *hint, size_t size)
{
    static const char between[] = " ,|";
    char copy[MAX_TEXT], *rest = NULL;
    const char *names[MAX_WORDS];
    size_t n = 0;
    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *name = strtok_r(copy, between, &rest); name && n < MAX_WORDS;
         name = strtok_r(NULL, between, &rest))
        names[n++] = name;
    const char *nearest = kt_nearest(word, names, n);
    hint[0] = '\0';
    if (nearest && strcmp(nearest, word) != 0)
        (void)snprintf(hint, size, ", did you mean %s?", nearest);
    return hint;
}
