/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what a model will take, before it is loaded. */
#include "tools/engine/model/config/config.h"
#include "tools/engine/serve/run.h"
#include "tools/kt/base/table.h"

#include <inttypes.h>
#include <stdio.h>

static const uint32_t dtypes[] = {KT_DTYPE_BF16, KT_DTYPE_Q8_0, KT_DTYPE_F32};
static const char *const dtype_names[] = {"bf16", "q8_0", "f32"};

void kt_run_model_params(const struct kt_run_plan *plan, struct kt_model_params *params)
{
    *params = (struct kt_model_params)KT_MODEL_PARAMS_INIT;
    params->max_tokens = plan->context;
    params->cache_tokens = plan->cache_tokens;
    params->max_sessions = plan->max_sessions;
    params->cache_dtype = plan->cache_dtype;
    params->experts = plan->experts;
    params->n_logits = kt_scheduler_rows(plan->max_sessions / 2);
    params->mtp = plan->mtp;
}

/* The sizes with a cache of so many tokens. */
static int ask_sizes(const struct kt_cli *cli, const struct kt_server *server, struct kt_run_plan *plan,
                     uint64_t cache_tokens)
{
    struct kt_model_params params;
    struct kt_error error;
    plan->cache_tokens = cache_tokens;
    kt_run_model_params(plan, &params);
    return kt_model_plan(server->loaded.context, server->loaded.checkpoint, &params, &plan->sizes, &error) ==
                   KT_OK
               ? KT_EXIT_OK
               : kt_cli_fail(cli, &error);
}

/* The largest cache that --kv-size has room for. What a token takes is the difference of two plans: recurrent
 * states are in both. */
static int fit_cache(const struct kt_cli *cli, const char *text, const struct kt_server *server,
                     struct kt_run_plan *plan)
{
    uint64_t bytes, one;
    if (!kt_cli_size(text, &bytes))
        return kt_cli_usage(cli, "--kv-size '%s' is not a size; 8G or 500M are", text);
    int code = ask_sizes(cli, server, plan, plan->context);
    if (code != KT_EXIT_OK)
        return code;
    one = plan->sizes.cache_size;
    if (one > bytes)
        return kt_cli_error(cli,
                            "--kv-size %s is too small for a context of %" PRIu64
                            " tokens, which requires %.1f MiB; use --kv-size %" PRIu64
                            "M or a smaller --context",
                            text, plan->context, (double)one / 0x1p20, (one >> 20) + 1);
    code = ask_sizes(cli, server, plan, 2 * plan->context);
    if (code != KT_EXIT_OK)
        return code;
    double share = (double)(bytes - one) / (double)(plan->sizes.cache_size - one);
    return ask_sizes(cli, server, plan, plan->context + (uint64_t)(share * (double)plan->context));
}

static int fit_tokens(const struct kt_cli *cli, uint64_t n, const struct kt_server *server,
                      struct kt_run_plan *plan)
{
    if (n < plan->context)
        return kt_cli_error(cli,
                            "--max-total-tokens %" PRIu64 " is too small for a context of %" PRIu64 " tokens",
                            n, plan->context);
    return ask_sizes(cli, server, plan, n);
}

/* A token has four characters or so, which JSON may escape; a few requests must not take the machine's
 * memory. */
static uint64_t choose_body(uint64_t context)
{
    const uint64_t least = UINT64_C(4) << 20;
    return 64 * context > least ? 64 * context : least;
}

int kt_run_make_plan(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server,
                     struct kt_run_plan *plan)
{
    struct kt_engine_config config;
    struct kt_error error;
    if (kt_engine_config_read(server->loaded.checkpoint, &config, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    *plan = (struct kt_run_plan){.family = config.family->name,
                                 .n_layers = config.n_layers,
                                 .n_experts = config.n_experts,
                                 .context = args->context,
                                 .max_sessions = 2 * (uint32_t)args->max_running, /* half keep prefixes */
                                 .cache_dtype = dtypes[args->kv],
                                 .mtp = args->speculate == KT_SPECULATE_AUTO ||
                                        args->speculate == KT_SPECULATE_MTP,
                                 .experts = server->loaded.experts};
    if (plan->context == 0)
        plan->context = config.context_length < KT_RUN_CONTEXT ? config.context_length : KT_RUN_CONTEXT;
    kt_engine_config_free(&config);
    if (server->max_body == 0)
        server->max_body = choose_body(plan->context);
    if (args->max_tokens)
        return fit_tokens(cli, args->max_tokens, server, plan);
    return args->kv_size ? fit_cache(cli, args->kv_size, server, plan)
                         : ask_sizes(cli, server, plan, 2 * plan->context);
}

int kt_run_show_plan(struct kt_cli *cli, const struct kt_run_args *args, const struct kt_server *server,
                     const struct kt_run_plan *plan)
{
    struct kt_output *output = kt_output_create(cli, "kt.run", 1);
    char keys[32], port[8] = "any";
    if (args->port)
        (void)snprintf(port, sizeof(port), "%u", (unsigned)args->port);
    (void)snprintf(keys, sizeof(keys), "%zu", server->keys.n);
    kt_output_fact_text(output, "model", "model", cli->arguments[0]);
    kt_output_fact_text(output, "name", "name", server->names[0]);
    kt_output_fact_text(output, "family", "family", plan->family);
    kt_output_fact_uint(output, "layers", "layers", plan->n_layers);
    if (plan->n_experts)
        kt_output_fact_uint(output, "experts", "experts of a layer", plan->n_experts);
    kt_output_fact_bytes(output, "weight_bytes", "weights", plan->sizes.weight_size);
    kt_output_fact_uint(output, "context", "context, tokens", plan->context);
    kt_output_fact_text(output, "kv", "keys and values", dtype_names[args->kv]);
    kt_output_fact_bytes(output, "kv_bytes", "room for them", plan->sizes.cache_size);
    kt_output_fact_uint(output, "kv_tokens", "that is, tokens", plan->cache_tokens);
    kt_output_fact_bytes(output, "total_bytes", "memory, together", plan->sizes.total);
    if (plan->sizes.available)
        kt_output_fact_bytes(output, "available_bytes", "memory that is free", plan->sizes.available);
    kt_output_fact_uint(output, "max_running", "requests at once", args->max_running);
    kt_output_fact_text(output, "host", "address", args->host);
    kt_output_fact_text(output, "port", "port", port);
    kt_output_fact_text(output, "keys", "API keys", server->keys.n ? keys : "none asked for");
    return kt_output_finish(output, KT_EXIT_OK);
}
