/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/pages.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define PAGE 4096 /* the smallest; larger ones are touched more than once */

/* Without the system call, or where a tool or an emulator refuses it. */
static void touch(const volatile char *data, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += PAGE)
        (void)data[at];
    (void)data[size - 1];
}

bool kt_pages_read(const void *data, uint64_t size)
{
    if (size == 0)
        return true;
#ifdef MADV_POPULATE_READ
    /* Since Linux 5.14. One call instead of a fault for each 16 pages, and a file that is shorter than its
     * mapping is an error, not a signal. */
    size_t before = (uintptr_t)data % PAGE;
    if (madvise((char *)(uintptr_t)data - before, size + before, MADV_POPULATE_READ) == 0)
        return true;
    if (errno == EFAULT)
        return false;
#endif
    touch(data, size);
    return true;
}
