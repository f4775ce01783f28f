/* SPDX-License-Identifier: Apache-2.0 */
/*
 * populate.c - brings weights that are used where they lie into memory, on all threads: the objects of a
 * mapped store, and what a backend reads of its source. Objects that were not compared with their checksums
 * yet are compared here, as that reads them anyway and the first forwards are spared it.
 */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/fill.h"
#include "core/layer/linear.h"
#include "core/layer/store_check.h"
#include "core/machine/outcome.h"
#include "core/machine/pages.h"
#include "core/machine/pool.h"

#include <kt/kt.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Bytes of a task where nothing is compared: so few that a slower thread does not make the others wait. */
#define PIECE (UINT64_C(1) << 22)

/* A task. */
struct piece {
    const char *data;
    uint64_t size;
    uint32_t expert;
    enum kt_stage stage;
    bool compared; /* the whole object is to be compared with its checksum */
};

struct populating {
    struct kt_layer *layer;
    struct piece *pieces;
    uint64_t n, capacity, size;
    struct kt_outcome outcome;
    _Atomic uint64_t next;
};

/* ---- what there is to do ---- */

static bool add(struct populating *all, const struct piece *piece)
{
    if (all->n == all->capacity) {
        uint64_t capacity = all->capacity ? 2 * all->capacity : 64;
        struct piece *grown = realloc(all->pieces, capacity * sizeof *grown);
        if (!grown)
            return false;
        all->pieces = grown;
        all->capacity = capacity;
    }
    all->pieces[all->n++] = *piece;
    all->size += piece->size;
    return true;
}

/* Memory that is only read. */
static bool add_memory(struct populating *all, const void *data, uint64_t size)
{
    bool added = true;
    for (uint64_t at = 0; data && at < size && added; at += PIECE)
        added = add(all, &(struct piece){.data = (const char *)data + at,
                                         .size = size - at < PIECE ? size - at : PIECE});
    return added;
}

static bool add_objects(struct populating *all, const struct kt_shard *shard, uint32_t expert)
{
    const struct kt_layer *layer = all->layer;
    bool compared = layer->check && !layer->check->done[expert], added = true;
    for (int s = kt_layer_is_linear(layer) ? KT_STAGE_DOWN : KT_STAGE_GATE_UP; s <= KT_STAGE_DOWN && added;
         s++) {
        struct piece piece = {.data = kt_shard_object(shard, expert, (enum kt_stage)s),
                              .size = shard->layout.weight_size[s],
                              .expert = expert,
                              .stage = (enum kt_stage)s,
                              .compared = true};
        added = compared ? add(all, &piece) : add_memory(all, piece.data, piece.size);
    }
    return added;
}

/* Strides below 0 are of a caller's own memory, which is not a file. */
static bool add_matrix(struct populating *all, const struct kt_view *view)
{
    return view->row_stride < 0 || view->block_stride < 0 || add_memory(all, view->data, view->size);
}

static bool add_scales(struct populating *all, const struct kt_scales *scales)
{
    return scales->row_stride < 0 || scales->col_stride < 0 || add_memory(all, scales->data, scales->size);
}

static bool add_source(struct populating *all, const struct kt_expert *expert)
{
    const struct kt_view *const views[3] = {&expert->gate, &expert->up, &expert->down};
    bool added = true;
    for (int p = 0; p < 3 && added; p++)
        added = add_matrix(all, views[p]) && add_scales(all, &views[p]->scales) &&
                add_scales(all, &views[p]->zeros);
    return added;
}

/* A store is used in place by one node only. */
static bool add_all(struct populating *all)
{
    const struct kt_layer *layer = all->layer;
    bool added = true;
    for (uint32_t n = 0; n < layer->n_shards; n++) {
        const struct kt_shard *shard = &layer->shard[n];
        bool mapped = layer->n_shards == 1 && shard->packed && shard->weights.size == 0;
        for (uint32_t e = 0; shard->begin < shard->end && e < layer->params.n_experts && added; e++) {
            if (mapped)
                added = add_objects(all, shard, e);
            if (added && shard->source)
                added = add_source(all, &shard->source[e]);
        }
    }
    return added;
}

/* ---- doing it ---- */

static enum kt_status populate(const struct kt_layer *layer, const struct piece *piece,
                               struct kt_error *error)
{
    if (!kt_pages_read(piece->data, piece->size))
        return kt_fail(error, KT_E_IO, "%s: cannot read weights; the file may have been truncated",
                       layer->name);
    return piece->compared ? kt_store_check_object(layer, piece->expert, piece->stage, error) : KT_OK;
}

static void populate_pieces(struct kt_worker *worker, void *argument)
{
    (void)worker;
    struct populating *all = argument;
    for (uint64_t i; (i = atomic_fetch_add(&all->next, 1)) < all->n;) {
        struct kt_error error;
        if (kt_layer_load_stopped(all->layer, &all->outcome))
            continue;
        enum kt_status status = populate(all->layer, &all->pieces[i], &error);
        if (status == KT_OK)
            kt_layer_load_count(all->layer, all->pieces[i].size);
        else
            kt_outcome_fail(&all->outcome, status, &error);
    }
}

/* The caller holds the pool's lock. */
static enum kt_status run(struct populating *all, struct kt_error *error)
{
    struct kt_layer *layer = all->layer;
    if (!add_all(all))
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to populate it", layer->name);
    atomic_store(&layer->load.done, 0);
    atomic_store(&layer->load.total, all->size);
    atomic_init(&all->next, 0);
    kt_outcome_start(&all->outcome);
    if (all->n > 0)
        kt_pool_run(layer->context->pool, populate_pieces, all);
    enum kt_status status = kt_outcome_end(&all->outcome, error);
    if (status == KT_OK && layer->check)
        kt_store_check_end(layer);
    return status;
}

enum kt_status kt_layer_populate(struct kt_layer *layer, struct kt_error *error)
{
    if (!layer)
        return kt_fail(error, KT_E_INVALID, "kt_layer_populate: layer must not be NULL");
    struct populating all = {.layer = layer};
    enum kt_status status = kt_pool_lock(layer->context->pool, error);
    if (status != KT_OK)
        return status;
    atomic_store(&layer->load.stopped, false);
    if (layer->loaded)
        status = run(&all, error);
    else
        status = kt_fail(error, KT_E_STATE, "%s has no weights; load it first", layer->name);
    kt_pool_unlock(layer->context->pool);
    atomic_store(&layer->load.total, layer->packed_size);
    atomic_store(&layer->load.done, layer->packed_size);
    free(all.pieces);
    return status;
}

enum kt_status kt_linear_populate(struct kt_linear *linear, struct kt_error *error)
{
    if (!linear)
        return kt_fail(error, KT_E_INVALID, "kt_linear_populate: linear must not be NULL");
    return kt_layer_populate(linear->layer, error);
}
