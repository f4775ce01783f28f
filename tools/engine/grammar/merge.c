/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - what holds of two plain schemas at once, keyword by keyword. Schemas of members and items are
 * only put into an allOf, to be merged when they are read themselves.
 */
#include "tools/engine/grammar/keys.h"

#include <math.h>
#include <string.h>

static bool set_new(struct kt_form_reader *reader, json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 || kt_form_no_memory(reader);
}

json_t *kt_form_both(json_t *a, json_t *b)
{
    if (!a || !b || a == b)
        return a || b ? json_incref(a ? a : b) : json_true();
    if (json_is_true(a) || json_is_false(b))
        return json_incref(b);
    if (json_is_true(b) || json_is_false(a))
        return json_incref(a);
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

/* ---- types, bounds ---- */

json_t *kt_form_type_list(uint32_t bits)
{
    static const struct {
        uint32_t mask, bits;
        const char *name;
    } names[] = {{KT_IS_NULL, KT_IS_NULL, "null"},
                 {KT_IS_BOOLEAN, KT_IS_BOOLEAN, "boolean"},
                 {KT_IS_NUMBER | KT_IS_INTEGER, KT_IS_INTEGER, "integer"},
                 {KT_IS_NUMBER | KT_IS_INTEGER, KT_IS_NUMBER | KT_IS_INTEGER, "number"},
                 {KT_IS_NUMBER | KT_IS_INTEGER, KT_IS_NUMBER, KT_FORM_FRACTION},
                 {KT_IS_STRING, KT_IS_STRING, "string"},
                 {KT_IS_ARRAY, KT_IS_ARRAY, "array"},
                 {KT_IS_OBJECT, KT_IS_OBJECT, "object"}};
    json_t *list = json_array();
    bool done = list != NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if ((bits & names[i].mask) == names[i].bits)
            done = done && json_array_append_new(list, json_string(names[i].name)) == 0;
    if (done)
        return list;
    json_decref(list);
    return NULL;
}

static bool merge_types(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    uint32_t bits = kt_form_types(into) & kt_form_types(from);
    if (!get(into, "type") && !get(from, "type"))
        return true;
    (void)json_object_del(into, "nullable");
    return set_new(reader, into, "type", kt_form_type_list(bits));
}

long double kt_form_exactly(const json_t *value)
{
    return json_is_integer(value) ? (long double)json_integer_value(value) : json_number_value(value);
}

/* The larger one, or the smaller one, of two bounds. */
static bool merge_bounds(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    static const char *const larger[] = {"minItems",         "minLength",     "minimum",
                                         "exclusiveMinimum", "minProperties", NULL};
    static const char *const smaller[] = {"maxItems",         "maxLength",     "maximum",
                                          "exclusiveMaximum", "maxProperties", NULL};
    for (unsigned way = 0; way < 2; way++)
        for (const char *const *name = way ? smaller : larger; *name; name++) {
            json_t *a = get(into, *name), *b = get(from, *name);
            long double x = kt_form_exactly(a), y = kt_form_exactly(b);
            bool takes = b && (!a || (way ? y < x : y > x));
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

/* ---- texts, values ---- */

static bool ask(struct kt_form_reader *reader, json_t *schema, const char *text, json_int_t asked)
{
    json_t *given = get(schema, KT_FORM_TEXTS), *texts = given ? json_copy(given) : json_object();
    asked |= json_integer_value(get(texts, text));
    bool done = texts && json_object_set_new(texts, text, json_integer(asked)) == 0;
    return set_new(reader, schema, KT_FORM_TEXTS, texts) && (done || kt_form_no_memory(reader));
}

static bool merge_texts(struct kt_form_reader *reader, json_t *into, const json_t *from,
                        const struct kt_place *place)
{
    static const char *const names[] = {"pattern", "format"};
    const char *text;
    json_t *asked;
    for (unsigned i = 0; i < 2; i++) {
        json_t *a = get(into, names[i]), *b = get(from, names[i]);
        const char *given = json_string_value(b);
        if (!b || json_equal(a, b))
            continue;
        if (!a && json_object_set(into, names[i], b) != 0)
            return kt_form_no_memory(reader);
        if (a && i == 1)
            given = kt_form_format(reader, given, place);
        if (a && !(given && ask(reader, into, given, KT_TEXT_FOUND)))
            return false;
    }
    json_object_foreach (get(from, KT_FORM_TEXTS), text, asked) {
        if (!ask(reader, into, text, json_integer_value(asked)))
            return false;
    }
    return true;
}

bool kt_form_same(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *one;
    size_t i;
    if (json_is_number(a) && json_is_number(b))
        return kt_form_exactly(a) == kt_form_exactly(b);
    if (json_typeof(a) != json_typeof(b) || json_array_size(a) != json_array_size(b) ||
        json_object_size(a) != json_object_size(b))
        return false;
    json_array_foreach (a, i, one) {
        if (!kt_form_same(one, json_array_get(b, i)))
            return false;
    }
    json_object_foreach ((json_t *)(uintptr_t)a, name, one) {
        const json_t *other = get(b, name);
        if (!other || !kt_form_same(one, other))
            return false;
    }
    return json_is_array(a) || json_is_object(a) || json_equal(a, b);
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
            found = found || kt_form_same(one, other);
        }
        done = done && (!found || json_array_append(list, one) == 0);
    }
    bool set = set_new(reader, into, "enum", list);
    return (done && set) || kt_form_no_memory(reader);
}

/* Lists of what must hold, all of it. */
static bool merge_lists(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    static const char *const names[] = {KT_FORM_NONE, KT_FORM_HOLDS, KT_FORM_SOME, KT_FORM_UNDIVIDED};
    for (unsigned i = 0; i < 4; i++) {
        json_t *a = get(into, names[i]), *b = get(from, names[i]);
        if (!b)
            continue;
        json_t *list = a ? json_copy(a) : json_array();
        bool done = list && json_array_extend(list, b) == 0;
        if (!set_new(reader, into, names[i], list) || !done)
            return kt_form_no_memory(reader);
    }
    return true;
}

/* ---- members ---- */

/* What a schema says of one member: NULL for nothing. */
static json_t *member(struct kt_form_reader *reader, const json_t *schema, const char *name,
                      const struct kt_place *place)
{
    json_t *own = get(get(schema, "properties"), name), *patterns = get(schema, "patternProperties"), *one;
    const char *pattern;
    uint32_t bits = 0, i = 0;
    if (own || !get(schema, "additionalProperties"))
        return json_incref(own);
    if (patterns) {
        struct kt_form_keys *keys =
            kt_form_keys_open(reader, patterns, place, "patternProperties", 0, UINT32_MAX);
        bits = keys ? kt_form_keys_find(keys, name) : 0;
        kt_form_keys_free(keys);
    }
    json_object_foreach (patterns, pattern, one) {
        json_t *both = bits >> i & 1 ? kt_form_both(own, one) : json_incref(own);
        json_decref(own);
        own = both;
        i++;
    }
    return bits ? own : json_incref(get(schema, "additionalProperties"));
}

static bool names_members(const json_t *schema)
{
    return get(schema, "properties") || get(schema, "patternProperties") ||
           get(schema, "additionalProperties");
}

/* additionalProperties is for what its own schema does not name, which a merged one would no longer tell: but
 * for names that the other one lists, it is known. */
static bool merge_patterns(struct kt_form_reader *reader, json_t *into, const json_t *from,
                           const struct kt_place *place)
{
    json_t *a = get(into, "patternProperties"), *b = get(from, "patternProperties"), *value;
    bool has_a = get(into, "additionalProperties"), has_b = get(from, "additionalProperties");
    const char *pattern;
    if (!a && !b)
        return true;
    if (names_members(into) && names_members(from) && (has_a || has_b) && !(a ? !b && !has_b : !has_a))
        return kt_form_fail(
            reader, KT_E_UNSUPPORTED, place,
            "patternProperties and additionalProperties of schemas that hold together are not "
            "supported; put them into one");
    json_t *merged = a ? json_copy(a) : json_object();
    bool done = merged != NULL;
    json_object_foreach (b, pattern, value) {
        done = done && json_object_set_new(merged, pattern, kt_form_both(get(a, pattern), value)) == 0;
    }
    done = done && json_object_set(into, "patternProperties", merged) == 0;
    json_decref(merged);
    return done || kt_form_no_memory(reader);
}

/* Members that only a `not` has named: what is unevaluated holds for them, too. */
static bool merge_unseen(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    json_t *sides[] = {get(into, KT_FORM_UNSEEN), get(from, KT_FORM_UNSEEN)}, *one;
    json_t *merged = json_object();
    const json_t *properties[] = {get(into, "properties"), get(from, "properties")};
    const char *name;
    bool done = merged != NULL;
    for (unsigned i = 0; i < 2; i++)
        json_object_foreach (sides[i], name, one) {
            bool is_seen = get(properties[1 - i], name) && !get(sides[1 - i], name);
            done = done && (is_seen || json_object_set(merged, name, one) == 0);
        }
    if (json_object_size(merged) > 0)
        done = done && json_object_set(into, KT_FORM_UNSEEN, merged) == 0;
    else
        (void)json_object_del(into, KT_FORM_UNSEEN);
    json_decref(merged);
    return done || kt_form_no_memory(reader);
}

/* Both members of all names. */
static bool merge_named(struct kt_form_reader *reader, json_t *merged, const json_t *into, const json_t *from,
                        const struct kt_place *place)
{
    const json_t *sides[] = {into, from};
    const char *name;
    json_t *value;
    bool done = true;
    for (unsigned i = 0; i < 2; i++)
        json_object_foreach (get(sides[i], "properties"), name, value) {
            if (!done || get(merged, name))
                continue;
            json_t *a = member(reader, into, name, place), *b = member(reader, from, name, place);
            done = json_object_set_new(merged, name, kt_form_both(a, b)) == 0;
            json_decref(a);
            json_decref(b);
        }
    return done || kt_form_no_memory(reader);
}

static bool merge_members(struct kt_form_reader *reader, json_t *into, const json_t *from,
                          const struct kt_place *place)
{
    json_t *merged = json_object(), *required = json_array(), *value;
    json_t *lists[] = {get(into, "required"), get(from, "required")};
    static const char *const schemas[] = {"additionalProperties", "propertyNames"};
    size_t k;
    bool done = merged && required && merge_unseen(reader, into, from) &&
                merge_named(reader, merged, into, from, place);
    for (unsigned i = 0; i < 2; i++)
        json_array_foreach (lists[i], k, value) {
            done = done && json_array_append(required, value) == 0;
        }
    if (done && json_object_size(merged) > 0)
        done = json_object_set(into, "properties", merged) == 0;
    if (done && json_array_size(required) > 0)
        done = json_object_set(into, "required", required) == 0;
    for (unsigned i = 0; i < 2 && done; i++) {
        json_t *other = get(from, schemas[i]);
        if (other)
            done = json_object_set_new(into, schemas[i], kt_form_both(get(into, schemas[i]), other)) == 0;
    }
    json_decref(merged);
    json_decref(required);
    return done || kt_form_no_memory(reader);
}

/* ---- items ---- */

static bool merge_items(struct kt_form_reader *reader, json_t *into, const json_t *from)
{
    json_t *a = get(into, "prefixItems"), *b = get(from, "prefixItems"), *others = get(from, "items");
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    json_t *list = json_array();
    bool done = list != NULL;
    for (size_t i = 0; i < n && done; i++) {
        json_t *one = i < json_array_size(a) ? json_array_get(a, i) : get(into, "items");
        json_t *other = i < json_array_size(b) ? json_array_get(b, i) : others;
        done = json_array_append_new(list, kt_form_both(one, other)) == 0;
    }
    if (done && n > 0)
        done = json_object_set(into, "prefixItems", list) == 0;
    if (done && others)
        done = json_object_set_new(into, "items", kt_form_both(get(into, "items"), others)) == 0;
    if (done && json_is_true(get(from, "uniqueItems")))
        done = json_object_set_new(into, "uniqueItems", json_true()) == 0;
    if (done && get(from, KT_FORM_UNSEEN_ITEMS))
        done = json_object_set_new(into, KT_FORM_UNSEEN_ITEMS, json_true()) == 0;
    json_decref(list);
    return done || kt_form_no_memory(reader);
}

/* ---- all ---- */

uint64_t kt_form_weigh(const json_t *a, const json_t *b)
{
    static const char *const names[] = {"properties", "patternProperties", "required",    "prefixItems",
                                        KT_FORM_NONE, KT_FORM_HOLDS,       KT_FORM_TEXTS, KT_FORM_SOME};
    const json_t *x = get(a, "enum"), *y = get(b, "enum");
    uint64_t n = 1 + json_object_size(a) + json_object_size(b);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        n += json_object_size(get(a, names[i])) + json_object_size(get(b, names[i])) +
             json_array_size(get(a, names[i])) + json_array_size(get(b, names[i]));
    n *= 10; /* steps of a machine */
    return x && y ? n + json_array_size(x) * kt_form_size(y) + json_array_size(y) * kt_form_size(x) : n;
}

bool kt_form_merge(struct kt_form_reader *reader, json_t *into, const json_t *from,
                   const struct kt_place *place)
{
    return merge_types(reader, into, from) && merge_bounds(reader, into, from) &&
           merge_divisors(reader, into, from) && merge_texts(reader, into, from, place) &&
           merge_enums(reader, into, from) && merge_lists(reader, into, from) &&
           merge_patterns(reader, into, from, place) && merge_members(reader, into, from, place) &&
           merge_items(reader, into, from);
}
