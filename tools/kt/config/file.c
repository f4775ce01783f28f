/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - a configuration file that is to be changed: found, locked, read, and replaced as a whole.
 */
#define _GNU_SOURCE

#include "tools/kt/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SIZE_LIMIT = 1 << 20, LOCK_MS = 10000, WAIT_MS = 20 };

static const char *environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text && *text ? text : NULL;
}

char *config_file_path(const struct kt_cli *cli, bool system)
{
    const char *folder = environment("KT_KERNEL_SYSCONFDIR"), *file = environment("KT_KERNEL_CONFIG");
    if (system)
        return kt_cli_format(cli, "%s/kt.ini", folder ? folder : KT_SYSCONFDIR);
    if (cli->config_file || file)
        return kt_cli_format(cli, "%s", cli->config_file ? cli->config_file : file);
    const char *home = environment("XDG_CONFIG_HOME");
    if (home && *home == '/')
        return kt_cli_format(cli, "%s/kt-kernel/kt.ini", home);
    home = environment("HOME");
    if (home && *home == '/')
        return kt_cli_format(cli, "%s/.config/kt-kernel/kt.ini", home);
    kt_cli_error(cli,
                 "neither XDG_CONFIG_HOME nor HOME is set: name the file with --config, or use --system");
    return NULL;
}

static int fail(const struct kt_cli *cli, const char *path, int number)
{
    bool rights = (number == EACCES || number == EPERM || number == EROFS) && geteuid() != 0;
    return kt_cli_error(cli, "%s cannot be changed: %s%s", path, strerror(number),
                        rights ? "; it takes the rights of its owner, or root's" : "");
}

/* ---- opening it ----------------------------------------------------------------------------- */

/* Makes the folders above the file that are missing. */
static int make_folders(const struct kt_cli *cli, const char *path, mode_t mode)
{
    char *folder = kt_cli_format(cli, "%s", path);
    int failure = 0;
    for (char *slash = strchr(folder + 1, '/'); slash && !failure; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, mode) != 0 && errno != EEXIST)
            failure = fail(cli, folder, errno);
        *slash = '/';
    }
    free(folder);
    return failure;
}

/* Follows links. The file may be absent, its folder not. */
static int find_target(const struct kt_cli *cli, struct config_file *file)
{
    struct stat link;
    file->target = realpath(file->path, NULL);
    if (file->target)
        return KT_EXIT_OK;
    if (errno != ENOENT)
        return fail(cli, file->path, errno);
    if (lstat(file->path, &link) == 0)
        return kt_cli_error(cli, "%s: broken symbolic link; fix or remove it", file->path);
    const char *slash = strrchr(file->path, '/');
    char *folder =
        kt_cli_format(cli, "%.*s", slash ? (int)(slash - file->path) + 1 : 1, slash ? file->path : ".");
    char *real = realpath(folder, NULL);
    int failure = errno;
    free(folder);
    if (!real)
        return failure == ENOENT ? kt_cli_error(cli, "%s: no such file", file->path)
                                 : fail(cli, file->path, failure);
    file->target = kt_cli_format(cli, "%s/%s", real, slash ? slash + 1 : file->path);
    free(real);
    return KT_EXIT_OK;
}

/* Waits for other changes. The folder is locked, since the file is another one after each. */
static int lock_folder(const struct kt_cli *cli, struct config_file *file)
{
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    char *folder =
        kt_cli_format(cli, "%.*s", (int)(strrchr(file->target, '/') - file->target) + 1, file->target);
    file->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (file->folder < 0)
        return fail(cli, file->path, errno);
    for (int waited = 0; flock(file->folder, LOCK_EX | LOCK_NB) != 0; waited += WAIT_MS) {
        /* Some network file systems lock no folders. */
        if (errno == EBADF || errno == ENOLCK || errno == EINVAL || errno == EOPNOTSUPP)
            return KT_EXIT_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail(cli, file->path, errno);
        if (waited >= LOCK_MS)
            return kt_cli_error(cli,
                                "%s cannot be changed: its folder has been locked for %d seconds by another "
                                "program; try again",
                                file->path, LOCK_MS / 1000);
        (void)nanosleep(&pause, NULL);
    }
    return KT_EXIT_OK;
}

static int read_text(const struct kt_cli *cli, struct config_file *file)
{
    file->ini.text = kt_cli_alloc(cli, SIZE_LIMIT, 1);
    int fd = open(file->target, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return KT_EXIT_OK;
    if (fd < 0)
        return fail(cli, file->path, errno);
    int code = KT_EXIT_OK;
    if (fstat(fd, &file->stat) != 0)
        code = fail(cli, file->path, errno);
    else if (!S_ISREG(file->stat.st_mode))
        code = kt_cli_error(cli, "%s cannot be changed: it is not a file", file->path);
    else if (file->stat.st_size > SIZE_LIMIT)
        code = kt_cli_error(cli, "%s is larger than 1 MiB; it may not be an INI file", file->path);
    else if (faccessat(AT_FDCWD, file->target, W_OK, AT_EACCESS) != 0)
        code = fail(cli, file->path, errno);
    file->exists = true;
    for (ssize_t n = 1; code == KT_EXIT_OK && n != 0 && file->ini.size < SIZE_LIMIT;) {
        n = read(fd, file->ini.text + file->ini.size, SIZE_LIMIT - file->ini.size);
        if (n < 0 && errno != EINTR)
            code = fail(cli, file->path, errno);
        file->ini.size += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return code;
}

int config_file_open(const struct kt_cli *cli, struct config_file *file, const char *path, mode_t mode)
{
    *file = (struct config_file){.path = kt_cli_format(cli, "%s", path), .folder = -1};
    int code = mode ? make_folders(cli, path, mode) : KT_EXIT_OK;
    if (code == KT_EXIT_OK)
        code = find_target(cli, file);
    if (code == KT_EXIT_OK)
        code = lock_folder(cli, file);
    if (code == KT_EXIT_OK)
        code = read_text(cli, file);
    if (code != KT_EXIT_OK)
        config_file_close(file);
    return code;
}

void config_file_close(struct config_file *file)
{
    if (file->folder >= 0)
        close(file->folder); /* unlocks it */
    free(file->path);
    free(file->target);
    free(file->ini.text);
    *file = (struct config_file){.folder = -1};
}

/* ---- replacing it --------------------------------------------------------------------------- */

static bool write_text(int fd, const struct ini_text *ini)
{
    for (size_t done = 0; done < ini->size;) {
        ssize_t n = write(fd, ini->text + done, ini->size - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* A new file gets the mode that open() would give it. */
static bool keep_rights(int fd, const struct config_file *file)
{
    struct stat made;
    if (!file->exists) {
        mode_t mask = umask(0);
        umask(mask);
        return fchmod(fd, 0666 & ~mask) == 0;
    }
    if (fstat(fd, &made) != 0)
        return false;
    if ((made.st_uid != file->stat.st_uid || made.st_gid != file->stat.st_gid) &&
        fchown(fd, file->stat.st_uid, file->stat.st_gid) != 0)
        return false;
    return fchmod(fd, file->stat.st_mode & 07777) == 0;
}

int config_file_write(const struct kt_cli *cli, struct config_file *file,
                      int (*check)(const char *temporary, void *data), void *data)
{
    char *temporary = kt_cli_format(cli, "%s.XXXXXX", file->target);
    int fd = mkostemp(temporary, O_CLOEXEC);
    int code = fd < 0 ? fail(cli, file->path, errno) : KT_EXIT_OK;
    if (fd >= 0) {
        kt_signals_temporary(temporary);
        if (!write_text(fd, &file->ini) || !keep_rights(fd, file) || fsync(fd) != 0)
            code = fail(cli, file->path, errno);
        if (close(fd) != 0 && code == KT_EXIT_OK)
            code = fail(cli, file->path, errno);
        if (code == KT_EXIT_OK && check)
            code = check(temporary, data);
        if (code == KT_EXIT_OK && rename(temporary, file->target) != 0)
            code = fail(cli, file->path, errno);
        if (code != KT_EXIT_OK)
            unlink(temporary);
        else
            (void)fsync(file->folder); /* some file systems sync no folders */
        kt_signals_temporary(NULL);
    }
    free(temporary);
    return code;
}
