/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - memory between two pages that cannot be accessed. */
#define _GNU_SOURCE
#include "tools/check/check.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILLER 0xc5
#define MAX_REGIONS 256

/* All guarded memory. A plain table, since guard_find searches it in a signal handler. */
static struct region {
    const char *name;
    const uint8_t *map, *data;
    uint64_t map_size, size;
} regions[MAX_REGIONS];

static void remember(const char *name, const struct guarded *guarded)
{
    for (int i = 0; i < MAX_REGIONS; i++)
        if (!regions[i].map) {
            regions[i] = (struct region){name, guarded->map, guarded->data, guarded->map_size, guarded->size};
            return;
        }
}

static void forget(const struct guarded *guarded)
{
    for (int i = 0; i < MAX_REGIONS; i++)
        if (regions[i].map == guarded->map)
            regions[i].map = NULL;
}

const char *guard_find(const void *address, int64_t *offset, uint64_t *size)
{
    uintptr_t at = (uintptr_t)address;

    for (int i = 0; i < MAX_REGIONS; i++) {
        uintptr_t map = (uintptr_t)regions[i].map;
        if (map == 0 || at < map || at >= map + regions[i].map_size)
            continue;
        *offset = (int64_t)(at - (uintptr_t)regions[i].data);
        *size = regions[i].size;
        return regions[i].name;
    }
    return NULL;
}

bool guard_create(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (size > INT64_MAX / 2)
        return false;
    uint64_t inner = (size + align + page - 1) / page * page;
    uint8_t *map = mmap(NULL, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
    remember(name, guarded);
    return true;
}

static bool is_filled(const uint8_t *from, const uint8_t *end)
{
    return from == end || (*from == FILLER && memcmp(from, from + 1, (size_t)(end - from) - 1) == 0);
}

bool guard_intact(const struct guarded *guarded)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return is_filled(guarded->map + page, guarded->data) &&
           is_filled(guarded->data + guarded->size, guarded->map + guarded->map_size - page);
}

static void protect(const struct guarded *guarded, int access)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (guarded->map)
        (void)mprotect(guarded->map + page, guarded->map_size - 2 * page, access);
}

void guard_seal(const struct guarded *guarded)
{
    protect(guarded, PROT_READ);
}

void guard_unseal(const struct guarded *guarded)
{
    protect(guarded, PROT_READ | PROT_WRITE);
}

void guard_free(struct guarded *guarded)
{
    if (guarded->map) {
        forget(guarded);
        (void)munmap(guarded->map, guarded->map_size);
    }
    memset(guarded, 0, sizeof *guarded);
}
