/* SPDX-License-Identifier: Apache-2.0 */
/* selection.c - chooses the backend of a layer, cuts it over the nodes, and computes the sizes. */
#include "core/layer/selection.h"

#include "core/backend/reference.h"
#include "core/backend/registry.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/size.h"
#include "core/base/suggest.h"
#include "core/config/config.h"
#include "core/context/context.h"
#include "core/layer/compact.h"
#include "core/layer/lay_out.h"
#include "core/layer/layer.h"
#include "core/layer/linear_buffers.h"
#include "core/layer/rounding.h"
#include "core/layer/tuned_text.h"
#include "core/machine/pool.h"
#include "core/weights/decode/view.h"

#include <stdio.h>
#include <string.h>

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void kt_selection_release(struct kt_selection *selection)
{
    for (uint32_t n = 0; n < selection->n_shards; n++)
        if (selection->shard[n].begin < selection->shard[n].end)
            kt_layout_release(selection->backend, &selection->shard[n].layout);
    selection->n_shards = 0;
}

/* Appends `count` parts of `size` bytes to *total; *offset is where they begin. false: overflow. */
static bool add_part(uint64_t *total, uint64_t count, uint64_t size, uint64_t *offset)
{
    uint64_t bytes;
    *offset = *total;
    return kt_mul(count, size, &bytes) && bytes < UINT64_MAX / 4 && kt_add(*total, kt_align64(bytes), total);
}

/* The buffers of a linear: those of KT_MAX_LINEARS as large as this one, so that an arena that is large
 * enough for each linear is so for any of them together. */
static bool size_linear_buffers(const struct kt_layer *layer, struct kt_shard *shard, uint32_t n_threads)
{
    const struct kt_layout *layout = &shard->layout;
    struct kt_buffers *buffers = &shard->buffers;
    uint64_t chunk = kt_linear_chunk(layer), unit = layout->row_unit;
    uint64_t padded = (chunk + unit - 1) / unit * unit, ignored;
    bool has_y = kt_linear_splits_cols(layer) || !kt_linear_fits_tile(layer, layout);
    uint64_t own = 0;
    buffers->scratch_stride = kt_align64(layout->scratch_size);
    buffers->size = 0;
    if (!add_part(&own, padded, layout->act_row_size[KT_STAGE_DOWN], &buffers->act) ||
        !add_part(&own, has_y ? chunk : 0, shard->y_row_size, &buffers->y) ||
        !add_part(&own, n_threads, buffers->scratch_stride, &buffers->scratch))
        return false;
    buffers->linear_size = own;
    return add_part(&buffers->size, n_threads, KT_LINEAR_TILE, &ignored) &&
           add_part(&buffers->size, KT_MAX_LINEARS, own, &ignored);
}

/* Offsets and size of the buffers of a node; false if they overflow. */
static bool size_buffers(const struct kt_layer *layer, const struct kt_backend *backend,
                         struct kt_shard *shard, uint32_t n_threads)
{
    const struct kt_layout *layout = &shard->layout;
    struct kt_buffers *buffers = &shard->buffers;
    uint64_t tokens = layer->params.max_tokens;
    uint64_t rows = tokens * layer->params.top_k;
    uint64_t block = rows < KT_GROUP_ROWS ? rows : KT_GROUP_ROWS;
    uint64_t unit = layout->row_unit;
    block = (block + unit - 1) / unit * unit;
    uint64_t groups = rows < layer->params.n_experts ? rows : layer->params.n_experts;
    uint64_t padded = rows + (groups + rows / kt_backend_group_rows(backend, layout) + 1) * (unit - 1);

    uint64_t start = 0, ignored;
    if (!add_part(&start, tokens, layout->act_row_size[0], &buffers->act) ||
        !add_part(&start, rows, shard->y_row_size, &buffers->y))
        return false;
    buffers->scratch_stride = kt_align64(layout->scratch_size);
    if (!add_part(&start, n_threads, buffers->scratch_stride, &buffers->scratch))
        return false;

    uint64_t thread = 0;
    if (!add_part(&thread, block, layout->act_row_size[0], &ignored) ||
        !add_part(&thread, block, layout->h_row_size, &buffers->thread_h) ||
        !add_part(&thread, block, layout->act_row_size[1], &buffers->thread_act))
        return false;
    buffers->thread_stride = thread;
    uint64_t whole = start, split = start;
    if (!add_part(&whole, n_threads, thread, &buffers->thread) ||
        !add_part(&split, padded, layout->act_row_size[0], &buffers->split_gather) ||
        !add_part(&split, padded, layout->h_row_size, &buffers->split_h) ||
        !add_part(&split, padded, layout->act_row_size[1], &buffers->split_act))
        return false;
    buffers->size = whole > split ? whole : split;
    return true;
}

enum kt_status kt_selection_size_shard(const struct kt_layer *layer, const struct kt_backend *backend,
                                       struct kt_shard *shard, uint32_t n_threads, struct kt_error *error)
{
    struct kt_layout *layout = &shard->layout;
    uint64_t element = layout->y_dtype == KT_DTYPE_BF16 ? 2 : 4;
    uint64_t ignored;
    shard->y_row_size = kt_align64(layer->params.hidden_size * element);
    shard->down_offset = kt_align64(layout->weight_size[0]);
    shard->expert_stride = shard->down_offset + kt_align64(layout->weight_size[1]);
    bool fits = kt_mul(shard->expert_stride, layer->params.n_experts, &ignored) &&
                (kt_layer_is_linear(layer) ? size_linear_buffers(layer, shard, n_threads)
                                           : size_buffers(layer, backend, shard, n_threads));
    return fits ? KT_OK
                : kt_fail(error, KT_E_INVALID,
                          "%s: %u experts of %llu x %llu and %u tokens need more bytes than 64 bits count",
                          layer->name, layer->params.n_experts, (unsigned long long)layer->params.hidden_size,
                          (unsigned long long)layer->params.intermediate_size, layer->params.max_tokens);
}

/* Cuts intermediate_size, or `panels` of down, over `n_nodes` nodes in proportion to their threads; slices at
 * multiples of `unit`. */
static void cut(const struct kt_layer *layer, uint32_t n_nodes, uint64_t unit, uint64_t panels,
                struct kt_selection *selection)
{
    const struct kt_pool *pool = layer->context->pool;
    uint64_t cols = layer->params.intermediate_size, size = layer->splits_rows ? panels : cols;
    uint64_t units = layer->splits_rows ? panels : (cols + unit - 1) / unit, threads = 0, at = 0;
    unit = layer->splits_rows ? 1 : unit;
    selection->n_shards = n_nodes;
    for (uint32_t n = 0; n < n_nodes; n++) {
        threads += pool->subpool[n].n_threads;
        uint64_t end = (units * threads + pool->n_threads / 2) / pool->n_threads * unit;
        if (n + 1 == n_nodes || end > size)
            end = size;
        if (layer->splits_rows)
            selection->shard[n] =
                (struct kt_shard){.end = at < end ? cols : 0, .panel_begin = at, .panel_end = end};
        else
            selection->shard[n] = (struct kt_shard){.begin = at, .end = end, .panel_end = panels};
        at = end;
    }
}

/* Nothing is rounded again unasked: a backend that does must be wished for by name. Once one is refused for
 * that, so is the reference: it would be hundreds of times slower than what the user then would ask for. */
static enum kt_status refuse_unasked(struct kt_selection *selection, char *rounders, size_t size,
                                     struct kt_error *error)
{
    size_t length = strlen(rounders);
    if (selection->backend->plugin == &kt_plugin_reference) {
        if (length == 0)
            return KT_OK;
        kt_selection_release(selection);
        return kt_fail(error, KT_E_UNSUPPORTED, "it keeps the weights, but is slow: ask for it by name");
    }
    if (!*selection->rounding)
        return KT_OK;
    (void)snprintf(rounders + length, size - length, "%s%s (%s)", length ? ", " : "",
                   selection->backend->name, selection->rounding);
    kt_selection_release(selection);
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "would round the weights again (%s); to allow this, request the backend by name",
                   selection->rounding);
}

/* Lays out for a smaller form where there is one and memory is short. */
static enum kt_status try_compact(const struct kt_layer *layer, const struct kt_backend *backend,
                                  const struct kt_selection_request *request, struct kt_layout *whole,
                                  struct kt_selection *selection, struct kt_error *error)
{
    struct kt_layout compact;
    selection->compact[0] = '\0';
    if (backend->plugin->abi_minor < 4 || whole->keeps_source || request->form || request->stored ||
        layer->params.stored)
        return KT_OK;
    enum kt_status status =
        kt_lay_out(backend, layer, request, layer->params.intermediate_size, true, &compact, error);
    if (status != KT_OK) {
        kt_layout_release(backend, whole);
        return status;
    }
    bool smaller =
        compact.weight_size[0] + compact.weight_size[1] < whole->weight_size[0] + whole->weight_size[1];
    if (!smaller || !kt_compact_needed(layer, backend, request->checkpoint, whole, selection->compact)) {
        kt_layout_release(backend, &compact);
        return KT_OK;
    }
    kt_layout_release(backend, whole);
    *whole = compact;
    return KT_OK;
}

/* Asks one backend. On success the selection holds its layouts. */
static enum kt_status ask(const struct kt_layer *layer, const struct kt_backend *backend,
                          const struct kt_selection_request *request, struct kt_selection *selection,
                          struct kt_error *error)
{
    const struct kt_pool *pool = layer->context->pool;
    struct kt_layout whole;
    selection->backend = backend;
    selection->n_shards = 0;
    if (kt_layer_is_linear(layer) && backend->plugin->abi_minor < KT_LINEAR_MINOR)
        return kt_fail(error, KT_E_UNSUPPORTED, "it takes experts only: it was built for plugin ABI %u.%u",
                       backend->plugin->abi_major, backend->plugin->abi_minor);
    if (layer->params.activation > KT_ACTIVATION_NONE && backend->plugin->abi_minor < KT_ACTIVATION_MINOR)
        return kt_fail(
            error, KT_E_UNSUPPORTED,
            "it was built for plugin ABI %u.%u, which lacks the activation %s; build it again with "
            "the headers of this kt-kernel",
            backend->plugin->abi_major, backend->plugin->abi_minor,
            kt_activation_name(layer->params.activation));
    enum kt_status status =
        kt_lay_out(backend, layer, request, layer->params.intermediate_size, false, &whole, error);
    if (status == KT_OK)
        status = try_compact(layer, backend, request, &whole, selection, error);
    if (status != KT_OK)
        return status;
    selection->nominal_size = whole.nominal_size[0] + whole.nominal_size[1];
    kt_rounding_find(backend, &whole, selection->rounding);
    uint64_t unit = request->form ? 1 : kt_view_col_unit(&request->example->down);
    uint64_t common = gcd(unit, whole.k_unit);
    bool fits = kt_mul(unit / common, whole.k_unit, &unit) && unit < UINT64_C(1) << 32;
    kt_layout_release(backend, &whole);
    if (!fits)
        return kt_fail(error, KT_E_UNSUPPORTED, "its k_unit and the format's block have no common cut");
    cut(layer, request->whole ? 1 : pool->n_nodes, unit, kt_layout_panels(&whole, KT_STAGE_DOWN), selection);
    for (uint32_t n = 0; n < selection->n_shards; n++) {
        struct kt_shard *shard = &selection->shard[n];
        if (shard->begin == shard->end)
            continue;
        status = kt_lay_out(backend, layer, request, shard->end - shard->begin, *selection->compact,
                            &shard->layout, error);
        if (status == KT_OK)
            status = kt_selection_size_shard(layer, backend, shard, pool->subpool[n].n_threads, error);
        else
            shard->end = shard->begin; /* nothing to release here */
        if (status != KT_OK) {
            kt_selection_release(selection);
            return status;
        }
    }
    return KT_OK;
}

static void note(struct kt_plan *plan, const struct kt_backend *backend, bool chosen, const char *reason)
{
    if (!plan || plan->n_candidates == KT_MAX_CANDIDATES)
        return;
    struct kt_candidate *candidate = &plan->candidate[plan->n_candidates++];
    (void)snprintf(candidate->backend, sizeof candidate->backend, "%s", backend->name);
    (void)snprintf(candidate->level, sizeof candidate->level, "%s",
                   backend->level ? backend->level->name : "");
    candidate->chosen = chosen;
    (void)snprintf(candidate->reason, sizeof candidate->reason, "%s", reason);
}

/* Has it been opened, and are experts and linears none of its work? */
static bool has_no_ops(const struct kt_backend *backend)
{
    return backend->plugin && !backend->plugin->levels[0]->ops;
}

/* Backends in the order in which they are asked: the requested one, then by priority. */
static size_t order(const struct kt_registry *registry, const struct kt_backend *wished,
                    const struct kt_backend **list)
{
    size_t n = 0;
    for (size_t i = 0; i < registry->n_backends && n < KT_MAX_CANDIDATES; i++) {
        if (has_no_ops(&registry->backend[i]))
            continue;
        size_t at = n++;
        for (; at > 0 && registry->backend[i].priority > list[at - 1]->priority; at--)
            list[at] = list[at - 1];
        list[at] = &registry->backend[i];
    }
    for (size_t i = 1; wished && i < n; i++)
        if (list[i] == wished) {
            memmove(list + 1, list, i * sizeof *list);
            list[0] = wished;
        }
    return n;
}

static enum kt_status find_wish(const struct kt_layer *layer, const struct kt_selection_request *request,
                                const struct kt_backend **wished, struct kt_error *error)
{
    const struct kt_context *context = layer->context;
    const char *name = request->backend ? request->backend : layer->params.backend;
    if (!name)
        name = kt_config_text(context->config, "core", "backend");
    *wished = NULL;
    if (strcmp(name, "auto") == 0)
        return KT_OK;
    *wished = kt_registry_find(context->registry, name);
    if (*wished && has_no_ops(*wished))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: plugin %s computes attention, not matrix products; choose a backend for weights",
                       layer->name, name);
    if (*wished)
        return KT_OK;
    const char *names[KT_MAX_CANDIDATES];
    size_t n = 0;
    for (; n < context->registry->n_backends && n < KT_MAX_CANDIDATES; n++)
        names[n] = context->registry->backend[n].name;
    const char *near = kt_nearest(name, names, n);
    return kt_fail(error, KT_E_NOT_FOUND, "%s: no backend %s is configured%s%s%s; `kt backends` lists them",
                   layer->name, name, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
}

/* A plugin's message without its name, where the sentence around it has that. */
static const char *without_name(const struct kt_backend *backend, const char *message)
{
    size_t length = strlen(backend->name);
    bool has_name = strncmp(message, backend->name, length) == 0 && strncmp(message + length, ": ", 2) == 0;
    return has_name ? message + length + 2 : message;
}

/* Do stored weights go to another backend than the configured one? */
static bool passes_over(const struct kt_layer *layer, const struct kt_selection_request *request)
{
    const char *wish = kt_config_text(layer->context->config, "core", "backend");
    return request->form && !layer->params.backend && strcmp(wish, "auto") != 0 &&
           strcmp(wish, request->backend) != 0;
}

static void fill_plan(const struct kt_layer *layer, const struct kt_selection *selection,
                      struct kt_plan *plan)
{
    plan->n_nodes = selection->n_shards;
    plan->nominal_size = selection->nominal_size;
    plan->fallback = selection->fallback;
    memcpy(plan->compact, selection->compact, sizeof plan->compact);
    memcpy(plan->rounding, selection->rounding, sizeof plan->rounding);
    for (uint32_t n = 0; n < selection->n_shards; n++) {
        const struct kt_shard *shard = &selection->shard[n];
        uint64_t step = layer->splits_rows ? shard->layout.panel_rows[KT_STAGE_DOWN] : 0;
        uint64_t end = shard->panel_end * step, rows = layer->params.hidden_size;
        plan->node[n].intermediate_begin = layer->splits_rows ? shard->panel_begin * step : shard->begin;
        plan->node[n].intermediate_end = !layer->splits_rows ? shard->end : end < rows ? end : rows;
        plan->node[n].weight_size = kt_shard_size(layer, shard);
        plan->node[n].buffer_size = shard->buffers.size;
        plan->weight_size += plan->node[n].weight_size;
        plan->buffer_size += plan->node[n].buffer_size;
        if (shard->begin == shard->end)
            continue;
        plan->keeps_source |= shard->layout.keeps_source;
        memcpy(plan->form, shard->layout.form, sizeof plan->form);
        kt_tuned_describe(layer, selection->backend, &shard->layout, plan->tuned);
    }
}

enum kt_status kt_selection_make(const struct kt_layer *layer, const struct kt_selection_request *request,
                                 struct kt_selection *selection, struct kt_plan *plan, struct kt_error *error)
{
    const struct kt_backend *wished, *list[KT_MAX_CANDIDATES];
    selection->n_shards = 0;
    enum kt_status status = find_wish(layer, request, &wished, error);
    if (status != KT_OK)
        return status;
    bool strict = request->backend || kt_config_bool(layer->context->config, "core", "strict");
    size_t n = order(layer->context->registry, wished, list);
    struct kt_error why = {KT_OK, ""};
    char rounders[256] = "";
    bool chosen = false;
    for (size_t i = 0; i < n; i++) {
        if (list[i]->state != KT_BACKEND_LOADED) {
            status = kt_fail(&why, KT_E_PLUGIN, "%s", list[i]->reason);
        } else if (chosen) {
            note(plan, list[i], false, request->form ? "the weights are stored for another backend" : "");
            continue;
        } else {
            status = ask(layer, list[i], request, selection, &why);
            if (status == KT_E_NOMEM) /* of which the choice of a backend must not depend */
                return kt_fail(error, status, "%s: backend %s: %s", layer->name, list[i]->name, why.message);
            if (status == KT_OK && list[i] != wished)
                status = refuse_unasked(selection, rounders, sizeof rounders, &why);
        }
        note(plan, list[i], status == KT_OK, status == KT_OK ? list[i]->reason : why.message);
        if (status == KT_OK) {
            chosen = true;
            selection->fallback = (wished && list[i] != wished) || passes_over(layer, request);
        } else if (list[i] == wished) {
            kt_log_write(layer->context->log, strict ? KT_LOG_DEBUG : KT_LOG_WARNING,
                         "%s: not supported by the preferred backend %s: %s", layer->name, wished->name,
                         without_name(wished, why.message));
            if (strict)
                return kt_fail(error, KT_E_UNSUPPORTED, "%s: not supported by backend %s: %s%s", layer->name,
                               wished->name, without_name(wished, why.message),
                               request->backend ? "" : " (core.strict = yes forbids another)");
        }
    }
    if (!chosen && *rounders)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: only backends that would round the weights again support it: %s; request one by "
                       "name, such as backend = %.*s in [core], or enable one that keeps them",
                       layer->name, rounders, (int)strcspn(rounders, " "), rounders);
    if (!chosen)
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: not supported by any backend; last reason: %s",
                       layer->name, why.message);
    if (plan)
        fill_plan(layer, selection, plan);
    return KT_OK;
}
