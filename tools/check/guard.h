/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - memory between two pages that cannot be accessed. */
#ifndef KT_CHECK_GUARD_H
#define KT_CHECK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct guarded {
    uint8_t *data; /* aligned to `align` */
    uint64_t size;
    uint8_t *map;
    uint64_t map_size;
};

/* Allocates at the end of its pages, or at their start; the rest of the pages is filled with known bytes.
 * guard_find returns `name`, which must be static. */
bool guard_create(const char *name, uint64_t size, uint64_t align, bool at_end, struct guarded *guarded);
/* Are the bytes around it unchanged? */
bool guard_intact(const struct guarded *guarded);
/* Makes it read-only, or writable again. */
void guard_seal(const struct guarded *guarded);
void guard_unseal(const struct guarded *guarded);
void guard_free(struct guarded *guarded);
/* Finds the guarded memory whose pages, or the pages around them, contain the address. Returns its name or
 * NULL; `offset` is the distance from its first byte. May be called by a signal handler. */
const char *guard_find(const void *address, int64_t *offset, uint64_t *size);

#endif
