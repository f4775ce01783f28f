/* SPDX-License-Identifier: Apache-2.0 */
/* linears.c - which backend would take each weight of a model besides its experts and embeddings. */
#include "tools/kt/explain/explain.h"
#include "tools/kt/checkpoint/linears.h"
#include "tools/kt/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_COLUMNS 21

struct linear {
    const struct kt_model_linear *of;
    bool routes; /* no linear to an engine: it has no plan */
    struct kt_plan plan;
    bool failed;
    struct kt_error error;
};

struct kt_explain_linears {
    struct kt_model_linear *of;
    struct linear *linear; /* by layer, then as the files have them */
    size_t n;
    size_t n_left_out;
    struct kt_column columns[N_COLUMNS]; /* of linears, as they are shown */
};

static const struct kt_column linear_columns[N_COLUMNS] = {
    {"name", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"layer", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"linears", "LINEARS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_LIST},
    {"count", "COUNT", KT_COLUMN_UINT, 0, KT_COLUMN_VISUAL},
    {"type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"rows", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"cols", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"bias", NULL, KT_COLUMN_BOOL, 0, KT_COLUMN_HIDDEN},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"weight_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, 0},
    {"buffer_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"nominal_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"keeps_source", "IN PLACE", KT_COLUMN_BOOL, 0, KT_COLUMN_RARE},
    {"options", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"fallback", "FALLBACK", KT_COLUMN_BOOL, 0, KT_COLUMN_RARE},
    {"rounding", "ROUNDED TO", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"compact", "COMPACT", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
    {"tuned", "TUNED", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
    {"error", "ERROR", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
};

static const struct kt_column candidate_columns[] = {
    {"name", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"linears", "LINEARS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_LIST},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"reason", "REASON", KT_COLUMN_TEXT, 0, 0},
};

/* ---- routers -------------------------------------------------------------------------------- */

/* A store has packed what was named, routers too. */
static bool find_router(const struct kt_model_linear *of)
{
    return of->known && !of->stored.name && kt_model_linear_routes(of);
}

/* As bfloat16 or float32: of float32 only reading would tell whether all numbers are bfloat16, too. */
static uint64_t router_bytes(const struct kt_model_linear *of)
{
    return of->view.rows * of->view.cols * (of->view.dtype == KT_DTYPE_BF16 ? 2 : sizeof(float));
}

static void put_router(const struct kt_context *context, struct kt_table *table,
                       const struct kt_model_linear *of)
{
    const struct kt_rows *rows;
    struct kt_rows_info info;
    if (kt_rows_find(context, NULL, &rows, NULL) == KT_OK) {
        kt_rows_info(rows, &info);
        kt_table_text(table, "backend", info.backend);
        kt_table_text(table, "level", info.level);
    }
    kt_table_uint(table, "weight_bytes", router_bytes(of));
    kt_table_uint(table, "nominal_bytes", router_bytes(of));
    kt_table_text(table, "rounding", "");
    kt_table_text(table, "compact", "");
    kt_table_text(table, "tuned", "");
    kt_table_text(table, "error", "");
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void make_plan(const struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *checkpoint,
                      uint64_t max_tokens, struct linear *linear)
{
    const struct kt_model_linear *of = linear->of;
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear *made;
    char *name = kt_cli_format(cli, "linear %s", of->name); /* kt_cli_warn knows the first word */
    params.rows = of->view.rows;
    params.cols = of->view.cols;
    params.max_tokens = (uint32_t)max_tokens;
    params.name = name;
    enum kt_status status = kt_linear_create(context, &params, &made, &linear->error);
    if (status == KT_OK) {
        status = of->stored.name
                     ? kt_linear_plan_checkpoint(made, checkpoint, of->name, &linear->plan, &linear->error)
                     : kt_linear_plan(made, &of->view, of->has_bias, &linear->plan, &linear->error);
        kt_linear_destroy(made);
    }
    linear->failed = status != KT_OK;
    free(name);
}

struct kt_explain_linears *kt_explain_linears_make(const struct kt_cli *cli, struct kt_context *context,
                                                   struct kt_checkpoint *checkpoint, const uint64_t *layers,
                                                   size_t n, uint64_t max_tokens)
{
    struct kt_explain_linears *linears = kt_cli_alloc(cli, 1, sizeof(*linears));
    double start = kt_cli_now();
    linears->of = kt_model_linears(cli, checkpoint, layers, n, &linears->n);
    linears->linear = kt_cli_alloc(cli, linears->n + 1, sizeof(*linears->linear));
    for (size_t i = 0; i < linears->n; i++) {
        struct linear *linear = &linears->linear[i];
        *linear = (struct linear){.of = &linears->of[i], .failed = true, .error = linears->of[i].error};
        linear->routes = find_router(linear->of);
        if (linear->routes)
            linear->failed = false;
        else if (linear->of->known)
            make_plan(cli, context, checkpoint, max_tokens, linear);
    }
    if (linears->n > 0)
        kt_verbose_time(cli, "plan", start, "%zu linears", linears->n);
    return linears;
}

void kt_explain_linears_free(struct kt_explain_linears *linears)
{
    if (!linears)
        return;
    kt_model_linears_free(linears->of, linears->n);
    free(linears->linear);
    free(linears);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* The message without the linear's name, which the row has. */
static const char *find_message(const struct linear *linear)
{
    const char *message = linear->error.message;
    size_t length = strlen(linear->of->name);
    if (strncmp(message, "linear ", 7) == 0 && strncmp(message + 7, linear->of->name, length) == 0 &&
        strncmp(message + 7 + length, ": ", 2) == 0)
        return message + 7 + length + 2;
    return message;
}

/* Would two linears look the same but for their layer's number? */
static bool is_same(const void *rows, size_t first, size_t second)
{
    const struct linear *a = (const struct linear *)rows + first, *b = (const struct linear *)rows + second;
    return a->failed == b->failed && a->of->known == b->of->known && a->of->has_bias == b->of->has_bias &&
           strcmp(kt_model_linear_type(a->of), kt_model_linear_type(b->of)) == 0 &&
           a->of->view.rows == b->of->view.rows && a->of->view.cols == b->of->view.cols &&
           (!a->failed || strcmp(find_message(a), find_message(b)) == 0) &&
           kt_explain_is_same(&a->plan, &b->plan);
}

static void add_linear(const struct kt_cli *cli, const struct kt_context *context, struct kt_table *table,
                       const struct linear *linear, const char *names, uint64_t count)
{
    char text[64];
    kt_table_row(table);
    kt_table_text(table, "name", linear->of->name);
    kt_table_text(table, "linears", names);
    kt_table_uint(table, "count", count);
    if (linear->of->number_at)
        kt_table_uint(table, "layer", linear->of->layer);
    if (linear->of->known) {
        kt_table_text(table, "type", kt_model_linear_type(linear->of));
        kt_table_uint(table, "rows", linear->of->view.rows);
        kt_table_uint(table, "cols", linear->of->view.cols);
        kt_table_bool(table, "bias", linear->of->has_bias);
        snprintf(text, sizeof(text), "%" PRIu64 "x%" PRIu64, linear->of->view.rows, linear->of->view.cols);
        kt_table_text(table, "shape", text);
    }
    if (linear->failed) {
        kt_table_text(table, "error",
                      cli->format == KT_FORMAT_TABLE ? find_message(linear) : linear->error.message);
        return;
    }
    if (linear->routes)
        put_router(context, table, linear->of);
    else
        kt_explain_put_plan(context, table, &linear->plan);
}

static void add_candidates(const struct kt_cli *cli, struct kt_table *table, const struct linear *linear,
                           const char *names, size_t *n_left_out)
{
    /* When people want to know why: as with layers. */
    bool all = cli->verbose || cli->format != KT_FORMAT_TABLE || linear->failed || linear->plan.fallback;
    for (uint32_t c = 0; c < linear->plan.n_candidates; c++) {
        const struct kt_candidate *candidate = &linear->plan.candidate[c];
        if (!all) {
            *n_left_out += !candidate->chosen && *candidate->reason;
            continue;
        }
        kt_table_row(table);
        kt_table_text(table, "name", linear->of->name);
        kt_table_text(table, "linears", names);
        kt_explain_put_candidate(table, candidate);
    }
}

void kt_explain_linears_facts(struct kt_output *output, const struct kt_explain_linears *linears)
{
    uint64_t bytes = 0, failed = 0, fallbacks = 0, routers = 0;
    for (size_t i = 0; i < linears->n; i++) {
        const struct linear *linear = &linears->linear[i];
        failed += linear->failed;
        routers += linear->routes ? router_bytes(linear->of) : 0;
        bytes += linear->failed ? 0 : linear->plan.weight_size;
        fallbacks += !linear->failed && linear->plan.fallback;
    }
    kt_output_fact_uint(output, "n_linears", NULL, linears->n);
    kt_output_fact_bytes(output, "linear_bytes", linears->n > 0 ? "packed linears" : NULL, bytes);
    kt_output_fact_bytes(output, "router_bytes", routers > 0 ? "routers" : NULL, routers);
    kt_output_fact_uint(output, "n_linears_failed", NULL, failed);
    kt_output_fact_uint(output, "n_linears_fallbacks", NULL, fallbacks);
}

void kt_explain_linears_tables(const struct kt_cli *cli, const struct kt_context *context,
                               struct kt_output *output, struct kt_explain_linears *linears)
{
    struct kt_table *rows =
        kt_output_table(output, "linears",
                        kt_explain_columns(cli, linear_columns, COUNT(linear_columns), linears->columns),
                        COUNT(linear_columns));
    struct kt_table *candidates =
        kt_output_table(output, "linear_candidates", candidate_columns, COUNT(candidate_columns));
    bool *grouped = kt_cli_alloc(cli, linears->n + 1, sizeof(*grouped));
    for (size_t i = 0; i < linears->n; i++) {
        uint64_t count;
        if (grouped[i])
            continue;
        char *names =
            kt_model_linear_group(cli, linears->of, linears->n, i, is_same, linears->linear, grouped, &count);
        add_linear(cli, context, rows, &linears->linear[i], names, count);
        add_candidates(cli, candidates, &linears->linear[i], names, &linears->n_left_out);
        free(names);
    }
    kt_table_join(candidates, "linears");
    free(grouped);
}

bool kt_explain_linears_left_out(const struct kt_explain_linears *linears)
{
    return linears->n_left_out > 0;
}
