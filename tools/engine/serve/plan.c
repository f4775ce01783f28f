/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what a model will take, before it is loaded. */
#include "tools/engine/model/config/config.h"
#include "tools/engine/serve/run.h"
#include "tools/kt/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_CONTEXT \
    32768 /* where nobody says more: keys and values of a context are allocated at the start */

static const uint32_t dtypes[] = {KT_DTYPE_BF16, KT_DTYPE_Q8_0, KT_DTYPE_F32};
static const char *const dtype_names[] = {"bf16", "q8_0", "f32"};

/* Bytes of n values, which Q8_0 has in blocks of 32 with a scale of two bytes. */
static uint64_t measure(uint32_t dtype, uint64_t n)
{
    if (dtype == KT_DTYPE_Q8_0)
        return (n + 31) / 32 * 34;
    return n * (dtype == KT_DTYPE_F32 ? 4 : 2);
}

static int size_cache(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_run_plan *plan)
{
    uint64_t bytes;
    plan->cache_tokens = 2 * plan->context;
    if (args->kv_size) {
        if (!kt_run_size(args->kv_size, &bytes))
            return kt_cli_usage(cli, "--kv-size '%s' is no size; 8G or 500M are", args->kv_size);
        plan->cache_tokens = plan->token_bytes ? bytes / plan->token_bytes : 0;
        if (plan->cache_tokens < plan->context)
            return kt_cli_error(cli,
                                "--kv-size %s has room for %" PRIu64 " tokens of %" PRIu64
                                " bytes, less than a context of %" PRIu64 "; say --context %" PRIu64
                                " or less",
                                args->kv_size, plan->cache_tokens, plan->token_bytes, plan->context,
                                plan->cache_tokens);
    }
    plan->cache_bytes = plan->cache_tokens * plan->token_bytes;
    return KT_EXIT_OK;
}

/* Keys and values of a token, of all layers that have some. */
static uint64_t count_token_bytes(const struct kt_engine_config *config, uint32_t dtype)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < config->n_layers; i++)
        if (config->layers[i].mixer == KT_MIXER_ATTENTION)
            bytes += UINT64_C(2) * config->attention.n_kv_heads * measure(dtype, config->attention.head_size);
    return bytes;
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
                                 .cache_dtype = dtypes[args->kv]};
    if (plan->context == 0)
        plan->context = config.context_length < MOST_CONTEXT ? config.context_length : MOST_CONTEXT;
    plan->token_bytes = count_token_bytes(&config, plan->cache_dtype);
    uint64_t longest = config.context_length;
    kt_engine_config_free(&config);
    if (plan->context > longest)
        return kt_cli_error(cli,
                            "--context %" PRIu64 " is more than the %" PRIu64 " that the model was made for",
                            plan->context, longest);
    return size_cache(cli, args, plan);
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
    kt_output_fact_uint(output, "context", "context, tokens", plan->context);
    kt_output_fact_text(output, "kv", "keys and values", dtype_names[args->kv]);
    kt_output_fact_bytes(output, "kv_bytes", "room for them", plan->cache_bytes);
    kt_output_fact_uint(output, "kv_tokens", "that is, tokens", plan->cache_tokens);
    kt_output_fact_uint(output, "max_running", "requests at once", args->max_running);
    kt_output_fact_text(output, "host", "address", args->host);
    kt_output_fact_text(output, "port", "port", port);
    kt_output_fact_text(output, "keys", "API keys", server->keys.n ? keys : "none asked for");
    return kt_output_finish(output, KT_EXIT_OK);
}
