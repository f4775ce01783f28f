/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/log.h"

#include "core/base/number.h"
#include "core/base/text.h"

#include <stdio.h>

void kt_log_write_list(const struct kt_log *log, enum kt_log_level level, const char *format,
                       va_list arguments)
{
    if (!log || !log->write || level > log->level)
        return;
    char line[1024];
    locale_t before = kt_number_begin();
    (void)vsnprintf(line, sizeof line, format, arguments);
    kt_number_end(before);
    kt_text_mend(line);
    log->write(log->data, level, line);
}

void kt_log_write(const struct kt_log *log, enum kt_log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    kt_log_write_list(log, level, format, arguments);
    va_end(arguments);
}
