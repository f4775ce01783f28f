/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* SEEK_HOLE */
#include "core/weights/file/file.h"

#include "core/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void kt_file_label(const char *path, char label[KT_LABEL_SIZE])
{
    size_t length = strlen(path), used = 0;
    const char *from = path;
    if (length >= KT_LABEL_SIZE) {
        memcpy(label, "...", 3);
        used = 3;
        from = path + length - (KT_LABEL_SIZE - 4);
        while (((unsigned char)*from & 0xc0) == 0x80)
            from++;
    }
    for (; *from; from++)
        label[used++] = (unsigned char)*from < 0x20 || *from == 0x7f ? '?' : *from;
    label[used] = 0;
}

char *kt_path_join(const char *folder, const char *name, struct kt_error *error)
{
    size_t length = strlen(folder), size = length + strlen(name) + 2;
    char *path = malloc(size);
    if (!path)
        (void)kt_fail(error, KT_E_NOMEM, "no memory for the path of %.255s", name);
    else
        (void)snprintf(path, size, "%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
    return path;
}

static enum kt_status examine(struct kt_file *file, struct kt_error *error)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return kt_fail(error, KT_E_IO, "%s: %s", file->label, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return kt_fail(error, KT_E_IO, "%s: is a folder; a file is needed here", file->label);
    if (!S_ISREG(status.st_mode))
        return kt_fail(error, KT_E_IO, "%s: is not a regular file", file->label);
    file->size = (uint64_t)status.st_size;
    if (file->size == 0)
        return kt_fail(error, KT_E_FORMAT, "%s: is empty", file->label);
    return KT_OK;
}

static enum kt_status map_file(struct kt_file *file, struct kt_error *error)
{
    if (file->io == KT_IO_READ)
        return KT_OK;
    void *map = MAP_FAILED;
    errno = EFBIG;
    if (file->size <= PTRDIFF_MAX)
        map = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (map == MAP_FAILED) {
        return kt_fail(error, KT_E_IO,
                       "%s: its %" PRIu64 " bytes cannot be mapped (%s); read it instead (KT_IO_READ)",
                       file->label, file->size, strerror(errno));
    }
    file->map = map;
    return KT_OK;
}

enum kt_status kt_file_open(const char *path, enum kt_io io, struct kt_file *file, struct kt_error *error)
{
    struct kt_file opened = {.fd = -1, .io = io};
    kt_file_label(path, opened.label);
    /* O_NONBLOCK: opening a named pipe must not block; fstat refuses it later. */
    do
        opened.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (opened.fd < 0 && errno == EINTR);
    if (opened.fd < 0) {
        return kt_fail(error, KT_E_IO, "%s: cannot be opened: %s", opened.label, strerror(errno));
    }
    enum kt_status status = examine(&opened, error);
    if (status == KT_OK)
        status = map_file(&opened, error);
    if (status != KT_OK) {
        kt_file_close(&opened);
        return status;
    }
    *file = opened;
    return KT_OK;
}

void kt_file_close(struct kt_file *file)
{
    if (file->map)
        (void)munmap((void *)(uintptr_t)file->map, (size_t)file->size);
    if (file->fd >= 0)
        (void)close(file->fd);
    file->map = NULL;
    file->fd = -1;
}

static enum kt_status report_shrunk(const struct kt_file *file, uint64_t size, struct kt_error *error)
{
    return kt_fail(error, KT_E_IO,
                   "%s: size changed from %" PRIu64 " to %" PRIu64
                   " bytes after opening; another process is writing the file: open it again afterwards",
                   file->label, file->size, size);
}

enum kt_status kt_file_check_size(const struct kt_file *file, struct kt_error *error)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0) {
        return kt_fail(error, KT_E_IO, "%s: %s", file->label, strerror(errno));
    }
    if (status.st_size < 0 || (uint64_t)status.st_size < file->size)
        return report_shrunk(file, (uint64_t)status.st_size, error);
    return KT_OK;
}

enum kt_status kt_file_read(const struct kt_file *file, uint64_t offset, void *to, uint64_t size,
                            struct kt_error *error)
{
    enum { LARGEST = 1 << 30 };
    uint8_t *next = to;
    while (size > 0) {
        ssize_t n = pread(file->fd, next, size < LARGEST ? (size_t)size : LARGEST, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            return kt_fail(error, KT_E_IO, "%s: byte %" PRIu64 " cannot be read: %s", file->label, offset,
                           strerror(errno));
        }
        if (n == 0)
            return report_shrunk(file, offset, error);
        next += n;
        offset += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return KT_OK;
}

static enum kt_status check_rest(const struct kt_reader *reader, uint64_t size, const char *what,
                                 struct kt_error *error)
{
    const struct kt_file *file = reader->file;
    if (size <= file->size - reader->at)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: byte %" PRIu64 ": %s takes %" PRIu64 " bytes, but the file ends after %" PRIu64
                   ": the file is truncated or damaged",
                   file->label, reader->at, what, size, file->size - reader->at);
}

/* A file may have terabytes that are nowhere on the disk, and no header lies there: so reading one takes no
 * longer than what is stored. File systems that do not know their holes have none. */
static enum kt_status check_hole(struct kt_reader *reader, const char *what, struct kt_error *error)
{
    const struct kt_file *file = reader->file;
    if (reader->at < reader->solid)
        return KT_OK;
    off_t hole = lseek(file->fd, (off_t)reader->at, SEEK_HOLE);
    reader->solid = hole < 0 ? file->size : (uint64_t)hole;
    if (reader->at < reader->solid)
        return KT_OK;
    return kt_fail(error, KT_E_FORMAT,
                   "%s: byte %" PRIu64 ": %s is in a hole of the file, which was never written: it is "
                   "damaged",
                   file->label, reader->at, what);
}

enum kt_status kt_reader_get(struct kt_reader *reader, void *to, uint64_t size, const char *what,
                             struct kt_error *error)
{
    enum kt_status status = check_rest(reader, size, what, error);
    uint8_t *next = to;
    while (status == KT_OK && size > 0) {
        if (reader->at < reader->begin || reader->at >= reader->end) {
            status = check_hole(reader, what, error);
            if (status != KT_OK)
                break;
            uint64_t end = reader->file->size < reader->solid ? reader->file->size : reader->solid;
            uint64_t rest = end - reader->at;
            uint64_t count = rest < sizeof reader->window ? rest : sizeof reader->window;
            reader->begin = reader->end = reader->at;
            status = kt_file_read(reader->file, reader->at, reader->window, count, error);
            if (status != KT_OK)
                break;
            reader->end = reader->begin + count;
        }
        uint64_t held = reader->end - reader->at;
        uint64_t count = size < held ? size : held;
        memcpy(next, reader->window + (reader->at - reader->begin), (size_t)count);
        next += count;
        reader->at += count;
        size -= count;
    }
    return status;
}

enum kt_status kt_reader_u32(struct kt_reader *reader, uint32_t *value, const char *what,
                             struct kt_error *error)
{
    uint8_t bytes[4];
    enum kt_status status = kt_reader_get(reader, bytes, sizeof bytes, what, error);
    if (status == KT_OK)
        *value = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    return status;
}

enum kt_status kt_reader_u64(struct kt_reader *reader, uint64_t *value, const char *what,
                             struct kt_error *error)
{
    uint8_t bytes[8];
    enum kt_status status = kt_reader_get(reader, bytes, sizeof bytes, what, error);
    if (status == KT_OK) {
        *value = 0;
        for (int i = 7; i >= 0; i--)
            *value = *value << 8 | bytes[i];
    }
    return status;
}

enum kt_status kt_reader_skip(struct kt_reader *reader, uint64_t size, const char *what,
                              struct kt_error *error)
{
    enum kt_status status = check_rest(reader, size, what, error);
    if (status == KT_OK)
        reader->at += size;
    return status;
}
