/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folder.c - a checkpoint of several safetensors files in one folder.
 *
 * model.safetensors.index.json says which file holds which tensor, and is compared with the files; where a
 * tensor is in several, it decides. It does not count beside a model.safetensors that it does not list.
 * Without it, the files of the folder that folder_names.c chooses belong to the checkpoint, in the order of
 * their names. A folder without such files may hold a GGUF model. Subfolders are not read, except those that
 * the index names, and those of KT-Kernel's converter.
 */
#include "core/weights/folder.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/weights/file/file.h"
#include "core/weights/file/json.h"
#include "core/weights/file/limits.h"
#include "core/weights/folder_names.h"
#include "core/weights/formats.h"
#include "core/weights/gguf/gguf.h"
#include "core/weights/gguf/gguf_split.h"
#include "core/weights/ktkernel/ktkernel_files.h"
#include "core/weights/safetensors/mappers.h"
#include "core/weights/safetensors/safetensors.h"
#include "core/weights/table/parts.h"
#include "core/weights/table/tensors.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX "model.safetensors.index.json"
#define SUFFIX ".safetensors"
#define WHOLE "model.safetensors"

enum { LARGEST_INDEX = 100000000, LARGEST_FILES = 4096, LARGEST_FILE_NAME = 255, LARGEST_PATH = 1023 };

/* The index, while a folder is being opened. */
struct index {
    char label[KT_LABEL_SIZE];
    json_t *root;    /* NULL: there is none */
    json_t *weights; /* its weight_map */
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

/* May the index name this file? It must be in the folder or below it; no part of the path is hidden. */
static bool inner_path(const char *path)
{
    size_t length = strlen(path);
    if (length > LARGEST_PATH || !kt_name_valid(path, length) || !ends_with(path, SUFFIX))
        return false;
    for (const char *at = path;; at++) {
        const char *slash = strchr(at, '/');
        size_t part = slash ? (size_t)(slash - at) : strlen(at);
        if (part == 0 || part > LARGEST_FILE_NAME || *at == '.')
            return false;
        if (!slash)
            return true;
        at = slash;
    }
}

static enum kt_status check_index(const struct index *index, struct kt_error *error)
{
    const char *name;
    json_t *file;
    if (!json_is_object(index->root) || !json_is_object(index->weights))
        return kt_fail(error, KT_E_FORMAT, "%s: must be an object with the object \"weight_map\" in it",
                       index->label);
    if (json_object_size(index->weights) == 0)
        return kt_fail(error, KT_E_FORMAT, "%s: weight_map names no tensor", index->label);
    json_object_foreach (index->weights, name, file) {
        size_t length = strlen(name);
        if (length == 0 || length > KT_LONGEST_NAME || !kt_name_valid(name, length))
            return kt_fail(
                error, KT_E_FORMAT,
                "%s: the name of a tensor in weight_map has %zu characters; 1 to %d are allowed, none of "
                "them a control character",
                index->label, length, KT_LONGEST_NAME);
        if (!json_is_string(file) || !inner_path(json_string_value(file)))
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\": weight_map must give the name of a %s file in the "
                           "same folder or below it",
                           index->label, name, SUFFIX);
    }
    return KT_OK;
}

/* KT-Kernel's converter writes an index that its own loader does not read: total_size is 0, and it lists
 * tensors blk.N or none. Then all files of the folder are read. */
static bool is_placeholder(const struct index *index)
{
    const json_t *size = json_object_get(json_object_get(index->root, "metadata"), "total_size");
    const char *name;
    json_t *file;
    if (!json_is_integer(size) || json_integer_value(size) != 0)
        return false;
    json_object_foreach (index->weights, name, file) {
        if (strncmp(name, "blk.", 4) == 0)
            return true;
    }
    return json_object_size(index->weights) == 0;
}

static enum kt_status read_index(const char *path, struct index *index, struct kt_error *error)
{
    static const struct kt_json_bounds bounds = {.what = "the index",
                                                 .largest = LARGEST_INDEX,
                                                 .depth = 8,
                                                 .spare = 64};
    enum kt_status status = kt_json_open(path, &bounds, index->label, &index->root, error);
    if (status != KT_OK)
        return status;
    index->weights = json_object_get(index->root, "weight_map");
    if (!is_placeholder(index))
        return check_index(index, error);
    json_decref(index->root);
    index->root = index->weights = NULL;
    return KT_OK;
}

/* The index of the folder, if it has one. */
static enum kt_status find_index(const char *folder, struct index *index, struct kt_error *error)
{
    struct stat found;
    enum kt_status status = KT_OK;
    char *path = kt_path_join(folder, INDEX, error);
    if (!path)
        return KT_E_NOMEM;
    if (stat(path, &found) == 0 || errno != ENOENT)
        status = read_index(path, index, error);
    free(path);
    return status;
}

static bool index_lists(const struct index *index, const char *file)
{
    const char *name;
    json_t *value;
    json_object_foreach (index->weights, name, value)
        if (strcmp(json_string_value(value), file) == 0)
            return true;
    return false;
}

/* The files that the index names; their names belong to the index. */
static enum kt_status list_index(const struct index *index, struct kt_names *names, struct kt_error *error)
{
    const char *tensor, *last = NULL;
    json_t *file;
    size_t kept = 0;
    json_object_foreach (index->weights, tensor, file) {
        const char *name = json_string_value(file);
        if (last && strcmp(name, last) == 0)
            continue;
        last = name;
        enum kt_status status = kt_names_add(names, name, index->label, error);
        if (status != KT_OK)
            return status;
    }
    kt_names_sort(names);
    for (size_t i = 0; i < names->n; i++)
        if (kept == 0 || strcmp(names->name[i], names->name[kept - 1]) != 0)
            names->name[kept++] = names->name[i];
    names->n = kept;
    return KT_OK;
}

/* What a folder may hold instead of safetensors files. */
struct others {
    bool gguf, layers;
};

/* All safetensors files of the folder; their names belong to the list. */
static enum kt_status list_folder(const char *folder, const char *label, struct kt_names *names,
                                  struct others *others, struct kt_error *error)
{
    enum kt_status status = KT_OK;
    struct dirent *entry;
    DIR *listing = opendir(folder);
    if (!listing)
        return kt_fail(error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    while (status == KT_OK && (errno = 0, entry = readdir(listing)) != NULL) {
        others->gguf |= ends_with(entry->d_name, ".gguf");
        others->layers |= strncmp(entry->d_name, "_layer_", 7) == 0;
        if (entry->d_name[0] == '.' || !ends_with(entry->d_name, SUFFIX))
            continue;
        char *name = strdup(entry->d_name);
        status = name ? kt_names_add(names, name, label, error)
                      : kt_fail(error, KT_E_NOMEM, "%s: no memory for the name of a file", label);
        if (status != KT_OK)
            free(name);
    }
    if (status == KT_OK && errno != 0)
        status = kt_fail(error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    (void)closedir(listing);
    kt_names_sort(names);
    return status;
}

static enum kt_status read_files(struct kt_checkpoint *checkpoint, const struct kt_names *names,
                                 struct kt_error *error)
{
    enum kt_status status = KT_OK;
    if (names->n > LARGEST_FILES)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: has %zu files; at most %d can be handled",
                       checkpoint->label, names->n, LARGEST_FILES);
    for (size_t i = 0; i < names->n && status == KT_OK; i++) {
        char *path = kt_path_join(checkpoint->folder, names->name[i], error);
        if (!path)
            return KT_E_NOMEM;
        status = kt_checkpoint_add(checkpoint, path, error);
        free(path);
        if (status == KT_OK)
            status = kt_safetensors_read(checkpoint, (uint32_t)i, error);
    }
    return status;
}

/* Marks the tensors that the index puts into another file than theirs. File i is names->name[i]. */
static void mark_strays(struct kt_checkpoint *checkpoint, const struct index *index,
                        const struct kt_names *names)
{
    for (uint64_t i = 0; i < checkpoint->tensors.n; i++) {
        struct kt_tensor *tensor = &checkpoint->tensors.tensor[i];
        const char *said = json_string_value(json_object_get(index->weights, tensor->info.name));
        tensor->stray = said && strcmp(said, names->name[tensor->part]) != 0;
    }
}

/* Is each tensor that the index lists in a file? One that is in another file only is taken from there. */
static enum kt_status compare_index(const struct kt_checkpoint *checkpoint, const struct index *index,
                                    const struct kt_names *names, struct kt_error *error)
{
    const char *name;
    json_t *file;
    uint64_t strays = 0;
    json_object_foreach (index->weights, name, file) {
        const struct kt_tensor *tensor = kt_tensors_find(&checkpoint->tensors, name);
        const char *said = json_string_value(file);
        if (!tensor)
            return kt_fail(error, KT_E_FORMAT,
                           "%s: tensor \"%s\" is said to be in %.255s, but it is in no file", index->label,
                           name, said);
        if (tensor->stray && strays++ == 0)
            kt_log_write(&checkpoint->log, KT_LOG_WARNING,
                         "%s: tensor \"%.256s\" is said to be in %.255s, but it is in %.255s", index->label,
                         name, said, names->name[tensor->part]);
    }
    if (strays > 1)
        kt_log_write(&checkpoint->log, KT_LOG_WARNING, "%s: %" PRIu64 " more tensors are in other files",
                     index->label, strays - 1);
    uint64_t listed = json_object_size(index->weights);
    if (checkpoint->tensors.n > listed)
        kt_log_write(&checkpoint->log, KT_LOG_INFO, "%s: lists %" PRIu64 " tensors; its files hold %" PRIu64,
                     index->label, listed, checkpoint->tensors.n);
    return KT_OK;
}

static enum kt_status open_listed(struct kt_checkpoint *checkpoint, const struct index *index,
                                  struct kt_error *error)
{
    struct kt_names names = {.n = 0};
    enum kt_status status = list_index(index, &names, error);
    if (status == KT_OK)
        status = read_files(checkpoint, &names, error);
    if (status == KT_OK) {
        mark_strays(checkpoint, index, &names);
        status = kt_safetensors_index(checkpoint, error);
    }
    if (status != KT_OK)
        (void)kt_fail_prefix(error, status, "%s", index->label);
    else
        status = compare_index(checkpoint, index, &names, error);
    free(names.name);
    return status;
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
        return kt_fail(error, KT_E_FORMAT, "%s: not a GGUF file, whatever its name says",
                       checkpoint->part[0].file.label);
    return status;
}

static enum kt_status open_all(struct kt_checkpoint *checkpoint, struct kt_error *error)
{
    struct kt_names names = {.n = 0};
    struct others others = {.gguf = false};
    enum kt_status status = list_folder(checkpoint->folder, checkpoint->label, &names, &others, error);
    if (status == KT_OK)
        status =
            kt_names_choose(&names, others.gguf || others.layers, &checkpoint->log, checkpoint->label, error);
    if (status == KT_OK && names.n == 0 && others.layers)
        checkpoint->format = &kt_format_ktkernel_files;
    else if (status == KT_OK && names.n == 0 && others.gguf)
        status = open_gguf(checkpoint, error);
    else if (status == KT_OK && names.n == 0)
        status = kt_fail(error, KT_E_NOT_FOUND,
                         "%s: the folder holds no %s and no .gguf file; name the folder of a "
                         "checkpoint, or a file of one",
                         checkpoint->label, SUFFIX);
    if (status == KT_OK && names.n > 0)
        status = read_files(checkpoint, &names, error);
    if (status == KT_OK && names.n > 0)
        status = kt_safetensors_index(checkpoint, error);
    kt_names_free(&names);
    return status;
}

/* *there: is a file of that name in the folder? */
static enum kt_status look_for(const char *folder, const char *name, bool *there, struct kt_error *error)
{
    struct stat found;
    char *path = kt_path_join(folder, name, error);
    if (!path)
        return KT_E_NOMEM;
    *there = stat(path, &found) == 0 && S_ISREG(found.st_mode);
    free(path);
    return KT_OK;
}

/* *only: are files of the folder GGUF ones, and none of those that the index names or could name? */
static enum kt_status look_for_gguf(const struct kt_checkpoint *checkpoint, const struct index *index,
                                    bool *only, struct kt_error *error)
{
    struct kt_names names = {.n = 0};
    struct others others = {.gguf = false};
    const char *tensor, *last = "";
    json_t *file;
    *only = false;
    json_object_foreach (index->weights, tensor, file) {
        const char *name = json_string_value(file);
        bool there = false;
        enum kt_status status =
            strcmp(name, last) == 0 ? KT_OK : look_for(checkpoint->folder, name, &there, error);
        if (status != KT_OK || there)
            return status;
        last = name;
    }
    enum kt_status status = list_folder(checkpoint->folder, checkpoint->label, &names, &others, error);
    *only = names.n == 0 && others.gguf;
    kt_names_free(&names);
    return status;
}

/* The index that the folder's own name stands for, if it counts: the whole model in one file goes first,
 * unless the index lists that file, too; and so does a GGUF file, if all that the index names is missing. */
static enum kt_status choose_index(const struct kt_checkpoint *checkpoint, struct index *index,
                                   struct kt_error *error)
{
    struct kt_error problem;
    bool whole, unused;
    enum kt_status status = look_for(checkpoint->folder, WHOLE, &whole, error);
    if (status != KT_OK)
        return status;
    status = find_index(checkpoint->folder, index, &problem);
    /* A damaged index may hold anything. */
    unused =
        whole && (status == KT_E_FORMAT || (status == KT_OK && !(index->root && index_lists(index, WHOLE))));
    if (status != KT_OK && !unused) {
        if (error)
            *error = problem;
        return status;
    }
    if (status == KT_OK && !index->root)
        return KT_OK;
    const bool damaged = status != KT_OK;
    if (!whole)
        status = look_for_gguf(checkpoint, index, &unused, error);
    else
        status = KT_OK;
    if (status != KT_OK || !unused)
        return status;
    kt_log_write(&checkpoint->log, KT_LOG_WARNING, "%s: %s is ignored, as %s is used instead%s%s",
                 checkpoint->label, INDEX, whole ? WHOLE : "the GGUF file", damaged ? ": " : "",
                 damaged ? problem.message : "");
    json_decref(index->root);
    *index = (struct index){.root = NULL};
    return KT_OK;
}

static enum kt_status open_folder(struct kt_checkpoint *checkpoint, struct index *index,
                                  struct kt_error *error)
{
    enum kt_status status = KT_OK;
    checkpoint->format = &kt_format_safetensors;
    checkpoint->whole = true;
    if (!index->root)
        status = choose_index(checkpoint, index, error);
    if (status == KT_OK)
        status = index->root ? open_listed(checkpoint, index, error) : open_all(checkpoint, error);
    if (status != KT_OK || checkpoint->format == &kt_format_gguf)
        return status;
    return kt_safetensors_map(checkpoint, error);
}

/* The folder is the first `length` bytes of the path; 0: the current folder. */
static enum kt_status set_folder(struct kt_checkpoint *checkpoint, const char *path, size_t length,
                                 struct kt_error *error)
{
    char *folder = malloc(length + 2);
    if (!folder)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the path of its folder", checkpoint->label);
    memcpy(folder, length ? path : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
    checkpoint->folder = folder;
    return KT_OK;
}

enum kt_status kt_folder_open(struct kt_checkpoint *checkpoint, const char *path, bool *whole,
                              struct kt_error *error)
{
    struct stat found;
    struct index index = {.root = NULL};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    bool folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    bool is_index = !folder && ends_with(name, ".index.json");
    bool is_file = !folder && ends_with(name, SUFFIX);
    *whole = folder || is_index || (!folder && strcmp(name, "config.json") == 0);
    if (!*whole && !is_file)
        return KT_OK;
    /* With the slash, so that "/" stays "/". */
    size_t length = folder ? strlen(path) : (size_t)(name - path);
    enum kt_status status = set_folder(checkpoint, path, length, error);
    if (status == KT_OK && is_index)
        status = read_index(path, &index, error);
    if (status == KT_OK && is_file) {
        status = find_index(checkpoint->folder, &index, error);
        *whole = status == KT_OK && index.root && index_lists(&index, name);
    }
    if (status == KT_OK && *whole)
        status = open_folder(checkpoint, &index, error);
    json_decref(index.root);
    return status;
}
