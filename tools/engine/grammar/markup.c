/* SPDX-License-Identifier: Apache-2.0 */
/*
 * markup.c - arguments in tags. Strings stand as they are, up to the closing tag; everything else is JSON.
 * Where a schema allows a string and something else, a string does not begin as the other one would: it would
 * be read as that.
 */
#include "tools/engine/grammar/calls.h"
#include "tools/engine/text/output/parser.h"

#include <stdlib.h>
#include <string.h>

struct value {
    struct kt_calls *calls;
    const struct kt_markup *markup;
    const struct kt_place *place;
    uint32_t next;   /* behind the closing tag */
    uint32_t text;   /* any string, and its end; 0: none */
    uint32_t json;   /* other values */
    uint32_t others; /* types that these have */
    bool is_any;     /* `text` is to be any string */
};

static uint32_t end_tag(struct value *v)
{
    return kt_op_tag(v->calls->program, v->markup->value_ends[0], v->next);
}

/* Any text up to the closing tag. */
static uint32_t any_text(struct value *v)
{
    struct kt_program *p = v->calls->program;
    uint32_t text = kt_op_until(p, v->markup->value_ends[0], 0, v->next, 0), first = text;
    bool is_told = v->markup->key_ends[1] != NULL; /* the tag says what it is */
    if (v->others && !is_told) {
        struct kt_range ranges[] = {{'!', '!', text}, {'#', ',', text},  {'.', '/', text}, {':', ';', text},
                                    {'=', 'Z', text}, {'^', 'e', text},  {'g', 'm', text}, {'o', 's', text},
                                    {'u', 'z', text}, {0xc2, 0xf4, text}};
        first = kt_op_split(p, kt_op_switch(p, ranges, 10, 0), end_tag(v));
    }
    return first;
}

/* Strings of an enum, as they stand. */
static bool add_constants(struct value *v, const json_t *schema, uint32_t types)
{
    struct kt_program *p = v->calls->program;
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get(schema, "enum"), i, one) {
        const char *text = json_string_value(one);
        if (!text || !kt_form_fits(schema, types, one))
            continue;
        if (strstr(text, v->markup->value_ends[0]))
            return kt_form_fail(v->calls->reader, KT_E_UNSUPPORTED, v->place,
                                "a constant holds the format's own tag");
        v->text = kt_op_split(p, kt_op_text(p, text, strlen(text), 0, end_tag(v)), v->text);
    }
    return true;
}

/* One alternative of a schema. */
static bool add_plain(struct value *v, const json_t *schema)
{
    static const char *const bounds[] = {"pattern", "format", "minLength", "maxLength"};
    uint32_t types = kt_form_types(schema);
    if (types & KT_IS_STRING) {
        for (size_t i = 0; i < 4; i++)
            if (json_object_get(schema, bounds[i]))
                return kt_form_fail(
                    v->calls->reader, KT_E_UNSUPPORTED, v->place,
                    "%s of a string is not supported in arguments that the model writes in tags", bounds[i]);
        if (json_object_get(schema, "enum") && !add_constants(v, schema, types))
            return false;
        v->is_any |= !json_object_get(schema, "enum");
    }
    types &= ~(uint32_t)KT_IS_STRING;
    if (types == 0)
        return true;
    static const char *const names[] = {"null", "boolean", "integer", "number", "", "array", "object"};
    json_t *copy = json_copy((json_t *)(uintptr_t)schema), *list = json_array();
    bool done = copy && list;
    for (unsigned i = 0; i < 7 && done; i++)
        if (types & (1u << i))
            done = json_array_append_new(list, json_string(names[i])) == 0;
    done = done && json_object_set(copy, "type", list) == 0;
    if (done && !(json_object_get(schema, "enum") && types == 0)) {
        uint32_t json = kt_form_value(v->calls->reader, copy, v->place, end_tag(v));
        v->json = kt_op_split(v->calls->program, json, v->json);
        v->others |= json ? types : 0;
    }
    json_decref(copy);
    json_decref(list);
    return done || kt_form_no_memory(v->calls->reader);
}

/* Behind the name of a key: the rest of its tag, and the value. */
static uint32_t read_value(struct value *v, const json_t *schema)
{
    struct kt_calls *c = v->calls;
    struct kt_program *p = c->program;
    const struct kt_markup *m = v->markup;
    json_t *list = json_array(), *one;
    size_t i;
    bool done = list ? kt_form_expand(c->reader, schema, v->place, list) : kt_form_no_memory(c->reader);
    json_array_foreach (list, i, one) {
        done = done && add_plain(v, one);
    }
    json_decref(list);
    if (!done)
        return 0;
    if (v->is_any)
        v->text = any_text(v);
    uint32_t parts[2] = {v->text, v->json}, op = 0;
    for (unsigned k = 0; k < 2; k++) {
        if (parts[k] == 0)
            continue;
        uint32_t start = m->lines ? kt_op_byte(p, '\n', 0, parts[k]) : parts[k];
        if (m->value)
            start = kt_op_line(p, kt_op_tag(p, m->value, start));
        op = kt_op_split(p, kt_op_tag(p, m->key_ends[m->key_ends[1] ? k + 1 : 0], start), op);
    }
    return op;
}

/* ---- members ---- */

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach (json_object_get(schema, "required"), i, one) {
        if (strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

/* Required members that `properties` does not have. */
static bool lacks_members(const json_t *schema)
{
    const json_t *properties = json_object_get(schema, "properties"), *one;
    size_t i;
    json_array_foreach (json_object_get(schema, "required"), i, one) {
        if (!json_object_get(properties, json_string_value(one)))
            return true;
    }
    return false;
}

/* The arguments of a plain schema in the order of its properties, then `next`. */
static uint32_t members(struct kt_calls *c, const struct kt_markup *m, json_t *schema, uint32_t next)
{
    struct kt_program *p = c->program;
    json_t *properties = json_object_get(schema, "properties"), *one, *pairs = json_array();
    const struct kt_place outer = {NULL, "properties", 0};
    const char *name;
    if (lacks_members(schema))
        kt_form_fail(c->reader, KT_E_UNSUPPORTED, NULL, "a required argument is not in 'properties'");
    if (json_object_get(schema, "patternProperties"))
        kt_form_fail(c->reader, KT_E_UNSUPPORTED, NULL,
                     "arguments by patternProperties have no form in this format");
    json_object_foreach (properties, name, one) {
        if (!pairs || json_array_append_new(pairs, json_pack("[sO]", name, one)) != 0)
            kt_form_no_memory(c->reader);
    }
    for (size_t i = json_array_size(pairs); i-- > 0 && c->reader->status == KT_OK;) {
        name = json_string_value(json_array_get(json_array_get(pairs, i), 0));
        const struct kt_place place = {&outer, name, 0};
        struct value value = {.calls = c, .markup = m, .place = &place, .next = kt_op_line(p, next)};
        if (strpbrk(name, "<>\"\n"))
            kt_form_fail(c->reader, KT_E_UNSUPPORTED, &place,
                         "the name of the argument holds <, >, a quote or a newline");
        uint32_t own = read_value(&value, json_array_get(json_array_get(pairs, i), 1));
        own = own ? kt_op_tag(p, m->key, kt_op_tag(p, name, own)) : 0;
        next = is_required(schema, name) ? own : kt_op_split(p, own, next);
    }
    json_decref(pairs);
    return next;
}

/* An object of which nothing is said: anything up to the end of the call. */
static bool is_open(const json_t *schema)
{
    return !json_object_get(schema, "properties") && !json_object_get(schema, "required") &&
           !json_object_get(schema, "additionalProperties") && !json_object_get(schema, "patternProperties");
}

uint32_t kt_calls_markup(struct kt_calls *c, struct kt_tool *tool, uint32_t next)
{
    struct kt_program *p = c->program;
    const struct kt_markup *m = kt_parser_families[c->format].markup;
    bool is_function = c->format == KT_OUTPUT_FUNCTION;
    json_t *list = json_array(), *one;
    uint32_t op = 0;
    size_t i;
    if (is_function)
        next = kt_op_line(p, kt_op_tag(p, m->section_end, next));
    uint32_t end = kt_op_tag(p, m->call_end, next);
    c->reader->root = tool->parameters;
    c->reader->n_rules = 0;
    if (list && kt_form_check(c->reader, tool->parameters, NULL) &&
        kt_form_expand(c->reader, tool->parameters, NULL, list))
        json_array_foreach (list, i, one) {
            uint32_t inner =
                is_open(one) ? kt_op_until(p, m->call_end, KT_OP_TAG, next, 0) : members(c, m, one, end);
            op = kt_op_split(p, inner, op);
        }
    json_decref(list);
    op = kt_op_line(p, op);
    op = kt_op_tag(p, tool->name, m->name_end ? kt_op_tag(p, m->name_end, op) : op);
    return is_function ? kt_op_line(p, kt_op_tag(p, m->call, op)) : op;
}
