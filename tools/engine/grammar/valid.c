/* SPDX-License-Identifier: Apache-2.0 */
/* valid.c - whether a value that a schema holds fits another one; and which schemas nothing fits. */
#include "tools/engine/grammar/keys.h"
#include "tools/engine/grammar/pattern.h"

#include <math.h>
#include <string.h>

/* ---- numbers, lengths ---- */

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
        return json_real_value(value) == floor(json_real_value(value)) ? KT_IS_INTEGER : KT_IS_NUMBER;
    case JSON_NULL:
        return KT_IS_NULL;
    default:
        return KT_IS_BOOLEAN;
    }
}

static bool within(const json_t *schema, const char *min, const char *max, long double value)
{
    const json_t *low = get(schema, min), *high = get(schema, max);
    return (!low || value >= kt_form_exactly(low)) && (!high || value <= kt_form_exactly(high));
}

static bool divides(const json_t *divisor, long double number)
{
    long double by = kt_form_exactly(divisor);
    return by > 0 && fmodl(number, by) == 0;
}

static bool fits_number(const json_t *schema, const json_t *value)
{
    const json_t *low = get(schema, "exclusiveMinimum"), *high = get(schema, "exclusiveMaximum"), *one;
    long double number = kt_form_exactly(value);
    size_t i;
    if (get(schema, "multipleOf") && !divides(get(schema, "multipleOf"), number))
        return false;
    json_array_foreach (get(schema, KT_FORM_UNDIVIDED), i, one) {
        if (divides(one, number))
            return false;
    }
    return within(schema, "minimum", "maximum", number) && (!low || number > kt_form_exactly(low)) &&
           (!high || number < kt_form_exactly(high));
}

bool kt_form_fits(const json_t *schema, uint32_t types, const json_t *value)
{
    size_t n = 0;
    if (!(types & type_of(value)))
        return false;
    if (json_is_number(value))
        return fits_number(schema, value);
    for (const char *text = json_string_value(value); text && *text; text++)
        n += (*text & 0xc0) != 0x80;
    if (json_is_string(value))
        return within(schema, "minLength", "maxLength", (long double)n);
    if (json_is_object(value))
        return within(schema, "minProperties", "maxProperties", (long double)json_object_size(value));
    return !json_is_array(value) ||
           within(schema, "minItems", "maxItems", (long double)json_array_size(value));
}

/* ---- strings ---- */

static bool fits_texts(struct kt_form_reader *reader, const json_t *schema, const char *text,
                       const struct kt_place *place)
{
    json_t *texts = kt_form_texts(reader, schema, place), *asked;
    json_t *parts = texts && json_object_size(texts) > 0 ? kt_form_parts(reader, texts, place) : NULL;
    struct kt_form_keys *keys = parts ? kt_form_keys_open(reader, parts, place, NULL, 0, UINT32_MAX) : NULL;
    uint32_t bits = keys ? kt_form_keys_find(keys, text) : 0, i = 0;
    const char *part;
    bool fits = texts != NULL;
    json_object_foreach (parts, part, asked) {
        bool found = bits >> i++ & 1;
        fits = fits && !(json_integer_value(asked) & (found ? KT_TEXT_NOT_FOUND : KT_TEXT_FOUND));
    }
    kt_form_keys_free(keys);
    json_decref(texts);
    json_decref(parts);
    return fits && reader->status == KT_OK;
}

/* ---- arrays ---- */

static bool fits_items(struct kt_form_reader *reader, const json_t *schema, const json_t *value,
                       const struct kt_place *place)
{
    const json_t *prefix = get(schema, "prefixItems"), *items = get(schema, "items"), *one, *held;
    size_t i, k;
    json_array_foreach (value, i, one) {
        const json_t *its = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (its && !kt_form_valid(reader, its, one, place))
            return false;
        for (k = 0; k < i && json_is_true(get(schema, "uniqueItems")); k++)
            if (kt_form_same(one, json_array_get(value, k)))
                return false;
    }
    json_array_foreach (get(schema, KT_FORM_HOLDS), k, held) {
        size_t n = 0, from = (size_t)json_integer_value(get(held, "from"));
        json_array_foreach (value, i, one) {
            n += i >= from && kt_form_valid(reader, get(held, "schema"), one, place);
        }
        if (!within(held, "min", "max", (long double)n))
            return false;
    }
    return true;
}

/* ---- objects ---- */

/* What a schema says of one member's value. */
static bool fits_member(struct kt_form_reader *reader, const json_t *schema, const char *name,
                        const json_t *value, const struct kt_place *place)
{
    const json_t *own = get(get(schema, "properties"), name), *patterns = get(schema, "patternProperties");
    const json_t *others = get(schema, "additionalProperties"), *one;
    const char *pattern;
    bool is_named = own != NULL, fits = !own || kt_form_valid(reader, own, value, place);
    if (patterns && json_object_size(patterns) > 0) {
        struct kt_form_keys *keys =
            kt_form_keys_open(reader, patterns, place, "patternProperties", 0, UINT32_MAX);
        uint32_t bits = keys ? kt_form_keys_find(keys, name) : 0, i = 0;
        kt_form_keys_free(keys);
        is_named = is_named || bits;
        json_object_foreach ((json_t *)(uintptr_t)patterns, pattern, one) {
            bool is_meant = bits >> i++ & 1;
            fits = fits && (!is_meant || kt_form_valid(reader, one, value, place));
        }
    }
    return fits && (is_named || !others || kt_form_valid(reader, others, value, place));
}

static bool fits_members(struct kt_form_reader *reader, const json_t *schema, const json_t *value,
                         const struct kt_place *place)
{
    const json_t *names = get(schema, "propertyNames"), *one;
    const char *name;
    size_t i;
    json_array_foreach (get(schema, "required"), i, one) {
        if (!get(value, json_string_value(one)))
            return false;
    }
    json_object_foreach ((json_t *)(uintptr_t)value, name, one) {
        json_t *text = json_string(name);
        bool fits = text && (!names || kt_form_valid(reader, names, text, place)) &&
                    fits_member(reader, schema, name, one, place);
        json_decref(text);
        if (!fits)
            return false;
    }
    json_array_foreach (get(schema, KT_FORM_SOME), i, one) {
        const json_t *other;
        bool found = false;
        json_object_foreach ((json_t *)(uintptr_t)value, name, other) {
            found = found || (!get(get(one, "names"), name) &&
                              kt_form_valid(reader, get(one, "schema"), other, place));
        }
        if (!found)
            return false;
    }
    return true;
}

/* ---- values ---- */

static bool is_listed(const json_t *list, const json_t *value)
{
    const json_t *one;
    size_t i;
    json_array_foreach (list, i, one) {
        if (kt_form_same(one, value))
            return true;
    }
    return false;
}

bool kt_form_valid_plain(struct kt_form_reader *reader, const json_t *schema, const json_t *value,
                         const struct kt_place *place)
{
    const json_t *values = get(schema, "enum"), *none = get(schema, KT_FORM_NONE);
    if (!kt_form_work(reader, place, 1) || !kt_form_fits(schema, kt_form_types(schema), value) ||
        (values && !is_listed(values, value)) || is_listed(none, value))
        return false;
    if (json_is_string(value))
        return fits_texts(reader, schema, json_string_value(value), place);
    if (json_is_array(value))
        return fits_items(reader, schema, value, place);
    return !json_is_object(value) || fits_members(reader, schema, value, place);
}

bool kt_form_valid(struct kt_form_reader *reader, const json_t *schema, const json_t *value,
                   const struct kt_place *place)
{
    json_t *list, *one;
    size_t i;
    bool fits = false;
    if (json_is_boolean(schema))
        return json_is_true(schema);
    list = json_array();
    if (!list)
        kt_form_no_memory(reader);
    else if (kt_form_expand(reader, schema, place, list))
        json_array_foreach (list, i, one) {
            fits = fits || kt_form_valid_plain(reader, one, value, place);
        }
    json_decref(list);
    return fits && reader->status == KT_OK;
}

/* ---- what nothing fits ---- */

/* What a schema says of one member. */
static json_t *member(const json_t *schema, const char *name)
{
    json_t *own = get(get(schema, "properties"), name);
    return own || get(schema, "patternProperties") ? own : get(schema, "additionalProperties");
}

static bool crosses(const json_t *schema, const char *least, const char *most)
{
    const json_t *min = get(schema, least), *max = get(schema, most);
    return min && max && kt_form_exactly(min) > kt_form_exactly(max);
}

bool kt_form_is_void(const json_t *schema)
{
    uint32_t types = kt_form_types(schema);
    const json_t *values = get(schema, "enum"), *one;
    size_t i;
    if (types == 0 || (values && json_array_size(values) == 0))
        return true;
    if (types == KT_IS_OBJECT)
        json_array_foreach (get(schema, "required"), i, one) {
            if (json_is_false(member(schema, json_string_value(one))))
                return true;
        }
    return (types == KT_IS_OBJECT && crosses(schema, "minProperties", "maxProperties")) ||
           (types == KT_IS_ARRAY && crosses(schema, "minItems", "maxItems")) ||
           (types == KT_IS_STRING && crosses(schema, "minLength", "maxLength")) ||
           (types == KT_IS_INTEGER && crosses(schema, "minimum", "maximum"));
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
    bool fits = !kt_form_is_void(schema);
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
    bool excludes = true;
    for (size_t i = 0; i < json_array_size(list) && excludes; i++)
        for (size_t k = 0; k < i && excludes; k++) {
            json_t *pair = kt_form_both(json_array_get(list, k), json_array_get(list, i));
            excludes = pair && is_empty(reader, pair, place, 0);
            json_decref(pair);
        }
    return excludes;
}
