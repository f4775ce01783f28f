/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c - calls of all kinds that shim.c's others leave out: streams, folders, processes, sockets, pipes.
 */
#define _GNU_SOURCE
#include "tests/campaign/shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <hwloc.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Defines one that returns `bad` with this errno where it fails. */
#define REFUSE(type, bad, number, name, parameters, arguments)            \
    type name parameters                                                  \
    {                                                                     \
        return FAILS(OTHER, number) ? (type)(bad) : REAL(name) arguments; \
    }

REFUSE(ssize_t, -1, EIO, write, (int fd, const void *from, size_t size), (fd, from, size))
FILE *fopen(const char *path, const char *mode)
{
    FILE *file = FAILS(OTHER, EMFILE) ? NULL : REAL(fopen)(path, mode);
    (void)kt_shim_opened(path, file ? 0 : -1);
    return file;
}
REFUSE(FILE *, NULL, ENOMEM, fdopen, (int fd, const char *mode), (fd, mode))
REFUSE(FILE *, NULL, ENOMEM, open_memstream, (char **text, size_t *size), (text, size))
REFUSE(int, EOF, EIO, fflush, (FILE * file), (file))
REFUSE(int, -1, EIO, fseek, (FILE * file, long offset, int from), (file, offset, from))
REFUSE(ssize_t, -1, EIO, getline, (char **line, size_t *size, FILE *file), (line, size, file))
REFUSE(off_t, -1, EIO, lseek, (int fd, off_t offset, int from), (fd, offset, from))

REFUSE(DIR *, NULL, EMFILE, opendir, (const char *path), (path))
REFUSE(int, -1, ENOSPC, mkdir, (const char *path, mode_t mode), (path, mode))
REFUSE(char *, NULL, ENOSPC, mkdtemp, (char *path), (path))
REFUSE(int, -1, ENOSPC, mkostemp, (char *path, int flags), (path, flags))
REFUSE(int, -1, ENOSPC, mkostemps, (char *path, int length, int flags), (path, length, flags))
REFUSE(char *, NULL, EIO, realpath, (const char *path, char *to), (path, to))
REFUSE(ssize_t, -1, EIO, readlink, (const char *path, char *to, size_t size), (path, to, size))
REFUSE(int, -1, EIO, unlink, (const char *path), (path))
REFUSE(int, -1, EIO, rmdir, (const char *path), (path))
REFUSE(int, -1, EPERM, chmod, (const char *path, mode_t mode), (path, mode))
REFUSE(int, -1, EPERM, fchmod, (int fd, mode_t mode), (fd, mode))
REFUSE(int, -1, EIO, statvfs, (const char *path, struct statvfs *status), (path, status))
REFUSE(int, ENOSPC, ENOSPC, posix_fallocate, (int fd, off_t offset, off_t size), (fd, offset, size))

REFUSE(int, -1, EMFILE, pipe, (int ends[2]), (ends))
REFUSE(int, -1, EMFILE, pipe2, (int ends[2], int flags), (ends, flags))
REFUSE(int, -1, EMFILE, eventfd, (unsigned start, int flags), (start, flags))
REFUSE(int, -1, ENOMEM, memfd_create, (const char *name, unsigned flags), (name, flags))
REFUSE(pid_t, -1, EAGAIN, fork, (void), ())
REFUSE(int, -1, EACCES, mprotect, (void *at, size_t size, int protection), (at, size, protection))
REFUSE(int, -1, EAGAIN, madvise, (void *at, size_t size, int advice), (at, size, advice))
REFUSE(locale_t, NULL, ENOMEM, newlocale, (int mask, const char *name, locale_t base), (mask, name, base))
REFUSE(int, ENOMEM, ENOMEM, pthread_cond_init, (pthread_cond_t * c, const pthread_condattr_t *a), (c, a))
REFUSE(int, ENOMEM, ENOMEM, pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))

REFUSE(int, -1, EMFILE, socket, (int domain, int type, int protocol), (domain, type, protocol))
REFUSE(int, -1, EADDRINUSE, bind, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))
REFUSE(int, -1, EADDRINUSE, listen, (int fd, int n), (fd, n))
REFUSE(int, EAI_AGAIN, EIO, getaddrinfo,
       (const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found),
       (host, port, hints, found))
REFUSE(int, -1, EPERM, hwloc_set_area_membind,
       (hwloc_topology_t topology, const void *at, size_t size, hwloc_const_bitmap_t set,
        hwloc_membind_policy_t policy, int flags),
       (topology, at, size, set, policy, flags))
