/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the types that a tool's JSON schema gives its arguments. */
#ifndef KT_ENGINE_TEXT_OUTPUT_SCHEMA_H
#define KT_ENGINE_TEXT_OUTPUT_SCHEMA_H

#include <jansson.h>
#include <kt/types.h>

#include <stdbool.h>

/** Bits. */
enum kt_schema_type {
    KT_SCHEMA_STRING = 1,
    KT_SCHEMA_INTEGER = 2,
    KT_SCHEMA_NUMBER = 4,
    KT_SCHEMA_BOOLEAN = 8,
    KT_SCHEMA_OBJECT = 16,
    KT_SCHEMA_ARRAY = 32,
    KT_SCHEMA_NULL = 64,
    KT_SCHEMA_UNKNOWN = 0 /**< nothing is said of it */
};

struct kt_schema;

/** Reads a request's `tools`: a list of {"type": "function", "function": {"name": .., "parameters": ..}}, or
 * of the functions themselves. `text` may be NULL: no tool is known. */
enum kt_status kt_schema_create(const char *text, uint64_t length, struct kt_schema **schema,
                                struct kt_error *error);
/** The same of a list that was read already, which it shares; NULL: no tool is known. */
enum kt_status kt_schema_create_of(json_t *tools, struct kt_schema **schema, struct kt_error *error);
/** Another user of it, in the same thread; each destroys it. */
struct kt_schema *kt_schema_share(struct kt_schema *schema);
void kt_schema_destroy(struct kt_schema *schema);

/** Are tools known, and this one is not among them? */
bool kt_schema_lacks(const struct kt_schema *schema, const char *tool);
/** Is `key` one of the tool's arguments by name? */
bool kt_schema_has(const struct kt_schema *schema, const char *tool, const char *key);
/** Bits of the types that argument `key` of `tool` may have. */
uint32_t kt_schema_types(const struct kt_schema *schema, const char *tool, const char *key);

#endif
