/* SPDX-License-Identifier: Apache-2.0 */
/*
 * levels.c - kt tune --levels: a backend's other levels against the best one that the CPU can run, each
 * with its own values: more vectors or tiles are not always faster. Both have threads, which take turns.
 */
#include "tools/kt/tune/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A level with its own threads and packed weights. */
struct side {
    struct kt_context *context;
    struct bench_set set;
    struct tune_subject subject;
    struct tune_measure *measure;
};

struct rivals {
    struct side side[2];
    double deadline;
    struct timespec pause; /* until the other's threads sleep */
};

/* ---- two levels ----------------------------------------------------------------------------- */

static double run_side(struct rivals *rivals, const struct tune_values *which, size_t point)
{
    (void)nanosleep(&rivals->pause, NULL);
    return tune_measure_burst(rivals->side[which->value[0]].measure, point);
}

static double pair(void *data, const struct tune_values *a, const struct tune_values *b, size_t point,
                   unsigned turn)
{
    struct rivals *rivals = data;
    if (bench_now() > rivals->deadline)
        return 0;
    double first = run_side(rivals, turn % 2 ? b : a, point);
    double second = first > 0 ? run_side(rivals, turn % 2 ? a : b, point) : -1;
    if (second < 0)
        return -1;
    return turn % 2 ? second / first : first / second;
}

/* As the configuration has it now, with what has been found so far. */
static int open_side(struct bench *bench, const char *backend, const char *level,
                     const struct bench_source *source, struct side *side)
{
    kt_cli_set(bench->cli, "plugin.%s.level=%s", backend, level);
    int code = kt_cli_context(bench->cli, &side->context);
    if (code != KT_EXIT_OK)
        return code;
    struct kt_context *before = bench->context;
    bench->context = side->context;
    code = tune_make_set(bench, backend, source, &side->set);
    bench->context = before;
    if (code != KT_EXIT_OK)
        return code;
    tune_weights_create(bench->cli, &side->set, source->name, bench->tokens, bench->n_token_counts,
                        &side->subject);
    side->measure = tune_measure_create(bench->cli, &side->subject, bench->n_token_counts, true,
                                        bench->schedule.min_time * 1e9, 0);
    return side->measure ? KT_EXIT_OK : KT_EXIT_PROBLEM;
}

static void close_side(struct side *side)
{
    if (side->measure)
        tune_measure_destroy(side->measure);
    tune_weights_destroy(&side->subject);
    bench_set_destroy(&side->set);
    kt_context_destroy(side->context);
}

static struct timespec find_pause(struct kt_cli *cli)
{
    struct kt_config *config;
    struct kt_setting setting;
    long us = 1000;
    if (kt_cli_config(cli, &config) != KT_EXIT_OK)
        return (struct timespec){0, us * 2000};
    for (size_t i = 0; i < kt_config_setting_count(config); i++)
        if (kt_config_setting(config, i, &setting, NULL) == KT_OK && strcmp(setting.key, "spin_us") == 0)
            us = strtol(setting.value, NULL, 10) + 1000;
    kt_config_destroy(config);
    return (struct timespec){us / 1000000, us % 1000000 * 1000};
}

/* The second level against the first. */
static int compare(struct bench *bench, const char *backend, const char *const level[2],
                   const struct bench_source *source, double seconds, struct tune_result *result)
{
    struct rivals rivals = {.pause = find_pause(bench->cli)};
    struct tune_space space = {.n_points = bench->n_token_counts, .pair = pair, .data = &rivals};
    const struct tune_values first = {{0}}, second = {{1}};
    int code = KT_EXIT_OK;
    for (int i = 0; i < 2 && code == KT_EXIT_OK; i++)
        code = open_side(bench, backend, level[i], source, &rivals.side[i]);
    if (code == KT_EXIT_OK) {
        char *title = kt_cli_format(bench->cli, "comparing %s at %s and %s", backend, level[0], level[1]);
        kt_progress_show(bench->cli, title);
        rivals.deadline = bench_now() + seconds * 1e9;
        result->verdict = tune_compare(&space, &first, &second, result);
        kt_progress_clear();
        free(title);
        code = result->verdict == TUNE_FAILED ? KT_EXIT_PROBLEM : KT_EXIT_OK;
    }
    for (int i = 0; i < 2; i++)
        close_side(&rivals.side[i]);
    return code;
}

/* ---- all of them ---------------------------------------------------------------------------- */

struct levels {
    struct tuning *tuning;
    const char *backend;
    const struct bench_source *source;
    char name[TUNE_MAX_LEVELS][16]; /* that run here, best first */
    size_t n;
};

/* Run by bench_each_level. */
static int tune_level(void *data, struct kt_context *context)
{
    struct levels *levels = data;
    struct bench *bench = &levels->tuning->bench;
    struct kt_context *before = bench->context;
    struct bench_set set;
    bench->context = context;
    int code = tune_make_set(bench, levels->backend, levels->source, &set);
    if (code == KT_EXIT_OK) {
        if (levels->n < TUNE_MAX_LEVELS)
            (void)snprintf(levels->name[levels->n++], sizeof levels->name[0], "%s", set.level);
        code = tune_set(levels->tuning, &set, levels->source->name);
        bench_set_destroy(&set);
    }
    bench->context = before;
    return code;
}

/* Notes which level was best here. A backend has one level for all weights: if they disagree, its own order
 * counts. */
static void note_level(struct tuning *tuning, const char *backend, const char *level, bool is_first)
{
    struct tune_choice *choice = tuning->choices;
    size_t i = 0;
    while (i < tuning->n_choices && strcmp(choice[i].backend, backend) != 0)
        i++;
    if (i == BENCH_MAX_NAMES)
        return;
    const char *name = is_first ? "" : level;
    if (i == tuning->n_choices) {
        tuning->n_choices++;
        (void)snprintf(choice[i].backend, sizeof choice[i].backend, "%s", backend);
        (void)snprintf(choice[i].level, sizeof choice[i].level, "%s", name);
    } else if (strcmp(choice[i].level, name) != 0) {
        choice[i].level[0] = '\0';
    }
}

int tune_levels(struct tuning *tuning, const char *backend, const struct bench_source *source)
{
    struct bench *bench = &tuning->bench;
    struct levels levels = {.tuning = tuning, .backend = backend, .source = source};
    int code = bench_each_level(bench->cli, bench->context, backend, false, tune_level, &levels);
    size_t best = 0;
    double gain = 1;
    for (size_t i = 1; i < levels.n && code == KT_EXIT_OK; i++) {
        const char *const pair_of[] = {levels.name[0], levels.name[i]};
        struct tune_result result = {.verdict = TUNE_STANDARD};
        if (strcmp(levels.name[i], "scalar") == 0)
            continue;
        code = compare(bench, backend, pair_of, source, tuning->seconds, &result);
        if (code == KT_EXIT_OK)
            tune_add_level(tuning, backend, pair_of, source->name, &result);
        if (result.verdict == TUNE_FASTER && result.all.median > gain) {
            best = i;
            gain = result.all.median;
        }
    }
    kt_cli_set(bench->cli, "plugin.%s.level=auto", backend);
    if (code == KT_EXIT_OK && levels.n > 0)
        note_level(tuning, backend, levels.name[best], best == 0);
    return code;
}
