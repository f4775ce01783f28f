/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - the public functions of an open checkpoint, the same for every format. */
#include "core/weights/table/checkpoint.h"

#include "core/base/error.h"
#include "core/weights/store/store_read.h"
#include "core/weights/table/tensors.h"
#include "core/weights/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void kt_checkpoint_info(const struct kt_checkpoint *checkpoint, struct kt_checkpoint_info *info)
{
    if (!checkpoint || !info)
        return;
    *info = (struct kt_checkpoint_info){
        .format = checkpoint->format->name,
        .architecture = checkpoint->architecture,
        .name = checkpoint->name,
        .n_tensors = checkpoint->tensors.n,
        .n_layers = checkpoint->n_layers,
        .n_moe_layers = checkpoint->n_moe,
        .size = checkpoint->size,
        .expert_size = checkpoint->expert_size,
        .n_files = checkpoint->n_parts + checkpoint->n_loose,
    };
}

static enum kt_status check_index(const struct kt_checkpoint *checkpoint, uint64_t index, uint64_t n,
                                  const char *what, const void *result, struct kt_error *error)
{
    if (!checkpoint || !result)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL", checkpoint ? "result" : "checkpoint");
    if (index >= n)
        return kt_fail(error, KT_E_RANGE, "%s: %s %" PRIu64 " was asked for; it has %" PRIu64,
                       checkpoint->label, what, index, n);
    return KT_OK;
}

enum kt_status kt_checkpoint_tensor(const struct kt_checkpoint *checkpoint, uint64_t index,
                                    struct kt_tensor_info *info, struct kt_error *error)
{
    enum kt_status status =
        check_index(checkpoint, index, checkpoint ? checkpoint->tensors.n : 0, "tensor", info, error);
    if (status != KT_OK)
        return status;
    const struct kt_tensor *tensor = &checkpoint->tensors.tensor[index];
    const char *label = checkpoint->part[tensor->part].file.label, *slash = strrchr(label, '/');
    *info = tensor->info;
    info->file = slash ? slash + 1 : label;
    return KT_OK;
}

const char *kt_checkpoint_tensor_type(const struct kt_checkpoint *checkpoint, uint64_t index)
{
    return checkpoint && index < checkpoint->tensors.n ? kt_tensor_type(&checkpoint->tensors.tensor[index])
                                                       : "?";
}

enum kt_status kt_checkpoint_find(const struct kt_checkpoint *checkpoint, const char *name, uint64_t *index,
                                  struct kt_error *error)
{
    if (!checkpoint || !name || !index)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL",
                       !checkpoint ? "checkpoint"
                       : !name     ? "name of a tensor"
                                   : "result");
    const struct kt_tensor *tensor = kt_tensors_find(&checkpoint->tensors, name);
    if (!tensor)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: has no tensor \"%.256s\" among its %" PRIu64,
                       checkpoint->label, name, checkpoint->tensors.n);
    *index = (uint64_t)(tensor - checkpoint->tensors.tensor);
    return KT_OK;
}

enum kt_status kt_checkpoint_data(struct kt_checkpoint *checkpoint, uint64_t index, const void **data,
                                  struct kt_error *error)
{
    enum kt_status status =
        check_index(checkpoint, index, checkpoint ? checkpoint->tensors.n : 0, "tensor", data, error);
    if (status != KT_OK)
        return status;
    return kt_tensor_data(checkpoint, &checkpoint->tensors.tensor[index], data, error);
}

enum kt_status kt_checkpoint_moe_layer(const struct kt_checkpoint *checkpoint, uint64_t index,
                                       uint64_t *layer, struct kt_error *error)
{
    enum kt_status status = check_index(checkpoint, index, checkpoint ? checkpoint->n_moe : 0,
                                        "layer with experts number", layer, error);
    if (status == KT_OK)
        *layer = checkpoint->moe[index].info.layer;
    return status;
}

void kt_checkpoint_list_layers(const struct kt_checkpoint *checkpoint, char *text, size_t size)
{
    size_t used = 0;
    for (uint64_t i = 0; i < checkpoint->n_moe;) {
        uint64_t first = i, layer = checkpoint->moe[i].info.layer;
        while (++i < checkpoint->n_moe && checkpoint->moe[i].info.layer == layer + (i - first))
            continue;
        if (used + 48 > size) {
            (void)snprintf(text + used, size - used, ",...");
            return;
        }
        const char *comma = first ? "," : "";
        if (i - first == 1)
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, comma, layer);
        else
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64 "-%" PRIu64, comma, layer,
                                     layer + (i - first) - 1);
    }
}

static enum kt_status find_layer(const struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_moe **moe,
                                 struct kt_error *error)
{
    if (checkpoint->n_moe == 0 && *checkpoint->refusal)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s", checkpoint->refusal);
    if (checkpoint->n_moe == 0)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: holds no layer with experts: %s", checkpoint->label,
                       checkpoint->format->no_experts);
    for (uint64_t i = 0; i < checkpoint->n_moe + checkpoint->n_beyond; i++)
        if (checkpoint->moe[i].info.layer == layer) {
            *moe = &checkpoint->moe[i];
            return KT_OK;
        }
    char layers[256];
    kt_checkpoint_list_layers(checkpoint, layers, sizeof layers);
    return kt_fail(error, KT_E_NOT_FOUND, "%s: layer %" PRIu64 " holds no experts; these do: %s",
                   checkpoint->label, layer, layers);
}

enum kt_status kt_checkpoint_moe(const struct kt_checkpoint *checkpoint, uint64_t layer,
                                 struct kt_moe_info *info, struct kt_error *error)
{
    struct kt_moe *moe;
    if (!checkpoint || !info)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL", checkpoint ? "result" : "checkpoint");
    enum kt_status status = find_layer(checkpoint, layer, &moe, error);
    if (status != KT_OK)
        return status;
    const struct kt_stored *stored = kt_checkpoint_stored(checkpoint, layer);
    *info = moe->info;
    info->stored_backend = stored ? stored->backend : "";
    info->stored_form = stored ? stored->form : "";
    info->stored_source = stored ? stored->source : "";
    info->stored_layers = stored ? stored->layers : "";
    return KT_OK;
}

/* Frees what was decoded of the layer when its last user is gone. */
static void release_unused(struct kt_checkpoint *checkpoint, struct kt_moe *moe)
{
    if (checkpoint->release && moe->uses == 0 && !moe->shown)
        checkpoint->release(moe);
}

static enum kt_status find_experts(struct kt_checkpoint *checkpoint, uint64_t layer,
                                   const struct kt_expert *experts, uint32_t n_experts, struct kt_moe **moe,
                                   struct kt_error *error)
{
    if (!checkpoint || !experts || n_experts == 0)
        return kt_fail(error, KT_E_INVALID, "%s",
                       !checkpoint ? "the checkpoint is NULL"
                       : !experts  ? "the array of experts to fill is NULL"
                                   : "0 experts were asked for");
    enum kt_status status = find_layer(checkpoint, layer, moe, error);
    if (status != KT_OK)
        return status;
    if (n_experts > (*moe)->info.n_experts)
        return kt_fail(error, KT_E_RANGE,
                       "%s: %" PRIu32 " experts of layer %" PRIu64 " were asked for; it has %" PRIu32,
                       checkpoint->label, n_experts, layer, (*moe)->info.n_experts);
    if (*checkpoint->refusal)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s", checkpoint->refusal);
    return KT_OK;
}

/* Hands out views until kt_checkpoint_release_layer (for_good), or until kt_checkpoint_unuse. */
static enum kt_status hand_out(struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_expert *experts,
                               uint32_t n_experts, bool for_good, struct kt_error *error)
{
    struct kt_moe *moe;
    enum kt_status status = find_experts(checkpoint, layer, experts, n_experts, &moe, error);
    if (status != KT_OK)
        return status;
    if (!kt_lock_take(&checkpoint->lock))
        return kt_lock_fail(checkpoint->label, error);
    status = checkpoint->experts(checkpoint, moe, experts, n_experts, error);
    if (status == KT_OK) {
        moe->shown |= for_good;
        moe->uses += !for_good;
    } else {
        release_unused(checkpoint, moe);
    }
    kt_lock_give(&checkpoint->lock);
    return status;
}

enum kt_status kt_checkpoint_experts(struct kt_checkpoint *checkpoint, uint64_t layer,
                                     struct kt_expert *experts, uint32_t n_experts, struct kt_error *error)
{
    return hand_out(checkpoint, layer, experts, n_experts, true, error);
}

enum kt_status kt_checkpoint_use(struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_expert *experts,
                                 uint32_t n_experts, struct kt_error *error)
{
    return hand_out(checkpoint, layer, experts, n_experts, false, error);
}

void kt_checkpoint_unuse(struct kt_checkpoint *checkpoint, uint64_t layer)
{
    struct kt_moe *moe;
    if (find_layer(checkpoint, layer, &moe, NULL) != KT_OK || !kt_lock_take(&checkpoint->lock))
        return;
    moe->uses--;
    release_unused(checkpoint, moe);
    kt_lock_give(&checkpoint->lock);
}

enum kt_status kt_checkpoint_release_layer(struct kt_checkpoint *checkpoint, uint64_t layer,
                                           struct kt_error *error)
{
    struct kt_moe *moe;
    if (!checkpoint)
        return kt_fail(error, KT_E_INVALID, "the checkpoint is NULL");
    enum kt_status status = find_layer(checkpoint, layer, &moe, error);
    if (status != KT_OK)
        return status;
    if (!kt_lock_take(&checkpoint->lock))
        return kt_lock_fail(checkpoint->label, error);
    moe->shown = false;
    release_unused(checkpoint, moe);
    kt_lock_give(&checkpoint->lock);
    return KT_OK;
}
