/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - kt bench --stream: what kt_submit_on_stream and kt_sync_on_stream cost on a GPU's stream,
 * and in a graph that is replayed, beside functions that do nothing.
 *
 * N_PAIRS follow one another before the stream is waited for, as the layers of a model do, so that what
 * waiting takes hardly counts. The layer is so small that its weights do not.
 */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "tools/kt/bench/bench.h"
#include "tools/kt/base/table.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
enum { N_PAIRS = 32, SIZE = 32, MIN_TIMES = 5, MAX_TIMES = 100000 };

/* ---- the runtime ---- */

/* Names after cuda or hip. All return 0 or an error, which words() describes. */
struct gpu {
    const char *library; /* its path */
    const char *prefix;
    int (*stream_create)(void **stream);
    int (*stream_destroy)(void *stream);
    int (*synchronize)(void *stream);
    int (*launch)(void *stream, void (*function)(void *), void *argument);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*replay)(void *exec, void *stream);
    int (*graph_destroy)(void *graph);
    int (*exec_destroy)(void *exec);
    const char *(*words)(int code);
};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"StreamCreate", offsetof(struct gpu, stream_create)},
    {"StreamDestroy", offsetof(struct gpu, stream_destroy)},
    {"StreamSynchronize", offsetof(struct gpu, synchronize)},
    {"LaunchHostFunc", offsetof(struct gpu, launch)},
    {"StreamBeginCapture", offsetof(struct gpu, begin_capture)},
    {"StreamEndCapture", offsetof(struct gpu, end_capture)},
    {"GraphInstantiateWithFlags", offsetof(struct gpu, instantiate)},
    {"GraphLaunch", offsetof(struct gpu, replay)},
    {"GraphDestroy", offsetof(struct gpu, graph_destroy)},
    {"GraphExecDestroy", offsetof(struct gpu, exec_destroy)},
    {"GetErrorString", offsetof(struct gpu, words)},
};

/* Of the libraries that the process has loaded, the one that kt_stream_runtime_open chose. */
static int find_runtime(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;
    if (name == NULL ||
        (strncmp(name, "/libcudart.so", 13) != 0 && strncmp(name, "/libamdhip64.so", 15) != 0))
        return 0;
    *(const char **)data = info->dlpi_name;
    return 1;
}

static int find_functions(const struct kt_cli *cli, const char *library, struct gpu *gpu)
{
    char name[64];
    gpu->library = library;
    if (library == NULL)
        (void)dl_iterate_phdr(find_runtime, &gpu->library);
    void *handle = gpu->library != NULL ? dlopen(gpu->library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (handle == NULL)
        return kt_cli_error(cli, "the GPU's runtime is loaded, but cannot be found");
    gpu->prefix = dlsym(handle, "cudaLaunchHostFunc") != NULL ? "cuda" : "hip";
    for (size_t i = 0; i < COUNT(functions); i++) {
        (void)snprintf(name, sizeof name, "%s%s", gpu->prefix, functions[i].name);
        void *function = dlsym(handle, name);
        if (function == NULL)
            return kt_cli_error(cli, "%s has no %s", gpu->library, name);
        memcpy((char *)gpu + functions[i].offset, &function, sizeof function);
    }
    return KT_EXIT_OK;
}

static int check(const struct kt_cli *cli, const struct gpu *gpu, const char *function, int code)
{
    if (code == 0)
        return KT_EXIT_OK;
    return kt_cli_error(cli, "%s: %s%s: %s (%d)", gpu->library, gpu->prefix, function, gpu->words(code),
                        code);
}

/* ---- the layer ---- */

struct stream_bench {
    struct kt_cli *cli;
    double seconds; /* of a row */
    struct kt_context *context;
    struct kt_stream_runtime *runtime;
    struct gpu gpu;
    void *stream;
    struct kt_layer *layer;
    struct kt_host_call *call;
    struct kt_table *table;
    int32_t n_tokens;
    int64_t id;
    float router_weight, input[SIZE], output[SIZE];
};

static enum kt_status make_call(struct stream_bench *bench, struct kt_error *error)
{
    static float weights[SIZE * SIZE]; /* zeros take as long as others */
    struct kt_expert expert = {0};
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_host_params host = KT_HOST_PARAMS_INIT;
    struct kt_view *const views[] = {&expert.gate, &expert.up, &expert.down};
    enum kt_status status = KT_OK;
    for (size_t i = 0; i < COUNT(views) && status == KT_OK; i++)
        status = kt_view_dense(views[i], KT_DTYPE_F32, weights, sizeof weights, SIZE, SIZE, error);
    params.n_experts = params.top_k = params.max_tokens = 1;
    params.hidden_size = params.intermediate_size = SIZE;
    params.backend = "reference";
    if (status == KT_OK)
        status = kt_layer_create(bench->context, &params, &bench->layer, error);
    if (status == KT_OK)
        status = kt_layer_load(bench->layer, &expert, 1, error);
    host.layer = bench->layer;
    host.max_tokens = 1;
    host.n_tokens = &bench->n_tokens;
    host.forward.top_k = 1;
    host.forward.expert_ids = &bench->id;
    host.forward.router_weights = &bench->router_weight;
    host.forward.input = bench->input;
    host.forward.output = bench->output;
    host.forward.input_dtype = host.forward.output_dtype = KT_DTYPE_F32;
    return status == KT_OK ? kt_host_call_create(&host, &bench->call, error) : status;
}

/* ---- measuring ---- */

enum what { ONE_FUNCTION, TWO_FUNCTIONS, SUBMIT_AND_SYNC };
static const struct row {
    enum what what;
    int32_t n_tokens;
    const char *name;
} rows[] = {
    {ONE_FUNCTION, 0, "empty function"},
    {TWO_FUNCTIONS, 0, "two empty functions"},
    {SUBMIT_AND_SYNC, 0, "submit and sync"},
    {SUBMIT_AND_SYNC, 1, "submit and sync"},
};

static void do_nothing(void *argument)
{
    (void)argument;
}

static int launch_all(const struct stream_bench *bench, enum what what)
{
    const struct gpu *gpu = &bench->gpu;
    struct kt_error error;
    for (int i = 0; i < N_PAIRS; i++) {
        if (what == SUBMIT_AND_SYNC) {
            if (kt_submit_on_stream(bench->runtime, bench->stream, bench->call, &error) != KT_OK ||
                kt_sync_on_stream(bench->runtime, bench->stream, bench->call, &error) != KT_OK)
                return kt_cli_fail(bench->cli, &error);
            continue;
        }
        for (int n = what == TWO_FUNCTIONS ? 2 : 1; n > 0; n--) {
            int code = gpu->launch(bench->stream, do_nothing, NULL);
            if (code != 0)
                return check(bench->cli, gpu, "LaunchHostFunc", code);
        }
    }
    return KT_EXIT_OK;
}

static int capture(const struct stream_bench *bench, enum what what, void **exec)
{
    const struct gpu *gpu = &bench->gpu;
    void *graph = NULL;
    int code = check(bench->cli, gpu, "StreamBeginCapture", gpu->begin_capture(bench->stream, 0));
    if (code == KT_EXIT_OK)
        code = launch_all(bench, what);
    if (code == KT_EXIT_OK)
        code = check(bench->cli, gpu, "StreamEndCapture", gpu->end_capture(bench->stream, &graph));
    if (code == KT_EXIT_OK)
        code = check(bench->cli, gpu, "GraphInstantiateWithFlags", gpu->instantiate(exec, graph, 0));
    if (graph != NULL)
        (void)gpu->graph_destroy(graph);
    return code;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds of N_PAIRS; `exec` NULL: launched one by one. */
static int time_once(const struct stream_bench *bench, enum what what, void *exec, double *time)
{
    const struct gpu *gpu = &bench->gpu;
    double begin = bench_now();
    int code = exec != NULL ? check(bench->cli, gpu, "GraphLaunch", gpu->replay(exec, bench->stream))
                            : launch_all(bench, what);
    if (code == KT_EXIT_OK)
        code = check(bench->cli, gpu, "StreamSynchronize", gpu->synchronize(bench->stream));
    *time = bench_now() - begin;
    return code;
}

/* *base is the median of the row before it that a pair is compared with. */
static int measure(struct stream_bench *bench, const struct row *row, void *exec, double *base)
{
    double *times = kt_cli_alloc(bench->cli, MAX_TIMES, sizeof *times), sum = 0;
    struct kt_error error;
    size_t n = 0;
    bench->n_tokens = row->n_tokens;
    int code = time_once(bench, row->what, exec, &times[0]); /* warms up */
    while (code == KT_EXIT_OK && n < MAX_TIMES && (n < MIN_TIMES || sum < bench->seconds * 1e9)) {
        code = time_once(bench, row->what, exec, &times[n]);
        sum += times[n++];
    }
    if (code == KT_EXIT_OK && kt_host_call_status(bench->call, &error) != KT_OK)
        code = kt_cli_fail(bench->cli, &error);
    if (code == KT_EXIT_OK) {
        qsort(times, n, sizeof *times, compare);
        double median = times[n / 2] / N_PAIRS / 1e3;
        kt_table_row(bench->table);
        kt_table_text(bench->table, "launched", exec != NULL ? "graph" : "stream");
        kt_table_text(bench->table, "what", row->name);
        if (row->what == SUBMIT_AND_SYNC) {
            kt_table_uint(bench->table, "n_tokens", (uint64_t)row->n_tokens);
            kt_table_real(bench->table, "us_added", median - *base);
        } else {
            *base = median;
        }
        kt_table_real(bench->table, "us_median", median);
        kt_table_real(bench->table, "us_min", times[0] / N_PAIRS / 1e3);
        kt_table_uint(bench->table, "repeats", n * N_PAIRS);
    }
    free(times);
    return code;
}

static int measure_rows(struct stream_bench *bench)
{
    int code = KT_EXIT_OK;
    double base = 0;
    for (size_t i = 0; i < 2 * COUNT(rows) && code == KT_EXIT_OK; i++) {
        const struct row *row = &rows[i % COUNT(rows)];
        void *exec = NULL;
        if (i >= COUNT(rows))
            code = capture(bench, row->what, &exec);
        if (code == KT_EXIT_OK)
            code = measure(bench, row, exec, &base);
        if (exec != NULL)
            (void)bench->gpu.exec_destroy(exec);
    }
    return code;
}

/* ---- the command ---- */

static int report(struct stream_bench *bench)
{
    static const struct kt_column columns[] = {
        {"launched", "IN A", KT_COLUMN_TEXT, 0, 0},
        {"what", "WHAT", KT_COLUMN_TEXT, 0, 0},
        {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
        {"us_median", "MEDIAN us", KT_COLUMN_REAL, 2, 0},
        {"us_min", "MIN us", KT_COLUMN_REAL, 2, 0},
        {"us_added", "ADDED us", KT_COLUMN_REAL, 2, 0},
        {"repeats", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    };
    struct kt_context_info info;
    struct kt_output *output = kt_output_create(bench->cli, "kt.bench.stream", 1);
    kt_context_info(bench->context, &info);
    kt_output_fact_text(output, "runtime", "GPU runtime", bench->gpu.library);
    kt_output_fact_uint(output, "n_threads", "threads", info.n_threads);
    bench->table = kt_output_table(output, "rows", columns, COUNT(columns));
    int code = measure_rows(bench);
    if (code == KT_EXIT_OK)
        return kt_output_finish(output, code);
    kt_output_free(output);
    return code;
}

/* The runtime before the layer: it may be missing. */
static int prepare(struct stream_bench *bench, const char *library)
{
    struct kt_error error;
    if (kt_stream_runtime_open(library, &bench->runtime, &error) != KT_OK)
        return kt_cli_fail(bench->cli, &error);
    int code = find_functions(bench->cli, library, &bench->gpu);
    if (code == KT_EXIT_OK) {
        int answer = bench->gpu.stream_create(&bench->stream);
        if (answer != 0)
            code = kt_cli_error(bench->cli, "no GPU answers: %s: %s (%d)", bench->gpu.library,
                                bench->gpu.words(answer), answer);
    }
    if (code == KT_EXIT_OK)
        code = kt_cli_context(bench->cli, &bench->context);
    if (code == KT_EXIT_OK && make_call(bench, &error) != KT_OK)
        code = kt_cli_fail(bench->cli, &error);
    return code;
}

int bench_stream(struct kt_cli *cli, const char *library, double seconds)
{
    struct stream_bench bench = {.cli = cli, .seconds = seconds, .router_weight = 1};
    int code = prepare(&bench, library);
    if (code == KT_EXIT_OK)
        code = report(&bench);
    if (bench.stream != NULL) {
        (void)bench.gpu.synchronize(bench.stream);
        (void)bench.gpu.stream_destroy(bench.stream);
    }
    kt_host_call_destroy(bench.call);
    kt_layer_destroy(bench.layer);
    kt_context_destroy(bench.context);
    kt_stream_runtime_close(bench.runtime);
    return code;
}
