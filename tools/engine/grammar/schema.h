/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - from a JSON Schema to a program, in three steps:
 *
 *     check.c     every keyword that is reached is one that the others enforce
 *     expand.c    $ref, allOf, anyOf, oneOf next to other keywords -> alternatives without them
 *     schema.c    those -> operations
 */
#ifndef KT_ENGINE_GRAMMAR_SCHEMA_H
#define KT_ENGINE_GRAMMAR_SCHEMA_H

#include "tools/engine/grammar/program.h"

#include <jansson.h>

/** How deep schemas may nest; how many are read, merged or compiled, together. */
#define KT_FORM_DEPTH 100
#define KT_FORM_MOST 20000
/** What all of a request's schemas may cost, in steps of a machine (some 10 ns each). */
#ifndef KT_FORM_MOST_WORK
#define KT_FORM_MOST_WORK 10000000
#endif

/** Where a schema stands, for messages: from the innermost one outwards. */
struct kt_place {
    const struct kt_place *outer;
    const char *name; /**< NULL: `index` */
    size_t index;
};

struct kt_rule {
    const json_t *schema;
    uint32_t op; /**< 0: it is only checked so far */
};

struct kt_form_reader {
    json_t *root; /**< to which references are relative */
    struct kt_program *program;
    struct kt_error *error;
    enum kt_status status; /**< the first one that was not KT_OK */
    struct kt_rule *rules; /**< what references led to */
    size_t n_rules, rules_capacity;
    unsigned depth, n;
    uint64_t work;    /**< what it took so far, the same on any machine */
    json_t *literals; /**< of integers beyond 64 bits: the double in hexadecimal, and the digits (bounds.c) */
};

/** Bits of types. */
enum {
    KT_IS_NULL = 1,
    KT_IS_BOOLEAN = 2,
    KT_IS_INTEGER = 4,
    KT_IS_NUMBER = 8, /**< and so integers */
    KT_IS_STRING = 16,
    KT_IS_ARRAY = 32,
    KT_IS_OBJECT = 64,
    KT_IS_ANY = 127
};

/** Notes a failure at a place; returns false. */
bool kt_form_fail(struct kt_form_reader *reader, enum kt_status status, const struct kt_place *place,
                  const char *format, ...) KT_PRINTF(4, 5);
bool kt_form_no_memory(struct kt_form_reader *reader);
/** One more schema is read, one level deeper; kt_form_leave ends that if it was true. */
bool kt_form_enter(struct kt_form_reader *reader, const struct kt_place *place);
void kt_form_leave(struct kt_form_reader *reader);
/** So many steps more; false: they are too many, or something had failed. */
bool kt_form_work(struct kt_form_reader *reader, const struct kt_place *place, uint64_t steps);
/** What it costs to look at a value: its parts, and the length of its texts. */
uint64_t kt_form_size(const json_t *value);

/** Checks a schema and all that it leads to. */
bool kt_form_check(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place);
/** What a reference names; NULL after a failure. */
json_t *kt_form_find(struct kt_form_reader *reader, const json_t *reference, const struct kt_place *place);
/** Has it a keyword that says something of values, but for `except`? */
bool kt_form_asserts(const json_t *schema, const char *except);
/** Bits of `type`, and of null by `nullable`; KT_IS_ANY where there is none. */
uint32_t kt_form_types(const json_t *schema);

/** Appends to `list` alternatives that are objects without references and compositions. */
bool kt_form_expand(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                    json_t *list);
/** Does each value fit at most one of the schemas of a list? */
bool kt_form_excludes(struct kt_form_reader *reader, const json_t *list, const struct kt_place *place);
/** Is a value of the types, and within the bounds that a plain schema has for numbers and lengths? */
bool kt_form_fits(const json_t *schema, uint32_t types, const json_t *value);

/** A number of the types of a schema that was checked (bounds.c). */
uint32_t kt_form_number(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                        const struct kt_place *place, uint32_t next);
/** json_loadb, for integers of any size; NULL after a failure. */
json_t *kt_form_load(struct kt_form_reader *reader, const char *text, size_t length, size_t flags,
                     json_error_t *where);
/** The digits of an integer beyond 64 bits, which jansson has as a real; NULL: it is none. */
const char *kt_form_literal(const struct kt_form_reader *reader, const json_t *value);

/** Operations for a value of a schema that was checked. */
uint32_t kt_form_value(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                       uint32_t next);
/** The values of a plain schema's enum, as far as they fit what else it says. */
uint32_t kt_form_enum(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                      const struct kt_place *place, uint32_t next);
/** An object's members, behind its bracket (object.c). */
uint32_t kt_form_object(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                        uint32_t next);

/** A string of min .. max characters in which a regular expression is found (pattern.c). 0 after a failure.
 */
uint32_t kt_form_pattern(struct kt_form_reader *reader, const char *pattern, const struct kt_place *place,
                         uint32_t min, uint32_t max, uint32_t next);

/** Checks and compiles a whole document, of which `reader` has the program and the error. */
uint32_t kt_form_compile(struct kt_form_reader *reader, json_t *document, uint32_t next);
void kt_form_free(struct kt_form_reader *reader);

#endif
