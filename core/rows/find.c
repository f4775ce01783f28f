/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - the plugin that computes rows. */
#include "core/base/error.h"
#include "core/context/context.h"
#include "core/backend/registry.h"
#include "core/rows/rows.h"

#include <string.h>

static const struct kt_rows_ops *ops_of(const struct kt_backend *backend)
{
    return backend->level ? KT_LEVEL_TABLE(backend->level, rows) : NULL;
}

static enum kt_status find_named(const struct kt_registry *registry, const char *name,
                                 const struct kt_backend **found, struct kt_error *error)
{
    const struct kt_backend *backend = kt_registry_find(registry, name);
    if (!backend)
        return kt_fail(error, KT_E_NOT_FOUND, "kt_rows_find: no plugin is called %s", name);
    if (!backend->level)
        return kt_fail(error, KT_E_NOT_FOUND, "kt_rows_find: the plugin %s is not loaded%s%s", name,
                       backend->reason && *backend->reason ? ": " : "",
                       backend->reason ? backend->reason : "");
    if (!ops_of(backend))
        return kt_fail(error, KT_E_NOT_FOUND,
                       "kt_rows_find: the plugin %s computes matrices, no rows (norms, rotary positions, "
                       "routers); name none, or one that does",
                       name);
    *found = backend;
    return KT_OK;
}

enum kt_status kt_rows_find(const struct kt_context *context, const char *backend,
                            const struct kt_rows **rows, struct kt_error *error)
{
    if (!context || !rows)
        return kt_fail(error, KT_E_INVALID, "kt_rows_find: context and rows must not be NULL");
    const struct kt_registry *registry = context->registry;
    const struct kt_backend *found = NULL;
    if (backend) {
        enum kt_status status = find_named(registry, backend, &found, error);
        if (status != KT_OK)
            return status;
    }
    for (size_t i = 0; i < registry->n_backends && !backend; i++) {
        const struct kt_backend *other = &registry->backend[i];
        if (ops_of(other) && (!found || other->priority > found->priority))
            found = other;
    }
    if (!found)
        return kt_fail(error, KT_E_NOT_FOUND,
                       "kt_rows_find: no loaded plugin computes rows (norms, rotary positions, routers); "
                       "kt-kernel's is called attention, see kt backends");
    *rows = (const struct kt_rows *)(const void *)found;
    return KT_OK;
}

void kt_rows_info(const struct kt_rows *rows, struct kt_rows_info *info)
{
    if (!info)
        return;
    memset(info, 0, sizeof *info);
    if (!rows)
        return;
    const struct kt_backend *backend = kt_rows_backend(rows);
    *info = (struct kt_rows_info){
        .backend = backend->name,
        .level = backend->level->name,
        .instruction = backend->level->instruction ? backend->level->instruction : "",
    };
}
