/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_DIRECTORY */
#include "tools/engine/base/rename.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of a file, for free(). */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bool kt_rename_synced(const char *from, const char *to)
{
    char *folder = folder_of(to);
    if (!folder || rename(from, to) != 0) {
        free(folder);
        return false;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A folder that may not be read can still be written to, and some file systems sync none. */
    bool synced = fd < 0 || fsync(fd) == 0 || errno == EINVAL;
    int reason = errno;
    if (fd >= 0)
        (void)close(fd);
    free(folder);
    errno = reason;
    return synced;
}
