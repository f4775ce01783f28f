/* SPDX-License-Identifier: Apache-2.0 */
/* context.h - what the layers of one context share. */
#ifndef KT_CORE_CONTEXT_CONTEXT_H
#define KT_CORE_CONTEXT_CONTEXT_H

#include "core/context/arena.h"
#include "core/context/stagings.h"
#include "core/machine/cpu_model.h"

#include <kt/kt.h>
#include <stdatomic.h>
#include <stdbool.h>

struct kt_context {
    atomic_uint references;
    struct kt_config *config;
    const struct kt_log *log;
    struct kt_topology *topology;
    struct kt_registry *registry;
    struct kt_pool *pool;
    struct kt_queue *queue;
    struct kt_arena arena; /* guarded by the pool's lock */
    struct kt_stagings stagings;
    _Atomic uint64_t packed_size; /* bytes of the weights that its layers hold */
    bool huge_pages;
    char cpu_features[256];
    char cpu_model[KT_CPU_MODEL_SIZE], microcode[KT_CPU_MODEL_SIZE];
    char idle_cpus[96];
};

struct kt_context *kt_context_retain(struct kt_context *context);

#endif
