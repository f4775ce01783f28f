/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - what object.c and counted.c know of an object whose members they write. */
#ifndef KT_ENGINE_GRAMMAR_OBJECT_H
#define KT_ENGINE_GRAMMAR_OBJECT_H

#include "tools/engine/grammar/schema.h"

struct member {
    const char *name;
    const json_t *schema; /* NULL: any value */
    char *key;            /* its name as JSON */
    bool is_required, is_banned;
};

struct object {
    struct kt_form_reader *reader;
    const json_t *schema;
    const struct kt_place *place;
    struct member *members;
    size_t n;
    const json_t *others; /* additionalProperties; NULL: any value */
    json_t *patterns;     /* patternProperties, and expressions of propertyNames; NULL: none */
    bool is_closed;       /* no others */
    json_t *asked;        /* what is asked of keys by such expressions */
    uint32_t min_name, max_name;
    struct kt_form_keys *keys; /* of them */
    json_t *made;              /* schemas that are not in the document */
    uint32_t next;
};

/** A comma and what follows, a colon and what follows; 0: nothing may. */
uint32_t kt_object_comma(struct kt_program *p, uint32_t key);
uint32_t kt_object_colon(struct kt_program *p, uint32_t value);
/** What holds for a member's value. */
const json_t *kt_object_schema(const struct member *member);
/** A schema, and what else holds (NULL: nothing); NULL after a failure. */
const json_t *kt_object_both(struct object *o, const json_t *schema, json_t *also);
/** A key of no member, and its value, for which `also` holds, too, to `after`. */
uint32_t kt_object_other(struct object *o, json_t *also, uint32_t after);
/** The members of an object that must have so and so many, behind its bracket (counted.c). */
uint32_t kt_object_counted(struct object *o);

#endif
