/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - files of a model's folder. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE (UINT64_C(1) << 30)

static enum kt_status fail_errno(struct kt_error *error, const char *path)
{
    int code = errno;
    return kt_engine_fail(error, code == ENOENT || code == ENOTDIR ? KT_E_NOT_FOUND : KT_E_IO, "%s: %s", path,
                          strerror(code));
}

static enum kt_status read_all(int file, const char *path, struct kt_buffer *bytes, struct kt_error *error)
{
    struct stat stat;
    if (fstat(file, &stat) != 0)
        return fail_errno(error, path);
    if (!S_ISREG(stat.st_mode))
        return kt_engine_fail(error, KT_E_IO, "%s: not a regular file", path);
    if ((uint64_t)stat.st_size > MAX_FILE)
        return kt_engine_fail(error, KT_E_FORMAT, "%s: more than 1 GiB, for a file of text", path);
    bytes->length = 0;
    if (!kt_buffer_reserve(bytes, (size_t)stat.st_size + 1))
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", path);
    for (;;) {
        /* One byte more than it has said: it may grow meanwhile. */
        ssize_t n = read(file, bytes->data + bytes->length, (size_t)stat.st_size + 1 - bytes->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(error, path);
        bytes->length += (size_t)n;
        if (n == 0 || bytes->length > (size_t)stat.st_size)
            break;
    }
    if (bytes->length != (size_t)stat.st_size)
        return kt_engine_fail(error, KT_E_IO, "%s: it changed while it was read", path);
    bytes->data[bytes->length] = '\0';
    return KT_OK;
}

static enum kt_status read_path(const char *path, struct kt_buffer *bytes, struct kt_error *error)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return fail_errno(error, path);
    enum kt_status status = read_all(file, path, bytes, error);
    (void)close(file);
    return status;
}

enum kt_status kt_files_read(const struct kt_files *files, const char *name, struct kt_buffer *bytes,
                             struct kt_error *error)
{
    if (files->checkpoint) {
        const void *data;
        uint64_t size;
        enum kt_status status = kt_checkpoint_file(files->checkpoint, name, &data, &size, error);
        bytes->length = 0;
        if (status == KT_OK && !(kt_buffer_add(bytes, data, size) && kt_buffer_add_text(bytes, "")))
            status = kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", name);
        return status;
    }
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", files->folder, name) >= (int)sizeof(path))
        return kt_engine_fail(error, KT_E_INVALID, "%s/%s: the path is too long", files->folder, name);
    return read_path(path, bytes, error);
}

enum kt_status kt_files_parse(const struct kt_files *files, const char *name, const struct kt_buffer *bytes,
                              json_t **value, struct kt_error *error)
{
    json_error_t place;
    *value = json_loadb(bytes->data, bytes->length, JSON_ALLOW_NUL, &place);
    /* "model_max_length": 1000000000000000019884624838656 */
    if (!*value && json_error_code(&place) == json_error_numeric_overflow)
        *value = json_loadb(bytes->data, bytes->length, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &place);
    if (!*value && json_error_code(&place) == json_error_out_of_memory)
        return kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for it", name);
    if (!*value)
        return kt_engine_fail(error, KT_E_FORMAT, "%s%s%s:%d: %s", files->checkpoint ? "" : files->folder,
                              files->checkpoint ? "" : "/", name, place.line, place.text);
    if (json_is_object(*value))
        return KT_OK;
    json_decref(*value);
    *value = NULL;
    return kt_engine_fail(error, KT_E_FORMAT, "%s: not a JSON object", name);
}

enum kt_status kt_files_json(const struct kt_files *files, const char *name, json_t **value,
                             struct kt_error *error)
{
    struct kt_buffer bytes = {.data = NULL};
    enum kt_status status = kt_files_read(files, name, &bytes, error);
    if (status == KT_OK)
        status = kt_files_parse(files, name, &bytes, value, error);
    kt_buffer_free(&bytes);
    return status;
}
