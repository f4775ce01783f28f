/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the keywords of schemas. What would not be enforced is refused where it stands. */
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/grammar/schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures ---- */

static size_t write_place(const struct kt_place *place, char *text, size_t size)
{
    if (!place)
        return (size_t)snprintf(text, size, "#");
    size_t n = write_place(place->outer, text, size);
    if (n + 1 >= size)
        return n;
    n += (size_t)(place->name ? snprintf(text + n, size - n, "/%.60s", place->name)
                              : snprintf(text + n, size - n, "/%zu", place->index));
    return n < size ? n : size - 1;
}

bool kt_form_fail(struct kt_form_reader *reader, enum kt_status status, const struct kt_place *place,
                  const char *format, ...)
{
    char what[256], where[256];
    va_list arguments;
    if (reader->status != KT_OK)
        return false;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    (void)write_place(place, where, sizeof(where));
    reader->status = reader->subject
                         ? kt_engine_fail(reader->error, status, "%s: %s", reader->subject, what)
                         : kt_engine_fail(reader->error, status, "the JSON schema at %s: %s", where, what);
    return false;
}

bool kt_form_no_memory(struct kt_form_reader *reader)
{
    if (reader->status == KT_OK)
        reader->status = kt_engine_fail(reader->error, KT_E_NOMEM, "no memory for a grammar");
    return false;
}

bool kt_form_enter(struct kt_form_reader *reader, const struct kt_place *place)
{
    if (reader->status != KT_OK)
        return false;
    if (reader->depth >= KT_FORM_DEPTH)
        return kt_form_fail(reader, KT_E_RANGE, place,
                            "schemas nest deeper than %d; or one refers to itself next to other keywords",
                            KT_FORM_DEPTH);
    if (reader->n >= KT_FORM_MOST)
        return kt_form_fail(reader, KT_E_RANGE, place, "more than %d schemas are needed", KT_FORM_MOST);
    reader->depth++;
    reader->n++;
    return true;
}

void kt_form_leave(struct kt_form_reader *reader)
{
    reader->depth--;
}

bool kt_form_work(struct kt_form_reader *reader, const struct kt_place *place, uint64_t steps)
{
    uint64_t left = KT_FORM_MOST_WORK - reader->work;
    reader->work += steps < left ? steps : left;
    if (steps > left)
        return kt_form_fail(reader, KT_E_RANGE, place, "reading it requires more than %d steps",
                            KT_FORM_MOST_WORK);
    return reader->status == KT_OK;
}

uint64_t kt_form_size(const json_t *value)
{
    uint64_t size = 1 + json_string_length(value) / 16;
    const char *name;
    json_t *one;
    size_t i;
    json_array_foreach (value, i, one) {
        size += kt_form_size(one);
    }
    json_object_foreach ((json_t *)(uintptr_t)value, name, one) {
        size += kt_form_size(one);
    }
    return size;
}

/* ---- keywords ---- */

enum form {
    IGNORED,
    ANCHOR,
    DIALECT,
    TYPE,
    SCHEMA,
    SCHEMAS,
    MAP,
    NAME_MAP, /* lists of names, or schemas */
    COUNT,
    NUMBER,
    DIVISOR,
    TEXT,
    NAMES,
    LIST,
    ANY,
    BOOLEAN
};

static const struct keyword {
    const char *name;
    enum form form;
    bool is_composed; /* expand.c takes it away */
} keywords[] = {{"title", IGNORED, false},
                {"description", IGNORED, false},
                {"default", IGNORED, false},
                {"example", IGNORED, false},
                {"examples", IGNORED, false},
                {"deprecated", IGNORED, false},
                {"readOnly", IGNORED, false},
                {"writeOnly", IGNORED, false},
                {"discriminator", IGNORED, false},
                {"$comment", IGNORED, false},
                {"$schema", DIALECT, false},
                {"$id", ANCHOR, false},
                {"$anchor", IGNORED, false},
                {"$dynamicAnchor", IGNORED, false},
                {"$defs", IGNORED, false}, /* only what is referred to */
                {"definitions", IGNORED, false},
                {"$ref", TEXT, true},
                {"$dynamicRef", TEXT, true},
                {"type", TYPE, false},
                {"nullable", BOOLEAN, false},
                {"enum", LIST, false},
                {"const", ANY, true},
                {"properties", MAP, false},
                {"required", NAMES, false},
                {"additionalProperties", SCHEMA, false},
                {"patternProperties", MAP, false},
                {"propertyNames", SCHEMA, false},
                {"minProperties", COUNT, false},
                {"maxProperties", COUNT, false},
                {"dependentRequired", NAME_MAP, true},
                {"dependentSchemas", MAP, true},
                {"dependencies", NAME_MAP, true},
                {"unevaluatedProperties", SCHEMA, true},
                {"items", SCHEMA, false},
                {"prefixItems", SCHEMAS, false},
                {"minItems", COUNT, false},
                {"maxItems", COUNT, false},
                {"uniqueItems", BOOLEAN, false},
                {"contains", SCHEMA, true},
                {"minContains", COUNT, true},
                {"maxContains", COUNT, true},
                {"unevaluatedItems", SCHEMA, true},
                {"minLength", COUNT, false},
                {"maxLength", COUNT, false},
                {"pattern", TEXT, false},
                {"format", TEXT, false},
                {"minimum", NUMBER, false},
                {"maximum", NUMBER, false},
                {"exclusiveMinimum", NUMBER, false},
                {"exclusiveMaximum", NUMBER, false},
                {"multipleOf", DIVISOR, false},
                {"anyOf", SCHEMAS, true},
                {"oneOf", SCHEMAS, true},
                {"allOf", SCHEMAS, true},
                {"not", SCHEMA, true},
                {"if", SCHEMA, true},
                {"then", SCHEMA, true},
                {"else", SCHEMA, true}};

static const struct keyword *find_keyword(const char *name)
{
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

bool kt_form_asserts(const json_t *schema, const char *except)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)schema, name, value) {
        const struct keyword *keyword = find_keyword(name);
        bool asserts = keyword ? keyword->form > DIALECT : name[0] == '\1';
        if (asserts && !(except && strcmp(name, except) == 0))
            return true;
    }
    return false;
}

bool kt_form_is_composed(const json_t *schema)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)schema, name, value) {
        const struct keyword *keyword = find_keyword(name);
        if (keyword && keyword->is_composed)
            return true;
    }
    return false;
}

static const struct {
    const char *name;
    uint32_t bit;
} types[] = {{"null", KT_IS_NULL},       {"boolean", KT_IS_BOOLEAN},
             {"integer", KT_IS_INTEGER}, {"number", KT_IS_NUMBER | KT_IS_INTEGER},
             {"string", KT_IS_STRING},   {"array", KT_IS_ARRAY},
             {"object", KT_IS_OBJECT},   {KT_FORM_FRACTION, KT_IS_NUMBER}};

static uint32_t type_of_name(const json_t *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && json_is_string(name); i++)
        if (strcmp(types[i].name, json_string_value(name)) == 0)
            return types[i].bit;
    return 0;
}

uint32_t kt_form_types(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *one;
    uint32_t bits = type_of_name(type);
    size_t i;
    json_array_foreach (type, i, one) {
        bits |= type_of_name(one);
    }
    if (type && json_is_true(json_object_get(schema, "nullable")))
        bits |= KT_IS_NULL;
    return type ? bits : KT_IS_ANY;
}

static bool check_type(struct kt_form_reader *reader, const json_t *type, const struct kt_place *place)
{
    const json_t *one;
    size_t i;
    bool done = json_is_string(type) ? type_of_name(type) != 0 : json_array_size(type) > 0;
    done = done && !(json_is_string(type) && *json_string_value(type) == '\1');
    json_array_foreach (type, i, one) {
        done = done && type_of_name(one) && *json_string_value(one) != '\1';
    }
    return done || kt_form_fail(reader, KT_E_FORMAT, place, "not a type or a list of types");
}

/* ---- references ---- */

static int hex_value(char digit)
{
    const char *digits = "0123456789abcdef", *at = digit ? strchr(digits, digit | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The next part of a pointer: up to the next slash, with %25 and ~1 undone. False: it is too long. */
static bool next_part(const char **pointer, char *part, size_t size)
{
    size_t n = 0;
    const char *at = *pointer;
    for (; *at && *at != '/'; at++) {
        char byte = *at;
        if (byte == '%' && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0) {
            byte = (char)(hex_value(at[1]) * 16 + hex_value(at[2]));
            at += 2;
        }
        if (byte == '~' && (at[1] == '0' || at[1] == '1')) {
            byte = at[1] == '0' ? '~' : '/';
            at++;
        }
        if (n + 1 == size)
            return false;
        part[n++] = byte;
    }
    part[n] = '\0';
    *pointer = at;
    return true;
}

/* Schemas whose $anchor or $dynamicAnchor is a name, anywhere but in values; *n: how many. */
static json_t *find_anchor(json_t *value, const char *anchor, unsigned *n)
{
    static const char *const values[] = {"enum", "const", "default", "examples", "example"};
    static const char *const names[] = {"$anchor", "$dynamicAnchor"};
    json_t *found = NULL, *one;
    const char *name;
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *given = json_string_value(json_object_get(value, names[i]));
        if (given && strcmp(given, anchor) == 0 && found != value) {
            found = value;
            ++*n;
        }
    }
    json_array_foreach (value, i, one) {
        json_t *inner = find_anchor(one, anchor, n);
        found = inner ? inner : found;
    }
    json_object_foreach (value, name, one) {
        for (i = 0; i < 5 && strcmp(values[i], name) != 0;)
            i++;
        json_t *inner = i == 5 ? find_anchor(one, anchor, n) : NULL;
        found = inner ? inner : found;
    }
    return found;
}

/* What a pointer leads to; *moves: past an $id, behind which references have another meaning. */
static json_t *follow(json_t *root, const char *pointer, bool *moves)
{
    json_t *found = root;
    char part[256];
    while (*pointer == '/' && found) {
        pointer++;
        if (!next_part(&pointer, part, sizeof(part)))
            found = NULL;
        else if (json_is_array(found))
            found = part[0] >= '0' && part[0] <= '9' ? json_array_get(found, strtoul(part, NULL, 10)) : NULL;
        else
            found = json_object_get(found, part);
        *moves = *moves || (found != root && *pointer && json_is_string(json_object_get(found, "$id")));
    }
    return found;
}

json_t *kt_form_find(struct kt_form_reader *reader, const json_t *reference, const struct kt_place *place)
{
    const char *pointer = json_string_value(reference);
    const char *id = json_string_value(json_object_get(reader->root, "$id"));
    size_t length = id ? strcspn(id, "#") : 0;
    json_t *found = NULL;
    bool moves = false;
    unsigned n = 1;
    if (length > 0 && strncmp(pointer, id, length) == 0 && (!pointer[length] || pointer[length] == '#'))
        pointer += length;
    bool is_local = *pointer == '#' || (!*pointer && pointer != json_string_value(reference));
    pointer += *pointer == '#';
    if (is_local && *pointer && *pointer != '/') {
        n = 0;
        found = kt_form_work(reader, place, kt_form_size(reader->root))
                    ? find_anchor(reader->root, pointer, &n)
                    : NULL;
    } else if (is_local) {
        found = follow(reader->root, pointer, &moves);
    }
    if (!is_local || moves || n > 1)
        kt_form_fail(
            reader, KT_E_UNSUPPORTED, place,
            "the reference '%.80s' leads elsewhere; only those into this document (#/..) are followed",
            json_string_value(reference));
    else if (!found)
        kt_form_fail(reader, KT_E_FORMAT, place, "the reference '%.80s' leads to nothing",
                     json_string_value(reference));
    return reader->status == KT_OK ? found : NULL;
}

/* ---- checks ---- */

static bool check_reference(struct kt_form_reader *reader, const json_t *value, const struct kt_place *place)
{
    const json_t *found = kt_form_find(reader, value, place);
    for (size_t i = 0; i < reader->n_rules && found; i++)
        if (reader->rules[i].schema == found)
            return true;
    struct kt_rule *grown =
        found ? kt_array_grow(reader->rules, &reader->rules_capacity, reader->n_rules + 1, sizeof(*grown))
              : NULL;
    if (!grown)
        return found ? kt_form_no_memory(reader) : false;
    reader->rules = grown;
    grown[reader->n_rules++] = (struct kt_rule){.schema = found};
    return kt_form_check(reader, found, place);
}

static bool check_list(struct kt_form_reader *reader, const json_t *list, const struct kt_place *place)
{
    const json_t *one;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return kt_form_fail(reader, KT_E_FORMAT, place, "this must be a list of schemas");
    json_array_foreach (list, i, one) {
        const struct kt_place inner = {place, NULL, i};
        if (!kt_form_check(reader, one, &inner))
            return false;
    }
    return true;
}

static bool check_names(struct kt_form_reader *reader, const json_t *list, const struct kt_place *place)
{
    const json_t *one;
    size_t i;
    bool done = json_is_array(list);
    json_array_foreach (list, i, one) {
        done = done && json_is_string(one);
    }
    return done || kt_form_fail(reader, KT_E_FORMAT, place, "this must be a list of names");
}

static bool check_map(struct kt_form_reader *reader, json_t *map, const struct kt_place *place,
                      bool has_names)
{
    const char *name;
    json_t *one;
    if (!json_is_object(map))
        return kt_form_fail(reader, KT_E_FORMAT, place, "this must be an object of schemas");
    json_object_foreach (map, name, one) {
        const struct kt_place inner = {place, name, 0};
        if (has_names && json_is_array(one) ? !check_names(reader, one, &inner)
                                            : !kt_form_check(reader, one, &inner))
            return false;
    }
    return true;
}

/* A most beyond 2^32 is none; a least that large is not met. */
static bool check_count(struct kt_form_reader *reader, const json_t *value, const struct kt_place *place)
{
    double count = json_is_number(value) ? json_number_value(value) : -1;
    if (count < 0 || count != floor(count))
        return kt_form_fail(reader, KT_E_FORMAT, place, "this must be a count");
    return count < UINT32_MAX || strncmp(place->name, "max", 3) == 0 ||
           kt_form_fail(reader, KT_E_UNSUPPORTED, place, "a count of 2^32 and more is not supported");
}

static bool check_keyword(struct kt_form_reader *reader, enum form form, json_t *value,
                          const struct kt_place *place)
{
    switch (form) {
    case IGNORED:
    case ANY:
        return true;
    case ANCHOR:
        return !place->outer || !json_is_string(value) || *json_string_value(value) == '#' ||
               kt_form_fail(reader, KT_E_UNSUPPORTED, place, "an $id within a document is not supported");
    case DIALECT:
        return !json_is_string(value) || strstr(json_string_value(value), "json-schema.org/") ||
               kt_form_fail(reader, KT_E_UNSUPPORTED, place, "this dialect of schemas is not known");
    case TYPE:
        return check_type(reader, value, place);
    case SCHEMA:
        if (json_is_array(value))
            return kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                                "a list of schemas here is an older draft's; it is now called prefixItems");
        return kt_form_check(reader, value, place);
    case SCHEMAS:
        return check_list(reader, value, place);
    case MAP:
        return check_map(reader, value, place, false);
    case NAME_MAP:
        return check_map(reader, value, place, true);
    case COUNT:
        return check_count(reader, value, place);
    case DIVISOR:
        return (json_is_number(value) && json_number_value(value) > 0) ||
               kt_form_fail(reader, KT_E_FORMAT, place, "this must be a number above 0");
    case NUMBER:
        return json_is_number(value) || kt_form_fail(reader, KT_E_FORMAT, place, "this must be a number");
    case TEXT:
        if (!json_is_string(value))
            return kt_form_fail(reader, KT_E_FORMAT, place, "this must be a string");
        return place->name[0] != '$' || check_reference(reader, value, place);
    case NAMES:
        return check_names(reader, value, place);
    case LIST:
        return json_array_size(value) > 0 ||
               kt_form_fail(reader, KT_E_FORMAT, place, "this must be a list of values");
    case BOOLEAN:
        return json_is_boolean(value) ||
               kt_form_fail(reader, KT_E_FORMAT, place, "this must be true or false");
    }
    return true;
}

bool kt_form_check(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place)
{
    const char *name;
    json_t *value;
    if (json_is_boolean(schema))
        return true;
    if (!json_is_object(schema))
        return kt_form_fail(reader, KT_E_FORMAT, place, "a schema is an object, true or false");
    if (!kt_form_enter(reader, place))
        return false;
    bool done = true;
    json_object_foreach ((json_t *)(uintptr_t)schema, name, value) {
        const struct keyword *keyword = find_keyword(name);
        const struct kt_place inner = {place, name, 0};
        if (!done)
            break;
        if (keyword)
            done = check_keyword(reader, keyword->form, value, &inner);
        else if (strncmp(name, "x-", 2) != 0)
            done = kt_form_fail(reader, KT_E_UNSUPPORTED, &inner, "this keyword is not supported");
    }
    kt_form_leave(reader);
    return done;
}
