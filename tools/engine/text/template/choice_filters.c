/* SPDX-License-Identifier: Apache-2.0 */
/* choice_filters.c - map, select, reject and their like, which call other filters and tests; and the list of
 * all filters. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/pick.h"

#include <string.h>

static bool takes_items(struct jinja_value value)
{
    return jinja_truth(value);
}

static struct jinja_value *keyword(struct jinja_call *call, const char *name)
{
    for (uint32_t i = 0; i < call->n_keys; i++)
        if (jinja_text_is(call->keys[i], name))
            return &call->keyed[i];
    return NULL;
}

static struct jinja_value make_generator(struct jinja *j)
{
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_ONCE, 0);
    list->what = "generator";
    return jinja_list(list);
}

static struct jinja_value run_map(struct jinja *j, struct jinja_call *call)
{
    struct jinja_value result = make_generator(j), *path = keyword(call, "attribute"),
                       *absent = keyword(call, "default");
    if (!takes_items(call->self))
        return result;
    const struct jinja_builtin *filter = NULL;
    if (call->n == 0 && path) {
        if (call->n_keys != (absent ? 2 : 1))
            jinja_raise(j, KT_E_UNSUPPORTED, "map() got an unexpected keyword argument");
    } else {
        if (call->n == 0)
            jinja_raise(j, KT_E_UNSUPPORTED, "map requires a filter argument");
        const struct jinja_text *name = jinja_argument_text(j, call->arguments[0], "");
        filter = jinja_find_filter(name->bytes, name->length);
        if (!filter)
            jinja_raise(j, KT_E_UNSUPPORTED, "No filter named '%.*s'.",
                        (int)(name->length < 200 ? name->length : 200), name->bytes);
    }
    const struct jinja_list *items = jinja_iterate(j, call->self);
    for (uint64_t i = 0; i < items->n; i++) {
        struct jinja_call inner = *call;
        jinja_charge(j, 0);
        inner.self = items->items[i];
        inner.arguments++;
        inner.n--;
        jinja_list_add(j, result.list,
                       filter ? jinja_call_builtin(j, filter, &inner)
                              : jinja_pick(j, items->items[i], *path, absent ? *absent : jinja_none()));
    }
    return result;
}

/* The items of which the test is true (or false, to `reject`); `by`: of an attribute of theirs. */
static struct jinja_value choose(struct jinja *j, struct jinja_call *call, bool reject, bool by)
{
    struct jinja_value result = make_generator(j);
    if (!takes_items(call->self))
        return result;
    if (by && call->n == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "Missing parameter for attribute name");
    const struct jinja_builtin *test = NULL;
    uint32_t first = by ? 1 : 0;
    if (call->n > first) {
        const struct jinja_text *name = jinja_argument_text(j, call->arguments[first], "");
        test = jinja_find_test(name->bytes, name->length);
        if (!test)
            jinja_raise(j, KT_E_UNSUPPORTED, "No test named '%.*s'.",
                        (int)(name->length < 200 ? name->length : 200), name->bytes);
    }
    const struct jinja_list *items = jinja_iterate(j, call->self);
    for (uint64_t i = 0; i < items->n; i++) {
        struct jinja_call inner = *call;
        jinja_charge(j, 0);
        inner.self = by ? jinja_pick(j, items->items[i], call->arguments[0], jinja_none()) : items->items[i];
        inner.arguments += first + 1;
        inner.n -= first + 1;
        if (jinja_truth(test ? jinja_call_builtin(j, test, &inner) : inner.self) != reject)
            jinja_list_add(j, result.list, items->items[i]);
    }
    return result;
}

static struct jinja_value run_select(struct jinja *j, struct jinja_call *call)
{
    return choose(j, call, false, false);
}

static struct jinja_value run_reject(struct jinja *j, struct jinja_call *call)
{
    return choose(j, call, true, false);
}

static struct jinja_value run_selectattr(struct jinja *j, struct jinja_call *call)
{
    return choose(j, call, false, true);
}

static struct jinja_value run_rejectattr(struct jinja *j, struct jinja_call *call)
{
    return choose(j, call, true, true);
}

const struct jinja_builtin jinja_choice_filters[] = {
    {"map", run_map, "*"},       {"reject", run_reject, "*"},         {"rejectattr", run_rejectattr, "*"},
    {"select", run_select, "*"}, {"selectattr", run_selectattr, "*"}, {NULL, NULL, NULL},
};

const struct jinja_builtin *jinja_find_filter(const char *name, uint64_t length)
{
    const struct jinja_builtin *const tables[] = {jinja_text_filters, jinja_list_filters, jinja_value_filters,
                                                  jinja_choice_filters};
    const struct jinja_builtin *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++)
        found = jinja_find_in(tables[i], name, length);
    return found;
}
