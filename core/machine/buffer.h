/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - large memory on one NUMA node. */
#ifndef KT_CORE_MACHINE_BUFFER_H
#define KT_CORE_MACHINE_BUFFER_H

#include "core/machine/topology.h"

#include <stdbool.h>

struct kt_buffer {
    void *data; /* page-aligned, zero at first touch; NULL for size 0 */
    uint64_t size;
};

/**
 * Maps `size` bytes on node `node` (an index of the topology). Pages come with the first touch. A
 * binding that the system refuses is counted in topology->membind_failures, not an error.
 * `huge` advises huge pages.
 */
enum kt_status kt_buffer_create(struct kt_topology *topology, uint32_t node, uint64_t size, bool huge,
                                struct kt_buffer *buffer, struct kt_error *error);
/** Binds pages [begin, end) to another node before they are touched; see kt_buffer_create. */
void kt_buffer_bind(struct kt_topology *topology, uint32_t node, const struct kt_buffer *buffer,
                    uint64_t begin, uint64_t end);
void kt_buffer_destroy(struct kt_buffer *buffer);

/** The bytes that kt_buffer_create maps for `size`, at most PTRDIFF_MAX: whole pages, huge ones if one fits.
 */
uint64_t kt_buffer_rounded(uint64_t size);

/** The number of its pages, counted as huge ones. */
uint64_t kt_buffer_pages(const struct kt_buffer *buffer);

/** Makes one of them exist, from a thread of the buffer's node; its content stays. Faster than the page
 * faults of a thread that writes from the start of the buffer on. */
void kt_buffer_touch(const struct kt_buffer *buffer, uint64_t page);

#endif
