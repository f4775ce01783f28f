/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - kt explain: which backend would run each layer of a model, and why not another. Its linears
 * are in linears.c. */
#include "tools/kt/explain/explain.h"
#include "tools/kt/checkpoint/linears.h"
#include "tools/kt/checkpoint/checkpoint.h"
#include "tools/kt/checkpoint/whole.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *model;
    const char *layers;
    const char *experts; /* NULL: they are in the model */
    uint64_t max_tokens;
};

/* Where the weights come from; experts: of the layers, the checkpoint itself or another one. */
struct sources {
    struct kt_checkpoint *checkpoint, *experts;
};

/* The plan of a layer. */
struct plan {
    struct kt_moe_info moe;
    struct kt_plan plan;
    bool failed;
    struct kt_error error;
    bool grouped; /* with an earlier layer that looks the same */
};

static const struct kt_column layer_columns[] = {
    {"layer", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_LIST},
    {"types", "TYPES", KT_COLUMN_TEXT, 0, 0},
    {"n_experts", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"hidden_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"intermediate_size", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"shape", "SHAPE", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"weight_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, 0},
    {"buffer_bytes", "BUFFERS", KT_COLUMN_BYTES, 0, 0},
    {"source_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"nominal_bytes", NULL, KT_COLUMN_BYTES, 0, KT_COLUMN_HIDDEN},
    {"keeps_source", "IN PLACE", KT_COLUMN_BOOL, 0, KT_COLUMN_RARE},
    {"options", "OPTIONS", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"fallback", "FALLBACK", KT_COLUMN_BOOL, 0, KT_COLUMN_RARE},
    {"rounding", "ROUNDED TO", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE},
    {"compact", "COMPACT", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
    {"tuned", "TUNED", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
    {"error", "ERROR", KT_COLUMN_TEXT, 0, KT_COLUMN_RARE | KT_COLUMN_BELOW},
};

static const struct kt_column candidate_columns[] = {
    {"layer", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_LIST},
    {"backend", "BACKEND", KT_COLUMN_TEXT, 0, 0},
    {"level", "LEVEL", KT_COLUMN_TEXT, 0, 0},
    {"state", "STATE", KT_COLUMN_TEXT, 0, 0},
    {"reason", "REASON", KT_COLUMN_TEXT, 0, 0},
};

static const struct kt_column node_columns[] = {
    {"layer", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
    {"layers", "LAYERS", KT_COLUMN_TEXT, 0, KT_COLUMN_VISUAL | KT_COLUMN_LIST},
    {"node", "NODE", KT_COLUMN_UINT, 0, 0},
    {"intermediate_begin", "BEGIN", KT_COLUMN_UINT, 0, 0},
    {"intermediate_end", "END", KT_COLUMN_UINT, 0, 0},
    {"weight_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, 0},
    {"buffer_bytes", "BUFFERS", KT_COLUMN_BYTES, 0, 0},
};

/* ---- plans ---------------------------------------------------------------------------------- */

/* A layer that no backend takes is a result, not an error that ends the command. */
static int make_plan(const struct kt_cli *cli, struct kt_context *context, struct kt_checkpoint *checkpoint,
                     uint64_t number, uint64_t max_tokens, struct plan *plan)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    char name[32];
    if (kt_checkpoint_moe(checkpoint, number, &plan->moe, &plan->error) != KT_OK ||
        kt_checkpoint_layer_params(checkpoint, number, &params, &plan->error) != KT_OK)
        return kt_cli_fail(cli, &plan->error);
    snprintf(name, sizeof(name), "layer %" PRIu64, number);
    params.name = name;
    params.max_tokens = (uint32_t)max_tokens;

    enum kt_status status = kt_layer_create(context, &params, &layer, &plan->error);
    if (status == KT_OK) {
        double start = kt_cli_now();
        status = kt_layer_plan_checkpoint(layer, checkpoint, number, &plan->plan, &plan->error);
        kt_verbose_time(cli, "plan", start, "%s", name);
        kt_layer_destroy(layer);
    }
    plan->failed = status != KT_OK;
    return KT_EXIT_OK;
}

/* The message without the layer's name, which the row has. */
static const char *find_message(const struct plan *plan)
{
    char name[40];
    int length = snprintf(name, sizeof(name), "layer %" PRIu64 ": ", plan->moe.layer);
    return plan->error.message + (strncmp(plan->error.message, name, (size_t)length) == 0 ? length : 0);
}

/* Would two layers look the same in the table? */
static bool is_same(const struct plan *a, const struct plan *b)
{
    char types[2][64];
    return a->failed == b->failed && (!a->failed || strcmp(find_message(a), find_message(b)) == 0) &&
           kt_explain_is_same(&a->plan, &b->plan) && a->moe.n_experts == b->moe.n_experts &&
           a->moe.hidden_size == b->moe.hidden_size && a->moe.intermediate_size == b->moe.intermediate_size &&
           strcmp(kt_model_types(&a->moe, types[0], sizeof(types[0])),
                  kt_model_types(&b->moe, types[1], sizeof(types[1]))) == 0;
}

/* Marks the layers from plans[first] on that look like it, and lists them: "0-5,8,11". For people only; in
 * other formats each layer has its own rows. Allocated. */
static char *take_group(const struct kt_cli *cli, struct plan *plans, size_t n, size_t first)
{
    char *text = NULL;
    kt_model_list_layer(cli, &text, plans[first].moe.layer);
    for (size_t i = first + 1; i < n && cli->format == KT_FORMAT_TABLE; i++) {
        if (plans[i].grouped || !is_same(&plans[first], &plans[i]))
            continue;
        plans[i].grouped = true;
        kt_model_list_layer(cli, &text, plans[i].moe.layer);
    }
    return kt_model_shorten_list(cli, text);
}

/* ---- tables --------------------------------------------------------------------------------- */

struct tables {
    struct kt_table *layers, *candidates;
    struct kt_table *nodes; /* NULL: a single node, which the first table covers */
    size_t n_left_out;      /* refusals that only -v shows */
};

static void begin_row(struct kt_table *table, const struct plan *plan, const char *range)
{
    kt_table_row(table);
    kt_table_uint(table, "layer", plan->moe.layer);
    kt_table_text(table, "layers", range);
}

static void add_layer(const struct kt_cli *cli, const struct kt_context *context, struct kt_table *table,
                      const struct plan *plan, const char *range)
{
    char types[64], shape[64];
    begin_row(table, plan, range);
    kt_table_text(table, "types", kt_model_types(&plan->moe, types, sizeof(types)));
    kt_table_uint(table, "n_experts", plan->moe.n_experts);
    kt_table_uint(table, "hidden_size", plan->moe.hidden_size);
    kt_table_uint(table, "intermediate_size", plan->moe.intermediate_size);
    kt_table_uint(table, "source_bytes", plan->moe.size);
    snprintf(shape, sizeof(shape), "%" PRIu32 "x%" PRIu64 "x%" PRIu64, (uint32_t)plan->moe.n_experts,
             (uint64_t)plan->moe.hidden_size, (uint64_t)plan->moe.intermediate_size);
    kt_table_text(table, "shape", shape);
    if (plan->failed) {
        kt_table_text(table, "error",
                      cli->format == KT_FORMAT_TABLE ? find_message(plan) : plan->error.message);
        return;
    }
    kt_explain_put_plan(context, table, &plan->plan);
}

static void add_candidate(struct kt_table *table, const struct plan *plan, const char *range,
                          const struct kt_candidate *candidate)
{
    begin_row(table, plan, range);
    kt_explain_put_candidate(table, candidate);
}

static void add_plan(const struct kt_cli *cli, const struct kt_context *context, struct tables *tables,
                     const struct plan *plan, const char *range)
{
    /* People want to know why one refused where none is left, or not the wished one; or by -v. */
    bool all = cli->verbose || cli->format != KT_FORMAT_TABLE || plan->failed || plan->plan.fallback;
    add_layer(cli, context, tables->layers, plan, range);
    /* A plan that failed has candidates too, if there were any: why each one refused. */
    for (uint32_t c = 0; c < plan->plan.n_candidates; c++) {
        const struct kt_candidate *candidate = &plan->plan.candidate[c];
        if (all)
            add_candidate(tables->candidates, plan, range, candidate);
        else if (!candidate->chosen && *candidate->reason)
            tables->n_left_out++;
    }
    for (uint32_t i = 0; i < plan->plan.n_nodes && tables->nodes; i++) {
        struct kt_node_info node;
        begin_row(tables->nodes, plan, range);
        if (kt_context_node(context, i, &node, NULL) == KT_OK)
            kt_table_uint(tables->nodes, "node", node.os_index);
        kt_table_uint(tables->nodes, "intermediate_begin", plan->plan.node[i].intermediate_begin);
        kt_table_uint(tables->nodes, "intermediate_end", plan->plan.node[i].intermediate_end);
        kt_table_uint(tables->nodes, "weight_bytes", plan->plan.node[i].weight_size);
        kt_table_uint(tables->nodes, "buffer_bytes", plan->plan.node[i].buffer_size);
    }
}

static void add_facts(const struct kt_cli *cli, struct kt_output *output, const struct args *args,
                      const struct kt_context *context, const struct plan *plans, size_t n,
                      const struct kt_explain_linears *linears)
{
    struct kt_context_info info;
    uint64_t free_bytes = kt_memory_available();
    uint64_t weights = 0, buffers = 0, failed = 0, fallbacks = 0;
    for (size_t i = 0; i < n; i++) {
        if (plans[i].failed) {
            failed++;
            continue;
        }
        weights += plans[i].plan.weight_size;
        /* Buffers are shared by the layers of a context: the largest counts. */
        if (plans[i].plan.buffer_size > buffers)
            buffers = plans[i].plan.buffer_size;
        fallbacks += plans[i].plan.fallback != 0;
    }
    kt_context_info(context, &info);
    kt_output_fact_text(output, "model", "model", args->model);
    kt_output_fact_uint(output, "n_threads", "threads", info.n_threads);
    kt_output_fact_uint(output, "n_nodes", "NUMA nodes", info.n_nodes);
    kt_output_fact_uint(output, "max_tokens", "tokens per batch", args->max_tokens);
    kt_output_fact_bytes(output, "weight_bytes", "packed weights", weights);
    kt_explain_linears_facts(output, linears);
    kt_output_fact_bytes(output, "buffer_bytes", "buffers", buffers);
    kt_output_fact_bytes(output, "free_bytes", "free memory", free_bytes);
    kt_output_fact_uint(output, "n_failed", NULL, failed);
    kt_output_fact_uint(output, "n_fallbacks", NULL, fallbacks);
    if (free_bytes && weights + buffers > free_bytes)
        kt_cli_warn(cli, "the packed weights and buffers do not fit into free memory");
}

static void note_file(void *data, const struct kt_config_file *file)
{
    char text[512];
    if (file->state != KT_CONFIG_FILE_IGNORED)
        return;
    snprintf(text, sizeof(text), "%s is ignored, or parts of it: %s.", file->path, file->message);
    kt_output_note(data, text);
}

/* Values that kt tune found on another machine. */
static void note_ignored(const struct kt_cli *cli, struct kt_output *output)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    params.file = cli->config_file;
    (void)kt_config_check(&params, note_file, output, NULL);
}

static int print(struct kt_cli *cli, const struct args *args, struct kt_context *context,
                 const struct sources *sources, struct plan *plans, size_t n,
                 struct kt_explain_linears *linears)
{
    struct kt_output *output = kt_output_create(cli, "kt.explain", 1);
    struct kt_context_info info;
    struct tables tables = {.nodes = NULL};
    struct kt_column columns[COUNT(layer_columns)];
    size_t n_failed = 0;
    add_facts(cli, output, args, context, plans, n, linears);
    if (!args->layers)
        kt_whole_sizes(output, context, sources->checkpoint, args->experts ? sources->experts : NULL);
    tables.layers =
        kt_output_table(output, "rows", kt_explain_columns(cli, layer_columns, COUNT(columns), columns),
                        COUNT(columns));
    tables.candidates = kt_output_table(output, "candidates", candidate_columns, COUNT(candidate_columns));
    kt_context_info(context, &info);
    if (info.n_nodes > 1 || cli->format != KT_FORMAT_TABLE)
        tables.nodes = kt_output_table(output, "nodes", node_columns, COUNT(node_columns));
    for (size_t i = 0; i < n; i++) {
        n_failed += plans[i].failed;
        if (plans[i].grouped)
            continue;
        char *range = take_group(cli, plans, n, i);
        add_plan(cli, context, &tables, &plans[i], range);
        free(range);
    }
    kt_table_join(tables.candidates, "layers");
    kt_explain_linears_tables(cli, context, output, linears);
    if (tables.n_left_out > 0)
        kt_output_note(output, "Other backends refused these layers; -v shows why.");
    else if (kt_explain_linears_left_out(linears))
        kt_output_note(output, "Other backends refused these linears; -v shows why.");
    note_ignored(cli, output);
    int code = kt_output_finish(output, KT_EXIT_OK);
    if (n_failed > 0)
        code = kt_cli_error(cli, "%zu of %zu layers cannot be run, see the lines with an error", n_failed, n);
    return code;
}

static int explain(struct kt_cli *cli, const struct args *args, struct kt_context *context,
                   const struct sources *sources)
{
    uint64_t *layers = NULL;
    size_t n = 0;
    int code = KT_EXIT_OK;
    if (!kt_model_only_linears(sources->experts, args->layers) &&
        !kt_model_is_dense(sources->experts, args->layers))
        code = kt_model_layers(cli, sources->experts, "layers", args->layers, &layers, &n);
    if (code != KT_EXIT_OK)
        return code;
    struct plan *plans = kt_cli_alloc(cli, n + 1, sizeof(*plans));
    for (size_t i = 0; i < n && code == KT_EXIT_OK; i++)
        code = make_plan(cli, context, sources->experts, layers[i], args->max_tokens, &plans[i]);
    if (code == KT_EXIT_OK) {
        bool all = !args->layers || strcmp(args->layers, "all") == 0;
        struct kt_explain_linears *linears =
            kt_explain_linears_make(cli, context, sources->checkpoint, all ? NULL : layers, n,
                                    args->max_tokens);
        code = print(cli, args, context, sources, plans, n, linears);
        kt_explain_linears_free(linears);
    }
    free(plans);
    free(layers);
    return code;
}

static const struct kt_cli_option options[] =
    {KT_CLI_MODEL,
     KT_CLI_LAYERS,
     KT_CLI_BACKEND,
     KT_CLI_METHOD,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     OPTION_TEXT("experts", 0, experts, "PATH", "load the experts from this store or file of the same model"),
     OPTION_UINT("max-tokens", 0, max_tokens, 1, 1 << 20, "N",
                 "tokens per batch for which buffers are planned (default 512)"),
     {.name = NULL}};

const struct kt_cli_command kt_explain_command =
    {.usage = "MODEL [OPTION]...",
     .about =
         "For each layer with experts, shows the backend and level that would run it, its memory, and with "
         "-v the rejected backends and reasons. Shows the same for the model's linears (weights except "
         "experts and embeddings), and the memory of the whole model. No weights are read. Exit status 1 "
         "if a layer cannot be run.",
     .options = options,
     .opens_checkpoint = true};

int kt_cmd_explain(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.max_tokens = 512};
    struct sources sources;
    struct kt_checkpoint *experts = NULL;
    struct kt_context *context;
    if (!kt_cli_parse(cli, &kt_explain_command, argc, argv, &args))
        return cli->exit_code;
    int code = kt_cli_checkpoint(cli, args.model, &sources.checkpoint);
    if (code != KT_EXIT_OK)
        return code;
    if (args.experts)
        code = kt_cli_checkpoint(cli, args.experts, &experts);
    sources.experts = experts ? experts : sources.checkpoint;
    if (code == KT_EXIT_OK)
        code = kt_cli_context(cli, &context);
    if (code == KT_EXIT_OK) {
        code = kt_cli_check_backend(cli, context);
        if (code == KT_EXIT_OK)
            code = explain(cli, &args, context, &sources);
        kt_context_destroy(context);
    }
    kt_checkpoint_close(experts);
    kt_checkpoint_close(sources.checkpoint);
    return code;
}
