/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folder.c - a checkpoint of several safetensors files in one folder.
 *
 * model.safetensors.index.json says which file holds which tensor; it is believed only where it is
 * right. Without it all files NAME.safetensors of the folder belong to the checkpoint, in the order
 * of their names; a folder that has none may hold a model in GGUF. Folders in it are not looked into,
 * unless they hold what KT-Kernel's converter wrote.
 */
#include "core/weights/safetensors.h"

#include "core/error.h"
#include "core/weights/gguf.h"
#include "core/weights/index.h"
#include "core/weights/ktkernel.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX "model.safetensors.index.json"

/* The index of the folder, if it has one. */
static enum kt_status find_index(const char *folder, struct kt_index *index, struct kt_error *error)
{
    struct stat found;
    enum kt_status status = KT_OK;
    char *path = kt_path_join(folder, INDEX, error);
    if (!path)
        return KT_E_NOMEM;
    if (stat(path, &found) == 0 || errno != ENOENT)
        status = kt_index_read(path, index, error);
    free(path);
    return status;
}

/* What a folder may hold instead of safetensors files. */
struct others {
    bool gguf, layers;
};

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* All safetensors files of the folder, in order. */
static enum kt_status list_folder(const char *folder, const char *label, struct kt_names *names,
                                  struct others *others, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    struct dirent *entry;
    DIR *listing = opendir(folder);
    if (!listing)
        return kt_fail(error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    while (status == KT_OK && (errno = 0, entry = readdir(listing)) != NULL) {
        others->gguf |= kt_ends_with(entry->d_name, ".gguf");
        others->layers |= strncmp(entry->d_name, "_layer_", 7) == 0;
        if (entry->d_name[0] == '.' || !kt_ends_with(entry->d_name, KT_SAFETENSORS))
            continue;
        status = kt_names_add(names, names->n, entry->d_name, label, error);
    }
    if (status == KT_OK && errno != 0)
        status =
            kt_fail(error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    (void)closedir(listing);
    if (names->n > 0)
        qsort(names->name, names->n, sizeof *names->name, compare_names);
    return status;
}

static enum kt_status read_files(struct kt_checkpoint *checkpoint, const struct kt_names *names,
                                 struct kt_error *error)
{
    enum kt_status status = KT_OK;
    if (names->n > KT_LARGEST_FILES)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: has %zu files; at most %d can be handled",
                       checkpoint->label, names->n, KT_LARGEST_FILES);
    for (size_t i = 0; i < names->n && status == KT_OK; i++) {
        char *path = kt_path_join(checkpoint->folder, names->name[i], error);
        if (!path)
            return KT_E_NOMEM;
        status = kt_checkpoint_add(checkpoint, path, error);
        free(path);
        if (status == KT_OK)
            status = kt_safetensors_read(checkpoint, (uint32_t)i, error);
    }
    return status == KT_OK ? kt_safetensors_index(checkpoint, error) : status;
}

static enum kt_status open_listed(struct kt_checkpoint *checkpoint, const struct kt_index *index,
                                  struct kt_error *error)
{
    enum kt_status status = read_files(checkpoint, &index->files, error);
    if (status != KT_OK)
        (void)kt_fail_prefix(error, status, "%s", index->label);
    return status == KT_OK ? kt_index_compare(checkpoint, index, error) : status;
}

static enum kt_status open_gguf(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    char *path;
    enum kt_status status = kt_gguf_find_file(checkpoint->folder, &path, error);
    if (status != KT_OK)
        return status;
    status = kt_checkpoint_read(checkpoint, path, error);
    free(path);
    if (status == KT_OK && checkpoint->format != &kt_format_gguf)
        return kt_fail(error, KT_E_FORMAT, "%s: is no GGUF file, whatever its name says",
                       checkpoint->part[0].file.label);
    return status;
}

static enum kt_status open_all(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    struct kt_names names = {.n = 0};
    struct others others = {.gguf = false};
    enum kt_status status =
        list_folder(checkpoint->folder, checkpoint->label, &names, &others, error);
    if (status == KT_OK && names.n == 0 && others.layers) {
        checkpoint->format = &kt_format_ktkernel_files;
        return KT_OK;
    }
    if (status == KT_OK && names.n == 0 && others.gguf)
        return open_gguf(checkpoint, error);
    if (status == KT_OK && names.n == 0)
        status = kt_fail(error, KT_E_NOT_FOUND,
                         "%s: the folder holds no %s and no .gguf file; name the folder of a "
                         "checkpoint, or a file of one",
                         checkpoint->label, KT_SAFETENSORS);
    if (status == KT_OK)
        status = read_files(checkpoint, &names, error);
    kt_names_drop(&names);
    return status;
}

static enum kt_status open_folder(struct kt_checkpoint *checkpoint, struct kt_index *index,
                                  struct kt_error *error)
{
    enum kt_status status = KT_OK;
    checkpoint->format = &kt_format_safetensors;
    checkpoint->whole = true;
    if (!index->found)
        status = find_index(checkpoint->folder, index, error);
    if (status == KT_OK)
        status = index->found ? open_listed(checkpoint, index, error) : open_all(checkpoint, error);
    if (status != KT_OK || checkpoint->format == &kt_format_gguf)
        return status;
    return kt_safetensors_map(checkpoint, error);
}

/* The first `length` bytes of the path are the folder; none: it is the current one. */
static enum kt_status set_folder(struct kt_checkpoint *checkpoint, const char *path, size_t length,
                                 struct kt_error *error)
{
    char *folder = malloc(length + 2);
    if (!folder)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the path of its folder",
                       checkpoint->label);
    memcpy(folder, length ? path : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
    checkpoint->folder = folder;
    return KT_OK;
}

enum kt_status kt_folder_open(struct kt_checkpoint *checkpoint, const char *path, bool *whole,
                              struct kt_error *error)
{
    struct stat found;
    struct kt_index index = {.found = false};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    bool is_index = !folder && kt_ends_with(name, ".index.json");
    bool is_file = !folder && kt_ends_with(name, KT_SAFETENSORS);
    *whole = folder || is_index || (!folder && strcmp(name, "config.json") == 0);
    if (!*whole && !is_file)
        return KT_OK;
    /* "/" itself stays: the part before the last slash and the slash. */
    size_t length = folder ? strlen(path) : (size_t)(name - path);
    enum kt_status status = set_folder(checkpoint, path, length, error);
    if (status == KT_OK && is_index)
        status = kt_index_read(path, &index, error);
    if (status == KT_OK && is_file) {
        status = find_index(checkpoint->folder, &index, error);
        *whole = status == KT_OK && index.found && kt_index_lists(&index, name);
    }
    if (status == KT_OK && *whole)
        status = open_folder(checkpoint, &index, error);
    kt_index_drop(&index);
    return status;
}
