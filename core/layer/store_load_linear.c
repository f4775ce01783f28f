/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_load_linear.c - the packed object of a linear in a store, on all threads.
 *
 * It is one object, and a large one of the output layer takes a second to read, so threads share it by the
 * pieces that have a checksum each. It is compared when it is loaded, not when it is first used as experts
 * are: every step of a model uses every linear. Nodes that share rows have one object, whose pages were bound
 * to them before, so any thread copies any piece; what nodes have that share columns is cut out of it.
 */
#include "core/layer/store_load_linear.h"

#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/fill.h"
#include "core/machine/buffer.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"
#include "core/weights/file/file.h"
#include "core/weights/store/store_read.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

/* Parts of a thread when panels are cut: so many that a slower thread does not make the others wait. */
#define PARTS_PER_THREAD 4

struct reading {
    struct kt_layer *layer;
    const struct kt_stored_source *source;
    char *to;           /* where pieces go; NULL: they stay in the mapping */
    const char *object; /* all of them, to be cut */
    struct kt_outcome outcome;
    _Atomic uint64_t next;
};

static const struct kt_file *file_of(const struct kt_stored_source *source)
{
    return &source->checkpoint->part[source->stored->part].file;
}

/* ---- reading ---- */

static enum kt_status read_piece(const struct reading *reading, uint64_t piece, struct kt_error *error)
{
    const struct kt_stored_source *source = reading->source;
    const struct kt_file *file = file_of(source);
    uint64_t at = piece * KT_STORE_PIECE, size = kt_stored_piece_size(source->stored, piece);
    const void *bytes = file->map ? (const char *)file->map + source->stored->offset + at : reading->to + at;
    enum kt_status status = KT_OK;
    if (!file->map)
        status = kt_file_read(file, source->stored->offset + at, reading->to + at, size, error);
    if (status == KT_OK)
        status = kt_stored_check_piece(source->checkpoint, source->stored, piece, bytes, error);
    if (status == KT_OK && file->map && reading->to)
        memcpy(reading->to + at, bytes, size);
    return status;
}

static void read_pieces(struct kt_worker *worker, void *argument)
{
    (void)worker;
    struct reading *reading = argument;
    uint64_t n = kt_stored_pieces(reading->source->stored);
    for (uint64_t i; (i = atomic_fetch_add(&reading->next, 1)) < n;) {
        struct kt_error error;
        enum kt_status status =
            kt_layer_load_stopped(reading->layer, &reading->outcome) ? KT_OK : read_piece(reading, i, &error);
        if (status != KT_OK)
            kt_outcome_fail(&reading->outcome, status, &error);
    }
}

/* The caller holds the pool's lock. */
static enum kt_status run(struct reading *reading, kt_pool_fn function, struct kt_error *error)
{
    atomic_init(&reading->next, 0);
    kt_outcome_start(&reading->outcome);
    kt_pool_run(reading->layer->context->pool, function, reading);
    return kt_outcome_end(&reading->outcome, error);
}

enum kt_status kt_linear_check_stored(struct kt_layer *layer, struct kt_stored_source *source,
                                      struct kt_error *error)
{
    struct reading reading = {.layer = layer, .source = source};
    enum kt_status status = kt_pool_lock(layer->context->pool, error);
    if (status != KT_OK)
        return status;
    status = run(&reading, read_pieces, error);
    kt_pool_unlock(layer->context->pool);
    return status;
}

/* ---- columns ---- */

static enum kt_status cut_panels(const struct reading *reading, const struct kt_shard *shard, uint64_t part,
                                 uint64_t parts, struct kt_error *error)
{
    const struct kt_layer *layer = reading->layer;
    uint64_t panels = kt_layout_panels(&shard->layout, KT_STAGE_DOWN);
    struct kt_cut job = {.whole = &reading->source->whole,
                         .shard = &shard->layout,
                         .stage = KT_STAGE_DOWN,
                         .begin = shard->begin,
                         .panel_begin = panels * part / parts,
                         .panel_end = panels * (part + 1) / parts,
                         .packed = reading->object,
                         .out = (char *)shard->weights.data + kt_shard_offset(shard, 0, KT_STAGE_DOWN),
                         .error = error};
    return job.panel_begin < job.panel_end ? kt_stored_cut(layer, &job, "", error) : KT_OK;
}

static void cut_shards(struct kt_worker *worker, void *argument)
{
    struct reading *reading = argument;
    const struct kt_shard *shard = &reading->layer->shard[worker->node];
    uint32_t parts = PARTS_PER_THREAD * worker->subpool->n_threads;
    if (shard->begin == shard->end)
        return;
    for (uint32_t part; (part = kt_worker_claim(worker, 0)) < parts;) {
        struct kt_error error;
        enum kt_status status = kt_layer_load_stopped(reading->layer, &reading->outcome)
                                    ? KT_OK
                                    : cut_panels(reading, shard, part, parts, &error);
        if (status == KT_OK)
            kt_layer_load_count(reading->layer, shard->layout.weight_size[KT_STAGE_DOWN] / parts);
        else
            kt_outcome_fail(&reading->outcome, status, &error);
    }
}

static enum kt_status cut_all(struct reading *reading, struct kt_error *error)
{
    const struct kt_stored_source *source = reading->source;
    const struct kt_file *file = file_of(source);
    struct kt_context *context = reading->layer->context;
    struct kt_buffer room = {.data = NULL};
    enum kt_status status = KT_OK;
    reading->object = file->map ? (const char *)file->map + source->stored->offset : NULL;
    if (!file->map) {
        status = kt_buffer_create(context->topology, 0, source->stored->object_size[KT_STAGE_DOWN],
                                  context->huge_pages, &room, error);
        reading->object = reading->to = room.data;
    }
    if (status == KT_OK)
        status = run(reading, read_pieces, error);
    if (status == KT_OK)
        status = run(reading, cut_shards, error);
    kt_buffer_destroy(&room);
    return status;
}

enum kt_status kt_linear_copy_stored(struct kt_layer *layer, void *source, struct kt_error *error)
{
    struct reading reading = {.layer = layer, .source = source};
    for (uint32_t n = 0; n < layer->n_shards; n++) {
        const struct kt_shard *shard = &layer->shard[n];
        if (shard->begin < shard->end && shard->end - shard->begin < layer->params.intermediate_size)
            return cut_all(&reading, error);
        if (shard->weights.size > 0)
            reading.to = (char *)shard->weights.data + kt_shard_offset(shard, 0, KT_STAGE_DOWN);
    }
    return run(&reading, read_pieces, error);
}
