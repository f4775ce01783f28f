/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/memory.h"

#include <inttypes.h>
#include <stdio.h>

/* The number in the first line of the file that fits the format; 0 if there is none. */
static uint64_t read_number(const char *path, const char *format)
{
    char line[256];
    uint64_t number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file) && sscanf(line, format, &number) != 1)
        number = 0;
    (void)fclose(file);
    return number;
}

uint64_t kt_memory_available(void)
{
    uint64_t available = read_number("/proc/meminfo", "MemAvailable: %" SCNu64 " kB") * 1024;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "%" SCNu64);
    uint64_t used = read_number("/sys/fs/cgroup/memory.current", "%" SCNu64);
    if (limit && available && used < limit && limit - used < available)
        return limit - used;
    return available;
}
