/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h - do outputs lie in inputs? */
#ifndef KT_CORE_BASE_OVERLAP_H
#define KT_CORE_BASE_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* n rows of `size` bytes, `stride` bytes from one to the next: at least `size`. */
struct kt_memory_rows {
    const void *data;
    uint64_t size, stride;
    uint64_t n;
};

/* Have they a byte in common? Rows of one may lie between those of the other. */
bool kt_rows_overlap(const struct kt_memory_rows *a, const struct kt_memory_rows *b);

#endif
