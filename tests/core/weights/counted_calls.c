/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/weights/counted_calls.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
ssize_t __real_pread(int fd, void *to, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t offset);
int __real_fstat(int fd, struct stat *status);
int __wrap_fstat(int fd, struct stat *status);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
struct dirent *__real_readdir(DIR *listing);
struct dirent *__wrap_readdir(DIR *listing);

struct counted_memory counter;

static int refuse(void)
{
    return counter.armed && ++counter.calls == counter.failing;
}

static void *count(void *memory)
{
    if (counter.armed && memory) {
        counter.live += malloc_usable_size(memory);
        counter.blocks++;
        if (counter.live > counter.peak)
            counter.peak = counter.live;
    }
    return memory;
}

static void uncount(void *memory)
{
    if (counter.armed && memory) {
        counter.live -= malloc_usable_size(memory);
        counter.blocks--;
    }
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : count(__real_calloc(n, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (refuse())
        return NULL;
    uncount(memory);
    return count(__real_realloc(memory, size));
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    int result = refuse() ? 12 : __real_posix_memalign(memory, alignment, size);
    if (result == 0)
        count(*memory);
    return result;
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = __wrap_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *memory)
{
    uncount(memory);
    __real_free(memory);
}

struct counted_disk disk;

static int refuse_disk(void)
{
    if (!disk.armed || ++disk.calls != disk.failing)
        return 0;
    errno = EIO;
    return 1;
}

ssize_t __wrap_pread(int fd, void *to, size_t size, off_t offset)
{
    if (refuse_disk())
        return -1;
    if (disk.armed && disk.interrupt) {
        if (disk.interrupt++ % 2) {
            errno = EINTR;
            return -1;
        }
        size = (size + 1) / 2;
    }
    return __real_pread(fd, to, size, offset);
}

int __wrap_fstat(int fd, struct stat *status)
{
    return refuse_disk() ? -1 : __real_fstat(fd, status);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return fd >= 0 && refuse_disk() ? MAP_FAILED : __real_mmap(at, size, protection, flags, fd, offset);
}

DIR *__wrap_opendir(const char *path)
{
    return refuse_disk() ? NULL : __real_opendir(path);
}

struct dirent *__wrap_readdir(DIR *listing)
{
    return refuse_disk() ? NULL : __real_readdir(listing);
}

void arm(unsigned failing)
{
    memset(&counter, 0, sizeof counter);
    counter.failing = failing;
    counter.armed = 1;
}

void disarm(const char *what)
{
    counter.armed = 0;
    ck_assert_msg(counter.live == 0 && counter.blocks == 0, "%s leaks %d bytes in %d blocks", what,
                  (int)counter.live, (int)counter.blocks);
}
