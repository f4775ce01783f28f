/* SPDX-License-Identifier: Apache-2.0 */
/* container_methods.c - methods of lists and dicts. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/sort.h"

#include <string.h>

static struct jinja_value run_append(struct jinja *j, struct jinja_call *call)
{
    jinja_list_add(j, call->self.list, call->arguments[0]);
    return jinja_none();
}

static struct jinja_value run_extend(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_list *more = jinja_iterate(j, call->arguments[0]);
    uint64_t n = more->n;
    jinja_charge(j, n * sizeof *more->items);
    for (uint64_t i = 0; i < n; i++)
        jinja_list_add(j, call->self.list, more->items[i]);
    return jinja_none();
}

static struct jinja_value run_insert(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *list = call->self.list;
    int64_t n = (int64_t)list->n, at = jinja_argument_int(j, call->arguments[0], 0);
    at = at < 0 ? (at + n < 0 ? 0 : at + n) : at > n ? n : at;
    jinja_list_add(j, list, jinja_none());
    jinja_charge(j, (uint64_t)(n - at) * sizeof *list->items);
    memmove(list->items + at + 1, list->items + at, (size_t)(n - at) * sizeof *list->items);
    list->items[at] = call->arguments[1];
    return jinja_none();
}

static struct jinja_value take_at(struct jinja *j, struct jinja_list *list, int64_t at)
{
    struct jinja_value value = list->items[at];
    jinja_charge(j, (list->n - (uint64_t)at) * sizeof *list->items);
    memmove(list->items + at, list->items + at + 1, (list->n - (uint64_t)at - 1) * sizeof *list->items);
    list->n--;
    return value;
}

static struct jinja_value run_list_pop(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *list = call->self.list;
    int64_t n = (int64_t)list->n, at = jinja_argument_int(j, call->arguments[0], -1);
    at += at < 0 ? n : 0;
    if (at < 0 || at >= n)
        jinja_raise(j, KT_E_UNSUPPORTED, n ? "pop index out of range" : "pop from empty list");
    return take_at(j, list, at);
}

static int64_t find(struct jinja *j, struct jinja_call *call)
{
    for (uint64_t i = 0; i < call->self.list->n; i++)
        if (jinja_equal(j, call->self.list->items[i], call->arguments[0]))
            return (int64_t)i;
    jinja_raise(j, KT_E_UNSUPPORTED, "the value is not in the list");
}

static struct jinja_value run_remove(struct jinja *j, struct jinja_call *call)
{
    (void)take_at(j, call->self.list, find(j, call));
    return jinja_none();
}

static struct jinja_value run_index(struct jinja *j, struct jinja_call *call)
{
    return jinja_int(find(j, call));
}

static struct jinja_value run_count(struct jinja *j, struct jinja_call *call)
{
    int64_t n = 0;
    for (uint64_t i = 0; i < call->self.list->n; i++)
        n += jinja_equal(j, call->self.list->items[i], call->arguments[0]);
    return jinja_int(n);
}

static struct jinja_value run_list_clear(struct jinja *j, struct jinja_call *call)
{
    (void)j;
    call->self.list->n = 0;
    return jinja_none();
}

static struct jinja_value run_list_copy(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *copy = jinja_list_new(j, JINJA_IS_LIST, call->self.list->n);
    for (uint64_t i = 0; i < call->self.list->n; i++)
        jinja_list_add(j, copy, call->self.list->items[i]);
    return jinja_list(copy);
}

static struct jinja_value run_reverse(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *list = call->self.list;
    jinja_charge(j, list->n * sizeof *list->items);
    for (uint64_t a = 0, b = list->n; a + 1 < b; a++, b--) {
        struct jinja_value value = list->items[a];
        list->items[a] = list->items[b - 1];
        list->items[b - 1] = value;
    }
    return jinja_none();
}

static struct jinja_value run_sort(struct jinja *j, struct jinja_call *call)
{
    jinja_sort(j, call->self.list, run_list_copy(j, call).list, jinja_truth(call->arguments[0]));
    return jinja_none();
}

const struct jinja_builtin jinja_list_methods[] = {
    {"append", run_append, "object"},
    {"clear", run_list_clear, ""},
    {"copy", run_list_copy, ""},
    {"count", run_count, "value"},
    {"extend", run_extend, "iterable"},
    {"index", run_index, "value"},
    {"insert", run_insert, "index object"},
    {"pop", run_list_pop, "[index"},
    {"remove", run_remove, "value"},
    {"reverse", run_reverse, ""},
    {"sort", run_sort, "[reverse"},
    {NULL, NULL, NULL},
};

static struct jinja_value run_get(struct jinja *j, struct jinja_call *call)
{
    if (!jinja_can_hash(call->arguments[0]))
        jinja_raise(j, KT_E_UNSUPPORTED, "unhashable type: '%s'", jinja_type(call->arguments[0]));
    const struct jinja_value *value = jinja_dict_get(j, call->self.dict, call->arguments[0]);
    return value ? *value : call->arguments[1].kind == JINJA_ABSENT ? jinja_none() : call->arguments[1];
}

static struct jinja_value run_items(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(jinja_dict_list(j, call->self.dict, JINJA_IS_ITEMS));
}

static struct jinja_value run_keys(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(jinja_dict_list(j, call->self.dict, JINJA_IS_KEYS));
}

static struct jinja_value run_values(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(jinja_dict_list(j, call->self.dict, JINJA_IS_VALUES));
}

static struct jinja_value run_dict_copy(struct jinja *j, struct jinja_call *call)
{
    struct jinja_dict *copy = jinja_dict_new(j);
    for (uint64_t i = 0; i < call->self.dict->n; i++)
        jinja_dict_set(j, copy, call->self.dict->entries[i].key, call->self.dict->entries[i].value);
    return jinja_dict(copy);
}

static struct jinja_value run_dict_pop(struct jinja *j, struct jinja_call *call)
{
    struct jinja_value *value = jinja_dict_get(j, call->self.dict, call->arguments[0]);
    if (!value && call->arguments[1].kind == JINJA_ABSENT)
        jinja_raise(j, KT_E_UNSUPPORTED, "pop: there is no such key");
    struct jinja_value taken = value ? *value : call->arguments[1];
    jinja_dict_remove(j, call->self.dict, call->arguments[0]);
    return taken;
}

static struct jinja_value run_setdefault(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_value *value = jinja_dict_get(j, call->self.dict, call->arguments[0]);
    if (value)
        return *value;
    struct jinja_value new = call->arguments[1].kind == JINJA_ABSENT ? jinja_none() : call->arguments[1];
    jinja_dict_set(j, call->self.dict, call->arguments[0], new);
    return new;
}

static struct jinja_value run_update(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_dict *from = jinja_find_function("dict", 4)->run(j, call).dict;
    for (uint64_t i = 0; i < from->n; i++)
        jinja_dict_set(j, call->self.dict, from->entries[i].key, from->entries[i].value);
    return jinja_none();
}

static struct jinja_value run_dict_clear(struct jinja *j, struct jinja_call *call)
{
    (void)j;
    *call->self.dict = (struct jinja_dict){.n = 0};
    return jinja_none();
}

const struct jinja_builtin jinja_dict_methods[] = {
    {"clear", run_dict_clear, ""},
    {"copy", run_dict_copy, ""},
    {"get", run_get, "key [default"},
    {"items", run_items, ""},
    {"keys", run_keys, ""},
    {"pop", run_dict_pop, "key [default"},
    {"setdefault", run_setdefault, "key [default"},
    {"update", run_update, "*"},
    {"values", run_values, ""},
    {NULL, NULL, NULL},
};
