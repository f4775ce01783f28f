/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - opens and closes the files of a checkpoint. */
#include "core/weights/table/parts.h"

#include "core/base/error.h"
#include "core/base/size.h"
#include "core/weights/file/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

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

const char *kt_checkpoint_metadata(const struct kt_checkpoint *checkpoint, uint32_t part, const char *key)
{
    return json_string_value(json_object_get(checkpoint->part[part].metadata, key));
}
