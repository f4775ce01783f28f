/* SPDX-License-Identifier: Apache-2.0 */
/* registry_internal.h - the steps from a section of the configuration to an open plugin; only for
 * core/registry*.c. */
#ifndef KT_CORE_BACKEND_REGISTRY_INTERNAL_H
#define KT_CORE_BACKEND_REGISTRY_INTERNAL_H

#include "core/backend/registry.h"

/* registry_open.c: brings a backend whose name, origin and registry are set into its state. Only a
 * lack of memory is an error. */
enum kt_status kt_backend_open(struct kt_backend *backend, struct kt_error *error);

/* The same for a plugin that is linked in. */
enum kt_status kt_backend_open_linked(struct kt_backend *backend, const struct kt_plugin *plugin,
                                      struct kt_error *error);
void kt_backend_close(struct kt_backend *backend);

/* registry_host.c: the services for a plugin. */
void kt_backend_serve(struct kt_backend *backend);

/* registry_reason.c: state and its reason; KT_E_NOMEM if the text cannot be kept. */
enum kt_status kt_backend_settle(struct kt_backend *backend, enum kt_backend_state state,
                                 struct kt_error *error, const char *format, ...) KT_PRINTF(4, 5);

/* "amx_int8, which this CPU lacks", "avx2, masked off by ...": why `missing` is not there. */
void kt_registry_explain_cpu(const struct kt_registry *registry, uint64_t missing, char *text, size_t size);

#endif
