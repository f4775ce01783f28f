/* SPDX-License-Identifier: Apache-2.0 */
/* container.c - lists and dicts. A dict keeps the order of insertion and has a hash table when it is not
 * small. */
#include "tools/engine/text/template/text.h"

#include <math.h>
#include <string.h>

enum { SMALL = 8 };

struct jinja_list *jinja_list_new(struct jinja *j, enum jinja_form form, uint64_t room)
{
    struct jinja_list *list = jinja_new(j, sizeof *list);
    list->form = form;
    if (room > UINT64_C(1) << 32)
        jinja_raise(j, KT_E_RANGE, "a list of %llu items", (unsigned long long)room);
    list->items = room ? jinja_alloc(j, room * sizeof *list->items) : NULL;
    list->room = room;
    return list;
}

void jinja_list_add(struct jinja *j, struct jinja_list *list, struct jinja_value value)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 4;
        list->items =
            jinja_grow(j, list->items, list->n * sizeof *list->items, list->room * sizeof *list->items);
    }
    list->items[list->n++] = value;
}

struct jinja_value jinja_pair(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
    struct jinja_list *pair = jinja_list_new(j, JINJA_IS_TUPLE, 2);
    pair->items[0] = a;
    pair->items[1] = b;
    pair->n = 2;
    return jinja_list(pair);
}

/* Tuples that hold more than *left values, or are deeper, are no keys: templates come with downloads. */
static bool can_hash(struct jinja_value key, uint64_t *left, int depth)
{
    if (key.kind == JINJA_DICT || *left == 0 || depth == 0)
        return false;
    --*left;
    if (key.kind != JINJA_LIST)
        return true;
    if (key.list->form != JINJA_IS_TUPLE)
        return key.list->form == JINJA_IS_ONCE || key.list->form == JINJA_IS_RANGE;
    for (uint64_t i = 0; i < key.list->n; i++)
        if (!can_hash(key.list->items[i], left, depth - 1))
            return false;
    return true;
}

bool jinja_can_hash(struct jinja_value key)
{
    uint64_t left = 1000;
    return can_hash(key, &left, 16);
}

static uint64_t hash_bytes(const char *bytes, uint64_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static uint64_t hash(struct jinja *j, struct jinja_value key)
{
    double real;
    uint64_t bits = 0;
    switch (key.kind) {
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT: /* equal numbers of different types have one hash */
        real = key.kind == JINJA_FLOAT ? key.real : (double)jinja_number(key);
        real = real == 0 ? 0 : real;
        memcpy(&bits, &real, sizeof bits);
        return bits * UINT64_C(0x9e3779b97f4a7c15) >> 7;
    case JINJA_BIG:
    case JINJA_TEXT:
        jinja_charge(j, key.text->length);
        return hash_bytes(key.text->bytes, key.text->length);
    case JINJA_LIST:
        if (key.list->form != JINJA_IS_TUPLE)
            return 3;
        for (uint64_t i = 0; i < key.list->n; i++)
            bits = bits * 31 + hash(j, key.list->items[i]);
        return bits;
    default:
        return key.kind;
    }
}

struct jinja_dict *jinja_dict_new(struct jinja *j)
{
    return jinja_new(j, sizeof(struct jinja_dict));
}

/* Open addressing; the hashes are an attacker's to choose, so that each probe is a step. */
static uint32_t *slot_of(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key,
                         uint64_t hashed)
{
    for (uint64_t i = hashed & (dict->index_size - 1);; i = (i + 1) & (dict->index_size - 1)) {
        jinja_charge(j, 0);
        uint32_t entry = dict->index[i];
        if (!entry ||
            (dict->entries[entry - 1].hash == hashed && jinja_equal(j, dict->entries[entry - 1].key, key)))
            return &dict->index[i];
    }
}

static void build_index(struct jinja *j, struct jinja_dict *dict, uint64_t size)
{
    dict->index = jinja_new(j, size * sizeof *dict->index);
    dict->index_size = size;
    for (uint64_t i = 0; i < dict->n; i++) {
        uint64_t at = dict->entries[i].hash & (size - 1);
        while (dict->index[at]) {
            jinja_charge(j, 0);
            at = (at + 1) & (size - 1);
        }
        dict->index[at] = (uint32_t)i + 1;
    }
}

static struct jinja_entry *find(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key,
                                uint64_t hashed)
{
    if (dict->index) {
        uint32_t entry = *slot_of(j, dict, key, hashed);
        return entry ? &dict->entries[entry - 1] : NULL;
    }
    for (uint64_t i = 0; i < dict->n; i++)
        if (dict->entries[i].hash == hashed && jinja_equal(j, dict->entries[i].key, key))
            return &dict->entries[i];
    return NULL;
}

struct jinja_value *jinja_dict_get(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key)
{
    struct jinja_entry *entry = find(j, dict, key, hash(j, key));
    return entry ? &entry->value : NULL;
}

void jinja_dict_set(struct jinja *j, struct jinja_dict *dict, struct jinja_value key,
                    struct jinja_value value)
{
    if (!jinja_can_hash(key))
        jinja_raise(j, KT_E_UNSUPPORTED, "unhashable type: '%s'", jinja_type(key));
    uint64_t hashed = hash(j, key);
    struct jinja_entry *entry = find(j, dict, key, hashed);
    if (entry) {
        entry->value = value;
        return;
    }
    if (dict->n == dict->room) {
        dict->room = dict->room ? 2 * dict->room : 4;
        dict->entries =
            jinja_grow(j, dict->entries, dict->n * sizeof *dict->entries, dict->room * sizeof *dict->entries);
    }
    dict->entries[dict->n++] = (struct jinja_entry){key, value, hashed};
    if (dict->n > SMALL && 2 * dict->n > dict->index_size)
        build_index(j, dict, dict->index_size ? 2 * dict->index_size : 4 * SMALL);
    else if (dict->index)
        *slot_of(j, dict, key, hashed) = (uint32_t)dict->n;
}

void jinja_dict_remove(struct jinja *j, struct jinja_dict *dict, struct jinja_value key)
{
    struct jinja_entry *entry = find(j, dict, key, hash(j, key));
    if (!entry)
        return;
    uint64_t behind = dict->n - (uint64_t)(entry - dict->entries) - 1;
    jinja_charge(j, behind * sizeof *entry);
    memmove(entry, entry + 1, behind * sizeof *entry);
    dict->n--;
    if (dict->index) {
        memset(dict->index, 0, dict->index_size * sizeof *dict->index);
        build_index(j, dict, dict->index_size);
    }
}

struct jinja_list *jinja_dict_list(struct jinja *j, const struct jinja_dict *dict, enum jinja_form form)
{
    struct jinja_list *list = jinja_list_new(j, form, dict->n);
    for (uint64_t i = 0; i < dict->n; i++) {
        const struct jinja_entry *entry = &dict->entries[i];
        jinja_charge(j, 0);
        jinja_list_add(j, list,
                       form == JINJA_IS_ITEMS    ? jinja_pair(j, entry->key, entry->value)
                       : form == JINJA_IS_VALUES ? entry->value
                                                 : entry->key);
    }
    return list;
}
