/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - attention of a layer: checks its parameters, chooses a plugin, has room in the arena. */
#include "core/attention/attention.h"
#include "core/attention/lay_out.h"
#include "core/backend/registry.h"
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/kv/cache.h"
#include "core/machine/pool.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SEQUENCES 64
#define MOST_SEQUENCES 65536

/* ---- what the caller asks for ---- */

static enum kt_status check_field(const char *name, const char *what, uint32_t index,
                                  const struct kt_kv_field *field, uint32_t layout, struct kt_error *error)
{
    if (field->kind == KT_KV_ROWS && field->layout == layout && field->stride <= 1)
        return KT_OK;
    return kt_fail(error, KT_E_UNSUPPORTED,
                   "%s: field %u holds no %s: kind %u, layout %u, stride %u; KT_KV_ROWS in %s, one for each "
                   "token, are wanted",
                   name, index, what, field->kind, field->layout, field->stride,
                   layout == KT_KV_VALUE ? "KT_KV_VALUE" : "KT_KV_KEY or KT_KV_PLAIN");
}

static enum kt_status check_numbers(const char *name, const struct kt_attention_params *params,
                                    struct kt_error *error)
{
    if (!isfinite(params->scale) || !isfinite(params->softcap) || params->softcap < 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: scale is %g, softcap %g; finite ones are possible, softcap not "
                       "below 0",
                       name, (double)params->scale, (double)params->softcap);
    if (params->max_sequences > MOST_SEQUENCES)
        return kt_fail(error, KT_E_INVALID, "%s: max_sequences is %u; %d is the most", name,
                       params->max_sequences, MOST_SEQUENCES);
    for (uint32_t h = 0; params->sinks && h < params->n_heads; h++)
        if (isnan(params->sinks[h]) || params->sinks[h] == INFINITY)
            return kt_fail(error, KT_E_INVALID, "%s: the sink of head %u is %g", name, h,
                           (double)params->sinks[h]);
    return KT_OK;
}

/* Plain rows are copied into blocks of keys, by words of 4 bytes and counted from the first one seen. */
static enum kt_status check_plain(const char *name, const struct kt_attention_params *params,
                                  const struct kt_kv_field *field, struct kt_error *error)
{
    uint32_t numbers = field->dtype == KT_DTYPE_F32 ? 1 : field->dtype == KT_DTYPE_BF16 ? 2 : 4;
    if (params->value_field != params->key_field || params->window || field->width % numbers != 0)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: keys of field %u are plain rows of %u numbers; such keys must be values, too "
                       "(value_field is %u), without a window (%llu), and of whole 4 bytes",
                       name, params->key_field, field->width, params->value_field,
                       (unsigned long long)params->window);
    return KT_OK;
}

/* Fills the shape; the fields' heads become those of queries for each of keys. */
static enum kt_status find_shape(struct kt_attention *attention, const struct kt_attention_params *params,
                                 struct kt_error *error)
{
    const char *name = attention->name;
    struct kt_attention_shape *shape = &attention->layout.shape;
    struct kt_kv_place key, value;
    bool latent = params->value_field == params->key_field;
    enum kt_status status = kt_kv_place(attention->kv, params->layer, params->key_field, 0, &key, error);
    if (status == KT_OK)
        status = kt_kv_place(attention->kv, params->layer, params->value_field, 0, &value, error);
    attention->gathers = status == KT_OK && key.field.layout == KT_KV_PLAIN;
    if (attention->gathers)
        status = check_plain(name, params, &key.field, error);
    if (status == KT_OK)
        status = check_field(name, "keys", params->key_field, &key.field,
                             attention->gathers ? KT_KV_PLAIN : KT_KV_KEY, error);
    if (status == KT_OK && !latent)
        status = check_field(name, "values", params->value_field, &value.field, KT_KV_VALUE, error);
    if (status == KT_OK)
        status = check_numbers(name, params, error);
    if (status != KT_OK)
        return status;
    if (key.field.heads != value.field.heads)
        return kt_fail(error, KT_E_INVALID, "%s: keys have %u heads, values %u", name, key.field.heads,
                       value.field.heads);
    if (params->n_heads == 0 || params->n_heads % key.field.heads != 0)
        return kt_fail(error, KT_E_INVALID,
                       "%s: n_heads is %u; a multiple of the %u heads of keys is possible", name,
                       params->n_heads, key.field.heads);
    if (params->value_size > value.field.width)
        return kt_fail(error, KT_E_INVALID, "%s: value_size is %u, rows of field %u have %u numbers", name,
                       params->value_size, params->value_field, value.field.width);
    *shape = (struct kt_attention_shape){
        .n_heads = params->n_heads / key.field.heads,
        .key_size = key.field.width,
        .value_size = params->value_size ? params->value_size : value.field.width,
        .latent = latent,
        .scale = params->scale != 0 ? params->scale : (float)(1 / sqrt((double)key.field.width)),
        .softcap = params->softcap,
        .window = params->window ? params->window : UINT64_MAX,
        .key = key.field,
        .value = value.field,
    };
    if (attention->gathers)
        shape->key.layout = shape->value.layout = KT_KV_KEY;
    attention->n_heads = params->n_heads;
    attention->kv_heads = key.field.heads;
    return KT_OK;
}

/* ---- which plugin ---- */

static enum kt_status ask(struct kt_attention *attention, const struct kt_backend *backend,
                          struct kt_error *error)
{
    struct kt_attention_layout layout;
    enum kt_status status = kt_attention_lay_out(attention, backend, &layout, error);
    if (status != KT_OK)
        return status;
    attention->backend = backend;
    attention->ops = KT_LEVEL_TABLE(backend->level, attention);
    attention->instance = backend->instance;
    attention->layout = layout;
    return KT_OK;
}

static bool computes_attention(const struct kt_backend *backend)
{
    return backend->state == KT_BACKEND_LOADED && KT_LEVEL_TABLE(backend->level, attention);
}

static enum kt_status ask_named(struct kt_attention *attention, const char *name, struct kt_error *error)
{
    const struct kt_backend *backend = kt_registry_find(attention->context->registry, name);
    if (!backend)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: no plugin %s is configured; `kt backends` lists them",
                       attention->name, name);
    if (backend->state != KT_BACKEND_LOADED)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: the plugin %s is not loaded: %s", attention->name, name,
                       backend->reason);
    if (!computes_attention(backend))
        return kt_fail(error, KT_E_UNSUPPORTED, "%s: the plugin %s does not compute attention",
                       attention->name, name);
    struct kt_error why;
    enum kt_status status = ask(attention, backend, &why);
    return status == KT_OK ? KT_OK
                           : kt_fail(error, status, "%s: the plugin %s (level %s) cannot: %s",
                                     attention->name, name, backend->level->name, why.message);
}

/* The plugin of the highest priority that takes the shape. */
static enum kt_status choose(struct kt_attention *attention, struct kt_error *error)
{
    const struct kt_registry *registry = attention->context->registry;
    char reasons[sizeof error->message - 128] = "";
    size_t used = 0;
    int64_t below = INT64_MAX;
    size_t after = 0; /* of those of priority `below`, the ones from here on are left */
    for (;;) {
        const struct kt_backend *best = NULL;
        for (size_t i = 0; i < registry->n_backends; i++) {
            const struct kt_backend *other = &registry->backend[i];
            if (computes_attention(other) && (!best || other->priority > best->priority) &&
                (other->priority < below || (other->priority == below && i >= after)))
                best = other;
        }
        if (!best)
            break;
        struct kt_error why;
        enum kt_status status = ask(attention, best, &why);
        if (status == KT_OK)
            return KT_OK;
        if (status == KT_E_NOMEM) /* of which the choice must not depend */
            return kt_fail(error, status, "%s: the plugin %s: %s", attention->name, best->name, why.message);
        below = best->priority;
        after = (size_t)(best - registry->backend) + 1;
        int n = snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", used ? "; " : "", best->name,
                         why.message);
        used += n > 0 ? (size_t)n : 0;
        used = used < sizeof reasons ? used : sizeof reasons - 1;
    }
    if (!used)
        return kt_fail(error, KT_E_NOT_FOUND,
                       "%s: no attention plugin is loaded; `kt backends` says why, [plugin.attention] is the "
                       "one that comes with kt-kernel",
                       attention->name);
    return kt_fail(error, KT_E_UNSUPPORTED, "%s: no plugin can: %s", attention->name, reasons);
}

/* ---- memory ---- */

static enum kt_status place_heads(struct kt_attention *attention, const struct kt_attention_params *params,
                                  struct kt_error *error)
{
    uint32_t n = attention->kv_heads;
    attention->keys = calloc(n, sizeof *attention->keys);
    attention->values = calloc(n, sizeof *attention->values);
    attention->node_head = calloc(n, sizeof *attention->node_head);
    attention->cut = calloc(attention->max_sequences, sizeof *attention->cut);
    attention->sinks = params->sinks ? malloc(sizeof(float) * attention->n_heads) : NULL;
    if (!attention->keys || !attention->values || !attention->node_head || !attention->cut ||
        (params->sinks && !attention->sinks))
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %u heads and %u sequences", attention->name,
                       attention->n_heads, attention->max_sequences);
    if (params->sinks)
        memcpy(attention->sinks, params->sinks, sizeof(float) * attention->n_heads);
    enum kt_status status = KT_OK;
    for (uint32_t h = 0; h < n && status == KT_OK; h++) {
        status = kt_kv_place(attention->kv, params->layer, params->key_field, h, &attention->keys[h], error);
        if (status == KT_OK)
            status = kt_kv_place(attention->kv, params->layer, params->value_field, h, &attention->values[h],
                                 error);
    }
    uint32_t at = 0;
    attention->n_nodes = attention->context->pool->n_nodes;
    for (uint32_t node = 0; node < attention->n_nodes; node++) {
        attention->first_head[node] = at;
        for (uint32_t h = 0; h < n; h++)
            if (attention->keys[h].node == node)
                attention->node_head[at++] = h;
    }
    attention->first_head[attention->n_nodes] = at;
    return status;
}

static enum kt_status make_room(struct kt_attention *attention, struct kt_error *error)
{
    struct kt_context *context = attention->context;
    enum kt_status status = kt_pool_lock(context->pool, error);
    if (status != KT_OK)
        return status;
    status = kt_attention_make_room(attention, &attention->layout, attention->buffers, error);
    kt_pool_unlock(context->pool);
    return status;
}

enum kt_status kt_attention_create(struct kt_kv *kv, const struct kt_attention_params *params,
                                   struct kt_attention **out, struct kt_error *error)
{
    if (!kv || !params || !out)
        return kt_fail(error, KT_E_INVALID, "kt_attention_create: kv, params and attention must not be NULL");
    if (params->struct_size < sizeof *params)
        return kt_fail(
            error, KT_E_INVALID,
            "kt_attention_create: struct_size %zu is too small; start with KT_ATTENTION_PARAMS_INIT",
            params->struct_size);
    struct kt_attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return kt_fail(error, KT_E_NOMEM, "no memory for an attention");
    attention->context = kt_context_retain(kv->context);
    attention->kv = kv;
    attention->max_sequences = params->max_sequences ? params->max_sequences : DEFAULT_SEQUENCES;
    attention->name = strdup(params->name ? params->name : "attention");
    enum kt_status status =
        attention->name ? find_shape(attention, params, error) : kt_fail(error, KT_E_NOMEM, "no memory");
    if (status == KT_OK)
        status = params->backend ? ask_named(attention, params->backend, error) : choose(attention, error);
    if (status == KT_OK)
        status = place_heads(attention, params, error);
    if (status == KT_OK)
        status = make_room(attention, error);
    if (status != KT_OK) {
        kt_attention_destroy(attention);
        return status;
    }
    *out = attention;
    return KT_OK;
}

void kt_attention_destroy(struct kt_attention *attention)
{
    if (!attention)
        return;
    kt_context_destroy(attention->context);
    free(attention->keys);
    free(attention->values);
    free(attention->sinks);
    free(attention->cut);
    free(attention->name);
    free(attention->node_head);
    free(attention);
}

void kt_attention_info(const struct kt_attention *attention, struct kt_attention_info *info)
{
    *info = (struct kt_attention_info){
        .backend = attention->backend->name,
        .level = attention->backend->level->name,
        .instruction = attention->layout.instruction ? attention->layout.instruction
                                                     : attention->backend->level->instruction,
        .max_queries = attention->layout.max_queries,
    };
    for (uint32_t n = 0; n < attention->n_nodes; n++)
        info->buffer_size += attention->buffers[n].size;
}
