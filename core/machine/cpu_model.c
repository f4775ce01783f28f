/* SPDX-License-Identifier: Apache-2.0 */
#include "core/machine/cpu_model.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The first value of a key of /proc/cpuinfo. */
static bool find_line(const char *key, char text[KT_CPU_MODEL_SIZE])
{
    char line[4096]; /* flags are long */
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        size_t length = strlen(key);
        found = colon && strncmp(line, key, length) == 0 && strchr("\t :", line[length]);
        if (!found)
            continue;
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        (void)snprintf(text, KT_CPU_MODEL_SIZE, "%.*s", (int)strcspn(value, " \t\n"), value);
    }
    if (file)
        (void)fclose(file);
    return found;
}

void kt_cpu_microcode(char text[KT_CPU_MODEL_SIZE])
{
    if (!find_line("microcode", text))
        text[0] = '\0';
}

#if defined __x86_64__
#include <cpuid.h>

void kt_cpu_model(char text[KT_CPU_MODEL_SIZE])
{
    unsigned a, b, c, d, part[3];
    char vendor[13] = "";
    (void)snprintf(text, KT_CPU_MODEL_SIZE, "unknown");
    if (!__get_cpuid(0, &a, &part[0], &part[2], &part[1]) || !__get_cpuid(1, &a, &b, &c, &d))
        return;
    memcpy(vendor, part, sizeof part);
    unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    if (family == 6 || family == 15)
        model |= a >> 12 & 0xf0;
    if (family == 15)
        family += a >> 20 & 255;
    (void)snprintf(text, KT_CPU_MODEL_SIZE, "%s-%u-%u", vendor, family, model);
}

#else

void kt_cpu_model(char text[KT_CPU_MODEL_SIZE])
{
    char maker[KT_CPU_MODEL_SIZE], part[KT_CPU_MODEL_SIZE];
    if (find_line("CPU implementer", maker) && find_line("CPU part", part))
        (void)snprintf(text, KT_CPU_MODEL_SIZE, "arm-%.16s-%.16s", maker, part);
    else
        (void)snprintf(text, KT_CPU_MODEL_SIZE, "unknown");
}

#endif
