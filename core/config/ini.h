/* SPDX-License-Identifier: Apache-2.0 */
/* ini.h - reads one INI file by inih, without inih's traps. */
#ifndef KT_CORE_CONFIG_INI_H
#define KT_CORE_CONFIG_INI_H

#include <kt/types.h>

/* Functions return KT_OK, or fail with a message that does not name the file and line: kt_ini_read
 * puts those in front. */
struct kt_ini_handler {
    void *data;
    enum kt_status (*section)(void *data, const char *section, unsigned line, struct kt_error *error);
    enum kt_status (*setting)(void *data, const char *section, const char *key, const char *value,
                              unsigned line, struct kt_error *error);
    /* Of each line that is wrong, the first one too, with file and line; NULL: reading ends at the first. */
    void (*fault)(void *data, const struct kt_error *error);
};

/**
 * Reads a regular file (or /dev/null) of at most 1 MiB. Returns the first error, and stops there if the
 * handler has no `fault`. With one it goes on, for at most 100 of them, in what is text; what stands below a
 * section line that is wrong, or before the first, is left out then. KT_E_NOT_FOUND: no such file (a
 * dangling link is KT_E_IO); KT_E_CONFIG "path:line: ...".
 *
 * Lines are [section], key = value, or comments that start with ; or #. Leading spaces mean nothing
 * (no continuation lines). A ; after a space starts a comment inside a value too. Refused: settings
 * of over 190 bytes, control characters, text after ], settings before the first section.
 */
enum kt_status kt_ini_read(const char *path, const struct kt_ini_handler *handler, struct kt_error *error);

#endif
