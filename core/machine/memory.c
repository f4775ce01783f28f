/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - how much memory can be allocated: of the machine, and of control groups. */
#define _GNU_SOURCE
#include "core/machine/memory.h"

#include <kt/kt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number behind `key` in a file of lines "key number"; "" as the key: the file's first number.
 */
static bool read_field(const char *path, const char *key, uint64_t *number)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;
    size_t length = strlen(key);
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned long long value;
        char unit = 0;
        found = strncmp(line, key, length) == 0 && sscanf(line + length, " %llu%c", &value, &unit) >= 1;
        if (found)
            *number = (uint64_t)value << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
    }
    if (file)
        fclose(file);
    return found;
}

/* The two versions of control groups. */
static const struct version {
    const char *controller; /* as /proc/self/cgroup names it */
    const char *folder, *limit, *used, *cached;
} versions[] = {
    {"", "", "memory.max", "memory.current", "inactive_file"},
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/* Bytes that one group leaves: its limit minus its use, not counting cached pages of files. */
static uint64_t group_left(const struct version *version, const char *root, const char *group)
{
    char path[1024];
    uint64_t limit, used, cached = 0;
    snprintf(path, sizeof path, "%s%s%s/%s", root, version->folder, group, version->limit);
    if (!read_field(path, "", &limit))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s%s%s/%s", root, version->folder, group, version->used);
    if (!read_field(path, "", &used))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s%s%s/memory.stat", root, version->folder, group);
    read_field(path, version->cached, &cached);
    used = used > cached ? used - cached : 0;
    return limit > used ? limit - used : 0;
}

uint64_t kt_group_memory(const char *membership, const char *root)
{
    uint64_t least = UINT64_MAX;
    char line[512];
    FILE *file = fopen(membership, "re");
    while (file && fgets(line, sizeof line, file)) {
        /* "4:memory:/a/b", "0::/a/b" */
        line[strcspn(line, "\n")] = 0;
        char *rest = line;
        strsep(&rest, ":");
        const char *controller = strsep(&rest, ":");
        char *group = rest;
        for (size_t v = 0; group && v < sizeof versions / sizeof *versions; v++) {
            if (strcmp(controller, versions[v].controller) != 0)
                continue;
            /* The group itself and those above it, the root last. */
            for (char *slash = group; slash;) {
                uint64_t left = group_left(&versions[v], root, strcmp(group, "/") == 0 ? "" : group);
                least = left < least ? left : least;
                slash = strrchr(group, '/');
                if (slash)
                    *slash = 0;
            }
        }
    }
    if (file)
        fclose(file);
    return least;
}

uint64_t kt_memory_available(void)
{
    uint64_t kilobytes, available = 0;
    uint64_t group = kt_group_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    if (read_field("/proc/meminfo", "MemAvailable:", &kilobytes))
        available = kilobytes << 10;
    if (group != UINT64_MAX && (available == 0 || group < available))
        available = group != 0 ? group : 1;
    return available;
}
