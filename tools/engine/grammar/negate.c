/* SPDX-License-Identifier: Apache-2.0 */
/*
 * negate.c - what does not fit a schema: what fits none of its alternatives, each of which is left by not
 * doing one of the things that it asks for. What the grammar could not write then is refused.
 */
#include "tools/engine/grammar/schema.h"

#include <string.h>

/* The ways to leave one alternative. */
struct ways {
    struct kt_form_reader *reader;
    const struct kt_place *place;
    json_t *list;
};

/* Takes the reference. */
static bool add(struct ways *w, json_t *way)
{
    return (way && json_array_append_new(w->list, way) == 0) || kt_form_no_memory(w->reader);
}

static bool refuse(struct ways *w, const char *name)
{
    return kt_form_fail(w->reader, KT_E_UNSUPPORTED, w->place,
                        "'%s' is not supported where a value must not fit it: in 'not', in 'if' beside "
                        "'else', and in alternatives of oneOf that do not exclude each other",
                        name);
}

/* {"not": schema}, or simpler. */
static json_t *opposite(json_t *schema)
{
    if (json_is_boolean(schema))
        return json_boolean(json_is_false(schema));
    return json_pack("{s:O}", "not", schema);
}

/* ---- values ---- */

/* A constant as a schema that tells of its parts. */
static json_t *structure_of(json_t *value)
{
    json_t *names = json_array(), *parts = json_is_object(value) ? json_object() : json_array(), *one;
    const char *name;
    size_t i;
    bool done = names && parts;
    json_object_foreach (value, name, one) {
        done = done && json_array_append_new(names, json_string(name)) == 0 &&
               json_object_set_new(parts, name, json_pack("{s:O}", "const", one)) == 0;
    }
    json_array_foreach (value, i, one) {
        done = done && json_array_append_new(parts, json_pack("{s:O}", "const", one)) == 0;
    }
    json_t *made = NULL;
    if (done && json_is_object(value))
        made = json_pack("{s:[s], s:O, s:O, s:b}", "type", "object", "properties", parts, "required", names,
                         "additionalProperties", 0);
    else if (done)
        made = json_pack("{s:[s], s:O, s:i, s:b}", "type", "array", "prefixItems", parts, "minItems",
                         (int)json_array_size(value), "items", 0);
    if (json_is_array(value) && json_array_size(value) == 0)
        (void)json_object_del(made, "prefixItems");
    json_decref(names);
    json_decref(parts);
    return made;
}

/* Other values than those of an enum that fit what else there is. */
static bool leave_values(struct kt_form_reader *reader, const json_t *plain, const struct kt_place *place,
                         json_t *list)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)plain), *none = json_array(), *value, *structure;
    json_t *all = none ? json_pack("[{s:O}]", KT_FORM_NONE, none) : NULL;
    size_t i;
    bool done = (rest && all) || kt_form_no_memory(reader);
    (void)json_object_del(rest, "enum");
    json_array_foreach (get(plain, "enum"), i, value) {
        if (!done || !kt_form_valid_plain(reader, rest, value, place))
            continue;
        if (!json_is_array(value) && !json_is_object(value)) {
            done = json_array_append(none, value) == 0 || kt_form_no_memory(reader);
            continue;
        }
        json_t *with = json_array();
        structure = structure_of(value);
        done = ((with && structure) || kt_form_no_memory(reader)) &&
               kt_form_negate(reader, structure, place, with) && kt_form_cross(reader, all, with, place);
        json_decref(with);
        json_decref(structure);
    }
    done = done && reader->status == KT_OK && kt_form_cross(reader, list, all, place);
    json_decref(rest);
    json_decref(none);
    json_decref(all);
    return done;
}

/* ---- strings and numbers ---- */

static bool leave_count(struct ways *w, const json_t *plain, const char *type, const char *least,
                        const char *most)
{
    json_t *min = get(plain, least), *max = get(plain, most);
    bool done = true;
    if (min && json_number_value(min) > 0)
        done = add(w, json_pack("{s:[s], s:f}", "type", type, most, json_number_value(min) - 1));
    if (done && max)
        done = add(w, json_pack("{s:[s], s:f}", "type", type, least, json_number_value(max) + 1));
    return done;
}

static bool leave_text(struct ways *w, const char *text, int asked)
{
    bool done = true;
    if (asked & KT_TEXT_FOUND)
        done =
            add(w, json_pack("{s:[s], s:{s:i}}", "type", "string", KT_FORM_TEXTS, text, KT_TEXT_NOT_FOUND));
    if (done && asked & KT_TEXT_NOT_FOUND)
        done = add(w, json_pack("{s:[s], s:{s:i}}", "type", "string", KT_FORM_TEXTS, text, KT_TEXT_FOUND));
    return done;
}

static bool leave_string(struct ways *w, const json_t *plain)
{
    const char *pattern = json_string_value(get(plain, "pattern")), *text;
    const char *format = json_string_value(get(plain, "format"));
    json_t *asked;
    bool done = leave_count(w, plain, "string", "minLength", "maxLength");
    done = done && (!pattern || leave_text(w, pattern, KT_TEXT_FOUND));
    if (done && format) {
        format = kt_form_format(w->reader, format, w->place);
        done = format && leave_text(w, format, KT_TEXT_FOUND);
    }
    json_object_foreach (get(plain, KT_FORM_TEXTS), text, asked) {
        done = done && leave_text(w, text, (int)json_integer_value(asked));
    }
    return done;
}

static bool leave_number(struct ways *w, const json_t *plain)
{
    static const char *const opposites[][2] = {{"minimum", "exclusiveMaximum"},
                                               {"exclusiveMinimum", "maximum"},
                                               {"maximum", "exclusiveMinimum"},
                                               {"exclusiveMaximum", "minimum"}};
    json_t *divisor = get(plain, "multipleOf"), *one;
    size_t i;
    bool done = true;
    for (i = 0; i < 4 && done; i++)
        if ((one = get(plain, opposites[i][0])) != NULL)
            done = add(w, json_pack("{s:[s], s:O}", "type", "number", opposites[i][1], one));
    if (done && divisor)
        done = add(w, json_pack("{s:[s], s:[O]}", "type", "number", KT_FORM_UNDIVIDED, divisor));
    json_array_foreach (get(plain, KT_FORM_UNDIVIDED), i, one) {
        done = done && add(w, json_pack("{s:[s], s:O}", "type", "number", "multipleOf", one));
    }
    return done;
}

/* ---- arrays ---- */

static json_t *hold(json_t *schema, size_t from, double min, double max)
{
    json_t *one = json_pack("{s:o, s:I, s:f}", "schema", schema, "from", (json_int_t)from, "min", min);
    if (one && max >= 0)
        (void)json_object_set_new(one, "max", json_real(max));
    return json_pack("{s:[s], s:[o], s:b}", "type", "array", KT_FORM_HOLDS, one, KT_FORM_UNSEEN_ITEMS, 1);
}

static bool leave_holds(struct ways *w, const json_t *plain)
{
    json_t *one;
    size_t i;
    bool done = true;
    json_array_foreach (get(plain, KT_FORM_HOLDS), i, one) {
        double min = json_number_value(get(one, "min"));
        const json_t *max = get(one, "max");
        size_t from = (size_t)json_integer_value(get(one, "from"));
        if (done && min > 0)
            done = add(w, hold(json_incref(get(one, "schema")), from, 0, min - 1));
        if (done && max)
            done = add(w, hold(json_incref(get(one, "schema")), from, json_number_value(max) + 1, -1));
    }
    return done;
}

static bool leave_array(struct ways *w, const json_t *plain)
{
    json_t *prefix = get(plain, "prefixItems"), *items = get(plain, "items"), *one;
    size_t i, n = json_array_size(prefix);
    bool done = leave_count(w, plain, "array", "minItems", "maxItems") && leave_holds(w, plain);
    if (done && json_is_true(get(plain, "uniqueItems")))
        return refuse(w, "uniqueItems");
    if (done && items && !json_is_true(items))
        done = add(w, hold(opposite(items), n, 1, -1));
    json_array_foreach (prefix, i, one) {
        if (!done || json_is_true(one))
            continue;
        json_t *list = json_array();
        for (size_t k = 0; k <= i; k++)
            (void)json_array_append_new(list, k < i ? json_true() : opposite(one));
        done = add(w, json_pack("{s:[s], s:o, s:I, s:b}", "type", "array", "prefixItems", list, "minItems",
                                (json_int_t)i + 1, KT_FORM_UNSEEN_ITEMS, 1));
    }
    return done;
}

/* ---- objects ---- */

static bool leave_others(struct ways *w, const json_t *plain)
{
    json_t *others = get(plain, "additionalProperties"), *one;
    const char *name;
    size_t i;
    bool done = true;
    if (others && !json_is_true(others) && json_object_size(get(plain, "patternProperties")) > 0)
        return refuse(w, "additionalProperties beside patternProperties");
    if (others && !json_is_true(others)) {
        json_t *names = json_object();
        json_object_foreach (get(plain, "properties"), name, one) {
            done = done && json_object_set_new(names, name, json_true()) == 0;
        }
        done = add(w, json_pack("{s:[s], s:O, s:O, s:[{s:O, s:o}]}", "type", "object", "properties", names,
                                KT_FORM_UNSEEN, names, KT_FORM_SOME, "names", names, "schema",
                                opposite(others))) &&
               done;
        json_decref(names);
    }
    json_array_foreach (get(plain, KT_FORM_SOME), i, one) {
        json_t *names = json_copy(get(one, "names")), *its;
        void *next;
        json_object_foreach_safe (names, next, name, its) {
            (void)json_object_set_new(names, name, json_true());
        }
        done = done &&
               add(w, json_pack("{s:[s], s:O, s:O, s:o}", "type", "object", "properties", names,
                                KT_FORM_UNSEEN, names, "additionalProperties", opposite(get(one, "schema"))));
        json_decref(names);
    }
    json_object_foreach (get(plain, "patternProperties"), name, one) {
        if (done && !json_is_true(one))
            return refuse(w, "patternProperties");
    }
    return done;
}

static bool leave_object(struct ways *w, const json_t *plain)
{
    json_t *one;
    const char *name;
    size_t i;
    bool done = leave_count(w, plain, "object", "minProperties", "maxProperties") && leave_others(w, plain);
    if (done && get(plain, "propertyNames") && !json_is_true(get(plain, "propertyNames")))
        return refuse(w, "propertyNames");
    json_array_foreach (get(plain, "required"), i, one) {
        name = json_string_value(one);
        done = done && add(w, json_pack("{s:[s], s:{s:b}, s:{s:b}}", "type", "object", "properties", name, 0,
                                        KT_FORM_UNSEEN, name, 1));
    }
    json_object_foreach (get(plain, "properties"), name, one) {
        if (done && !json_is_true(one))
            done = add(w, json_pack("{s:[s], s:{s:o}, s:[s], s:{s:b}}", "type", "object", "properties", name,
                                    opposite(one), "required", name, KT_FORM_UNSEEN, name, 1));
    }
    return done;
}

/* ---- a schema ---- */

/* `list` together with what is none of a plain schema's. */
static bool leave(struct kt_form_reader *reader, const json_t *plain, const struct kt_place *place,
                  json_t *list)
{
    struct ways w = {reader, place, json_array()};
    uint32_t types = kt_form_types(plain);
    json_t *none = get(plain, KT_FORM_NONE);
    bool done = w.list || kt_form_no_memory(reader);
    if (done && get(plain, "enum")) {
        json_decref(w.list);
        return leave_values(reader, plain, place, list);
    }
    if (done && types != KT_IS_ANY)
        done = add(&w, json_pack("{s:o}", "type", kt_form_type_list(KT_IS_ANY & ~types)));
    if (done && json_array_size(none) > 0)
        done = add(&w, json_pack("{s:O}", "enum", none));
    done = done && (!(types & KT_IS_STRING) || leave_string(&w, plain));
    done = done && (!(types & (KT_IS_NUMBER | KT_IS_INTEGER)) || leave_number(&w, plain));
    done = done && (!(types & KT_IS_ARRAY) || leave_array(&w, plain));
    done = done && (!(types & KT_IS_OBJECT) || leave_object(&w, plain));
    done = done && kt_form_cross(reader, list, w.list, place);
    json_decref(w.list);
    return done;
}

bool kt_form_negate(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                    json_t *list)
{
    json_t *alternatives = json_array(), *rest = json_pack("[{}]"), *one;
    unsigned n_annotated = reader->n_annotated;
    size_t i;
    bool done = (alternatives && rest) || kt_form_no_memory(reader);
    reader->n_annotated = 0; /* a `not` makes none */
    done = done && kt_form_enter(reader, place);
    if (done) {
        done = kt_form_expand(reader, schema, place, alternatives);
        json_array_foreach (alternatives, i, one) {
            done = done && leave(reader, one, place, rest);
        }
        kt_form_leave(reader);
    }
    reader->n_annotated = n_annotated;
    done = done && (json_array_extend(list, rest) == 0 || kt_form_no_memory(reader));
    json_decref(alternatives);
    json_decref(rest);
    return done;
}
