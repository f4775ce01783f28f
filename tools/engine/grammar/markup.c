/* SPDX-License-Identifier: Apache-2.0 */
/*
 * markup.c - arguments in tags. Strings stand as they are, up to the closing tag; everything else is JSON.
 * Where a schema allows a string and something else, a string does not begin as the other one would: it would
 * be read as that.
 */
#include "tools/engine/grammar/calls.h"
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/pattern.h"
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
    json_t *limited; /* schemas of strings that have patterns, formats or lengths */
};

static uint32_t end_tag(struct value *v)
{
    return kt_op_tag(v->calls->program, v->markup->value_ends[0], v->next);
}

/* Any text up to the closing tag. Where the parser of output forgives a missing one, text that begins another
 * call would be taken for that. */
static uint32_t until_end(struct value *v)
{
    struct kt_program *p = v->calls->program;
    const struct kt_until tags[] = {{v->markup->value_ends[0], v->next}, {v->markup->call, 0}};
    return kt_op_until_any(p, tags, v->markup->next_section ? 2 : 1, 0, end_tag(v), NULL);
}

static uint32_t any_text(struct value *v)
{
    struct kt_program *p = v->calls->program;
    uint32_t text = until_end(v), first = text;
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
static bool add_constants(struct value *v, const json_t *schema)
{
    struct kt_program *p = v->calls->program;
    json_t *rest = json_copy((json_t *)(uintptr_t)schema);
    const json_t *one;
    size_t i;
    bool done = rest || kt_form_no_memory(v->calls->reader);
    (void)json_object_del(rest, "enum");
    json_array_foreach (json_object_get(schema, "enum"), i, one) {
        const char *text = json_string_value(one);
        if (!done || !text || !kt_form_valid_plain(v->calls->reader, rest, one, v->place))
            continue;
        if (strstr(text, v->markup->value_ends[0]))
            done = kt_form_fail(v->calls->reader, KT_E_UNSUPPORTED, v->place,
                                "a constant holds the format's own tag");
        v->text = kt_op_split(p, kt_op_text(p, text, strlen(text), 0, end_tag(v)), v->text);
    }
    json_decref(rest);
    return done && v->calls->reader->status == KT_OK;
}

/* A tag as an expression that finds it. */
static bool add_escaped(struct kt_buffer *pattern, const char *tag)
{
    bool done = true;
    for (; *tag && done; tag++)
        done = (!strchr("^$\\.*+?()[]{}|/", *tag) || kt_buffer_add_text(pattern, "\\")) &&
               kt_buffer_add(pattern, tag, 1);
    return done && kt_buffer_add_text(pattern, "");
}

/* Strings of a schema that have none of the tags that would end them, and where other types may come, too, do
 * not begin as their values do. */
static bool add_limited(struct value *v, const json_t *schema)
{
    static const char first[] = "^(?:[!#-,./:;=-Z^-eg-mo-su-z\\u0080-\\u{10ffff}]|$)";
    struct kt_form_reader *reader = v->calls->reader;
    struct kt_buffer tags = {.data = NULL};
    json_t *texts = kt_form_texts(reader, schema, v->place);
    bool done = texts != NULL, is_told = v->markup->key_ends[1] != NULL;
    for (int i = 0; i < v->markup->n_value_ends && done; i++)
        done = ((i == 0 || kt_buffer_add_text(&tags, "|")) && add_escaped(&tags, v->markup->value_ends[i])) ||
               kt_form_no_memory(reader);
    if (done &&
        (json_object_set_new(texts, tags.data, json_integer(KT_TEXT_NOT_FOUND)) != 0 ||
         (v->others && !is_told && json_object_set_new(texts, first, json_integer(KT_TEXT_FOUND)) != 0)))
        done = kt_form_no_memory(reader);
    uint32_t min = kt_form_count(schema, "minLength", 0),
             max = kt_form_count(schema, "maxLength", UINT32_MAX);
    reader->is_raw = true;
    uint32_t op = done && min <= max ? kt_form_looked(reader, texts, json_object_get(schema, KT_FORM_NONE),
                                                      v->place, min, max, end_tag(v))
                                     : 0;
    reader->is_raw = false;
    v->text = kt_op_split(v->calls->program, op, v->text);
    kt_buffer_free(&tags);
    json_decref(texts);
    return done;
}

static bool is_limited(const json_t *schema)
{
    static const char *const names[] = {"pattern", "format", "minLength", "maxLength", KT_FORM_TEXTS};
    const json_t *one;
    size_t i;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (json_object_get(schema, names[i]))
            return true;
    json_array_foreach (json_object_get(schema, KT_FORM_NONE), i, one) {
        if (json_is_string(one))
            return true;
    }
    return false;
}

/* One alternative of a schema. */
static bool add_plain(struct value *v, const json_t *schema)
{
    uint32_t types = kt_form_types(schema);
    bool has_values = json_object_get(schema, "enum");
    if (types & KT_IS_STRING && has_values && !add_constants(v, schema))
        return false;
    if (types & KT_IS_STRING && !has_values && is_limited(schema) &&
        json_array_append(v->limited, (json_t *)(uintptr_t)schema) != 0)
        return kt_form_no_memory(v->calls->reader);
    v->is_any |= types & KT_IS_STRING && !has_values && !is_limited(schema);
    types &= ~(uint32_t)KT_IS_STRING;
    if (types == 0)
        return true;
    json_t *copy = json_copy((json_t *)(uintptr_t)schema);
    bool done = copy && json_object_set_new(copy, "type", kt_form_type_list(types)) == 0;
    (void)json_object_del(copy, "nullable");
    if (done) {
        uint32_t json = kt_form_value(v->calls->reader, copy, v->place, end_tag(v));
        v->json = kt_op_split(v->calls->program, json, v->json);
        v->others |= json ? types : 0;
    }
    json_decref(copy);
    return done || kt_form_no_memory(v->calls->reader);
}

/* The rest of a key's tag, and the value: a string, or another one. */
static uint32_t behind_name(struct value *v)
{
    const struct kt_markup *m = v->markup;
    struct kt_program *p = v->calls->program;
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

/* Behind the name of a key. */
static uint32_t read_value(struct value *v, const json_t *schema)
{
    struct kt_calls *c = v->calls;
    json_t *list = json_array(), *one;
    size_t i;
    bool done = list ? kt_form_expand(c->reader, schema, v->place, list) : kt_form_no_memory(c->reader);
    v->limited = done ? json_array() : NULL;
    done = done && (v->limited || kt_form_no_memory(c->reader));
    json_array_foreach (list, i, one) {
        done = done && add_plain(v, one);
    }
    json_array_foreach (v->limited, i, one) {
        done = done && (v->is_any || add_limited(v, one));
    }
    json_decref(v->limited);
    json_decref(list);
    if (!done)
        return 0;
    if (v->is_any)
        v->text = any_text(v);
    return behind_name(v);
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
    static const char *const refused[] = {"patternProperties", "propertyNames", "minProperties",
                                          "maxProperties",     "enum",          KT_FORM_SOME};
    struct kt_program *p = c->program;
    json_t *properties = json_object_get(schema, "properties"), *one, *pairs = json_array();
    const struct kt_place outer = {NULL, "properties", 0};
    const char *name;
    if (lacks_members(schema))
        kt_form_fail(c->reader, KT_E_UNSUPPORTED, NULL, "a required argument is not in 'properties'");
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (json_object_get(schema, refused[i]))
            kt_form_fail(c->reader, KT_E_UNSUPPORTED, NULL,
                         "%s of a tool's arguments, or 'not' of it, has no form in this format",
                         *refused[i] == '\1' ? "additionalProperties" : refused[i]);
    if (!(kt_form_types(schema) & KT_IS_OBJECT)) {
        json_decref(pairs);
        return 0;
    }
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

/* An object of which nothing is said. */
static bool is_open(const json_t *schema)
{
    return !kt_form_asserts(schema, "type");
}

/* Characters that stand in no tag's end, one at least. */
static uint32_t any_name(struct kt_program *p, uint32_t next)
{
    uint32_t more = kt_op_reserve(p);
    struct kt_range ranges[4 + KT_UTF8_RANGES] = {{' ', '!', more},
                                                  {'#', ';', more},
                                                  {'=', '=', more},
                                                  {'?', '~', more}};
    size_t n = kt_ranges_utf8(p, &ranges[4], more);
    uint32_t first = kt_op_switch(p, ranges, 4 + n, 0);
    kt_op_place(p, more, kt_op_split(p, first, next));
    return first;
}

/* Its members, any number of them, with values of any kind: the parser of output says what they are. */
static uint32_t any_members(struct kt_calls *c, const struct kt_markup *m, uint32_t end)
{
    struct kt_program *p = c->program;
    uint32_t again = kt_op_reserve(p);
    struct value value = {.calls = c, .markup = m, .next = kt_op_line(p, again)};
    value.text = until_end(&value);
    if (m->key_ends[1])
        value.json = kt_op_value(p, end_tag(&value));
    kt_op_place(p, again, kt_op_split(p, kt_op_tag(p, m->key, any_name(p, behind_name(&value))), end));
    return again;
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
            uint32_t inner = is_open(one) ? any_members(c, m, end) : members(c, m, one, end);
            op = kt_op_split(p, inner, op);
        }
    json_decref(list);
    op = kt_op_line(p, op);
    op = kt_op_tag(p, tool->name, m->name_end ? kt_op_tag(p, m->name_end, op) : op);
    return is_function ? kt_op_line(p, kt_op_tag(p, m->call, op)) : op;
}
