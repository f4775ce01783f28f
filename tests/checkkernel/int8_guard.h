/* SPDX-License-Identifier: Apache-2.0 */
/* int8_guard.h - memory whose end is followed, and whose start is preceded, by a page that faults. */
#ifndef KT_TESTS_INT8_GUARD_H
#define KT_TESTS_INT8_GUARD_H

#include <check.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD_PAGE 4096u

/* The page before the memory's first one keeps the size of the mapping in its own last bytes. */
struct guard {
    void *start;
    size_t size;
};

/* Mappings that were given back: making them anew would take longer than what is checked in them. */
#define GUARD_KEPT 32
static struct guard guard_kept[GUARD_KEPT];

static inline char *guard_map(size_t whole)
{
    for (int i = 0; i < GUARD_KEPT; i++)
        if (guard_kept[i].size == whole) {
            guard_kept[i].size = 0;
            return guard_kept[i].start;
        }
    char *start = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(start, MAP_FAILED);
    ck_assert_int_eq(mprotect(start + GUARD_PAGE, whole - 2 * GUARD_PAGE, PROT_READ | PROT_WRITE), 0);
    return start;
}

/* `size` bytes, the last of them the last of a page, full of a pattern that is no number to be found. */
static inline void *guard_take(size_t size)
{
    size_t body = (size + sizeof(struct guard) + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE;
    size_t whole = body + 2 * GUARD_PAGE;
    char *start = guard_map(whole);
    struct guard guard = {start, whole};
    char *memory = start + GUARD_PAGE + body - size;
    memset(start + GUARD_PAGE, 0xa5, body);
    memcpy(memory - sizeof guard, &guard, sizeof guard);
    return memory;
}

static inline void guard_free(void *memory)
{
    struct guard guard;
    if (!memory)
        return;
    memcpy(&guard, (char *)memory - sizeof guard, sizeof guard);
    for (int i = 0; i < GUARD_KEPT; i++)
        if (guard_kept[i].size == 0) {
            guard_kept[i] = guard;
            return;
        }
    ck_assert_int_eq(munmap(guard.start, guard.size), 0);
}

#endif
