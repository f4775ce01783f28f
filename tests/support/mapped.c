/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/mapped.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool mapped_is_known(void)
{
    const char *emulator = getenv("EMULATOR");
    return !emulator || !*emulator;
}

static uint64_t walk(const char *path, bool forgets)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    static char line[8192];
    uint64_t sum = 0, kilobytes, begin, end;
    bool inside = false;
    char *real = realpath(path, NULL);
    ck_assert(file && real);
    while (fgets(line, sizeof(line), file)) {
        const char *name = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2) {
            inside = name && strcmp(name, real) == 0;
            if (inside && forgets)
                ck_assert_int_eq(madvise((char *)(uintptr_t)begin, end - begin, MADV_DONTNEED), 0);
        } else if (inside && sscanf(line, "Rss: %" SCNu64 " kB", &kilobytes) == 1) {
            sum += kilobytes * 1024;
        }
    }
    ck_assert_int_eq(fclose(file), 0);
    free(real);
    return sum;
}

uint64_t mapped_bytes(const char *path)
{
    return walk(path, false);
}

void mapped_forget(const char *path)
{
    (void)walk(path, true);
}
