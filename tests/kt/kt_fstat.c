/* SPDX-License-Identifier: Apache-2.0 */
/* kt_fstat.c - preloaded by kt_shrink.sh: hides that a file shrank, so that the next read of its map is
 * the first to notice, as where it shrinks right after the length was looked at. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

int fstat(int fd, struct stat *status)
{
    int (*real)(int, struct stat *) = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
    const char *from = getenv("KT_TEST_SIZE_NOW"), *to = getenv("KT_TEST_SIZE_BEFORE");
    int result = real(fd, status);
    if (result == 0 && from && to && status->st_size == atol(from))
        status->st_size = atol(to);
    return result;
}
