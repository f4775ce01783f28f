/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_measure.c - pairs of bursts of calls with other values of tunables, on the same packed weights. As in
 * kt bench, weights come from memory: copies take turns, and experts too. A burst's time is divided by the
 * experts that it touched, which routing draws.
 */
#include "tools/kt/tune.h"

#include <stdlib.h>
#include <string.h>

/* Long enough for the clock, the drawn routing and a wake-up not to matter. */
#define BURST_NS 20e6
#define MIN_CALLS 3
#define MAX_CALLS 100000
/* The part of the time that the final comparison gets. */
#define FINAL_SHARE 0.25

/* Calls of one batch size. */
struct point {
    struct bench_calls calls;
    void *output;
    uint64_t n_calls; /* of a burst */
};

struct tune_measure {
    struct kt_cli *cli;
    const struct bench_set *set;
    struct kt_tunable_info knob[KT_MAX_TUNABLES];
    size_t n_knobs;
    uint64_t now[KT_MAX_TUNABLES]; /* set in the layers; 0: not known */
    struct point point[TUNE_MAX_POINTS];
    size_t n_points;
    double soft, deadline; /* of the search, and of all */
};

/* ---- calls ---------------------------------------------------------------------------------- */

/* The time of n calls for each expert that they touch, or a negative number after a message. */
static double run_burst(struct tune_measure *measure, struct point *point, uint64_t n)
{
    struct kt_error error;
    double sum = 0, touched = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t copy = bench_calls_next(&point->calls);
        double begin = bench_now();
        if (bench_set_forward(measure->set, copy, &point->calls.forward, &error) != KT_OK) {
            kt_cli_fail(measure->cli, &error);
            return -1;
        }
        sum += bench_now() - begin;
        touched += point->calls.n_touched ? point->calls.n_touched : 1;
    }
    return sum / touched;
}

/* Touches all pages, and finds how many calls make a burst. */
static bool warm_up(struct tune_measure *measure, struct point *point)
{
    double begin = bench_now();
    uint64_t n = 0;
    for (; n < MIN_CALLS || n < measure->set->n_copies || bench_now() - begin < BURST_NS; n++)
        if (run_burst(measure, point, 1) < 0)
            return false;
    double calls = BURST_NS * (double)n / (bench_now() - begin);
    point->n_calls = calls < MIN_CALLS ? MIN_CALLS : calls > MAX_CALLS ? MAX_CALLS : (uint64_t)calls;
    return true;
}

static bool make_point(struct tune_measure *measure, uint64_t n_tokens)
{
    const struct bench_set *set = measure->set;
    struct point *point = &measure->point[measure->n_points++];
    size_t size = (size_t)n_tokens * set->output_size * sizeof(float);
    bench_calls_create(measure->cli, set, NULL, set->n_copies, (uint32_t)n_tokens, &point->calls);
    point->output = kt_cli_alloc(measure->cli, size, 1);
    memset(point->output, 1, size);
    point->calls.forward.output = point->output;
    point->calls.forward.output_dtype = set->linears != NULL ? KT_DTYPE_F32 : KT_DTYPE_BF16;
    return warm_up(measure, point);
}

/* ---- values --------------------------------------------------------------------------------- */

static enum kt_status set_value(const struct tune_measure *measure, const char *name, uint64_t value,
                                struct kt_error *error)
{
    enum kt_status status = KT_OK;
    for (uint32_t i = 0; i < measure->set->n_copies && status == KT_OK; i++)
        status = measure->set->layers ? kt_layer_tune(measure->set->layers[i], name, value, error)
                                      : kt_linear_tune(measure->set->linears[i], name, value, error);
    return status;
}

static bool set_values(struct tune_measure *measure, const struct tune_values *values)
{
    struct kt_error error;
    for (size_t k = 0; k < measure->n_knobs; k++) {
        if (measure->now[k] == values->value[k])
            continue;
        if (set_value(measure, measure->knob[k].name, values->value[k], &error) != KT_OK) {
            kt_cli_fail(measure->cli, &error);
            return false;
        }
        measure->now[k] = values->value[k];
    }
    return true;
}

static double time_values(struct tune_measure *measure, const struct tune_values *values, size_t p)
{
    struct point *point = &measure->point[p];
    return set_values(measure, values) ? run_burst(measure, point, point->n_calls) : -1;
}

static double pair(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                   unsigned turn)
{
    struct tune_measure *measure = data;
    if (bench_now() > measure->soft)
        return 0;
    double first = time_values(measure, turn % 2 ? b : a, point);
    double second = first > 0 ? time_values(measure, turn % 2 ? a : b, point) : -1;
    if (second < 0)
        return -1;
    return turn % 2 ? second / first : first / second;
}

static void extend(void *data)
{
    struct tune_measure *measure = data;
    measure->soft = measure->deadline;
}

/* ---- what is measured ----------------------------------------------------------------------- */

static enum kt_status ask(const struct tune_measure *measure, uint32_t index, struct kt_tunable_info *info,
                          struct kt_error *error)
{
    return measure->set->layers ? kt_layer_tunable(measure->set->layers[0], index, info, error)
                                : kt_linear_tunable(measure->set->linears[0], index, info, error);
}

/* Sets all tunables to their standards, and lists those that may be changed. */
static bool find_knobs(struct tune_measure *measure)
{
    struct kt_tunable_info info;
    struct kt_error error;
    for (uint32_t i = 0; ask(measure, i, &info, NULL) == KT_OK; i++) {
        if (set_value(measure, info.name, 0, &error) != KT_OK || ask(measure, i, &info, &error) != KT_OK) {
            kt_cli_fail(measure->cli, &error);
            return false;
        }
        if (!info.forbidden)
            measure->knob[measure->n_knobs++] = info;
    }
    return true;
}

struct tune_measure *tune_measure_create(struct kt_cli *cli, const struct bench_set *set,
                                         const uint64_t *tokens, size_t n_points, bool keeps, double deadline)
{
    struct tune_measure *measure = kt_cli_alloc(cli, 1, sizeof *measure);
    double begin = bench_now();
    measure->cli = cli;
    measure->set = set;
    measure->deadline = deadline;
    measure->soft = begin + (deadline - begin) * (1 - FINAL_SHARE);
    bool good = keeps || find_knobs(measure);
    for (size_t p = 0; p < n_points && good && (keeps || measure->n_knobs > 0); p++)
        good = make_point(measure, tokens[p]);
    if (good)
        return measure;
    tune_measure_destroy(measure);
    return NULL;
}

void tune_measure_destroy(struct tune_measure *measure)
{
    for (size_t p = 0; p < measure->n_points; p++) {
        bench_calls_destroy(&measure->point[p].calls);
        free(measure->point[p].output);
    }
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
    return run_burst(measure, &measure->point[point], measure->point[point].n_calls);
}

const struct kt_tunable_info *tune_measure_knob(const struct tune_measure *measure, size_t knob)
{
    return &measure->knob[knob];
}
