/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what models will take, before they are loaded. */
#include "tools/engine/model/config/config.h"
#include "tools/engine/serve/run.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void kt_run_model_params(const struct kt_run_model *from, struct kt_model_params *params)
{
    const struct kt_run_plan *plan = &from->plan;
    *params = (struct kt_model_params)KT_MODEL_PARAMS_INIT;
    params->max_tokens = plan->context;
    params->cache_tokens = plan->cache_tokens;
    params->max_sessions = plan->max_sessions;
    params->cache_dtype = plan->cache_dtype;
    params->experts = from->loaded.experts;
    params->n_logits = kt_scheduler_rows(plan->max_sessions / 2);
    params->mtp = plan->mtp;
}

/* The sizes with a cache of so many tokens. */
static int ask_sizes(struct kt_run_model *from, uint64_t cache_tokens)
{
    struct kt_model_params params;
    struct kt_error error;
    from->plan.cache_tokens = cache_tokens;
    kt_run_model_params(from, &params);
    return kt_model_plan(from->loaded.context, from->loaded.checkpoint, &params, &from->plan.sizes, &error) ==
                   KT_OK
               ? KT_EXIT_OK
               : kt_cli_fail(from->cli, &error);
}

/* The largest cache that --kv-size has room for. What a token takes is the difference of two plans: recurrent
 * states are in both. */
static int fit_cache(struct kt_run_model *from, const char *text)
{
    struct kt_run_plan *plan = &from->plan;
    uint64_t bytes, one;
    if (!kt_cli_size(text, &bytes))
        return kt_cli_usage(from->cli, "--kv-size '%s' is not a size; 8G or 500M are", text);
    int code = ask_sizes(from, plan->context);
    if (code != KT_EXIT_OK)
        return code;
    one = plan->sizes.cache_size;
    if (one > bytes)
        return kt_cli_error(from->cli,
                            "--kv-size %s is too small for a context of %" PRIu64
                            " tokens, which requires %.1f MiB; use --kv-size %" PRIu64
                            "M or a smaller --context",
                            text, plan->context, (double)one / 0x1p20, (one >> 20) + 1);
    code = ask_sizes(from, 2 * plan->context);
    if (code != KT_EXIT_OK)
        return code;
    double share = (double)(bytes - one) / (double)(plan->sizes.cache_size - one);
    return ask_sizes(from, plan->context + (uint64_t)(share * (double)plan->context));
}

static int fit_tokens(struct kt_run_model *from, uint64_t n)
{
    if (n < from->plan.context)
        return kt_cli_error(from->cli,
                            "--max-total-tokens %" PRIu64 " is too small for a context of %" PRIu64 " tokens",
                            n, from->plan.context);
    return ask_sizes(from, n);
}

/* A token has four characters or so, which JSON may escape; a few requests must not take the machine's
 * memory. */
static uint64_t choose_body(uint64_t context)
{
    const uint64_t least = UINT64_C(4) << 20;
    return 64 * context > least ? 64 * context : least;
}

static int make_plan(struct kt_run_model *from)
{
    const struct kt_run_args *args = from->args;
    struct kt_run_plan *plan = &from->plan;
    struct kt_engine_config config;
    struct kt_error error;
    if (kt_engine_config_read(from->loaded.checkpoint, &config, &error) != KT_OK)
        return kt_cli_fail(from->cli, &error);
    *plan = (struct kt_run_plan){.family = config.family->name,
                                 .n_layers = config.n_layers,
                                 .n_experts = config.n_experts,
                                 .context = args->context,
                                 .max_sessions = 2 * (uint32_t)args->max_running, /* half keep prefixes */
                                 .cache_dtype = kt_cache_dtypes[args->kv],
                                 .mtp = args->speculate == KT_SPECULATE_AUTO ||
                                        args->speculate == KT_SPECULATE_MTP};
    if (plan->context == 0)
        plan->context = config.context_length < KT_RUN_CONTEXT ? config.context_length : KT_RUN_CONTEXT;
    kt_engine_config_free(&config);
    if (args->max_tokens)
        return fit_tokens(from, args->max_tokens);
    return args->kv_size ? fit_cache(from, args->kv_size) : ask_sizes(from, 2 * plan->context);
}

static bool has_same_settings(const struct kt_cli *one, const struct kt_cli *other)
{
    size_t i = 0;
    while (i < one->n_settings && i < other->n_settings && strcmp(one->settings[i], other->settings[i]) == 0)
        i++;
    return i == one->n_settings && i == other->n_settings;
}

/* The threads of an earlier model with the same settings, on which they compute in turn, or own ones. */
static int find_context(struct kt_served *model)
{
    struct kt_run_model *from = model->from;
    for (struct kt_served *other = model->server->models.list; other < model; other++) {
        if (!has_same_settings(from->cli, other->from->cli))
            continue;
        from->shares_context = true;
        from->loaded.context = other->from->loaded.context;
        return KT_EXIT_OK;
    }
    return kt_cli_context(from->cli, &from->loaded.context);
}

int kt_run_make_plan(struct kt_served *model)
{
    struct kt_run_model *from = model->from;
    int code = find_context(model);
    if (code == KT_EXIT_OK)
        code = kt_cli_checkpoint(from->cli, from->cli->arguments[0], &from->loaded.checkpoint);
    if (code == KT_EXIT_OK && from->args->experts)
        code = kt_cli_checkpoint(from->cli, from->args->experts, &from->loaded.experts);
    if (code == KT_EXIT_OK)
        code = make_plan(from);
    if (code != KT_EXIT_OK)
        return code;
    uint64_t body = choose_body(from->plan.context);
    if (!from->args->max_body && model->server->max_body < body)
        model->server->max_body = body;
    model->info = from->plan.sizes.model;
    model->size = from->plan.sizes.total;
    model->created = (int64_t)time(NULL);
    return KT_EXIT_OK;
}

int kt_run_check_size(const struct kt_served *model)
{
    const double giga = 1e9;
    const struct kt_models *models = &model->server->models;
    uint64_t limit = models->limit, available = model->from->plan.sizes.available;
    if (limit && model->size > limit)
        return kt_cli_error(model->from->cli,
                            "%s: it requires %.3f GB of memory, and --max-memory allows %.3f GB; a smaller "
                            "--context or --kv-size requires less",
                            model->names[0], (double)model->size / giga, (double)limit / giga);
    /* One alone is about to be loaded, and says so by itself. */
    if (models->n > 1 && available && model->size > available)
        return kt_cli_error(model->from->cli,
                            "%s: it requires %.3f GB of memory, and %.3f GB are free; a smaller --context or "
                            "--kv-size requires less",
                            model->names[0], (double)model->size / giga, (double)available / giga);
    return KT_EXIT_OK;
}

/* ---- for people ---- */

static void show_model(struct kt_output *output, const struct kt_served *model)
{
    const struct kt_run_model *from = model->from;
    const struct kt_run_plan *plan = &from->plan;
    kt_output_fact_text(output, "model", "model", from->cli->arguments[0]);
    kt_output_fact_text(output, "name", "name", model->names[0]);
    kt_output_fact_text(output, "family", "family", plan->family);
    kt_output_fact_uint(output, "layers", "layers", plan->n_layers);
    if (plan->n_experts)
        kt_output_fact_uint(output, "experts", "experts of a layer", plan->n_experts);
    kt_output_fact_bytes(output, "weight_bytes", "weights", plan->sizes.weight_size);
    kt_output_fact_uint(output, "context", "context, tokens", plan->context);
    kt_output_fact_text(output, "kv", "keys and values", kt_dtype_name(kt_cache_dtypes[from->args->kv]));
    kt_output_fact_bytes(output, "kv_bytes", "room for them", plan->sizes.cache_size);
    kt_output_fact_uint(output, "kv_tokens", "that is, tokens", plan->cache_tokens);
    kt_output_fact_bytes(output, "total_bytes", "memory, together", plan->sizes.total);
}

static void show_models(struct kt_output *output, const struct kt_models *models)
{
    static const struct kt_column columns[] = {{"name", "NAME", KT_COLUMN_TEXT, 0, 0},
                                               {"family", "FAMILY", KT_COLUMN_TEXT, 0, 0},
                                               {"context", "CONTEXT", KT_COLUMN_UINT, 0, 0},
                                               {"weight_bytes", "WEIGHTS", KT_COLUMN_BYTES, 0, 0},
                                               {"kv_bytes", "KV", KT_COLUMN_BYTES, 0, 0},
                                               {"total_bytes", "MEMORY", KT_COLUMN_BYTES, 0, 0},
                                               {"kv_tokens", NULL, KT_COLUMN_UINT, 0, KT_COLUMN_HIDDEN},
                                               {"model", "MODEL", KT_COLUMN_TEXT, 0, KT_COLUMN_BELOW}};
    struct kt_table *table = kt_output_table(output, "rows", columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < models->n; i++) {
        const struct kt_served *model = &models->list[i];
        const struct kt_run_plan *plan = &model->from->plan;
        kt_table_row(table);
        kt_table_text(table, "name", model->names[0]);
        kt_table_text(table, "family", plan->family);
        kt_table_uint(table, "context", plan->context);
        kt_table_uint(table, "weight_bytes", plan->sizes.weight_size);
        kt_table_uint(table, "kv_bytes", plan->sizes.cache_size);
        kt_table_uint(table, "kv_tokens", plan->cache_tokens);
        kt_table_uint(table, "total_bytes", plan->sizes.total);
        kt_table_text(table, "model", model->from->cli->arguments[0]);
    }
}

int kt_run_show_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_server *server)
{
    const struct kt_models *models = &server->models;
    const struct kt_model_plan *sizes = &models->list->from->plan.sizes;
    struct kt_output *output = kt_output_create(cli, "kt.run", 1);
    char keys[32], port[8] = "any";
    if (args->port)
        (void)snprintf(port, sizeof(port), "%u", (unsigned)args->port);
    (void)snprintf(keys, sizeof(keys), "%zu", server->keys.n);
    if (models->n == 1)
        show_model(output, models->list);
    if (models->limit)
        kt_output_fact_bytes(output, "max_memory_bytes", "memory of models, at most", models->limit);
    if (sizes->available)
        kt_output_fact_bytes(output, "available_bytes", "memory that is free", sizes->available);
    if (models->n == 1)
        kt_output_fact_uint(output, "max_running", "requests at once", args->max_running);
    kt_output_fact_text(output, "host", "address", args->host);
    kt_output_fact_text(output, "port", "port", port);
    kt_output_fact_text(output, "keys", "API keys", server->keys.n ? keys : "none asked for");
    if (models->n > 1)
        show_models(output, models);
    return kt_output_finish(output, KT_EXIT_OK);
}
