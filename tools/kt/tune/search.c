/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c - looks for values that are faster than the standards.
 *
 * One tunable after the other: all its values are measured in pairs with the present one, the slower half
 * drops out, and the rest is measured twice as often, until one is left (successive halving). That one
 * replaces the present value if it is faster beyond doubt. Then the next tunable, round after round, until a
 * round changes nothing. Where nothing was found at all, the same begins once more amid the ranges: a tunable
 * at an end of its range may take the effect of another one away. At the end the values are compared with the
 * standards again.
 */
#include "tools/kt/tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 32, MAX_ROUNDS = 3 };

/* Faster by less than this is not worth a change. */
#define LEAST_GAIN 1.005
/* At no point may values be slower than the standards by more than this. */
#define SLOWEST 0.98

struct search {
    const struct tune_space *space;
    struct tune_values best;
    struct tune_result *result;
    bool noisy;
};

/* ---- statistics ----------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n pairs, how many may be left out at each end so that the median lies between the rest with 95 %: it
 * lies outside if fewer than that are below it, as fair coins would fall. */
static size_t count_left_out(size_t n)
{
    double chance = pow(0.5, (double)n), sum = 0;
    size_t k = 0;
    for (; k < n / 2; k++) {
        sum += chance;
        if (2 * sum > 0.05)
            break;
        chance *= (double)(n - k) / (double)(k + 1);
    }
    return k > 0 ? k - 1 : 0;
}

struct tune_interval tune_interval(double *ratio, size_t n)
{
    qsort(ratio, n, sizeof *ratio, compare_numbers);
    size_t out = count_left_out(n);
    double median = n % 2 ? ratio[n / 2] : sqrt(ratio[n / 2 - 1] * ratio[n / 2]);
    return (struct tune_interval){ratio[out], median, ratio[n - 1 - out], n};
}

/* ---- two settings --------------------------------------------------------------------------- */

struct comparison {
    double point[TUNE_MAX_POINTS][TUNE_MAX_PAIRS];
    double all[TUNE_MAX_PAIRS];
    size_t n;
};

/* One more pair at each point. Returns TUNE_STANDARD if that went well. */
static enum tune_verdict add_pairs(const struct tune_space *space, const struct tune_values *a,
                                   const struct tune_values *b, struct comparison *pairs)
{
    double sum = 0;
    for (size_t p = 0; p < space->n_points; p++) {
        double ratio = space->pair(space->data, a, b, p, (unsigned)(pairs->n + p));
        if (!(ratio > 0))
            return ratio < 0 ? TUNE_FAILED : TUNE_NO_TIME;
        pairs->point[p][pairs->n] = ratio;
        sum += log(ratio);
    }
    pairs->all[pairs->n++] = exp(sum / (double)space->n_points);
    return TUNE_STANDARD;
}

static void summarize(const struct tune_space *space, const struct comparison *pairs,
                      struct tune_interval point[TUNE_MAX_POINTS], struct tune_interval *all)
{
    struct comparison sorted = *pairs;
    for (size_t p = 0; p < space->n_points; p++)
        point[p] = tune_interval(sorted.point[p], sorted.n);
    *all = tune_interval(sorted.all, sorted.n);
}

/* More pairs as long as they may change the answer. */
enum tune_verdict tune_compare(const struct tune_space *space, const struct tune_values *standard,
                               const struct tune_values *values, struct tune_result *result)
{
    struct comparison *pairs = calloc(1, sizeof *pairs);
    enum tune_verdict verdict = pairs ? TUNE_STANDARD : TUNE_FAILED;
    while (verdict == TUNE_STANDARD) {
        verdict = add_pairs(space, standard, values, pairs);
        if (verdict != TUNE_STANDARD || pairs->n < TUNE_MIN_PAIRS)
            continue;
        bool slower = false, open = false;
        summarize(space, pairs, result->point, &result->all);
        for (size_t p = 0; p < space->n_points; p++) {
            slower |= result->point[p].high < SLOWEST;
            open |= result->point[p].low <= SLOWEST;
        }
        if (slower || result->all.high < LEAST_GAIN)
            break;
        if (!open && result->all.low > 1)
            verdict = TUNE_FASTER;
        else if (pairs->n == TUNE_MAX_PAIRS)
            verdict = TUNE_NOISY;
    }
    free(pairs);
    return verdict;
}

/* ---- one tunable ---------------------------------------------------------------------------- */

/* The values to be tried, without the present one. */
static size_t list_values(const struct tune_knob *knob, uint64_t present, uint64_t list[MAX_CANDIDATES])
{
    size_t n = 0;
    uint64_t span = knob->maximum - knob->minimum;
    bool has_standard = false;
    for (uint64_t value = knob->minimum; n < MAX_CANDIDATES - 2;) {
        has_standard |= value == knob->standard;
        if (value != present)
            list[n++] = value;
        if (value == knob->maximum)
            break;
        /* Of a long range by one, every so many. */
        uint64_t step = knob->doubling ? value : span / (MAX_CANDIDATES - 4) + 1;
        value = step < knob->maximum - value ? value + step : knob->maximum;
    }
    if (!has_standard && knob->standard != present)
        list[n++] = knob->standard;
    return n;
}

struct candidate {
    uint64_t value;
    struct comparison pairs; /* present / candidate */
    double score;
};

static int by_score(const void *a, const void *b)
{
    const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
    return (x->score < y->score) - (x->score > y->score);
}

static enum tune_verdict measure(struct search *search, size_t knob, struct candidate *candidate, size_t n)
{
    struct tune_values values = search->best;
    enum tune_verdict verdict = TUNE_STANDARD;
    double sorted[TUNE_MAX_PAIRS];
    values.value[knob] = candidate->value;
    for (size_t i = 0; i < n && candidate->pairs.n < TUNE_MAX_PAIRS && verdict == TUNE_STANDARD; i++)
        verdict = add_pairs(search->space, &search->best, &values, &candidate->pairs);
    if (candidate->pairs.n == 0)
        return verdict;
    memcpy(sorted, candidate->pairs.all, candidate->pairs.n * sizeof *sorted);
    candidate->score = tune_interval(sorted, candidate->pairs.n).median;
    return verdict;
}

/* Is the last candidate faster beyond doubt, and slower nowhere? Pairs are added until that is clear. */
static enum tune_verdict judge(struct search *search, size_t knob, struct candidate *candidate)
{
    struct tune_interval point[TUNE_MAX_POINTS], all;
    enum tune_verdict verdict = TUNE_STANDARD;
    while (verdict == TUNE_STANDARD) {
        bool slower = false;
        if (candidate->pairs.n >= TUNE_MIN_PAIRS) {
            summarize(search->space, &candidate->pairs, point, &all);
            for (size_t p = 0; p < search->space->n_points; p++)
                slower |= point[p].median < SLOWEST;
            if (slower || all.high < LEAST_GAIN)
                return TUNE_STANDARD;
            if (all.low > LEAST_GAIN)
                return TUNE_FASTER;
            if (candidate->pairs.n >= TUNE_MAX_PAIRS) {
                search->noisy |= all.high / all.low > 1.04;
                return TUNE_STANDARD;
            }
        }
        verdict = measure(search, knob, candidate, 1);
    }
    return verdict;
}

/* The fastest value by successive halving, which then must prove itself. */
static enum tune_verdict try_knob(struct search *search, size_t knob)
{
    uint64_t values[MAX_CANDIDATES];
    size_t n = list_values(&search->space->knob[knob], search->best.value[knob], values), rounds = 1;
    struct candidate *all = calloc(n + 1, sizeof *all), *list[MAX_CANDIDATES];
    enum tune_verdict verdict = all ? TUNE_STANDARD : TUNE_FAILED;
    for (size_t i = 0; i < n && all; i++) {
        all[i].value = values[i];
        list[i] = &all[i];
    }
    search->result->n_tried += n;
    for (; n > 0 && verdict == TUNE_STANDARD; n = (n + 1) / 2, rounds *= 2) {
        for (size_t i = 0; i < n && verdict == TUNE_STANDARD; i++)
            verdict = measure(search, knob, list[i], rounds);
        if (verdict != TUNE_STANDARD)
            break;
        qsort(list, n, sizeof *list, by_score);
        if (n == 1)
            break;
    }
    if (n == 1 && verdict == TUNE_STANDARD)
        verdict = judge(search, knob, list[0]);
    if (verdict == TUNE_FASTER)
        search->best.value[knob] = list[0]->value;
    free(all);
    return verdict;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static bool is_standard(const struct tune_space *space, const struct tune_values *values)
{
    for (size_t k = 0; k < space->n_knobs; k++)
        if (values->value[k] != space->knob[k].standard)
            return false;
    return true;
}

/* Round after round; TUNE_STANDARD: to the end. */
static enum tune_verdict climb(struct search *search)
{
    const struct tune_space *space = search->space;
    size_t last = 0, unchanged = 0;
    for (size_t i = 0; i < MAX_ROUNDS * space->n_knobs && unchanged < space->n_knobs; i++) {
        last = i % space->n_knobs;
        enum tune_verdict verdict = try_knob(search, last);
        if (verdict == TUNE_NO_TIME || verdict == TUNE_FAILED)
            return verdict;
        unchanged = verdict == TUNE_FASTER ? 0 : unchanged + 1;
    }
    return TUNE_STANDARD;
}

/* Once more from values amid those that are tried; without time for that the standards stay. */
static enum tune_verdict climb_from_amid(struct search *search, const struct tune_values *standard)
{
    const struct tune_space *space = search->space;
    uint64_t values[MAX_CANDIDATES];
    for (size_t k = 0; k < space->n_knobs; k++) {
        size_t n = list_values(&space->knob[k], UINT64_MAX, values);
        search->best.value[k] = values[n / 2];
    }
    enum tune_verdict verdict = space->n_knobs > 1 ? climb(search) : TUNE_NO_TIME;
    if (verdict == TUNE_NO_TIME)
        search->best = *standard;
    return verdict;
}

void tune_search(const struct tune_space *space, struct tune_result *result)
{
    struct search search = {.space = space, .result = result};
    struct tune_values standard = {{0}};
    *result = (struct tune_result){.verdict = TUNE_STANDARD};
    for (size_t k = 0; k < space->n_knobs; k++)
        standard.value[k] = space->knob[k].standard;
    search.best = result->values = standard;
    result->verdict = climb(&search);
    if (result->verdict == TUNE_STANDARD && is_standard(space, &search.best)) {
        result->verdict = search.noisy ? TUNE_NOISY : TUNE_STANDARD;
        if (climb_from_amid(&search, &standard) == TUNE_FAILED)
            result->verdict = TUNE_FAILED;
    }
    if (result->verdict == TUNE_FAILED || is_standard(space, &search.best))
        return;
    space->extend(space->data);
    enum tune_verdict verdict = tune_compare(space, &standard, &search.best, result);
    if (verdict != TUNE_STANDARD)
        result->verdict = verdict;
    if (verdict == TUNE_FASTER)
        result->values = search.best;
}
