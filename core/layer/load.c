/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - loads a layer from the caller's experts or from a checkpoint: all of it or nothing. */
#include "core/layer/load.h"

#include "core/base/error.h"
#include "core/layer/experts_check.h"
#include "core/layer/fill.h"
#include "core/layer/layer.h"
#include "core/layer/pack.h"
#include "core/layer/selection.h"
#include "core/layer/source_copy.h"
#include "core/layer/store_load_layer.h"
#include "core/weights/store/store_read.h"
#include "core/weights/weights.h"

#include <kt/kt.h>
#include <stdlib.h>

/* checkpoint: where they are from; NULL: the caller's memory. */
static enum kt_status load(struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                           struct kt_expert *experts, uint32_t n_experts, struct kt_error *error)
{
    enum kt_status status = kt_layer_check_experts(layer, experts, n_experts, error);
    if (status != KT_OK)
        return status;
    struct kt_selection *selection = malloc(sizeof *selection);
    if (!selection)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to load it", layer->name);
    struct kt_fill_source filling = {.run = kt_layer_pack_all, .data = experts};
    status =
        kt_selection_make(layer, &(struct kt_selection_request){.checkpoint = checkpoint, .example = experts},
                          selection, NULL, error);
    if (status == KT_OK) {
        status = kt_layer_fill(layer, selection, experts, &filling, error);
        kt_selection_release(selection);
    }
    free(selection);
    return status;
}

static bool keeps_source(const struct kt_layer *layer)
{
    for (uint32_t n = 0; n < layer->n_shards; n++)
        if (layer->shard[n].source)
            return true;
    return false;
}

/* After a failure the layer has no weights at all. */
static enum kt_status finish(struct kt_layer *layer, enum kt_status status)
{
    if (status != KT_OK)
        kt_layer_unload(layer);
    layer->loaded = status == KT_OK;
    atomic_store(&layer->load.total, layer->packed_size);
    atomic_store(&layer->load.done, layer->packed_size);
    return status;
}

/* Unloads the layer, unless submitted work still needs its weights. */
static enum kt_status make_room(struct kt_layer *layer, struct kt_error *error)
{
    if (atomic_load(&layer->outstanding))
        return kt_fail(error, KT_E_BUSY, "%s still has submitted work; wait for it before loading",
                       layer->name);
    kt_layer_unload(layer);
    atomic_store(&layer->load.total, 0);
    atomic_store(&layer->load.done, 0);
    atomic_store(&layer->load.stopped, false);
    return KT_OK;
}

enum kt_status kt_layer_load_views(struct kt_layer *layer, const struct kt_expert *experts,
                                   uint32_t n_experts, bool *kept, struct kt_error *error)
{
    enum kt_status status = make_room(layer, error);
    if (status != KT_OK)
        return status;
    if (!experts)
        return kt_fail(error, KT_E_INVALID, "%s: experts must not be NULL", layer->name);
    status = kt_layer_check_own(layer, experts, n_experts, error);
    if (status == KT_OK)
        status = load(layer, NULL, (struct kt_expert *)experts, n_experts, error);
    if (status == KT_OK && !kept && keeps_source(layer))
        status = kt_layer_copy_source(layer, error);
    if (kept)
        *kept = status == KT_OK && keeps_source(layer);
    return finish(layer, status);
}

enum kt_status kt_layer_load(struct kt_layer *layer, const struct kt_expert *experts, uint32_t n_experts,
                             struct kt_error *error)
{
    if (!layer)
        return kt_fail(error, KT_E_INVALID, "kt_layer_load: layer must not be NULL");
    return kt_layer_load_views(layer, experts, n_experts, NULL, error);
}

static enum kt_status load_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                      uint64_t index, struct kt_error *error)
{
    struct kt_expert *experts;
    const struct kt_stored *stored = kt_checkpoint_stored(checkpoint, index);
    enum kt_status status = kt_layer_take_experts(layer, checkpoint, index, &experts, error);
    if (status != KT_OK)
        return status;
    if (stored)
        status = kt_layer_load_stored(layer, checkpoint, stored, experts, error);
    else
        status = load(layer, checkpoint, experts, layer->params.n_experts, error);
    if (status == KT_OK && (stored || keeps_source(layer))) {
        kt_checkpoint_retain(checkpoint);
        layer->checkpoint = checkpoint;
        layer->checkpoint_layer = index;
    } else {
        kt_checkpoint_unuse(checkpoint, index);
    }
    free(experts);
    return status;
}

enum kt_status kt_layer_load_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                        uint64_t index, struct kt_error *error)
{
    if (!layer)
        return kt_fail(error, KT_E_INVALID, "kt_layer_load_checkpoint: layer must not be NULL");
    enum kt_status status = make_room(layer, error);
    if (status != KT_OK)
        return status;
    if (!checkpoint)
        return kt_fail(error, KT_E_INVALID, "%s: checkpoint must not be NULL", layer->name);
    return finish(layer, load_checkpoint(layer, checkpoint, index, error));
}

enum kt_status kt_layer_load_packed(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                    const struct kt_stored *stored, const struct kt_expert *expert,
                                    struct kt_error *error)
{
    enum kt_status status = make_room(layer, error);
    if (status != KT_OK)
        return status;
    return finish(layer, kt_layer_load_stored(layer, checkpoint, stored, expert, error));
}
