/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tests/support/count_allocations.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_ulong calls;

unsigned long count_allocations(void)
{
    return atomic_load(&calls);
}

static void count(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED
#endif

#ifdef SANITIZED
/* Of the sanitizers' runtime, which gcc installs no header for. */
int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void *, size_t),
                                              void (*freed)(const volatile void *));

static void allocated(const volatile void *memory, size_t size)
{
    (void)memory;
    (void)size;
    count();
}

static void freed(const volatile void *memory)
{
    (void)memory;
}

void count_allocations_start(void)
{
    (void)__sanitizer_install_malloc_and_free_hooks(allocated, freed);
}
#else
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc's own names of its functions. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);

void count_allocations_start(void)
{
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    count();
    return __libc_realloc(memory, size);
}

void *reallocarray(void *memory, size_t n, size_t size)
{
    size_t all;
    count();
    if (!__builtin_mul_overflow(n, size, &all))
        return __libc_realloc(memory, all);
    errno = ENOMEM;
    return NULL;
}

void *memalign(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    count();
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    count();
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}
#endif
