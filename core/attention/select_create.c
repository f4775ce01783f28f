/* SPDX-License-Identifier: Apache-2.0 */
/* select_create.c - a selector: checks its parameters, chooses a plugin, has room in the arena. */
#include "core/attention/select.h"
#include "core/backend/registry.h"
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/context/context.h"
#include "core/kv/cache.h"
#include "core/machine/pool.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SEQUENCES 64
#define MOST_SEQUENCES 65536
#define MOST_HEADS 256
#define MOST_SIZE 1024
#define MOST_TOKENS (UINT64_C(1) << 31)

/* Bytes of scores of several tokens: enough for many tasks, and for a few tokens of the longest context. */
#define SCORES_SIZE (UINT64_C(4) << 20)

static enum kt_status check_number(const char *name, const char *what, uint64_t number, uint64_t least,
                                   uint64_t most, struct kt_error *error)
{
    if (number >= least && number <= most)
        return KT_OK;
    return kt_fail(error, KT_E_INVALID, "%s: %s is %" PRIu64 "; %" PRIu64 " to %" PRIu64 " is possible", name,
                   what, number, least, most);
}

static enum kt_status check(struct kt_selector *selector, const struct kt_selector_params *params,
                            struct kt_error *error)
{
    const char *name = selector->name;
    const struct kt_kv_field *field = &selector->keys.field;
    const struct {
        const char *what;
        uint64_t number, least, most;
    } numbers[] = {{"scoring", params->scoring, KT_SCORING_RELU, KT_SCORING_RELU},
                   {"n_heads", params->n_heads, 1, MOST_HEADS},
                   {"budget", params->budget, 1, UINT32_MAX - 1},
                   {"max_sequences", params->max_sequences, 0, MOST_SEQUENCES},
                   {"max_tokens", params->max_tokens, 1, MOST_TOKENS}};
    enum kt_status status =
        kt_kv_place(selector->kv, params->layer, params->field, 0, &selector->keys, error);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == KT_OK; i++)
        status =
            check_number(name, numbers[i].what, numbers[i].number, numbers[i].least, numbers[i].most, error);
    if (status != KT_OK)
        return status;
    if (field->heads != 1 || field->layout != KT_KV_KEY || field->stride != 1 || field->width % 2 != 0 ||
        field->width > MOST_SIZE || (field->dtype != KT_DTYPE_F32 && field->dtype != KT_DTYPE_BF16))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: field %" PRIu32 " has %" PRIu32 " heads of %" PRIu32 " %s in layout %" PRIu32
                       ", one for %" PRIu32 " tokens; one head of an even number up to %d of f32 or bf16 in "
                       "KT_KV_KEY, one for each token, is wanted",
                       name, params->field, field->heads, field->width, kt_dtype_name(field->dtype),
                       field->layout, field->stride, MOST_SIZE);
    return KT_OK;
}

/* ---- which plugin ---- */

static bool computes_scores(const struct kt_backend *backend)
{
    if (backend->state != KT_BACKEND_LOADED)
        return false;
    const struct kt_attention_ops *ops = KT_LEVEL_TABLE(backend->level, attention);
    return ops && ops->struct_size >= offsetof(struct kt_attention_ops, score) + sizeof ops->score &&
           ops->score;
}

static enum kt_status find_named(const struct kt_selector *selector, const char *name,
                                 const struct kt_backend **found, struct kt_error *error)
{
    const struct kt_backend *backend = kt_registry_find(selector->context->registry, name);
    if (!backend)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: no plugin %s is configured; `kt backends` lists them",
                       selector->name, name);
    if (backend->state != KT_BACKEND_LOADED)
        return kt_fail(error, KT_E_NOT_FOUND, "%s: the plugin %s is not loaded: %s", selector->name, name,
                       backend->reason);
    if (!computes_scores(backend))
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "%s: the plugin %s, built for ABI %u.%u, does not score rows, which ABI 1.10 has",
                       selector->name, name, backend->plugin->abi_major, backend->plugin->abi_minor);
    *found = backend;
    return KT_OK;
}

static enum kt_status choose(struct kt_selector *selector, const char *name, struct kt_error *error)
{
    const struct kt_registry *registry = selector->context->registry;
    const struct kt_backend *best = NULL;
    if (name) {
        enum kt_status status = find_named(selector, name, &best, error);
        if (status != KT_OK)
            return status;
    }
    for (size_t i = 0; i < registry->n_backends && !name; i++) {
        const struct kt_backend *other = &registry->backend[i];
        if (computes_scores(other) && (!best || other->priority > best->priority))
            best = other;
    }
    if (!best)
        return kt_fail(error, KT_E_NOT_FOUND,
                       "%s: no loaded plugin scores rows, which ABI 1.10 has; `kt backends` lists plugins, "
                       "[plugin.attention] is the one that comes with kt-kernel",
                       selector->name);
    selector->backend = best;
    selector->ops = KT_LEVEL_TABLE(best->level, attention);
    selector->instance = best->instance;
    return KT_OK;
}

/* ---- memory ---- */

static enum kt_status make_room(struct kt_selector *selector, struct kt_error *error)
{
    struct kt_context *context = selector->context;
    uint64_t need[KT_MAX_NODES] = {0}, n;
    selector->row_size = (selector->max_tokens + KT_KV_BLOCK - 1) / KT_KV_BLOCK * KT_KV_BLOCK * sizeof(float);
    n = SCORES_SIZE / selector->row_size;
    n = n < KT_SELECT_TOKENS ? KT_SELECT_TOKENS : n;
    selector->n_rows = n < KT_SELECT_ROWS ? (uint32_t)n : KT_SELECT_ROWS;
    need[0] = selector->n_rows * selector->row_size;
    selector->tiles = calloc(KT_SELECT_ROWS, sizeof *selector->tiles);
    if (!selector->tiles)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for %d tiles", selector->name, KT_SELECT_ROWS);
    enum kt_status status = kt_pool_lock(context->pool, error);
    if (status != KT_OK)
        return status;
    status = kt_arena_grow(&context->arena, context->topology, context->pool->n_nodes, need, 0,
                           context->huge_pages, error);
    kt_pool_unlock(context->pool);
    return status;
}

enum kt_status kt_selector_create(struct kt_kv *kv, const struct kt_selector_params *params,
                                  struct kt_selector **out, struct kt_error *error)
{
    if (!kv || !params || !out)
        return kt_fail(error, KT_E_INVALID, "kt_selector_create: kv, params and selector must not be NULL");
    if (params->struct_size < sizeof *params)
        return kt_fail(error, KT_E_INVALID,
                       "kt_selector_create: struct_size %zu is too small; start with KT_SELECTOR_PARAMS_INIT",
                       params->struct_size);
    struct kt_selector *selector = calloc(1, sizeof *selector);
    if (!selector)
        return kt_fail(error, KT_E_NOMEM, "no memory for a selector");
    selector->context = kt_context_retain(kv->context);
    selector->kv = kv;
    selector->scoring = params->scoring;
    selector->n_heads = params->n_heads;
    selector->budget = params->budget;
    selector->max_sequences = params->max_sequences ? params->max_sequences : DEFAULT_SEQUENCES;
    selector->max_tokens = params->max_tokens;
    selector->name = strdup(params->name ? params->name : "selector");
    enum kt_status status =
        selector->name ? check(selector, params, error) : kt_fail(error, KT_E_NOMEM, "no memory");
    if (status == KT_OK)
        status = choose(selector, params->backend, error);
    if (status == KT_OK)
        status = make_room(selector, error);
    if (status != KT_OK) {
        kt_selector_destroy(selector);
        return status;
    }
    *out = selector;
    return KT_OK;
}

void kt_selector_destroy(struct kt_selector *selector)
{
    if (!selector)
        return;
    kt_context_destroy(selector->context);
    free(selector->tiles);
    free(selector->name);
    free(selector);
}

void kt_selector_info(const struct kt_selector *selector, struct kt_selector_info *info)
{
    *info = (struct kt_selector_info){
        .backend = selector->backend->name,
        .level = selector->backend->level->name,
        .buffer_size = selector->n_rows * selector->row_size,
    };
}
