/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.c - members of objects: those of `properties` in their order, then others. Behind a member may come
 * any up to the next one that is required, so each place is "a key of number i or later", which goes on to
 * the places behind it.
 */
#include "tools/engine/grammar/keys.h"
#include "tools/engine/base/dump.h"

#include <stdlib.h>
#include <string.h>

/* Members of an object; more are no schema's of a person. */
#define MOST_MEMBERS 1000
/* Bytes of a name beside keys that may be any: each is a call of other_text, in threads of a small stack. */
#define MOST_NAME 500

struct member {
    const char *name;
    const json_t *schema; /* NULL: any value */
    char *key;            /* its name as JSON */
    bool is_required;
};

struct object {
    struct kt_form_reader *reader;
    const json_t *schema;
    const struct kt_place *place;
    struct member *members;
    size_t n;
    const json_t *others;      /* additionalProperties; NULL: any value */
    json_t *patterns;          /* patternProperties; NULL: none */
    struct kt_form_keys *keys; /* of them */
    json_t *made;              /* schemas that are not in the document */
    uint32_t next;
};

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
        done = done && (!(bits >> i & 1) || json_array_append(all, one) == 0);
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

static bool apply_patterns(struct object *o)
{
    json_t *properties = json_object_get(o->schema, "properties");
    o->made = json_array();
    o->keys = o->made ? kt_form_keys_open(o->reader, o->patterns, o->place, "patternProperties") : NULL;
    for (size_t i = 0; i < o->n && o->keys; i++) {
        struct member *m = &o->members[i];
        uint32_t bits = kt_form_keys_find(o->keys, m->name);
        if (bits)
            m->schema = add_patterns(o, json_object_get(properties, m->name), bits);
        if ((bits && !m->schema) || !kt_form_keys_leave_out(o->keys, m->name))
            return false;
    }
    return o->keys || kt_form_no_memory(o->reader);
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

static uint32_t comma(struct kt_program *p, uint32_t key)
{
    return key ? kt_op_byte(p, ',', 0, kt_op_blank(p, key)) : 0;
}

static uint32_t colon(struct kt_program *p, uint32_t value)
{
    return value ? kt_op_byte(p, ':', 0, kt_op_blank(p, value)) : 0;
}

struct other_value {
    struct object *o;
    uint32_t after;
};

/* What follows a key of no member that fits these expressions. */
static uint32_t other_value(void *data, uint32_t bits)
{
    const struct other_value *v = data;
    struct object *o = v->o;
    const struct kt_place place = {o->place, bits ? "patternProperties" : "additionalProperties", 0};
    const json_t *schema = bits ? add_patterns(o, NULL, bits) : o->others ? o->others : json_true();
    return schema ? colon(o->reader->program, kt_form_value(o->reader, schema, &place, v->after)) : 0;
}

/* A key of no member, its value, and what follows. */
static uint32_t other_members(struct object *o, uint32_t *after)
{
    struct kt_program *p = o->reader->program;
    uint32_t close = kt_op_blank(p, kt_op_byte(p, '}', 0, o->next)), key = 0;
    *after = kt_op_reserve(p);
    struct other_value v = {o, *after};
    if (o->keys) {
        key = kt_form_keys_write(o->keys, other_value, &v);
    } else {
        uint32_t value = other_value(&v, 0);
        key = value ? other_key(o, value) : 0;
    }
    kt_op_place(p, *after, kt_op_split(p, close, comma(p, key)));
    return key;
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
        uint32_t value = kt_form_value(o->reader, m->schema ? m->schema : json_true(), &place, after);
        uint32_t own = value ? kt_op_text(p, m->key, strlen(m->key), 0, colon(p, value)) : 0;
        may_end = may_end && !m->is_required;
        key = m->is_required ? own : kt_op_split(p, own, key);
        after = may_end ? kt_op_split(p, close, comma(p, key)) : comma(p, key);
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
                       .patterns = json_object_get(schema, "patternProperties"),
                       .next = next};
    uint32_t op = collect(&o, schema) ? members(&o) : 0;
    for (size_t i = 0; i < o.n; i++)
        free(o.members[i].key);
    free(o.members);
    kt_form_keys_free(o.keys);
    json_decref(o.made);
    return op;
}
