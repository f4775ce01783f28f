/* SPDX-License-Identifier: Apache-2.0 */
/* tune.h - what the files of kt tune share. */
#ifndef KT_TOOL_TUNE_H
#define KT_TOOL_TUNE_H

#include "tools/kt/bench/bench.h"

#include <kt/plugin.h>
#include <kt/tune.h>

#define TUNE_MAX_POINTS 16
#define TUNE_MAX_PAIRS 27
#define TUNE_MIN_PAIRS 9

/* ---- search.c: the best values, by pairs of measurements ---- */

/* A tunable and its values that are worth trying. */
struct tune_knob {
    uint64_t minimum, maximum, standard;
    bool doubling;
};

/* The values of all knobs. */
struct tune_values {
    uint64_t value[KT_MAX_TUNABLES];
};

/* What is searched. */
struct tune_space {
    struct tune_knob knob[KT_MAX_TUNABLES];
    size_t n_knobs, n_points;
    /* The time with `a` divided by that with `b` at a point, by two bursts of calls after each other; `turn`
     * says which is first. 0: time is up. Negative: it failed. */
    double (*pair)(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                   unsigned turn);
    /* The search is over, by itself or because time is up: gives the final comparison its own. */
    void (*extend)(void *data);
    void *data;
};

/* Of the ratios of n pairs. */
struct tune_interval {
    double low, median, high; /* the median lies from low to high with 95 % */
    size_t n;
};

enum tune_verdict {
    TUNE_STANDARD, /* nothing is faster */
    TUNE_FASTER,   /* and slower nowhere */
    TUNE_NOISY,    /* other things run: candidates have no stable order, or the end could not be shown */
    TUNE_NO_TIME,
    TUNE_FAILED
};

struct tune_result {
    enum tune_verdict verdict;
    struct tune_values values;                   /* to be kept: the standards unless TUNE_FASTER */
    struct tune_interval point[TUNE_MAX_POINTS]; /* standard / values */
    struct tune_interval all;                    /* of the geometric mean of the points */
    size_t n_tried;                              /* candidates that were measured */
};

/* Sorts the ratios. */
struct tune_interval tune_interval(double *ratio, size_t n);

/* Compares two settings at all points, with TUNE_MIN_PAIRS pairs or more until it is clear. */
enum tune_verdict tune_compare(const struct tune_space *space, const struct tune_values *standard,
                               const struct tune_values *values, struct tune_result *result);

void tune_search(const struct tune_space *space, struct tune_result *result);

/* ---- what is tuned: copies that are called in turn ---- */

struct tune_subject {
    void *data;
    uint32_t n_copies;
    const char *backend, *level;
    const char *format; /* of weights or of a cache */
    /* As kt_layer_tunable; kt_layer_tune of all copies. */
    enum kt_status (*tunable)(void *data, uint32_t index, struct kt_tunable_info *info,
                              struct kt_error *error);
    enum kt_status (*tune)(void *data, const char *name, uint64_t value, struct kt_error *error);
    /* A call of the next copy at a point: its nanoseconds, and how much it did, if calls differ in that. */
    enum kt_status (*call)(void *data, size_t point, double *time, double *amount, struct kt_error *error);
};

/* weights.c: a packed layer or linear; a point for each number of tokens. */
void tune_weights_create(const struct kt_cli *cli, const struct bench_set *set, const char *format,
                         const uint64_t *tokens, size_t n_points, struct tune_subject *subject);
void tune_weights_destroy(struct tune_subject *subject);

/* ---- measure.c: pairs of bursts of calls with other values ---- */

struct tune_measure;

/* `keeps`: with the values as configured, else with the standards. `burst_time`: in ns, what a burst aims at.
 * `deadline`: by bench_now. NULL after a message. */
struct tune_measure *tune_measure_create(struct kt_cli *cli, const struct tune_subject *subject,
                                         size_t n_points, bool keeps, double burst_time, double deadline);
void tune_measure_destroy(struct tune_measure *measure);

/* The tunables that may be set, and how they are measured. */
void tune_measure_space(struct tune_measure *measure, struct tune_space *space);
/* The time of a burst of calls at a point for what they did, with the values that are set; negative after a
 * message. */
double tune_measure_burst(struct tune_measure *measure, size_t point);
const struct kt_tunable_info *tune_measure_knob(const struct tune_measure *measure, size_t knob);

/* ---- file.c: tuned.ini ---- */

/* What was found of one level, format and shape. */
struct tune_found {
    const struct kt_tunable_info *knob[KT_MAX_TUNABLES];
    size_t n_knobs;
    const struct tune_result *result;
    const uint64_t *tokens;
    size_t n_points;
    uint32_t n_threads;
};

/* The user's tuned.ini. NULL after a message. */
char *tune_file_path(const struct kt_cli *cli);

/* Puts the values into the plugin's section for this CPU, in place of those of the same level, format and
 * shape; of another microcode's nothing is left. */
int tune_file_put(const struct kt_cli *cli, const struct kt_context_info *info,
                  const struct tune_found *found);

/* Makes `level` the plugin's for this CPU; "": removes the one that is there. */
int tune_file_level(const struct kt_cli *cli, const struct kt_context_info *info, const char *backend,
                    const char *level);

/* kt tune --reset. */
int tune_reset(struct kt_cli *cli);

/* ---- show.c ---- */

/* kt tune --show. */
int tune_show(struct kt_cli *cli);

#endif
