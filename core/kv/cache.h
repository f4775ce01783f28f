/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - a cache and its sequences: what <kt/kv.h> declares, placed in memory. */
#ifndef KT_CORE_KV_CACHE_H
#define KT_CORE_KV_CACHE_H

#include "core/base/lock.h"
#include "core/machine/buffer.h"

#include <kt/kt.h>
#include <stdbool.h>

/* A declared field. A page, and the states of a sequence, have a part on each node: fields in their order, of
 * each the heads of this node. */
struct kt_kv_spot {
    struct kt_kv_field field;
    uint32_t layer, index; /* in the model, in the layer */
    uint32_t pack;         /* rows: numbers in 4 bytes */
    uint32_t page_rows, page_step;
    uint64_t scales;  /* of one head: bytes of its numbers in a page, 0 without scales */
    uint64_t size;    /* of one head: all its bytes in a page, or in the states */
    uint64_t *offset; /* [n_nodes] of its first head there */
};

struct kt_kv_declaration {
    uint32_t n_layers, n_nodes;
    uint32_t *first; /* [n_layers + 1] the spots of layer l are first[l] .. first[l + 1] - 1 */
    struct kt_kv_spot *spot;
    uint64_t *offsets;
    uint32_t *words; /* as files have it: layers, of each its fields, of each the first six numbers */
    uint64_t n_words;
    char model[256];
    uint64_t fingerprint;
    uint64_t page_part[KT_MAX_NODES], state_part[KT_MAX_NODES];
    uint64_t page_bytes, state_bytes; /* of all nodes */
};

struct kt_kv_sequence {
    struct kt_kv *kv;
    uint32_t *pages;
    uint32_t n_pages;
    uint32_t slot; /* its index among the sequences, and of its states */
    uint64_t tokens, reserved;
};

struct kt_kv {
    struct kt_context *context;
    struct kt_kv_declaration declared;
    struct kt_buffer pages[KT_MAX_NODES], states[KT_MAX_NODES], tables;
    uint64_t bytes, table_bytes;
    uint64_t max_tokens; /* as declared; UINT64_MAX: no limit but the pages */
    uint32_t n_pages, max_sequences, table_pages;
    struct kt_lock lock; /* of all below, which stands in `tables` */
    bool destroyed;
    uint32_t n_free, n_shared, n_closed;
    uint32_t *free, *references; /* of pages */
    bool *dirty;                 /* pages that have been used: others are zero */
    uint32_t *closed;            /* slots */
    struct kt_kv_sequence *sequence;
};

/* On which node a head lies. */
static inline uint32_t kt_kv_node(const struct kt_kv_spot *spot, uint32_t head, uint32_t n_nodes)
{
    if (spot->field.heads < n_nodes)
        return (head + spot->layer) % n_nodes;
    return (uint32_t)((((uint64_t)head + 1) * n_nodes - 1) / spot->field.heads);
}

/* Where a head begins in its node's part. */
static inline uint64_t kt_kv_head_offset(const struct kt_kv_spot *spot, uint32_t head, uint32_t node,
                                         uint32_t n_nodes)
{
    uint32_t heads = spot->field.heads;
    uint32_t first = heads < n_nodes ? head : (uint32_t)((uint64_t)heads * node / n_nodes);
    return spot->offset[node] + (head - first) * spot->size;
}

/* Where a head is in page 0, or in the states of slot 0. */
static inline char *kt_kv_head(const struct kt_kv *kv, const struct kt_kv_spot *spot, uint32_t head,
                               uint32_t *node)
{
    *node = kt_kv_node(spot, head, kv->declared.n_nodes);
    const struct kt_buffer *buffer = spot->field.kind == KT_KV_STATE ? kv->states : kv->pages;
    return (char *)buffer[*node].data + kt_kv_head_offset(spot, head, *node, kv->declared.n_nodes);
}

/* The page of a sequence that holds row `row`. */
static inline uint64_t kt_kv_page_of(const struct kt_kv_spot *spot, uint64_t row)
{
    return (row / spot->page_rows + 1) * spot->page_step - 1;
}

static inline uint64_t kt_kv_pages_for(uint64_t tokens)
{
    return tokens / KT_KV_PAGE + (tokens % KT_KV_PAGE != 0);
}

#endif
