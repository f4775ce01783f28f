/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layer/store_cut.h"

#include "core/base/error.h"

enum kt_status kt_stored_cut(const struct kt_layer *layer, struct kt_cut *job, const char *of,
                             struct kt_error *error)
{
    error->status = KT_OK;
    error->message[0] = '\0';
    kt_layer_ops(layer)->cut(layer->backend->instance, job);
    if (error->status == KT_OK)
        return KT_OK;
    (void)kt_fail_plugin(error, KT_E_BACKEND, "no reason given");
    return kt_fail_prefix(error, KT_E_BACKEND, "%s: backend %s failed to cut stage %d%s", layer->name,
                          layer->backend->name, job->stage, of);
}
