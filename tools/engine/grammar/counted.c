/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counted.c - members that are counted: minProperties, maxProperties, and schemas that some member must fit
 * (KT_FORM_SOME). Each number of members so far, and each set of such schemas that one has fit, is a place of
 * its own. Other members may have the same key, so many of them count as one where there must be some.
 */
#include "tools/engine/grammar/object.h"

#include <stdlib.h>
#include <string.h>

/* Schemas that some member must fit, and places. */
#define MOST_SOME 3
#define MOST_COUNTED 20000

struct counting {
    struct object *o;
    const json_t *some;
    size_t n_some;
    uint32_t min, max, most, n_sets; /* counts above `most` are one */
    uint32_t *values;                /* rules by member and set; 0: not made yet */
    uint32_t pairs[1 << MOST_SOME];  /* other members by set */
};

/* A member's value that is what the entries of `set` ask for. */
static uint32_t counted_value(struct counting *c, size_t i, uint32_t set)
{
    struct object *o = c->o;
    struct kt_program *p = o->reader->program;
    const struct member *m = &o->members[i];
    const struct kt_place outer = {o->place, "properties", 0}, place = {&outer, m->name, 0};
    uint32_t *made = &c->values[i * c->n_sets + set];
    const json_t *schema = kt_object_schema(m);
    for (size_t k = 0; k < c->n_some && schema; k++)
        if (set >> k & 1)
            schema = kt_object_both(o, schema, json_object_get(json_array_get(c->some, k), "schema"));
    if (*made || !schema)
        return *made;
    *made = kt_op_reserve(p);
    kt_op_place(p, *made, kt_form_value(o->reader, schema, &place, kt_op_return(p)));
    return *made;
}

/* Whether an entry asks for a member of this name. */
static bool asks_for(const struct counting *c, uint32_t set, const char *name)
{
    for (size_t k = 0; k < c->n_some; k++)
        if (set >> k & 1 && json_object_get(json_object_get(json_array_get(c->some, k), "names"), name))
            return false;
    return true;
}

static bool may_close(const struct counting *c, uint32_t declared, uint32_t others, uint32_t set)
{
    return set == c->n_sets - 1 && declared + (others > 0) >= c->min &&
           (c->max == UINT32_MAX || declared + others <= c->max);
}

/* Behind all members of names: ops[declared][others][set] of what follows one. Returns the operation of a key
 * in such a place. */
static uint32_t counted_others(struct counting *c, const uint32_t *ops, uint32_t n_others, uint32_t declared,
                               uint32_t others, uint32_t set)
{
    struct kt_program *p = c->o->reader->program;
    uint32_t key = 0, to = others + 1 < n_others ? others + 1 : others;
    if (c->max != UINT32_MAX && declared + others + 1 > c->max)
        return 0;
    for (uint32_t also = 0; also < c->n_sets; also++) {
        uint32_t after = ops[(declared * n_others + to) * c->n_sets + (set | also)];
        if (!(also & set) && c->pairs[also])
            key = kt_op_split(p, kt_op_call(p, c->pairs[also], after), key);
    }
    return key;
}

/* A key of member i or later; keys: those of member i + 1 or later, by count and set. */
static uint32_t counted_key(struct counting *c, size_t i, const uint32_t *keys, const uint32_t *afters,
                            uint32_t count, uint32_t set)
{
    struct kt_program *p = c->o->reader->program;
    const struct member *m = &c->o->members[i];
    uint32_t key = m->is_required ? 0 : keys[count * c->n_sets + set];
    uint32_t to = count < c->most ? count + 1 : count;
    if (c->max != UINT32_MAX && count + 1 > c->max)
        return key;
    for (uint32_t also = 0; also < c->n_sets; also++) {
        if (also & set || !asks_for(c, also, m->name))
            continue;
        uint32_t value = counted_value(c, i, also), after = afters[to * c->n_sets + (set | also)];
        uint32_t own = value && after ? kt_object_colon(p, kt_op_call(p, value, after)) : 0;
        key = kt_op_split(p, own ? kt_op_text(p, m->key, strlen(m->key), 0, own) : 0, key);
    }
    return key;
}

/* Places behind the members: keys and afters by count and set, of member n. */
static void count_others(struct counting *c, uint32_t *ops, uint32_t n_others, uint32_t *keys,
                         uint32_t *afters)
{
    struct object *o = c->o;
    struct kt_program *p = o->reader->program;
    uint32_t close = kt_op_blank(p, kt_op_byte(p, '}', 0, o->next));
    size_t n = (size_t)(c->most + 1) * n_others * c->n_sets;
    for (size_t i = 0; i < n; i++)
        ops[i] = kt_op_reserve(p);
    for (uint32_t i = 0; i < n && p->status == KT_OK; i++) {
        uint32_t set = i % c->n_sets, others = i / c->n_sets % n_others, declared = i / c->n_sets / n_others;
        uint32_t key = counted_others(c, ops, n_others, declared, others, set);
        uint32_t end = may_close(c, declared, others, set) ? close : 0;
        kt_op_place(p, ops[i], kt_op_split(p, end, kt_object_comma(p, key)));
        if (others == 0) {
            keys[declared * c->n_sets + set] = key;
            afters[declared * c->n_sets + set] = ops[i];
        }
    }
}

static uint32_t count_members(struct counting *c, uint32_t n_others)
{
    struct object *o = c->o;
    struct kt_program *p = o->reader->program;
    size_t width = (size_t)(c->most + 1) * c->n_sets;
    uint32_t *ops = calloc(width * n_others, sizeof(*ops)), *keys = calloc(4 * width, sizeof(*keys));
    uint32_t *afters = keys + width, *next = keys + 2 * width, *later = keys + 3 * width, op = 0;
    uint32_t close = kt_op_blank(p, kt_op_byte(p, '}', 0, o->next));
    bool may_end = true;
    c->values = calloc(o->n * c->n_sets + 1, sizeof(*c->values));
    if (!ops || !keys || !c->values)
        kt_form_no_memory(o->reader);
    else
        count_others(c, ops, n_others, keys, afters);
    for (size_t i = o->n; i-- > 0 && o->reader->status == KT_OK && p->status == KT_OK;) {
        may_end = may_end && !o->members[i].is_required;
        for (uint32_t k = 0; k < width; k++) {
            uint32_t count = k / c->n_sets, set = k % c->n_sets;
            next[k] = counted_key(c, i, keys, afters, count, set);
            uint32_t end = may_end && may_close(c, count, 0, set) ? close : 0;
            later[k] = kt_op_split(p, end, kt_object_comma(p, next[k]));
        }
        memcpy(keys, next, 2 * width * sizeof(*keys));
    }
    if (o->reader->status == KT_OK) {
        uint32_t empty = may_end && may_close(c, 0, 0, 0) ? kt_op_byte(p, '}', 0, o->next) : 0;
        op = kt_op_blank(p, kt_op_split(p, empty, keys[0]));
    }
    free(ops);
    free(keys);
    free(c->values);
    return op;
}

uint32_t kt_object_counted(struct object *o)
{
    struct kt_program *p = o->reader->program;
    struct counting c = {.o = o,
                         .some = json_object_get(o->schema, KT_FORM_SOME),
                         .min = kt_form_count(o->schema, "minProperties", 0),
                         .max = kt_form_count(o->schema, "maxProperties", UINT32_MAX)};
    bool is_closed = o->is_closed || (json_is_false(o->others) && !o->patterns);
    uint32_t n_required = 0, n_others;
    c.n_some = json_array_size(c.some);
    c.n_sets = 1u << (c.n_some <= MOST_SOME ? c.n_some : 0);
    c.most = c.max != UINT32_MAX ? c.max : c.min;
    c.most = c.most < o->n ? c.most : (uint32_t)o->n;
    for (size_t i = 0; i < o->n; i++)
        n_required += o->members[i].is_required;
    n_others = is_closed ? 1 : c.max == UINT32_MAX ? 2 : c.max < MOST_COUNTED ? c.max + 1 : MOST_COUNTED + 1;
    if (c.min > n_required + 1 && !is_closed) {
        kt_form_fail(o->reader, KT_E_UNSUPPORTED, o->place,
                     "minProperties above %u, one more than are required, is not supported beside "
                     "members of any name, as one could be written twice",
                     n_required + 1);
        return 0;
    }
    if (c.n_some > MOST_SOME || (c.n_some > 0 && o->keys) ||
        (uint64_t)(c.most + 1) * c.n_sets * (n_others + o->n) > MOST_COUNTED) {
        kt_form_fail(o->reader, KT_E_UNSUPPORTED, o->place,
                     "minProperties, maxProperties or a 'not' of members beside so many others, or beside "
                     "patternProperties, is not supported");
        return 0;
    }
    for (uint32_t set = 0; set < c.n_sets && !is_closed; set++) {
        json_t *all = json_array(), *also = NULL;
        for (size_t k = 0; k < c.n_some; k++)
            if (set >> k & 1)
                (void)json_array_append(all, json_object_get(json_array_get(c.some, k), "schema"));
        also = set ? json_pack("{s:O}", "allOf", all) : NULL;
        c.pairs[set] = kt_object_other(o, also, kt_op_return(p));
        json_decref(also);
        json_decref(all);
    }
    return count_members(&c, n_others);
}
