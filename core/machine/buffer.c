/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/buffer.h"

#include "core/base/error.h"
#include "core/base/size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (UINT64_C(2) << 20)

static void bind(struct kt_topology *topology, uint32_t node, void *data, uint64_t size)
{
    if (!topology->binds_memory ||
        hwloc_set_area_membind(topology->hwloc, data, size, topology->node[node].nodeset, HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_BYNODESET) == 0)
        return;
    int why = errno;
    if (atomic_fetch_add(&topology->membind_failures, 1) == 0)
        (void)snprintf(topology->membind_message, sizeof topology->membind_message,
                       "memory could not be bound to node %u: %s; it lies where threads touch it first",
                       topology->node[node].os_index, strerror(why));
}

uint64_t kt_buffer_rounded(uint64_t size)
{
    uint64_t unit = size >= HUGE_PAGE ? HUGE_PAGE : 4096;
    return (size + unit - 1) / unit * unit;
}

enum kt_status kt_buffer_create(struct kt_topology *topology, uint32_t node, uint64_t size, bool huge,
                                struct kt_buffer *buffer, struct kt_error *error)
{
    *buffer = (struct kt_buffer){NULL, 0};
    if (size == 0)
        return KT_OK;
    /* A huge page needs its own alignment: map one more and give the ends back. */
    uint64_t spare = size >= HUGE_PAGE ? HUGE_PAGE : 0;
    uint64_t rounded;
    if (!kt_add(size, HUGE_PAGE - 1 + spare, &rounded) || rounded > PTRDIFF_MAX)
        return kt_fail(error, KT_E_NOMEM, "%llu bytes are more than an address space",
                       (unsigned long long)size);
    rounded = kt_buffer_rounded(size);
    char *base = mmap(NULL, rounded + spare, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return kt_fail(error, KT_E_NOMEM, "no memory for %llu bytes on NUMA node %u: %s",
                       (unsigned long long)size, topology->node[node].os_index, strerror(errno));
    if (spare) {
        uint64_t before = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
        if (before)
            (void)munmap(base, before);
        if (spare - before)
            (void)munmap(base + before + rounded, spare - before);
        base += before;
        if (huge)
            (void)madvise(base, rounded, MADV_HUGEPAGE); /* advice: refusing it costs speed only */
    }
    bind(topology, node, base, rounded);
    *buffer = (struct kt_buffer){base, rounded};
    return KT_OK;
}

void kt_buffer_bind(struct kt_topology *topology, uint32_t node, const struct kt_buffer *buffer,
                    uint64_t begin, uint64_t end)
{
    uint64_t from = begin * HUGE_PAGE, to = end * HUGE_PAGE < buffer->size ? end * HUGE_PAGE : buffer->size;
    if (from < to)
        bind(topology, node, (char *)buffer->data + from, to - from);
}

uint64_t kt_buffer_pages(const struct kt_buffer *buffer)
{
    return (buffer->size + HUGE_PAGE - 1) / HUGE_PAGE;
}

/* Linux clears a huge page towards the address that was touched. When that is the last byte, it is cleared in
 * ascending order, which is faster. Small pages are made by one system call instead of a page fault each. */
void kt_buffer_touch(const struct kt_buffer *buffer, uint64_t page)
{
    uint64_t begin = page * HUGE_PAGE, left = buffer->size - begin;
    uint64_t size = left < HUGE_PAGE ? left : HUGE_PAGE;
    char *data = (char *)buffer->data + begin;
    volatile char *last = data + size - 1;
    *last = *last;
#ifdef MADV_POPULATE_WRITE
    (void)madvise(data, size, MADV_POPULATE_WRITE); /* since Linux 5.14 */
#endif
}

void kt_buffer_destroy(struct kt_buffer *buffer)
{
    if (buffer->data)
        (void)munmap(buffer->data, buffer->size);
    *buffer = (struct kt_buffer){NULL, 0};
}
