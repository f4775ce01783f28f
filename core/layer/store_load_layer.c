/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_load_layer.c - packed weights from a store: which backend takes them, and those of a layer; those of
 * a linear are in store_load_linear.c.
 *
 * On one node a mapped store is used in place: loading reads nothing, and an expert's objects are compared
 * with their checksums when a batch first asks for it, which also brings them into memory. With several
 * nodes, an expert map or KT_IO_READ, all threads read each object, compare it and copy its shard to its
 * node.
 */
#include "core/layer/store_load_layer.h"

#include "core/backend/backend.h"
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/config/config.h"
#include "core/context/context.h"
#include "core/layer/fill.h"
#include "core/layer/store_load_linear.h"
#include "core/layer/selection.h"
#include "core/layer/store_check.h"
#include "core/machine/outcome.h"
#include "core/machine/pool.h"
#include "core/weights/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- copying ---- */

struct copying {
    struct kt_layer *layer;
    const struct kt_stored_source *source;
    struct kt_outcome outcome;
};

/* The object: in the mapping, or read to `room`. */
static enum kt_status read_object(const struct copying *copying, uint32_t expert, enum kt_stage stage,
                                  void *room, const void **object, struct kt_error *error)
{
    const struct kt_stored *stored = copying->source->stored;
    const struct kt_file *file = &copying->source->checkpoint->part[stored->part].file;
    uint64_t offset = kt_stored_offset(stored, expert, stage);
    enum kt_status status = KT_OK;
    *object = room;
    if (file->map)
        *object = file->map + offset;
    else
        status = kt_file_read(file, offset, room, stored->object_size[stage], error);
    if (status == KT_OK)
        status = kt_stored_check(copying->source->checkpoint, stored, expert, stage, *object, error);
    return status;
}

static enum kt_status copy_object(const struct copying *copying, const struct kt_shard *shard, uint32_t e,
                                  enum kt_stage stage, char *room, struct kt_error *error)
{
    const struct kt_layer *layer = copying->layer;
    uint32_t expert = layer->expert_map ? (uint32_t)layer->expert_map[e] : e;
    const void *object;
    char *to = (char *)shard->weights.data + kt_shard_offset(shard, e, stage);
    enum kt_status status = read_object(copying, expert, stage, room, &object, error);
    if (status != KT_OK)
        return status;
    if (shard->begin == 0 && shard->end == layer->params.intermediate_size) {
        memcpy(to, object, shard->layout.weight_size[stage]);
        return KT_OK;
    }
    struct kt_cut job = {.whole = &copying->source->whole,
                         .shard = &shard->layout,
                         .stage = stage,
                         .begin = shard->begin,
                         .panel_end = kt_layout_panels(&shard->layout, stage),
                         .packed = object,
                         .out = to,
                         .error = error};
    char of[32];
    (void)snprintf(of, sizeof of, " of expert %u", expert);
    return kt_stored_cut(layer, &job, of, error);
}

static void copy_objects(struct kt_worker *worker, void *argument)
{
    struct copying *copying = argument;
    const struct kt_layer *layer = copying->layer;
    const struct kt_shard *shard = &layer->shard[worker->node];
    const uint64_t *size = copying->source->stored->object_size;
    struct kt_error error;
    if (shard->begin == shard->end)
        return;
    bool mapped = copying->source->checkpoint->part[copying->source->stored->part].file.map != NULL;
    char *room = mapped ? NULL : aligned_alloc(64, size[0] > size[1] ? size[0] : size[1]);
    if (!mapped && !room) {
        (void)kt_fail(&error, KT_E_NOMEM, "%s: no memory to read stored weights", layer->name);
        kt_outcome_fail(&copying->outcome, KT_E_NOMEM, &error);
    }
    for (uint64_t task; (task = kt_worker_claim(worker, 0)) < 2 * (uint64_t)layer->params.n_experts;) {
        enum kt_stage stage = (enum kt_stage)(task % 2);
        if (kt_layer_load_stopped(copying->layer, &copying->outcome))
            continue;
        enum kt_status status = copy_object(copying, shard, (uint32_t)(task / 2), stage, room, &error);
        if (status == KT_OK)
            kt_layer_load_count(copying->layer, shard->layout.weight_size[stage]);
        else
            kt_outcome_fail(&copying->outcome, status, &error);
    }
    free(room);
}

static enum kt_status copy_all(struct kt_layer *layer, void *data, struct kt_error *error)
{
    struct copying copying = {.layer = layer, .source = data};
    kt_outcome_start(&copying.outcome);
    kt_pool_run(layer->context->pool, copy_objects, &copying);
    return kt_outcome_end(&copying.outcome, error);
}

/* ---- loading ---- */

/* Do the objects have the sizes that the backend makes? */
static enum kt_status check_sizes(const struct kt_layer *layer, const struct kt_stored *stored,
                                  const struct kt_layout *whole, struct kt_error *error)
{
    for (int s = 0; s < 2; s++)
        if (stored->object_size[s] != kt_align64(whole->weight_size[s]))
            return kt_fail(error, KT_E_FORMAT,
                           "%s: the store's objects of form %s take %llu bytes, backend %s makes %llu: "
                           "convert again",
                           layer->name, stored->form, (unsigned long long)stored->object_size[s],
                           stored->backend, (unsigned long long)kt_align64(whole->weight_size[s]));
    return KT_OK;
}

/* The backend that the layer asks for, or with core.strict the configuration, must be that of the store. */
static enum kt_status check_wish(const struct kt_layer *layer, const struct kt_stored *stored,
                                 struct kt_error *error)
{
    const struct kt_config *config = layer->context->config;
    const char *wish = layer->params.backend;
    if (!wish)
        wish = kt_config_bool(config, "core", "strict") ? kt_config_text(config, "core", "backend") : "auto";
    if (strcmp(wish, "auto") == 0 || strcmp(wish, stored->backend) == 0)
        return KT_OK;
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "%s: the weights are stored for backend %s, not %s; request %s, or load the original "
                   "checkpoint",
                   layer->name, stored->backend, wish, stored->backend);
}

static bool can_map(const struct kt_layer *layer, const struct kt_file *file)
{
    return file->map && !layer->expert_map && layer->context->pool->n_nodes == 1;
}

static enum kt_status check_cut(const struct kt_layer *layer, const struct kt_selection *selection,
                                struct kt_error *error)
{
    const struct kt_backend *backend = selection->backend;
    for (uint32_t n = 0; n < selection->n_shards; n++)
        if (selection->shard[n].begin > 0 && selection->shard[n].begin < selection->shard[n].end &&
            !KT_OPTIONAL_OP(backend->level->ops, cut))
            return kt_fail(error, KT_E_UNSUPPORTED,
                           "%s: backend %s cannot cut stored weights over %u NUMA nodes; use one "
                           "(core.numa_nodes)",
                           layer->name, backend->name, selection->n_shards);
    return KT_OK;
}

static enum kt_status load_chosen(struct kt_layer *layer, struct kt_stored_source *source,
                                  const struct kt_expert *experts, const struct kt_selection_request *request,
                                  struct kt_selection *selection, struct kt_error *error)
{
    const struct kt_stored *stored = source->stored;
    const struct kt_file *file = &source->checkpoint->part[stored->part].file;
    struct kt_fill_source filling = {.run = stored->linear ? kt_linear_copy_stored : copy_all,
                                     .data = source};
    if (can_map(layer, file))
        filling.mapped = (const char *)file->map + kt_stored_offset(stored, 0, KT_STAGE_GATE_UP);
    enum kt_status status = kt_selection_make(layer, request, selection, NULL, error);
    if (status != KT_OK)
        return status;
    status = check_cut(layer, selection, error);
    if (status == KT_OK)
        status = kt_layer_fill(layer, selection, experts, &filling, error);
    if (status == KT_OK && filling.mapped)
        status = stored->linear ? kt_linear_check_stored(layer, source, error)
                                : kt_store_check_start(layer, stored, error);
    kt_selection_release(selection);
    return status;
}

/* Selects the backend of the store for uncut experts; the caller releases the selection. */
static enum kt_status choose_whole(const struct kt_layer *layer, const struct kt_stored *stored,
                                   const struct kt_expert *example, struct kt_selection *selection,
                                   struct kt_error *error)
{
    struct kt_selection_request request = {.example = example,
                                           .backend = stored->backend,
                                           .form = stored->form,
                                           .whole = true};
    enum kt_status status = check_wish(layer, stored, error);
    if (status == KT_OK)
        status = kt_selection_make(layer, &request, selection, NULL, error);
    if (status != KT_OK)
        return status;
    status = check_sizes(layer, stored, &selection->shard[0].layout, error);
    if (status != KT_OK)
        kt_selection_release(selection);
    return status;
}

enum kt_status kt_stored_fit(const struct kt_layer *layer, const struct kt_stored *stored,
                             const struct kt_expert *example, struct kt_error *error)
{
    struct kt_selection *selection = calloc(1, sizeof *selection);
    if (!selection)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for a plan", layer->name);
    enum kt_status status = choose_whole(layer, stored, example, selection, error);
    if (status == KT_OK)
        kt_selection_release(selection);
    free(selection);
    return status;
}

enum kt_status kt_layer_load_stored(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                    const struct kt_stored *stored, const struct kt_expert *experts,
                                    struct kt_error *error)
{
    struct kt_selection_request request = {.example = experts,
                                           .backend = stored->backend,
                                           .form = stored->form};
    struct kt_stored_source source = {.checkpoint = checkpoint, .stored = stored};
    struct kt_selection *whole = calloc(2, sizeof *whole);
    if (!whole)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to load it", layer->name);
    enum kt_status status = choose_whole(layer, stored, experts, whole, error);
    if (status == KT_OK) {
        source.whole = whole->shard[0].layout;
        status = load_chosen(layer, &source, experts, &request, whole + 1, error);
        kt_selection_release(whole);
    }
    free(whole);
    return status;
}
