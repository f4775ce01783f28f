/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - messages to the user's callback; without one they are dropped. */
#ifndef KT_CORE_BASE_LOG_H
#define KT_CORE_BASE_LOG_H

#include <kt/kt.h>
#include <stdarg.h>

struct kt_log {
    kt_log_fn write; /* NULL: dropped */
    void *data;
    enum kt_log_level level; /* messages above it are dropped; DEBUG with KT_KERNEL_DEBUG=1, else INFO */
};

void kt_log_write(const struct kt_log *log, enum kt_log_level level, const char *format, ...) KT_PRINTF(3, 4);
void kt_log_write_list(const struct kt_log *log, enum kt_log_level level, const char *format,
                       va_list arguments);

#endif
