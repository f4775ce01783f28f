/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.c - makes the Nth call of a kind fail, once or from then on; and notes when files become durable. It
 * is for LD_PRELOAD, and these say what:
 *
 * - FAIL_KINDS: the sum of 1 allocations, 2 mmap, 4 threads, 8 open, 16 reads and writes, 32 stat, 128 all
 * else (refuse.c); or 64: memory ends where the process would for the Nth time have more of it than ever
 * before
 * - FAIL_N: counted from 1
 * - FAIL_PLACES: instead of the Nth, the first call fails at whose place none has so far (places.c)
 * - FAIL_STICKY: if set, all later ones fail too
 * - FAIL_MARK: this file appears when it fails
 * - FAIL_AFTER: only calls count after a file was opened whose name ends so
 * - FAIL_SIGNAL: instead of failing, the Nth call raises this signal
 * - NOTE_FOLDER: takes a copy of each file that is synced, and the list of events
 *
 * While hwloc starts, only kind 64 takes memory from it: it does not look at all of its
 * allocations, and is started where there is enough (core/machine/README).
 */
#define _GNU_SOURCE
#include "tests/campaign/shim.h"

#include "tests/campaign/places.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void __libc_free(void *memory);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static long kinds, failing;
static bool sticky, has_begun, by_place;
static int signal_number;
static const char *mark, *notes, *after;
static atomic_long count;
static _Thread_local bool inside, starts_hwloc;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static long held, most_held; /* bytes */
static bool memory_ended;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("FAIL_KINDS");
    mark = getenv("FAIL_MARK");
    notes = getenv("NOTE_FOLDER");
    after = getenv("FAIL_AFTER");
    has_begun = !after;
    signal_number = getenv("FAIL_SIGNAL") ? atoi(getenv("FAIL_SIGNAL")) : 0;
    sticky = getenv("FAIL_STICKY") != NULL;
    failing = getenv("FAIL_N") ? atol(getenv("FAIL_N")) : 0;
    kinds = text ? atol(text) : 0;
    by_place = getenv("FAIL_PLACES") != NULL;
    inside = true;
    if (by_place)
        kt_places_begin();
    inside = false;
}

/* Is the caller hwloc that starts, or the dynamic linker, which ends the process by itself? */
static bool is_spared(const void *caller)
{
    Dl_info info;
    return starts_hwloc || !dladdr(caller, &info) || !info.dli_fname || strstr(info.dli_fname, "ld-linux");
}

static void leave_mark(void)
{
    if (mark)
        (void)!syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600));
}

/* ---- memory that ends ---- */

/* Is there none for `more` bytes in place of `less`? */
static bool lacks(size_t more, size_t less, const void *caller)
{
    Dl_info info;
    bool ends = false;
    if (!(kinds & MEMORY) || inside || more <= less)
        return false;
    inside = true;
    bool linker = !dladdr(caller, &info) || !info.dli_fname || strstr(info.dli_fname, "ld-linux");
    inside = false;
    pthread_mutex_lock(&memory_lock);
    if (!linker && held + (long)(more - less) > most_held) {
        if (!memory_ended && atomic_fetch_add(&count, 1) + 1 == failing) {
            memory_ended = true;
            leave_mark();
        }
        ends = memory_ended;
        most_held = ends ? most_held : held + (long)(more - less);
    }
    pthread_mutex_unlock(&memory_lock);
    if (ends)
        errno = ENOMEM;
    return ends;
}

static void add(long bytes)
{
    if (!(kinds & MEMORY))
        return;
    pthread_mutex_lock(&memory_lock);
    held += bytes;
    pthread_mutex_unlock(&memory_lock);
}
static void *take(void *memory)
{
    if (memory)
        add((long)malloc_usable_size(memory));
    return memory;
}
static void release(void *memory)
{
    if (memory)
        add(-(long)malloc_usable_size(memory));
}

static struct {
    char *begin;
    size_t size;
} maps[1000]; /* of no file */

static void note_map(char *memory, size_t size)
{
    pthread_mutex_lock(&memory_lock);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (!maps[i].begin) {
            maps[i].begin = memory;
            maps[i].size = size;
            held += (long)size;
            break;
        }
    pthread_mutex_unlock(&memory_lock);
}

/* A map may be given back in parts. */
static void forget_map(char *memory, size_t size)
{
    pthread_mutex_lock(&memory_lock);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (maps[i].begin && memory >= maps[i].begin && memory < maps[i].begin + maps[i].size) {
            held -= (long)size;
            if (size == maps[i].size)
                maps[i].begin = NULL;
            break;
        }
    pthread_mutex_unlock(&memory_lock);
}

/* ---- calls ---- */

bool kt_shim_fails(long kind, const void *caller, int number)
{
    if (!(kinds & kind) || inside || !has_begun)
        return false;
    inside = true;
    bool spared = is_spared(caller);
    long n = spared ? 0 : atomic_fetch_add(&count, 1) + 1;
    bool hit = by_place ? !spared && kt_place_fails(kind) : n == failing || (sticky && n > failing);
    if (by_place ? hit : n == failing)
        leave_mark();
    inside = false;
    if (hit && signal_number) {
        raise(signal_number);
        return false;
    }
    if (hit)
        errno = number;
    return hit;
}
#define LACKS(more, less) lacks(more, less, __builtin_return_address(0))

void *malloc(size_t size)
{
    if (FAILS(ALLOCATE, ENOMEM) || LACKS(size, 0))
        return NULL;
    return take(__libc_malloc(size));
}
void free(void *memory)
{
    release(memory);
    __libc_free(memory);
}
void *calloc(size_t n, size_t size)
{
    if (FAILS(ALLOCATE, ENOMEM) || LACKS(n * size, 0))
        return NULL;
    return take(__libc_calloc(n, size));
}
void *realloc(void *memory, size_t size)
{
    if (FAILS(ALLOCATE, ENOMEM) || LACKS(size, memory ? malloc_usable_size(memory) : 0))
        return NULL;
    release(memory);
    void *moved = __libc_realloc(memory, size);
    return take(moved ? moved : memory), moved;
}
static void *align(size_t alignment, size_t size, const void *caller)
{
    return kt_shim_fails(ALLOCATE, caller, ENOMEM) || lacks(size, 0, caller)
               ? NULL
               : take(__libc_memalign(alignment, size));
}
void *aligned_alloc(size_t alignment, size_t size)
{
    return align(alignment, size, __builtin_return_address(0));
}
int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = align(alignment, size, __builtin_return_address(0));
    return *memory ? 0 : ENOMEM;
}
char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = FAILS(ALLOCATE, ENOMEM) || LACKS(size, 0) ? NULL : take(__libc_malloc(size));
    return copy ? memcpy(copy, text, size) : NULL;
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    bool counts = (flags & MAP_ANONYMOUS) != 0;
    if (FAILS(MAP, ENOMEM) || (counts && LACKS(size, 0)))
        return MAP_FAILED;
    void *memory = (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    if (counts && memory != MAP_FAILED)
        note_map(memory, size);
    return memory;
}
int munmap(void *memory, size_t size)
{
    int result = (int)syscall(SYS_munmap, memory, size);
    if (result == 0)
        forget_map(memory, size);
    return result;
}

/* Where gcov begins to write its counts the program has ended. */
char *getenv(const char *name)
{
    size_t length = strlen(name);
    if (strcmp(name, "GCOV_PREFIX") == 0)
        kt_places_end();
    for (char **one = environ; one && *one; one++)
        if (strncmp(*one, name, length) == 0 && (*one)[length] == '=')
            return *one + length + 1;
    return NULL;
}

/* Between these, what fails is hwloc's. */
int hwloc_topology_load(hwloc_topology_t topology)
{
    starts_hwloc = true;
    int result = REAL(hwloc_topology_load)(topology);
    starts_hwloc = false;
    return result;
}
int hwloc_topology_init(hwloc_topology_t *topology)
{
    starts_hwloc = true;
    int result = REAL(hwloc_topology_init)(topology);
    starts_hwloc = false;
    return result;
}
int hwloc_get_cpubind(hwloc_topology_t topology, hwloc_bitmap_t set, int flags)
{
    starts_hwloc = true;
    int result = REAL(hwloc_get_cpubind)(topology, set, flags);
    starts_hwloc = false;
    return result;
}
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    return FAILS(OTHER, EPERM) ? EPERM : REAL(pthread_setaffinity_np)(thread, size, set);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    return FAILS(THREAD, EAGAIN) ? EAGAIN : REAL(pthread_create)(thread, attributes, start, argument);
}

int kt_shim_opened(const char *path, int fd)
{
    size_t length = strlen(path), end = after ? strlen(after) : 0;
    if (fd >= 0 && after && length >= end && strcmp(path + length - end, after) == 0)
        has_begun = true;
    return fd;
}

static int open_as(const char *path, int flags, va_list arguments, const void *caller)
{
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    if (kt_shim_fails(OPEN, caller, EMFILE))
        return -1;
    return kt_shim_opened(path, (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int fd = open_as(path, flags, arguments, __builtin_return_address(0));
    va_end(arguments);
    return fd;
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return FAILS(OPEN, EMFILE) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}
ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
    return FAILS(MOVE, EIO) ? -1 : syscall(SYS_pread64, fd, to, size, offset);
}
ssize_t read(int fd, void *to, size_t size)
{
    return FAILS(MOVE, EIO) ? -1 : syscall(SYS_read, fd, to, size);
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t offset)
{
    return FAILS(MOVE, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, from, size, offset);
}
int ftruncate(int fd, off_t size)
{
    return FAILS(MOVE, EIO) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int flock(int fd, int operation)
{
    return FAILS(MOVE, EIO) ? -1 : (int)syscall(SYS_flock, fd, operation);
}
int fstat(int fd, struct stat *status)
{
    return FAILS(LOOK, EIO) ? -1 : (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}
int lstat(const char *path, struct stat *status)
{
    return FAILS(LOOK, EIO) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int stat(const char *path, struct stat *status)
{
    return FAILS(LOOK, EIO) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

/* ---- what is durable ---- */

/* Copies the file and writes "EVENT SIZE COPY PATH[ TO]". */
static void note(const char *event, const char *path, const char *to)
{
    static atomic_int n;
    char line[9000], copy[5000];
    struct stat status;
    if (!notes || inside)
        return;
    inside = true;
    int number = atomic_fetch_add(&n, 1);
    snprintf(copy, sizeof copy, "%s/%d", notes, number);
    long from = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    bool file = from >= 0 && syscall(SYS_newfstatat, from, "", &status, AT_EMPTY_PATH) == 0 &&
                S_ISREG(status.st_mode);
    if (file) {
        long out = syscall(SYS_openat, AT_FDCWD, copy, O_CREAT | O_WRONLY, 0600);
        char buffer[1 << 14];
        for (long size; (size = syscall(SYS_read, from, buffer, sizeof buffer)) > 0;)
            (void)!syscall(SYS_write, out, buffer, size);
        syscall(SYS_close, out);
    }
    syscall(SYS_close, from);
    int length = snprintf(line, sizeof line, "%s %d %s%s%s\n", file ? event : "folder", number, path,
                          to ? " " : "", to ? to : "");
    snprintf(copy, sizeof copy, "%s/events", notes);
    long events = syscall(SYS_openat, AT_FDCWD, copy, O_CREAT | O_WRONLY | O_APPEND, 0600);
    (void)!syscall(SYS_write, events, line, length);
    syscall(SYS_close, events);
    inside = false;
}

int fsync(int fd)
{
    char link[64], path[4096];
    if (FAILS(MOVE, EIO))
        return -1;
    int result = (int)syscall(SYS_fsync, fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (result == 0 && length > 0) {
        path[length] = '\0';
        note("sync", path, NULL);
    }
    return result;
}
int rename(const char *from, const char *to)
{
    if (FAILS(MOVE, EIO))
        return -1;
    note("rename", from, to);
    return (int)syscall(SYS_rename, from, to);
}
