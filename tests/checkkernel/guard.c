/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - memory between two pages that cannot be touched. */
#define _GNU_SOURCE
#include "tests/checkkernel/check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILLER 0xc5

bool guard_create(uint64_t size, uint64_t align, bool at_end, struct guarded *guarded)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t inner = (size + align + page - 1) / page * page;
    uint8_t *map = mmap(NULL, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    if (map == MAP_FAILED)
        return false;
    if (mprotect(map, page, PROT_NONE) || mprotect(map + page + inner, page, PROT_NONE)) {
        (void)munmap(map, inner + 2 * page);
        return false;
    }
    memset(map + page, FILLER, inner);
    guarded->map = map;
    guarded->map_size = inner + 2 * page;
    guarded->size = size;
    guarded->data = map + page + (at_end ? (inner - size) / align * align : 0);
    return true;
}

bool guard_intact(const struct guarded *guarded)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (const uint8_t *p = guarded->map + page; p < guarded->data; p++)
        if (*p != FILLER)
            return false;
    for (const uint8_t *p = guarded->data + guarded->size;
         p < guarded->map + guarded->map_size - page; p++)
        if (*p != FILLER)
            return false;
    return true;
}

void guard_free(struct guarded *guarded)
{
    if (guarded->map)
        (void)munmap(guarded->map, guarded->map_size);
    memset(guarded, 0, sizeof *guarded);
}
