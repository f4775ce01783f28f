/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - JSON with integers beyond 64 bits, which jansson takes for an error. */
#ifndef KT_ENGINE_BASE_LOAD_H
#define KT_ENGINE_BASE_LOAD_H

#include <jansson.h>

/** Digits of such an integer at most; doubles have 309. */
#define KT_JSON_DIGITS 320

/** json_loadb; such integers become the doubles next to them. `digits` (may be NULL): gets what they were,
 * for kt_json_digits; NULL if there are none. Two that are one double, or one and a real, are then
 * json_error_numeric_overflow, with a text that names both. */
json_t *kt_json_load(const char *text, size_t length, size_t flags, json_t **digits, json_error_t *where);
/** The digits of an integer that became this double; NULL: none did. */
const char *kt_json_digits(const json_t *digits, double value);

#endif
