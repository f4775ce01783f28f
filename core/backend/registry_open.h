/* SPDX-License-Identifier: Apache-2.0 */
/* registry_open.h - from a section of the configuration to an open plugin. */
#ifndef KT_CORE_BACKEND_REGISTRY_OPEN_H
#define KT_CORE_BACKEND_REGISTRY_OPEN_H

#include "core/backend/backend.h"

/* Opens a backend whose name, origin and registry are set. If it cannot be used, that is its state; only a
 * lack of memory is an error. */
enum kt_status kt_backend_open(struct kt_backend *backend, struct kt_error *error);

/* The same for a plugin that is linked in. */
enum kt_status kt_backend_open_linked(struct kt_backend *backend, const struct kt_plugin *plugin,
                                      struct kt_error *error);

void kt_backend_close(struct kt_backend *backend);

#endif
