/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - how the core words its errors. */
#ifndef KT_CORE_BASE_ERROR_H
#define KT_CORE_BASE_ERROR_H

#include <kt/types.h>

/** Fills `error` (may be NULL) and returns `status`, for `return kt_fail(error, KT_E_..., "...")`. */
enum kt_status kt_fail(struct kt_error *error, enum kt_status status, const char *format, ...)
    KT_PRINTF(3, 4);

/** Puts "text: " before the message of an error that a callee has worded; returns its status. */
enum kt_status kt_fail_prefix(struct kt_error *error, enum kt_status status, const char *format, ...)
    KT_PRINTF(3, 4);

/** For an error that a plugin has worded: what it wrote need not be a text, or be there at all. Sets
 * the status, ends the message, and says `fallback` where it is empty. */
enum kt_status kt_fail_plugin(struct kt_error *error, enum kt_status status, const char *fallback);

#endif
