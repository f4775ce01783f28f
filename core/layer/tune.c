/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c - the tunables of a loaded layer: listed, and changed. */
#include "core/backend/tuning.h"
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/layer/lay_out.h"
#include "core/layer/linear.h"
#include "core/layer/route.h"
#include "core/layer/selection.h"
#include "core/machine/pool.h"

#include <stdlib.h>
#include <string.h>

static const struct kt_shard *first_shard(const struct kt_layer *layer)
{
    const struct kt_shard *shard = layer->shard;
    while (shard->begin == shard->end)
        shard++;
    return shard;
}

static enum kt_status check_loaded(const struct kt_layer *layer, struct kt_error *error)
{
    if (!layer)
        return kt_fail(error, KT_E_INVALID, "the layer or linear to be tuned is NULL");
    if (!layer->loaded)
        return kt_fail(error, KT_E_STATE, "%s has no weights; load it first", layer->name);
    return KT_OK;
}

enum kt_status kt_layer_tunable(const struct kt_layer *layer, uint32_t index, struct kt_tunable_info *info,
                                struct kt_error *error)
{
    struct kt_tuned_subject subject;
    enum kt_status status = check_loaded(layer, error);
    if (status == KT_OK && !info)
        status = kt_fail(error, KT_E_INVALID, "kt_layer_tunable: info must not be NULL");
    if (status != KT_OK)
        return status;
    const struct kt_layout *layout = &first_shard(layer)->layout;
    kt_layer_tuned_subject(layer, layer->backend, &layout->shape, &subject);
    return kt_tuning_info(&subject, layer->name, layout->tuned, index, info, error);
}

/* Everything that packed weights and the other buffers rely on. */
static bool is_same(const struct kt_layout *a, const struct kt_layout *b)
{
    return memcmp(a->panel_rows, b->panel_rows, sizeof a->panel_rows) == 0 && a->k_unit == b->k_unit &&
           memcmp(a->weight_size, b->weight_size, sizeof a->weight_size) == 0 &&
           memcmp(a->act_row_size, b->act_row_size, sizeof a->act_row_size) == 0 &&
           a->h_row_size == b->h_row_size && a->row_unit == b->row_unit && a->y_dtype == b->y_dtype &&
           a->keeps_source == b->keeps_source && strcmp(a->form, b->form) == 0;
}

static enum kt_status lay_out_again(const struct kt_layer *layer, uint32_t node, struct kt_shard *fresh,
                                    struct kt_error *error)
{
    const struct kt_layout *was = &layer->shard[node].layout;
    struct kt_layout layout = {.stored = was->stored, .compact = was->compact};
    enum kt_status status =
        kt_lay_out_shape(layer->backend, layer, &was->shape, *was->form ? was->form : NULL, &layout, error);
    if (status != KT_OK)
        return status;
    if (is_same(was, &layout)) {
        fresh->layout = layout;
        status = kt_selection_size_shard(layer, layer->backend, fresh,
                                         layer->context->pool->subpool[node].n_threads, error);
    } else {
        status = kt_fail(error, KT_E_PLUGIN, "%s: a tunable of %s changes the form of its weights or rows",
                         layer->name, layer->backend->name);
    }
    if (status != KT_OK)
        kt_layout_release(layer->backend, &layout);
    return status;
}

/* All shards get new layouts, or none. The pool's lock is held. */
static enum kt_status replace_layouts(struct kt_layer *layer, struct kt_shard *fresh, struct kt_error *error)
{
    struct kt_context *context = layer->context;
    uint64_t need[KT_MAX_NODES] = {0};
    uint32_t n = 0;
    enum kt_status status = KT_OK;
    for (; n < layer->n_shards && status == KT_OK; n++) {
        fresh[n] = layer->shard[n];
        if (fresh[n].begin < fresh[n].end)
            status = lay_out_again(layer, n, &fresh[n], error);
        need[n] = status == KT_OK ? fresh[n].buffers.size : 0;
    }
    uint32_t n_made = status == KT_OK ? n : n - 1;
    if (status == KT_OK)
        status = kt_arena_grow(&context->arena, context->topology, layer->n_shards, need,
                               kt_route_size(layer), context->huge_pages, error);
    for (n = 0; n < n_made; n++) {
        struct kt_shard *shard = status == KT_OK ? &layer->shard[n] : &fresh[n];
        if (shard->begin < shard->end)
            kt_layout_release(layer->backend, &shard->layout);
        if (status == KT_OK)
            *shard = fresh[n];
    }
    return status;
}

static enum kt_status set_value(struct kt_layer *layer, uint32_t index, uint64_t value,
                                struct kt_error *error)
{
    const uint64_t was = layer->tuning[index];
    struct kt_shard *fresh = calloc(layer->n_shards, sizeof *fresh);
    if (!fresh)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to tune it", layer->name);
    enum kt_status status = kt_pool_lock(layer->context->pool, error);
    if (status == KT_OK) {
        struct kt_error why = {0};
        layer->tuning[index] = value;
        status = replace_layouts(layer, fresh, error ? error : &why);
        if (status != KT_OK)
            layer->tuning[index] = was;
        kt_pool_unlock(layer->context->pool);
    }
    free(fresh);
    return status;
}

enum kt_status kt_layer_tune(struct kt_layer *layer, const char *name, uint64_t value, struct kt_error *error)
{
    struct kt_tuned_subject subject;
    uint32_t i = 0;
    enum kt_status status = check_loaded(layer, error);
    if (status != KT_OK)
        return status;
    kt_layer_tuned_subject(layer, layer->backend, &first_shard(layer)->layout.shape, &subject);
    status = kt_tuning_choose(&subject, layer->name, name, &i, &value, error);
    if (status != KT_OK)
        return status;
    if (atomic_load(&layer->outstanding))
        return kt_fail(error, KT_E_BUSY, "%s still has submitted work; wait for it before tuning",
                       layer->name);
    return set_value(layer, i, value, error);
}

enum kt_status kt_linear_tunable(const struct kt_linear *linear, uint32_t index, struct kt_tunable_info *info,
                                 struct kt_error *error)
{
    return kt_layer_tunable(linear ? linear->layer : NULL, index, info, error);
}

enum kt_status kt_linear_tune(struct kt_linear *linear, const char *name, uint64_t value,
                              struct kt_error *error)
{
    return kt_layer_tune(linear ? linear->layer : NULL, name, value, error);
}
