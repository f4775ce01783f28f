/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - memory between two pages that cannot be accessed. */
#define _GNU_SOURCE
#include "tools/check/guard.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILLER 0xc5
#define MAX_REGIONS 256
#define MAX_KEPT (UINT64_C(1) << 20)

/* All guarded memory. A plain table, since guard_find searches it in a signal handler. Pages that are given
 * back stay mapped, where nobody can access them, and are taken again: a case needs some for each call, and
 * mapping them, faulting them in and unmapping them takes longer than what kernels do with them. */
static struct region {
    const char *name; /* NULL: it is free */
    const uint8_t *data;
    uint8_t *map;
    uint64_t room; /* bytes that are mapped, of which the first map_size are used */
    uint64_t map_size, size;
} regions[MAX_REGIONS];

const char *guard_find(const void *address, int64_t *offset, uint64_t *size)
{
    uintptr_t at = (uintptr_t)address;

    for (int i = 0; i < MAX_REGIONS; i++) {
        uintptr_t map = (uintptr_t)regions[i].map;
        if (!regions[i].name || at < map || at >= map + regions[i].map_size)
            continue;
        *offset = (int64_t)(at - (uintptr_t)regions[i].data);
        *size = regions[i].size;
        return regions[i].name;
    }
    return NULL;
}

static void drop(struct region *region)
{
    if (region->map)
        (void)munmap(region->map, region->room);
    region->map = NULL;
    region->room = 0;
}

/* The smallest free region that has the room, else an empty place of the table; NULL: there is none. */
static struct region *find_region(uint64_t map_size)
{
    struct region *best = NULL, *other = NULL;
    for (int i = 0; i < MAX_REGIONS; i++) {
        struct region *region = &regions[i];
        if (region->name)
            continue;
        if (region->room >= map_size && (!best || region->room < best->room))
            best = region;
        if (!other || !region->map)
            other = region;
    }
    if (!best && other)
        drop(other);
    return best ? best : other;
}

/* Inaccessible pages. */
static uint8_t *map_pages(uint64_t size)
{
    void *map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* As many as the next power of two, so that others have room in them later. */
static void map_region(struct region *region, uint64_t map_size, uint64_t page)
{
    region->room = 4 * page;
    while (region->room < map_size)
        region->room *= 2;
    region->map = map_pages(region->room);
}

bool guard_create(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (size > INT64_MAX / 4)
        return false;
    uint64_t inner = (size + align + page - 1) / page * page, map_size = inner + 2 * page;
    struct region none = {.map = NULL}, *region = find_region(map_size);
    if (!region) { /* the table is full; then messages do not name this memory */
        region = &none;
        region->map = map_pages(map_size);
        region->room = map_size;
    } else if (!region->map) {
        map_region(region, map_size, page);
    }
    if (!region->map || mprotect(region->map + page, inner, PROT_READ | PROT_WRITE)) {
        drop(region);
        return false;
    }
    uint8_t *data = region->map + page + (at_end ? (inner - size) / align * align : 0);
    memset(region->map + page, FILLER, inner);
    region->name = name;
    region->data = data;
    region->map_size = map_size;
    region->size = size;
    *guarded = (struct guarded){data, size, region->map, map_size};
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

/* Pages that are many go back to the kernel. */
static void give_back(const struct guarded *guarded)
{
    for (int i = 0; i < MAX_REGIONS; i++) {
        struct region *region = &regions[i];
        if (!region->name || region->map != guarded->map)
            continue;
        region->name = NULL;
        if (region->room > MAX_KEPT || mprotect(region->map, region->map_size, PROT_NONE))
            drop(region);
        return;
    }
    (void)munmap(guarded->map, guarded->map_size);
}

void guard_free(struct guarded *guarded)
{
    if (guarded->map)
        give_back(guarded);
    memset(guarded, 0, sizeof *guarded);
}
