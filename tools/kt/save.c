/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - writes the outputs of layers to a safetensors file that is whole or not there. */
#define _GNU_SOURCE

#include "tools/kt/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kt_save {
    const struct kt_cli *cli;
    char *path;      /* where the file belongs, symbolic links resolved */
    char *temporary; /* NULL: a device or a pipe is written in place */
    FILE *file;
    size_t next, n;
    struct kt_save_tensor tensor[];
};

static int fail(const struct kt_save *save, const char *what)
{
    return kt_cli_error(save->cli, "output %s: %s: %s", save->path, what, strerror(errno));
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are written as they lie in memory");

/* The header: its length in 8 bytes, then JSON padded with spaces to a multiple of 8. */
static int write_header(struct kt_save *save)
{
    size_t size = 64 + save->n * 192;
    char *json = kt_cli_alloc(save->cli, size, 1);
    unsigned char length[8];
    uint64_t offset = 0;
    size_t at = (size_t)sprintf(json, "{");

    for (size_t i = 0; i < save->n; i++) {
        const struct kt_save_tensor *tensor = &save->tensor[i];
        uint64_t bytes = tensor->n_tokens * tensor->hidden_size * sizeof(float);
        at += (size_t)snprintf(json + at, size - at,
                               "%s\"layers.%" PRIu64
                               ".output\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 ",%" PRIu64
                               "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                               i ? "," : "", tensor->layer, tensor->n_tokens, tensor->hidden_size,
                               offset, offset + bytes);
        offset += bytes;
    }
    json[at++] = '}';
    while (at % 8 != 0)
        json[at++] = ' ';
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)at >> (8 * i));
    bool written = fwrite(length, 1, 8, save->file) == 8 && fwrite(json, 1, at, save->file) == at;
    free(json);
    return written ? KT_EXIT_OK : fail(save, "cannot write");
}

/* A file gets the permissions that open(2) would have given it: mkstemp's are the owner's only. */
static void set_mode(int fd, const struct stat *before)
{
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, before ? before->st_mode & 07777 : 0666 & ~mask) != 0)
        return; /* some file systems have no permissions: the data counts */
}

static int open_file(struct kt_save *save, const char *path)
{
    struct stat before;
    bool exists = stat(path, &before) == 0;

    /* A rename would replace a symbolic link, or a device. */
    save->path = exists ? realpath(path, NULL) : NULL;
    if (!save->path)
        save->path = kt_cli_format(save->cli, "%s", path);
    if (exists && !S_ISREG(before.st_mode)) {
        save->file = fopen(save->path, "we");
        return save->file ? KT_EXIT_OK : fail(save, "cannot open");
    }
    save->temporary = kt_cli_format(save->cli, "%s.XXXXXX", save->path);
    int fd = mkostemp(save->temporary, O_CLOEXEC);
    if (fd < 0) {
        int code = fail(save, "cannot make a temporary file beside it");
        free(save->temporary);
        save->temporary = NULL;
        return code;
    }
    kt_signals_temporary(save->temporary);
    set_mode(fd, exists ? &before : NULL);
    save->file = fdopen(fd, "w");
    if (save->file)
        return KT_EXIT_OK;
    int code = fail(save, "cannot open");
    close(fd);
    return code;
}

int kt_save_create(const struct kt_cli *cli, const char *path, const struct kt_save_tensor *tensors,
                   size_t n, struct kt_save **save)
{
    struct kt_save *made = kt_cli_alloc(cli, 1, sizeof(*made) + n * sizeof(*tensors));

    made->cli = cli;
    made->n = n;
    memcpy(made->tensor, tensors, n * sizeof(*tensors));
    int code = open_file(made, path);
    if (code == KT_EXIT_OK)
        code = write_header(made);
    if (code != KT_EXIT_OK)
        return kt_save_finish(made, code);
    *save = made;
    return KT_EXIT_OK;
}

int kt_save_write(struct kt_save *save, const float *values, uint64_t n)
{
    const struct kt_save_tensor *tensor = &save->tensor[save->next++];

    if (n != tensor->n_tokens * tensor->hidden_size)
        return kt_cli_error(save->cli, "output %s: layer %" PRIu64 " does not fit its header",
                            save->path, tensor->layer);
    if (fwrite(values, sizeof(*values), (size_t)n, save->file) != n)
        return fail(save, "cannot write");
    return KT_EXIT_OK;
}

static int put_in_place(struct kt_save *save)
{
    if (fflush(save->file) != 0)
        return fail(save, "cannot write");
    if (save->temporary && fsync(fileno(save->file)) != 0)
        return fail(save, "cannot write");
    int closed = fclose(save->file);
    save->file = NULL;
    if (closed != 0)
        return fail(save, "cannot write");
    if (save->temporary && rename(save->temporary, save->path) != 0)
        return fail(save, "cannot rename the finished file");
    return KT_EXIT_OK;
}

int kt_save_finish(struct kt_save *save, int code)
{
    if (!save)
        return code;
    if (code == KT_EXIT_OK)
        code = put_in_place(save);
    if (save->file)
        fclose(save->file);
    if (save->temporary && code != KT_EXIT_OK)
        unlink(save->temporary);
    kt_signals_temporary(NULL);
    free(save->temporary);
    free(save->path);
    free(save);
    return code;
}
