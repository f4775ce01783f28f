/* SPDX-License-Identifier: Apache-2.0 */
/* error.h - how the core words its errors. */
#ifndef KT_CORE_BASE_ERROR_H
#define KT_CORE_BASE_ERROR_H

#include <kt/types.h>
#include <stdbool.h>

/** Fills `error` (may be NULL) and returns `status`, for `return kt_fail(error, KT_E_..., "...")`. */
enum kt_status kt_fail(struct kt_error *error, enum kt_status status, const char *format, ...)
    KT_PRINTF(3, 4);

/** KT_E_NOMEM or KT_E_SYSTEM for an errno that says that the process or the machine lacks something now, so
 * that the same call may succeed later; else `otherwise`. */
enum kt_status kt_status_of_errno(int number, enum kt_status otherwise);

/** Is it such a status? Nothing is concluded from it about a file. */
static inline bool kt_status_passes(enum kt_status status)
{
    return status == KT_E_NOMEM || status == KT_E_SYSTEM;
}

/** Puts "text: " before the message of an error that a callee has worded; returns its status. */
enum kt_status kt_fail_prefix(struct kt_error *error, enum kt_status status, const char *format, ...)
    KT_PRINTF(3, 4);

/** For an error that a plugin has worded: what it wrote need not be a text, or be there at all. Sets
 * the status, ends the message, and says `fallback` where it is empty. */
enum kt_status kt_fail_plugin(struct kt_error *error, enum kt_status status, const char *fallback);

#endif
