/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - schemas as operations: alternatives, constants, strings, numbers, arrays. */
#include "tools/engine/grammar/schema.h"
#include "tools/engine/base/dump.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How often an enum's texts may begin alike inside each other ("a", "ab", "abc"): each time takes stack. */
#define MOST_ALIKE 250

static json_t *get(const json_t *schema, const char *name)
{
    return json_object_get(schema, name);
}

static uint32_t count_of(const json_t *schema, const char *name, uint32_t otherwise)
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

uint32_t kt_form_enum(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                      const struct kt_place *place, uint32_t next)
{
    const struct choice choice = {.reader = reader, .place = place, .next = next};
    json_t *values = get(schema, "enum"), *value;
    char **texts = calloc(json_array_size(values) + 1, sizeof(*texts));
    size_t i, n = 0;
    uint32_t op = 0;
    if (!texts)
        kt_form_no_memory(reader);
    (void)kt_form_work(reader, place, kt_form_size(values));
    if (get(schema, "pattern") || get(schema, "format"))
        kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                     "enum together with pattern or format is not supported");
    json_array_foreach (values, i, value) {
        if (reader->status != KT_OK || !kt_form_fits(schema, types, value))
            continue;
        if (!json_is_string(value))
            op = kt_op_split(reader->program, constant(reader, value, next), op);
        else if ((texts[n] = kt_json_dump(value, JSON_ENCODE_ANY)) != NULL)
            n++;
        else
            kt_form_no_memory(reader);
        if ((json_is_object(value) &&
             (get(schema, "properties") || get(schema, "required") || get(schema, "additionalProperties") ||
              get(schema, "patternProperties"))) ||
            (json_is_array(value) && (get(schema, "items") || get(schema, "prefixItems"))))
            kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                         "enum of objects or arrays together with keywords for these is not supported");
    }
    if (n > 0 && reader->status == KT_OK) {
        qsort(texts, n, sizeof(*texts), compare);
        op = kt_op_split(reader->program, choose_text(&choice, texts, n, 0, 0), op);
    }
    for (i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    return op;
}

/* ---- strings ---- */

/* Years that four divides, but for hundreds that it does not. */
#define LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                       \
    "([0-9]{4}-(0[13578]-(0[1-9]|[12][0-9]|3[01])|1[02]-(0[1-9]|[12][0-9]|3[01])|" \
    "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

static const char *format_pattern(const char *name)
{
    static const char *const patterns[][2] =
        {{"date", "^" DATE "$"},
         {"time", "^" TIME "$"},
         {"date-time", "^" DATE "T" TIME "$"},
         {"uuid", "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
         {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
         {"email", "^[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16}){0,3}@[a-z0-9]{1,32}(-[a-z0-9]{1,16})?"
                   "(\\.[a-z0-9]{1,16}){0,3}\\.[a-z]{2,12}$"}};
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (strcmp(patterns[i][0], name) == 0)
            return patterns[i][1];
    return NULL;
}

static uint32_t string(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                       uint32_t next)
{
    const char *pattern = json_string_value(get(schema, "pattern"));
    const char *format = json_string_value(get(schema, "format"));
    uint32_t min = count_of(schema, "minLength", 0), max = count_of(schema, "maxLength", UINT32_MAX);
    if (min > max)
        return 0;
    if (format && !format_pattern(format))
        kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                     "format '%.40s' is not supported; date, time, date-time, uuid, ipv4 and email are",
                     format);
    else if (format && pattern)
        kt_form_fail(reader, KT_E_UNSUPPORTED, place, "pattern together with format is not supported");
    if (reader->status != KT_OK)
        return 0;
    if (format || pattern)
        return kt_form_pattern(reader, format ? format_pattern(format) : pattern, place, min, max, next);
    return kt_op_string_sized(reader->program, min, max, next);
}

/* ---- arrays ---- */

struct array {
    struct kt_form_reader *reader;
    const json_t *prefix, *items;
    const struct kt_place *place;
    uint32_t min, max, n_prefix;
    uint32_t close; /* the bracket, and blanks before it */
};

static uint32_t comma(struct kt_program *p, uint32_t item)
{
    return item ? kt_op_byte(p, ',', 0, kt_op_blank(p, item)) : 0;
}

/* Items behind those of the prefix. Sets *first to one of them, and returns what follows one or the prefix.
 */
static uint32_t further_items(const struct array *a, uint32_t *first)
{
    struct kt_program *p = a->reader->program;
    const struct kt_place place = {a->place, "items", 0};
    uint32_t min = a->min > a->n_prefix ? a->min - a->n_prefix : 0, after = kt_op_reserve(p);
    uint32_t max = a->max == UINT32_MAX ? a->max : a->max > a->n_prefix ? a->max - a->n_prefix : 0;
    bool counts = min > 1 || max != UINT32_MAX;
    *first = 0;
    if (max > 0)
        *first = kt_form_value(a->reader, a->items ? a->items : json_true(), &place,
                               counts ? kt_op_count(p, max == UINT32_MAX ? min : max, after) : after);
    uint32_t more = comma(p, *first), op = kt_op_split(p, a->close, more);
    if (max != UINT32_MAX)
        op = kt_op_less(p, max, op, a->close);
    if (min > 1)
        op = kt_op_less(p, min, more, op);
    kt_op_place(p, after, op);
    return min == 0 ? after : more; /* behind the prefix: the first one must come, if any must */
}

static uint32_t array_rule(struct array *a)
{
    struct kt_program *p = a->reader->program;
    const struct kt_place prefix = {a->place, "prefixItems", 0};
    uint32_t first = 0, after = further_items(a, &first);
    if (a->n_prefix == 0)
        return kt_op_blank(p, a->min > 0 ? first
                                         : kt_op_split(p, kt_op_byte(p, ']', 0, kt_op_return(p)), first));
    uint32_t item = 0;
    for (uint32_t i = a->n_prefix; i-- > 0;) {
        const struct kt_place place = {&prefix, NULL, i};
        if (i + 1 < a->n_prefix) { /* `item` is number i + 1 */
            after = i + 1 < a->max ? comma(p, item) : 0;
            after = i + 1 >= a->min ? kt_op_split(p, a->close, after) : after;
        }
        item = i < a->max ? kt_form_value(a->reader, json_array_get(a->prefix, i), &place, after) : 0;
    }
    uint32_t empty = a->min == 0 ? kt_op_byte(p, ']', 0, kt_op_return(p)) : 0;
    return kt_op_blank(p, kt_op_split(p, empty, item));
}

static uint32_t array(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                      uint32_t next)
{
    struct kt_program *p = reader->program;
    struct array a = {.reader = reader,
                      .prefix = get(schema, "prefixItems"),
                      .items = get(schema, "items"),
                      .place = place,
                      .min = count_of(schema, "minItems", 0),
                      .max = count_of(schema, "maxItems", UINT32_MAX)};
    a.n_prefix = (uint32_t)json_array_size(a.prefix);
    if (a.min > a.max)
        return 0;
    a.close = kt_op_blank(p, kt_op_byte(p, ']', 0, kt_op_return(p)));
    return kt_op_byte(p, '[', 0, kt_op_call(p, array_rule(&a), next));
}

/* ---- any schema ---- */

/* The types that a schema without `type` means: that of its keywords. */
static uint32_t guess_types(const json_t *schema)
{
    static const struct {
        const char *name;
        uint32_t types;
    } hints[] = {{"properties", KT_IS_OBJECT},
                 {"required", KT_IS_OBJECT},
                 {"additionalProperties", KT_IS_OBJECT},
                 {"patternProperties", KT_IS_OBJECT},
                 {"items", KT_IS_ARRAY},
                 {"prefixItems", KT_IS_ARRAY},
                 {"minItems", KT_IS_ARRAY},
                 {"maxItems", KT_IS_ARRAY},
                 {"minLength", KT_IS_STRING},
                 {"maxLength", KT_IS_STRING},
                 {"pattern", KT_IS_STRING},
                 {"format", KT_IS_STRING},
                 {"minimum", KT_IS_NUMBER},
                 {"maximum", KT_IS_NUMBER},
                 {"exclusiveMinimum", KT_IS_NUMBER},
                 {"exclusiveMaximum", KT_IS_NUMBER},
                 {"multipleOf", KT_IS_NUMBER}};
    uint32_t types = 0;
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        types |= get(schema, hints[i].name) ? hints[i].types : 0;
    types |= types & KT_IS_NUMBER ? KT_IS_INTEGER : 0;
    return types ? types : KT_IS_ANY;
}

static uint32_t of_types(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                         const struct kt_place *place, uint32_t next)
{
    struct kt_program *p = reader->program;
    uint32_t op = 0;
    if (types & KT_IS_OBJECT)
        op = kt_op_byte(p, '{', 0, kt_form_object(reader, schema, place, next));
    if (types & KT_IS_ARRAY)
        op = kt_op_split(p, array(reader, schema, place, next), op);
    if (types & KT_IS_STRING)
        op = kt_op_split(p, string(reader, schema, place, next), op);
    if (types & (KT_IS_NUMBER | KT_IS_INTEGER))
        op = kt_op_split(p, kt_form_number(reader, schema, types, place, next), op);
    if (types & KT_IS_BOOLEAN)
        op =
            kt_op_split(p,
                        kt_op_split(p, kt_op_text(p, "true", 4, 0, next), kt_op_text(p, "false", 5, 0, next)),
                        op);
    if (types & KT_IS_NULL)
        op = kt_op_split(p, kt_op_text(p, "null", 4, 0, next), op);
    return op;
}

static uint32_t plain(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                      uint32_t next)
{
    uint32_t types = kt_form_types(schema);
    if (get(schema, "enum"))
        return kt_form_enum(reader, schema, types, place, next);
    if (get(schema, "type"))
        return of_types(reader, schema, types, place, next);
    types = guess_types(schema);
    if (types == KT_IS_ANY)
        return kt_op_value(reader->program, next);
    types |= json_is_true(get(schema, "nullable")) ? KT_IS_NULL : 0;
    uint32_t op = of_types(reader, schema, types, place, next); /* if nothing fits, values of other types */
    return kt_op_else(reader->program, op, of_types(reader, schema, KT_IS_ANY & ~types, place, next));
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
    if (strcmp(name, "oneOf") == 0 && !kt_form_excludes(reader, list, &outer))
        return 0;
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
    uint32_t op = 0;
    if (json_is_false(schema) || !kt_form_enter(reader, place))
        return 0;
    const json_t *reference = get(schema, "$ref");
    if (reference && !kt_form_asserts(schema, "$ref")) {
        const json_t *found = kt_form_find(reader, reference, place);
        uint32_t start = found ? rule(reader, found, place) : 0;
        op = start ? kt_op_call(reader->program, start, next) : 0;
    } else if (get(schema, "anyOf") && !kt_form_asserts(schema, "anyOf")) {
        op = any_of(reader, schema, "anyOf", place, next);
    } else if (get(schema, "oneOf") && !kt_form_asserts(schema, "oneOf")) {
        op = any_of(reader, schema, "oneOf", place, next);
    } else if (reference || get(schema, "anyOf") || get(schema, "oneOf") || get(schema, "allOf") ||
               get(schema, "const")) {
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
    return kt_form_check(reader, document, NULL) ? kt_form_value(reader, document, NULL, next) : 0;
}

void kt_form_free(struct kt_form_reader *reader)
{
    free(reader->rules);
    json_decref(reader->literals);
}
