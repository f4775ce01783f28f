/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - from a JSON Schema to a program, in three steps:
 *
 *     check.c     every keyword that is reached is one that the others enforce
 *     expand.c    references, compositions, conditions -> alternatives without them (merge.c: of two at once,
 *                 negate.c: of what must not fit, valid.c: which constants fit)
 *     schema.c    those -> operations (object.c, array.c, string.c, bounds.c)
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

/** A keyword of a schema; NULL: it has none, or is not an object. */
static inline json_t *get(const json_t *schema, const char *name)
{
    return json_object_get(schema, name);
}

struct kt_form_reader {
    json_t *root; /**< to which references are relative */
    struct kt_program *program;
    struct kt_error *error;
    enum kt_status status; /**< the first one that was not KT_OK */
    struct kt_rule *rules; /**< what references led to */
    size_t n_rules, rules_capacity;
    unsigned depth, n;
    const char *subject;  /**< of messages; NULL: the JSON schema, and where */
    bool is_raw;          /**< strings that expressions write stand as they are, without quotes */
    unsigned n_annotated; /**< schemas around that say what of a value is unevaluated */
    uint64_t work;        /**< what it took so far, the same on any machine */
    json_t *literals; /**< of integers beyond 64 bits: the double in hexadecimal, and the digits (bounds.c) */
};

/** Bits of types. */
enum {
    KT_IS_NULL = 1,
    KT_IS_BOOLEAN = 2,
    KT_IS_INTEGER = 4,
    KT_IS_NUMBER = 8, /**< that is not an integer; a schema's `number` is both */
    KT_IS_STRING = 16,
    KT_IS_ARRAY = 32,
    KT_IS_OBJECT = 64,
    KT_IS_ANY = 127
};

/** What is asked of an expression; of the same one twice, both. */
enum kt_text_asked { KT_TEXT_FOUND = 1, KT_TEXT_NOT_FOUND = 2 };

/** Keywords of plain schemas that no document has: expressions and what is asked of each; values that are
 * left out; [{schema, min, max, from}], items that fit; [{names, schema}], a member of none of these names
 * that fits; numbers that do not divide; members and items that only a `not` speaks of. */
#define KT_FORM_TEXTS "\1texts"
#define KT_FORM_NONE "\1none"
#define KT_FORM_HOLDS "\1holds"
#define KT_FORM_SOME "\1some"
#define KT_FORM_UNDIVIDED "\1undivided"
#define KT_FORM_UNSEEN "\1unseen"
#define KT_FORM_UNSEEN_ITEMS "\1unseenItems"
/** And a type: KT_IS_NUMBER alone. */
#define KT_FORM_FRACTION "\1fraction"

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
/** Has it a keyword that kt_form_expand takes away? */
bool kt_form_is_composed(const json_t *schema);
/** Bits of `type`, and of null by `nullable`; KT_IS_ANY where there is none. */
uint32_t kt_form_types(const json_t *schema);

/** Appends to `list` alternatives that are plain: objects without references, compositions, conditions. What
 * none of them allows the schema does not. */
bool kt_form_expand(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                    json_t *list);
/** The same for what does not fit the schema (negate.c). */
bool kt_form_negate(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                    json_t *list);
/** Each plain schema of `list` together with each of `with`, instead of `list`. */
bool kt_form_cross(struct kt_form_reader *reader, json_t *list, const json_t *with,
                   const struct kt_place *place);

/* ---- merge.c ---- */

/** {"allOf": [a, b]}; NULL stands for true. */
json_t *kt_form_both(json_t *a, json_t *b);
/** A list of types for these bits; NULL: no memory. */
json_t *kt_form_type_list(uint32_t bits);
/** A number exactly: it has the 64 bits of an integer, too. */
long double kt_form_exactly(const json_t *value);
/** Whether two values are one: 1 and 1.0 are. */
bool kt_form_same(const json_t *a, const json_t *b);
/** What it takes to merge two plain schemas; and to make of one what fits both. */
uint64_t kt_form_weigh(const json_t *a, const json_t *b);
bool kt_form_merge(struct kt_form_reader *reader, json_t *into, const json_t *from,
                   const struct kt_place *place);

/* ---- valid.c ---- */

/** Does each value fit at most one of the schemas of a list? What is not found out is no. */
bool kt_form_excludes(struct kt_form_reader *reader, const json_t *list, const struct kt_place *place);
/** Is a value of the types, and within the bounds that a plain schema has for numbers and lengths? */
bool kt_form_fits(const json_t *schema, uint32_t types, const json_t *value);
/** Does a value fit a schema, and a plain one? False after a failure, too. */
bool kt_form_valid(struct kt_form_reader *reader, const json_t *schema, const json_t *value,
                   const struct kt_place *place);
bool kt_form_valid_plain(struct kt_form_reader *reader, const json_t *schema, const json_t *value,
                         const struct kt_place *place);
/** Is it seen at once that nothing fits a plain schema? */
bool kt_form_is_void(const json_t *schema);

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
/** One of `n` texts, which are sorted; `place` is for messages. */
uint32_t kt_form_choose(struct kt_form_reader *reader, const struct kt_place *place, char **texts, size_t n,
                        uint32_t next);
/** The values of a plain schema's enum, as far as they fit what else it says. */
uint32_t kt_form_enum(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                      uint32_t next);
/** An object's members, behind its bracket (object.c). */
uint32_t kt_form_object(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                        uint32_t next);

/** A list, behind its bracket to `next` (array.c). */
uint32_t kt_form_array(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                       uint32_t next);
/** A string (string.c). */
uint32_t kt_form_string(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                        uint32_t next);
/** The expression of a format; NULL after a failure. */
const char *kt_form_format(struct kt_form_reader *reader, const char *name, const struct kt_place *place);
/** All expressions of a plain schema, of pattern and format, too, and what is asked of each; NULL after a
 * failure. */
json_t *kt_form_texts(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place);
/** A count that a schema sets; `otherwise` if it sets none, or one above 2^32. */
uint32_t kt_form_count(const json_t *schema, const char *name, uint32_t otherwise);

/** A string of min .. max characters in which a regular expression is found (pattern.c). 0 after a failure.
 */
uint32_t kt_form_pattern(struct kt_form_reader *reader, const char *pattern, const struct kt_place *place,
                         uint32_t min, uint32_t max, uint32_t next);

/** A text that rules of GBNF describe (gbnf.c). */
uint32_t kt_form_rules(struct kt_form_reader *reader, const char *text, uint32_t next);

/** Checks and compiles a whole document, of which `reader` has the program and the error. */
uint32_t kt_form_compile(struct kt_form_reader *reader, json_t *document, uint32_t next);
void kt_form_free(struct kt_form_reader *reader);

#endif
