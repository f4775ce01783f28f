/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "core/base/trust.h"

#include "core/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kt_status check_owner(const char *path, size_t length, const struct stat *entry,
                                  struct kt_error *error)
{
    if (entry->st_uid == 0 || entry->st_uid == geteuid())
        return KT_OK;
    return kt_fail(error, KT_E_PLUGIN,
                   "%.*s belongs to user %u, neither to root nor to user %u who runs this; give it "
                   "another owner or move the plugin",
                   (int)length, path, (unsigned)entry->st_uid, (unsigned)geteuid());
}

static enum kt_status check_mode(const char *path, size_t length, const struct stat *entry,
                                 struct kt_error *error)
{
    bool sticky = S_ISDIR(entry->st_mode) && (entry->st_mode & S_ISVTX) != 0 && entry->st_uid == 0;
    if ((entry->st_mode & (S_IWGRP | S_IWOTH)) == 0 || sticky)
        return KT_OK;
    return kt_fail(error, KT_E_PLUGIN, "%.*s is writable by %s (mode %04o); run chmod go-w %.*s", (int)length,
                   path, entry->st_mode & S_IWOTH ? "everybody" : "its group",
                   (unsigned)(entry->st_mode & 07777), (int)length, path);
}

static enum kt_status check(const char *path, size_t length, const struct stat *entry, struct kt_error *error)
{
    enum kt_status status = check_owner(path, length, entry, error);
    return status == KT_OK ? check_mode(path, length, entry, error) : status;
}

static enum kt_status fail_system(const char *path, size_t length, struct kt_error *error)
{
    return kt_fail(error, kt_status_of_errno(errno, KT_E_PLUGIN), "%.*s cannot be opened: %s", (int)length,
                   path, strerror(errno));
}

/* Walks from / to the folder of a real path and checks each folder by its descriptor, so that none can be
 * exchanged between the check and its use. Gives the descriptor of the last one. */
static enum kt_status descend(const char *path, int *folder, struct kt_error *error)
{
    int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t length = 1; /* of the part of the path that `at` is */
    for (;;) {
        struct stat entry;
        if (at < 0 || fstat(at, &entry) != 0) {
            enum kt_status status = fail_system(path, length, error);
            if (at >= 0)
                (void)close(at);
            return status;
        }
        enum kt_status status = check(path, length, &entry, error);
        if (status != KT_OK) {
            (void)close(at);
            return status;
        }
        const char *name = path + length + (path[length] == '/');
        const char *slash = strchr(name, '/');
        if (!slash) {
            *folder = at;
            return KT_OK;
        }
        char *component = strndup(name, (size_t)(slash - name));
        int next = component ? openat(at, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        int number = errno;
        free(component);
        (void)close(at);
        errno = number;
        at = next;
        length = (size_t)(slash - path);
    }
}

/* `path` is real: no links are left in it. */
static enum kt_status open_real(const char *path, int *fd, struct kt_error *error)
{
    int folder = -1;
    enum kt_status status = descend(path, &folder, error);
    if (status != KT_OK)
        return status;
    const char *name = strrchr(path, '/') + 1;
    size_t length = strlen(path);
    struct stat entry;
    int file = -1;
    if (fstatat(folder, name, &entry, AT_SYMLINK_NOFOLLOW) != 0) {
        status = fail_system(path, length, error);
    } else if (!S_ISREG(entry.st_mode)) {
        status = kt_fail(error, KT_E_PLUGIN, "%s is %s, not a file", path,
                         S_ISDIR(entry.st_mode) ? "a directory" : "a device, pipe or socket");
    } else {
        file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0 || fstat(file, &entry) != 0 || !S_ISREG(entry.st_mode))
            status = fail_system(path, length, error);
        else
            status = check(path, length, &entry, error);
    }
    (void)close(folder);
    if (status == KT_OK)
        *fd = file;
    else if (file >= 0)
        (void)close(file);
    return status;
}

/* ---- links on the way ---- */

enum { MOST_LINKS = 40 };

/* The path as far as it was followed, without links, and what is left of it. */
struct walk {
    char done[PATH_MAX], left[PATH_MAX];
    unsigned n_links;
};

/* Puts the link's target before what is left. */
static enum kt_status follow(struct walk *walk, const char *path, const struct stat *entry,
                             struct kt_error *error)
{
    char target[PATH_MAX], rest[PATH_MAX];
    enum kt_status status = check_owner(walk->done, strlen(walk->done), entry, error);
    if (status != KT_OK)
        return status;
    ssize_t length = readlink(walk->done, target, sizeof target - 1);
    if (length < 0)
        return fail_system(walk->done, strlen(walk->done), error);
    target[length] = '\0';
    memcpy(rest, walk->left, sizeof rest);
    if (++walk->n_links > MOST_LINKS ||
        snprintf(walk->left, sizeof walk->left, "%s/%s", target, rest) >= (int)sizeof walk->left)
        return kt_fail(error, KT_E_PLUGIN, "%s: its symbolic links lead too far", path);
    *(target[0] == '/' ? walk->done : strrchr(walk->done, '/')) = '\0';
    return KT_OK;
}

/* One more name of the path. KT_E_NOT_FOUND: no such file. */
static enum kt_status step(struct walk *walk, const char *path, struct kt_error *error)
{
    struct stat entry;
    size_t used = strlen(walk->done), length = strcspn(walk->left, "/");
    bool up = length == 2 && memcmp(walk->left, "..", 2) == 0, here = length == 1 && *walk->left == '.';
    if (up && used > 0)
        *strrchr(walk->done, '/') = '\0';
    else if (length > 0 && !up && !here &&
             snprintf(walk->done + used, sizeof walk->done - used, "/%.*s", (int)length, walk->left) >=
                 (int)(sizeof walk->done - used))
        return kt_fail(error, KT_E_PLUGIN, "%s: the path is too long", path);
    memmove(walk->left, walk->left + length + (walk->left[length] == '/'),
            strlen(walk->left + length + (walk->left[length] == '/')) + 1);
    if (length == 0 || up || here)
        return KT_OK;
    if (lstat(walk->done, &entry) != 0) {
        if ((errno == ENOENT || errno == ENOTDIR) && walk->n_links > 0)
            return kt_fail(error, KT_E_PLUGIN, "%s is a symbolic link to nothing, or leads to one", path);
        if (errno == ENOENT || errno == ENOTDIR)
            return kt_fail(error, KT_E_NOT_FOUND, "%s does not exist; install it, or correct the path", path);
        return fail_system(walk->done, strlen(walk->done), error);
    }
    if (S_ISLNK(entry.st_mode))
        return follow(walk, path, &entry, error);
    return S_ISDIR(entry.st_mode) ? check(walk->done, strlen(walk->done), &entry, error) : KT_OK;
}

/* Whoever can exchange a link chooses what is opened: so the folders of all links on the way count too. */
static enum kt_status check_links(const char *path, struct kt_error *error)
{
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return kt_fail(error, KT_E_NOMEM, "no memory to look at the path of a plugin");
    enum kt_status status = KT_OK;
    if (strlen(path) >= sizeof walk->left)
        status =
            kt_fail(error, KT_E_PLUGIN, "the path of a plugin has %zu characters; at most %zu are possible",
                    strlen(path), sizeof walk->left - 1);
    else
        memcpy(walk->left, path, strlen(path) + 1);
    while (status == KT_OK && *walk->left)
        status = step(walk, path, error);
    free(walk);
    return status;
}

enum kt_status kt_trust_open(const char *path, char **real, int *fd, struct kt_error *error)
{
    if (path[0] != '/')
        return kt_fail(error, KT_E_PLUGIN, "%s is not an absolute path", path);
    enum kt_status status = check_links(path, error);
    if (status != KT_OK)
        return status;
    char *resolved = realpath(path, NULL);
    if (!resolved) {
        if (errno == ENOENT)
            return kt_fail(error, KT_E_PLUGIN, "%s is a symbolic link to nothing", path);
        return fail_system(path, strlen(path), error);
    }
    if (strcmp(resolved, "/") == 0)
        status = kt_fail(error, KT_E_PLUGIN, "%s is a directory, not a file", path);
    else
        status = open_real(resolved, fd, error);
    if (status == KT_OK)
        *real = resolved;
    else
        free(resolved);
    return status;
}
