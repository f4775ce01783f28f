/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - asks libktengine for the plan of a whole model. */
#include "tools/kt/checkpoint/whole.h"

#include <dlfcn.h>
#include <kt/engine.h>
#include <stdio.h>

typedef enum kt_status (*plan_fn)(struct kt_context *context, struct kt_checkpoint *checkpoint,
                                  const struct kt_model_params *params, struct kt_model_plan *plan,
                                  struct kt_error *error);

/* kt_model_plan, or NULL. The library is never closed: kt ends soon. */
static plan_fn find_plan(void)
{
    void *library = dlopen(KT_ENGINE_SONAME, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "kt_model_plan") : NULL;
    return (plan_fn)(uintptr_t)symbol;
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

static bool add_family(struct kt_output *output, struct kt_context *context, struct kt_checkpoint *checkpoint,
                       struct kt_checkpoint *experts, struct kt_model_plan *plan)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_error error;
    char text[sizeof(error.message) + 32];
    plan_fn function = find_plan();
    if (!function)
        return false;
    params.experts = experts;
    bool fails = function(context, checkpoint, &params, plan, &error) != KT_OK;
    if (plan->model.family) {
        kt_output_fact_text(output, "family", "family", plan->model.family);
        kt_output_fact_uint(output, "context_length", "context", plan->model.context_length);
    }
    if (fails) {
        snprintf(text, sizeof(text), "kt generate cannot run it: %s.", error.message);
        kt_output_note(output, text); /* long: it is wrapped */
        kt_output_fact_text(output, "model_error", NULL, error.message);
    }
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

void kt_whole_sizes(struct kt_output *output, struct kt_context *context, struct kt_checkpoint *checkpoint,
                    struct kt_checkpoint *experts)
{
    struct kt_model_plan plan;
    if (add_family(output, context, checkpoint, experts, &plan))
        add_sizes(output, &plan);
}
