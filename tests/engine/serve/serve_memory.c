/* SPDX-License-Identifier: Apache-2.0 */
/* serve_memory.c - preloaded by serve_several.py: the memory that is free is what a file says. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t kt_memory_available(void);
uint64_t kt_memory_available(void)
{
    uint64_t bytes = 0;
    const char *path = getenv("KT_TEST_MEMORY");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file || fscanf(file, "%" SCNu64, &bytes) != 1)
        bytes = 0;
    if (file)
        (void)fclose(file);
    return bytes;
}
