/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - opens a checkpoint, and closes it when its last user does. */
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/weights/file/file.h"
#include "core/weights/folder.h"
#include "core/weights/formats.h"
#include "core/weights/gguf/gguf_header.h"
#include "core/weights/table/parts.h"
#include "core/weights/table/tensors.h"
#include "core/weights/weights.h"

#include <stdlib.h>

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

/* Frees what the lock guards, and the layers. In a child that was forked while it changed, it stays. */
static void free_layers(struct kt_checkpoint *checkpoint)
{
    if (!kt_lock_take(&checkpoint->lock))
        return;
    for (uint64_t i = 0; i < checkpoint->n_moe + checkpoint->n_beyond; i++) {
        if (checkpoint->release)
            checkpoint->release(&checkpoint->moe[i]);
        for (int p = KT_GATE; p <= KT_DOWN; p++)
            free(checkpoint->moe[i].converted[p]);
        free(checkpoint->moe[i].map);
    }
    free(checkpoint->moe);
    kt_lock_give(&checkpoint->lock);
}

static void destroy(struct kt_checkpoint *checkpoint)
{
    free_layers(checkpoint);
    for (uint64_t i = 0; i < checkpoint->n_linears; i++)
        free(checkpoint->linear[i]);
    free(checkpoint->linear);
    kt_weights_free(checkpoint);
    kt_folder_files_free(checkpoint);
    kt_gguf_free_keys(checkpoint);
    free(checkpoint->config);
    kt_tensors_free(&checkpoint->tensors);
    kt_checkpoint_drop_files(checkpoint);
    free(checkpoint->folder);
    kt_lock_destroy(&checkpoint->lock);
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
    kt_lock_init(&opened->lock);
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
