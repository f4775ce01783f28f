/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a configuration file; a plugin's section is among those it may hold. */
#define _GNU_SOURCE
#include "core/machine/cpu_model.h"

#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In place of the CPU's own: in a virtual machine cpuid takes longer than most inputs. */
void kt_cpu_model(char text[KT_CPU_MODEL_SIZE])
{
    (void)snprintf(text, KT_CPU_MODEL_SIZE, "GenuineIntel-6-143");
}

void kt_cpu_microcode(char text[KT_CPU_MODEL_SIZE])
{
    (void)snprintf(text, KT_CPU_MODEL_SIZE, "0x2b");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config;
    struct kt_error error;
    if (fd < 0) {
        fd = memfd_create("ini", 0);
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
        (void)setenv("KT_KERNEL_PLUGINCONFDIR", "/nonexistent", 1);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    params.file = path;
    if (kt_config_create(&params, &config, &error) != KT_OK)
        return error.message[0] ? 0 : (abort(), 0);
    for (size_t i = 0; i < kt_config_setting_count(config); i++) {
        struct kt_setting setting;
        if (kt_config_setting(config, i, &setting, &error) != KT_OK || !setting.value)
            abort();
    }
    kt_config_destroy(config);
    return 0;
}
