/* SPDX-License-Identifier: Apache-2.0 */
/* glibc.c - functions that older versions of glibc do not export, for a wheel that runs with them: elf.py
 * says when. They do what the inline functions of that time did. The library also brings those of libpthread
 * and libdl in. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* On 64-bit machines the kernel fills glibc's struct stat, and there is one only. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one struct stat");

int fstatat(int folder, const char *restrict path, struct stat *restrict out, int flags)
{
    return (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

int stat(const char *restrict path, struct stat *restrict out)
{
    return fstatat(AT_FDCWD, path, out, 0);
}

int lstat(const char *restrict path, struct stat *restrict out)
{
    return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *out)
{
    return (int)syscall(SYS_fstat, file, out);
}

int fstatat64(int folder, const char *restrict path, struct stat64 *restrict out, int flags)
{
    return (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

int stat64(const char *restrict path, struct stat64 *restrict out)
{
    return fstatat64(AT_FDCWD, path, out, 0);
}

int lstat64(const char *restrict path, struct stat64 *restrict out)
{
    return fstatat64(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int fstat64(int file, struct stat64 *out)
{
    return (int)syscall(SYS_fstat, file, out);
}

#if __GLIBC_PREREQ(2, 33)
static size_t widen(int number)
{
    return (unsigned)number;
}

struct mallinfo2 mallinfo2(void)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo info = mallinfo();
#pragma GCC diagnostic pop
    return (struct mallinfo2){
        .arena = widen(info.arena),
        .ordblks = widen(info.ordblks),
        .smblks = widen(info.smblks),
        .hblks = widen(info.hblks),
        .hblkhd = widen(info.hblkhd),
        .usmblks = widen(info.usmblks),
        .fsmblks = widen(info.fsmblks),
        .uordblks = widen(info.uordblks),
        .fordblks = widen(info.fordblks),
        .keepcost = widen(info.keepcost),
    };
}
#endif
