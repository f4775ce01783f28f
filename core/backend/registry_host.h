/* SPDX-License-Identifier: Apache-2.0 */
/* registry_host.h - what the core does for plugins. */
#ifndef KT_CORE_BACKEND_REGISTRY_HOST_H
#define KT_CORE_BACKEND_REGISTRY_HOST_H

#include "core/backend/backend.h"

/* Fills backend->host: the services of the core for a plugin. */
void kt_backend_serve(struct kt_backend *backend);

#endif
