/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the plugin behind a struct kt_rows, which is a struct kt_backend under another name: so nothing is
 * allocated for it, and it lives as long as the context. */
#ifndef KT_CORE_ROWS_ROWS_H
#define KT_CORE_ROWS_ROWS_H

#include "core/backend/backend.h"
#include "core/base/error.h"

#include <kt/plugin_rows.h>

static inline const struct kt_backend *kt_rows_backend(const struct kt_rows *rows)
{
    return (const struct kt_backend *)(const void *)rows;
}

static inline const struct kt_rows_ops *kt_rows_table(const struct kt_rows *rows)
{
    return kt_rows_backend(rows)->level->rows;
}

/* The plugin ABI's first minor that has KT_GATING_GELU and the routings behind KT_ROUTING_SIGMOID. */
#define KT_ROWS_KINDS_MINOR 9

static inline enum kt_status kt_rows_check_kind(const struct kt_rows *rows, const char *function,
                                                const char *what, struct kt_error *error)
{
    const struct kt_plugin *plugin = kt_rows_backend(rows)->plugin;
    return plugin->abi_minor >= KT_ROWS_KINDS_MINOR
               ? KT_OK
               : kt_fail(error, KT_E_UNSUPPORTED,
                         "%s: the plugin %s was built for ABI %u.%u, which has no %s; rebuild it", function,
                         kt_rows_backend(rows)->name, plugin->abi_major, plugin->abi_minor, what);
}

static inline void *kt_rows_instance(const struct kt_rows *rows)
{
    return kt_rows_backend(rows)->instance;
}

#endif
