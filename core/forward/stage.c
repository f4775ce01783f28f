/* SPDX-License-Identifier: Apache-2.0 */
#include "core/forward/stage.h"

#include "core/base/error.h"

void kt_stage_check(const struct kt_layer *layer, struct kt_outcome *outcome, const char *stage,
                    const char *of, struct kt_error *error)
{
    const struct kt_backend *backend = layer->backend;
    if (error->status == KT_OK)
        return;
    (void)kt_fail_plugin(error, KT_E_BACKEND, "no reason given");
    (void)kt_fail_prefix(error, KT_E_BACKEND, "%s: backend %s (level %s) failed in %s%s", layer->name,
                         backend->name, backend->level->name, stage, of);
    kt_outcome_fail(outcome, KT_E_BACKEND, error);
}
