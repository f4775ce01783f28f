/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/base/fail.h"

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character at `text`, which ends with a zero; 0: it is none, or one that steers a terminal. */
static size_t measure(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0x20, 0xa0, 0x800, 0x10000};
    size_t n = text[0] < 0x80 ? 1 : text[0] < 0xc0 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    uint32_t code = n > 1 ? text[0] & (0x7fU >> n) : text[0];
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fU);
    }
    bool is_character = code != 0x7f && (code < 0xd800 || code >= 0xe000) && code < 0x110000;
    return n > 0 && is_character && code >= least[n] && text[0] < 0xf8 ? n : 0;
}

/* Words of files stand in messages, and messages on terminals. */
static void mend(char *text)
{
    for (size_t n; *text; text += n) {
        n = measure((const unsigned char *)text);
        if (n == 0) {
            *text = *text == '\t' || *text == '\n' || *text == '\r' ? ' ' : '?';
            n = 1;
        }
    }
}

static void word(struct kt_error *error, enum kt_status status, const char *format, va_list arguments)
{
    error->status = status;
    /* Numbers have a point whatever the locale of the program; that of C needs no memory. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = plain ? uselocale(plain) : (locale_t)0;
    (void)vsnprintf(error->message, sizeof error->message, format, arguments);
    if (before)
        (void)uselocale(before);
    mend(error->message);
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
        mend(error->message); /* whose last character may be cut */
    }
    return status;
}
