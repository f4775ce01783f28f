/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - which backend a load would choose, and how much memory it would take. */
#include "core/layer/plan.h"

#include "core/base/error.h"
#include "core/layer/experts_check.h"
#include "core/layer/selection.h"
#include "core/layer/store_load_layer.h"
#include "core/weights/decode/view.h"
#include "core/weights/weights.h"

#include <kt/kt.h>
#include <stdlib.h>

static enum kt_status plan(const struct kt_layer *layer, const struct kt_selection_request *request,
                           struct kt_plan *plan, struct kt_error *error)
{
    struct kt_plan *filled = calloc(1, sizeof *filled);
    struct kt_selection *selection = malloc(sizeof *selection);
    enum kt_status status = filled && selection ? KT_OK : kt_fail(error, KT_E_NOMEM, "no memory for a plan");
    if (status == KT_OK) {
        status = kt_selection_make(layer, request, selection, filled, error);
        kt_selection_release(selection);
        if (status == KT_OK || status == KT_E_UNSUPPORTED)
            *plan = *filled;
    }
    free(selection);
    free(filled);
    return status;
}

enum kt_status kt_layer_plan(struct kt_layer *layer, const struct kt_expert *example, struct kt_plan *out,
                             struct kt_error *error)
{
    if (!layer || !example || !out)
        return kt_fail(error, KT_E_INVALID, "kt_layer_plan: layer, example and plan must not be NULL");
    const struct kt_view *const views[3] = {&example->gate, &example->up, &example->down};
    enum kt_status status = KT_OK;
    for (unsigned p = kt_layer_first(layer); p <= KT_DOWN && status == KT_OK; p++)
        status = kt_view_check_format(views[p], error);
    if (status != KT_OK)
        return kt_fail_prefix(error, status, "%s", layer->name);
    return plan(layer, &(struct kt_selection_request){.example = example}, out, error);
}

enum kt_status kt_layer_plan_weights(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                     const struct kt_stored *stored, const struct kt_expert *example,
                                     struct kt_plan *out, struct kt_error *error)
{
    struct kt_selection_request request = {.checkpoint = checkpoint,
                                           .example = example,
                                           .backend = stored ? stored->backend : NULL,
                                           .form = stored ? stored->form : NULL};
    enum kt_status status = stored ? kt_stored_fit(layer, stored, example, error) : KT_OK;
    return status == KT_OK ? plan(layer, &request, out, error) : status;
}

enum kt_status kt_layer_plan_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                        uint64_t index, struct kt_plan *out, struct kt_error *error)
{
    if (!layer || !checkpoint || !out)
        return kt_fail(error, KT_E_INVALID,
                       "kt_layer_plan_checkpoint: layer, checkpoint and plan must not be NULL");
    struct kt_expert example;
    const struct kt_stored *stored = kt_checkpoint_stored(checkpoint, index);
    enum kt_status status = kt_layer_check_moe(layer, checkpoint, index, error);
    if (status == KT_OK)
        status = kt_checkpoint_use(checkpoint, index, &example, 1, error);
    if (status != KT_OK)
        return status;
    status = kt_layer_plan_weights(layer, checkpoint, stored, &example, out, error);
    kt_checkpoint_unuse(checkpoint, index);
    return status;
}
