/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - the public face of checkpoints, the same for every file format. */
#include "core/weights/table/checkpoint.h"

#include "core/base/error.h"
#include "core/weights/safetensors/safetensors.h"
#include "core/weights/store/store_read.h"
#include "core/base/size.h"
#include "core/weights/weights.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kt_checkpoint_format *const formats[] = {&kt_format_gguf, &kt_format_safetensors};

static enum kt_status check_params(const char *path, const struct kt_checkpoint_params *params,
                                   struct kt_checkpoint *const *checkpoint, struct kt_error *error)
{
    if (!path || !*path || !checkpoint)
        return kt_fail(error, KT_E_INVALID, "the %s of a checkpoint to open is %s",
                       path ? *path ? "result" : "path" : "path", path && !*path ? "empty" : "NULL");
    if (params && params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_checkpoint_params.struct_size is %zu, not %zu; start it with "
                       "KT_CHECKPOINT_PARAMS_INIT",
                       params->struct_size, sizeof *params);
    if (params && params->io != KT_IO_MMAP && params->io != KT_IO_READ)
        return kt_fail(error, KT_E_INVALID, "kt_checkpoint_params.io is %d, no enum kt_io", (int)params->io);
    return KT_OK;
}

enum kt_status kt_checkpoint_add(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error)
{
    struct kt_part *grown = realloc(checkpoint->part, ((size_t)checkpoint->n_parts + 1) * sizeof *grown);
    if (!grown)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for its file number %" PRIu32, checkpoint->label,
                       checkpoint->n_parts);
    checkpoint->part = grown;
    struct kt_part *part = &grown[checkpoint->n_parts];
    *part = (struct kt_part){.file = {.fd = -1}};
    enum kt_status status = kt_file_open(path, checkpoint->io, &part->file, error);
    if (status != KT_OK)
        return status;
    checkpoint->n_parts++;
    if (!kt_add(checkpoint->size, part->file.size, &checkpoint->size))
        checkpoint->size = UINT64_MAX;
    return KT_OK;
}

enum kt_status kt_checkpoint_read(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error)
{
    uint8_t head[16] = {0};
    enum kt_status status = kt_checkpoint_add(checkpoint, path, error);
    if (status != KT_OK)
        return status;
    const struct kt_file *file = &checkpoint->part[0].file;
    uint64_t size = file->size < sizeof head ? file->size : sizeof head;
    status = kt_file_read(file, 0, head, size, error);
    if (status != KT_OK)
        return status;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i]->matches(head, file->size)) {
            checkpoint->format = formats[i];
            return formats[i]->read(checkpoint, path, error);
        }
    return kt_fail(error, KT_E_FORMAT,
                   "%s: is neither a GGUF nor a safetensors file: its %" PRIu64
                   " bytes begin with %02x %02x %02x %02x",
                   file->label, file->size, head[0], head[1], head[2], head[3]);
}

void kt_checkpoint_drop_files(struct kt_checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->n_parts; i++) {
        kt_file_close(&checkpoint->part[i].file);
        json_decref(checkpoint->part[i].metadata);
    }
    free(checkpoint->part);
    checkpoint->part = NULL;
    checkpoint->n_parts = 0;
    checkpoint->size = 0;
}

static void destroy(struct kt_checkpoint *checkpoint)
{
    for (uint64_t i = 0; i < checkpoint->n_moe; i++) {
        if (checkpoint->release)
            checkpoint->release(&checkpoint->moe[i]);
        for (int p = KT_GATE; p <= KT_DOWN; p++)
            free(checkpoint->moe[i].converted[p]);
        free(checkpoint->moe[i].map);
    }
    free(checkpoint->moe);
    kt_tensors_free(&checkpoint->tensors);
    kt_checkpoint_drop_files(checkpoint);
    free(checkpoint->folder);
    (void)pthread_mutex_destroy(&checkpoint->lock);
    free(checkpoint);
}

enum kt_status kt_checkpoint_open(const char *path, const struct kt_checkpoint_params *params,
                                  struct kt_checkpoint **checkpoint, struct kt_error *error)
{
    enum kt_status status = check_params(path, params, checkpoint, error);
    if (status != KT_OK)
        return status;
    struct kt_checkpoint *opened = calloc(1, sizeof *opened);
    if (!opened)
        return kt_fail(error, KT_E_NOMEM, "no memory to open a checkpoint");
    atomic_init(&opened->references, 1);
    (void)pthread_mutex_init(&opened->lock, NULL);
    opened->io = params ? params->io : KT_IO_MMAP;
    if (params)
        opened->log = (struct kt_log){params->log, params->log_data, KT_LOG_INFO};
    kt_file_label(path, opened->label);
    status = kt_folder_open(opened, path, &opened->whole, error);
    if (status == KT_OK && !opened->whole)
        status = kt_checkpoint_read(opened, path, error);
    if (status != KT_OK) {
        destroy(opened);
        return status;
    }
    if (*opened->refusal)
        kt_log_write(&opened->log, KT_LOG_WARNING, "%s", opened->refusal);
    *checkpoint = opened;
    return KT_OK;
}

void kt_checkpoint_retain(struct kt_checkpoint *checkpoint)
{
    atomic_fetch_add_explicit(&checkpoint->references, 1, memory_order_relaxed);
}

void kt_checkpoint_close(struct kt_checkpoint *checkpoint)
{
    if (checkpoint && atomic_fetch_sub_explicit(&checkpoint->references, 1, memory_order_acq_rel) == 1)
        destroy(checkpoint);
}

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
    for (uint64_t i = 0; i < checkpoint->n_moe; i++)
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

/* What was made of the layer goes when nobody has its views any more. */
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

/* For the caller for good, or for a use that ends. */
static enum kt_status hand_out(struct kt_checkpoint *checkpoint, uint64_t layer, struct kt_expert *experts,
                               uint32_t n_experts, bool for_good, struct kt_error *error)
{
    struct kt_moe *moe;
    enum kt_status status = find_experts(checkpoint, layer, experts, n_experts, &moe, error);
    if (status != KT_OK)
        return status;
    (void)pthread_mutex_lock(&checkpoint->lock);
    status = checkpoint->experts(checkpoint, moe, experts, n_experts, error);
    if (status == KT_OK) {
        moe->shown |= for_good;
        moe->uses += !for_good;
    } else {
        release_unused(checkpoint, moe);
    }
    (void)pthread_mutex_unlock(&checkpoint->lock);
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
    if (find_layer(checkpoint, layer, &moe, NULL) != KT_OK)
        return;
    (void)pthread_mutex_lock(&checkpoint->lock);
    moe->uses--;
    release_unused(checkpoint, moe);
    (void)pthread_mutex_unlock(&checkpoint->lock);
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
    (void)pthread_mutex_lock(&checkpoint->lock);
    moe->shown = false;
    release_unused(checkpoint, moe);
    (void)pthread_mutex_unlock(&checkpoint->lock);
    return KT_OK;
}
