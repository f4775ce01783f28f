/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - the fields of a request's JSON object, with their types and ranges. */
#ifndef KT_ENGINE_SERVE_FIELDS_H
#define KT_ENGINE_SERVE_FIELDS_H

#include "tools/engine/serve/problem.h"

#include <stddef.h>
#include <stdint.h>

/* The type of a field, and of the member that it goes to. */
enum kt_field_type {
    KT_FIELD_BOOL, /* bool */
    KT_FIELD_INT,  /* int64_t in minimum .. maximum; 40.0 is one, too; of more bits the lower 64 */
    KT_FIELD_REAL, /* double in minimum .. maximum; integers are taken too */
    KT_FIELD_TEXT, /* const char *, of the object; without zero bytes */
    KT_FIELD_LIST, /* json_t *, of the object */
    KT_FIELD_OBJECT
};

/* A table of these ends with a row whose name is NULL. */
struct kt_field {
    const char *name;
    enum kt_field_type type;
    size_t offset;
    double minimum, maximum;
};

/* Bytes that a body takes when it is parsed, about. */
uint64_t kt_fields_size(const char *text, size_t length);
/* Parses a request's body, which must be an object, not nest deeper than 100 and have at most 2^20 values. */
json_t *kt_fields_parse(const char *text, size_t length, struct kt_problem *problem);
/* Sets the members of `values` whose fields are there and not null. Unknown fields are ignored. */
bool kt_fields_read(const json_t *object, const struct kt_field *fields, void *values,
                    struct kt_problem *problem);
/* "an array", for messages. */
const char *kt_fields_type(const json_t *value);

#endif
