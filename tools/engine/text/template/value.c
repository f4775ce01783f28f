/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/value.h"

#include "tools/engine/text/template/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct jinja_value jinja_undefined(struct jinja *j, const struct jinja_text *name, const char *owner)
{
    struct jinja_undefined *undefined = jinja_alloc(j, sizeof *undefined);
    *undefined = (struct jinja_undefined){.name = name, .owner = owner};
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .undefined = undefined};
}

struct jinja_value jinja_undefined_why(struct jinja *j, const char *why)
{
    struct jinja_undefined *undefined = jinja_alloc(j, sizeof *undefined);
    *undefined = (struct jinja_undefined){.why = why};
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .undefined = undefined};
}

void jinja_raise_undefined(struct jinja *j, struct jinja_value value)
{
    const struct jinja_undefined *u = value.undefined;
    if (u->why)
        jinja_raise(j, KT_E_UNSUPPORTED, "%s", u->why);
    int length = u->name->length > 200 ? 200 : (int)u->name->length;
    if (u->owner)
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' has no attribute '%.*s'", u->owner, length, u->name->bytes);
    jinja_raise(j, KT_E_UNSUPPORTED, "'%.*s' is undefined", length, u->name->bytes);
}

const char *jinja_type(struct jinja_value value)
{
    static const char *const forms[] = {"list",        "tuple",      "generator", "dict_keys",
                                        "dict_values", "dict_items", "range"};
    static const char *const names[] = {
        [JINJA_ABSENT] = "nothing",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_BIG] = "int",
        [JINJA_TEXT] = "str",
        [JINJA_LIST] = "list",
        [JINJA_DICT] = "dict",
        [JINJA_NAMESPACE] = "Namespace",
        [JINJA_LOOP] = "LoopContext",
        [JINJA_MACRO] = "Macro",
        [JINJA_FUNCTION] = "function",
        [JINJA_METHOD] = "builtin_function_or_method",
    };
    if (value.kind == JINJA_LIST)
        return value.list->form == JINJA_IS_ONCE && value.list->what ? value.list->what
                                                                     : forms[value.list->form];
    if (value.kind == JINJA_TEXT && value.text->markup)
        return "Markup";
    return names[value.kind];
}

bool jinja_truth(struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.truth;
    case JINJA_INT:
        return value.number != 0;
    case JINJA_FLOAT:
        return value.real != 0;
    case JINJA_TEXT:
        return value.text->length > 0;
    case JINJA_LIST:
        return value.list->form == JINJA_IS_ONCE || value.list->n > 0;
    case JINJA_DICT:
        return value.dict->n > 0;
    default:
        return true;
    }
}

/* Python compares an integer and a float exactly. */
static int order_mixed(int64_t a, double b)
{
    if (isnan(b))
        return 2;
    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    double whole = floor(b);
    int64_t n = (int64_t)whole;
    if (a != n)
        return a < n ? -1 : 1;
    return b > whole ? -1 : 0;
}

/* Of digits, by the double next to them, which is enough beside whatever is smaller. */
static struct jinja_value real_of(struct jinja_value value)
{
    char digits[400] = "";
    uint64_t length = value.text->length < sizeof digits ? value.text->length : sizeof digits - 1;
    memcpy(digits, value.text->bytes, length);
    return jinja_float(length == value.text->length ? strtod(digits, NULL)
                       : *digits == '-'             ? -INFINITY
                                                    : INFINITY);
}

/* 2: not ordered; 3: not numbers. */
static int order_numbers(struct jinja_value a, struct jinja_value b)
{
    if (a.kind == JINJA_BIG && b.kind == JINJA_BIG && a.text->length == b.text->length &&
        memcmp(a.text->bytes, b.text->bytes, a.text->length) == 0)
        return 0;
    if (a.kind == JINJA_BIG || b.kind == JINJA_BIG) {
        int order = order_numbers(a.kind == JINJA_BIG ? real_of(a) : a, b.kind == JINJA_BIG ? real_of(b) : b);
        return order == 0 ? 1 : order;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        int64_t x = jinja_number(a), y = jinja_number(b);
        return x < y ? -1 : x > y;
    }
    if (jinja_is_number(a) && b.kind == JINJA_FLOAT)
        return order_mixed(jinja_number(a), b.real);
    if (a.kind == JINJA_FLOAT && jinja_is_number(b)) {
        int order = order_mixed(jinja_number(b), a.real);
        return order == 2 ? 2 : -order;
    }
    if (a.kind == JINJA_FLOAT && b.kind == JINJA_FLOAT)
        return isnan(a.real) || isnan(b.real) ? 2 : a.real < b.real ? -1 : a.real > b.real;
    return 3;
}

static bool equal_lists(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b)
{
    if (a == b)
        return true;
    /* dict views are sets to Python, but no template compares them: as lists, in order. */
    if (a->form != b->form || a->n != b->n || a->form == JINJA_IS_ONCE || a->form == JINJA_IS_VALUES)
        return false;
    for (uint64_t i = 0; i < a->n; i++)
        if (!jinja_equal(j, a->items[i], b->items[i]))
            return false;
    return true;
}

static bool equal_dicts(struct jinja *j, const struct jinja_dict *a, const struct jinja_dict *b)
{
    if (a == b)
        return true;
    if (a->n != b->n)
        return false;
    for (uint64_t i = 0; i < a->n; i++) {
        const struct jinja_value *other = jinja_dict_get(j, b, a->entries[i].key);
        if (!other || !jinja_equal(j, a->entries[i].value, *other))
            return false;
    }
    return true;
}

bool jinja_equal(struct jinja *j, struct jinja_value a, struct jinja_value b)
{
    int order = order_numbers(a, b);
    if (order != 3)
        return order == 0;
    if (a.kind != b.kind)
        return false;
    bool equal = false;
    jinja_charge(j, a.kind == JINJA_TEXT ? a.text->length : 0);
    jinja_enter(j);
    if (a.kind == JINJA_NONE || a.kind == JINJA_UNDEFINED)
        equal = true;
    else if (a.kind == JINJA_TEXT)
        equal = jinja_text_equal(a.text, b.text);
    else if (a.kind == JINJA_LIST)
        equal = equal_lists(j, a.list, b.list);
    else if (a.kind == JINJA_DICT)
        equal = equal_dicts(j, a.dict, b.dict);
    else
        equal = a.dict == b.dict; /* the same thing */
    jinja_leave(j);
    return equal;
}

int jinja_compare(struct jinja *j, struct jinja_value a, struct jinja_value b, const char *sign)
{
    int order = order_numbers(a, b);
    if (order != 3)
        return order;
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, a.kind == JINJA_UNDEFINED ? a : b);
    jinja_charge(j, a.kind == JINJA_TEXT ? a.text->length : 0);
    if (a.kind == JINJA_TEXT && b.kind == JINJA_TEXT)
        return jinja_text_compare(a.text, b.text);
    if (a.kind != JINJA_LIST || b.kind != JINJA_LIST || a.list->form != b.list->form ||
        a.list->form > JINJA_IS_TUPLE)
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' not supported between instances of '%s' and '%s'", sign,
                    jinja_type(a), jinja_type(b));
    jinja_enter(j);
    order = a.list->n < b.list->n ? -1 : a.list->n > b.list->n;
    for (uint64_t i = 0; i < a.list->n && i < b.list->n; i++)
        if (!jinja_equal(j, a.list->items[i], b.list->items[i])) {
            order = jinja_compare(j, a.list->items[i], b.list->items[i], sign);
            break;
        }
    jinja_leave(j);
    return order;
}

bool jinja_contains(struct jinja *j, struct jinja_value where, struct jinja_value what)
{
    if (where.kind == JINJA_TEXT) {
        if (what.kind != JINJA_TEXT)
            jinja_raise(j, KT_E_UNSUPPORTED, "'in <string>' requires string as left operand, not %s",
                        jinja_type(what));
        return jinja_find(j, where.text, what.text, 0) >= 0;
    }
    bool has_keys =
        where.kind == JINJA_DICT || (where.kind == JINJA_LIST && where.list->form == JINJA_IS_KEYS);
    if (has_keys && !jinja_can_hash(what))
        jinja_raise(j, KT_E_UNSUPPORTED, "unhashable type: '%s'", jinja_type(what));
    if (where.kind == JINJA_DICT)
        return jinja_dict_get(j, where.dict, what) != NULL;
    if (where.kind != JINJA_LIST && where.kind != JINJA_UNDEFINED && where.kind != JINJA_LOOP)
        jinja_raise(j, KT_E_UNSUPPORTED, "argument of type '%s' is not iterable", jinja_type(where));
    if (where.kind != JINJA_LIST)
        return false;
    struct jinja_list *list = where.list;
    bool once = list->form == JINJA_IS_ONCE;
    for (uint64_t i = list->begin; i < list->n; i++) {
        list->begin = once ? i + 1 : 0;
        if (jinja_equal(j, list->items[i], what))
            return true;
    }
    return false;
}

static struct jinja_list *list_chars(struct jinja *j, const struct jinja_text *text)
{
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_LIST, (uint64_t)jinja_chars(text));
    text = jinja_as_markup(j, text, false);
    for (uint64_t at = 0, size; at < text->length; at += size) {
        (void)jinja_char(text, at, &size);
        jinja_list_add(j, list, jinja_text(jinja_slice(j, text, at, at + size)));
    }
    return list;
}

struct jinja_list *jinja_iterate(struct jinja *j, struct jinja_value value)
{
    if (value.kind == JINJA_UNDEFINED)
        return jinja_list_new(j, JINJA_IS_LIST, 0);
    if (value.kind == JINJA_TEXT)
        return list_chars(j, value.text);
    if (value.kind == JINJA_DICT)
        return jinja_dict_list(j, value.dict, JINJA_IS_LIST);
    if (value.kind != JINJA_LIST)
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' object is not iterable", jinja_type(value));
    if (value.list->form != JINJA_IS_ONCE)
        return value.list;
    struct jinja_list *rest = jinja_list_new(j, JINJA_IS_LIST, 0);
    rest->items = value.list->items ? value.list->items + value.list->begin : NULL;
    rest->n = value.list->n - value.list->begin;
    rest->room = rest->n;
    value.list->begin = value.list->n;
    return rest;
}

int64_t jinja_length(struct jinja *j, struct jinja_value value)
{
    (void)j;
    switch (value.kind) {
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_TEXT:
        jinja_charge(j, value.text->n_chars < 0 ? value.text->length : 0);
        return jinja_chars(value.text);
    case JINJA_LIST:
        return value.list->form == JINJA_IS_ONCE ? -1 : (int64_t)value.list->n;
    case JINJA_DICT:
        return (int64_t)value.dict->n;
    default:
        return -1;
    }
}
