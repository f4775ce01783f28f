/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_cache.c - the sizes of the caches, from sysfs or else from cpuid, and how far ahead reads are
 * prefetched. */
#include "core/machine/cpu_features.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t *choose(struct kt_caps *caps, unsigned level)
{
    switch (level) {
    case 1:
        return &caps->l1d_size;
    case 2:
        return &caps->l2_size;
    case 3:
        return &caps->l3_size;
    default:
        return NULL;
    }
}

static bool read_line(unsigned index, const char *name, char *text, size_t size)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/%s", index, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    (void)close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

/* "48K", "2048K", "32M": sizes of a cache as sysfs writes them; 0 if it is anything else. */
static uint64_t parse_size(const char *text)
{
    char *end;
    uint64_t size = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return size < (UINT64_C(1) << 33) ? size << shift : 0;
}

static void read_sysfs(struct kt_caps *caps)
{
    for (unsigned index = 0; index < 16; index++) {
        char level[16], type[32], size[32];
        if (!read_line(index, "level", level, sizeof level) || !read_line(index, "type", type, sizeof type) ||
            !read_line(index, "size", size, sizeof size))
            return;
        uint64_t *field = choose(caps, (unsigned)strtoul(level, NULL, 10));
        if (field && strcmp(type, "Instruction") != 0)
            *field = parse_size(size);
    }
}

#if defined __x86_64__

#include <cpuid.h>

/* Leaf 4 is Intel's, 0x8000001D AMD's; both answer alike. */
static void read_cpuid(struct kt_caps *caps)
{
    unsigned eax, ebx, ecx, edx;
    unsigned leaf =
        __get_cpuid_count(0x8000001d, 0, &eax, &ebx, &ecx, &edx) && (eax & 31) != 0 ? 0x8000001d : 4;
    for (unsigned index = 0; index < 16; index++) {
        if (!__get_cpuid_count(leaf, index, &eax, &ebx, &ecx, &edx))
            return;
        unsigned type = eax & 31; /* 0: no more, 1 data, 2 instruction, 3 both */
        if (type == 0)
            return;
        uint64_t *field = choose(caps, eax >> 5 & 7);
        if (field && type != 2 && *field == 0)
            *field = (uint64_t)((ebx >> 22) + 1) * ((ebx >> 12 & 1023) + 1) * ((ebx & 4095) + 1) *
                     ((uint64_t)ecx + 1);
    }
}

/*
 * For kernels that read two streams, weights and their scales, or that compute longer than they read. Intel's
 * streamer follows reads inside a page of 4 KB, so a short distance is enough; AMD's CPUs read twice as fast
 * with a long one. Kernels that use one stream as fast as it comes choose shorter distances themselves.
 */
static uint64_t find_stream_ahead(void)
{
    unsigned eax, ebx, ecx, edx;
    bool amd = __get_cpuid(0, &eax, &ebx, &ecx, &edx) && ecx == signature_AMD_ecx;
    return amd ? 8192 : 1024;
}

#else

static void read_cpuid(struct kt_caps *caps)
{
    (void)caps;
}

static uint64_t find_stream_ahead(void)
{
    return 0;
}

#endif

void kt_cpu_caches(struct kt_caps *caps)
{
    read_sysfs(caps);
    if (caps->l1d_size == 0)
        read_cpuid(caps);
    caps->stream_ahead = find_stream_ahead();
}
