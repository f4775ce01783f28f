/* SPDX-License-Identifier: Apache-2.0 */
/*
 * big.h - JSON of strangers: numbers that neither 64 bits nor a double have, which jansson takes for an
 * error, stay as they were written; half a pair of surrogates, which scripts cut off, becomes U+FFFD.
 */
#ifndef KT_ENGINE_BASE_BIG_H
#define KT_ENGINE_BASE_BIG_H

#include <jansson.h>
#include <stdbool.h>

struct kt_buffer;

/** The only member of the object by which such a number is known in between. Whoever sends one like it has
 * sent a number. */
#define KT_JSON_BIG "\x01number"

/** json_loadb, with such numbers; kt_json_dump writes them as they were. */
json_t *kt_json_read(const char *text, size_t length, size_t flags, json_error_t *where);
/** Such a number, as it was written; NULL: the value is something else. */
const char *kt_json_big(const json_t *value);
/** Is the value what jansson alone reads of its text: has it no such number, and no zero byte? */
bool kt_json_is_plain(const json_t *value);
/** Is this a number as JSON has it? */
bool kt_json_is_number(const char *text, size_t length);
/** Replaces such numbers in the text of a value; returns its new length. */
size_t kt_json_unwrap(char *text, size_t length);

#endif
