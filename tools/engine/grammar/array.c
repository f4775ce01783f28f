/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.c - items of arrays. Where some must fit a schema, or all must differ, each number of items so far,
 * and of those that fit, and each set of values that have come, is a place of its own: so what cannot be
 * ended is not begun.
 */
#include "tools/engine/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PLACES 8192
#define MOST_HELD 3    /* schemas that items must fit so and so often */
#define MOST_VALUES 60 /* of items that must differ */

/* ---- items, and how many ---- */

struct array {
    struct kt_form_reader *reader;
    const json_t *prefix, *items;
    const struct kt_place *place;
    uint32_t min, max, n_prefix;
    uint32_t close; /* the bracket, and blanks before it */
};

static uint32_t comma(struct kt_program *p, uint32_t item)
{
    return item ? kt_op_byte(p, ',', 0, kt_op_blank(p, item)) : 0;
}

/* Items behind those of the prefix. Sets *first to one of them, and returns what follows one or the prefix.
 */
static uint32_t further_items(const struct array *a, uint32_t *first)
{
    struct kt_program *p = a->reader->program;
    const struct kt_place place = {a->place, "items", 0};
    uint32_t min = a->min > a->n_prefix ? a->min - a->n_prefix : 0, after = kt_op_reserve(p);
    uint32_t max = a->max == UINT32_MAX ? a->max : a->max > a->n_prefix ? a->max - a->n_prefix : 0;
    bool counts = min > 1 || max != UINT32_MAX;
    *first = 0;
    if (max > 0)
        *first = kt_form_value(a->reader, a->items ? a->items : json_true(), &place,
                               counts ? kt_op_count(p, max == UINT32_MAX ? min : max, after) : after);
    uint32_t more = comma(p, *first), op = kt_op_split(p, a->close, more);
    if (max != UINT32_MAX)
        op = kt_op_less(p, max, op, a->close);
    if (min > 1)
        op = kt_op_less(p, min, more, op);
    kt_op_place(p, after, op);
    return min == 0 ? after : more; /* behind the prefix: the first one must come, if any must */
}

static uint32_t array_rule(struct array *a)
{
    struct kt_program *p = a->reader->program;
    const struct kt_place prefix = {a->place, "prefixItems", 0};
    uint32_t first = 0, after = further_items(a, &first);
    if (a->n_prefix == 0)
        return kt_op_blank(p, a->min > 0 ? first
                                         : kt_op_split(p, kt_op_byte(p, ']', 0, kt_op_return(p)), first));
    uint32_t item = 0;
    for (uint32_t i = a->n_prefix; i-- > 0;) {
        const struct kt_place place = {&prefix, NULL, i};
        if (i + 1 < a->n_prefix) { /* `item` is number i + 1 */
            after = i + 1 < a->max ? comma(p, item) : 0;
            after = i + 1 >= a->min ? kt_op_split(p, a->close, after) : after;
        }
        item = i < a->max ? kt_form_value(a->reader, json_array_get(a->prefix, i), &place, after) : 0;
    }
    uint32_t empty = a->min == 0 ? kt_op_byte(p, ']', 0, kt_op_return(p)) : 0;
    return kt_op_blank(p, kt_op_split(p, empty, item));
}

/* ---- items of which some must fit ---- */

struct held {
    json_t *schema;
    uint32_t min, max, from; /* how many; counted from this item on */
};

struct holder {
    struct array *array;
    struct held held[MOST_HELD];
    size_t n;
    uint32_t length, uniform; /* counts of items above it are one; schemas from this item on are */
    uint32_t *items; /* rules by schema and by what they fit: [uniform + 1][1 << n]; 0: not made yet */
    json_t *made;    /* schemas that are not in the document */
};

/* How many counts of one are told apart. */
static uint32_t width(const struct held *held)
{
    return (held->max == UINT32_MAX ? held->min : held->max) + 1;
}

static bool read_held(struct holder *h, const json_t *list)
{
    const json_t *one;
    size_t i;
    if (json_array_size(list) > MOST_HELD)
        return kt_form_fail(h->array->reader, KT_E_UNSUPPORTED, h->array->place,
                            "more than %d 'contains' are not supported", MOST_HELD);
    json_array_foreach (list, i, one) {
        h->held[h->n++] = (struct held){.schema = get(one, "schema"),
                                        .min = kt_form_count(one, "min", 0),
                                        .max = kt_form_count(one, "max", UINT32_MAX),
                                        .from = kt_form_count(one, "from", 0)};
        if (h->uniform < h->held[i].from)
            h->uniform = h->held[i].from;
    }
    return true;
}

/* An item, number `at`, that fits the schemas of `set`, and of those with a most no others; 0: none does. */
static uint32_t held_item(struct holder *h, uint32_t at, uint32_t set)
{
    struct array *a = h->array;
    const struct kt_place place = {a->place, at < a->n_prefix ? "prefixItems" : "contains", 0};
    uint32_t column = at < h->uniform ? at : h->uniform, *made = &h->items[(column << h->n) + set];
    if (*made)
        return *made;
    json_t *own = at < a->n_prefix ? json_array_get(a->prefix, at) : (json_t *)(uintptr_t)a->items;
    json_t *all = json_array();
    bool done = all && json_array_append(h->made, all) == 0 && (!own || json_array_append(all, own) == 0);
    json_decref(all);
    for (size_t i = 0; i < h->n && done; i++) {
        if (set >> i & 1)
            done = json_array_append(all, h->held[i].schema) == 0;
        else if (h->held[i].max != UINT32_MAX && at >= h->held[i].from)
            done = json_array_append_new(all, json_pack("{s:O}", "not", h->held[i].schema)) == 0;
    }
    json_t *schema = json_pack("{s:O}", "allOf", all);
    done = done && schema && json_array_append(h->made, schema) == 0;
    json_decref(schema);
    if (!done)
        kt_form_no_memory(a->reader);
    *made = kt_op_reserve(a->reader->program);
    kt_op_place(a->reader->program, *made,
                done ? kt_form_value(a->reader, schema, &place, kt_op_return(a->reader->program)) : 0);
    return *made;
}

/* Behind `at` items, of which so many fit each schema; ops: where each such place is. */
static uint32_t held_place(struct holder *h, const uint32_t *ops, uint32_t at, const uint32_t *counts)
{
    struct array *a = h->array;
    struct kt_program *p = a->reader->program;
    bool may_end = at >= a->min;
    uint32_t more = 0;
    for (size_t i = 0; i < h->n; i++)
        may_end = may_end && counts[i] >= h->held[i].min;
    for (uint32_t set = 0; set < 1u << h->n && at < a->max; set++) {
        uint32_t to = at < h->length ? at + 1 : at;
        bool counted = true;
        for (size_t i = 0; i < h->n; i++) {
            bool is_in = set >> i & 1;
            counted = counted && (!is_in || (at >= h->held[i].from && counts[i] + 1 < width(&h->held[i])));
            to = to * width(&h->held[i]) + counts[i] + is_in;
        }
        uint32_t item = counted ? held_item(h, at, set) : 0;
        more = kt_op_split(p, item ? kt_op_call(p, item, ops[to]) : 0, more);
    }
    if (at > 0)
        return kt_op_split(p, may_end ? a->close : 0, comma(p, more));
    uint32_t empty = may_end ? kt_op_byte(p, ']', 0, kt_op_return(p)) : 0;
    return kt_op_blank(p, kt_op_split(p, empty, more));
}

static uint32_t held_rule(struct array *a, const json_t *list)
{
    struct holder h = {.array = a, .uniform = a->n_prefix, .made = json_array()};
    struct kt_program *p = a->reader->program;
    uint32_t op = 0, *ops = NULL;
    uint64_t n = 1;
    bool done = h.made ? read_held(&h, list) : kt_form_no_memory(a->reader);
    h.length = a->max != UINT32_MAX ? a->max : a->min > h.uniform ? a->min : h.uniform;
    h.length += h.length == 0 && a->max > 0; /* what begins a list is told apart */
    n += h.length;
    for (size_t i = 0; i < h.n && n <= MOST_PLACES; i++)
        n *= h.held[i].min > MOST_PLACES || (h.held[i].max != UINT32_MAX && h.held[i].max > MOST_PLACES)
                 ? MOST_PLACES + 1
                 : width(&h.held[i]);
    if (done && n > MOST_PLACES)
        done = kt_form_fail(a->reader, KT_E_UNSUPPORTED, a->place,
                            "'contains' beside such large numbers of items is not supported");
    ops = done ? calloc(n, sizeof(*ops)) : NULL;
    h.items = done ? calloc(((size_t)h.uniform + 1) << h.n, sizeof(*h.items)) : NULL;
    if (done && (!ops || !h.items))
        done = kt_form_no_memory(a->reader);
    for (uint64_t i = 0; i < n && done; i++)
        ops[i] = kt_op_reserve(p);
    for (uint64_t i = 0; i < n && done && kt_form_work(a->reader, a->place, 100); i++) {
        uint32_t counts[MOST_HELD] = {0};
        uint64_t rest = i;
        bool sane = true;
        for (size_t k = h.n; k-- > 0; rest /= width(&h.held[k]))
            counts[k] = (uint32_t)(rest % width(&h.held[k]));
        for (size_t k = 0; k < h.n; k++)
            sane = sane && (counts[k] <= rest || rest == h.length);
        kt_op_place(p, ops[i], sane ? held_place(&h, ops, (uint32_t)rest, counts) : 0);
    }
    op = done ? ops[0] : 0;
    free(ops);
    free(h.items);
    json_decref(h.made);
    return op;
}

/* ---- items that differ ---- */

struct differing {
    struct array *array;
    json_t *values; /* that items may be */
    uint32_t rules[MOST_VALUES];
    uint64_t fits[MOST_VALUES + 1]; /* which of them an item may be; the last one: those behind the prefix */
    uint64_t *sets;                 /* of values that have come; their operations */
    uint32_t *ops, *table;
    size_t n;
};

/* Adds the values that a plain schema has, if these are few. */
static bool add_values(struct differing *d, const json_t *plain)
{
    struct array *a = d->array;
    uint32_t types = kt_form_types(plain);
    json_t *list = json_incref(get(plain, "enum")), *one, *rest = json_copy((json_t *)(uintptr_t)plain);
    size_t i, k;
    if (!list && !(types & ~(uint32_t)(KT_IS_NULL | KT_IS_BOOLEAN)))
        list = json_pack("[b, b, n]", 1, 0);
    (void)json_object_del(rest, "enum");
    bool done = list && rest;
    json_array_foreach (list, i, one) {
        if (!done || !kt_form_valid_plain(a->reader, rest, one, a->place))
            continue;
        for (k = 0; k < json_array_size(d->values) && !kt_form_same(one, json_array_get(d->values, k));)
            k++;
        if (k == json_array_size(d->values))
            done = k < MOST_VALUES && json_array_append(d->values, one) == 0;
    }
    json_decref(list);
    json_decref(rest);
    return done;
}

/* False: items that may be anything. */
static bool find_values(struct differing *d, const json_t *schema)
{
    json_t *list = json_array(), *one;
    size_t i;
    bool done = schema && list && kt_form_expand(d->array->reader, schema, d->array->place, list);
    json_array_foreach (list, i, one) {
        done = done && add_values(d, one);
    }
    json_decref(list);
    return done;
}

static uint64_t find_fitting(struct differing *d, const json_t *schema)
{
    uint64_t fits = 0;
    for (size_t i = 0; i < json_array_size(d->values); i++)
        fits |=
            (uint64_t)kt_form_valid(d->array->reader, schema, json_array_get(d->values, i), d->array->place)
            << i;
    return fits;
}

/* The operation of a set of values, which is reserved. */
static uint32_t differing_place(struct differing *d, uint64_t set)
{
    size_t slot = (size_t)((set * 0x9e3779b97f4a7c15u) >> 40) & (2 * MOST_PLACES - 1);
    for (; d->table[slot]; slot = (slot + 1) & (2 * MOST_PLACES - 1))
        if (d->sets[d->table[slot] - 1] == set)
            return d->ops[d->table[slot] - 1];
    if (d->n == MOST_PLACES) {
        kt_form_fail(d->array->reader, KT_E_UNSUPPORTED, d->array->place,
                     "'uniqueItems' of so many values and items is not supported");
        return 0;
    }
    d->sets[d->n] = set;
    d->table[slot] = (uint32_t)d->n + 1;
    return d->ops[d->n++] = kt_op_reserve(d->array->reader->program);
}

static uint32_t behind_set(struct differing *d, uint64_t set)
{
    struct array *a = d->array;
    struct kt_program *p = a->reader->program;
    uint32_t at = (uint32_t)__builtin_popcountll(set), more = 0;
    uint64_t fits = d->fits[at < a->n_prefix ? at : a->n_prefix] & ~set;
    for (size_t i = 0; i < json_array_size(d->values) && at < a->max; i++)
        if (fits >> i & 1)
            more =
                kt_op_split(p, kt_op_call(p, d->rules[i], differing_place(d, set | UINT64_C(1) << i)), more);
    if (at > 0)
        return kt_op_split(p, at >= a->min ? a->close : 0, comma(p, more));
    uint32_t empty = a->min == 0 ? kt_op_byte(p, ']', 0, kt_op_return(p)) : 0;
    return kt_op_blank(p, kt_op_split(p, empty, more));
}

static uint32_t write_differing(struct differing *d)
{
    struct array *a = d->array;
    struct kt_program *p = a->reader->program;
    for (size_t i = 0; i < json_array_size(d->values); i++) {
        json_t *one = json_pack("{s:[O]}", "enum", json_array_get(d->values, i));
        d->rules[i] = one ? kt_form_value(a->reader, one, a->place, kt_op_return(p)) : 0;
        json_decref(one);
    }
    for (uint32_t i = 0; i < a->n_prefix; i++)
        d->fits[i] = find_fitting(d, json_array_get(a->prefix, i));
    d->fits[a->n_prefix] = a->items ? find_fitting(d, a->items) : 0;
    uint32_t first = differing_place(d, 0);
    for (size_t i = 0; i < d->n && kt_form_work(a->reader, a->place, 100) && p->status == KT_OK; i++) {
        uint64_t set = d->sets[i];
        uint32_t op = d->ops[i];
        kt_op_place(p, op, behind_set(d, set));
    }
    return first;
}

/* Whether no two items can be alike: there is one at most, or each has a schema that excludes the others'. */
static bool differ_anyway(const struct array *a)
{
    if (a->max <= 1 || (a->n_prefix <= 1 && json_is_false(a->items)))
        return true;
    return (a->max <= a->n_prefix || json_is_false(a->items)) && a->n_prefix <= 10 &&
           kt_form_excludes(a->reader, a->prefix, a->place);
}

static uint32_t differing_rule(struct array *a)
{
    struct differing d = {.array = a, .values = json_array()};
    bool done = d.values != NULL, is_closed = json_is_false(a->items) || a->max <= a->n_prefix;
    uint32_t op = 0;
    for (uint32_t i = 0; i < a->n_prefix && i < a->max && done; i++)
        done = find_values(&d, json_array_get(a->prefix, i));
    done = done && a->n_prefix < MOST_VALUES && (is_closed || find_values(&d, a->items));
    if (!done)
        kt_form_fail(
            a->reader, KT_E_UNSUPPORTED, a->place,
            "'uniqueItems' is supported for items that are enum, boolean or null, of %d values at most",
            MOST_VALUES);
    d.sets = done ? calloc(MOST_PLACES, sizeof(*d.sets)) : NULL;
    d.ops = done ? calloc(MOST_PLACES, sizeof(*d.ops)) : NULL;
    d.table = done ? calloc(2 * MOST_PLACES, sizeof(*d.table)) : NULL;
    if (done && d.sets && d.ops && d.table)
        op = write_differing(&d);
    else if (done)
        kt_form_no_memory(a->reader);
    free(d.sets);
    free(d.ops);
    free(d.table);
    json_decref(d.values);
    return op;
}

/* ---- all arrays ---- */

uint32_t kt_form_array(struct kt_form_reader *reader, const json_t *schema, const struct kt_place *place,
                       uint32_t next)
{
    struct kt_program *p = reader->program;
    struct array a = {.reader = reader,
                      .prefix = get(schema, "prefixItems"),
                      .items = get(schema, "items"),
                      .place = place,
                      .min = kt_form_count(schema, "minItems", 0),
                      .max = kt_form_count(schema, "maxItems", UINT32_MAX)};
    const json_t *held = get(schema, KT_FORM_HOLDS);
    bool differs = json_is_true(get(schema, "uniqueItems"));
    a.n_prefix = (uint32_t)json_array_size(a.prefix);
    if (a.min > a.max)
        return 0;
    a.close = kt_op_blank(p, kt_op_byte(p, ']', 0, kt_op_return(p)));
    differs = differs && !differ_anyway(&a);
    if (differs && held) {
        kt_form_fail(reader, KT_E_UNSUPPORTED, place, "'uniqueItems' beside 'contains' is not supported");
        return 0;
    }
    uint32_t rule = differs ? differing_rule(&a) : held ? held_rule(&a, held) : array_rule(&a);
    return kt_op_byte(p, '[', 0, kt_op_call(p, rule, next));
}
