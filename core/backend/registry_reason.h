/* SPDX-License-Identifier: Apache-2.0 */
/* registry_reason.h - the state of a backend, and why. */
#ifndef KT_CORE_BACKEND_REGISTRY_REASON_H
#define KT_CORE_BACKEND_REGISTRY_REASON_H

#include "core/backend/backend.h"

#include <stddef.h>
#include <stdint.h>

/* Sets the state and its reason; KT_E_NOMEM if the text cannot be kept. */
enum kt_status kt_backend_settle(struct kt_backend *backend, enum kt_backend_state state,
                                 struct kt_error *error, const char *format, ...) KT_PRINTF(4, 5);

/* Writes why the features `missing` cannot be used: "amx_int8, which this CPU lacks", "avx2, masked off by
 * ...". */
void kt_registry_explain_cpu(const struct kt_registry *registry, uint64_t missing, char *text, size_t size);

#endif
