/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c - kt bench --dispatch, --latency and --limits: the machine and the threads, without
 * a layer. */
#include "tools/kt/bench/bench.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define N_SERIES 5
#define SPINNING_STAGES 20000
#define ASLEEP_STAGES 40
#define LATENCY_SUBMITS 4000 /* a second without gaps */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of a few series, in microseconds; negative after a message. */
static double stage_time(struct kt_cli *cli, struct kt_context *context, uint32_t stages, int asleep)
{
    double times[N_SERIES];
    struct kt_error error;
    for (int i = 0; i < N_SERIES; i++) {
        if (kt_context_dispatch_time(context, stages, asleep, &times[i], &error) != KT_OK) {
            kt_cli_fail(cli, &error);
            return -1;
        }
    }
    qsort(times, N_SERIES, sizeof *times, compare);
    return times[N_SERIES / 2] / 1e3;
}

/* Percent of a core that the context takes in the second after its last stage, spinning included.
 */
static double idle_share(void)
{
    struct timespec before, after, second = {.tv_sec = 1};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    double begin = bench_now();
    while (nanosleep(&second, &second) != 0)
        ;
    double wall = bench_now() - begin;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / wall *
           100;
}

static uint64_t setting_number(const struct kt_config *config, const char *key)
{
    struct kt_setting setting;
    for (size_t i = 0; i < kt_config_setting_count(config); i++)
        if (kt_config_setting(config, i, &setting, NULL) == KT_OK && strcmp(setting.section, "core") == 0 &&
            strcmp(setting.key, key) == 0)
            return strtoull(setting.value, NULL, 10);
    return 0;
}

/* A context for measurements without a layer. */
struct machine {
    struct kt_context *context;
    uint32_t n_threads;
    uint64_t spin_us;
};

static int open_machine(struct kt_cli *cli, struct machine *machine)
{
    struct kt_config *config;
    struct kt_context_info info;
    struct kt_error error;
    int code = kt_cli_config(cli, &config);
    if (code != KT_EXIT_OK)
        return code;
    machine->spin_us = setting_number(config, "spin_us");
    kt_cli_try_plugins(cli, config);
    enum kt_status status = kt_context_create(config, &machine->context, &error);
    kt_config_destroy(config);
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    kt_context_info(machine->context, &info);
    machine->n_threads = info.n_threads;
    return KT_EXIT_OK;
}

int bench_dispatch(struct kt_cli *cli)
{
    static const struct kt_column columns[] = {
        {"n_threads", "THREADS", KT_COLUMN_UINT, 0, 0},
        {"spin_us", "SPIN us", KT_COLUMN_UINT, 0, 0},
        {"dispatch_spinning_us", "SPINNING us", KT_COLUMN_REAL, 2, 0},
        {"dispatch_asleep_us", "ASLEEP us", KT_COLUMN_REAL, 2, 0},
        {"idle_cpu_percent", "IDLE % of a core", KT_COLUMN_REAL, 3, 0},
    };
    struct machine machine;
    int code = open_machine(cli, &machine);
    if (code != KT_EXIT_OK)
        return code;
    double spinning = stage_time(cli, machine.context, SPINNING_STAGES, 0);
    double asleep = spinning < 0 ? -1 : stage_time(cli, machine.context, ASLEEP_STAGES, 1);
    if (spinning < 0 || asleep < 0) {
        code = KT_EXIT_PROBLEM;
    } else {
        stage_time(cli, machine.context, 1, 0); /* from here on the workers spin, then sleep */
        struct kt_output *output = kt_output_create(cli, "kt.bench.dispatch", 1);
        struct kt_table *table = kt_output_table(output, "rows", columns, COUNT(columns));
        kt_table_row(table);
        kt_table_uint(table, "n_threads", machine.n_threads);
        kt_table_uint(table, "spin_us", machine.spin_us);
        kt_table_real(table, "dispatch_spinning_us", spinning);
        kt_table_real(table, "dispatch_asleep_us", asleep);
        kt_table_real(table, "idle_cpu_percent", idle_share());
        code = kt_output_finish(output, KT_EXIT_OK);
    }
    kt_context_destroy(machine.context);
    return code;
}

/* A row: submits with a gap between them. The first ones warm up. */
static enum kt_status measure_latency(struct kt_context *context, uint32_t gap_us, uint32_t count,
                                      struct kt_table *table, struct kt_error *error)
{
    double times[LATENCY_SUBMITS];
    enum kt_status status = kt_context_submit_times(context, count / 10, gap_us, times, error);
    if (status == KT_OK)
        status = kt_context_submit_times(context, count, gap_us, times, error);
    if (status != KT_OK)
        return status;
    qsort(times, count, sizeof *times, compare);
    kt_table_uint(table, "gap_us", gap_us);
    kt_table_uint(table, "submits", count);
    kt_table_real(table, "start_us_median", times[count / 2] / 1e3);
    kt_table_real(table, "start_us_p99", times[count * 99 / 100] / 1e3);
    kt_table_real(table, "start_us_max", times[count - 1] / 1e3);
    return KT_OK;
}

int bench_latency(struct kt_cli *cli, double min_time)
{
    static const struct kt_column columns[] = {
        {"n_threads", "THREADS", KT_COLUMN_UINT, 0, 0},
        {"spin_us", "SPIN us", KT_COLUMN_UINT, 0, 0},
        {"gap_us", "GAP us", KT_COLUMN_UINT, 0, 0},
        {"submits", "SUBMITS", KT_COLUMN_UINT, 0, 0},
        {"start_us_median", "START us", KT_COLUMN_REAL, 2, 0},
        {"start_us_p99", "P99 us", KT_COLUMN_REAL, 2, 0},
        {"start_us_max", "MAX us", KT_COLUMN_REAL, 2, 0},
    };
    struct machine machine;
    int code = open_machine(cli, &machine);
    if (code != KT_EXIT_OK)
        return code;
    uint32_t spin_us = (uint32_t)machine.spin_us;
    struct kt_error error;
    const uint32_t gaps[] = {0, spin_us / 4, 2 * spin_us + 1000}; /* the last one: asleep */
    struct kt_output *output = kt_output_create(cli, "kt.bench.latency", 1);
    struct kt_table *table = kt_output_table(output, "rows", columns, COUNT(columns));
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < COUNT(gaps) && status == KT_OK; i++) {
        double submits = fmin(min_time * LATENCY_SUBMITS, gaps[i] != 0 ? min_time * 1e6 / gaps[i] : INFINITY);
        kt_table_row(table);
        kt_table_uint(table, "n_threads", machine.n_threads);
        kt_table_uint(table, "spin_us", spin_us);
        status = measure_latency(machine.context, gaps[i], (uint32_t)fmax(submits, 20), table, &error);
    }
    kt_context_destroy(machine.context);
    if (status == KT_OK)
        return kt_output_finish(output, KT_EXIT_OK);
    kt_output_free(output);
    return kt_cli_fail(cli, &error);
}

static void add_limit(struct kt_table *table, const char *name, const struct bench_limit *limit, double scale,
                      const char *unit)
{
    kt_table_row(table);
    kt_table_text(table, "limit", name);
    kt_table_text(table, "way", limit->way);
    kt_table_real(table, "rate", limit->rate / scale);
    kt_table_text(table, "unit", unit);
}

static enum kt_status measure(struct kt_context *context, uint64_t size, struct kt_table *table,
                              struct kt_error *error)
{
    struct bench_limit reads[BENCH_MAX_WAYS] = {{0}};
    struct bench_buffer buffer;
    size_t n = 0;
    enum kt_status status = bench_buffer_create(&buffer, size, error);
    if (status != KT_OK)
        return status;
    status = bench_measure_reads(context, &buffer, 3, reads, &n, error);
    bench_buffer_destroy(&buffer);
    for (size_t i = 0; i < n; i++)
        add_limit(table, "read", &reads[i], 1, "GB/s");
    struct kt_context_info info;
    const struct bench_peak *peaks[BENCH_MAX_WAYS];
    kt_context_info(context, &info);
    n = bench_find_peaks(info.cpu, NULL, NULL, peaks, BENCH_MAX_WAYS);
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        struct bench_limit peak = {0};
        status = bench_measure_peak(context, peaks[i], BENCH_SLICE_NS, &peak, error);
        if (status == KT_OK)
            add_limit(table, "multiply", &peak, 1000, "TOPS");
    }
    return status;
}

int bench_limits(struct kt_cli *cli, uint64_t size)
{
    static const struct kt_column columns[] = {
        {"limit", "LIMIT", KT_COLUMN_TEXT, 0, 0},
        {"way", "WAY", KT_COLUMN_TEXT, 0, 0},
        {"rate", "RATE", KT_COLUMN_REAL, -1, 0},
        {"unit", "UNIT", KT_COLUMN_TEXT, 0, 0},
    };
    struct kt_context *context;
    struct kt_error error;
    char text[24];
    uint64_t available = kt_memory_available();
    if (available != 0 && size > available / 5 * 4)
        return kt_cli_error(cli, "a read buffer of %s does not fit into free memory: set --cycle",
                            kt_bytes_text(size, text, sizeof text));
    int code = kt_cli_context(cli, &context);
    if (code != KT_EXIT_OK)
        return code;
    struct kt_context_info info;
    kt_context_info(context, &info);
    struct kt_output *output = kt_output_create(cli, "kt.bench.limits", 1);
    kt_output_fact_uint(output, "n_threads", "threads", info.n_threads);
    kt_output_fact_bytes(output, "buffer_bytes", "read buffer", size);
    struct kt_table *table = kt_output_table(output, "rows", columns, COUNT(columns));
    enum kt_status status = measure(context, size, table, &error);
    kt_context_destroy(context);
    if (status == KT_OK)
        return kt_output_finish(output, KT_EXIT_OK);
    kt_output_free(output);
    return kt_cli_fail(cli, &error);
}
