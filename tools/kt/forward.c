/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c - kt forward: runs layers of a model on recorded input and checks the output. */
#include "tools/kt/model.h"
#include "tools/kt/record.h"
#include "tools/kt/table.h"
#include "tools/kt/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_BATCH 1024          /* larger inputs run in chunks */
#define REFERENCE "reference"
#define REFERENCE_LIMIT 2e-2    /* a backend's own rounding, against the reference backend */
#define EXACT_LIMIT 1e-4 /* the reference backend with unquantised weights, against the record */

struct args {
    const char *model;
    const char *layers;
    const char *input;
    const char *output;
    const char *expected;
    const char *stats;
    const char *record;
    bool check;
    double tolerance, recorded_tolerance; /* < 0: not given */
};

/* Everything that one run of the verb holds. */
struct run {
    struct kt_cli *cli;
    struct args args;
    struct kt_checkpoint *model, *input, *expected; /* expected: NULL, the input says it */
    struct kt_context *context;
    uint64_t *layers;
    size_t n_layers;
    struct kt_output *output;
    struct kt_table *table;
    struct kt_save *save;
    struct kt_keeping keeping;
    size_t n_bad;
};

static const struct kt_column columns[] = {
    {"layer", "LAYER", KT_COLUMN_UINT, 0, 0},
    {"types", "TYPES", KT_COLUMN_TEXT, 0, 0},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"n_tokens", "TOKENS", KT_COLUMN_UINT, 0, 0},
    {"top_k", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"us_per_token", "US/TOKEN", KT_COLUMN_REAL, 1, 0},
    {"recorded_error", "RECORDED ERROR", KT_COLUMN_REAL, -1, 0},
    {"recorded_limit", NULL, KT_COLUMN_REAL, -1, KT_COLUMN_HIDDEN},
    {"reference_error", "REFERENCE ERROR", KT_COLUMN_REAL, -1, 0},
    {"reference_limit", NULL, KT_COLUMN_REAL, -1, KT_COLUMN_HIDDEN},
    {"fallback", NULL, KT_COLUMN_BOOL, 0, KT_COLUMN_HIDDEN},
    {"result", "RESULT", KT_COLUMN_TEXT, 0, 0},
};

/* ---- one layer ------------------------------------------------------------------------------ */

/* What came out of a layer. */
struct outcome {
    char backend[32], level[16];
    bool fallback;
    bool once; /* nobody asks how long it took, nor what was used */
    double us_per_token;
    float *values; /* [n_tokens][hidden_size] */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* All batches, one after another, as they were recorded. */
static int forward_batches(const struct run *run, struct kt_layer *layer, const struct kt_trace *trace,
                           float *values)
{
    struct kt_forward forward = KT_FORWARD_INIT;
    uint64_t row = trace->hidden_size * (trace->input_dtype == KT_DTYPE_F32 ? 4 : 2), token = 0;
    struct kt_error error;

    forward.top_k = trace->top_k;
    forward.input_dtype = trace->input_dtype;
    forward.output_dtype = KT_DTYPE_F32;
    for (uint32_t b = 0; b < trace->n_batches; token += trace->batch[b++]) {
        forward.n_tokens = trace->batch[b];
        forward.expert_ids = trace->ids + token * trace->top_k;
        forward.router_weights = trace->weights + token * trace->top_k;
        forward.input = (const char *)trace->input + token * row;
        forward.output = values + token * trace->hidden_size;
        if (kt_layer_forward(layer, &forward, &error) != KT_OK)
            return kt_cli_fail(run->cli, &error);
    }
    return KT_EXIT_OK;
}

/* The median of up to five runs in a tenth of a second; the first one warms up unless it took long. */
static int forward_timed(struct run *run, struct kt_layer *layer,
                         const struct kt_trace *trace, struct outcome *outcome)
{
    bool keeps = !outcome->once;
    double time[6];
    int n = 0, code = KT_EXIT_OK;

    for (double start = now(); n < 6 && (n == 0 || (!outcome->once && now() - start < 0.1)); n++) {
        if (n == 0 && keeps)
            code = kt_keeping_begin(&run->keeping, run->context, layer, trace->layer);
        double begin = now();
        if (code == KT_EXIT_OK)
            code = forward_batches(run, layer, trace, outcome->values);
        time[n] = now() - begin;
        if (code == KT_EXIT_OK && n == 0 && keeps)
            code = kt_keeping_end(&run->keeping, layer, trace->layer);
        if (code != KT_EXIT_OK)
            return code;
        for (int i = n; i > 1 && time[i] < time[i - 1]; i--) {
            double swap = time[i];
            time[i] = time[i - 1];
            time[i - 1] = swap;
        }
    }
    double median = n == 1 ? time[0] : time[1 + (n - 2) / 2];
    outcome->us_per_token = median * 1e6 / trace->n_tokens;
    return KT_EXIT_OK;
}

/* A wish that was not granted is said, with the reason of the wished backend. */
static void say_fallback(const struct run *run, const struct kt_moe_info *moe,
                         const struct kt_plan *plan)
{
    const char *chosen = "", *refused = "", *reason = "no reason given";

    if (*moe->stored_form) {
        kt_cli_warn(run->cli, "layer %" PRIu64 ": %s runs instead of the wished backend: its weights are "
                              "stored as %s",
                    moe->layer, moe->stored_backend, moe->stored_form);
        return;
    }

    for (uint32_t c = plan->n_candidates; c-- > 0;) {
        if (plan->candidate[c].chosen) {
            chosen = plan->candidate[c].backend;
        } else if (*plan->candidate[c].reason) {
            refused = plan->candidate[c].backend;
            reason = plan->candidate[c].reason;
        }
    }
    kt_cli_warn(run->cli, "layer %" PRIu64 ": %s runs instead of %s: %s", moe->layer, chosen, refused,
                reason);
}

/* Plans and loads the layer. */
static int load(const struct run *run, const struct kt_moe_info *moe, struct kt_layer *layer,
                struct outcome *outcome)
{
    struct kt_plan *plan = kt_cli_alloc(run->cli, 1, sizeof(*plan));
    struct kt_layer_info info;
    struct kt_error error;

    enum kt_status status =
        kt_layer_plan_checkpoint(layer, run->model, moe->layer, plan, &error);
    if (status == KT_OK) {
        outcome->fallback = plan->fallback != 0;
        if (outcome->fallback)
            say_fallback(run, moe, plan);
        status = kt_layer_load_checkpoint(layer, run->model, moe->layer, &error);
    }
    free(plan);
    if (status != KT_OK)
        return kt_cli_fail(run->cli, &error);
    kt_layer_info(layer, &info);
    snprintf(outcome->backend, sizeof(outcome->backend), "%s", info.backend);
    snprintf(outcome->level, sizeof(outcome->level), "%s", info.level);
    return KT_EXIT_OK;
}

/* Runs the layer with `backend`, NULL: what the configuration says. */
static int run_backend(struct run *run, const struct kt_moe_info *moe,
                       const struct kt_trace *trace, const char *backend, struct outcome *outcome)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_error error;
    char name[32];

    snprintf(name, sizeof(name), "layer %" PRIu64, moe->layer);
    if (kt_checkpoint_layer_params(run->model, moe->layer, &params, &error) != KT_OK)
        return kt_cli_fail(run->cli, &error);
    params.name = name;
    params.top_k = trace->top_k;
    for (uint32_t b = 0; b < trace->n_batches; b++) {
        if (trace->batch[b] > params.max_tokens)
            params.max_tokens = trace->batch[b] < MAX_BATCH ? trace->batch[b] : MAX_BATCH;
    }
    params.backend = backend;
    if (kt_layer_create(run->context, &params, &layer, &error) != KT_OK)
        return kt_cli_fail(run->cli, &error);
    int code = load(run, moe, layer, outcome);
    if (code == KT_EXIT_OK)
        code = forward_timed(run, layer, trace, outcome);
    kt_layer_destroy(layer);
    return code;
}

/* ---- checks --------------------------------------------------------------------------------- */

static double find_error(const float *values, const float *expected, uint64_t n)
{
    double difference = 0, size = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)values[i] - (double)expected[i];
        difference += d * d;
        size += (double)expected[i] * (double)expected[i];
    }
    if (size == 0)
        return difference == 0 ? 0 : INFINITY;
    return sqrt(difference / size);
}

/* NaN is never within the limit. */
static bool is_above(double error, double limit)
{
    return !(error <= limit);
}

static bool is_exact(const struct kt_moe_info *moe)
{
    if (*moe->stored_form)
        return false;
    for (int p = 0; p < 3; p++) {
        if (moe->dtype[p] != KT_DTYPE_F32 && moe->dtype[p] != KT_DTYPE_BF16)
            return false;
    }
    return true;
}

/* The limit against the record, or < 0: a quantised file's own error is not ours to judge. */
static double find_recorded_limit(const struct args *args, const struct kt_moe_info *moe,
                                  const struct outcome *outcome)
{
    if (args->recorded_tolerance >= 0)
        return args->recorded_tolerance;
    if (!is_exact(moe))
        return -1;
    if (strcmp(outcome->backend, REFERENCE) == 0)
        return EXACT_LIMIT;
    return args->tolerance >= 0 ? args->tolerance : REFERENCE_LIMIT;
}

static int check(struct run *run, const struct kt_moe_info *moe, const struct kt_trace *trace,
                 const struct outcome *outcome)
{
    uint64_t n = trace->n_tokens * trace->hidden_size;
    bool bad = false, compared = false;
    bool failed = false; /* an error that is no number, or infinite, fails without a limit too */
    int code = KT_EXIT_OK;

    if (trace->expected) {
        double error = find_error(outcome->values, trace->expected, n);
        double limit = find_recorded_limit(&run->args, moe, outcome);
        kt_table_real(run->table, "recorded_error", error);
        failed |= !isfinite(error);
        if (limit >= 0) {
            kt_table_real(run->table, "recorded_limit", limit);
            bad |= is_above(error, limit);
        }
        compared = true;
    }
    /* A store holds nothing that the reference backend could read. */
    if (strcmp(outcome->backend, REFERENCE) != 0 && !*moe->stored_form) {
        struct outcome reference = {.once = true,
                                    .values = kt_cli_alloc(run->cli, n, sizeof(float))};
        double limit = run->args.tolerance >= 0 ? run->args.tolerance : REFERENCE_LIMIT;
        code = run_backend(run, moe, trace, REFERENCE, &reference);
        if (code == KT_EXIT_OK) {
            double error = find_error(outcome->values, reference.values, n);
            kt_table_real(run->table, "reference_error", error);
            kt_table_real(run->table, "reference_limit", limit);
            bad |= is_above(error, limit);
            failed |= !isfinite(error);
            compared = true;
        }
        free(reference.values);
    }
    kt_table_text(run->table, "result",
                  failed     ? "failed"
                  : bad      ? "above tolerance"
                  : compared ? "ok"
                             : "not compared");
    run->n_bad += bad || failed;
    return code;
}

/* ---- all layers ----------------------------------------------------------------------------- */

/* Does the recorded input fit the model's layer? */
static int fit_trace(const struct run *run, const struct kt_moe_info *moe,
                     const struct kt_trace *trace)
{
    if (trace->hidden_size != moe->hidden_size)
        return kt_cli_error(run->cli,
                            "input: tensor layers.%" PRIu64 ".hidden_states has %" PRIu64
                            " columns, but the model's hidden size is %" PRIu64
                            ": it was recorded with "
                            "another model",
                            trace->layer, trace->hidden_size, moe->hidden_size);
    if (trace->top_k > moe->n_experts)
        return kt_cli_error(run->cli, "input: tensor layers.%" PRIu64 ".topk_ids has %" PRIu32
                            " columns, but the layer has %" PRIu32 " experts", trace->layer,
                            trace->top_k, moe->n_experts);
    for (uint64_t i = 0; i < (uint64_t)trace->n_tokens * trace->top_k; i++) {
        if (trace->ids[i] >= (int64_t)moe->n_experts)
            return kt_cli_error(run->cli,
                                "input %s: tensor layers.%" PRIu64 ".topk_ids: token %" PRIu64
                                ", slot %" PRIu64 " asks for expert %" PRId64
                                "; there are 0 to %" PRIu32,
                                run->args.input, trace->layer, i / trace->top_k, i % trace->top_k,
                                trace->ids[i], moe->n_experts - 1);
    }
    return KT_EXIT_OK;
}

static void add_row(const struct run *run, const struct kt_moe_info *moe,
                    const struct kt_trace *trace, const struct outcome *outcome)
{
    char types[64];

    kt_table_row(run->table);
    kt_table_uint(run->table, "layer", moe->layer);
    kt_table_text(run->table, "types", kt_model_types(moe, types, sizeof(types)));
    kt_table_text(run->table, "backend", outcome->backend);
    kt_table_text(run->table, "level", outcome->level);
    kt_table_uint(run->table, "n_tokens", trace->n_tokens);
    kt_table_uint(run->table, "top_k", trace->top_k);
    kt_table_real(run->table, "us_per_token", outcome->us_per_token);
    kt_table_bool(run->table, "fallback", outcome->fallback);
}

static int run_layer(struct run *run, uint64_t number)
{
    struct kt_moe_info moe;
    struct kt_trace trace;
    struct kt_error error;

    if (kt_checkpoint_moe(run->model, number, &moe, &error) != KT_OK)
        return kt_cli_fail(run->cli, &error);
    int code = kt_trace_read(run->cli, run->input, run->expected, number, &trace);
    if (code != KT_EXIT_OK)
        return code;
    uint64_t n = trace.n_tokens * trace.hidden_size;
    struct outcome outcome = {.values = kt_cli_alloc(run->cli, n, sizeof(float))};
    code = run_backend(run, &moe, &trace, NULL, &outcome);
    if (code == KT_EXIT_OK) {
        add_row(run, &moe, &trace, &outcome);
        if (run->save)
            code = kt_save_write(run->save, outcome.values, n);
        if (code == KT_EXIT_OK && run->args.check)
            code = check(run, &moe, &trace, &outcome);
    }
    free(outcome.values);
    kt_trace_free(&trace);
    return code;
}

/* Bytes that are enough for a recorder to keep all of it. */
static uint64_t find_record_size(const struct kt_trace *trace)
{
    return (uint64_t)trace->n_tokens * (trace->top_k * 12u + trace->hidden_size * 4) +
           (trace->n_batches + UINT64_C(64)) * 128;
}

/* Checks all recorded input before anything is computed, and notes what will be written. */
static int check_input(struct run *run, struct kt_save_tensor *tensors)
{
    int code = KT_EXIT_OK;

    for (size_t i = 0; i < run->n_layers && code == KT_EXIT_OK; i++) {
        struct kt_moe_info moe;
        struct kt_trace trace;
        struct kt_error error;
        if (kt_checkpoint_moe(run->model, run->layers[i], &moe, &error) != KT_OK)
            return kt_cli_fail(run->cli, &error);
        code = kt_trace_read(run->cli, run->input, run->expected, run->layers[i], &trace);
        if (code != KT_EXIT_OK)
            return code;
        code = fit_trace(run, &moe, &trace);
        run->keeping.record_size += find_record_size(&trace);
        tensors[i] = (struct kt_save_tensor){
            .layer = moe.layer, .n_tokens = trace.n_tokens, .hidden_size = trace.hidden_size};
        kt_trace_free(&trace);
    }
    return code;
}

/* "all" means: all layers that the input holds. */
static int choose_layers(struct run *run)
{
    int code =
        kt_model_layers(run->cli, run->model, "layer", run->args.layers, &run->layers, &run->n_layers);

    if (code != KT_EXIT_OK || (run->args.layers && strcmp(run->args.layers, "all") != 0))
        return code;
    size_t n = 0, n_routed = 0;
    for (size_t i = 0; i < run->n_layers; i++) {
        n_routed += kt_trace_has(run->input, run->layers[i], "topk_ids");
        if (kt_trace_has(run->input, run->layers[i], "hidden_states"))
            run->layers[n++] = run->layers[i];
    }
    if (n == 0)
        return kt_cli_error(run->cli,
                            "input %s holds no tensor layers.N.hidden_states for a layer of "
                            "the model%s",
                            run->args.input, n_routed ? "; kt bench --trace replays routing alone" : "");
    if (n < run->n_layers)
        kt_cli_note(run->cli, "the input holds %zu of the model's %zu layers", n, run->n_layers);
    run->n_layers = n;
    return KT_EXIT_OK;
}

static void add_facts(const struct run *run)
{
    struct kt_context_info info;

    kt_context_info(run->context, &info);
    kt_output_fact_text(run->output, "model", "model", run->args.model);
    kt_output_fact_text(run->output, "input", "input", run->args.input);
    kt_output_fact_uint(run->output, "n_threads", "threads", info.n_threads);
    kt_output_fact_uint(run->output, "n_nodes", "NUMA nodes", info.n_nodes);
}

/* The output must not replace what it is computed from, under whatever name, nor become a file of the
 * model. */
static int check_output(const struct run *run, const char *option, const char *path)
{
    const char *const paths[] = {run->args.model, run->args.input, run->args.expected};
    static const char *const names[] = {"model", "input", "expected output"};
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct stat output, other;

    if (!path)
        return KT_EXIT_OK;
    char *folder = kt_cli_alloc(run->cli, strlen(path) + 2, 1);
    memcpy(folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    bool in_model = stat(folder, &output) == 0 && stat(run->args.model, &other) == 0 &&
                    other.st_dev == output.st_dev && other.st_ino == output.st_ino;
    free(folder);
    if (in_model)
        return kt_cli_error(run->cli, "%s would lie in the folder of the model; choose another --%s", path,
                            option);
    if (stat(path, &output) != 0)
        return KT_EXIT_OK;
    if (kt_model_has_file(run->cli, run->model, run->args.model, path))
        return kt_cli_error(run->cli, "%s is the model itself; choose another --%s", path, option);
    for (size_t i = 0; i < COUNT(paths); i++) {
        if (paths[i] && stat(paths[i], &other) == 0 && other.st_dev == output.st_dev &&
            other.st_ino == output.st_ino)
            return kt_cli_error(run->cli, "%s is the %s itself; choose another --%s", path, names[i], option);
    }
    return KT_EXIT_OK;
}

static int run_layers(struct run *run)
{
    struct kt_save_tensor *tensors = kt_cli_alloc(run->cli, run->n_layers, sizeof(*tensors));
    int code = check_input(run, tensors);

    if (code == KT_EXIT_OK && run->args.output)
        code = kt_save_create(run->cli, run->args.output, tensors, run->n_layers, &run->save);
    free(tensors);
    if (code != KT_EXIT_OK)
        return code;
    run->output = kt_output_create(run->cli, "kt.forward", 1);
    add_facts(run);
    run->table = kt_output_table(run->output, "rows", columns, COUNT(columns));
    kt_progress_start(run->cli, "layers done");
    for (size_t i = 0; i < run->n_layers && code == KT_EXIT_OK; i++) {
        kt_progress_update(i, run->n_layers);
        code = run_layer(run, run->layers[i]);
    }
    kt_progress_stop();
    if (code == KT_EXIT_OK)
        code = kt_keeping_write(&run->keeping);
    code = kt_save_finish(run->save, code);
    if (code != KT_EXIT_OK) {
        kt_output_free(run->output);
        return code;
    }
    code = kt_output_finish(run->output, KT_EXIT_OK);
    if (run->n_bad > 0)
        code = kt_cli_error(run->cli, "%zu of %zu layers are above the tolerance or failed",
                            run->n_bad, run->n_layers);
    return code;
}

static int forward(struct run *run)
{
    int code = kt_cli_checkpoint(run->cli, run->args.input, &run->input);

    if (code == KT_EXIT_OK && run->args.expected)
        code = kt_cli_checkpoint(run->cli, run->args.expected, &run->expected);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(run->cli, run->args.model, &run->model);
    if (code == KT_EXIT_OK)
        code = check_output(run, "output", run->args.output);
    if (code == KT_EXIT_OK)
        code = check_output(run, "stats", run->args.stats);
    if (code == KT_EXIT_OK)
        code = check_output(run, "record", run->args.record);
    if (code == KT_EXIT_OK)
        code = choose_layers(run);
    if (code == KT_EXIT_OK)
        code = kt_cli_context(run->cli, &run->context);
    if (code == KT_EXIT_OK)
        code = run_layers(run);
    kt_context_destroy(run->context);
    kt_checkpoint_close(run->model);
    kt_checkpoint_close(run->input);
    kt_checkpoint_close(run->expected);
    kt_keeping_free(&run->keeping);
    free(run->layers);
    return code;
}

static const struct kt_cli_option options[] = {
    KT_CLI_MODEL,
    {.name = "layer",
     .letter = 'l',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, layers),
     .argument = "LIST",
     .help = "layers: 3, 0-3, 0,2 or all (default: all that the input holds)"},
    {.name = "input",
     .letter = 'i',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, input),
     .argument = "FILE",
     .required = true,
     .help = "safetensors file with recorded hidden states and routing"},
    {.name = "output",
     .letter = 'o',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, output),
     .argument = "FILE",
     .help = "write layers.N.output (F32) to this safetensors file"},
    {.name = "stats",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, stats),
     .argument = "FILE",
     .help = "write how often each expert was asked for to this file, which kt stats reads"},
    {.name = "record",
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, record),
     .argument = "FILE",
     .help = "write the batches that the layers got to this trace"},
    KT_CLI_BACKEND,
    KT_CLI_THREADS,
    KT_CLI_NUMA_NODES,
    {.name = "check",
     .letter = 'c',
     .type = KT_CLI_FLAG,
     .offset = offsetof(struct args, check),
     .help = "compare with the recorded output and with the reference backend"},
    {.name = "tolerance",
     .type = KT_CLI_REAL,
     .offset = offsetof(struct args, tolerance),
     .argument = "X",
     .help = "most relative L2 error against the reference backend (default 0.02); implies "
             "--check"},
    {.name = "expected",
     .letter = 'e',
     .type = KT_CLI_TEXT,
     .offset = offsetof(struct args, expected),
     .argument = "FILE",
     .help = "recorded output is in this safetensors file; implies --check"},
    {.name = "recorded-tolerance",
     .type = KT_CLI_REAL,
     .offset = offsetof(struct args, recorded_tolerance),
     .argument = "X",
     .help = "most relative L2 error against the recorded output; implies --check"},
    {.name = NULL}};

static const struct kt_cli_command command = {
    .usage = "--model PATH --input FILE",
    .about = "Runs layers with experts on recorded input: for each layer N the file holds "
             "layers.N.hidden_states [tokens][hidden] (BF16, F16 or F32), layers.N.topk_ids "
             "[tokens][k] (I64), layers.N.topk_weights [tokens][k] (F32) and, for --check, "
             "layers.N.output [tokens][hidden] (F32), unless --expected names another file for it.\n"
             "With --check, exit status 1 if an error is above its limit. Against the recorded "
             "output the default limit is 1e-4 where the reference backend runs F32 or BF16 "
             "weights, --tolerance where another backend runs them, and none for quantised "
             "weights, whose own error it shows.",
    .options = options, .opens_checkpoint = true};

int kt_cmd_forward(struct kt_cli *cli, int argc, char **argv)
{
    struct run run = {.cli = cli, .args = {.tolerance = -1, .recorded_tolerance = -1}};

    if (!kt_cli_parse(cli, &command, argc, argv, &run.args))
        return cli->exit_code;
    run.args.check |= run.args.tolerance >= 0 || run.args.recorded_tolerance >= 0;
    run.args.check |= run.args.expected != NULL;
    run.keeping = (struct kt_keeping){
        .cli = cli, .stats_path = run.args.stats, .record_path = run.args.record};
    return forward(&run);
}
