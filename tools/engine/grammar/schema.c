/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - schemas as operations: alternatives and constants. */
#include "tools/engine/grammar/schema.h"
#include "tools/engine/base/dump.h"

#include <stdlib.h>
#include <string.h>

/* How often an enum's texts may begin alike inside each other ("a", "ab", "abc"): each time takes stack. */
#define MOST_ALIKE 250

uint32_t kt_form_count(const json_t *schema, const char *name, uint32_t otherwise)
{
    const json_t *value = get(schema, name);
    return value && json_number_value(value) < UINT32_MAX ? (uint32_t)json_number_value(value) : otherwise;
}

/* ---- constants ---- */

/* A number as it stands, or with as few digits as give it again. */
static char *write_number(const struct kt_form_reader *reader, const json_t *value)
{
    const char *literal = kt_form_literal(reader, value);
    char *text = literal ? strdup(literal) : NULL;
    if (literal)
        return text;
    for (size_t digits = 1; digits <= 17; digits++) {
        free(text);
        text = kt_json_dump(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *again = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        bool is_same = again && json_equal(again, value);
        json_decref(again);
        if (is_same || !text)
            break;
    }
    return text;
}

static uint32_t constant(struct kt_form_reader *reader, json_t *value, uint32_t next);

static uint32_t constant_list(struct kt_form_reader *reader, json_t *value, uint32_t next)
{
    struct kt_program *p = reader->program;
    next = kt_op_byte(p, ']', 0, next);
    if (json_array_size(value) > 0)
        next = kt_op_blank(p, next);
    for (size_t i = json_array_size(value); i-- > 0;) {
        next = constant(reader, json_array_get(value, i), next);
        next = i ? kt_op_byte(p, ',', 0, kt_op_blank(p, next)) : next;
    }
    return kt_op_byte(p, '[', 0, kt_op_blank(p, next));
}

static uint32_t constant_members(struct kt_form_reader *reader, json_t *value, uint32_t next)
{
    struct kt_program *p = reader->program;
    json_t *pairs = json_array(), *one;
    const char *name;
    next = kt_op_byte(p, '}', 0, next);
    if (json_object_size(value) > 0)
        next = kt_op_blank(p, next);
    json_object_foreach (value, name, one) {
        json_t *pair = json_pack("[sO]", name, one);
        if (!pairs || json_array_append_new(pairs, pair) != 0)
            kt_form_no_memory(reader);
    }
    for (size_t i = json_array_size(pairs); i-- > 0;) {
        const json_t *pair = json_array_get(pairs, i);
        next = constant(reader, json_array_get(pair, 1), next);
        next = constant(reader, json_array_get(pair, 0), kt_op_byte(p, ':', 0, kt_op_blank(p, next)));
        next = i ? kt_op_byte(p, ',', 0, kt_op_blank(p, next)) : next;
    }
    json_decref(pairs);
    return kt_op_byte(p, '{', 0, kt_op_blank(p, next));
}

/* A value as it stands. */
static uint32_t constant(struct kt_form_reader *reader, json_t *value, uint32_t next)
{
    if (!kt_form_enter(reader, NULL))
        return 0;
    kt_form_leave(reader);
    if (json_is_array(value))
        return constant_list(reader, value, next);
    if (json_is_object(value))
        return constant_members(reader, value, next);
    char *text = json_is_real(value) ? write_number(reader, value) : kt_json_dump(value, JSON_ENCODE_ANY);
    if (!text) {
        kt_form_no_memory(reader);
        return 0;
    }
    next = kt_op_text(reader->program, text, strlen(text), 0, next);
    free(text);
    return next;
}

/* ---- texts that begin alike ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What an enum's texts are made into operations with. */
struct choice {
    struct kt_form_reader *reader;
    const struct kt_place *place;
    uint32_t next;
};

/* One of n sorted texts from their byte `at` on: a choice by one byte each time, so however many there are,
 * the machine is in one place. */
static uint32_t choose_text(const struct choice *c, char *const *texts, size_t n, size_t at, unsigned depth)
{
    struct kt_program *p = c->reader->program;
    const char *begin = texts[0] + at;
    size_t n_ranges = 0, i = 0;
    uint32_t end = 0;
    if (n == 1)
        return kt_op_text(p, begin, strlen(begin), 0, c->next);
    if (depth == MOST_ALIKE)
        kt_form_fail(c->reader, KT_E_RANGE, c->place,
                     "the values of enum begin alike in more than %d ways inside each other", MOST_ALIKE);
    struct kt_range *ranges = calloc(n < 256 ? n : 256, sizeof(*ranges));
    if (!ranges)
        kt_form_no_memory(c->reader);
    while (texts[0][at] && texts[0][at] == texts[n - 1][at])
        at++;
    for (; i < n && !texts[i][at]; i++)
        end = c->next;
    while (i < n && c->reader->status == KT_OK) {
        size_t first = i;
        uint8_t byte = (uint8_t)texts[i][at];
        while (i < n && (uint8_t)texts[i][at] == byte)
            i++;
        ranges[n_ranges++] =
            (struct kt_range){byte, byte, choose_text(c, texts + first, i - first, at + 1, depth + 1)};
    }
    uint32_t op = n_ranges ? kt_op_switch(p, ranges, n_ranges, 0) : 0;
    free(ranges);
    return kt_op_text(p, begin, (size_t)(texts[0] + at - begin), 0, kt_op_split(p, op, end));
}

uint32_t kt_form_choose(struct kt_form_reader *reader, const struct kt_place *place, char **texts, size_t n,
                        uint32_t next)
{
    const struct choice choice = {.reader = reader, .place = place, .next = next};
    qsort(texts, n, sizeof(*texts), compare);
    return choose_text(&choice, texts, n, 0, 0);
}

uint32_t kt_form_enum(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                      uint32_t next)
{
    json_t *values = get(schema, "enum"), *value;
    char **texts = calloc(json_array_size(values) + 1, sizeof(*texts));
    size_t i, n = 0;
    uint32_t op = 0;
    if (!texts)
        kt_form_no_memory(reader);
    (void)kt_form_work(reader, place, kt_form_size(values));
    json_t *rest = json_copy((json_t *)(uintptr_t)schema);
    (void)json_object_del(rest, "enum");
    if (!rest)
        kt_form_no_memory(reader);
    json_array_foreach (values, i, value) {
        if (reader->status != KT_OK || !kt_form_valid_plain(reader, rest, value, place))
            continue;
        if (!json_is_string(value))
            op = kt_op_split(reader->program, constant(reader, value, next), op);
        else if ((texts[n] = kt_json_dump(value, JSON_ENCODE_ANY)) != NULL)
            n++;
        else
            kt_form_no_memory(reader);
    }
    json_decref(rest);
    if (n > 0 && reader->status == KT_OK) {
        op = kt_op_split(reader->program, kt_form_choose(reader, place, texts, n, next), op);
    }
    for (i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    return op;
}

/* ---- any schema ---- */

/* Scalars that a plain schema leaves out, of types that have no keywords. */
static uint32_t without_constants(const json_t *schema, uint32_t types, bool *has_true, bool *has_false)
{
    const json_t *one;
    size_t i;
    *has_true = *has_false = true;
    json_array_foreach (get(schema, KT_FORM_NONE), i, one) {
        types &= json_is_null(one) ? ~(uint32_t)KT_IS_NULL : KT_IS_ANY;
        *has_true = *has_true && !json_is_true(one);
        *has_false = *has_false && !json_is_false(one);
    }
    return types;
}

static uint32_t of_types(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                         const struct kt_place *place, uint32_t next)
{
    struct kt_program *p = reader->program;
    bool has_true, has_false;
    uint32_t op = 0;
    types = without_constants(schema, types, &has_true, &has_false);
    if (types & KT_IS_OBJECT)
        op = kt_op_byte(p, '{', 0, kt_form_object(reader, schema, place, next));
    if (types & KT_IS_ARRAY)
        op = kt_op_split(p, kt_form_array(reader, schema, place, next), op);
    if (types & KT_IS_STRING)
        op = kt_op_split(p, kt_form_string(reader, schema, place, next), op);
    if (types & (KT_IS_NUMBER | KT_IS_INTEGER))
        op = kt_op_split(p, kt_form_number(reader, schema, types, place, next), op);
    if (types & KT_IS_BOOLEAN && has_true)
        op = kt_op_split(p, kt_op_text(p, "true", 4, 0, next), op);
    if (types & KT_IS_BOOLEAN && has_false)
        op = kt_op_split(p, kt_op_text(p, "false", 5, 0, next), op);
    if (types & KT_IS_NULL)
        op = kt_op_split(p, kt_op_text(p, "null", 4, 0, next), op);
    return op;
}

static uint32_t plain(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                      uint32_t next)
{
    uint32_t types = kt_form_types(schema);
    if (get(schema, "enum"))
        return kt_form_enum(reader, schema, place, next);
    if (!kt_form_asserts(schema, "nullable"))
        return kt_op_value(reader->program, next);
    return of_types(reader, schema, types, place, next);
}

/* A schema that a reference names: compiled once, and called from then on. */
static uint32_t rule(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place)
{
    for (size_t i = 0; i < reader->n_rules; i++) {
        if (reader->rules[i].schema != schema)
            continue;
        if (reader->rules[i].op == 0) {
            uint32_t start = kt_op_reserve(reader->program);
            reader->rules[i].op = start;
            kt_op_place(reader->program, start,
                        kt_form_value(reader, schema, place, kt_op_return(reader->program)));
        }
        return reader->rules[i].op;
    }
    return 0;
}

/* Schemas of which any fits, `name` of them. */
static uint32_t any_of(struct kt_form_reader *reader, const json_t *schema, const char *name,
                       const struct kt_place *place, uint32_t next)
{
    const struct kt_place outer = {place, name, 0};
    json_t *list = get(schema, name), *one;
    uint32_t op = 0;
    size_t i;
    json_array_foreach (list, i, one) {
        const struct kt_place inner = {&outer, NULL, i};
        op = kt_op_split(reader->program, kt_form_value(reader, one, &inner, next), op);
    }
    return op;
}

static uint32_t expanded(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                         uint32_t next)
{
    json_t *list = json_array(), *one;
    uint32_t op = 0;
    size_t i;
    if (!list)
        kt_form_no_memory(reader);
    else if (kt_form_expand(reader, schema, place, list))
        json_array_foreach (list, i, one) {
            op = kt_op_split(reader->program, plain(reader, one, place, next), op);
        }
    json_decref(list);
    return op;
}

uint32_t kt_form_value(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                       uint32_t next)
{
    const struct kt_place one_of = {place, "oneOf", 0};
    uint32_t op = 0;
    if (json_is_false(schema) || !kt_form_enter(reader, place))
        return 0;
    const json_t *reference = get(schema, "$ref") ? get(schema, "$ref") : get(schema, "$dynamicRef");
    const char *name = get(schema, "$ref") ? "$ref" : "$dynamicRef";
    if (reference && !kt_form_asserts(schema, name)) {
        const json_t *found = kt_form_find(reader, reference, place);
        uint32_t start = found ? rule(reader, found, place) : 0;
        op = start ? kt_op_call(reader->program, start, next) : 0;
    } else if (get(schema, "anyOf") && !kt_form_asserts(schema, "anyOf")) {
        op = any_of(reader, schema, "anyOf", place, next);
    } else if (get(schema, "oneOf") && !kt_form_asserts(schema, "oneOf") &&
               kt_form_excludes(reader, get(schema, "oneOf"), &one_of)) {
        op = any_of(reader, schema, "oneOf", place, next);
    } else if (kt_form_is_composed(schema)) {
        op = expanded(reader, schema, place, next);
    } else {
        op = plain(reader, schema, place, next);
    }
    kt_form_leave(reader);
    return op;
}

uint32_t kt_form_compile(struct kt_form_reader *reader, json_t *document, uint32_t next)
{
    reader->root = document;
    reader->n_rules = 0;
    reader->n_annotated = 0;
    return kt_form_check(reader, document, NULL) ? kt_form_value(reader, document, NULL, next) : 0;
}

void kt_form_free(struct kt_form_reader *reader)
{
    free(reader->rules);
    json_decref(reader->literals);
}
