/* SPDX-License-Identifier: Apache-2.0 */
/* option.h - typed values in text: the core's own settings and the options of plugins. */
#ifndef KT_CORE_BASE_OPTION_H
#define KT_CORE_BASE_OPTION_H

#include <kt/plugin.h>
#include <stdbool.h>

/* Reads `text` as a value of the option; value->text is `text` itself. KT_E_CONFIG says what is
 * allowed: `threads = "many": must be a whole number from 0 to 4096`. */
enum kt_status kt_option_parse(const struct kt_option *option, const char *text,
                               struct kt_option_value *value, struct kt_error *error);

/* Is a plugin's table sane: keys well-formed, unique and not the core's, types known, defaults
 * valid? KT_E_PLUGIN names the option. */
enum kt_status kt_option_check(const struct kt_option *options, uint32_t n, struct kt_error *error);

/* The option with that key, or NULL. */
const struct kt_option *kt_option_find(const struct kt_option *options, size_t n, const char *key);

enum { KT_PLUGIN_NAME_LIMIT = 31 };

/* Lower-case letters, digits and _, not starting with a digit, at most `limit` characters. */
bool kt_option_is_word(const char *text, size_t limit);

/* Has it an end within 4096 bytes? Each text of a plugin is read by this, so that its trial meets a pointer
 * to nowhere. */
bool kt_option_is_text(const char *text);

/* The keys of a plugin's section that the core reads itself; NULL-terminated. */
extern const char *const kt_option_reserved[];

#endif
