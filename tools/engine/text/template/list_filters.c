/* SPDX-License-Identifier: Apache-2.0 */
/* list_filters.c - filters of lists and dicts. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/pick.h"
#include "tools/engine/text/template/sort.h"
#include "tools/engine/text/template/write.h"

#include <string.h>

static struct jinja_list *copy_list(struct jinja *j, struct jinja_value value)
{
    const struct jinja_list *from = jinja_iterate(j, value);
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, from->n);
    jinja_charge(j, from->n * sizeof *list->items);
    for (uint64_t i = 0; i < from->n; i++)
        jinja_list_add(j, list, from->items[i]);
    return list;
}

static struct jinja_value once(struct jinja_list *list, const char *what)
{
    list->form = JINJA_IS_ONCE;
    list->what = what;
    return jinja_list(list);
}

static struct jinja_value run_list(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(copy_list(j, call->self));
}

static struct jinja_value run_length(struct jinja *j, struct jinja_call *call)
{
    if (call->self.kind == JINJA_LOOP)
        return jinja_int((int64_t)call->self.loop->list->n);
    int64_t n = jinja_length(j, call->self);
    if (n < 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "object of type '%s' has no len()", jinja_type(call->self));
    return jinja_int(n);
}

static struct jinja_value run_first(struct jinja *j, struct jinja_call *call)
{
    if (call->self.kind == JINJA_LIST && call->self.list->form == JINJA_IS_ONCE &&
        call->self.list->begin < call->self.list->n)
        return call->self.list->items[call->self.list->begin++];
    if (call->self.kind == JINJA_TEXT && call->self.text->length)
        return jinja_item(j, call->self, jinja_int(0));
    const struct jinja_list *list = jinja_iterate(j, call->self);
    return list->n ? list->items[0] : jinja_undefined_why(j, "No first item, sequence was empty.");
}

static struct jinja_value run_last(struct jinja *j, struct jinja_call *call)
{
    if (call->self.kind == JINJA_LIST && call->self.list->form == JINJA_IS_ONCE)
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' object is not reversible", jinja_type(call->self));
    const struct jinja_list *list = jinja_iterate(j, call->self);
    return list->n ? list->items[list->n - 1] : jinja_undefined_why(j, "No last item, sequence was empty.");
}

static struct jinja_value run_items(struct jinja *j, struct jinja_call *call)
{
    if (call->self.kind == JINJA_UNDEFINED)
        return once(jinja_list_new(j, JINJA_IS_LIST, 0), "generator");
    if (call->self.kind != JINJA_DICT)
        jinja_raise(j, KT_E_UNSUPPORTED, "Can only get item pairs from a mapping.");
    return once(jinja_dict_list(j, call->self.dict, JINJA_IS_ITEMS), "generator");
}

static struct jinja_value run_join(struct jinja *j, struct jinja_call *call)
{
    struct jinja_buffer *out = jinja_buffer_new(j);
    const struct jinja_list *list = jinja_iterate(j, call->self);
    const struct jinja_text *between =
        call->arguments[0].kind == JINJA_ABSENT ? NULL : jinja_str(j, call->arguments[0]);
    for (uint64_t i = 0; i < list->n; i++) {
        jinja_charge(j, 0);
        if (i && between)
            jinja_add(j, out, between);
        jinja_write(j, out, jinja_pick(j, list->items[i], call->arguments[1], jinja_none()));
    }
    return jinja_text(jinja_buffer_text(j, out));
}

static struct jinja_value run_reverse(struct jinja *j, struct jinja_call *call)
{
    if (call->self.kind == JINJA_TEXT)
        return jinja_slice_value(j, call->self, jinja_none(), jinja_none(), jinja_int(-1));
    bool direct = call->self.kind == JINJA_DICT || call->self.kind == JINJA_UNDEFINED ||
                  (call->self.kind == JINJA_LIST && call->self.list->form != JINJA_IS_ONCE);
    struct jinja_list *list = copy_list(j, call->self);
    for (uint64_t a = 0, b = list->n; a + 1 < b; a++, b--) {
        struct jinja_value value = list->items[a];
        list->items[a] = list->items[b - 1];
        list->items[b - 1] = value;
    }
    return direct ? once(list, "list_reverseiterator") : jinja_list(list);
}

/* By lists of attributes, of one as of several: so two that are undefined are equal. */
static struct jinja_list *sort_keys(struct jinja *j, const struct jinja_list *list, struct jinja_value path,
                                    bool exact)
{
    struct jinja_list *keys = jinja_list_new(j, JINJA_IS_LIST, list->n);
    for (uint64_t i = 0; i < list->n; i++)
        jinja_list_add(j, keys, jinja_list(jinja_list_new(j, JINJA_IS_LIST, 1)));
    for (uint64_t at = 0;;) {
        const char *comma = NULL;
        struct jinja_value part = path;
        if (path.kind == JINJA_TEXT) {
            comma = memchr(path.text->bytes + at, ',', path.text->length - at);
            uint64_t end = comma ? (uint64_t)(comma - path.text->bytes) : path.text->length;
            part = jinja_text(jinja_slice(j, path.text, at, end));
            at = end + 1;
        }
        const struct jinja_list *column = jinja_pick_keys(j, list, part, jinja_none(), exact);
        for (uint64_t i = 0; i < list->n; i++)
            jinja_list_add(j, keys->items[i].list, column->items[i]);
        if (!comma)
            return keys;
    }
}

static struct jinja_value run_sort(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *list = copy_list(j, call->self);
    bool reverse = jinja_argument_int(j, call->arguments[0], 0) != 0;
    jinja_sort(j, list, sort_keys(j, list, call->arguments[2], jinja_truth(call->arguments[1])), reverse);
    return jinja_list(list);
}

static struct jinja_value run_dictsort(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *by = jinja_argument_text(j, call->arguments[1], "key");
    if (!jinja_text_is(by, "key") && !jinja_text_is(by, "value"))
        jinja_raise(j, KT_E_UNSUPPORTED, "You can only sort by either \"key\" or \"value\"");
    if (call->self.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, call->self);
    if (call->self.kind != JINJA_DICT)
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' object has no attribute 'items'", jinja_type(call->self));
    struct jinja_list *list = jinja_dict_list(j, call->self.dict, JINJA_IS_ITEMS);
    list->form = JINJA_IS_LIST;
    jinja_sort(j, list,
               jinja_pick_keys(j, list, jinja_int(jinja_text_is(by, "value")), jinja_none(),
                               jinja_truth(call->arguments[0])),
               jinja_argument_int(j, call->arguments[2], 0) != 0);
    return jinja_list(list);
}

static struct jinja_value run_unique(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_list *items = jinja_iterate(j, call->self);
    struct jinja_list *keys =
        jinja_pick_keys(j, items, call->arguments[1], jinja_none(), jinja_truth(call->arguments[0]));
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, 0);
    struct jinja_dict *seen = jinja_dict_new(j);
    for (uint64_t i = 0; i < items->n; i++) {
        uint64_t n = seen->n;
        jinja_dict_set(j, seen, keys->items[i], jinja_none());
        if (seen->n > n)
            jinja_list_add(j, list, items->items[i]);
    }
    return once(list, "generator");
}

static struct jinja_value pick_most(struct jinja *j, struct jinja_call *call, int sign)
{
    const struct jinja_list *items = jinja_iterate(j, call->self);
    struct jinja_list *keys =
        jinja_pick_keys(j, items, call->arguments[1], jinja_none(), jinja_truth(call->arguments[0]));
    uint64_t best = 0;
    if (items->n == 0)
        return jinja_undefined_why(j, "No aggregated item, sequence was empty.");
    for (uint64_t i = 1; i < items->n; i++)
        if (jinja_compare(j, keys->items[i], keys->items[best], sign < 0 ? "<" : ">") == sign)
            best = i;
    return items->items[best];
}

static struct jinja_value run_min(struct jinja *j, struct jinja_call *call)
{
    return pick_most(j, call, -1);
}

static struct jinja_value run_max(struct jinja *j, struct jinja_call *call)
{
    return pick_most(j, call, 1);
}

static struct jinja_value run_sum(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_list *items = jinja_iterate(j, call->self);
    struct jinja_value sum = call->arguments[1].kind == JINJA_ABSENT ? jinja_int(0) : call->arguments[1];
    if (sum.kind == JINJA_TEXT)
        jinja_raise(j, KT_E_UNSUPPORTED, "sum() can't sum strings [use ''.join(seq) instead]");
    for (uint64_t i = 0; i < items->n; i++)
        sum = jinja_operate(j, '+', sum, jinja_pick(j, items->items[i], call->arguments[0], jinja_none()));
    return sum;
}

static struct jinja_value run_batch(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_list *items = jinja_iterate(j, call->self);
    int64_t size = jinja_argument_int(j, call->arguments[0], 0);
    struct jinja_list *all = jinja_list_new(j, JINJA_IS_LIST, 0), *batch = NULL;
    for (uint64_t i = 0; i < items->n; i++) {
        if (!batch || (int64_t)batch->n == size) {
            if (!batch && size == 0)
                jinja_list_add(j, all, jinja_list(jinja_list_new(j, JINJA_IS_LIST, 0)));
            batch = jinja_list_new(j, JINJA_IS_LIST, 0);
            jinja_list_add(j, all, jinja_list(batch));
        }
        jinja_list_add(j, batch, items->items[i]);
    }
    bool fills = call->arguments[1].kind != JINJA_ABSENT && call->arguments[1].kind != JINJA_NONE;
    while (batch && fills && (int64_t)batch->n < size) {
        jinja_charge(j, 0);
        jinja_list_add(j, batch, call->arguments[1]);
    }
    return once(all, "generator");
}

static struct jinja_value run_slice(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_list *items = jinja_iterate(j, call->self);
    int64_t n = jinja_argument_int(j, call->arguments[0], 0), length = (int64_t)items->n;
    struct jinja_list *all = jinja_list_new(j, JINJA_IS_LIST, 0);
    if (n == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "division by zero");
    bool fills = call->arguments[1].kind != JINJA_ABSENT && call->arguments[1].kind != JINJA_NONE;
    for (int64_t i = 0, at = 0; i < n; i++) {
        struct jinja_list *slice = jinja_list_new(j, JINJA_IS_LIST, 0);
        jinja_charge(j, 0);
        for (int64_t end = at + length / n + (i < length % n); at < end; at++)
            jinja_list_add(j, slice, items->items[at]);
        if (fills && i >= length % n)
            jinja_list_add(j, slice, call->arguments[1]);
        jinja_list_add(j, all, jinja_list(slice));
    }
    return once(all, "generator");
}

static struct jinja_value run_groupby(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *items = copy_list(j, call->self), *groups = jinja_list_new(j, JINJA_IS_LIST, 0),
                      *group = NULL;
    bool exact = jinja_truth(call->arguments[2]);
    struct jinja_value path = call->arguments[0], last = jinja_none();
    jinja_sort(j, items, jinja_pick_keys(j, items, path, call->arguments[1], exact), false);
    struct jinja_list *keys = jinja_pick_keys(j, items, path, call->arguments[1], exact);
    for (uint64_t i = 0; i < items->n; i++) {
        if (!group || !jinja_equal(j, last, keys->items[i])) {
            group = jinja_list_new(j, JINJA_IS_LIST, 0);
            last = keys->items[i];
            jinja_list_add(j, groups,
                           jinja_pair(j, jinja_pick(j, items->items[i], path, call->arguments[1]),
                                      jinja_list(group)));
        }
        jinja_list_add(j, group, items->items[i]);
    }
    return jinja_list(groups);
}

const struct jinja_builtin jinja_list_filters[] = {
    {"batch", run_batch, "linecount [fill_with"},
    {"count", run_length, ""},
    {"dictsort", run_dictsort, "[case_sensitive by reverse"},
    {"first", run_first, ""},
    {"groupby", run_groupby, "attribute [default case_sensitive"},
    {"items", run_items, ""},
    {"join", run_join, "[d attribute"},
    {"last", run_last, ""},
    {"length", run_length, ""},
    {"list", run_list, ""},
    {"max", run_max, "[case_sensitive attribute"},
    {"min", run_min, "[case_sensitive attribute"},
    {"reverse", run_reverse, ""},
    {"slice", run_slice, "slices [fill_with"},
    {"sort", run_sort, "[reverse case_sensitive attribute"},
    {"sum", run_sum, "[attribute start"},
    {"unique", run_unique, "[case_sensitive attribute"},
    {NULL, NULL, NULL},
};
