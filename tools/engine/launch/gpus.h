/* SPDX-License-Identifier: Apache-2.0 */
/* gpus.h - the GPUs that a program started now would see. */
#ifndef KT_ENGINE_LAUNCH_GPUS_H
#define KT_ENGINE_LAUNCH_GPUS_H

#include "tools/kt/base/cli.h"

struct kt_gpu {
    char name[64], uuid[64];
    uint64_t index;       /* nvidia-smi's */
    uint64_t memory;      /* bytes */
    uint64_t used;        /* of them, by whoever */
    unsigned capability;  /* 89 of 8.9; 0: unknown */
    double bus_bandwidth; /* bytes a second to the CPU; 0: unknown */
};

struct kt_gpus {
    struct kt_gpu gpu[64];
    size_t n;
    const char *missing; /* n is 0: why, and what to do; static */
};

/* What nvidia-smi lists, and CUDA_VISIBLE_DEVICES leaves of it; instead of both, where it is not NULL, the
 * memory of each as `text` says, "24G,24G". Returns 0, or an exit code after a message; that there are none
 * is not an error. */
int kt_gpus_find(const struct kt_cli *cli, const char *text, struct kt_gpus *gpus);

#endif
