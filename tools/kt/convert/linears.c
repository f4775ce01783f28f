/* SPDX-License-Identifier: Apache-2.0 */
/* linears.c - kt convert --linears: packs a checkpoint's linears into a store, one by one. */
#include "tools/kt/convert/convert.h"
#include "tools/kt/checkpoint/linears.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state { PLANNED, STORED, KEPT, REFUSED };

struct kt_convert_linear {
    enum state state;
    uint64_t source_bytes, packed_bytes;
    double seconds;
    char form[32];
    char reason[sizeof(((struct kt_error *)NULL)->message)]; /* why the backend refused it */
};

static const struct kt_column columns[] = {
    {"name", NULL, KT_COLUMN_TEXT, 0, KT_COLUMN_HIDDEN},
    {"linears", "LINEARS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_LIST},
    {"count", "COUNT", KT_COLUMN_UINT, 0, KT_COLUMN_VISUAL},
    {"type", "TYPE", KT_COLUMN_TEXT, 0, 0},
    {"rows", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"cols", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL},
    {"source_bytes", "SOURCE", KT_COLUMN_BYTES, 0, 0},
    {"packed_bytes", "PACKED", KT_COLUMN_BYTES, 0, 0},
    {"seconds", "SECONDS", KT_COLUMN_REAL, 2, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"reason", "REASON", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
};

/* ---- which ---------------------------------------------------------------------------------- */

/* Does a pattern of the list, "blk.*.attn_q,output", fit the name? "all" does not name routers. */
static bool is_named(const struct kt_cli *cli, const char *list, const struct kt_model_linear *linear)
{
    bool found = false;
    if (strcmp(list, "all") == 0)
        return !kt_model_linear_routes(linear);
    for (const char *at = list; *at && !found;) {
        size_t length = strcspn(at, ",");
        char *pattern = kt_cli_format(cli, "%.*s", (int)length, at);
        found = fnmatch(pattern, linear->name, 0) == 0;
        free(pattern);
        at += length + (at[length] == ',');
    }
    return found;
}

/* Keeps those that are named. */
static int choose(struct kt_conversion *conversion)
{
    const char *list = conversion->args->linears;
    size_t kept = 0;
    for (size_t i = 0; i < conversion->n_linears; i++) {
        struct kt_model_linear *linear = &conversion->of[i];
        if (is_named(conversion->cli, list, linear))
            conversion->of[kept++] = *linear;
        else
            free(linear->name);
    }
    conversion->n_linears = kept;
    if (kept > 0)
        return KT_EXIT_OK;
    return kt_cli_error(conversion->cli, "%s: has no linear that --linears %s names; 'kt explain' lists them",
                        conversion->args->input, list);
}

/* ---- plans ---------------------------------------------------------------------------------- */

static int make_linear(const struct kt_conversion *conversion, const struct kt_model_linear *of,
                       struct kt_linear **linear, struct kt_error *error)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    char *name = kt_cli_format(conversion->cli, "linear %s", of->name); /* kt_cli_warn knows the first word */
    params.rows = of->view.rows;
    params.cols = of->view.cols;
    params.max_tokens = 1; /* storing multiplies nothing */
    params.backend = conversion->backend;
    params.name = name;
    params.stored = 1;
    enum kt_status status = kt_linear_create(conversion->context, &params, linear, error);
    free(name);
    return status == KT_OK ? KT_EXIT_OK : KT_EXIT_PROBLEM;
}

static void refuse(struct kt_convert_linear *linear, const char *reason)
{
    linear->state = REFUSED;
    snprintf(linear->reason, sizeof(linear->reason), "%s", reason);
}

/* What the preferred backend says. */
static const char *find_reason(const struct kt_conversion *conversion, const struct kt_plan *plan,
                               const struct kt_error *error)
{
    for (uint32_t c = 0; c < plan->n_candidates; c++)
        if (strcmp(plan->candidate[c].backend, conversion->backend) == 0 && *plan->candidate[c].reason)
            return plan->candidate[c].reason;
    return error->message;
}

static void make_plan(struct kt_conversion *conversion, size_t i, struct kt_plan *plan)
{
    struct kt_model_linear *of = &conversion->of[i];
    struct kt_convert_linear *linear = &conversion->linear[i];
    struct kt_linear *made;
    struct kt_error error = {.message = ""};
    *plan = (struct kt_plan){.n_nodes = 0};
    if (!of->known || make_linear(conversion, of, &made, &error) != KT_EXIT_OK) {
        refuse(linear, of->known ? error.message : of->error.message);
        return;
    }
    enum kt_status status = kt_linear_plan(made, &of->view, of->has_bias, plan, &error);
    kt_linear_destroy(made);
    linear->source_bytes = kt_view_bytes(&of->view);
    if (status != KT_OK || plan->fallback) {
        refuse(linear, find_reason(conversion, plan, &error));
    } else if (!*plan->form) {
        refuse(linear, "what it makes of weights cannot be stored");
    } else {
        linear->packed_bytes = plan->weight_size;
        snprintf(linear->form, sizeof(linear->form), "%s", plan->form);
        conversion->total += plan->weight_size;
        if (plan->weight_size > conversion->largest_linear)
            conversion->largest_linear = plan->weight_size;
    }
}

int kt_convert_linears_plan(struct kt_conversion *conversion, const uint64_t *layers, size_t n)
{
    struct kt_cli *cli = conversion->cli;
    bool any = false;
    if (kt_checkpoint_linear_count(conversion->input) > 0)
        return kt_cli_error(cli, "%s: is packed already; convert the original checkpoint",
                            conversion->args->input);
    conversion->of = kt_model_linears(cli, conversion->input, layers, n, &conversion->n_linears);
    int code = choose(conversion);
    if (code != KT_EXIT_OK)
        return code;
    struct kt_plan *plan = kt_cli_alloc(cli, 1, sizeof(*plan));
    conversion->linear = kt_cli_alloc(cli, conversion->n_linears, sizeof(*conversion->linear));
    for (size_t i = 0; i < conversion->n_linears; i++) {
        make_plan(conversion, i, plan);
        any |= conversion->linear[i].state != REFUSED;
    }
    free(plan);
    if (any || !conversion->args->no_experts)
        return KT_EXIT_OK;
    return kt_cli_error(cli, "backend %s can store none of these linears; linear %s: %s", conversion->backend,
                        conversion->of[0].name, conversion->linear[0].reason);
}

/* ---- storing -------------------------------------------------------------------------------- */

/* Was it stored in the same way as it would be now? */
static int compare_stored(const struct kt_conversion *conversion, size_t i,
                          const struct kt_stored_linear_info *old)
{
    const struct kt_model_linear *of = &conversion->of[i];
    if (strcmp(old->stored_form, conversion->linear[i].form) != 0)
        return kt_cli_error(conversion->cli,
                            "%s: linear %s is stored as %s, asked for is %s: choose another folder",
                            conversion->args->output, of->name, old->stored_form, conversion->linear[i].form);
    if (old->rows == of->view.rows && old->cols == of->view.cols)
        return KT_EXIT_OK;
    return kt_cli_error(conversion->cli,
                        "%s: linear %s is %" PRIu64 " x %" PRIu64 ", in the checkpoint now %" PRIu64
                        " x %" PRIu64 ": choose another folder",
                        conversion->args->output, of->name, old->rows, old->cols, of->view.rows,
                        of->view.cols);
}

/* Is it in the folder already, and intact? A different linear of this name is an error. */
static int find_stored(const struct kt_conversion *conversion, size_t i, bool *stored)
{
    const char *name = conversion->of[i].name;
    struct kt_stored_linear_info old;
    struct kt_error error;
    *stored = false;
    if (!conversion->store || kt_checkpoint_linear_find(conversion->store, name, &old, NULL) != KT_OK)
        return KT_EXIT_OK;
    int code = compare_stored(conversion, i, &old);
    if (code != KT_EXIT_OK)
        return code;
    *stored = kt_checkpoint_verify_linear(conversion->store, name, &error) == KT_OK;
    if (!*stored)
        kt_cli_warn(conversion->cli, "%s; it is made again", error.message);
    return KT_EXIT_OK;
}

static int store_linear(struct kt_conversion *conversion, size_t i)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    const struct kt_model_linear *of = &conversion->of[i];
    struct kt_linear *linear;
    struct kt_error error;
    params.folder = conversion->args->output;
    params.progress = kt_convert_progress;
    params.data = conversion;
    double start = kt_cli_now();
    if (make_linear(conversion, of, &linear, &error) != KT_EXIT_OK)
        return kt_cli_fail(conversion->cli, &error);
    enum kt_status status = kt_linear_store(linear, conversion->input, of->name, &params, &error);
    kt_linear_destroy(linear);
    kt_convert_unwatch(conversion);
    if (status != KT_OK)
        return kt_cli_fail(conversion->cli, &error);
    conversion->linear[i].seconds = kt_cli_now() - start;
    kt_verbose_time(conversion->cli, "store", start, "linear %s", of->name);
    return KT_EXIT_OK;
}

int kt_convert_linears(struct kt_conversion *conversion)
{
    int code = KT_EXIT_OK;
    for (size_t i = 0; i < conversion->n_linears && code == KT_EXIT_OK; i++) {
        struct kt_convert_linear *linear = &conversion->linear[i];
        bool stored = false;
        if (linear->state == REFUSED)
            continue;
        code = find_stored(conversion, i, &stored);
        if (code == KT_EXIT_OK && !stored)
            code = store_linear(conversion, i);
        if (code == KT_EXIT_OK)
            linear->state = stored ? KEPT : STORED;
        conversion->before += linear->packed_bytes;
    }
    return code;
}

/* ---- the table ------------------------------------------------------------------------------ */

struct rows {
    const struct kt_model_linear *of;
    const struct kt_convert_linear *linear;
};

static bool is_same(const void *data, size_t first, size_t second)
{
    const struct rows *rows = data;
    const struct kt_model_linear *one = &rows->of[first], *other = &rows->of[second];
    const struct kt_convert_linear *a = &rows->linear[first], *b = &rows->linear[second];
    return a->state == b->state && one->known == other->known && one->view.dtype == other->view.dtype &&
           one->view.rows == other->view.rows && one->view.cols == other->view.cols &&
           strcmp(a->reason, b->reason) == 0;
}

/* What a linear and the others of its line have together. */
static struct kt_convert_linear add_up(const struct rows *rows, size_t n, size_t first, const bool *before,
                                       const bool *grouped)
{
    struct kt_convert_linear sum = rows->linear[first];
    for (size_t i = first + 1; i < n; i++) {
        if (!grouped[i] || before[i])
            continue;
        sum.source_bytes += rows->linear[i].source_bytes;
        sum.packed_bytes += rows->linear[i].packed_bytes;
        sum.seconds += rows->linear[i].seconds;
    }
    return sum;
}

static void add_row(struct kt_table *table, const struct kt_model_linear *of, const char *names,
                    uint64_t count, const struct kt_convert_linear *sum)
{
    static const char *const states[] = {"", "stored", "kept", "refused"};
    char shape[64];
    kt_table_row(table);
    kt_table_text(table, "name", of->name);
    kt_table_text(table, "linears", names);
    kt_table_uint(table, "count", count);
    kt_table_text(table, "state", states[sum->state]);
    if (of->known) {
        snprintf(shape, sizeof(shape), "%" PRIu64 "x%" PRIu64, of->view.rows, of->view.cols);
        kt_table_text(table, "type", kt_dtype_name(of->view.dtype));
        kt_table_uint(table, "rows", of->view.rows);
        kt_table_uint(table, "cols", of->view.cols);
        kt_table_text(table, "shape", shape);
    }
    if (sum->state == REFUSED) {
        kt_table_text(table, "reason", sum->reason);
        return;
    }
    kt_table_uint(table, "source_bytes", sum->source_bytes);
    kt_table_uint(table, "packed_bytes", sum->packed_bytes);
    if (sum->state == STORED)
        kt_table_real(table, "seconds", sum->seconds);
}

void kt_convert_linears_table(const struct kt_conversion *conversion, struct kt_output *output)
{
    const struct rows rows = {conversion->of, conversion->linear};
    size_t n = conversion->n_linears, n_refused = 0;
    struct kt_table *table = kt_output_table(output, "linears", columns, COUNT(columns));
    bool *grouped = kt_cli_alloc(conversion->cli, n + 1, sizeof(*grouped));
    bool *before = kt_cli_alloc(conversion->cli, n + 1, sizeof(*before));
    for (size_t i = 0; i < n; i++) {
        uint64_t count;
        n_refused += rows.linear[i].state == REFUSED;
        if (grouped[i] || rows.linear[i].state == PLANNED) /* one before it failed */
            continue;
        memcpy(before, grouped, n * sizeof(*before));
        char *names = kt_model_linear_group(conversion->cli, rows.of, n, i, is_same, &rows, grouped, &count);
        struct kt_convert_linear sum = add_up(&rows, n, i, before, grouped);
        add_row(table, &rows.of[i], names, count, &sum);
        free(names);
    }
    free(before);
    free(grouped);
    if (n_refused > 0)
        kt_output_note(output, "Refused linears are to be loaded from the checkpoint itself.");
}

void kt_convert_linears_free(struct kt_conversion *conversion)
{
    kt_model_linears_free(conversion->of, conversion->n_linears);
    free(conversion->linear);
}
