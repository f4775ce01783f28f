/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c - {"metadata": {"total_size": 8, ...}, "weight_map": {"TENSOR": "FILE.safetensors", ...}}
 *
 * 10^6 tensors take 100 MB of it, so their names are kept in one text.
 */
#include "core/weights/index.h"

#include "core/error.h"
#include "core/weights/json.h"
#include "core/weights/plain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_INDEX = 250000000, LARGEST_FILE_NAME = 255 };

struct kt_listed {
    size_t name;      /* where it begins in index.text */
    const char *file; /* one of index.files */
};

static const struct kt_json_bounds bounds = {
    .what = "the index", .largest = LARGEST_INDEX, .depth = 8, .spare = 64};

bool kt_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* May the index name this file? It must lie in the folder itself, whatever the index says. */
static bool is_file_name(const char *name)
{
    size_t length = strlen(name);
    return length <= LARGEST_FILE_NAME && name[0] != '.' && !strchr(name, '/') &&
           kt_name_valid(name, length) && kt_ends_with(name, KT_SAFETENSORS);
}

static bool is_packed(const char *name)
{
    return strncmp(name, "blk.", 4) == 0;
}

/* Room for `wanted` elements, of `first` at least: the array, moved or not. NULL: it is as it was. */
static void *grow(void *array, size_t *capacity, size_t wanted, size_t first, size_t size)
{
    size_t more = *capacity ? *capacity : first;
    if (wanted <= *capacity)
        return array;
    while (more < wanted)
        more *= 2;
    void *grown = realloc(array, more * size);
    if (grown)
        *capacity = more;
    return grown;
}

enum kt_status kt_names_add(struct kt_names *names, size_t at, const char *name, const char *label,
                            struct kt_error *error)
{
    const char **grown = grow(names->name, &names->capacity, names->n + 1, 64, sizeof *grown);
    if (grown)
        names->name = grown;
    char *copy = grown ? strdup(name) : NULL;
    if (!copy)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the names of %zu files", label, names->n + 1);
    memmove(names->name + at + 1, names->name + at, (names->n++ - at) * sizeof *names->name);
    names->name[at] = copy;
    return KT_OK;
}

void kt_names_drop(struct kt_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free((void *)(uintptr_t)names->name[i]);
    free(names->name);
    *names = (struct kt_names){.n = 0};
}

void kt_index_drop(struct kt_index *index)
{
    kt_names_drop(&index->files);
    free(index->listed);
    free(index->text);
    index->listed = NULL;
    index->text = NULL;
    index->n = index->capacity = index->used = index->room = 0;
    index->found = index->sizeless = index->packed = false;
}

/* Sets *kept to the file's name in index.files, where it is put unless it stands there. */
static enum kt_status keep_file(struct kt_index *index, const char *name, const char **kept,
                                struct kt_error *error)
{
    struct kt_names *files = &index->files;
    size_t low = 0, high = files->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(files->name[middle], name);
        if (order == 0) {
            *kept = files->name[middle];
            return KT_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (files->n == KT_LARGEST_FILES)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: names more than %d files, the most that can be handled",
                       index->label, KT_LARGEST_FILES);
    enum kt_status status = kt_names_add(files, low, name, index->label, error);
    if (status == KT_OK)
        *kept = files->name[low];
    return status;
}

static bool is_tensor_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= KT_NAME_SIZE && kt_name_valid(name, length);
}

/* Both names are right. */
static enum kt_status list(struct kt_index *index, const char *name, const char *file,
                           struct kt_error *error)
{
    size_t size = strlen(name) + 1;
    const char *last = index->n > 0 ? index->listed[index->n - 1].file : NULL, *kept = last;
    enum kt_status status = KT_OK;
    if (!last || strcmp(last, file) != 0)
        status = keep_file(index, file, &kept, error);
    if (status != KT_OK)
        return status;
    struct kt_listed *listed =
        grow(index->listed, &index->capacity, index->n + 1, 1024, sizeof *listed);
    if (listed)
        index->listed = listed;
    char *text = grow(index->text, &index->room, index->used + size, 65536, 1);
    if (text)
        index->text = text;
    if (!listed || !text)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the names of %zu tensors", index->label,
                       index->n + 1);
    memcpy(index->text + index->used, name, size);
    index->listed[index->n++] = (struct kt_listed){index->used, kept};
    index->used += size;
    index->packed |= is_packed(name);
    return KT_OK;
}

/* KT-Kernel's converter writes an index that its own loader never reads: of no size, over tensors blk.N
 * or none at all. The files of such a folder are all that it has, as if there were no index. */
static bool says_nothing(const struct kt_index *index, size_t n)
{
    return index->sizeless && (index->packed || n == 0);
}

static bool is_sizeless(const json_t *metadata)
{
    const json_t *size = json_object_get(metadata, "total_size");
    return json_is_integer(size) && json_integer_value(size) == 0;
}

/* Takes weight_map; *is_plain is false where only the JSON library can read it. */
static enum kt_status take_map(struct kt_plain *plain, struct kt_index *index, bool *is_plain,
                               struct kt_error *error)
{
    enum kt_status status = KT_OK;
    char name[KT_NAME_SIZE + 1], file[LARGEST_FILE_NAME + 1];
    *is_plain = kt_plain_take(plain, '{');
    for (bool more = *is_plain && !kt_plain_take(plain, '}'); more && status == KT_OK;) {
        *is_plain = kt_plain_string(plain, name, sizeof name) && kt_plain_take(plain, ':') &&
                    kt_plain_string(plain, file, sizeof file) && is_tensor_name(name) &&
                    is_file_name(file);
        if (*is_plain)
            status = list(index, name, file, error);
        more = *is_plain && kt_plain_take(plain, ',');
        *is_plain = *is_plain && (more || kt_plain_take(plain, '}'));
    }
    return status;
}

static enum kt_status take_metadata(struct kt_plain *plain, struct kt_index *index, bool *is_plain,
                                    struct kt_error *error)
{
    uint64_t offset, size;
    json_t *metadata;
    *is_plain = kt_plain_object(plain, &offset, &size);
    if (!*is_plain)
        return KT_OK;
    enum kt_status status = kt_json_load(plain->reader.file, offset, size, &bounds, &metadata, error);
    if (status == KT_OK) {
        index->sizeless = is_sizeless(metadata);
        json_decref(metadata);
    }
    return status;
}

static enum kt_status read_plain(struct kt_plain *plain, struct kt_index *index, bool *is_plain,
                                 struct kt_error *error)
{
    enum kt_status status = KT_OK;
    char key[16];
    bool mapped = false, sized = false;
    *is_plain = kt_plain_take(plain, '{');
    for (bool more = *is_plain; more && status == KT_OK; more = *is_plain && kt_plain_take(plain, ',')) {
        *is_plain = kt_plain_string(plain, key, sizeof key) && kt_plain_take(plain, ':');
        if (*is_plain && !mapped && strcmp(key, "weight_map") == 0) {
            mapped = true;
            status = take_map(plain, index, is_plain, error);
        } else if (*is_plain && !sized && strcmp(key, "metadata") == 0) {
            sized = true;
            status = take_metadata(plain, index, is_plain, error);
        } else {
            *is_plain = false;
        }
    }
    *is_plain = *is_plain && mapped && kt_plain_take(plain, '}') && kt_plain_end(plain);
    return status == KT_OK ? plain->status : status;
}

static enum kt_status list_json(struct kt_index *index, const char *name, const json_t *value,
                                struct kt_error *error)
{
    if (!is_tensor_name(name))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: the name of a tensor in weight_map has %zu letters; 1 to %d are "
                       "allowed, none of them a control character",
                       index->label, strlen(name), KT_NAME_SIZE);
    if (!json_is_string(value) || !is_file_name(json_string_value(value)))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: tensor \"%s\": weight_map must give the name of a %s file in the "
                       "same folder, without '/'",
                       index->label, name, KT_SAFETENSORS);
    return list(index, name, json_string_value(value), error);
}

static enum kt_status read_map(const json_t *root, struct kt_index *index, struct kt_error *error)
{
    json_t *map = json_object_get(root, "weight_map"), *value;
    const char *name;
    index->sizeless = is_sizeless(json_object_get(root, "metadata"));
    json_object_foreach(map, name, value) index->packed |= is_packed(name);
    if (says_nothing(index, json_object_size(map)))
        return KT_OK;
    if (!json_is_object(map))
        return kt_fail(error, KT_E_FORMAT, "%s: must be an object with the object \"weight_map\" in it",
                       index->label);
    json_object_foreach(map, name, value)
    {
        enum kt_status status = list_json(index, name, value, error);
        if (status != KT_OK)
            return status;
    }
    return KT_OK;
}

static enum kt_status read_json(const struct kt_file *file, struct kt_index *index,
                                struct kt_error *error)
{
    json_t *root;
    enum kt_status status = kt_json_load(file, 0, file->size, &bounds, &root, error);
    if (status != KT_OK)
        return status;
    status = read_map(root, index, error);
    json_decref(root);
    return status;
}

static enum kt_status read_text(const struct kt_file *file, struct kt_index *index, struct kt_error *error)
{
    struct kt_plain plain;
    bool is_plain = file->size <= LARGEST_INDEX;
    enum kt_status status = KT_OK;
    kt_plain_begin(&plain, file, 0, file->size, error);
    if (is_plain)
        status = read_plain(&plain, index, &is_plain, error);
    if (status != KT_OK || is_plain)
        return status;
    kt_index_drop(index);
    return read_json(file, index, error);
}

enum kt_status kt_index_read(const char *path, struct kt_index *index, struct kt_error *error)
{
    struct kt_file file;
    enum kt_status status = kt_file_open(path, KT_IO_READ, &file, error);
    if (status != KT_OK)
        return status;
    memcpy(index->label, file.label, KT_LABEL_SIZE);
    status = read_text(&file, index, error);
    kt_file_close(&file);
    if (status != KT_OK)
        return status;
    if (says_nothing(index, index->n)) {
        kt_index_drop(index);
        return KT_OK;
    }
    index->found = true;
    if (index->n == 0)
        return kt_fail(error, KT_E_FORMAT, "%s: weight_map names no tensor", index->label);
    return KT_OK;
}

bool kt_index_lists(const struct kt_index *index, const char *file)
{
    const struct kt_names *files = &index->files;
    return files->n > 0 && bsearch(&file, files->name, files->n, sizeof *files->name, compare_names);
}

/* Is each tensor of the index where it says, and listed once? */
enum kt_status kt_index_compare(const struct kt_checkpoint *checkpoint,
                                    const struct kt_index *index, struct kt_error *error)
{
    const struct kt_tensors *tensors = &checkpoint->tensors;
    enum kt_status status = KT_OK;
    bool *seen = calloc((size_t)tensors->n + 1, sizeof *seen);
    if (!seen)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to compare it with its files", index->label);
    for (size_t i = 0; i < index->n && status == KT_OK; i++) {
        const char *name = index->text + index->listed[i].name, *said = index->listed[i].file;
        const struct kt_tensor *tensor = kt_tensors_find(tensors, name);
        const char *holder = tensor ? index->files.name[tensor->part] : "no file";
        if (!tensor || strcmp(holder, said) != 0)
            status = kt_fail(error, KT_E_FORMAT,
                             "%s: tensor \"%s\" is said to be in %.255s, but it is in %.255s",
                             index->label, name, said, holder);
        else if (seen[tensor - tensors->tensor])
            status = kt_fail(error, KT_E_FORMAT, "%s: weight_map names tensor \"%s\" twice", index->label,
                             name);
        else
            seen[tensor - tensors->tensor] = true;
    }
    free(seen);
    if (status == KT_OK && tensors->n > index->n)
        kt_log_write(&checkpoint->log, KT_LOG_INFO, "%s: lists %zu tensors; its files hold %" PRIu64,
                     index->label, index->n, tensors->n);
    return status;
}

