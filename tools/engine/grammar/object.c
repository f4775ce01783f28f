/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.c - members of objects: those of `properties` in their order, then others. Behind a member may come
 * any up to the next one that is required, so each place is "a key of number i or later", which goes on to
 * the places behind it.
 */
#include "tools/engine/grammar/object.h"
#include "tools/engine/grammar/keys.h"
#include "tools/engine/grammar/pattern.h"
#include "tools/engine/base/dump.h"

#include <stdlib.h>
#include <string.h>

/* Members of an object; more are no schema's of a person. */
#define MOST_MEMBERS 1000
/* Bytes of a name beside keys that may be any: each is a call of other_text, in threads of a small stack. */
#define MOST_NAME 500

static bool add_member(struct object *o, const char *name, const json_t *schema)
{
    o->members[o->n] = (struct member){.name = name, .schema = schema};
    json_t *text = json_string(name);
    o->members[o->n].key = text ? kt_json_dump(text, JSON_ENCODE_ANY) : NULL;
    json_decref(text);
    return o->members[o->n++].key != NULL || kt_form_no_memory(o->reader);
}

static struct member *find_member(const struct object *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->members[i].name, name) == 0)
            return &o->members[i];
    return NULL;
}

/* What else holds for a value whose key fits these expressions; NULL after a failure. */
static const json_t *add_patterns(struct object *o, const json_t *schema, uint32_t bits)
{
    json_t *all = json_array(), *one;
    const char *pattern;
    size_t i = 0;
    bool done = all && (!schema || json_array_append(all, (json_t *)(uintptr_t)schema) == 0);
    json_object_foreach (o->patterns, pattern, one) {
        done = done && (!(bits >> i & 1) || json_is_true(one) || json_array_append(all, one) == 0);
        i++;
    }
    json_t *both = done ? json_pack("{s:O}", "allOf", all) : NULL;
    done = both && json_array_append_new(o->made, both) == 0;
    json_decref(all);
    if (!done)
        kt_form_no_memory(o->reader);
    return !done                                                        ? NULL
           : json_array_size(all = json_object_get(both, "allOf")) == 1 ? json_array_get(all, 0)
                                                                        : both;
}

/* Bits of expressions that say something of a value. */
static uint32_t bits_of_values(const struct object *o)
{
    json_t *patterns = json_object_get(o->schema, "patternProperties"), *one;
    uint32_t bits = 0, i = 0;
    const char *pattern;
    json_object_foreach (o->patterns, pattern, one) {
        bits |= (uint32_t)(json_object_get(patterns, pattern) != NULL) << i++;
    }
    return bits;
}

/* May a key be that fits these expressions? */
static bool is_name(const struct object *o, uint32_t bits)
{
    const char *pattern;
    json_t *one;
    uint32_t i = 0;
    json_object_foreach (o->patterns, pattern, one) {
        bool found = bits >> i++ & 1;
        json_int_t asked = json_integer_value(json_object_get(o->asked, pattern));
        if (asked & (found ? KT_TEXT_NOT_FOUND : KT_TEXT_FOUND))
            return false;
    }
    return true;
}

static bool apply_patterns(struct object *o)
{
    json_t *properties = json_object_get(o->schema, "properties");
    uint32_t of_values = bits_of_values(o);
    o->keys =
        kt_form_keys_open(o->reader, o->patterns, o->place, "patternProperties", o->min_name, o->max_name);
    for (size_t i = 0; i < o->n && o->keys; i++) {
        struct member *m = &o->members[i];
        uint32_t bits = kt_form_keys_find(o->keys, m->name) & of_values;
        if (bits)
            m->schema = add_patterns(o, json_object_get(properties, m->name), bits);
        if ((bits && !m->schema) || !kt_form_keys_leave_out(o->keys, m->name))
            return false;
    }
    return o->keys || kt_form_no_memory(o->reader);
}

/* ---- propertyNames ---- */

/* Names of an enum are members that may be; no others. */
static bool add_names(struct object *o, const json_t *plain)
{
    const json_t *one;
    size_t i;
    json_t *rest = json_copy((json_t *)(uintptr_t)plain), *values = json_object_get(plain, "enum");
    struct member *grown = realloc(o->members, (o->n + json_array_size(values) + 1) * sizeof(*grown));
    bool done = (rest && grown) || kt_form_no_memory(o->reader);
    o->members = grown ? grown : o->members;
    if (done && o->n + json_array_size(values) > MOST_MEMBERS)
        done =
            kt_form_fail(o->reader, KT_E_RANGE, o->place, "an object has more than %d members", MOST_MEMBERS);
    (void)json_object_del(rest, "enum");
    json_array_foreach (values, i, one) {
        const char *name = json_string_value(one);
        if (done && name && !find_member(o, name) && kt_form_valid_plain(o->reader, rest, one, o->place))
            done = add_member(o, name, o->others);
    }
    json_decref(rest);
    return done && o->reader->status == KT_OK;
}

/* Expressions and lengths of names. */
static bool ask_names(struct object *o, const json_t *plain)
{
    json_t *texts = kt_form_texts(o->reader, plain, o->place), *asked;
    json_t *parts = texts ? kt_form_parts(o->reader, texts, o->place) : NULL;
    const char *part;
    bool done = parts != NULL;
    if (!o->patterns)
        o->patterns = json_object();
    json_object_foreach (parts, part, asked) {
        done =
            done && o->patterns &&
            (json_object_get(o->patterns, part) || json_object_set_new(o->patterns, part, json_true()) == 0);
    }
    o->asked = parts;
    o->min_name = kt_form_count(plain, "minLength", 0);
    o->max_name = kt_form_count(plain, "maxLength", UINT32_MAX);
    json_decref(texts);
    return (done && o->patterns) || (o->reader->status == KT_OK && kt_form_no_memory(o->reader));
}

static bool apply_names(struct object *o)
{
    const struct kt_place place = {o->place, "propertyNames", 0};
    const json_t *names = json_object_get(o->schema, "propertyNames");
    json_t *list = json_array(), *one, *found = NULL;
    size_t i, n = 0;
    bool done = (list || kt_form_no_memory(o->reader)) && kt_form_expand(o->reader, names, &place, list);
    json_array_foreach (list, i, one) {
        if (!(kt_form_types(one) & KT_IS_STRING))
            continue;
        n++;
        found = one;
    }
    const json_t *none = json_object_get(found, KT_FORM_NONE);
    if (done && (n > 1 || json_array_size(none) > 0))
        done = kt_form_fail(o->reader, KT_E_UNSUPPORTED, &place,
                            "alternatives, and constants that are left out, are not supported here");
    if (done && n == 1 && json_object_get(found, "enum"))
        done = add_names(o, found);
    else if (done && n == 1)
        done = ask_names(o, found);
    if (n == 0 || json_object_get(found, "enum"))
        o->others = NULL;
    o->is_closed = n == 0 || json_object_get(found, "enum");
    json_decref(list);
    for (i = 0; i < o->n && done; i++) {
        json_t *text = json_string(o->members[i].name);
        if (!text)
            return kt_form_no_memory(o->reader);
        if (!kt_form_valid(o->reader, names, text, &place))
            o->members[i].is_banned = true;
        json_decref(text);
    }
    return done && o->reader->status == KT_OK;
}

static bool collect(struct object *o, const json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"),
           *required = json_object_get(schema, "required");
    json_t *one;
    const char *name;
    size_t i, most = json_object_size(properties) + json_array_size(required);
    bool done = true;
    if (most > MOST_MEMBERS)
        return kt_form_fail(o->reader, KT_E_RANGE, o->place, "an object has more than %d members",
                            MOST_MEMBERS);
    o->members = calloc(most + 1, sizeof(*o->members));
    if (!o->members)
        return kt_form_no_memory(o->reader);
    json_object_foreach (properties, name, one) {
        done = done && add_member(o, name, one);
    }
    json_array_foreach (required, i, one) {
        name = json_string_value(one);
        if (done && !find_member(o, name))
            done = add_member(o, name, o->others);
        if (done)
            find_member(o, name)->is_required = true;
    }
    o->made = json_array();
    done = done && (o->made || kt_form_no_memory(o->reader));
    if (done && json_object_get(schema, "propertyNames"))
        done = apply_names(o);
    return done && (!o->patterns || apply_patterns(o));
}

/* ---- keys that no member has ---- */

/* What all places of a tree of keys share. */
struct keys {
    struct kt_program *program;
    struct kt_range utf8[KT_UTF8_RANGES];
    size_t n_utf8;
    uint32_t rest, end; /* any further text and the closing quote; the quote alone */
};

/* Not a part of other_text, whose calls of itself would each have room for the ranges. */
__attribute__((noinline)) static uint32_t write_switch(struct kt_program *p, const uint32_t targets[256])
{
    struct kt_range ranges[256];
    size_t n = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        if (n > 0 && ranges[n - 1].last + 1u == byte && ranges[n - 1].target == targets[byte])
            ranges[n - 1].last = (uint8_t)byte;
        else if (targets[byte])
            ranges[n++] = (struct kt_range){(uint8_t)byte, (uint8_t)byte, targets[byte]};
    }
    return kt_op_switch(p, ranges, n, 0);
}

/* Of sorted keys with the same first `at` bytes: any other text from there on. An escape is read in its short
 * form only as long as the key could become a member's: else one could be written in another way. */
static uint32_t other_text(const struct keys *k, char *const *keys, size_t n, size_t at, bool is_escape)
{
    uint32_t targets[256] = {0};
    for (const char *c = "\"\\bfnrt"; is_escape && *c; c++)
        targets[(uint8_t)*c] = k->rest;
    for (unsigned byte = ' '; byte < 0x80 && !is_escape; byte++)
        targets[byte] = k->rest;
    for (size_t i = 0; i < k->n_utf8 && !is_escape; i++)
        for (unsigned byte = k->utf8[i].first; byte <= k->utf8[i].last; byte++)
            targets[byte] = k->utf8[i].target;
    if (!is_escape) {
        targets['"'] = k->end;
        targets['\\'] = other_text(k, NULL, 0, 0, true);
    }
    for (size_t i = 0, first = 0; i < n; first = i) {
        uint8_t byte = (uint8_t)keys[i][at];
        while (i < n && (uint8_t)keys[i][at] == byte)
            i++;
        /* A quote ends a member's key. Characters above U+007F, and escapes by number, are left to members.
         */
        bool is_left = (byte == '"' && !is_escape) || byte >= 0x80 || (byte == 'u' && is_escape);
        targets[byte] =
            is_left ? 0 : other_text(k, keys + first, i - first, at + 1, byte == '\\' && !is_escape);
    }
    return write_switch(k->program, targets);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint32_t other_key(const struct object *o, uint32_t next)
{
    struct keys k = {.program = o->reader->program,
                     .rest = kt_op_string_rest(o->reader->program, next),
                     .end = next};
    char **keys = calloc(o->n + 1, sizeof(*keys));
    if (!keys) {
        kt_form_no_memory(o->reader);
        return 0;
    }
    for (size_t i = 0; i < o->n; i++) {
        keys[i] = o->members[i].key;
        if (strlen(keys[i]) > MOST_NAME)
            kt_form_fail(o->reader, KT_E_RANGE, o->place,
                         "a member's name is longer than %d bytes; set additionalProperties to false",
                         MOST_NAME);
    }
    qsort(keys, o->n, sizeof(*keys), compare);
    k.n_utf8 = kt_ranges_utf8(k.program, k.utf8, k.rest);
    if (o->reader->status != KT_OK) {
        free(keys);
        return 0;
    }
    uint32_t text = o->n > 0 ? other_text(&k, keys, o->n, 1, false) : k.rest;
    free(keys);
    return kt_op_byte(k.program, '"', 0, text);
}

/* ---- places ---- */

uint32_t kt_object_comma(struct kt_program *p, uint32_t key)
{
    return key ? kt_op_byte(p, ',', 0, kt_op_blank(p, key)) : 0;
}

uint32_t kt_object_colon(struct kt_program *p, uint32_t value)
{
    return value ? kt_op_byte(p, ':', 0, kt_op_blank(p, value)) : 0;
}

struct other_value {
    struct object *o;
    json_t *also; /* what else holds for the value; NULL: nothing */
    uint32_t after;
};

/* A schema, and what else holds. */
const json_t *kt_object_both(struct object *o, const json_t *schema, json_t *also)
{
    json_t *both = also ? kt_form_both((json_t *)(uintptr_t)schema, also) : NULL;
    if (!also)
        return schema;
    if (both && json_array_append_new(o->made, both) == 0)
        return both;
    kt_form_no_memory(o->reader);
    return NULL;
}

/* What follows a key of no member that fits these expressions. */
static uint32_t other_value(void *data, uint32_t bits)
{
    const struct other_value *v = data;
    struct object *o = v->o;
    if (o->is_closed || !is_name(o, bits))
        return 0;
    bits &= bits_of_values(o);
    const struct kt_place place = {o->place, bits ? "patternProperties" : "additionalProperties", 0};
    const json_t *schema = bits ? add_patterns(o, NULL, bits) : o->others ? o->others : json_true();
    schema = schema ? kt_object_both(o, schema, v->also) : NULL;
    return schema ? kt_object_colon(o->reader->program, kt_form_value(o->reader, schema, &place, v->after))
                  : 0;
}

/* A key of no member, and its value, to `after`. */
uint32_t kt_object_other(struct object *o, json_t *also, uint32_t after)
{
    struct other_value v = {o, also, after};
    if (o->keys)
        return kt_form_keys_write(o->keys, other_value, &v);
    uint32_t value = other_value(&v, 0);
    return value ? other_key(o, value) : 0;
}

/* A key of no member, its value, and what follows. */
static uint32_t other_members(struct object *o, uint32_t *after)
{
    struct kt_program *p = o->reader->program;
    uint32_t close = kt_op_blank(p, kt_op_byte(p, '}', 0, o->next));
    *after = kt_op_reserve(p);
    uint32_t key = kt_object_other(o, NULL, *after);
    kt_op_place(p, *after, kt_op_split(p, close, kt_object_comma(p, key)));
    return key;
}

const json_t *kt_object_schema(const struct member *m)
{
    return m->is_banned ? json_false() : m->schema ? m->schema : json_true();
}

static uint32_t members(struct object *o)
{
    struct kt_program *p = o->reader->program;
    const struct kt_place properties = {o->place, "properties", 0};
    uint32_t close = kt_op_blank(p, kt_op_byte(p, '}', 0, o->next)), after;
    uint32_t key = other_members(o, &after); /* a key of member i or later; behind the value of i - 1 */
    bool may_end = true;
    for (size_t i = o->n; i-- > 0;) {
        const struct member *m = &o->members[i];
        const struct kt_place place = {&properties, m->name, 0};
        uint32_t value = kt_form_value(o->reader, kt_object_schema(m), &place, after);
        uint32_t own = value ? kt_op_text(p, m->key, strlen(m->key), 0, kt_object_colon(p, value)) : 0;
        may_end = may_end && !m->is_required;
        key = m->is_required ? own : kt_op_split(p, own, key);
        after = may_end ? kt_op_split(p, close, kt_object_comma(p, key)) : kt_object_comma(p, key);
    }
    uint32_t empty = may_end ? kt_op_byte(p, '}', 0, o->next) : 0;
    return kt_op_blank(p, kt_op_split(p, empty, key));
}

uint32_t kt_form_object(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                        uint32_t next)
{
    struct object o = {.reader = reader,
                       .schema = schema,
                       .place = place,
                       .others = json_object_get(schema, "additionalProperties"),
                       .max_name = UINT32_MAX,
                       .next = next};
    json_t *patterns = json_object_get(schema, "patternProperties");
    bool counts = json_object_get(schema, "minProperties") || json_object_get(schema, "maxProperties") ||
                  json_object_get(schema, KT_FORM_SOME);
    o.patterns = patterns ? json_copy(patterns) : NULL;
    if (patterns && !o.patterns)
        kt_form_no_memory(reader);
    uint32_t op = 0;
    if (reader->status == KT_OK && collect(&o, schema))
        op = counts ? kt_object_counted(&o) : members(&o);
    for (size_t i = 0; i < o.n; i++)
        free(o.members[i].key);
    free(o.members);
    kt_form_keys_free(o.keys);
    json_decref(o.made);
    json_decref(o.patterns);
    json_decref(o.asked);
    return op;
}
