/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - every configured plugin with its state, and the built-in reference. */
#ifndef KT_CORE_BACKEND_REGISTRY_H
#define KT_CORE_BACKEND_REGISTRY_H

#include "core/backend/backend.h"

/* The plugin ABI's first minor that has linears (KT_ACTIVATION_NONE). */
#define KT_LINEAR_MINOR 5

/* Opens every enabled plugin. Only an `enabled = required` one that cannot be used is an error. */
enum kt_status kt_registry_create(const struct kt_config *config, const struct kt_caps *caps,
                                  struct kt_registry **registry, struct kt_error *error);
void kt_registry_destroy(struct kt_registry *registry);

/* Opens plugin number `i` of the configuration and closes it, in a process of its own. */
void kt_registry_try(struct kt_config *config, const struct kt_caps *caps, size_t i);

/* The backend of that name whatever its state, or NULL. */
const struct kt_backend *kt_registry_find(const struct kt_registry *registry, const char *name);

#endif
