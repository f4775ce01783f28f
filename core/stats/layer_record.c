/* SPDX-License-Identifier: Apache-2.0 */
/* layer_record.c - lets a layer record, or ends that. */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/layer.h"
#include "core/layer/recorder.h"
#include "core/machine/pool.h"

#include <kt/stats.h>

enum kt_status kt_layer_record(struct kt_layer *layer, struct kt_recorder *recorder, uint64_t number,
                               struct kt_error *error)
{
    if (!layer || number > INT64_MAX)
        return kt_fail(error, KT_E_INVALID,
                       "kt_layer_record: layer must not be NULL, and number at most 2^63 - 1");
    if (recorder && !kt_recorder_is_of(recorder, layer->context))
        return kt_fail(error, KT_E_INVALID, "%s is of another context than the recorder", layer->name);
    struct kt_recording recording = {.recorder = NULL};
    enum kt_status status = kt_pool_lock(layer->context->pool, error);
    if (status != KT_OK)
        return status;
    if (recorder)
        status =
            kt_recorder_join(recorder, layer->name, number, layer->params.hidden_size, &recording, error);
    struct kt_recorder *before = layer->recording.recorder;
    if (status == KT_OK)
        layer->recording = recording;
    kt_pool_unlock(layer->context->pool);
    if (status == KT_OK)
        kt_recorder_destroy(before);
    return status;
}
