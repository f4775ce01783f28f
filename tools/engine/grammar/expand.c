/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expand.c - a schema as alternatives of plain ones, in which no reference and no composition is left: what
 * any of them allows is exactly what the schema allows.
 */
#include "tools/engine/grammar/schema.h"

#include <string.h>

#define MOST_ALTERNATIVES 256

/* ---- alternatives ---- */

static bool add_alternative(struct kt_form_reader *reader, json_t *list, json_t *one,
                            const struct kt_place *place)
{
    if (one && kt_form_is_void(one))
        return true;
    if (json_array_size(list) >= MOST_ALTERNATIVES)
        return kt_form_fail(reader, KT_E_RANGE, place, "more than %d alternatives", MOST_ALTERNATIVES);
    return (one && json_array_append(list, one) == 0) || kt_form_no_memory(reader);
}

bool kt_form_cross(struct kt_form_reader *reader, json_t *list, const json_t *with,
                   const struct kt_place *place)
{
    json_t *crossed = json_array(), *a, *b;
    size_t i, k;
    bool done = crossed != NULL || kt_form_no_memory(reader);
    json_array_foreach (list, i, a) {
        json_array_foreach (with, k, b) {
            done = done && kt_form_work(reader, place, kt_form_weigh(a, b));
            json_t *merged = done ? json_copy(a) : NULL;
            done = done && (merged || kt_form_no_memory(reader)) && kt_form_merge(reader, merged, b, place) &&
                   add_alternative(reader, crossed, merged, place);
            json_decref(merged);
        }
    }
    if (done && (json_array_clear(list) != 0 || json_array_extend(list, crossed) != 0))
        done = kt_form_no_memory(reader);
    json_decref(crossed);
    return done;
}

/* What both lists have. */
static bool extend(struct kt_form_reader *reader, json_t *list, const json_t *with,
                   const struct kt_place *place)
{
    json_t *one;
    size_t i;
    bool done = true;
    json_array_foreach (with, i, one) {
        done = done && add_alternative(reader, list, one, place);
    }
    return done;
}

/* `list` together with what fits a schema, or does not. */
static bool cross_one(struct kt_form_reader *reader, json_t *list, const json_t *schema, bool negates,
                      const struct kt_place *place)
{
    json_t *with = json_array();
    bool done = with || kt_form_no_memory(reader);
    done = done && (negates ? kt_form_negate(reader, schema, place, with)
                            : kt_form_expand(reader, schema, place, with));
    done = done && kt_form_cross(reader, list, with, place);
    json_decref(with);
    return done;
}

static json_t *anything(void)
{
    return json_pack("[{}]");
}

/* `list` together with what fits any of `schemas`. Where annotations count, also with those of several. */
static bool cross_any(struct kt_form_reader *reader, json_t *list, const json_t *schemas,
                      const struct kt_place *place)
{
    json_t *all = json_array(), *one;
    size_t i;
    bool done = all != NULL || kt_form_no_memory(reader);
    json_array_foreach (schemas, i, one) {
        const struct kt_place inner = {place, NULL, i};
        json_t *more = json_array(), *both = json_copy(all);
        done = done && ((more && both) || kt_form_no_memory(reader)) &&
               kt_form_expand(reader, one, &inner, more);
        if (done && reader->n_annotated > 0 && json_array_size(both) > 0)
            done = kt_form_cross(reader, both, more, &inner) && extend(reader, all, both, place);
        done = done && extend(reader, all, more, place);
        json_decref(more);
        json_decref(both);
    }
    done = done && kt_form_cross(reader, list, all, place);
    json_decref(all);
    return done;
}

/* `list` together with what fits one of `schemas` and none of the others. */
static bool cross_exactly_one(struct kt_form_reader *reader, json_t *list, const json_t *schemas,
                              const struct kt_place *place)
{
    json_t *all = json_array(), *one, *other;
    size_t i, k;
    if (!all)
        return kt_form_no_memory(reader);
    bool excludes = kt_form_excludes(reader, schemas, place), done = reader->status == KT_OK;
    json_array_foreach (schemas, i, one) {
        const struct kt_place inner = {place, NULL, i};
        json_t *mine = anything();
        done = done && (mine || kt_form_no_memory(reader)) && cross_one(reader, mine, one, false, &inner);
        json_array_foreach (schemas, k, other) {
            const struct kt_place its = {place, NULL, k};
            done = done && (excludes || k == i || cross_one(reader, mine, other, true, &its));
        }
        done = done && extend(reader, all, mine, place);
        json_decref(mine);
    }
    done = done && kt_form_cross(reader, list, all, place);
    json_decref(all);
    return done;
}

/* `condition` and `then`, or else `otherwise`; each of which may be NULL. */
static bool cross_if(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                     const struct kt_place *place)
{
    const struct kt_place places[] = {{place, "if", 0}, {place, "then", 0}, {place, "else", 0}};
    const json_t *condition = get(schema, "if"), *parts[] = {get(schema, "then"), get(schema, "else")};
    json_t *sides[] = {anything(), anything()}, *all = json_array();
    bool done = (sides[0] && sides[1] && all) || kt_form_no_memory(reader);
    if (!parts[0] && !parts[1] && reader->n_annotated == 0)
        condition = NULL;
    for (unsigned i = 0; i < 2 && condition; i++) {
        done = done && cross_one(reader, sides[i], condition, i == 1, &places[0]);
        done = done && (!parts[i] || cross_one(reader, sides[i], parts[i], false, &places[1 + i]));
        done = done && extend(reader, all, sides[i], place);
    }
    done = done && (!condition || kt_form_cross(reader, list, all, place));
    json_decref(sides[0]);
    json_decref(sides[1]);
    json_decref(all);
    return done;
}

/* Without the member `name`, or with it and what it asks for. */
static bool cross_dependent(struct kt_form_reader *reader, json_t *list, const char *name, json_t *asked,
                            const struct kt_place *place)
{
    json_t *all = json_pack("[{s:{s:b}, s:{s:b}}]", "properties", name, 0, KT_FORM_UNSEEN, name, 1), *one,
           *name_asked;
    json_t *with = json_array(), *object = json_pack("[{s:[s], s:[s]}]", "type", "object", "required", name);
    size_t i;
    bool done = (all && with && object) || kt_form_no_memory(reader);
    if (done && json_is_array(asked)) {
        one = json_array_get(object, 0);
        json_array_foreach (asked, i, name_asked) {
            done = done && json_array_append(get(one, "required"), name_asked) == 0;
        }
        done = (done && json_array_append_new(with, json_object()) == 0) || kt_form_no_memory(reader);
    } else {
        done = done && kt_form_expand(reader, asked, place, with);
    }
    done = done && kt_form_cross(reader, object, with, place) && extend(reader, all, object, place) &&
           kt_form_cross(reader, list, all, place);
    json_decref(all);
    json_decref(with);
    json_decref(object);
    return done;
}

static bool cross_dependents(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                             const struct kt_place *place)
{
    static const char *const names[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const char *name;
    json_t *asked;
    bool done = true;
    for (unsigned i = 0; i < 3; i++) {
        const struct kt_place outer = {place, names[i], 0};
        json_object_foreach (get(schema, names[i]), name, asked) {
            const struct kt_place inner = {&outer, name, 0};
            done = done && cross_dependent(reader, list, name, asked, &inner);
        }
    }
    return done;
}

/* ---- one schema ---- */

/* `contains` of a schema in the form that plain ones have. */
static bool copy_contains(json_t *copy, const json_t *schema)
{
    json_t *min = get(schema, "minContains"), *max = get(schema, "maxContains");
    json_t *one =
        json_pack("{s:O, s:f}", "schema", get(schema, "contains"), "min", min ? json_number_value(min) : 1.0);
    bool done = one && (!max || json_object_set(one, "max", max) == 0);
    return json_object_set_new(copy, KT_FORM_HOLDS, json_pack("[o]", one)) == 0 && done;
}

/* A copy without what is expanded; `const` becomes `enum`, which may be both. */
static json_t *copy_plain(const json_t *schema, bool is_composed)
{
    static const char *const left[] = {"$ref",
                                       "$dynamicRef",
                                       "allOf",
                                       "anyOf",
                                       "oneOf",
                                       "const",
                                       "not",
                                       "if",
                                       "then",
                                       "else",
                                       "dependentRequired",
                                       "dependentSchemas",
                                       "dependencies",
                                       "unevaluatedProperties",
                                       "unevaluatedItems",
                                       "contains",
                                       "minContains",
                                       "maxContains",
                                       "$defs",
                                       "definitions"};
    json_t *copy = json_copy((json_t *)(uintptr_t)schema), *value = get(schema, "const");
    for (unsigned i = 0; i < sizeof(left) / sizeof(left[0]) && copy && is_composed; i++)
        (void)json_object_del(copy, left[i]);
    bool done = copy != NULL;
    if (done && value && !get(copy, "enum"))
        done = json_object_set_new(copy, "enum", json_pack("[O]", value)) == 0;
    if (done && get(schema, "contains"))
        done = copy_contains(copy, schema);
    if (done)
        return copy;
    json_decref(copy);
    return NULL;
}

/* enum and const at once. */
static bool cross_constant(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                           const struct kt_place *place)
{
    json_t *value = get(schema, "const");
    if (!value || !get(schema, "enum"))
        return true;
    json_t *with = json_pack("[{s:[O]}]", "enum", value);
    bool done = with ? kt_form_cross(reader, list, with, place) : kt_form_no_memory(reader);
    json_decref(with);
    return done;
}

static bool cross_references(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                             const struct kt_place *place)
{
    static const char *const names[] = {"$ref", "$dynamicRef"};
    bool done = true;
    for (unsigned i = 0; i < 2; i++) {
        const json_t *reference = get(schema, names[i]);
        json_t *found = done && reference ? kt_form_find(reader, reference, place) : NULL;
        done = done && (!reference || (found && cross_one(reader, list, found, false, place)));
    }
    return done;
}

/* ---- what no other keyword has looked at ---- */

/* Members that a `not` alone has named. */
static bool restrict_unseen(struct kt_form_reader *reader, json_t *plain, json_t *schema)
{
    json_t *unseen = get(plain, KT_FORM_UNSEEN), *one;
    json_t *properties = unseen ? json_copy(get(plain, "properties")) : NULL;
    const char *name;
    bool done = true;
    json_object_foreach (unseen, name, one) {
        done =
            done && json_object_set_new(properties, name, kt_form_both(get(properties, name), schema)) == 0;
    }
    done = done && (!properties || json_object_set(plain, "properties", properties) == 0);
    json_decref(properties);
    return done || kt_form_no_memory(reader);
}

static bool close_members(struct kt_form_reader *reader, json_t *plain, json_t *schema,
                          const struct kt_place *place)
{
    if (get(plain, "additionalProperties"))
        return true;
    if (get(plain, KT_FORM_UNSEEN) && get(plain, "patternProperties"))
        return kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                            "beside 'not' or 'if' of members, and patternProperties, this is not supported");
    return restrict_unseen(reader, plain, schema) &&
           (json_object_set(plain, "additionalProperties", schema) == 0 || kt_form_no_memory(reader));
}

/* What `contains` has found is evaluated. */
static bool close_items(struct kt_form_reader *reader, json_t *plain, json_t *schema,
                        const struct kt_place *place)
{
    json_t *found = get(plain, KT_FORM_HOLDS), *one, *any = NULL;
    size_t i;
    if (get(plain, "items"))
        return true;
    if (get(plain, KT_FORM_UNSEEN_ITEMS))
        return kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                            "beside 'not' or 'if' of items this is not supported");
    if (!found)
        return json_object_set(plain, "items", schema) == 0 || kt_form_no_memory(reader);
    any = json_pack("[O]", schema);
    bool done = any != NULL;
    json_array_foreach (found, i, one) {
        done = done && json_array_append(any, get(one, "schema")) == 0;
    }
    done = json_object_set_new(plain, "items", json_pack("{s:o}", "anyOf", any)) == 0 && done;
    return done || kt_form_no_memory(reader);
}

static bool close_all(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                      const struct kt_place *place)
{
    const struct kt_place members = {place, "unevaluatedProperties", 0},
                          items = {place, "unevaluatedItems", 0};
    json_t *of_members = get(schema, "unevaluatedProperties"), *of_items = get(schema, "unevaluatedItems");
    json_t *plain;
    size_t i;
    bool done = true;
    for (i = 0; (of_members || of_items) && i < json_array_size(list) && done; i++) {
        plain = json_copy(json_array_get(list, i)); /* others may share it */
        done = (plain && json_array_set_new(list, i, plain) == 0) || kt_form_no_memory(reader);
        done = done && (!of_members || close_members(reader, plain, of_members, &members));
        done = done && (!of_items || close_items(reader, plain, of_items, &items));
    }
    return done;
}

/* ---- all of a schema ---- */

static bool cross_compositions(struct kt_form_reader *reader, json_t *list, const json_t *schema,
                               const struct kt_place *place)
{
    const struct kt_place all = {place, "allOf", 0}, any = {place, "anyOf", 0}, one = {place, "oneOf", 0},
                          no = {place, "not", 0};
    json_t *part;
    size_t i;
    bool done = cross_references(reader, list, schema, place);
    json_array_foreach (get(schema, "allOf"), i, part) {
        const struct kt_place inner = {&all, NULL, i};
        done = done && cross_one(reader, list, part, false, &inner);
    }
    done = done && (!get(schema, "anyOf") || cross_any(reader, list, get(schema, "anyOf"), &any));
    done = done && (!get(schema, "oneOf") || cross_exactly_one(reader, list, get(schema, "oneOf"), &one));
    done = done && (!get(schema, "not") || cross_one(reader, list, get(schema, "not"), true, &no));
    done = done && cross_if(reader, list, schema, place);
    return done && cross_dependents(reader, list, schema, place);
}

static bool expand_object(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                          json_t *list)
{
    bool is_composed = kt_form_is_composed(schema);
    json_t *plain = copy_plain(schema, is_composed), *alternatives = plain ? json_pack("[O]", plain) : NULL;
    size_t length = json_object_size(schema) + json_string_length(get(schema, "$ref"));
    bool is_annotated = get(schema, "unevaluatedProperties") || get(schema, "unevaluatedItems");
    bool done = alternatives || kt_form_no_memory(reader);
    if (!is_composed) {
        done =
            done && kt_form_work(reader, place, 10 * length) && add_alternative(reader, list, plain, place);
        json_decref(plain);
        json_decref(alternatives);
        return done;
    }
    reader->n_annotated += is_annotated;
    done = done && kt_form_work(reader, place, 10 * length) &&
           cross_constant(reader, alternatives, schema, place) &&
           cross_compositions(reader, alternatives, schema, place);
    reader->n_annotated -= is_annotated;
    done =
        done && close_all(reader, alternatives, schema, place) && extend(reader, list, alternatives, place);
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
