/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the plugin behind a struct kt_rows, which is a struct kt_backend under another name: so nothing is
 * allocated for it, and it lives as long as the context. */
#ifndef KT_CORE_ROWS_ROWS_H
#define KT_CORE_ROWS_ROWS_H

#include "core/backend/backend.h"

#include <kt/plugin_rows.h>

static inline const struct kt_backend *kt_rows_backend(const struct kt_rows *rows)
{
    return (const struct kt_backend *)(const void *)rows;
}

static inline const struct kt_rows_ops *kt_rows_table(const struct kt_rows *rows)
{
    return kt_rows_backend(rows)->level->rows;
}

static inline void *kt_rows_instance(const struct kt_rows *rows)
{
    return kt_rows_backend(rows)->instance;
}

#endif
