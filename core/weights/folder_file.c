/* SPDX-License-Identifier: Apache-2.0 */
/* folder_file.c - files beside the weights, such as config.json and tokenizer.json. */
#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/table/checkpoint.h"
#include "core/weights/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <kt/model.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST_FILE (UINT64_C(1) << 30)

/* A file that was handed out. */
struct kt_folder_file {
    struct kt_folder_file *next;
    char *name;
    void *data;
    uint64_t size;
};

static void free_file(struct kt_folder_file *file)
{
    free(file->name);
    free(file->data);
    free(file);
}

void kt_folder_files_free(struct kt_checkpoint *checkpoint)
{
    while (checkpoint->files) {
        struct kt_folder_file *file = checkpoint->files;
        checkpoint->files = file->next;
        free_file(file);
    }
}

static enum kt_status read_file(const char *path, struct kt_folder_file *to, struct kt_error *error)
{
    struct kt_file file;
    enum kt_status status = kt_file_open(path, KT_IO_READ, &file, error);
    if (status != KT_OK)
        return status;
    if (file.size > LARGEST_FILE) {
        status = kt_fail(error, KT_E_UNSUPPORTED, "%s: has %" PRIu64 " bytes; at most 1 GiB can be read",
                         file.label, file.size);
    } else {
        to->size = file.size;
        to->data = malloc(file.size ? (size_t)file.size : 1);
        status = to->data ? kt_file_read(&file, 0, to->data, file.size, error)
                          : kt_fail(error, KT_E_NOMEM, "%s: no memory for its %" PRIu64 " bytes", file.label,
                                    file.size);
    }
    kt_file_close(&file);
    return status;
}

static enum kt_status load(struct kt_checkpoint *checkpoint, const char *name, struct kt_error *error)
{
    struct kt_folder_file *file = calloc(1, sizeof *file);
    char *path = NULL;
    enum kt_status status = file && (file->name = strdup(name))
                                ? KT_OK
                                : kt_fail(error, KT_E_NOMEM, "%s: no memory for %s", checkpoint->label, name);
    if (status == KT_OK && (path = kt_path_join(checkpoint->folder, name, error)) == NULL)
        status = KT_E_NOMEM;
    if (status == KT_OK && access(path, F_OK) != 0 && errno == ENOENT)
        status = kt_fail(error, KT_E_NOT_FOUND, "%s: there is no file %.200s beside its weights",
                         checkpoint->label, name);
    if (status == KT_OK)
        status = read_file(path, file, error);
    free(path);
    if (status == KT_OK) {
        file->next = checkpoint->files;
        checkpoint->files = file;
    } else if (file) {
        free_file(file);
    }
    return status;
}

static const struct kt_folder_file *find(const struct kt_checkpoint *checkpoint, const char *name)
{
    const struct kt_folder_file *file = checkpoint->files;
    while (file && strcmp(file->name, name) != 0)
        file = file->next;
    return file;
}

enum kt_status kt_checkpoint_file(struct kt_checkpoint *checkpoint, const char *name, const void **data,
                                  uint64_t *size, struct kt_error *error)
{
    if (!checkpoint || !name || !data || !size)
        return kt_fail(error, KT_E_INVALID, "the %s is NULL",
                       !checkpoint ? "checkpoint"
                       : !name     ? "name of a file"
                                   : "result");
    if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return kt_fail(error, KT_E_INVALID, "\"%.200s\" is not a name of a file in the folder", name);
    if (!checkpoint->folder)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: is not a folder, so there is no %.200s beside its weights",
                       checkpoint->label, name);
    enum kt_status status = find(checkpoint, name) ? KT_OK : load(checkpoint, name, error);
    if (status != KT_OK)
        return status;
    const struct kt_folder_file *file = find(checkpoint, name);
    *data = file->data;
    *size = file->size;
    return KT_OK;
}
