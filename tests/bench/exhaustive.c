/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exhaustive.c - in place of the search of kt tune: all values of all tunables, each against the standards,
 * and what the search finds from the standards and from both ends of the ranges. exhaustive.sh links and runs
 * it.
 *
 *     EXHAUSTIVE_STARTS   of standard,least,most: where searches start; default: all of them
 *     EXHAUSTIVE_BEST     values of the best setting, "8192,4", from an earlier run; default: looked for
 *     EXHAUSTIVE_VALUES   the most values of a tunable, evenly from its least to its largest; default: all.
 *                         Searches are free to try others: a tunable that has its best value between those
 *                         of the list may give more than 1
 */
#include "tools/kt/tune/tune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SETTINGS 1024
#define MOST_VALUES 32

void __wrap_tune_search(const struct tune_space *space, struct tune_result *result);
void __real_tune_search(const struct tune_space *space, struct tune_result *result);

struct setting {
    struct tune_values values;
    double ratio[TUNE_MAX_PAIRS * 4]; /* standards / this, of all points */
    size_t n;
    double median;
};

static double measure_pair(const struct tune_space *space, const struct tune_values *a,
                           const struct tune_values *b, unsigned turn)
{
    double sum = 0;
    for (size_t p = 0; p < space->n_points; p++) {
        double ratio = space->pair(space->data, a, b, p, turn + (unsigned)p);
        if (!(ratio > 0)) {
            fprintf(stderr, "exhaustive: no time is left: use a larger --minutes\n");
            exit(1);
        }
        sum += log(ratio);
    }
    return exp(sum / (double)space->n_points);
}

static void measure(const struct tune_space *space, const struct tune_values *standard,
                    struct setting *setting, size_t n)
{
    double sorted[TUNE_MAX_PAIRS * 4];
    for (size_t i = 0; i < n && setting->n < TUNE_MAX_PAIRS * 4; i++)
        setting->ratio[setting->n++] = measure_pair(space, standard, &setting->values, (unsigned)i);
    memcpy(sorted, setting->ratio, setting->n * sizeof *sorted);
    setting->median = tune_interval(sorted, setting->n).median;
}

/* Leaves `most` values of n, among them the first and the last. */
static size_t thin_out(uint64_t list[MOST_VALUES], size_t n)
{
    const char *text = getenv("EXHAUSTIVE_VALUES");
    size_t most = text ? strtoul(text, NULL, 10) : MOST_VALUES;
    if (most < 2) {
        fprintf(stderr, "exhaustive: EXHAUSTIVE_VALUES is %s: a tunable has 2 ends at least\n", text);
        exit(1);
    }
    for (size_t i = 0; most < n && i < most; i++)
        list[i] = list[i * (n - 1) / (most - 1)];
    return n < most ? n : most;
}

/* The values that kt tune would try; of rows those that calls have, and the largest. */
static size_t list_values(const struct tune_knob *knob, uint64_t list[MOST_VALUES])
{
    uint64_t step = (knob->maximum - knob->minimum) / (MOST_VALUES - 2) + 1;
    size_t n = 0;
    for (uint64_t value = knob->minimum; value < knob->maximum && n < MOST_VALUES - 1;
         value += knob->doubling ? value : step)
        if (knob->minimum > 1 || value <= 16)
            list[n++] = value;
    list[n++] = knob->maximum;
    return thin_out(list, n);
}

static size_t list_settings(const struct tune_space *space, const struct tune_values *standard,
                            struct setting *settings)
{
    size_t n = 1;
    settings[0].values = *standard;
    for (size_t k = 0; k < space->n_knobs; k++) {
        uint64_t values[MOST_VALUES];
        size_t n_values = list_values(&space->knob[k], values), before = n;
        for (size_t v = 0; v < n_values; v++)
            for (size_t i = 0; i < before && values[v] != standard->value[k]; i++) {
                if (n == MOST_SETTINGS) {
                    fprintf(stderr, "exhaustive: more than %d settings: set EXHAUSTIVE_VALUES\n",
                            MOST_SETTINGS);
                    exit(1);
                }
                settings[n] = (struct setting){.values = settings[i].values};
                settings[n++].values.value[k] = values[v];
            }
    }
    return n;
}

static int by_median(const void *a, const void *b)
{
    double x = ((const struct setting *)a)->median, y = ((const struct setting *)b)->median;
    return (x < y) - (x > y);
}

static void print(const struct tune_space *space, const char *start, const struct setting *found,
                  const struct setting *best, const char *recovered)
{
    printf("%s,", start);
    for (size_t k = 0; k < space->n_knobs; k++)
        printf("%s%" PRIu64, k ? " " : "", found->values.value[k]);
    printf(",%.3f,%.3f,%s\n", found->median, best->median, recovered);
    fflush(stdout);
}

/* Three pairs of each, and again as many of the better third, until few are left. */
static struct setting find_best(const struct tune_space *space, const struct tune_values *standard)
{
    struct setting *settings = calloc(MOST_SETTINGS, sizeof *settings), best;
    if (!settings)
        exit(1);
    size_t n = list_settings(space, standard, settings), pairs = 3;
    fprintf(stderr, "exhaustive: %zu settings\n", n);
    for (;; n = (n + 2) / 3, pairs *= 2) {
        for (size_t i = 0; i < n; i++)
            measure(space, standard, &settings[i], pairs);
        qsort(settings, n, sizeof *settings, by_median);
        if (n <= 3)
            break;
    }
    best = (struct setting){.values = settings[0].values};
    free(settings);
    return best;
}

/* From a start that is slower than the standards, the way from there to the best counts. */
static void search_from(const struct tune_space *space, const char *start, struct setting *best)
{
    struct tune_values standard = {{0}}, begin = {{0}};
    struct tune_space from = *space;
    struct tune_result result;
    char text[16];
    for (size_t k = 0; k < space->n_knobs; k++) {
        standard.value[k] = space->knob[k].standard;
        begin.value[k] = strcmp(start, "least") == 0  ? space->knob[k].minimum
                         : strcmp(start, "most") == 0 ? space->knob[k].maximum
                                                      : standard.value[k];
        from.knob[k].standard = begin.value[k];
    }
    __real_tune_search(&from, &result);
    struct setting found = {.values = result.values}, first = {.values = begin};
    if (result.verdict == TUNE_NO_TIME || result.verdict == TUNE_FAILED)
        exit(1);
    /* in turns, so that all three see the same machine */
    best->n = 0;
    for (int i = 0; i < TUNE_MAX_PAIRS; i++) {
        measure(space, &standard, &first, 1);
        measure(space, &standard, &found, 1);
        measure(space, &standard, best, 1);
    }
    (void)snprintf(text, sizeof text, "%.2f",
                   log(found.median / first.median) / log(best->median / first.median));
    print(space, start, &found, best, text);
}

void __wrap_tune_search(const struct tune_space *space, struct tune_result *result)
{
    static const char *const starts[] = {"standard", "least", "most"};
    const char *wanted = getenv("EXHAUSTIVE_STARTS"), *given = getenv("EXHAUSTIVE_BEST");
    struct tune_values standard = {{0}};
    struct setting best = {.n = 0};
    for (size_t k = 0; k < space->n_knobs; k++)
        standard.value[k] = space->knob[k].standard;
    for (size_t k = 0; given && k < space->n_knobs; k++, given += strcspn(given, ","), given += *given == ',')
        best.values.value[k] = strtoull(given, NULL, 10);
    if (!given)
        best = find_best(space, &standard);
    printf("start,values,gain,best_gain,recovered\n");
    measure(space, &standard, &best, TUNE_MAX_PAIRS);
    print(space, "exhaustive", &best, &best, "1");
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!wanted || strstr(wanted, starts[i]))
            search_from(space, starts[i], &best);
    *result = (struct tune_result){.verdict = TUNE_NO_TIME}; /* nothing is kept */
}
