/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_split.c - a model in several GGUF files, as llama.cpp's gguf-split writes them.
 *
 *     NAME-00001-of-00003.gguf    all metadata of the model, and tensors or none
 *     NAME-00002-of-00003.gguf    more tensors
 *     in each: split.no, from 0; split.count; split.tensors.count, of the model's tensors
 *
 * Files may have been renamed or mixed up, so their names and contents must agree.
 */
#include "core/weights/gguf/gguf_split.h"

#include "core/base/error.h"
#include "core/weights/file/file.h"
#include "core/weights/table/parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SUFFIX ".gguf"

enum { LARGEST_FILES = 4096, DIGITS = 5, NUMBERS = sizeof "-00001-of-00003.gguf" - 1 };

/* The keys of a file. */
struct split {
    uint64_t no, count, tensors;
    bool has_no, has_tensors;
};

/* The parts of its name: "NAME", number 1 of 3. */
struct numbered {
    size_t prefix; /* letters before the numbers */
    uint32_t number, count;
};

static bool parse_digits(const char *text, uint32_t *number)
{
    *number = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (uint32_t)(text[i] - '0');
    }
    return true;
}

static bool parse_name(const char *path, struct numbered *name)
{
    size_t length = strlen(path);
    if (length < NUMBERS)
        return false;
    const char *end = path + length - NUMBERS;
    name->prefix = length - NUMBERS;
    return end[0] == '-' && parse_digits(end + 1, &name->number) &&
           strncmp(end + 1 + DIGITS, "-of-", 4) == 0 && parse_digits(end + 5 + DIGITS, &name->count) &&
           strcmp(end + 5 + 2 * DIGITS, SUFFIX) == 0;
}

static enum kt_status read_split(const struct kt_gguf *gguf, struct split *split, struct kt_error *error)
{
    enum kt_status status = kt_gguf_count(gguf, "split.no", &split->no, error);
    if (status == KT_OK)
        status = kt_gguf_count(gguf, "split.count", &split->count, error);
    if (status == KT_OK)
        status = kt_gguf_count(gguf, "split.tensors.count", &split->tensors, error);
    split->has_no = kt_gguf_find(gguf, "split.no") != NULL;
    split->has_tensors = kt_gguf_find(gguf, "split.tensors.count") != NULL;
    return status;
}

/* Do the keys fit file `number` of `count`, counted from 1? */
static enum kt_status check_split(const struct kt_gguf *gguf, const struct split *split, uint32_t number,
                                  uint32_t count, struct kt_error *error)
{
    if (split->count != count)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: named as file %" PRIu32 " of %" PRIu32 ", but key \"split.count\" is %" PRIu64
                       "; restore the original names of all files",
                       kt_gguf_label(gguf), number, count, split->count);
    if (!split->has_no)
        return kt_fail(error, KT_E_FORMAT, "%s: is a part of a model, but has no key \"split.no\"",
                       kt_gguf_label(gguf));
    if (split->no != number - 1)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: named as file %" PRIu32 " of %" PRIu32
                       ", but key \"split.no\", which counts from 0, is %" PRIu64
                       "; restore the original names of all files",
                       kt_gguf_label(gguf), number, count, split->no);
    return KT_OK;
}

static enum kt_status check_alone(const struct kt_gguf *gguf, const char *path, const struct split *split,
                                  struct numbered *name, struct kt_error *error)
{
    bool numbered = parse_name(path, name);
    /* In a merged file, split.count is 0. */
    if (split->count <= 1 && (!numbered || name->count <= 1))
        return KT_OK;
    if (split->count <= 1)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: named as file %" PRIu32 " of %" PRIu32
                       ", but key \"split.count\" is missing; rename the file if it is a complete model",
                       kt_gguf_label(gguf), name->number, name->count);
    if (split->count > LARGEST_FILES)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: key \"split.count\" is %" PRIu64 "; at most %d files can be handled",
                       kt_gguf_label(gguf), split->count, LARGEST_FILES);
    if (!numbered)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: is one of %" PRIu64 " files of a model, so its name must end in "
                       "-00001-of-%05" PRIu64 "%s or the like; give it the name that it had",
                       kt_gguf_label(gguf), split->count, split->count, SUFFIX);
    return check_split(gguf, split, name->number, name->count, error);
}

/* Reads the tensors of file `part`, whose keys must agree with those of the first file. */
static enum kt_status read_part(struct kt_gguf *gguf, const struct kt_gguf *first, struct split *said,
                                uint32_t count, struct kt_error *error)
{
    struct split split;
    enum kt_status status = read_split(gguf, &split, error);
    if (status == KT_OK)
        status = check_split(gguf, &split, gguf->part + 1, count, error);
    if (status != KT_OK)
        return status;
    if (gguf == first)
        *said = split;
    if (split.has_tensors && (!said->has_tensors || split.tensors != said->tensors))
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"split.tensors.count\" is %" PRIu64 ", in %s it is %" PRIu64
                       ": these are files of two models",
                       kt_gguf_label(gguf), split.tensors, kt_gguf_label(first), said->tensors);
    if (*gguf->architecture && strcmp(gguf->architecture, first->architecture) != 0)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"general.architecture\" is \"%s\", in %s it is \"%s\": these are "
                       "files of two models",
                       kt_gguf_label(gguf), gguf->architecture, kt_gguf_label(first), first->architecture);
    return kt_gguf_read_tensors(gguf, error);
}

/* Opens all files again, in order. */
static enum kt_status open_files(struct kt_checkpoint *checkpoint, const char *path,
                                 const struct numbered *name, struct kt_error *error)
{
    size_t size = name->prefix + 64;
    char *part = malloc(size), label[KT_LABEL_SIZE];
    enum kt_status status = KT_OK;
    if (!part)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the paths of its files", checkpoint->label);
    kt_file_label(path, label);
    kt_checkpoint_drop_files(checkpoint);
    for (uint32_t i = 1; i <= name->count && status == KT_OK; i++) {
        (void)snprintf(part, size, "%.*s-%05" PRIu32 "-of-%05" PRIu32 "%s", (int)name->prefix, path, i,
                       name->count, SUFFIX);
        status = kt_checkpoint_add(checkpoint, part, error);
    }
    if (status != KT_OK)
        (void)kt_fail_prefix(error, status,
                             "%s: is one of %" PRIu32 " files of a model, all of which are needed", label,
                             name->count);
    free(part);
    return status;
}

static enum kt_status read_all(struct kt_checkpoint *checkpoint, struct kt_gguf **first,
                               struct kt_error *error)
{
    uint32_t count = checkpoint->n_parts;
    struct split said = {.no = 0};
    enum kt_status status = kt_gguf_begin(checkpoint, 0, first, error);
    if (status == KT_OK)
        status = read_part(*first, *first, &said, count, error);
    for (uint32_t i = 1; i < count && status == KT_OK; i++) {
        struct kt_gguf *gguf = NULL;
        status = kt_gguf_begin(checkpoint, i, &gguf, error);
        if (status == KT_OK)
            status = read_part(gguf, *first, &said, count, error);
        kt_gguf_end(gguf);
    }
    if (status == KT_OK && said.has_tensors && said.tensors != checkpoint->tensors.n)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: key \"split.tensors.count\" is %" PRIu64 ", but the %" PRIu32
                       " files hold %" PRIu64 " tensors",
                       kt_gguf_label(*first), said.tensors, count, checkpoint->tensors.n);
    return status;
}

enum kt_status kt_gguf_read_parts(struct kt_gguf **gguf, const char *path, struct kt_error *error)
{
    struct kt_checkpoint *checkpoint = (*gguf)->checkpoint;
    struct numbered name = {.count = 1};
    struct split split;
    enum kt_status status = read_split(*gguf, &split, error);
    if (status == KT_OK)
        status = check_alone(*gguf, path, &split, &name, error);
    if (status != KT_OK)
        return status;
    if (split.count <= 1)
        return kt_gguf_read_tensors(*gguf, error);
    kt_gguf_end(*gguf);
    *gguf = NULL;
    status = open_files(checkpoint, path, &name, error);
    return status == KT_OK ? read_all(checkpoint, gguf, error) : status;
}

/* Do both files belong to one split model? */
static bool belong_together(const char *left, const char *right)
{
    struct numbered a, b;
    return parse_name(left, &a) && parse_name(right, &b) && a.count == b.count && a.prefix == b.prefix &&
           strncmp(left, right, a.prefix) == 0;
}

static bool is_gguf(const char *name)
{
    size_t length = strlen(name), tail = strlen(SUFFIX);
    return name[0] != '.' && length > tail && strcmp(name + length - tail, SUFFIX) == 0;
}

/* Is it no model of its own, by its name: what sees or hears for one (mmproj), or what a quantizer measured
 * (imatrix.gguf, imatrix_X.gguf, X.imatrix.gguf)? Models that were quantized with one may have the word, too.
 */
static bool is_companion(const char *name)
{
    static const char matrix[] = "imatrix", ending[] = "imatrix" SUFFIX;
    size_t length = strlen(name);
    for (const char *at = name; *at; at++)
        if (strncasecmp(at, "mmproj", strlen("mmproj")) == 0)
            return true;
    return strncasecmp(name, matrix, strlen(matrix)) == 0 ||
           (length >= strlen(ending) && strcasecmp(name + length - strlen(ending), ending) == 0);
}

/* Sets *path, which the caller frees also on failure, to the first by name of one model's files. */
static enum kt_status choose(DIR *listing, const char *folder, bool companions, char **path,
                             struct kt_error *error)
{
    char label[KT_LABEL_SIZE], other[KT_LABEL_SIZE];
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(listing)) != NULL) {
        if (!is_gguf(entry->d_name) || (!companions && is_companion(entry->d_name)))
            continue;
        char *found = kt_path_join(folder, entry->d_name, error);
        if (!found)
            return KT_E_NOMEM;
        if (!*path || (belong_together(found, *path) && strcmp(found, *path) < 0)) {
            free(*path);
            *path = found;
            continue;
        }
        bool together = belong_together(found, *path);
        kt_file_label(*path, label);
        kt_file_label(found, other);
        free(found);
        if (!together)
            return kt_fail(error, KT_E_INVALID, "%s and %s are two models; name the file of one", label,
                           other);
    }
    int failure = errno;
    kt_file_label(folder, label);
    if (failure != 0)
        return kt_fail(error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(failure));
    return *path ? KT_OK : kt_fail(error, KT_E_NOT_FOUND, "%s: the folder holds no %s file", label, SUFFIX);
}

enum kt_status kt_gguf_find_file(const char *folder, char **path, struct kt_error *error)
{
    char label[KT_LABEL_SIZE], *found = NULL;
    kt_file_label(folder, label);
    DIR *listing = opendir(folder);
    if (!listing)
        return kt_fail(error, KT_E_IO, "%s: the folder cannot be read: %s", label, strerror(errno));
    enum kt_status status = choose(listing, folder, false, &found, error);
    if (status == KT_E_NOT_FOUND) {
        rewinddir(listing);
        status = choose(listing, folder, true, &found, error);
    }
    (void)closedir(listing);
    if (status == KT_OK)
        *path = found;
    else
        free(found);
    return status;
}
