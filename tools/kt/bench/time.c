/* SPDX-License-Identifier: Apache-2.0 */
/*
 * time.c - times forwards. Only the library's forward lies between the two looks at the clock; routing
 * is drawn between calls, every buffer and every packed weight was touched before, and possible disturbances
 * of a run (page faults, other jobs on the cores) are counted and reported.
 */
#define _GNU_SOURCE
#include "tools/check/number.h"
#include "tools/kt/bench/bench.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WARM_UP_NS 0.3e9
#define MIN_REPEATS 5
#define MAX_REPEATS 1000000

/* The state of a series of calls. */
struct series {
    const struct bench_set *set;
    struct bench_calls calls;
    uint16_t *output;
    uint64_t touched, rows; /* experts and their rows, sums over calls */
};

void bench_inputs(uint64_t n_tokens, uint64_t hidden_size, uint16_t *out)
{
    struct bench_random random;
    bench_random_seed(&random, 4);
    for (uint64_t i = 0; i < n_tokens * hidden_size; i++)
        out[i] = to_bf16(bench_random_gauss(&random));
}

static void series_create(const struct kt_cli *cli, const struct bench_set *set,
                          const struct bench_trace *trace, uint32_t n_tokens, struct series *series)
{
    size_t numbers = (size_t)n_tokens * set->output_size * (set->linears != NULL ? 2 : 1);
    *series = (struct series){.set = set};
    bench_calls_create(cli, set, trace, set->n_copies, n_tokens, &series->calls);
    series->output = kt_cli_alloc(cli, numbers, sizeof *series->output);
    memset(series->output, 1, numbers * sizeof *series->output); /* touches its pages */
    series->calls.forward.output = series->output;
    series->calls.forward.output_dtype = set->linears != NULL ? KT_DTYPE_F32 : KT_DTYPE_BF16;
}

static void series_destroy(struct series *series)
{
    bench_calls_destroy(&series->calls);
    free(series->output);
}

/* One call; its time in nanoseconds, or a negative number after a message. */
static double call(const struct kt_cli *cli, struct series *series)
{
    struct kt_error error;
    uint32_t copy = bench_calls_next(&series->calls);
    series->touched += series->calls.n_touched;
    series->rows += series->calls.n_rows;
    double begin = bench_now();
    enum kt_status status = bench_set_forward(series->set, copy, &series->calls.forward, &error);
    double time = bench_now() - begin;
    if (status == KT_OK)
        return time;
    kt_cli_fail(cli, &error);
    return -1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_haste(const struct bench_schedule *schedule)
{
    /* The shortest slices still give the same peak within 1 %. */
    return schedule->min_time < 0.0005 ? 0.005 : schedule->min_time < 0.1 ? schedule->min_time / 0.1 : 1;
}

/* Runs calls until the clock and the caches have settled and each copy ran at least once. Returns the
 * number of calls for a run, or 0 after a message. */
static uint64_t warm_up(const struct kt_cli *cli, struct series *series,
                        const struct bench_schedule *schedule)
{
    double sum = 0, longest_ns = 2e9, warm_up_ns = WARM_UP_NS * bench_haste(schedule);
    uint64_t calls = 0;
    while (calls < 3 || sum < warm_up_ns || calls < series->set->n_copies) {
        double time = call(cli, series);
        if (time < 0)
            return 0;
        sum += time;
        calls++;
        if (calls >= 3 && sum > longest_ns)
            break;
    }
    if (schedule->repeats != 0)
        return schedule->repeats;
    double repeats = schedule->min_time * 1e9 / (sum / (double)calls);
    return repeats < MIN_REPEATS ? MIN_REPEATS : repeats > MAX_REPEATS ? MAX_REPEATS : (uint64_t)repeats;
}

/* CPUs that this process may use; threads beyond them take turns. */
static uint32_t count_cpus(uint32_t otherwise)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : otherwise;
}

void bench_warn_threads(const struct kt_cli *cli, uint32_t n_threads)
{
    uint32_t n_cpus = count_cpus(n_threads);
    if (n_threads > n_cpus)
        kt_cli_warn(cli,
                    "%u threads take turns on %u %s: neither times nor limits say what this machine can do; "
                    "choose --threads %u or fewer",
                    n_threads, n_cpus, n_cpus == 1 ? "CPU" : "CPUs", n_cpus);
}

static double cpu_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Disturbances of a run. */
struct disturbance {
    long faults;  /* page faults */
    double share; /* share of the cores that the threads got */
};

static long fault_count(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void warn(const struct kt_cli *cli, const struct disturbance *disturbance, uint64_t calls,
                 const struct bench_result *result)
{
    if (disturbance->faults > 16 && (uint64_t)disturbance->faults > calls / 4)
        kt_cli_warn(cli, "%ld page faults while timing", disturbance->faults);
    /* Too short to tell from a few milliseconds of processor time. */
    if (disturbance->share < 0.9 && result->median * (double)calls > 100e6)
        kt_cli_warn(cli,
                    "even in the best run the threads had their cores for %.0f %% of the time "
                    "only: something else runs on this machine",
                    disturbance->share * 100);
}

static int run(struct kt_cli *cli, struct series *series, uint32_t n_threads, uint64_t calls, double *times,
               struct bench_result *result, struct disturbance *disturbance)
{
    series->touched = series->rows = 0;
    long faults = fault_count();
    double cpu = cpu_time(), begin = bench_now();
    for (uint64_t i = 0; i < calls; i++) {
        times[i] = call(cli, series);
        if (times[i] < 0)
            return KT_EXIT_PROBLEM;
    }
    uint32_t n_cpus = count_cpus(n_threads);
    double share = (cpu_time() - cpu) / ((bench_now() - begin) * (n_threads < n_cpus ? n_threads : n_cpus));
    faults = fault_count() - faults;
    qsort(times, calls, sizeof *times, compare);
    double median = calls % 2 != 0 ? times[calls / 2] : (times[calls / 2 - 1] + times[calls / 2]) / 2;
    if (result->repeats == 0 || times[0] < result->best)
        result->best = times[0];
    if (result->repeats == 0 || times[calls - 1] > result->worst)
        result->worst = times[calls - 1];
    if (result->repeats == 0 || median < result->median) {
        result->median = median;
        result->experts = (double)series->touched / (double)calls;
        result->rows = (double)series->rows / (double)calls;
        *disturbance = (struct disturbance){faults, share};
    }
    result->repeats += calls;
    return KT_EXIT_OK;
}

int bench_set_time(struct kt_cli *cli, const struct bench_set *set, const struct bench_trace *trace,
                   uint32_t n_threads, const struct bench_schedule *schedule, uint32_t n_tokens,
                   struct bench_result *result)
{
    struct series series;
    series_create(cli, set, trace, n_tokens, &series);
    uint64_t calls = warm_up(cli, &series, schedule);
    int code = calls != 0 ? KT_EXIT_OK : KT_EXIT_PROBLEM;
    double *times = kt_cli_alloc(cli, calls, sizeof *times);
    memset(times, 1, calls * sizeof *times);
    *result = (struct bench_result){0};
    struct disturbance disturbance = {0, 1};
    for (uint64_t i = 0; i < schedule->runs && code == KT_EXIT_OK; i++)
        code = run(cli, &series, n_threads, calls, times, result, &disturbance);
    if (code == KT_EXIT_OK)
        warn(cli, &disturbance, calls, result);
    free(times);
    series_destroy(&series);
    return code;
}
