/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - gives a layer the memory that its selection needs, and fills it. */
#include "core/layer/fill.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/context/arena.h"
#include "core/context/context.h"
#include "core/layer/route.h"
#include "core/machine/buffer.h"
#include "core/machine/pool.h"
#include "core/weights/decode/view.h"

#include <kt/kt.h>
#include <stdlib.h>
#include <string.h>

const struct kt_expert *kt_layer_expert(const struct kt_layer *layer, const struct kt_expert *experts,
                                        uint32_t e)
{
    return &experts[layer->expert_map ? layer->expert_map[e] : e];
}

enum kt_status kt_shard_cut(const struct kt_shard *shard, const struct kt_expert *expert,
                            struct kt_expert *part, struct kt_error *error)
{
    uint64_t rows = shard->end - shard->begin;
    enum kt_status status = KT_OK;
    *part = *expert;
    int first = (int)kt_activation_first(shard->layout.shape.activation);
    if (first <= KT_GATE)
        status = kt_view_slice(&expert->gate, shard->begin, rows, 0, expert->gate.cols, &part->gate, error);
    if (status == KT_OK && first <= KT_UP)
        status = kt_view_slice(&expert->up, shard->begin, rows, 0, expert->up.cols, &part->up, error);
    if (status == KT_OK)
        status = kt_view_slice(&expert->down, 0, expert->down.rows, shard->begin, rows, &part->down, error);
    return status;
}

static enum kt_status copy_bias(struct kt_layer *layer, struct kt_shard *shard,
                                const struct kt_expert *experts, enum kt_projection projection,
                                uint64_t begin, uint64_t rows, struct kt_error *error)
{
    const float *first = projection == KT_GATE ? experts->gate_bias
                         : projection == KT_UP ? experts->up_bias
                                               : experts->down_bias;
    if (!first)
        return KT_OK;
    float *all = malloc(layer->params.n_experts * rows * sizeof *all);
    if (!all)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for biases", layer->name);
    shard->bias[projection] = all;
    shard->bias_stride[projection] = rows;
    for (uint32_t e = 0; e < layer->params.n_experts; e++) {
        const struct kt_expert *expert = kt_layer_expert(layer, experts, e);
        const float *bias = projection == KT_GATE ? expert->gate_bias
                            : projection == KT_UP ? expert->up_bias
                                                  : expert->down_bias;
        memcpy(all + e * rows, bias + begin, rows * sizeof *all);
    }
    return KT_OK;
}

/* The memory that the shard's weights are in. */
static const struct kt_buffer *buffer_of(const struct kt_layer *layer, const struct kt_shard *shard)
{
    for (uint32_t n = 0; layer->splits_rows && n < layer->n_shards; n++)
        if (layer->shard[n].weights.size)
            return &layer->shard[n].weights;
    return &shard->weights;
}

/* The pages of it that are the shard's. */
static void pages_of(const struct kt_layer *layer, const struct kt_shard *shard, uint64_t *begin,
                     uint64_t *end)
{
    uint64_t pages = kt_buffer_pages(buffer_of(layer, shard)), panels = 1;
    *begin = *end = 0;
    if (shard->begin == shard->end)
        return;
    if (layer->splits_rows)
        panels = kt_layout_panels(&shard->layout, KT_STAGE_DOWN);
    *begin = layer->splits_rows ? pages * shard->panel_begin / panels : 0;
    *end = layer->splits_rows ? pages * shard->panel_end / panels : pages;
}

/* Memory of a shard. Where rows are split, the first one has that of all, and the others' pages in it are
 * bound to their nodes. */
static enum kt_status allocate(struct kt_layer *layer, struct kt_shard *shard, uint32_t node,
                               struct kt_shard *first, struct kt_error *error)
{
    struct kt_context *context = layer->context;
    uint64_t size = shard->expert_stride * layer->params.n_experts;
    if (layer->splits_rows && shard != first) {
        uint64_t begin, end;
        pages_of(layer, shard, &begin, &end);
        kt_buffer_bind(context->topology, node, &first->weights, begin, end);
        shard->packed = first->weights.data;
        return KT_OK;
    }
    enum kt_status status =
        kt_buffer_create(context->topology, node, size, context->huge_pages, &shard->weights, error);
    if (status == KT_OK)
        (void)atomic_fetch_add(&context->packed_size, shard->weights.size);
    shard->packed = shard->weights.data;
    return status;
}

/* Memory of a shard, its biases and its views. Where columns are split, only the first shard adds the bias of
 * down. */
static enum kt_status fill_shard(struct kt_layer *layer, struct kt_shard *shard, uint32_t node,
                                 struct kt_shard *first, const struct kt_expert *experts, const char *mapped,
                                 struct kt_error *error)
{
    uint32_t n_experts = layer->params.n_experts;
    uint64_t rows = shard->end - shard->begin;
    enum kt_status status = KT_OK;
    if (mapped)
        shard->packed = mapped;
    else
        status = allocate(layer, shard, node, first, error);
    if (status == KT_OK)
        status = copy_bias(layer, shard, experts, KT_GATE, shard->begin, rows, error);
    if (status == KT_OK)
        status = copy_bias(layer, shard, experts, KT_UP, shard->begin, rows, error);
    if (status == KT_OK && (shard == first || layer->splits_rows))
        status = copy_bias(layer, shard, experts, KT_DOWN, 0, layer->params.hidden_size, error);
    if (status != KT_OK || !shard->layout.keeps_source)
        return status;
    shard->source = calloc(n_experts, sizeof *shard->source);
    if (!shard->source)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u views", layer->name, n_experts);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++)
        status = kt_shard_cut(shard, kt_layer_expert(layer, experts, e), &shard->source[e], error);
    return status;
}

/* Touches the pages to be filled, by the threads of their node. */
static void touch_all(struct kt_worker *worker, void *argument)
{
    const struct kt_layer *layer = argument;
    const struct kt_shard *shard = &layer->shard[worker->node];
    const struct kt_buffer *weights = buffer_of(layer, shard);
    uint64_t begin, end;
    pages_of(layer, shard, &begin, &end);
    for (uint64_t page; (page = begin + kt_worker_claim(worker, 0)) < end;)
        if (!atomic_load(&layer->load.stopped))
            kt_buffer_touch(weights, page);
}

static enum kt_status take_selection(struct kt_layer *layer, struct kt_selection *selection,
                                     struct kt_error *error)
{
    layer->shard = calloc(selection->n_shards, sizeof *layer->shard);
    if (!layer->shard)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u shards", layer->name, selection->n_shards);
    memcpy(layer->shard, selection->shard, selection->n_shards * sizeof *layer->shard);
    layer->backend = selection->backend;
    layer->n_shards = selection->n_shards;
    layer->nominal_size = selection->nominal_size;
    for (uint32_t n = 0; n < layer->n_shards; n++)
        if (layer->shard[n].begin < layer->shard[n].end)
            layer->group_rows = kt_backend_group_rows(layer->backend, &layer->shard[n].layout);
    memcpy(layer->rounding, selection->rounding, sizeof layer->rounding);
    selection->n_shards = 0; /* the layouts are the layer's now */
    if (*layer->rounding)
        kt_log_write(layer->context->log, KT_LOG_INFO, "%s: %s rounds the weights again: %s", layer->name,
                     layer->backend->name, layer->rounding);
    return KT_OK;
}

/* Once for a context: layers work without binding, only slower. */
static void report_membind(struct kt_context *context)
{
    struct kt_topology *topology = context->topology;
    if (atomic_load(&topology->membind_failures) && !atomic_exchange(&topology->membind_reported, true))
        kt_log_write(context->log, KT_LOG_WARNING, "%s", topology->membind_message);
}

enum kt_status kt_layer_fill(struct kt_layer *layer, struct kt_selection *selection,
                             const struct kt_expert *experts, const struct kt_fill_source *source,
                             struct kt_error *error)
{
    struct kt_context *context = layer->context;
    uint64_t need[KT_MAX_NODES] = {0};
    struct kt_shard *first = NULL;
    bool packs = false;
    enum kt_status status = take_selection(layer, selection, error);
    for (uint32_t n = 0; n < layer->n_shards && status == KT_OK; n++) {
        struct kt_shard *shard = &layer->shard[n];
        if (shard->begin == shard->end)
            continue;
        first = first ? first : shard;
        status = fill_shard(layer, shard, n, first, experts, source->mapped, error);
        need[n] = shard->buffers.size;
        layer->packed_size += kt_shard_size(layer, shard);
        packs |= shard->weights.size > 0;
    }
    if (status == KT_OK)
        status = kt_pool_lock(context->pool, error);
    if (status != KT_OK)
        return status;
    status = kt_arena_grow(&context->arena, context->topology, layer->n_shards, need, kt_route_size(layer),
                           context->huge_pages, error);
    report_membind(context);
    atomic_store(&layer->load.total, layer->packed_size);
    if (status == KT_OK && packs) {
        kt_pool_run(context->pool, touch_all, layer);
        status = source->run(layer, source->data, error);
    }
    kt_pool_unlock(context->pool);
    return status;
}

void kt_layer_load_count(struct kt_layer *layer, uint64_t size)
{
    (void)atomic_fetch_add(&layer->load.done, size);
}

bool kt_layer_load_stopped(struct kt_layer *layer, struct kt_outcome *outcome)
{
    struct kt_error error;
    if (atomic_load(&layer->load.stopped) && !kt_outcome_failed(outcome))
        kt_outcome_fail(outcome, kt_fail(&error, KT_E_STATE, "%s: loading was stopped", layer->name), &error);
    return kt_outcome_failed(outcome);
}

void kt_layer_load_progress(const struct kt_layer *layer, uint64_t *done, uint64_t *total)
{
    *total = atomic_load(&layer->load.total);
    uint64_t made = atomic_load(&layer->load.done);
    *done = made < *total ? made : *total;
}

void kt_layer_load_stop(struct kt_layer *layer)
{
    atomic_store(&layer->load.stopped, true); /* the next load starts with false */
}
