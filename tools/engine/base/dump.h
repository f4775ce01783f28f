/* SPDX-License-Identifier: Apache-2.0 */
/* dump.h - JSON to text. */
#ifndef KT_ENGINE_BASE_DUMP_H
#define KT_ENGINE_BASE_DUMP_H

#include <jansson.h>

/** The text of a value, for free(); NULL: no memory, or `value` is NULL. jansson's json_dumps drops a key
 * that finds no memory, and goes on. Numbers of big.h are written as they were. */
char *kt_json_dump(const json_t *value, size_t flags);

#endif
