/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - a cache: how many pages its bound allows, and their memory. */
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/kv/declare.h"
#include "core/kv/free.h"
#include "core/machine/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_SEQUENCES = 64, MOST_SEQUENCES = 1 << 20 };

/* What `tables` holds, one after the other. */
struct places {
    uint64_t sequences, closed, free, references, dirty, pages, size;
};

/* Pages in the table of one sequence. */
static uint64_t table_pages(const struct kt_kv *kv, uint64_t n_pages)
{
    uint64_t wanted = kt_kv_pages_for(kv->max_tokens);
    return wanted < n_pages ? wanted : n_pages;
}

/* n_pages and max_sequences are below 2^32, so only the last product can overflow. */
static bool place_tables(const struct kt_kv *kv, uint64_t n_pages, struct places *places)
{
    uint64_t n = kv->max_sequences, tables;
    places->sequences = 0;
    places->closed = kt_align64(n * sizeof(struct kt_kv_sequence));
    places->free = places->closed + kt_align64(n * sizeof(uint32_t));
    places->references = places->free + kt_align64(n_pages * sizeof(uint32_t));
    places->dirty = places->references + kt_align64(n_pages * sizeof(uint32_t));
    places->pages = places->dirty + kt_align64(n_pages);
    return kt_mul(n * sizeof(uint32_t), table_pages(kv, n_pages), &tables) &&
           kt_add(places->pages, tables, &places->size) && places->size < INT64_MAX;
}

static uint64_t all_bytes(const struct kt_kv *kv, uint64_t n_pages)
{
    struct places places;
    uint64_t sum, part;
    if (!place_tables(kv, n_pages, &places))
        return UINT64_MAX;
    sum = kt_buffer_rounded(places.size);
    for (uint32_t node = 0; node < kv->declared.n_nodes; node++) {
        if (!kt_mul(kv->declared.page_part[node], n_pages, &part) || part >= INT64_MAX ||
            !kt_add(sum, kt_buffer_rounded(part), &sum) ||
            !kt_mul(kv->declared.state_part[node], kv->max_sequences, &part) || part >= INT64_MAX ||
            !kt_add(sum, kt_buffer_rounded(part), &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* The most pages that fit; 0: not one. */
static uint64_t most_pages(const struct kt_kv *kv, uint64_t bytes)
{
    uint64_t low = 0, high = bytes / kv->declared.page_bytes;
    high = high < UINT32_MAX - 1 ? high : UINT32_MAX - 1;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2;
        if (all_bytes(kv, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static enum kt_status choose_size(struct kt_kv *kv, const struct kt_kv_params *params, struct kt_error *error)
{
    if (!params->bytes == !params->tokens)
        return kt_fail(error, KT_E_INVALID,
                       "kt_kv_create: bytes is %" PRIu64 " and tokens %" PRIu64
                       ": one of them bounds the cache, the other must be 0",
                       params->bytes, params->tokens);
    kv->max_tokens = params->max_tokens ? params->max_tokens : UINT64_MAX;
    kv->max_sequences = params->max_sequences ? params->max_sequences : DEFAULT_SEQUENCES;
    if (kv->max_sequences > MOST_SEQUENCES)
        return kt_fail(error, KT_E_INVALID, "kt_kv_create: %" PRIu32 " sequences are more than 2^20",
                       kv->max_sequences);
    uint64_t n_pages = params->bytes ? most_pages(kv, params->bytes) : kt_kv_pages_for(params->tokens);
    if (n_pages == 0)
        return kt_fail(error, KT_E_INVALID,
                       "%" PRIu64
                       " bytes are too few for a cache: one page of %d tokens, the states of %" PRIu32
                       " sequences and tables take %" PRIu64,
                       params->bytes, KT_KV_PAGE, kv->max_sequences, all_bytes(kv, 1));
    kv->bytes = n_pages < UINT32_MAX ? all_bytes(kv, n_pages) : UINT64_MAX;
    if (kv->bytes == UINT64_MAX)
        return kt_fail(error, KT_E_NOMEM,
                       "a cache of %" PRIu64 " pages of %" PRIu64 " bytes and of %" PRIu32
                       " sequences is larger than an address space",
                       n_pages, kv->declared.page_bytes, kv->max_sequences);
    struct places places;
    (void)place_tables(kv, n_pages, &places);
    kv->n_pages = (uint32_t)n_pages;
    kv->table_pages = (uint32_t)table_pages(kv, n_pages);
    kv->table_bytes = kt_buffer_rounded(places.size);
    return KT_OK;
}

static enum kt_status plan(struct kt_context *context, const struct kt_kv_params *params, struct kt_kv *kv,
                           struct kt_error *error)
{
    enum kt_status status = kt_kv_declare(params, context->pool->n_nodes, &kv->declared, error);
    if (status != KT_OK)
        return status;
    kv->context = context;
    status = choose_size(kv, params, error);
    if (status != KT_OK)
        kt_kv_declaration_free(&kv->declared);
    return status;
}

static void describe(const struct kt_kv *kv, struct kt_kv_info *info)
{
    uint64_t tokens = (uint64_t)kv->n_pages * KT_KV_PAGE;
    *info = (struct kt_kv_info){
        .bytes = kv->bytes,
        .page_bytes = kv->declared.page_bytes,
        .token_bytes = kv->declared.page_bytes / KT_KV_PAGE,
        .state_bytes = kv->declared.state_bytes,
        .table_bytes = kv->table_bytes,
        .max_tokens = kv->max_tokens < tokens ? kv->max_tokens : tokens,
        .n_pages = kv->n_pages,
        .used_pages = kv->n_pages - kv->n_free,
        .shared_pages = kv->n_shared,
        .free_pages = kv->n_free,
        .max_sequences = kv->max_sequences,
        .n_sequences = kv->max_sequences - kv->n_closed,
        .n_nodes = kv->declared.n_nodes,
    };
    (void)snprintf(info->fingerprint, sizeof info->fingerprint, "%016" PRIx64, kv->declared.fingerprint);
}

enum kt_status kt_kv_plan(struct kt_context *context, const struct kt_kv_params *params,
                          struct kt_kv_info *info, struct kt_error *error)
{
    struct kt_kv kv = {0};
    if (!context || !info)
        return kt_fail(error, KT_E_INVALID, "kt_kv_plan: context and info must not be NULL");
    enum kt_status status = plan(context, params, &kv, error);
    if (status != KT_OK)
        return status;
    kv.n_free = kv.n_pages;
    kv.n_closed = kv.max_sequences;
    describe(&kv, info);
    kt_kv_declaration_free(&kv.declared);
    return KT_OK;
}

/* ---- memory ---- */

/* Small pages, too, which kt_buffer_touch makes with newer kernels only. */
static void touch(const struct kt_buffer *buffer, uint64_t page)
{
    enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 4096 };
    volatile char *data = buffer->data;
    kt_buffer_touch(buffer, page);
    for (uint64_t at = page * HUGE_PAGE; at < (page + 1) * HUGE_PAGE && at < buffer->size; at += SMALL_PAGE)
        data[at] = 0;
}

static void touch_all(struct kt_worker *worker, void *argument)
{
    const struct kt_kv *kv = argument;
    const struct kt_buffer *buffers[2] = {&kv->pages[worker->node], &kv->states[worker->node]};
    for (int i = 0; i < 2; i++)
        for (uint32_t page; (page = kt_worker_claim(worker, i)) < kt_buffer_pages(buffers[i]);)
            touch(buffers[i], page);
}

static enum kt_status allocate(struct kt_kv *kv, struct kt_error *error)
{
    struct kt_context *context = kv->context;
    struct places places;
    uint64_t left = kt_memory_available();
    if (left && left < kv->bytes)
        return kt_fail(error, KT_E_NOMEM,
                       "the cache takes %" PRIu64 " bytes, but %" PRIu64
                       " can be allocated now: bound it below that",
                       kv->bytes, left);
    (void)place_tables(kv, kv->n_pages, &places);
    enum kt_status status =
        kt_buffer_create(context->topology, 0, places.size, context->huge_pages, &kv->tables, error);
    for (uint32_t node = 0; node < kv->declared.n_nodes && status == KT_OK; node++) {
        status = kt_buffer_create(context->topology, node, kv->declared.page_part[node] * kv->n_pages,
                                  context->huge_pages, &kv->pages[node], error);
        if (status == KT_OK)
            status =
                kt_buffer_create(context->topology, node, kv->declared.state_part[node] * kv->max_sequences,
                                 context->huge_pages, &kv->states[node], error);
    }
    if (status == KT_OK)
        status = kt_pool_lock(context->pool, error);
    if (status != KT_OK)
        return status;
    kt_pool_run(context->pool, touch_all, kv);
    kt_pool_unlock(context->pool);
    for (uint64_t page = 0; page < kt_buffer_pages(&kv->tables); page++)
        touch(&kv->tables, page);
    return KT_OK;
}

/* All pages are free and all sequences closed; low numbers are taken first. */
static void fill_tables(struct kt_kv *kv)
{
    struct places places;
    char *base = kv->tables.data;
    (void)place_tables(kv, kv->n_pages, &places);
    kv->sequence = (void *)(base + places.sequences);
    kv->closed = (void *)(base + places.closed);
    kv->free = (void *)(base + places.free);
    kv->references = (void *)(base + places.references);
    kv->dirty = (void *)(base + places.dirty);
    uint32_t *pages = (void *)(base + places.pages);
    for (uint32_t i = 0; i < kv->max_sequences; i++) {
        kv->sequence[i] =
            (struct kt_kv_sequence){.kv = kv, .slot = i, .pages = pages + (uint64_t)i * kv->table_pages};
        kv->closed[i] = kv->max_sequences - 1 - i;
    }
    for (uint32_t i = 0; i < kv->n_pages; i++)
        kv->free[i] = kv->n_pages - 1 - i;
    kv->n_closed = kv->max_sequences;
    kv->n_free = kv->n_pages;
}

enum kt_status kt_kv_create(struct kt_context *context, const struct kt_kv_params *params, struct kt_kv **out,
                            struct kt_error *error)
{
    if (!context || !out)
        return kt_fail(error, KT_E_INVALID, "kt_kv_create: context and kv must not be NULL");
    struct kt_kv *kv = calloc(1, sizeof *kv);
    if (!kv)
        return kt_fail(error, KT_E_NOMEM, "no memory for a cache");
    enum kt_status status = plan(context, params, kv, error);
    if (status != KT_OK) {
        free(kv);
        return status;
    }
    (void)kt_context_retain(context);
    kt_lock_init(&kv->lock);
    status = allocate(kv, error);
    if (status != KT_OK) {
        kt_kv_free(kv);
        return status;
    }
    fill_tables(kv);
    kt_log_write(context->log, KT_LOG_DEBUG,
                 "cache: %" PRIu32 " pages of %d tokens, %" PRIu64 " bytes a token, %" PRIu64
                 " bytes in all on %" PRIu32 " NUMA nodes",
                 kv->n_pages, KT_KV_PAGE, kv->declared.page_bytes / KT_KV_PAGE, kv->bytes,
                 kv->declared.n_nodes);
    *out = kv;
    return KT_OK;
}

void kt_kv_destroy(struct kt_kv *kv)
{
    if (!kv || !kt_lock_take(&kv->lock))
        return;
    bool last = kv->n_closed == kv->max_sequences;
    kv->destroyed = true;
    kt_lock_give(&kv->lock);
    if (last)
        kt_kv_free(kv);
}

void kt_kv_info(const struct kt_kv *kv, struct kt_kv_info *info)
{
    struct kt_lock *lock = &((struct kt_kv *)(uintptr_t)kv)->lock;
    bool locked = kt_lock_take(lock); /* else what no other thread changes any more is described */
    describe(kv, info);
    if (locked)
        kt_lock_give(lock);
}
