/* SPDX-License-Identifier: Apache-2.0 */
/* experts_check.c - do the caller's experts, or those of a checkpoint, fit the layer? */
#include "core/layer/experts_check.h"

#include "core/base/error.h"
#include "core/weights/decode/dtype.h"
#include "core/weights/decode/scales_check.h"
#include "core/weights/decode/view.h"
#include "core/weights/weights.h"

#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kt_view *view_of(const struct kt_expert *expert, enum kt_projection projection)
{
    return projection == KT_GATE ? &expert->gate : projection == KT_UP ? &expert->up : &expert->down;
}

static const char *const projection_names[3] = {"gate", "up", "down"};

#define LABEL_SIZE 160

/* "layer 3, expert 5, gate", "blk.0.attn_q" of a linear. */
static const char *label_of(const struct kt_layer *layer, uint32_t e, enum kt_projection projection,
                            char label[LABEL_SIZE])
{
    if (kt_layer_is_linear(layer))
        (void)snprintf(label, LABEL_SIZE, "%s", layer->name);
    else
        (void)snprintf(label, LABEL_SIZE, "%s, expert %u, %s", layer->name, e, projection_names[projection]);
    return label;
}

static enum kt_status check_view(const struct kt_layer *layer, const struct kt_expert *first, uint32_t e,
                                 const struct kt_expert *expert, enum kt_projection projection,
                                 struct kt_error *error)
{
    const struct kt_view *view = view_of(expert, projection);
    const struct kt_layer_params *params = &layer->params;
    bool down = projection == KT_DOWN;
    uint64_t rows = down ? params->hidden_size : params->intermediate_size;
    uint64_t cols = down ? params->intermediate_size : params->hidden_size;
    char label[LABEL_SIZE];
    (void)label_of(layer, e, projection, label);
    if (!view->data)
        return kt_fail(error, KT_E_INVALID, "%s has no data%s", label,
                       kt_layer_is_linear(layer)
                           ? ""
                           : "; experts of a store are loaded by kt_layer_load_checkpoint");
    enum kt_status status = kt_view_check(view, error);
    if (status != KT_OK)
        return kt_fail_prefix(error, status, "%s", label);
    if (view->rows != rows || view->cols != cols)
        return kt_fail(error, KT_E_INVALID, "%s%s%s is %llu x %llu; the %s needs %llu x %llu", label,
                       view->name ? " " : "", view->name ? view->name : "", (unsigned long long)view->rows,
                       (unsigned long long)view->cols, kt_layer_is_linear(layer) ? "linear" : "layer",
                       (unsigned long long)rows, (unsigned long long)cols);
    struct kt_format format, wanted;
    kt_view_format(view, &format);
    kt_view_format(view_of(first, projection), &wanted);
    if (kt_dtype_needs_scales(format.dtype) && format.scale_dtype == KT_DTYPE_NONE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: %s weights cannot be decoded without scales; set view.scales", label,
                       kt_dtype_name(format.dtype));
    if (memcmp(&format, &wanted, sizeof format) != 0)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: %s of expert %u is %s, of expert 0 %s; experts of one layer must have the "
                       "same format",
                       layer->name, projection_names[projection], e, kt_dtype_name(format.dtype),
                       kt_dtype_name(wanted.dtype));
    return KT_OK;
}

enum kt_status kt_layer_check_experts(const struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, struct kt_error *error)
{
    if (n_experts != layer->params.n_experts)
        return kt_fail(error, KT_E_INVALID, "%s has %u experts, but %u were passed", layer->name,
                       layer->params.n_experts, n_experts);
    enum kt_status status = KT_OK;
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++) {
        const struct kt_expert *expert = &experts[e];
        for (int p = (int)kt_layer_first(layer); p <= KT_DOWN && status == KT_OK; p++)
            status = check_view(layer, experts, e, expert, (enum kt_projection)p, error);
        if (status == KT_OK && kt_layer_first(layer) == KT_UP && (expert->gate.data || expert->gate_bias))
            status = kt_fail(error, KT_E_INVALID,
                             "%s: expert %u has a gate, which activation %s does not use; leave it empty",
                             layer->name, e, kt_activation_name(layer->params.activation));
        if (status == KT_OK &&
            (!expert->gate_bias != !experts->gate_bias || !expert->up_bias != !experts->up_bias ||
             !expert->down_bias != !experts->down_bias))
            status = kt_fail(error, KT_E_INVALID,
                             "%s: expert %u and expert 0 differ in which biases they have", layer->name, e);
    }
    return status;
}

enum kt_status kt_layer_check_own(const struct kt_layer *layer, const struct kt_expert *experts,
                                  uint32_t n_experts, struct kt_error *error)
{
    enum kt_status status = kt_layer_check_experts(layer, experts, n_experts, error);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++)
        for (int p = (int)kt_layer_first(layer); p <= KT_DOWN && status == KT_OK; p++) {
            const struct kt_view *view = view_of(&experts[e], (enum kt_projection)p);
            char label[LABEL_SIZE];
            if (!view->scales.data)
                continue;
            if (kt_layer_is_linear(layer))
                (void)label_of(layer, e, KT_DOWN, label);
            else
                (void)snprintf(label, sizeof label, "%s, expert %u", layer->name, e);
            status = kt_scales_check(view, label, view->name ? view->name : projection_names[p], error);
        }
    return status;
}

enum kt_status kt_layer_check_moe(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                  uint64_t index, struct kt_error *error)
{
    const struct kt_layer_params *params = &layer->params;
    struct kt_moe_info info;
    enum kt_status status = kt_checkpoint_moe(checkpoint, index, &info, error);
    if (status == KT_OK && (info.n_experts != params->n_experts || info.hidden_size != params->hidden_size ||
                            info.intermediate_size != params->intermediate_size))
        return kt_fail(error, KT_E_INVALID,
                       "%s has %u experts of %llu x %llu, layer %llu of the checkpoint %u of %llu x %llu",
                       layer->name, params->n_experts, (unsigned long long)params->hidden_size,
                       (unsigned long long)params->intermediate_size, (unsigned long long)index,
                       info.n_experts, (unsigned long long)info.hidden_size,
                       (unsigned long long)info.intermediate_size);
    return status;
}

enum kt_status kt_layer_take_experts(const struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                     uint64_t index, struct kt_expert **experts, struct kt_error *error)
{
    uint32_t n_experts = layer->params.n_experts;
    enum kt_status status = kt_layer_check_moe(layer, checkpoint, index, error);
    if (status != KT_OK)
        return status;
    struct kt_expert *views = calloc(n_experts, sizeof *views);
    if (!views)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u views", layer->name, n_experts);
    status = kt_checkpoint_use(checkpoint, index, views, n_experts, error);
    if (status == KT_OK)
        *experts = views;
    else
        free(views);
    return status;
}

enum kt_status kt_checkpoint_layer_params(const struct kt_checkpoint *checkpoint, uint64_t index,
                                          struct kt_layer_params *params, struct kt_error *error)
{
    struct kt_moe_info moe;
    if (!params || params->struct_size < offsetof(struct kt_layer_params, name) + sizeof(char *))
        return kt_fail(error, KT_E_INVALID,
                       "kt_checkpoint_layer_params: params must be started with KT_LAYER_PARAMS_INIT");
    enum kt_status status = kt_checkpoint_moe(checkpoint, index, &moe, error);
    if (status != KT_OK)
        return status;
    params->n_experts = moe.n_experts;
    params->top_k = moe.top_k ? moe.top_k : 1;
    params->hidden_size = moe.hidden_size;
    params->intermediate_size = moe.intermediate_size;
    params->activation = moe.activation;
    params->limit = moe.limit;
    params->alpha = moe.alpha;
    return KT_OK;
}
