/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c - creating, describing and destroying a layer. */
#include "core/layer/layer.h"

#include "core/base/error.h"
#include "core/context/context.h"
#include "core/machine/queue.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXPERTS 65536

enum kt_status kt_layer_check_range(const char *name, const char *what, uint64_t value, uint64_t maximum,
                                    struct kt_error *error)
{
    if (value >= 1 && value <= maximum)
        return KT_OK;
    return kt_fail(error, KT_E_INVALID, "%s: %s is %llu; 1 to %llu is allowed", name, what,
                   (unsigned long long)value, (unsigned long long)maximum);
}

static enum kt_status check_activation(const char *name, const struct kt_layer_params *params,
                                       struct kt_error *error)
{
    uint32_t activation = params->activation;
    bool clamps = activation == KT_ACTIVATION_SWIGLU || activation == KT_ACTIVATION_SWIGLUOAI ||
                  activation == KT_ACTIVATION_SWIGLUSTEP;
    if (!kt_activation_of_experts(activation))
        return kt_fail(error, KT_E_INVALID, "%s: activation %u is unknown", name, activation);
    if (clamps && !(params->limit > 0))
        return kt_fail(error, KT_E_INVALID, "%s: activation %s needs a limit above 0, not %g", name,
                       kt_activation_name(activation), (double)params->limit);
    if (activation == KT_ACTIVATION_SWIGLUOAI && !isfinite(params->alpha))
        return kt_fail(error, KT_E_INVALID, "%s: alpha must be finite", name);
    if (activation == KT_ACTIVATION_SITU &&
        !(params->alpha > 0 && isfinite(params->alpha) && params->limit >= 0 && isfinite(params->limit)))
        return kt_fail(
            error, KT_E_INVALID,
            "%s: activation situ needs a finite alpha above 0 and a finite limit of at least 0, not "
            "%g and %g",
            name, (double)params->alpha, (double)params->limit);
    return KT_OK;
}

static enum kt_status check_params(const struct kt_layer_params *params, struct kt_error *error)
{
    const char *name = params->name ? params->name : "layer";
    enum kt_status status = kt_layer_check_range(name, "n_experts", params->n_experts, MAX_EXPERTS, error);
    if (status == KT_OK)
        status = kt_layer_check_range(name, "top_k", params->top_k, params->n_experts, error);
    if (status == KT_OK)
        status = kt_layer_check_range(name, "hidden_size", params->hidden_size, KT_MAX_SIZE, error);
    if (status == KT_OK)
        status =
            kt_layer_check_range(name, "intermediate_size", params->intermediate_size, KT_MAX_SIZE, error);
    if (status == KT_OK)
        status = kt_layer_check_range(name, "max_tokens", params->max_tokens, KT_MAX_TOKENS, error);
    /* Rows are numbered with 32 bits. */
    if (status == KT_OK && (uint64_t)params->max_tokens * params->top_k > UINT32_MAX / 4)
        status = kt_fail(error, KT_E_INVALID, "%s: max_tokens %u times top_k %u is over %u", name,
                         params->max_tokens, params->top_k, UINT32_MAX / 4);
    for (uint32_t i = 0; status == KT_OK && params->expert_map && i < params->n_experts; i++)
        if (params->expert_map[i] < 0 || params->expert_map[i] >= params->n_experts)
            status = kt_fail(error, KT_E_RANGE, "%s: expert_map[%u] is %lld; the layer has experts 0 to %u",
                             name, i, (long long)params->expert_map[i], params->n_experts - 1);
    return status;
}

static enum kt_status copy_params(struct kt_layer *layer, struct kt_error *error)
{
    struct kt_layer_params *params = &layer->params;
    layer->name = strdup(params->name ? params->name : "layer");
    params->name = layer->name;
    if (params->backend && (params->backend = strdup(params->backend)) == NULL)
        return kt_fail(error, KT_E_NOMEM, "no memory for a layer");
    if (params->expert_map) {
        size_t size = params->n_experts * sizeof *layer->expert_map;
        layer->expert_map = malloc(size);
        if (!layer->expert_map)
            return kt_fail(error, KT_E_NOMEM, "no memory for a layer");
        memcpy(layer->expert_map, params->expert_map, size);
        params->expert_map = layer->expert_map;
    }
    if (!layer->name)
        return kt_fail(error, KT_E_NOMEM, "no memory for a layer");
    return kt_usage_create(&layer->usage, params->n_experts, error);
}

enum kt_status kt_layer_create(struct kt_context *context, const struct kt_layer_params *given,
                               struct kt_layer **out, struct kt_error *error)
{
    if (!context || !given || !out)
        return kt_fail(error, KT_E_INVALID, "kt_layer_create: context, params and layer must not be NULL");
    if (given->struct_size < offsetof(struct kt_layer_params, name) + sizeof(char *))
        return kt_fail(error, KT_E_INVALID,
                       "kt_layer_create: struct_size %zu is too small; start with KT_LAYER_PARAMS_INIT",
                       given->struct_size);
    const char *name = given->name ? given->name : "layer";
    enum kt_status status = check_activation(name, given, error);
    return status == KT_OK ? kt_layer_make(context, given, out, error) : status;
}

enum kt_status kt_layer_make(struct kt_context *context, const struct kt_layer_params *given,
                             struct kt_layer **out, struct kt_error *error)
{
    enum kt_status status = check_params(given, error);
    if (status != KT_OK)
        return status;
    struct kt_layer *layer = calloc(1, sizeof *layer);
    if (!layer)
        return kt_fail(error, KT_E_NOMEM, "no memory for a layer");
    layer->context = kt_context_retain(context);
    memcpy(&layer->params, given,
           given->struct_size < sizeof layer->params ? given->struct_size : sizeof layer->params);
    if ((status = copy_params(layer, error)) != KT_OK) {
        kt_layer_destroy(layer);
        return status;
    }
    *out = layer;
    return KT_OK;
}

static void free_check(struct kt_lazy_check *check)
{
    if (!check)
        return;
    free(check->wanted);
    free(check->done);
    free(check);
}

void kt_layer_unload(struct kt_layer *layer)
{
    for (uint32_t n = 0; n < layer->n_shards; n++) {
        struct kt_shard *shard = &layer->shard[n];
        if (shard->begin < shard->end && kt_layer_ops(layer)->release_layout)
            kt_layer_ops(layer)->release_layout(layer->backend->instance, &shard->layout);
        (void)atomic_fetch_sub(&layer->context->packed_size, shard->weights.size);
        kt_buffer_destroy(&shard->weights);
        free(shard->source);
        for (int p = 0; p < 3; p++)
            free(shard->bias[p]);
    }
    free(layer->shard);
    free(layer->source_copy);
    free_check(layer->check);
    if (layer->checkpoint)
        kt_checkpoint_unuse(layer->checkpoint, layer->checkpoint_layer);
    kt_checkpoint_close(layer->checkpoint);
    layer->shard = NULL;
    layer->check = NULL;
    layer->n_shards = 0;
    layer->source_copy = NULL;
    layer->checkpoint = NULL;
    layer->backend = NULL;
    layer->loaded = false;
    layer->packed_size = layer->nominal_size = 0;
    memset(layer->tuning, 0, sizeof layer->tuning);
    layer->rounding[0] = '\0';
}

void kt_layer_destroy(struct kt_layer *layer)
{
    if (!layer)
        return;
    if (atomic_load(&layer->outstanding))
        kt_queue_drain(layer->context->queue);
    kt_layer_unload(layer);
    kt_context_destroy(layer->context);
    free((char *)layer->params.backend);
    free(layer->expert_map);
    kt_usage_destroy(&layer->usage);
    kt_recorder_destroy(layer->recording.recorder);
    free(layer->name);
    free(layer);
}

/* The instruction that multiplies: that of a shard's layout, else that of the level. */
static const char *find_instruction(const struct kt_layer *layer)
{
    for (uint32_t s = 0; s < layer->n_shards; s++)
        if (layer->shard[s].begin < layer->shard[s].end && layer->shard[s].layout.instruction)
            return layer->shard[s].layout.instruction;
    return layer->backend->level->instruction;
}

void kt_layer_info(const struct kt_layer *layer, struct kt_layer_info *info)
{
    *info = (struct kt_layer_info){
        .backend = layer->backend ? layer->backend->name : "",
        .level = layer->backend ? layer->backend->level->name : "",
        .instruction = layer->backend ? find_instruction(layer) : "",
        .packed_size = layer->packed_size,
        .nominal_size = layer->nominal_size,
        .n_experts = layer->params.n_experts,
        .top_k = layer->params.top_k,
        .hidden_size = layer->params.hidden_size,
        .intermediate_size = layer->params.intermediate_size,
        .rounding = layer->rounding,
    };
}
