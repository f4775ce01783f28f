/* SPDX-License-Identifier: Apache-2.0 */
/* formats.c - tells the format of a file by how it begins. */
#include "core/weights/formats.h"

#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/gguf/gguf.h"
#include "core/weights/safetensors/safetensors.h"
#include "core/weights/table/parts.h"

#include <inttypes.h>

static const struct kt_checkpoint_format *const formats[] = {&kt_format_gguf, &kt_format_safetensors};

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
