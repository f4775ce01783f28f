/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - how much of the weights a cache could hold. */
#include "tools/kt/bench/bench.h"

#include <stdio.h>

uint64_t bench_cache_size(void)
{
    uint64_t largest = 0;
    for (unsigned index = 0; index < 8; index++) {
        char path[80], unit = 0;
        unsigned long long size = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fscanf(file, "%llu%c", &size, &unit) < 1)
            size = 0;
        fclose(file);
        size <<= unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
        largest = size > largest ? size : largest;
    }
    return largest;
}
