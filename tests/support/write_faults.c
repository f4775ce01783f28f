/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/write_faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static atomic_int n_good = -1; /* negative: all are */

void write_faults_after(int n)
{
    atomic_store(&n_good, n);
}

static int fails(void)
{
    int left = atomic_load(&n_good);
    while (left >= 0 && !atomic_compare_exchange_weak(&n_good, &left, left - 1))
        continue;
    if (left != 0)
        return 0;
    errno = ENOSPC;
    return 1;
}

#define WRAP(type, name, parameters, arguments)              \
    type __real_##name parameters;                           \
    type __wrap_##name parameters;                           \
    type __wrap_##name parameters                            \
    {                                                        \
        return fails() ? (type)-1 : __real_##name arguments; \
    }
WRAP(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t offset), (fd, from, size, offset))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, flock, (int fd, int operation), (fd, operation))
