/* SPDX-License-Identifier: Apache-2.0 */
/* store_choose.c - checks a call that stores, and selects the backend that packs. */
#include "core/layer/store_choose.h"

#include "core/base/error.h"

#include <string.h>

enum kt_status kt_store_check(const char *function, const struct kt_layer *layer, const void *source,
                              const struct kt_store_params *params, struct kt_error *error)
{
    if (!layer || !source || !params)
        return kt_fail(error, KT_E_INVALID,
                       "%s: the layer or linear, what to store and params must not be NULL", function);
    if (params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "%s: struct_size %zu is too small; start with KT_STORE_PARAMS_INIT", function,
                       params->struct_size);
    if (!params->folder || !*params->folder)
        return kt_fail(error, KT_E_INVALID, "%s: the folder of the store is %s", layer->name,
                       params->folder ? "empty" : "NULL");
    if (!layer->params.backend || strcmp(layer->params.backend, "auto") == 0)
        return kt_fail(error, KT_E_INVALID, "%s: storing needs the name of a backend", layer->name);
    return KT_OK;
}

enum kt_status kt_store_choose(const struct kt_layer *layer, const struct kt_expert *example,
                               struct kt_selection *selection, struct kt_error *error)
{
    struct kt_selection_request request = {.example = example,
                                           .backend = layer->params.backend,
                                           .whole = true,
                                           .stored = true};
    enum kt_status status = kt_selection_make(layer, &request, selection, NULL, error);
    if (status != KT_OK)
        return status;
    const struct kt_layout *layout = &selection->shard[0].layout;
    if (!layout->keeps_source && layout->form[0])
        return KT_OK;
    status = kt_fail(
        error, KT_E_UNSUPPORTED,
        "%s: weights packed by backend %s cannot be stored; use the checkpoint directly, or another method",
        layer->name, selection->backend->name);
    kt_selection_release(selection);
    return status;
}
