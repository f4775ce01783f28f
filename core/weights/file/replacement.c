/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* asprintf */
#include "core/weights/file/replacement.h"

#include "core/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kt_status fail_io(const struct kt_replacement *out, const char *what, struct kt_error *error)
{
    return kt_fail(error, KT_E_IO, "%s: %s: %s", out->label, what, strerror(errno));
}

enum kt_status kt_replacement_fail(const struct kt_replacement *out, struct kt_error *error)
{
    return fail_io(out, "cannot write", error);
}

/* Opens a temporary file beside the final one, with the permissions of the file that it replaces, if there is
 * one. */
static enum kt_status open_temporary(struct kt_replacement *out, const struct stat *before,
                                     struct kt_error *error)
{
    int fd = -1;
    errno = EEXIST;
    for (unsigned i = 0; i < 100 && fd < 0 && errno == EEXIST; i++) {
        free(out->temporary);
        if (asprintf(&out->temporary, "%s.%ld-%u.part", out->path, (long)getpid(), i) < 0) {
            out->temporary = NULL;
            return kt_fail(error, KT_E_NOMEM, "%s: no memory for a path", out->label);
        }
        fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0) {
        free(out->temporary);
        out->temporary = NULL;
        return fail_io(out, "cannot make a temporary file beside it", error);
    }
    if (before && fchmod(fd, before->st_mode & 07777) != 0)
        errno = 0; /* some file systems have no permissions: the data counts */
    out->file = fdopen(fd, "w");
    if (out->file)
        return KT_OK;
    enum kt_status status = fail_io(out, "cannot open", error);
    (void)close(fd);
    return status;
}

enum kt_status kt_replacement_open(const char *path, struct kt_replacement *out, struct kt_error *error)
{
    struct stat before;
    *out = (struct kt_replacement){0};
    kt_file_label(path, out->label);
    bool exists = stat(path, &before) == 0;
    /* Resolved, because a rename would replace a symbolic link or a device. */
    out->path = exists ? realpath(path, NULL) : NULL;
    if (!out->path)
        out->path = strdup(path);
    if (!out->path)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a path", out->label);
    if (!exists || S_ISREG(before.st_mode))
        return open_temporary(out, exists ? &before : NULL, error);
    out->file = fopen(out->path, "we");
    return out->file ? KT_OK : fail_io(out, "cannot open", error);
}

/* So that the new name survives a power failure, too. */
static enum kt_status sync_folder(const struct kt_replacement *out, struct kt_error *error)
{
    char *slash = strrchr(out->path, '/');
    const char *folder = !slash ? "." : slash == out->path ? "/" : out->path;
    if (slash && slash != out->path)
        *slash = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A folder that may not be read can still be written to. */
    bool synced = fd < 0 || fsync(fd) == 0 || errno == EINVAL;
    enum kt_status status = synced ? KT_OK : fail_io(out, "cannot be made durable", error);
    if (fd >= 0)
        (void)close(fd);
    return status;
}

enum kt_status kt_replacement_finish(struct kt_replacement *out, struct kt_error *error)
{
    if (fflush(out->file) != 0 || (out->temporary && fsync(fileno(out->file)) != 0))
        return fail_io(out, "cannot write", error);
    int closed = fclose(out->file);
    out->file = NULL;
    if (closed != 0)
        return fail_io(out, "cannot write", error);
    if (!out->temporary)
        return KT_OK;
    if (rename(out->temporary, out->path) != 0)
        return fail_io(out, "cannot rename the finished file", error);
    free(out->temporary);
    out->temporary = NULL;
    return sync_folder(out, error);
}

void kt_replacement_cancel(struct kt_replacement *out)
{
    if (out->file)
        (void)fclose(out->file);
    if (out->temporary)
        (void)unlink(out->temporary);
    free(out->temporary);
    free(out->path);
    out->file = NULL;
    out->temporary = out->path = NULL;
}
