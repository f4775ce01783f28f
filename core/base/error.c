/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/error.h"

#include "core/base/number.h"
#include "core/base/text.h"

#include <errno.h>
#include <kt/kt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void word(struct kt_error *error, enum kt_status status, const char *format, va_list arguments)
{
    error->status = status;
    locale_t before = kt_number_begin();
    (void)vsnprintf(error->message, sizeof error->message, format, arguments);
    kt_number_end(before);
    kt_text_mend(error->message);
}

enum kt_status kt_fail(struct kt_error *error, enum kt_status status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        word(error, status, format, arguments);
        va_end(arguments);
    }
    return status;
}

enum kt_status kt_fail_prefix(struct kt_error *error, enum kt_status status, const char *format, ...)
{
    if (error) {
        char tail[sizeof error->message];
        memcpy(tail, error->message, sizeof tail);
        va_list arguments;
        va_start(arguments, format);
        word(error, status, format, arguments);
        va_end(arguments);
        size_t used = strlen(error->message);
        (void)snprintf(error->message + used, sizeof error->message - used, ": %.*s", (int)(sizeof tail - 1),
                       tail);
        kt_text_mend(error->message);
    }
    return status;
}

enum kt_status kt_fail_plugin(struct kt_error *error, enum kt_status status, const char *fallback)
{
    if (error) {
        error->message[sizeof error->message - 1] = '\0';
        if (!error->message[0])
            return kt_fail(error, status, "%s", fallback);
        kt_text_mend(error->message);
        error->status = status;
    }
    return status;
}

enum kt_status kt_status_of_errno(int number, enum kt_status otherwise)
{
    switch (number) {
    case ENOMEM:
        return KT_E_NOMEM;
    case EMFILE:
    case ENFILE:
    case EIO:
    case EINTR:
    case EAGAIN:
        return KT_E_SYSTEM;
    default:
        return otherwise;
    }
}

const char *kt_status_name(enum kt_status status)
{
    static const char *const names[] = {
        [KT_OK] = "ok",
        [KT_E_INVALID] = "invalid argument",
        [KT_E_RANGE] = "out of range",
        [KT_E_NOMEM] = "out of memory",
        [KT_E_IO] = "input/output error",
        [KT_E_FORMAT] = "malformed file",
        [KT_E_UNSUPPORTED] = "unsupported",
        [KT_E_NOT_FOUND] = "not found",
        [KT_E_CONFIG] = "wrong configuration",
        [KT_E_PLUGIN] = "plugin unusable",
        [KT_E_BUSY] = "busy",
        [KT_E_SYSTEM] = "system error",
        [KT_E_STATE] = "wrong state",
        [KT_E_BACKEND] = "backend failed",
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] && names[index] ? names[index] : "unknown status";
}

const char *kt_version(void)
{
    return KT_VERSION;
}
