/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - weights from views into packed objects, in parallel, each shard on its node. */
#include "core/base/error.h"
#include "core/layer/layer.h"
#include "core/machine/outcome.h"
#include "core/layer/store_load.h"
#include "core/weights/weights.h"
#include "core/weights/decode/view.h"
#include "core/weights/decode/dequantize.h"
#include "core/weights/decode/scales_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kt_view *view_of(const struct kt_expert *expert, enum kt_projection projection)
{
    return projection == KT_GATE ? &expert->gate : projection == KT_UP ? &expert->up : &expert->down;
}

static const char *const projection_names[3] = {"gate", "up", "down"};

static enum kt_status check_view(const struct kt_layer *layer, const struct kt_expert *first, uint32_t e,
                                 const struct kt_expert *expert, enum kt_projection projection,
                                 struct kt_error *error)
{
    const struct kt_view *view = view_of(expert, projection);
    const struct kt_layer_params *params = &layer->params;
    bool down = projection == KT_DOWN;
    uint64_t rows = down ? params->hidden_size : params->intermediate_size;
    uint64_t cols = down ? params->intermediate_size : params->hidden_size;
    const char *what = projection_names[projection];
    if (!view->data)
        return kt_fail(error, KT_E_INVALID,
                       "%s, expert %u, %s has no data; experts of a store are loaded by "
                       "kt_layer_load_checkpoint",
                       layer->name, e, what);
    enum kt_status status = kt_view_check(view, error);
    if (status != KT_OK)
        return kt_fail_prefix(error, status, "%s, expert %u, %s", layer->name, e, what);
    if (view->rows != rows || view->cols != cols)
        return kt_fail(error, KT_E_INVALID,
                       "%s, expert %u, %s%s%s is %llu x %llu; the layer needs %llu x %llu", layer->name, e,
                       what, view->name ? " " : "", view->name ? view->name : "",
                       (unsigned long long)view->rows, (unsigned long long)view->cols,
                       (unsigned long long)rows, (unsigned long long)cols);
    struct kt_format format, wanted;
    kt_view_format(view, &format);
    kt_view_format(view_of(first, projection), &wanted);
    if (kt_dtype_needs_scales(format.dtype) && format.scale_dtype == KT_DTYPE_NONE)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s, expert %u, %s: %s weights stand for no real numbers without scales; set "
                       "view.scales",
                       layer->name, e, what, kt_dtype_name(format.dtype));
    if (memcmp(&format, &wanted, sizeof format) != 0)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: %s of expert %u is %s, of expert 0 %s; experts of one layer must have the "
                       "same format",
                       layer->name, what, e, kt_dtype_name(format.dtype), kt_dtype_name(wanted.dtype));
    return KT_OK;
}

enum kt_status kt_layer_check_experts(const struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, struct kt_error *error)
{
    if (n_experts != layer->params.n_experts)
        return kt_fail(error, KT_E_INVALID, "%s has %u experts, but %u are given", layer->name,
                       layer->params.n_experts, n_experts);
    enum kt_status status = KT_OK;
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++) {
        const struct kt_expert *expert = &experts[e];
        for (int p = KT_GATE; p <= KT_DOWN && status == KT_OK; p++)
            status = check_view(layer, experts, e, expert, (enum kt_projection)p, error);
        if (status == KT_OK &&
            (!expert->gate_bias != !experts->gate_bias || !expert->up_bias != !experts->up_bias ||
             !expert->down_bias != !experts->down_bias))
            status = kt_fail(error, KT_E_INVALID,
                             "%s: expert %u and expert 0 differ in which biases they have", layer->name, e);
    }
    return status;
}

enum kt_status kt_layer_check_own(const struct kt_layer *layer, const struct kt_expert *experts,
                                  uint32_t n_experts, struct kt_error *error)
{
    enum kt_status status = kt_layer_check_experts(layer, experts, n_experts, error);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++)
        for (int p = KT_GATE; p <= KT_DOWN && status == KT_OK; p++) {
            const struct kt_view *view = view_of(&experts[e], (enum kt_projection)p);
            char label[128];
            if (!view->scales.data)
                continue;
            (void)snprintf(label, sizeof label, "%s, expert %u", layer->name, e);
            status = kt_scales_check(view, label, view->name ? view->name : projection_names[p], error);
        }
    return status;
}

static const struct kt_expert *source_of(const struct kt_layer *layer, const struct kt_expert *experts,
                                         uint32_t e)
{
    return &experts[layer->expert_map ? layer->expert_map[e] : e];
}

/* The part of an expert that a shard holds. */
static enum kt_status cut_expert(const struct kt_shard *shard, const struct kt_expert *expert,
                                 struct kt_expert *part, struct kt_error *error)
{
    uint64_t rows = shard->end - shard->begin;
    *part = *expert;
    enum kt_status status =
        kt_view_slice(&expert->gate, shard->begin, rows, 0, expert->gate.cols, &part->gate, error);
    if (status == KT_OK)
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
        const struct kt_expert *expert = source_of(layer, experts, e);
        const float *bias = projection == KT_GATE ? expert->gate_bias
                            : projection == KT_UP ? expert->up_bias
                                                  : expert->down_bias;
        memcpy(all + e * rows, bias + begin, rows * sizeof *all);
    }
    return KT_OK;
}

/* What a shard keeps beside its packed weights. Only the first shard adds the down bias. */
static enum kt_status fill_shard(struct kt_layer *layer, struct kt_shard *shard, uint32_t node, bool first,
                                 const struct kt_expert *experts, const char *mapped, struct kt_error *error)
{
    struct kt_context *context = layer->context;
    uint32_t n_experts = layer->params.n_experts;
    uint64_t rows = shard->end - shard->begin;
    enum kt_status status = KT_OK;
    if (!mapped)
        status = kt_buffer_create(context->topology, node, shard->expert_stride * n_experts,
                                  context->huge_pages, &shard->weights, error);
    shard->packed = mapped ? mapped : shard->weights.data;
    if (status == KT_OK)
        status = copy_bias(layer, shard, experts, KT_GATE, shard->begin, rows, error);
    if (status == KT_OK)
        status = copy_bias(layer, shard, experts, KT_UP, shard->begin, rows, error);
    if (status == KT_OK && first)
        status = copy_bias(layer, shard, experts, KT_DOWN, 0, layer->params.hidden_size, error);
    if (status != KT_OK || !shard->layout.keeps_source)
        return status;
    shard->source = calloc(n_experts, sizeof *shard->source);
    if (!shard->source)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u views", layer->name, n_experts);
    for (uint32_t e = 0; e < n_experts && status == KT_OK; e++)
        status = cut_expert(shard, source_of(layer, experts, e), &shard->source[e], error);
    return status;
}

/* ---- how far it is ---- */

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
    atomic_store(&layer->load.stopped, true); /* which the next load takes back */
}

/* ---- packing ---- */

/* Packing, on all threads: a task is a range of panels of one stage of one expert. */
struct packing {
    struct kt_layer *layer;
    const struct kt_expert *experts;
    struct kt_outcome outcome;
};

enum kt_status kt_layer_pack(const struct kt_shard *shard, const struct kt_backend *backend,
                             const struct kt_expert *expert, struct kt_pack *job, struct kt_error *error)
{
    struct kt_expert cut;
    job->layout = &shard->layout;
    job->source = &cut;
    error->message[0] = '\0';
    enum kt_status status = cut_expert(shard, expert, &cut, error);
    if (status == KT_OK && job->panel_begin < job->panel_end)
        status = backend->level->ops->pack(backend->instance, job, error);
    if (status == KT_OK)
        return KT_OK;
    (void)kt_fail_plugin(error, status, "packing failed without a reason");
    return kt_fail_prefix(error, status, "backend %s", backend->name);
}

static void pack_task(struct packing *packing, const struct kt_worker *worker, uint32_t e,
                      enum kt_stage stage, uint32_t part, uint32_t parts)
{
    struct kt_layer *layer = packing->layer;
    struct kt_shard *shard = &layer->shard[worker->node];
    uint64_t panels = kt_layout_panels(&shard->layout, stage);
    struct kt_error error;
    struct kt_pack job = {.stage = stage,
                          .panel_begin = panels * part / parts,
                          .panel_end = panels * (part + 1) / parts,
                          .packed = (char *)shard->weights.data + e * shard->expert_stride +
                                    (stage == KT_STAGE_DOWN ? shard->down_offset : 0)};
    enum kt_status status =
        kt_layer_pack(shard, layer->backend, source_of(layer, packing->experts, e), &job, &error);
    if (status == KT_OK) {
        kt_layer_load_count(layer,
                            shard->layout.weight_size[stage] * (job.panel_end - job.panel_begin) / panels);
        return;
    }
    (void)kt_fail_prefix(&error, status, "%s, expert %u", layer->name, e);
    kt_outcome_fail(&packing->outcome, status, &error);
}

static void pack_all(struct kt_worker *worker, void *argument)
{
    struct packing *packing = argument;
    struct kt_layer *layer = packing->layer;
    const struct kt_shard *shard = &layer->shard[worker->node];
    if (shard->begin == shard->end)
        return;
    /* Whole matrices where there are enough of them, ranges of panels where there are few. */
    uint32_t n_experts = layer->params.n_experts;
    uint32_t parts = (4 * worker->subpool->n_threads + 2 * n_experts - 1) / (2 * n_experts);
    uint64_t n_tasks = (uint64_t)n_experts * 2 * parts;
    for (uint32_t task; (task = kt_worker_claim(worker, 0)) < n_tasks;)
        if (!kt_layer_load_stopped(layer, &packing->outcome))
            pack_task(packing, worker, task / parts / 2, (enum kt_stage)(task / parts % 2), task % parts,
                      parts);
}

/* The pages that are to be filled, by the threads of their node. */
static void touch_all(struct kt_worker *worker, void *argument)
{
    const struct kt_layer *layer = argument;
    const struct kt_buffer *weights = &layer->shard[worker->node].weights;
    uint64_t n = kt_buffer_pages(weights);
    for (uint32_t page; (page = kt_worker_claim(worker, 0)) < n;)
        if (!atomic_load(&layer->load.stopped))
            kt_buffer_touch(weights, page);
}

static enum kt_status pack(struct kt_layer *layer, void *experts, struct kt_error *error)
{
    struct packing packing = {.layer = layer, .experts = experts};
    kt_outcome_start(&packing.outcome);
    kt_pool_run(layer->context->pool, pack_all, &packing);
    return kt_outcome_end(&packing.outcome, error);
}

static enum kt_status take_choice(struct kt_layer *layer, struct kt_choice *choice, struct kt_error *error)
{
    layer->shard = calloc(choice->n_shards, sizeof *layer->shard);
    if (!layer->shard)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u shards", layer->name, choice->n_shards);
    memcpy(layer->shard, choice->shard, choice->n_shards * sizeof *layer->shard);
    layer->backend = choice->backend;
    layer->n_shards = choice->n_shards;
    layer->nominal_size = choice->nominal_size;
    choice->n_shards = 0; /* the layouts are the layer's now */
    return KT_OK;
}

/* Once a context: the layer works, only slower. */
static void report_membind(struct kt_context *context)
{
    struct kt_topology *topology = context->topology;
    if (atomic_load(&topology->membind_failures) && !atomic_exchange(&topology->membind_reported, true))
        kt_log_write(context->log, KT_LOG_WARNING, "%s", topology->membind_message);
}

enum kt_status kt_layer_fill(struct kt_layer *layer, struct kt_choice *choice,
                             const struct kt_expert *experts, const struct kt_filling *filling,
                             struct kt_error *error)
{
    struct kt_context *context = layer->context;
    uint64_t need[KT_MAX_NODES] = {0};
    bool first = true, packs = false;
    enum kt_status status = take_choice(layer, choice, error);
    for (uint32_t n = 0; n < layer->n_shards && status == KT_OK; n++) {
        struct kt_shard *shard = &layer->shard[n];
        if (shard->begin == shard->end)
            continue;
        status = fill_shard(layer, shard, n, first, experts, filling->mapped, error);
        need[n] = shard->buffers.size;
        layer->packed_size += shard->expert_stride * layer->params.n_experts;
        packs |= shard->weights.size > 0;
        first = false;
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
        status = filling->run(layer, filling->data, error);
    }
    kt_pool_unlock(context->pool);
    return status;
}

static enum kt_status load(struct kt_layer *layer, struct kt_expert *experts, uint32_t n_experts,
                           struct kt_error *error)
{
    enum kt_status status = kt_layer_check_experts(layer, experts, n_experts, error);
    if (status != KT_OK)
        return status;
    struct kt_choice *choice = malloc(sizeof *choice);
    if (!choice)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to load it", layer->name);
    struct kt_filling filling = {.run = pack, .data = experts};
    status = kt_choice_make(layer, &(struct kt_request){.example = experts}, choice, NULL, error);
    if (status == KT_OK) {
        status = kt_layer_fill(layer, choice, experts, &filling, error);
        kt_choice_release(choice);
    }
    free(choice);
    return status;
}

enum kt_status kt_layer_check_moe(const struct kt_layer *layer, const struct kt_checkpoint *checkpoint,
                                  uint64_t index, struct kt_error *error)
{
    const struct kt_layer_params *params = &layer->params;
    struct kt_moe_info info;
    enum kt_status status = kt_checkpoint_moe(checkpoint, index, &info, error);
    if (status == KT_OK && (info.n_experts != params->n_experts || info.hidden_size != params->hidden_size ||
                            info.intermediate_size != params->intermediate_size))
        return kt_fail(error, KT_E_INVALID,
                       "%s has %u experts of %llu x %llu, layer %llu of the checkpoint %u of %llu x %llu",
                       layer->name, params->n_experts, (unsigned long long)params->hidden_size,
                       (unsigned long long)params->intermediate_size, (unsigned long long)index,
                       info.n_experts, (unsigned long long)info.hidden_size,
                       (unsigned long long)info.intermediate_size);
    return status;
}

enum kt_status kt_layer_take_experts(const struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                     uint64_t index, struct kt_expert **experts, struct kt_error *error)
{
    uint32_t n_experts = layer->params.n_experts;
    enum kt_status status = kt_layer_check_moe(layer, checkpoint, index, error);
    if (status != KT_OK)
        return status;
    struct kt_expert *views = calloc(n_experts, sizeof *views);
    if (!views)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u views", layer->name, n_experts);
    status = kt_checkpoint_use(checkpoint, index, views, n_experts, error);
    if (status == KT_OK)
        *experts = views;
    else
        free(views);
    return status;
}

static bool keeps_source(const struct kt_layer *layer)
{
    for (uint32_t n = 0; n < layer->n_shards; n++)
        if (layer->shard[n].source)
            return true;
    return false;
}

/* A layer has all of its weights or none. */
static enum kt_status finish(struct kt_layer *layer, enum kt_status status)
{
    if (status != KT_OK)
        kt_layer_unload(layer);
    layer->loaded = status == KT_OK;
    atomic_store(&layer->load.total, layer->packed_size);
    atomic_store(&layer->load.done, layer->packed_size);
    return status;
}

/* Takes away what the layer has, unless work that was submitted still needs it. */
static enum kt_status make_room(struct kt_layer *layer, struct kt_error *error)
{
    if (atomic_load(&layer->outstanding))
        return kt_fail(error, KT_E_BUSY, "%s still has submitted work; wait for it before loading",
                       layer->name);
    kt_layer_unload(layer);
    atomic_store(&layer->load.total, 0);
    atomic_store(&layer->load.done, 0);
    atomic_store(&layer->load.stopped, false);
    return KT_OK;
}

enum kt_status kt_layer_load(struct kt_layer *layer, const struct kt_expert *experts, uint32_t n_experts,
                             struct kt_error *error)
{
    if (!layer)
        return kt_fail(error, KT_E_INVALID, "kt_layer_load: layer must not be NULL");
    enum kt_status status = make_room(layer, error);
    if (status != KT_OK)
        return status;
    if (!experts)
        return kt_fail(error, KT_E_INVALID, "%s: experts must not be NULL", layer->name);
    status = kt_layer_check_own(layer, experts, n_experts, error);
    if (status == KT_OK)
        status = load(layer, (struct kt_expert *)experts, n_experts, error);
    if (status == KT_OK && keeps_source(layer))
        status = kt_layer_copy_source(layer, error);
    return finish(layer, status);
}

static enum kt_status load_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                      uint64_t index, struct kt_error *error)
{
    struct kt_expert *experts;
    const struct kt_stored *stored = kt_checkpoint_stored(checkpoint, index);
    enum kt_status status = kt_layer_take_experts(layer, checkpoint, index, &experts, error);
    if (status != KT_OK)
        return status;
    if (stored)
        status = kt_layer_load_stored(layer, checkpoint, stored, experts, error);
    else
        status = load(layer, experts, layer->params.n_experts, error);
    if (status == KT_OK && (stored || keeps_source(layer))) {
        kt_checkpoint_retain(checkpoint);
        layer->checkpoint = checkpoint;
        layer->checkpoint_layer = index;
    } else {
        kt_checkpoint_unuse(checkpoint, index);
    }
    free(experts);
    return status;
}

enum kt_status kt_layer_load_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                        uint64_t index, struct kt_error *error)
{
    if (!layer)
        return kt_fail(error, KT_E_INVALID, "kt_layer_load_checkpoint: layer must not be NULL");
    enum kt_status status = make_room(layer, error);
    if (status != KT_OK)
        return status;
    if (!checkpoint)
        return kt_fail(error, KT_E_INVALID, "%s: checkpoint must not be NULL", layer->name);
    return finish(layer, load_checkpoint(layer, checkpoint, index, error));
}
