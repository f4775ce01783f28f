/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.c - pairs of bursts of calls with other values of tunables, on the same packed weights or the
 * same caches. As in kt bench these come from memory: copies take turns. A burst's time is divided by what it
 * did.
 */
#include "tools/kt/tune/tune.h"

#include <stdlib.h>

#define MIN_CALLS 3
#define MAX_CALLS 100000
/* The part of the time that the final comparison gets. */
#define FINAL_SHARE 0.25

struct tune_measure {
    struct kt_cli *cli;
    const struct tune_subject *subject;
    struct kt_tunable_info knob[KT_MAX_TUNABLES];
    size_t n_knobs;
    uint64_t now[KT_MAX_TUNABLES];     /* set in the copies; 0: not known */
    uint64_t n_calls[TUNE_MAX_POINTS]; /* of a burst */
    size_t n_points;
    double burst_time;     /* ns, aimed at */
    double soft, deadline; /* of the search, and of all */
};

/* ---- calls ---------------------------------------------------------------------------------- */

/* The time of n calls for what they did, or a negative number after a message. */
static double run_burst(struct tune_measure *measure, size_t point, uint64_t n)
{
    const struct tune_subject *subject = measure->subject;
    struct kt_error error;
    double sum = 0, done = 0;
    for (uint64_t i = 0; i < n; i++) {
        double time, amount = 1;
        if (subject->call(subject->data, point, &time, &amount, &error) != KT_OK) {
            kt_cli_fail(measure->cli, &error);
            return -1;
        }
        sum += time;
        done += amount;
    }
    return sum / done;
}

/* Touches all pages, and finds how many calls make a burst. */
static bool warm_up(struct tune_measure *measure, size_t point)
{
    double begin = bench_now();
    uint64_t n = 0;
    for (; n < MIN_CALLS || n < measure->subject->n_copies || bench_now() - begin < measure->burst_time; n++)
        if (run_burst(measure, point, 1) < 0)
            return false;
    double calls = measure->burst_time * (double)n / (bench_now() - begin);
    measure->n_calls[point] = calls < MIN_CALLS ? MIN_CALLS : calls > MAX_CALLS ? MAX_CALLS : (uint64_t)calls;
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool set_values(struct tune_measure *measure, const struct tune_values *values)
{
    struct kt_error error;
    for (size_t k = 0; k < measure->n_knobs; k++) {
        if (measure->now[k] == values->value[k])
            continue;
        if (measure->subject->tune(measure->subject->data, measure->knob[k].name, values->value[k], &error) !=
            KT_OK) {
            kt_cli_fail(measure->cli, &error);
            return false;
        }
        measure->now[k] = values->value[k];
    }
    return true;
}

static double time_values(struct tune_measure *measure, const struct tune_values *values, size_t point)
{
    return set_values(measure, values) ? run_burst(measure, point, measure->n_calls[point]) : -1;
}

/* Values that are many times as fast as those at the beginning need more calls. Returns whether there are
 * more now.
 */
static bool lengthen(struct tune_measure *measure, size_t point, double spent)
{
    const double least = measure->burst_time / 4; /* of a pair */
    uint64_t before = measure->n_calls[point];
    if (spent >= least)
        return false;
    double calls = (double)before * (2 * least / (spent + 1));
    measure->n_calls[point] = calls > MAX_CALLS ? MAX_CALLS : (uint64_t)calls;
    return measure->n_calls[point] > before;
}

static double pair(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                   unsigned turn)
{
    struct tune_measure *measure = data;
    double first, second, begin;
    do {
        begin = bench_now();
        if (begin > measure->soft)
            return 0;
        first = time_values(measure, turn % 2 ? b : a, point);
        second = first > 0 ? time_values(measure, turn % 2 ? a : b, point) : -1;
        if (second < 0)
            return -1;
    } while (lengthen(measure, point, bench_now() - begin));
    return turn % 2 ? second / first : first / second;
}

static void extend(void *data)
{
    struct tune_measure *measure = data;
    measure->soft = measure->deadline;
}

/* ---- what is measured ----------------------------------------------------------------------- */

/* Sets all tunables to their standards, and lists those that may be changed. */
static bool find_knobs(struct tune_measure *measure)
{
    const struct tune_subject *subject = measure->subject;
    struct kt_tunable_info info;
    struct kt_error error;
    for (uint32_t i = 0; subject->tunable(subject->data, i, &info, NULL) == KT_OK; i++) {
        if (subject->tune(subject->data, info.name, 0, &error) != KT_OK ||
            subject->tunable(subject->data, i, &info, &error) != KT_OK) {
            kt_cli_fail(measure->cli, &error);
            return false;
        }
        if (!info.forbidden)
            measure->knob[measure->n_knobs++] = info;
    }
    return true;
}

struct tune_measure *tune_measure_create(struct kt_cli *cli, const struct tune_subject *subject,
                                         size_t n_points, bool keeps, double burst_time, double deadline)
{
    struct tune_measure *measure = kt_cli_alloc(cli, 1, sizeof *measure);
    double begin = bench_now();
    measure->cli = cli;
    measure->subject = subject;
    measure->n_points = n_points;
    measure->burst_time = burst_time;
    measure->deadline = deadline;
    measure->soft = begin + (deadline - begin) * (1 - FINAL_SHARE);
    bool good = keeps || find_knobs(measure);
    for (size_t p = 0; p < n_points && good && (keeps || measure->n_knobs > 0); p++)
        good = warm_up(measure, p);
    if (good)
        return measure;
    tune_measure_destroy(measure);
    return NULL;
}

void tune_measure_destroy(struct tune_measure *measure)
{
    free(measure);
}

void tune_measure_space(struct tune_measure *measure, struct tune_space *space)
{
    *space = (struct tune_space){.n_knobs = measure->n_knobs,
                                 .n_points = measure->n_points,
                                 .pair = pair,
                                 .extend = extend,
                                 .data = measure};
    for (size_t k = 0; k < measure->n_knobs; k++) {
        const struct kt_tunable_info *info = &measure->knob[k];
        space->knob[k] = (struct tune_knob){info->minimum, info->maximum, info->value, info->doubling != 0};
    }
}

double tune_measure_burst(struct tune_measure *measure, size_t point)
{
    return run_burst(measure, point, measure->n_calls[point]);
}

const struct kt_tunable_info *tune_measure_knob(const struct tune_measure *measure, size_t knob)
{
    return &measure->knob[knob];
}
