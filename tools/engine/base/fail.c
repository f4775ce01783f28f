/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/base/fail.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void word(struct kt_error *error, enum kt_status status, const char *format, va_list arguments)
{
    error->status = status;
    /* Numbers have a point whatever the locale of the program; that of C needs no memory. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = plain ? uselocale(plain) : (locale_t)0;
    (void)vsnprintf(error->message, sizeof error->message, format, arguments);
    if (before)
        (void)uselocale(before);
}

enum kt_status kt_engine_fail(struct kt_error *error, enum kt_status status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        word(error, status, format, arguments);
        va_end(arguments);
    }
    return status;
}

enum kt_status kt_engine_fail_prefix(struct kt_error *error, enum kt_status status, const char *format, ...)
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
    }
    return status;
}
