/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - making and loading linears. */
#include "core/layer/linear.h"

#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/load.h"
#include "core/layer/plan.h"
#include "core/machine/pool.h"
#include "core/weights/store/store_read.h"
#include "core/weights/weights.h"

#include <stddef.h>
#include <stdlib.h>

static enum kt_status check_params(const struct kt_linear_params *params, struct kt_error *error)
{
    const char *name = params->name ? params->name : "linear";
    enum kt_status status = kt_layer_check_range(name, "rows", params->rows, KT_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_layer_check_range(name, "cols", params->cols, KT_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_layer_check_range(name, "max_tokens", params->max_tokens, KT_MAX_TOKENS, error);
    if (status == KT_OK && params->split > KT_SPLIT_COLS)
        status = kt_fail(error, KT_E_INVALID, "%s: split is %u; KT_SPLIT_ROWS and KT_SPLIT_COLS are possible",
                         name, params->split);
    return status;
}

enum kt_status kt_linear_create(struct kt_context *context, const struct kt_linear_params *params,
                                struct kt_linear **out, struct kt_error *error)
{
    if (!context || !params || !out)
        return kt_fail(error, KT_E_INVALID, "kt_linear_create: context, params and linear must not be NULL");
    if (params->struct_size < offsetof(struct kt_linear_params, name) + sizeof(char *))
        return kt_fail(error, KT_E_INVALID,
                       "kt_linear_create: struct_size %zu is too small; start with KT_LINEAR_PARAMS_INIT",
                       params->struct_size);
    enum kt_status status = check_params(params, error);
    if (status != KT_OK)
        return status;
    struct kt_linear *linear = calloc(1, sizeof *linear);
    if (!linear)
        return kt_fail(error, KT_E_NOMEM, "no memory for a linear");
    struct kt_layer_params as_layer = KT_LAYER_PARAMS_INIT;
    as_layer.n_experts = as_layer.top_k = 1;
    as_layer.hidden_size = params->rows;
    as_layer.intermediate_size = params->cols;
    as_layer.max_tokens = params->max_tokens < KT_GROUP_ROWS ? params->max_tokens : KT_GROUP_ROWS;
    as_layer.activation = KT_ACTIVATION_NONE;
    as_layer.backend = params->backend;
    as_layer.name = params->name ? params->name : "linear";
    as_layer.stored =
        params->struct_size >= offsetof(struct kt_linear_params, stored) + sizeof(int) && params->stored;
    status = kt_layer_make(context, &as_layer, &linear->layer, error);
    if (status != KT_OK) {
        free(linear);
        return status;
    }
    linear->layer->splits_rows = params->split == KT_SPLIT_ROWS && context->pool->n_nodes > 1;
    *out = linear;
    return KT_OK;
}

/* Its weights stay as they are until others are loaded. */
static void forget_checkpoint(struct kt_linear *linear)
{
    kt_checkpoint_close(linear->checkpoint);
    linear->checkpoint = NULL;
}

void kt_linear_destroy(struct kt_linear *linear)
{
    if (!linear)
        return;
    kt_layer_destroy(linear->layer);
    forget_checkpoint(linear);
    free(linear);
}

enum kt_status kt_linear_plan(struct kt_linear *linear, const struct kt_view *weight, int has_bias,
                              struct kt_plan *plan, struct kt_error *error)
{
    static const float some_bias = 0;
    if (!linear || !weight || !plan)
        return kt_fail(error, KT_E_INVALID, "kt_linear_plan: linear, weight and plan must not be NULL");
    struct kt_expert example = kt_linear_expert(weight, has_bias ? &some_bias : NULL);
    return kt_layer_plan(linear->layer, &example, plan, error);
}

enum kt_status kt_linear_load(struct kt_linear *linear, const struct kt_view *weight, const float *bias,
                              struct kt_error *error)
{
    if (!linear || !weight)
        return kt_fail(error, KT_E_INVALID, "kt_linear_load: linear and weight must not be NULL");
    struct kt_expert expert = kt_linear_expert(weight, bias);
    enum kt_status status = kt_layer_load_views(linear->layer, &expert, 1, NULL, error);
    forget_checkpoint(linear);
    return status;
}

/* Has the store a linear of this size? */
static enum kt_status check_size(const struct kt_linear *linear, const struct kt_checkpoint *checkpoint,
                                 const struct kt_stored *stored, struct kt_error *error)
{
    const struct kt_layer_params *params = &linear->layer->params;
    if (stored->rows == params->hidden_size && stored->cols == params->intermediate_size)
        return KT_OK;
    return kt_fail(error, KT_E_INVALID,
                   "%s: linear \"%s\" is %llu x %llu in %s; the linear needs %llu x %llu",
                   linear->layer->name, stored->linear, (unsigned long long)stored->rows,
                   (unsigned long long)stored->cols, checkpoint->part[stored->part].file.label,
                   (unsigned long long)params->hidden_size, (unsigned long long)params->intermediate_size);
}

enum kt_status kt_linear_plan_checkpoint(struct kt_linear *linear, struct kt_checkpoint *checkpoint,
                                         const char *name, struct kt_plan *plan, struct kt_error *error)
{
    struct kt_view weight;
    const float *bias;
    if (!linear || !checkpoint || !name || !plan)
        return kt_fail(error, KT_E_INVALID,
                       "kt_linear_plan_checkpoint: linear, checkpoint, name and plan must not be NULL");
    const struct kt_stored *stored = kt_stored_linear(checkpoint, name);
    enum kt_status status = stored ? check_size(linear, checkpoint, stored, error) : KT_OK;
    if (status == KT_OK)
        status = kt_checkpoint_weight(checkpoint, name, &weight, &bias, error);
    if (status != KT_OK)
        return status;
    struct kt_expert example = kt_linear_expert(&weight, bias);
    return kt_layer_plan_weights(linear->layer, NULL, stored, &example, plan, error);
}

static enum kt_status load_named(struct kt_linear *linear, struct kt_checkpoint *checkpoint, const char *name,
                                 bool *kept, struct kt_error *error)
{
    struct kt_view weight;
    const float *bias;
    const struct kt_stored *stored = kt_stored_linear(checkpoint, name);
    enum kt_status status = stored ? check_size(linear, checkpoint, stored, error) : KT_OK;
    if (status == KT_OK)
        status = kt_checkpoint_weight(checkpoint, name, &weight, &bias, error);
    if (status != KT_OK) {
        kt_layer_unload(linear->layer);
        return status;
    }
    struct kt_expert expert = kt_linear_expert(&weight, bias);
    if (!stored)
        return kt_layer_load_views(linear->layer, &expert, 1, kept, error);
    status = kt_layer_load_packed(linear->layer, checkpoint, stored, &expert, error);
    *kept = status == KT_OK;
    return status;
}

enum kt_status kt_linear_load_checkpoint(struct kt_linear *linear, struct kt_checkpoint *checkpoint,
                                         const char *name, struct kt_error *error)
{
    bool kept = false;
    if (!linear || !checkpoint || !name)
        return kt_fail(error, KT_E_INVALID,
                       "kt_linear_load_checkpoint: linear, checkpoint and name must not be NULL");
    enum kt_status status = load_named(linear, checkpoint, name, &kept, error);
    forget_checkpoint(linear);
    if (kept) {
        kt_checkpoint_retain(checkpoint);
        linear->checkpoint = checkpoint;
    }
    return status;
}

void kt_linear_info(const struct kt_linear *linear, struct kt_linear_info *info)
{
    struct kt_layer_info of;
    kt_layer_info(linear->layer, &of);
    *info = (struct kt_linear_info){
        .backend = of.backend,
        .level = of.level,
        .instruction = of.instruction,
        .packed_size = of.packed_size,
        .nominal_size = of.nominal_size,
        .rows = of.hidden_size,
        .cols = of.intermediate_size,
        .rounding = of.rounding,
    };
}

enum kt_status kt_linear_weights(const struct kt_linear *linear, uint64_t row, uint64_t n_rows, float *out,
                                 struct kt_error *error)
{
    if (!linear)
        return kt_fail(error, KT_E_INVALID, "kt_linear_weights: linear must not be NULL");
    return kt_layer_weights(linear->layer, 0, KT_DOWN, row, n_rows, out, error);
}
