/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain_linears.c - which backend would take each weight of a model besides its experts and embeddings.
 *
 * Only the form of a weight is of interest. To show one may take reading or decoding all of it, so of weights
 * that differ in the number of their layer alone, with like tensors beside them, the first one is asked for.
 */
#include "tools/kt/explain.h"
#include "tools/kt/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LEAST_COLS 32 /* of a product worth its own call; kernels of convolutions have fewer */

struct linear {
    char *name;       /* "blk.12.attn_q" */
    size_t number_at; /* of "12"; 0: no layer's */
    const char *rest; /* ".attn_q", or the whole name */
    uint64_t layer;
    uint64_t index; /* of its tensor */
    bool known;     /* the view below is that of the weight or of one like it */
    bool has_bias;
    struct kt_view view; /* its data is not to be read */
    struct kt_plan plan;
    bool failed;
    struct kt_error error;
    bool grouped; /* with an earlier one that looks the same */
};

struct kt_explain_linears {
    struct linear *linear; /* by layer, then as the files have them */
    size_t n;
    size_t n_left_out;
};

static const struct kt_column linear_columns[] = {
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

/* ---- which weights are linears -------------------------------------------------------------- */

static bool ends_with(const char *text, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length >= n && memcmp(text + length - n, ending, n) == 0;
}

/* How long the name is without the ending of a weight; 0: it is none of a linear. */
static size_t find_stem(const struct kt_tensor_info *tensor)
{
    static const char *const endings[] = {".weight", ".qweight", ".weight_packed"};
    static const char *const others[] = {"token_embd",    "embed_tokens", "tok_embeddings",
                                         "position_embd", "token_types",  ".embed"};
    size_t length = strlen(tensor->name), stem = 0;
    if (tensor->n_dims != 2 || strstr(tensor->name, "_exps.") || strstr(tensor->name, ".experts."))
        return 0;
    for (size_t i = 0; i < COUNT(endings) && stem == 0; i++) {
        if (ends_with(tensor->name, length, endings[i]))
            stem = length - strlen(endings[i]);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        if (ends_with(tensor->name, stem, others[i]))
            return 0;
    }
    return stem == strlen("embed") && strncmp(tensor->name, "embed", stem) == 0 ? 0 : stem;
}

/* Finds the layer's number in the name: the first part that is one. */
static void find_layer(struct linear *linear)
{
    linear->rest = linear->name;
    for (const char *dot = strchr(linear->name, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t digits = strspn(dot + 1, "0123456789");
        if (digits == 0 || digits > 9 || dot[1 + digits] != '.')
            continue;
        linear->number_at = (size_t)(dot + 1 - linear->name);
        linear->layer = strtoull(dot + 1, NULL, 10);
        linear->rest = dot + 1 + digits;
        return;
    }
}

/* Are the names the same but for the number of the layer? */
static bool is_twin(const struct linear *a, const struct linear *b)
{
    return a->number_at == b->number_at && strncmp(a->name, b->name, a->number_at) == 0 &&
           strcmp(a->rest, b->rest) == 0;
}

static bool is_wanted(const struct linear *linear, const uint64_t *layers, size_t n)
{
    for (size_t i = 0; layers && linear->number_at && i < n; i++) {
        if (layers[i] == linear->layer)
            return true;
    }
    return !layers;
}

static int by_layer(const void *left, const void *right)
{
    const struct linear *a = left, *b = right;
    if (!a->number_at != !b->number_at)
        return a->number_at ? -1 : 1;
    if (a->number_at && a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static void collect(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const uint64_t *layers,
                    size_t n, struct kt_explain_linears *linears)
{
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    size_t capacity = 0;
    kt_checkpoint_info(checkpoint, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++) {
        size_t stem = kt_checkpoint_tensor(checkpoint, i, &tensor, NULL) == KT_OK ? find_stem(&tensor) : 0;
        if (stem == 0)
            continue;
        if (linears->n == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            struct linear *grown = kt_cli_alloc(cli, capacity, sizeof(*grown));
            if (linears->n > 0)
                memcpy(grown, linears->linear, linears->n * sizeof(*grown));
            free(linears->linear);
            linears->linear = grown;
        }
        struct linear *linear = &linears->linear[linears->n];
        *linear = (struct linear){.index = i, .view = KT_VIEW_INIT};
        linear->name = kt_cli_format(cli, "%.*s", (int)stem, tensor.name);
        find_layer(linear);
        if (is_wanted(linear, layers, n))
            linears->n++;
        else
            free(linear->name);
    }
    if (linears->n > 0)
        qsort(linears->linear, linears->n, sizeof(*linears->linear), by_layer);
}

/* ---- their form ----------------------------------------------------------------------------- */

/* The tensor of that name and ending; false: there is none. */
static bool find_tensor(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint,
                        const struct linear *linear, const char *ending, struct kt_tensor_info *info)
{
    uint64_t index;
    char *name = kt_cli_format(cli, "%s%s", linear->name, ending);
    bool found = kt_checkpoint_find(checkpoint, name, &index, NULL) == KT_OK &&
                 kt_checkpoint_tensor(checkpoint, index, info, NULL) == KT_OK;
    free(name);
    return found;
}

/* Have two weights the same tensors, of the same types and shapes? */
static bool is_alike(const struct kt_cli *cli, const struct kt_checkpoint *checkpoint, const struct linear *a,
                     const struct linear *b)
{
    static const char *const endings[] = {
        ".weight",
        ".qweight",
        ".weight_packed",
        ".bias",
        ".scale",
        ".weight_scale",
        ".weight_scale_inv",
        ".weight_scale_2",
        ".scales",
        ".qzeros",
        ".weight_g_idx",
        ".g_idx",
        ".weight_shape",
        ".weight_zero_point",
    };
    struct kt_tensor_info one, other;
    for (size_t i = 0; i < COUNT(endings); i++) {
        bool has = find_tensor(cli, checkpoint, a, endings[i], &one);
        if (has != find_tensor(cli, checkpoint, b, endings[i], &other))
            return false;
        if (has && (one.dtype != other.dtype || one.n_dims != other.n_dims || one.size != other.size ||
                    memcmp(one.dims, other.dims, one.n_dims * sizeof(one.dims[0])) != 0))
            return false;
    }
    return true;
}

/* Fills the view of linear i, by that of an earlier one that is like it where there is one. */
static enum kt_status find_form(const struct kt_cli *cli, struct kt_checkpoint *checkpoint,
                                struct linear *linears, size_t i)
{
    struct linear *linear = &linears[i];
    const float *bias = NULL;
    for (size_t j = 0; j < i && linear->number_at; j++) {
        if (!linears[j].known || !is_twin(&linears[j], linear) ||
            !is_alike(cli, checkpoint, &linears[j], linear))
            continue;
        linear->view = linears[j].view;
        linear->has_bias = linears[j].has_bias;
        linear->known = true;
        return KT_OK;
    }
    enum kt_status status =
        kt_checkpoint_weight(checkpoint, linear->name, &linear->view, &bias, &linear->error);
    linear->known = status == KT_OK;
    linear->has_bias = bias;
    return status;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void make_plan(const struct kt_cli *cli, struct kt_context *context, uint64_t max_tokens,
                      struct linear *linear)
{
    struct kt_linear_params params = KT_LINEAR_PARAMS_INIT;
    struct kt_linear *made;
    char *name = kt_cli_format(cli, "linear %s", linear->name); /* kt_cli_warn knows the first word */
    params.rows = linear->view.rows;
    params.cols = linear->view.cols;
    params.max_tokens = (uint32_t)max_tokens;
    params.name = name;
    enum kt_status status = kt_linear_create(context, &params, &made, &linear->error);
    if (status == KT_OK) {
        status = kt_linear_plan(made, &linear->view, linear->has_bias, &linear->plan, &linear->error);
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
    size_t kept = 0;
    collect(cli, checkpoint, layers, n, linears);
    for (size_t i = 0; i < linears->n; i++) {
        struct linear *linear = &linears->linear[kept];
        if (kept != i)
            *linear = linears->linear[i];
        enum kt_status status = find_form(cli, checkpoint, linears->linear, kept);
        /* A store has no other weights than its own. */
        if (status == KT_E_NOT_FOUND ||
            (status == KT_OK && (linear->view.rows < 2 || linear->view.cols < LEAST_COLS))) {
            free(linear->name);
            continue;
        }
        kept++;
        if (status == KT_OK)
            make_plan(cli, context, max_tokens, linear);
        else
            linear->failed = true;
    }
    linears->n = kept;
    if (kept > 0)
        kt_verbose_time(cli, "plan", start, "%zu linears", kept);
    return linears;
}

void kt_explain_linears_free(struct kt_explain_linears *linears)
{
    if (!linears)
        return;
    for (size_t i = 0; i < linears->n; i++)
        free(linears->linear[i].name);
    free(linears->linear);
    free(linears);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* The message without the linear's name, which the row has. */
static const char *find_message(const struct linear *linear)
{
    const char *message = linear->error.message;
    size_t length = strlen(linear->name);
    if (strncmp(message, "linear ", 7) == 0 && strncmp(message + 7, linear->name, length) == 0 &&
        strncmp(message + 7 + length, ": ", 2) == 0)
        return message + 7 + length + 2;
    return message;
}

/* Would two linears look the same but for their layer's number? */
static bool is_same(const struct linear *a, const struct linear *b)
{
    return a->number_at && is_twin(a, b) && a->failed == b->failed && a->known == b->known &&
           a->has_bias == b->has_bias && a->view.dtype == b->view.dtype && a->view.rows == b->view.rows &&
           a->view.cols == b->view.cols && (!a->failed || strcmp(find_message(a), find_message(b)) == 0) &&
           kt_explain_is_same(&a->plan, &b->plan);
}

/* Marks the linears from `first` on that look like it, and names them: "blk.0-5,8.attn_q". For people only,
 * as with layers. Allocated. */
static char *take_group(const struct kt_cli *cli, struct kt_explain_linears *linears, size_t first,
                        uint64_t *count)
{
    struct linear *one = &linears->linear[first];
    *count = 1;
    if (!one->number_at)
        return kt_cli_format(cli, "%s", one->name);
    char *list = NULL;
    kt_model_list_layer(cli, &list, one->layer);
    for (size_t i = first + 1; i < linears->n && cli->format == KT_FORMAT_TABLE; i++) {
        struct linear *other = &linears->linear[i];
        if (other->grouped || !is_same(one, other))
            continue;
        other->grouped = true;
        ++*count;
        kt_model_list_layer(cli, &list, other->layer);
    }
    char *text = kt_cli_format(cli, "%.*s%s%s", (int)one->number_at, one->name, list, one->rest);
    free(list);
    return text;
}

static void add_linear(const struct kt_cli *cli, const struct kt_context *context, struct kt_table *table,
                       const struct linear *linear, const char *names, uint64_t count)
{
    char text[64];
    kt_table_row(table);
    kt_table_text(table, "name", linear->name);
    kt_table_text(table, "linears", names);
    kt_table_uint(table, "count", count);
    if (linear->number_at)
        kt_table_uint(table, "layer", linear->layer);
    if (linear->known) {
        kt_table_text(table, "type", kt_dtype_name(linear->view.dtype));
        kt_table_uint(table, "rows", linear->view.rows);
        kt_table_uint(table, "cols", linear->view.cols);
        kt_table_bool(table, "bias", linear->has_bias);
        snprintf(text, sizeof(text), "%" PRIu64 "x%" PRIu64, linear->view.rows, linear->view.cols);
        kt_table_text(table, "shape", text);
    }
    if (linear->failed) {
        kt_table_text(table, "error",
                      cli->format == KT_FORMAT_TABLE ? find_message(linear) : linear->error.message);
        return;
    }
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
        kt_table_text(table, "name", linear->name);
        kt_table_text(table, "linears", names);
        kt_explain_put_candidate(table, candidate);
    }
}

void kt_explain_linears_facts(struct kt_output *output, const struct kt_explain_linears *linears)
{
    uint64_t bytes = 0, failed = 0, fallbacks = 0;
    for (size_t i = 0; i < linears->n; i++) {
        const struct linear *linear = &linears->linear[i];
        failed += linear->failed;
        bytes += linear->failed ? 0 : linear->plan.weight_size;
        fallbacks += !linear->failed && linear->plan.fallback;
    }
    kt_output_fact_uint(output, "n_linears", NULL, linears->n);
    kt_output_fact_bytes(output, "linear_bytes", linears->n > 0 ? "packed linears" : NULL, bytes);
    kt_output_fact_uint(output, "n_linears_failed", NULL, failed);
    kt_output_fact_uint(output, "n_linears_fallbacks", NULL, fallbacks);
}

void kt_explain_linears_tables(const struct kt_cli *cli, const struct kt_context *context,
                               struct kt_output *output, struct kt_explain_linears *linears)
{
    struct kt_table *rows = kt_output_table(output, "linears", linear_columns, COUNT(linear_columns));
    struct kt_table *candidates =
        kt_output_table(output, "linear_candidates", candidate_columns, COUNT(candidate_columns));
    for (size_t i = 0; i < linears->n; i++) {
        uint64_t count;
        if (linears->linear[i].grouped)
            continue;
        char *names = take_group(cli, linears, i, &count);
        add_linear(cli, context, rows, &linears->linear[i], names, count);
        add_candidates(cli, candidates, &linears->linear[i], names, &linears->n_left_out);
        free(names);
    }
}

bool kt_explain_linears_left_out(const struct kt_explain_linears *linears)
{
    return linears->n_left_out > 0;
}
