/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h - how the engine words its errors. */
#ifndef KT_ENGINE_BASE_FAIL_H
#define KT_ENGINE_BASE_FAIL_H

#include <kt/types.h>

/** Fills `error` (may be NULL) and returns `status`, for `return kt_engine_fail(error, KT_E_..., "...")`. */
enum kt_status kt_engine_fail(struct kt_error *error, enum kt_status status, const char *format, ...)
    KT_PRINTF(3, 4);

/** Puts "text: " before the message of an error that a callee has worded; returns its status. */
enum kt_status kt_engine_fail_prefix(struct kt_error *error, enum kt_status status, const char *format, ...)
    KT_PRINTF(3, 4);

#endif
