/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - asks libktengine for the plan of a whole model. */
#include "tools/kt/checkpoint/whole.h"

#include <dlfcn.h>
#include <kt/engine.h>
#include <stdio.h>

typedef enum kt_status (*plan_fn)(struct kt_context *context, struct kt_checkpoint *checkpoint,
                                  const struct kt_model_params *params, struct kt_model_plan *plan,
                                  struct kt_error *error);

typedef enum kt_status (*plan_config_fn)(struct kt_context *context, const char *json, uint64_t size,
                                         const struct kt_model_params *params, struct kt_model_plan *plan,
                                         struct kt_error *error);

/* A function of libktengine, or NULL. The library is never closed: kt ends soon. */
static void *find_function(const char *name)
{
    void *library = dlopen(KT_ENGINE_SONAME, RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

/* A token goes through all but the experts that are not chosen. */
static uint64_t count_read(const struct kt_model_info *model)
{
    uint64_t chosen = model->n_experts > 0 ? model->expert_bytes / model->n_experts * model->top_k : 0;
    return model->dense_bytes + chosen;
}

static void add_sizes(struct kt_output *output, const struct kt_model_plan *plan)
{
    if (plan->attention_tuned[0])
        kt_output_fact_text(output, "attention_tuned", "attention tuned", plan->attention_tuned);
    kt_output_fact_uint(output, "cache_tokens", "tokens cached", plan->max_tokens);
    kt_output_fact_bytes(output, "cache_bytes", "cache", plan->cache_size);
    kt_output_fact_bytes(output, "model_weight_bytes", "model weights", plan->weight_size);
    kt_output_fact_bytes(output, "model_buffer_bytes", "model buffers", plan->buffer_size);
    kt_output_fact_bytes(output, "row_bytes", "norms, rows", plan->row_size);
    kt_output_fact_bytes(output, "mapped_bytes", "read in files", plan->mapped_size);
    kt_output_fact_bytes(output, "model_bytes", "whole model", plan->total);
    kt_output_fact_bytes(output, "token_bytes", "a token reads", count_read(&plan->model));
}

static void add_problem(struct kt_output *output, const char *what, const char *message)
{
    char text[sizeof(struct kt_error) + 64];
    snprintf(text, sizeof(text), "%s: %s.", what, message);
    kt_output_note(output, text); /* long: it is wrapped */
    kt_output_fact_text(output, "model_error", NULL, message);
}

static void add_name(struct kt_output *output, const struct kt_model_plan *plan)
{
    if (!plan->model.family)
        return;
    kt_output_fact_text(output, "family", "family", plan->model.family);
    kt_output_fact_uint(output, "context_length", "context", plan->model.context_length);
}

static bool add_family(struct kt_output *output, struct kt_context *context, struct kt_checkpoint *checkpoint,
                       struct kt_checkpoint *experts, struct kt_model_plan *plan)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_error error;
    plan_fn function = (plan_fn)(uintptr_t)find_function("kt_model_plan");
    if (!function)
        return false;
    params.experts = experts;
    bool fails = function(context, checkpoint, &params, plan, &error) != KT_OK;
    add_name(output, plan);
    if (fails)
        add_problem(output, "kt generate cannot run it", error.message);
    return !fails;
}

void kt_whole_family(const struct kt_cli *cli, struct kt_output *output, struct kt_checkpoint *checkpoint,
                     struct kt_checkpoint *experts)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_model_plan plan;
    struct kt_context *context = NULL;
    struct kt_config *config = NULL;
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    if (kt_config_create(&params, &config, NULL) == KT_OK &&
        kt_context_create(config, &context, NULL) == KT_OK)
        (void)add_family(output, context, checkpoint, experts, &plan);
    kt_context_destroy(context);
    kt_config_destroy(config);
}

static void add_memory(struct kt_output *output, const struct kt_model_plan *plan)
{
    char needed[24], available[24], text[96];
    add_sizes(output, plan);
    kt_output_fact_bytes(output, "available_bytes", "free memory", plan->available);
    if (plan->available == 0 || plan->total <= plan->available)
        return;
    snprintf(text, sizeof(text), "%s of memory are needed, %s are free",
             kt_bytes_text(plan->total, needed, sizeof(needed)),
             kt_bytes_text(plan->available, available, sizeof(available)));
    add_problem(output, "It does not fit here", text);
}

int kt_whole_config(const struct kt_cli *cli, struct kt_output *output, const char *json, uint64_t size)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_model_params model = KT_MODEL_PARAMS_INIT;
    struct kt_model_plan plan = {.total = 0};
    struct kt_context *context = NULL;
    struct kt_config *config = NULL;
    struct kt_error error;
    int code = KT_EXIT_OK;
    plan_config_fn function = (plan_config_fn)(uintptr_t)find_function("kt_model_plan_config");
    if (!function)
        return kt_cli_error(
            cli, "there are no files of weights; what config.json says is known to " KT_ENGINE_SONAME
                 ", which is not installed");
    params.file = cli->config_file;
    params.settings = cli->settings;
    params.n_settings = cli->n_settings;
    enum kt_status status = kt_config_create(&params, &config, &error);
    if (status == KT_OK)
        status = kt_context_create(config, &context, &error);
    if (status == KT_OK) {
        status = function(context, json, size, &model, &plan, &error);
        add_name(output, &plan);
        if (status == KT_OK)
            add_memory(output, &plan);
        else if (status == KT_E_NOT_FOUND)
            add_problem(output, "The memory that it needs is not known", error.message);
        else
            add_problem(output, "kt generate cannot run it", error.message);
    } else {
        code = kt_cli_fail(cli, &error);
    }
    kt_context_destroy(context);
    kt_config_destroy(config);
    return code;
}

void kt_whole_sizes(struct kt_output *output, struct kt_context *context, struct kt_checkpoint *checkpoint,
                    struct kt_checkpoint *experts)
{
    struct kt_model_plan plan;
    if (add_family(output, context, checkpoint, experts, &plan))
        add_sizes(output, &plan);
}
