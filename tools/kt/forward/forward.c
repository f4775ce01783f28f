/* SPDX-License-Identifier: Apache-2.0 */
/* forward.c - kt forward: runs layers of a model on recorded input and checks the output. */
#include "tools/kt/forward/forward.h"
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <math.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REFERENCE "reference"
#define REFERENCE_LIMIT 2e-2 /* a backend's own rounding, against the reference backend */
#define EXACT_LIMIT 1e-4     /* the reference backend with unquantized weights, against the record */

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
    {"rounding", "ROUNDED TO", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"result", "RESULT", KT_COLUMN_TEXT, 0, 0},
};

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

/* The limit against the record; < 0: none, since the error of a quantized file is not the computation's. */
static double find_recorded_limit(const struct args *args, const struct kt_moe_info *moe,
                                  const struct forward_outcome *outcome)
{
    if (args->recorded_tolerance >= 0)
        return args->recorded_tolerance;
    if (!is_exact(moe))
        return -1;
    if (strcmp(outcome->backend, REFERENCE) == 0)
        return EXACT_LIMIT;
    return args->tolerance >= 0 ? args->tolerance : REFERENCE_LIMIT;
}

static int check(struct forward_run *run, const struct kt_moe_info *moe, const struct kt_trace *trace,
                 const struct forward_outcome *outcome)
{
    uint64_t n = trace->n_tokens * trace->hidden_size;
    bool bad = false, compared = false;
    bool failed = false; /* NaN and infinity fail even without a limit */
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
    /* The reference backend cannot read the packed weights of a store. */
    if (strcmp(outcome->backend, REFERENCE) != 0 && !*moe->stored_form) {
        struct forward_outcome reference = {.once = true, .values = kt_cli_alloc(run->cli, n, sizeof(float))};
        double limit = run->args.tolerance >= 0 ? run->args.tolerance : REFERENCE_LIMIT;
        code = forward_backend(run, moe, trace, REFERENCE, &reference);
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
static int fit_trace(const struct forward_run *run, const struct kt_moe_info *moe,
                     const struct kt_trace *trace)
{
    if (trace->hidden_size != moe->hidden_size)
        return kt_cli_error(run->cli,
                            "input: tensor layers.%" PRIu64 ".hidden_states has %" PRIu64
                            " columns, but the model's hidden size is %" PRIu64 ": it was recorded with "
                            "another model",
                            trace->layer, trace->hidden_size, moe->hidden_size);
    if (trace->top_k > moe->n_experts)
        return kt_cli_error(run->cli,
                            "input: tensor layers.%" PRIu64 ".topk_ids has %" PRIu32
                            " columns, but the layer has %" PRIu32 " experts",
                            trace->layer, trace->top_k, moe->n_experts);
    for (uint64_t i = 0; i < (uint64_t)trace->n_tokens * trace->top_k; i++) {
        if (trace->ids[i] >= (int64_t)moe->n_experts)
            return kt_cli_error(run->cli,
                                "input %s: tensor layers.%" PRIu64 ".topk_ids: token %" PRIu64
                                ", slot %" PRIu64 " asks for expert %" PRId64 "; there are 0 to %" PRIu32,
                                run->args.input, trace->layer, i / trace->top_k, i % trace->top_k,
                                trace->ids[i], moe->n_experts - 1);
    }
    return KT_EXIT_OK;
}

static void add_row(const struct forward_run *run, const struct kt_moe_info *moe,
                    const struct kt_trace *trace, const struct forward_outcome *outcome)
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
    kt_table_text(run->table, "rounding", outcome->rounding);
}

static int run_layer(struct forward_run *run, uint64_t number)
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
    struct forward_outcome outcome = {.values = kt_cli_alloc(run->cli, n, sizeof(float))};
    code = forward_backend(run, &moe, &trace, NULL, &outcome);
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

/* Bytes of a recorder's buffer that can hold all batches. */
static uint64_t find_record_size(const struct kt_trace *trace)
{
    return (uint64_t)trace->n_tokens * (trace->top_k * 12u + trace->hidden_size * 4) +
           (trace->n_batches + UINT64_C(64)) * 128;
}

/* Checks all recorded input before anything is computed, and plans the output file. */
static int check_input(struct forward_run *run, struct kt_save_tensor *tensors)
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
        tensors[i] = (struct kt_save_tensor){.layer = moe.layer,
                                             .n_tokens = trace.n_tokens,
                                             .hidden_size = trace.hidden_size};
        kt_trace_free(&trace);
    }
    return code;
}

/* "all" means: all layers that the input holds. */
static int choose_layers(struct forward_run *run)
{
    int code =
        kt_model_layers(run->cli, run->model, "layers", run->args.layers, &run->layers, &run->n_layers);
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

static void add_facts(const struct forward_run *run)
{
    struct kt_context_info info;
    kt_context_info(run->context, &info);
    kt_output_fact_text(run->output, "model", "model", run->args.model);
    kt_output_fact_text(run->output, "input", "input", run->args.input);
    kt_output_fact_uint(run->output, "n_threads", "threads", info.n_threads);
    kt_output_fact_uint(run->output, "n_nodes", "NUMA nodes", info.n_nodes);
}

/* The output must not replace one of its inputs, under any name, nor become a file of the model. */
static int check_output(const struct forward_run *run, const char *option, const char *path)
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

static int run_layers(struct forward_run *run)
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
        code = kt_cli_error(run->cli, "%zu of %zu layers are above the tolerance or failed", run->n_bad,
                            run->n_layers);
    return code;
}

/* Would one of two results be lost? */
static bool is_same(const char *a, const char *b)
{
    struct stat left, right;
    const char *const paths[2] = {a, b};
    char folder[2][PATH_MAX];
    const char *base[2];
    if (!a || !b)
        return false;
    if (stat(a, &left) == 0 && stat(b, &right) == 0)
        return S_ISREG(left.st_mode) && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        base[i] = slash ? slash + 1 : paths[i];
        snprintf(folder[i], sizeof(folder[i]), "%.*s", slash ? (int)(slash - paths[i]) + 1 : 1,
                 slash ? paths[i] : ".");
    }
    return strcmp(base[0], base[1]) == 0 && stat(folder[0], &left) == 0 && stat(folder[1], &right) == 0 &&
           left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

static int check_outputs(const struct forward_run *run)
{
    static const char *const names[] = {"output", "stats", "record"};
    const char *const paths[] = {run->args.output, run->args.stats, run->args.record};
    for (size_t i = 0; i < COUNT(paths); i++) {
        int code = check_output(run, names[i], paths[i]);
        if (code != KT_EXIT_OK)
            return code;
        for (size_t j = 0; j < i; j++)
            if (is_same(paths[i], paths[j]))
                return kt_cli_error(run->cli, "%s is also that of --%s; choose another --%s", paths[i],
                                    names[j], names[i]);
    }
    return KT_EXIT_OK;
}

static int forward(struct forward_run *run)
{
    int code = kt_cli_checkpoint(run->cli, run->args.input, &run->input);
    if (code == KT_EXIT_OK && run->args.expected)
        code = kt_cli_checkpoint(run->cli, run->args.expected, &run->expected);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(run->cli, run->args.model, &run->model);
    if (code == KT_EXIT_OK)
        code = check_outputs(run);
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

static const struct kt_cli_option options[] =
    {KT_CLI_MODEL,
     KT_CLI_LAYERS_OF("layers: 3, 0-3, 0,2 or all (default: all that the input holds)"),
     {KT_OPTION("input", 'i', KT_CLI_TEXT, input, "FILE",
                "safetensors file with recorded hidden states and routing"),
      .required = true},
     OPTION_TEXT("output", 'o', output, "FILE", "write layers.N.output (F32) to this safetensors file"),
     OPTION_TEXT("stats", 0, stats, "FILE",
                 "write how often each expert was requested to this file, for kt stats"),
     OPTION_TEXT("record", 0, record, "FILE", "write the batches of the layers to this trace"),
     KT_CLI_BACKEND,
     KT_CLI_METHOD,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     OPTION_FLAG("check", 'c', check, "compare with the recorded output and with the reference backend"),
     OPTION_REAL("tolerance", 0, tolerance, "X",
                 "limit of the relative L2 error against the reference backend (default 0.02); implies "
                 "--check"),
     OPTION_TEXT("expected", 'e', expected, "FILE",
                 "read the recorded output from this safetensors file; implies --check"),
     OPTION_REAL("recorded-tolerance", 0, recorded_tolerance, "X",
                 "limit of the relative L2 error against the recorded output; implies --check"),
     {.name = NULL}};

const struct kt_cli_command kt_forward_command =
    {.usage = "MODEL --input FILE [OPTION]...",
     .about = "Runs layers with experts on recorded input: for each layer N the file holds "
              "layers.N.hidden_states [tokens][hidden] (BF16, F16 or F32), layers.N.topk_ids "
              "[tokens][k] (I64), layers.N.topk_weights [tokens][k] (F32) and, for --check, "
              "layers.N.output [tokens][hidden] (F32), unless --expected names another file for it.\n"
              "With --check, exit status 1 if an error is above its limit. Against the recorded "
              "output the default limit is 1e-4 where the reference backend runs F32 or BF16 "
              "weights, --tolerance where another backend runs them, and none for quantized "
              "weights, whose own error it shows.",
     .options = options,
     .opens_checkpoint = true};

int kt_cmd_forward(struct kt_cli *cli, int argc, char **argv)
{
    struct forward_run run = {.cli = cli, .args = {.tolerance = -1, .recorded_tolerance = -1}};
    if (!kt_cli_parse(cli, &kt_forward_command, argc, argv, &run.args))
        return cli->exit_code;
    run.args.check |= run.args.tolerance >= 0 || run.args.recorded_tolerance >= 0;
    run.args.check |= run.args.expected != NULL;
    run.keeping =
        (struct kt_keeping){.cli = cli, .stats_path = run.args.stats, .record_path = run.args.record};
    return forward(&run);
}
