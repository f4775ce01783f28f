/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kv/pages.h"

#include "core/context/context.h"
#include "core/machine/pool.h"

#include <string.h>

/* Below it, waking threads takes longer than one thread needs. */
enum { ALONE = 1 << 20, CHUNK = 1 << 18 };

/* Pages or states that become zero, or copies of one. */
struct fill {
    const struct kt_buffer *buffer; /* of each node */
    const uint64_t *part;
    const uint32_t *item;
    uint32_t n;
    const uint32_t *source; /* NULL: zero */
    const bool *dirty;      /* items that are not zero; NULL: all */
};

/* What thread `thread` of n_threads does on a node. */
static void fill_part(const struct fill *fill, uint32_t node, uint32_t thread, uint32_t n_threads)
{
    char *base = fill->buffer[node].data;
    uint64_t part = fill->part[node], chunks = (part + CHUNK - 1) / CHUNK;
    for (uint64_t i = thread; i < chunks * fill->n; i += n_threads) {
        uint32_t item = fill->item[i / chunks];
        uint64_t begin = i % chunks * CHUNK, left = part - begin;
        size_t size = left < CHUNK ? (size_t)left : CHUNK;
        if (fill->source)
            memcpy(base + item * part + begin, base + *fill->source * part + begin, size);
        else if (!fill->dirty || fill->dirty[item])
            memset(base + item * part + begin, 0, size);
    }
}

static void fill_stage(struct kt_worker *worker, void *argument)
{
    fill_part(argument, worker->node, worker->index_in_node, worker->subpool->n_threads);
}

static void run_fill(struct kt_kv *kv, const struct fill *fill)
{
    struct kt_pool *pool = kv->context->pool;
    uint64_t bytes = 0;
    for (uint32_t node = 0; node < kv->declared.n_nodes; node++)
        bytes += fill->part[node] * fill->n;
    if (bytes >= ALONE && kt_pool_lock(pool, NULL) == KT_OK) {
        kt_pool_run(pool, fill_stage, (void *)(uintptr_t)fill);
        kt_pool_unlock(pool);
        return;
    }
    for (uint32_t node = 0; node < kv->declared.n_nodes; node++)
        fill_part(fill, node, 0, 1);
}

static void take(struct kt_kv *kv, uint32_t *pages, uint32_t n, const uint32_t *source)
{
    struct fill fill = {kv->pages, kv->declared.page_part, pages, n, source, kv->dirty};
    for (uint32_t i = 0; i < n; i++) {
        pages[i] = kv->free[--kv->n_free];
        kv->references[pages[i]] = 1;
    }
    run_fill(kv, &fill);
    for (uint32_t i = 0; i < n; i++)
        kv->dirty[pages[i]] = true;
}

void kt_kv_pages_take(struct kt_kv *kv, uint32_t *pages, uint32_t n)
{
    take(kv, pages, n, NULL);
}

void kt_kv_page_copy(struct kt_kv *kv, uint32_t *page)
{
    uint32_t old = *page;
    take(kv, page, 1, &old);
    kt_kv_pages_drop(kv, &old, 1);
}

void kt_kv_pages_share(struct kt_kv *kv, const uint32_t *pages, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        kv->n_shared += kv->references[pages[i]]++ == 1;
}

void kt_kv_pages_drop(struct kt_kv *kv, const uint32_t *pages, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t left = --kv->references[pages[i]];
        kv->n_shared -= left == 1;
        if (left == 0)
            kv->free[kv->n_free++] = pages[i];
    }
}

uint32_t kt_kv_pages_unshared(const struct kt_kv *kv, const uint32_t *pages, uint32_t n)
{
    uint32_t unshared = 0;
    for (uint32_t i = 0; i < n; i++)
        unshared += kv->references[pages[i]] == 1;
    return unshared;
}

void kt_kv_states_set(struct kt_kv *kv, uint32_t slot, uint32_t source)
{
    struct fill fill = {kv->states, kv->declared.state_part, &slot, 1, source == slot ? NULL : &source, NULL};
    if (kv->declared.state_bytes)
        run_fill(kv, &fill);
}
