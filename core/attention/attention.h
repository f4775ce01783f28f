/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - attention of a layer of a cache, with the plugin that computes it. */
#ifndef KT_CORE_ATTENTION_ATTENTION_H
#define KT_CORE_ATTENTION_ATTENTION_H

#include "core/attention/cut.h"

#include <kt/kt.h>
#include <kt/plugin_attention.h>

struct kt_backend;

/* Buffers of a node in its arena: of each thread the scratch of an attend, results that are being added up
 * and gathered keys, and results of parts for all. */
struct kt_attention_buffers {
    uint64_t thread_stride; /* bytes of a thread: scratch, then three results, then gathered keys */
    uint64_t result;        /* bytes of the results of a tile */
    uint64_t parts;         /* where results of parts begin */
    uint64_t n_parts;       /* for how many there is room */
    uint64_t size;
};

struct kt_attention {
    struct kt_context *context;
    const struct kt_kv *kv;
    const struct kt_backend *backend;
    const struct kt_attention_ops *ops;
    void *instance;
    struct kt_attention_layout layout;
    uint64_t tuning[KT_MAX_TUNABLES]; /* what kt_attention_tune set; 0: as configured */
    uint32_t n_heads, kv_heads;       /* of queries, of keys */
    uint32_t max_sequences;
    struct kt_kv_place *keys; /* [kv_heads] */
    bool gathers;             /* keys are plain: a chunk's rows are copied before the plugin sees them */
    struct kt_kv_place *values;
    float *sinks;                 /* [n_heads] or NULL */
    struct kt_attention_cut *cut; /* [max_sequences] of the items of a forward; the pool's lock is held */
    char *name;
    uint32_t n_nodes;
    uint32_t *node_head; /* heads of keys by node: node n has node_head[first_head[n]] ... */
    uint32_t first_head[KT_MAX_NODES + 1];
    struct kt_attention_buffers buffers[KT_MAX_NODES];
};

#endif
