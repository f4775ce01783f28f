/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expand.c - a schema as alternatives of plain ones, in which no reference and no composition is left. What
 * holds of two schemas at once is merged, keyword by keyword; schemas of members and items are only put into
 * an allOf, to be merged when they are read themselves.
 */
#include "tools/engine/grammar/schema.h"

#include <math.h>
#include <string.h>

#define MOST_ALTERNATIVES 256

static bool set_new(struct kt_form_reader *reader, json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 || kt_form_no_memory(reader);
}

static json_t *get(const json_t *schema, const char *name)
{
    return json_object_get(schema, name);
}

/* ---- merging ---- */

/* {"allOf": [a, b]}; NULL stands for true. */
static json_t *both(json_t *a, json_t *b)
{
    if (!a || !b || a == b)
        return a || b ? json_incref(a ? a : b) : json_true();
    if (json_is_true(a) || json_is_false(b))
        return json_incref(b);
    if (json_is_true(b) || json_is_false(a))
        return json_incref(a);
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

static bool merge_types(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    uint32_t bits = kt_form_types(into) & kt_form_types(from);
    if (!get(into, "type") && !get(from, "type"))
        return true;
    json_t *list = json_array();
    bool done = list != NULL;
    for (unsigned i = 0; i < 7; i++)
        if (bits & (1u << i) && !(i == 2 && bits & KT_IS_NUMBER))
            done = done && json_array_append_new(list, json_string(names[i])) == 0;
    (void)json_object_del(into, "nullable");
    bool set = set_new(reader, into, "type", list);
    return (done && set) || kt_form_no_memory(reader);
}

/* A number exactly: it has the 64 bits of an integer, too. */
static long double exactly(const json_t *value)
{
    return json_is_integer(value) ? (long double)json_integer_value(value) : json_number_value(value);
}

/* The larger one, or the smaller one, of two bounds. */
static bool merge_bounds(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    static const char *const larger[] = {"minItems", "minLength", "minimum", "exclusiveMinimum", NULL};
    static const char *const smaller[] = {"maxItems", "maxLength", "maximum", "exclusiveMaximum", NULL};
    for (unsigned way = 0; way < 2; way++)
        for (const char *const *name = way ? smaller : larger; *name; name++) {
            json_t *a = get(into, *name), *b = get(from, *name);
            bool takes = b && (!a || (way ? exactly(b) < exactly(a) : exactly(b) > exactly(a)));
            if (takes && json_object_set(into, *name, b) != 0)
                return kt_form_no_memory(reader);
        }
    return true;
}

/* What both divide: 4 and 6 divide what 12 does. */
static bool merge_divisors(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    double a = json_number_value(get(into, "multipleOf")), b = json_number_value(get(from, "multipleOf"));
    if (b <= 0)
        return true;
    double x = a, y = b;
    while (a > 0 && y > 0) { /* Euclid's */
        double rest = fmod(x, y);
        x = y;
        y = rest;
    }
    return set_new(reader, into, "multipleOf", json_real(a > 0 ? a / x * b : b));
}

static bool merge_texts(struct kt_form_reader *reader, json_t *into, const json_t *from,
                        const struct kt_place *place)
{
    static const char *const names[] = {"pattern", "format"};
    for (unsigned i = 0; i < 2; i++) {
        json_t *a = get(into, names[i]), *b = get(from, names[i]);
        if (a && b && !json_equal(a, b))
            return kt_form_fail(reader, KT_E_UNSUPPORTED, place, "one string must have two different %ss",
                                names[i]);
        if (b && json_object_set(into, names[i], b) != 0)
            return kt_form_no_memory(reader);
    }
    return true;
}

/* 1 and 1.0 are one value. */
static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return exactly(a) == exactly(b);
    return json_equal(a, b);
}

static bool merge_enums(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    json_t *a = get(into, "enum"), *b = get(from, "enum"), *one, *other;
    size_t i, k;
    if (!a || !b)
        return !b || json_object_set(into, "enum", b) == 0 || kt_form_no_memory(reader);
    json_t *list = json_array();
    bool done = list != NULL;
    json_array_foreach (a, i, one) {
        bool found = false;
        json_array_foreach (b, k, other) {
            found = found || is_same(one, other);
        }
        done = done && (!found || json_array_append(list, one) == 0);
    }
    bool set = set_new(reader, into, "enum", list);
    return (done && set) || kt_form_no_memory(reader);
}

/* What a schema says of one member. */
static json_t *member(const json_t *schema, const char *name)
{
    json_t *own = get(get(schema, "properties"), name);
    return own || get(schema, "patternProperties") ? own : get(schema, "additionalProperties");
}

static bool names_members(const json_t *schema)
{
    return get(schema, "properties") || get(schema, "patternProperties") ||
           get(schema, "additionalProperties");
}

/* additionalProperties is for what its own schema does not name, which a merged one would no longer tell. */
static bool merge_patterns(struct kt_form_reader *reader, json_t *into, const json_t *from,
                           const struct kt_place *place)
{
    json_t *a = get(into, "patternProperties"), *b = get(from, "patternProperties"), *value;
    const char *pattern;
    if (!a && !b)
        return true;
    if (names_members(into) && names_members(from) &&
        (get(into, "additionalProperties") || get(from, "additionalProperties")))
        return kt_form_fail(
            reader, KT_E_UNSUPPORTED, place,
            "patternProperties and additionalProperties of schemas that hold together are not "
            "supported; put them into one");
    json_t *merged = a ? json_copy(a) : json_object();
    bool done = merged != NULL;
    json_object_foreach (b, pattern, value) {
        done = done && json_object_set_new(merged, pattern, both(get(a, pattern), value)) == 0;
    }
    done = done && json_object_set(into, "patternProperties", merged) == 0;
    json_decref(merged);
    return done || kt_form_no_memory(reader);
}

static bool merge_members(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    json_t *sides[] = {get(into, "properties"), get(from, "properties")}, *value;
    json_t *merged = json_object(), *others = get(from, "additionalProperties"), *required = json_array();
    const char *name;
    size_t k;
    bool done = merged && required;
    for (unsigned i = 0; i < 2; i++)
        json_object_foreach (sides[i], name, value) {
            if (done && !get(merged, name))
                done = json_object_set_new(merged, name, both(member(into, name), member(from, name))) == 0;
        }
    json_t *lists[] = {get(into, "required"), get(from, "required")};
    for (unsigned i = 0; i < 2; i++)
        json_array_foreach (lists[i], k, value) {
            done = done && json_array_append(required, value) == 0;
        }
    if (done && json_object_size(merged) > 0)
        done = json_object_set(into, "properties", merged) == 0;
    if (done && json_array_size(required) > 0)
        done = json_object_set(into, "required", required) == 0;
    if (done && others)
        done = json_object_set_new(into, "additionalProperties",
                                   both(get(into, "additionalProperties"), others)) == 0;
    json_decref(merged);
    json_decref(required);
    return done || kt_form_no_memory(reader);
}

static bool merge_items(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    json_t *a = get(into, "prefixItems"), *b = get(from, "prefixItems"), *others = get(from, "items");
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    json_t *list = json_array();
    bool done = list != NULL;
    for (size_t i = 0; i < n && done; i++) {
        json_t *one = i < json_array_size(a) ? json_array_get(a, i) : get(into, "items");
        json_t *other = i < json_array_size(b) ? json_array_get(b, i) : others;
        done = json_array_append_new(list, both(one, other)) == 0;
    }
    if (done && n > 0)
        done = json_object_set(into, "prefixItems", list) == 0;
    if (done && others)
        done = json_object_set_new(into, "items", both(get(into, "items"), others)) == 0;
    json_decref(list);
    return done || kt_form_no_memory(reader);
}

/* What it takes to merge two schemas: members, and pairs of values that both may have. */
static uint64_t weigh(const json_t *a, const json_t *b)
{
    static const char *const names[] = {"properties", "patternProperties", "required", "prefixItems"};
    const json_t *x = get(a, "enum"), *y = get(b, "enum");
    uint64_t n = 1 + json_object_size(a) + json_object_size(b);
    for (unsigned i = 0; i < 4; i++)
        n += json_object_size(get(a, names[i])) + json_object_size(get(b, names[i])) +
             json_array_size(get(a, names[i])) + json_array_size(get(b, names[i]));
    n *= 10; /* steps of a machine */
    return x && y ? n + json_array_size(x) * kt_form_size(y) + json_array_size(y) * kt_form_size(x) : n;
}

static bool merge(struct kt_form_reader *reader, json_t *into, const json_t *from,
                  const struct kt_place *place)
{
    return merge_types(reader, into, from) && merge_bounds(reader, into, from) &&
           merge_divisors(reader, into, from) && merge_texts(reader, into, from, place) &&
           merge_enums(reader, into, from) && merge_patterns(reader, into, from, place) &&
           merge_members(reader, into, from) && merge_items(reader, into, from);
}

/* ---- alternatives ---- */

/* Each of `list` together with each of `with`, instead of `list`. */
static bool cross(struct kt_form_reader *reader, json_t *list, const json_t *with,
                  const struct kt_place *place)
{
    json_t *crossed = json_array(), *a, *b;
    size_t i, k;
    bool done = crossed != NULL || kt_form_no_memory(reader);
    if (json_array_size(list) * json_array_size(with) > MOST_ALTERNATIVES)
        done = kt_form_fail(reader, KT_E_RANGE, place, "more than %d alternatives", MOST_ALTERNATIVES);
    json_array_foreach (list, i, a) {
        json_array_foreach (with, k, b) {
            done = done && kt_form_work(reader, place, weigh(a, b));
            json_t *merged = done ? json_copy(a) : NULL;
            if (done && (!merged || json_array_append_new(crossed, merged) != 0))
                done = kt_form_no_memory(reader);
            done = done && merge(reader, merged, b, place);
        }
    }
    if (done && (json_array_clear(list) != 0 || json_array_extend(list, crossed) != 0))
        done = kt_form_no_memory(reader);
    json_decref(crossed);
    return done;
}

/* `list` together with what fits any of `schemas`. */
static bool cross_any(struct kt_form_reader *reader, json_t *list, const json_t *schemas,
                      const struct kt_place *place)
{
    json_t *all = json_array(), *one;
    size_t i;
    bool done = all != NULL || kt_form_no_memory(reader);
    json_array_foreach (schemas, i, one) {
        const struct kt_place inner = {place, NULL, i};
        done = done && kt_form_expand(reader, one, &inner, all);
    }
    done = done && cross(reader, list, all, place);
    json_decref(all);
    return done;
}

/* A copy without what is expanded; `const` becomes `enum`. */
static json_t *copy_plain(const json_t *schema)
{
    static const char *const left[] = {"$ref", "allOf", "anyOf", "oneOf", "const"};
    json_t *copy = json_copy((json_t *)(uintptr_t)schema), *value = get(schema, "const");
    for (unsigned i = 0; i < 5 && copy; i++)
        (void)json_object_del(copy, left[i]);
    if (copy && value && !get(copy, "enum"))
        (void)json_object_set_new(copy, "enum", json_pack("[O]", value));
    return copy;
}

/* enum and const at once. */
static bool cross_constant(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                           const struct kt_place *place)
{
    json_t *value = get(schema, "const");
    if (!value || !get(schema, "enum"))
        return true;
    json_t *with = json_pack("[{s:[O]}]", "enum", value);
    bool done = with ? cross(reader, list, with, place) : kt_form_no_memory(reader);
    json_decref(with);
    return done;
}

static bool expand_object(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                          json_t *list)
{
    const struct kt_place all = {place, "allOf", 0}, any = {place, "anyOf", 0}, one = {place, "oneOf", 0};
    json_t *alternatives = json_array(), *plain = copy_plain(schema), *part;
    const json_t *reference = get(schema, "$ref");
    size_t i, length = json_object_size(schema) + json_string_length(reference);
    bool done = alternatives && plain && json_array_append(alternatives, plain) == 0;
    done = done || kt_form_no_memory(reader);
    done = done && kt_form_work(reader, place, 10 * length);
    done = done && cross_constant(reader, alternatives, schema, place);
    if (done && reference) {
        json_t *found = kt_form_find(reader, reference, place),
               *with = found ? json_pack("[O]", found) : NULL;
        done = with && cross_any(reader, alternatives, with, place);
        json_decref(with);
    }
    json_array_foreach (get(schema, "allOf"), i, part) {
        json_t *with = done ? json_pack("[O]", part) : NULL;
        done = with && cross_any(reader, alternatives, with, &all);
        json_decref(with);
    }
    if (done && get(schema, "anyOf"))
        done = cross_any(reader, alternatives, get(schema, "anyOf"), &any);
    if (done && get(schema, "oneOf"))
        done = kt_form_excludes(reader, get(schema, "oneOf"), &one) &&
               cross_any(reader, alternatives, get(schema, "oneOf"), &one);
    if (done && json_array_size(list) + json_array_size(alternatives) > MOST_ALTERNATIVES)
        done = kt_form_fail(reader, KT_E_RANGE, place, "more than %d alternatives", MOST_ALTERNATIVES);
    done = done && (json_array_extend(list, alternatives) == 0 || kt_form_no_memory(reader));
    json_decref(plain);
    json_decref(alternatives);
    return done;
}

bool kt_form_expand(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                    json_t *list)
{
    if (json_is_false(schema))
        return true;
    if (json_is_true(schema))
        return json_array_append_new(list, json_object()) == 0 || kt_form_no_memory(reader);
    if (!kt_form_enter(reader, place))
        return false;
    bool done = expand_object(reader, schema, place, list);
    kt_form_leave(reader);
    return done;
}

/* ---- what excludes what ---- */

static uint32_t type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return KT_IS_OBJECT;
    case JSON_ARRAY:
        return KT_IS_ARRAY;
    case JSON_STRING:
        return KT_IS_STRING;
    case JSON_INTEGER:
        return KT_IS_INTEGER;
    case JSON_REAL:
        return KT_IS_NUMBER;
    case JSON_NULL:
        return KT_IS_NULL;
    default:
        return KT_IS_BOOLEAN;
    }
}

static bool within(const json_t *schema, const char *min, const char *max, long double value)
{
    const json_t *low = get(schema, min), *high = get(schema, max);
    return (!low || value >= exactly(low)) && (!high || value <= exactly(high));
}

bool kt_form_fits(const json_t *schema, uint32_t types, const json_t *value)
{
    size_t n = 0;
    bool is_whole = json_is_real(value) && json_real_value(value) == floor(json_real_value(value));
    if (!(types & (type_of(value) | (is_whole ? (uint32_t)KT_IS_INTEGER : 0))))
        return false;
    if (json_is_number(value)) {
        const json_t *low = get(schema, "exclusiveMinimum"), *high = get(schema, "exclusiveMaximum");
        long double number = exactly(value), divisor = exactly(get(schema, "multipleOf"));
        if (divisor > 0 && fmodl(number, divisor) != 0)
            return false;
        return within(schema, "minimum", "maximum", number) && (!low || number > exactly(low)) &&
               (!high || number < exactly(high));
    }
    for (const char *text = json_string_value(value); text && *text; text++)
        n += (*text & 0xc0) != 0x80;
    if (json_is_string(value))
        return within(schema, "minLength", "maxLength", (long double)n);
    return !json_is_array(value) ||
           within(schema, "minItems", "maxItems", (long double)json_array_size(value));
}

static bool is_empty(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                     int depth);

/* Can no value fit a plain schema? What is not found out is no. */
static bool is_empty_plain(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                           int depth)
{
    uint32_t types = kt_form_types(schema);
    const json_t *values = get(schema, "enum"), *one;
    size_t i;
    bool fits = types != 0;
    if (values && kt_form_work(reader, place, kt_form_size(values))) {
        fits = false;
        json_array_foreach (values, i, one) {
            fits = fits || kt_form_fits(schema, types, one);
        }
    }
    if (types == KT_IS_OBJECT)
        json_array_foreach (get(schema, "required"), i, one) {
            const json_t *its = member(schema, json_string_value(one));
            fits = fits && !(its && is_empty(reader, its, place, depth + 1));
        }
    return !fits;
}

static bool is_empty(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                     int depth)
{
    json_t *list = json_array(), *one;
    size_t i;
    bool empty = depth < 4 && list && kt_form_expand(reader, schema, place, list);
    json_array_foreach (list, i, one) {
        empty = empty && is_empty_plain(reader, one, place, depth);
    }
    json_decref(list);
    return empty;
}

bool kt_form_excludes(struct kt_form_reader *reader, const json_t *list, const struct kt_place *place)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++) {
            json_t *pair = both(json_array_get(list, k), json_array_get(list, i));
            bool excludes = pair && is_empty(reader, pair, place, 0);
            json_decref(pair);
            if (!excludes)
                return kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                                    "a value could fit both alternative %zu and %zu; use anyOf, or give them "
                                    "a required member with different constants",
                                    k, i);
        }
    return true;
}
