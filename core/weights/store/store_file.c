/* SPDX-License-Identifier: Apache-2.0 */
/* store_file.c - writes a file of a store: under a temporary name, which it loses when it is whole. */
#define _GNU_SOURCE /* asprintf */
#include "core/weights/store/store_file.h"

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/weights/decode/view.h"
#include "core/weights/file/json.h"
#include "core/weights/store/store_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kt_status fail_io(const struct kt_store_file *file, const char *what, struct kt_error *error)
{
    return kt_fail(error, KT_E_IO, "%s: cannot be %s: %s", file->temporary, what, strerror(errno));
}

/* ---- opening ---- */

/* Does the name still belong to the open file? Another process may have finished it and renamed it. */
static bool is_named(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

static enum kt_status lock_file(struct kt_store_file *file, int fd, struct kt_error *error)
{
    struct stat opened;
    bool known = fstat(fd, &opened) == 0, regular = known && S_ISREG(opened.st_mode);
    /* In a folder that others may write it could be a link to any file of this user. */
    if (!regular || opened.st_nlink > 1) {
        (void)close(fd);
        return kt_fail(error, KT_E_IO, "%s: %s: remove it", file->temporary,
                       !known    ? "cannot be looked at"
                       : regular ? "is a link to a file of another name"
                                 : "is not a regular file");
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, file->temporary)) {
        file->fd = fd;
        return ftruncate(fd, 0) == 0 ? KT_OK : fail_io(file, "emptied", error);
    }
    enum kt_status status =
        kt_fail(error, KT_E_BUSY, "%s: another process is writing this %s", file->path, file->what);
    if (errno != EWOULDBLOCK && is_named(fd, file->temporary)) {
        status = fail_io(file, "locked", error);
        (void)unlink(file->temporary);
    }
    (void)close(fd);
    return status;
}

enum kt_status kt_store_file_open(struct kt_store_file *file, const char *folder, const char *name,
                                  const char *what, struct kt_error *error)
{
    *file = (struct kt_store_file){.folder = folder, .what = what, .fd = -1};
    if (asprintf(&file->path, "%s/%s.safetensors", folder, name) < 0)
        file->path = NULL;
    if (asprintf(&file->temporary, "%s/.%s.part", folder, name) < 0)
        file->temporary = NULL;
    if (!file->path || !file->temporary)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a path", folder);
    int fd = open(file->temporary, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    return fd < 0 ? fail_io(file, "made", error) : lock_file(file, fd, error);
}

/* ---- writing ---- */

enum kt_status kt_store_file_reserve(const struct kt_store_file *file, uint64_t size, struct kt_error *error)
{
    int failed = posix_fallocate(file->fd, 0, (off_t)(file->data + size));
    if (failed && failed != EOPNOTSUPP && failed != EINVAL) {
        errno = failed;
        return fail_io(file, "filled", error);
    }
    return KT_OK;
}

enum kt_status kt_store_file_write(const struct kt_store_file *file, const void *from, uint64_t size,
                                   uint64_t offset, struct kt_error *error)
{
    for (const char *at = from; size > 0;) {
        ssize_t n = pwrite(file->fd, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail_io(file, "written", error);
        at += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return KT_OK;
}

enum kt_status kt_store_file_header(struct kt_store_file *file, json_t *root, struct kt_error *error)
{
    char *text = NULL, *header = NULL;
    size_t length = 0;
    enum kt_status status =
        kt_json_text(file->temporary, root, &kt_safetensors_bounds, &text, &length, error);
    json_decref(root);
    if (status == KT_OK) {
        file->data = (8 + length + KT_STORE_ALIGNMENT - 1) / KT_STORE_ALIGNMENT * KT_STORE_ALIGNMENT;
        header = malloc(file->data);
        if (!header)
            status = kt_fail(error, KT_E_NOMEM, "%s: no memory for its header", file->temporary);
    }
    if (status == KT_OK) {
        for (int i = 0; i < 8; i++)
            header[i] = (char)((file->data - 8) >> 8 * i);
        memcpy(header + 8, text, length);
        memset(header + 8 + length, ' ', file->data - 8 - length);
        status = kt_store_file_write(file, header, file->data, 0, error);
    }
    free(header);
    free(text);
    return status;
}

/* ---- ending ---- */

static enum kt_status sync_folder(const struct kt_store_file *file, struct kt_error *error)
{
    int fd = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (!synced)
        (void)kt_fail(error, KT_E_IO, "%s: cannot be made durable: %s", file->folder, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return synced ? KT_OK : KT_E_IO;
}

enum kt_status kt_store_file_finish(const struct kt_store_file *file, struct kt_error *error)
{
    if (fsync(file->fd) != 0)
        return fail_io(file, "made durable", error);
    if (rename(file->temporary, file->path) != 0)
        return fail_io(file, "renamed", error);
    return sync_folder(file, error);
}

void kt_store_file_close(struct kt_store_file *file, enum kt_status status)
{
    if (file->fd >= 0 && status != KT_OK)
        (void)unlink(file->temporary); /* has no effect once it was renamed */
    if (file->fd >= 0)
        (void)close(file->fd);
    free(file->temporary);
    free(file->path);
}

/* ---- parts of a header ---- */

int kt_store_add_text(json_t *metadata, const char *key, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    locale_t before = kt_number_begin();
    json_t *text = json_vsprintf(format, arguments);
    kt_number_end(before);
    va_end(arguments);
    return json_object_set_new(metadata, key, text);
}

int kt_store_add_formats(json_t *metadata, const struct kt_view *const *views, int n)
{
    char types[3 * 16] = "", scales[3 * 64] = "";
    size_t at = 0, scales_at = 0;
    for (int i = 0; i < n; i++) {
        const char *space = i ? " " : "";
        struct kt_format format;
        kt_view_format(views[i], &format);
        at += (size_t)snprintf(types + at, sizeof types - at, "%s%" PRIu32, space, format.dtype);
        scales_at +=
            (size_t)snprintf(scales + scales_at, sizeof scales - scales_at,
                             "%s%" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64, space, format.scale_dtype,
                             format.zero_dtype, format.group_rows, format.group_cols);
    }
    return kt_store_add_text(metadata, KT_STORE_KEY_SOURCE_TYPES, "%s", types) ||
           kt_store_add_text(metadata, KT_STORE_KEY_SOURCE_SCALES, "%s", scales);
}

int kt_store_add_source(json_t *metadata, const char *source, const struct kt_checkpoint_info *model)
{
    return kt_store_add_text(metadata, KT_STORE_KEY_SOURCE, "%s", source) ||
           kt_store_add_text(metadata, KT_STORE_KEY_MODEL, "%s %" PRIu64, model->architecture,
                             model->n_layers);
}

int kt_store_add_sums(json_t *metadata, const uint64_t *sums, uint64_t n, const char *const *keys,
                      size_t n_keys)
{
    const char *texts[KT_STORE_MOST_KEYS];
    char *digits = malloc(KT_STORE_DIGITS * (size_t)n + 1);
    if (!digits)
        return -1;
    for (uint64_t i = 0; i < n; i++)
        (void)snprintf(digits + KT_STORE_DIGITS * i, KT_STORE_DIGITS + 1, "%016" PRIx64, sums[i]);
    int failed = json_object_set_new(metadata, KT_STORE_KEY_CHECKSUMS, json_string(digits));
    free(digits);
    for (size_t i = 0; i < n_keys && !failed; i++)
        failed = !(texts[i] = json_string_value(json_object_get(metadata, keys[i])));
    return failed || kt_store_add_text(metadata, KT_STORE_KEY_HEADER, "%016" PRIx64,
                                       kt_store_header_sum(texts, n_keys));
}

int kt_store_add_tensor(json_t *root, const char *name, const char *dtype, json_t *shape, uint64_t *at,
                        uint64_t size)
{
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                              (json_int_t)*at, (json_int_t)(*at + size));
    *at += size;
    return json_object_set_new(root, name, entry);
}
