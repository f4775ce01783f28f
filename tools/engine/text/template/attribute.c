/* SPDX-License-Identifier: Apache-2.0 */
/* attribute.c - x.name, x[key] and x[from:to:step]. */
#include "tools/engine/text/template/call.h"

#include <string.h>

static const char *owner_of(struct jinja_value value)
{
    switch (value.kind) {
    case JINJA_NONE:
        return "None";
    case JINJA_BOOL:
        return "bool object";
    case JINJA_INT:
    case JINJA_BIG:
        return "int object";
    case JINJA_FLOAT:
        return "float object";
    case JINJA_TEXT:
        return "str object";
    case JINJA_LIST:
        return "list object";
    case JINJA_DICT:
        return "dict object";
    default:
        return "object";
    }
}

const struct jinja_builtin *jinja_find_method(struct jinja_value self, const struct jinja_text *name)
{
    const struct jinja_builtin *found = NULL;
    switch (self.kind) {
    case JINJA_TEXT:
        found = jinja_find_in(jinja_text_methods, name->bytes, name->length);
        return found ? found : jinja_find_in(jinja_shape_methods, name->bytes, name->length);
    case JINJA_LIST:
        found = jinja_find_in(jinja_list_methods, name->bytes, name->length);
        if (!found || self.list->form == JINJA_IS_LIST)
            return found;
        if (self.list->form != JINJA_IS_TUPLE && self.list->form != JINJA_IS_RANGE)
            return NULL;
        return strcmp(found->name, "index") == 0 || strcmp(found->name, "count") == 0 ? found : NULL;
    case JINJA_DICT:
        return jinja_find_in(jinja_dict_methods, name->bytes, name->length);
    case JINJA_LOOP:
        return jinja_find_in(jinja_loop_methods, name->bytes, name->length);
    default:
        return NULL;
    }
}

static struct jinja_value macro_attribute(struct jinja *j, const struct jinja_node *node,
                                          const struct jinja_text *name)
{
    bool has_caller = false;
    if (jinja_text_is(name, "name"))
        return jinja_text(node->name);
    if (jinja_text_is(name, "catch_kwargs"))
        return jinja_bool(node->catches_kwargs);
    if (jinja_text_is(name, "catch_varargs"))
        return jinja_bool(node->catches_varargs);
    if (jinja_text_is(name, "caller"))
        return jinja_bool(node->calls_caller);
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_TUPLE, node->n_keys);
    for (uint32_t i = 0; i < node->n_keys; i++) {
        jinja_list_add(j, list, jinja_text(node->keys[i]));
        has_caller |= jinja_text_is(node->keys[i], "caller");
    }
    if (jinja_text_is(name, "arguments"))
        return jinja_list(list);
    return jinja_text_is(name, "explicit_caller") ? jinja_bool(has_caller)
                                                  : (struct jinja_value){.kind = JINJA_ABSENT};
}

/* What Python's getattr finds: JINJA_ABSENT: nothing. */
static struct jinja_value get_attribute(struct jinja *j, struct jinja_value value,
                                        const struct jinja_text *name)
{
    const struct jinja_builtin *builtin = jinja_find_method(value, name);
    if (builtin) {
        struct jinja_method *method = jinja_alloc(j, sizeof *method);
        *method = (struct jinja_method){value, builtin};
        return (struct jinja_value){.kind = JINJA_METHOD, .method = method};
    }
    if (value.kind == JINJA_LOOP)
        return jinja_loop_attribute(j, value.loop, name);
    if (value.kind == JINJA_NAMESPACE) {
        const struct jinja_value *found = jinja_dict_get(j, value.dict, jinja_text(name));
        if (found)
            return *found;
    }
    if (value.kind == JINJA_MACRO)
        return macro_attribute(j, value.macro->node, name);
    return (struct jinja_value){.kind = JINJA_ABSENT};
}

struct jinja_value jinja_attribute(struct jinja *j, struct jinja_value value, const struct jinja_text *name)
{
    if (value.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, value);
    struct jinja_value found = get_attribute(j, value, name);
    if (found.kind != JINJA_ABSENT)
        return found;
    if (value.kind == JINJA_DICT) {
        const struct jinja_value *item = jinja_dict_get(j, value.dict, jinja_text(name));
        if (item)
            return *item;
    }
    return jinja_undefined(j, name, owner_of(value));
}

/* An index from the end becomes one from the beginning; -1: outside. */
static int64_t place(int64_t index, int64_t n)
{
    if (index < 0)
        index += n;
    return index < 0 || index >= n ? -1 : index;
}

static struct jinja_value item_by_number(struct jinja *j, struct jinja_value value, int64_t index)
{
    if (value.kind == JINJA_TEXT) {
        jinja_charge(j, value.text->length);
        int64_t at = place(index, jinja_chars(value.text));
        uint64_t size;
        if (at < 0)
            return jinja_undefined_why(j, "str object has no such element");
        uint64_t offset = jinja_offset(value.text, at);
        (void)jinja_char(value.text, offset, &size);
        return jinja_text(jinja_slice(j, value.text, offset, offset + size));
    }
    bool indexed = value.kind == JINJA_LIST &&
                   (value.list->form <= JINJA_IS_TUPLE || value.list->form == JINJA_IS_RANGE);
    int64_t at = indexed ? place(index, (int64_t)value.list->n) : -1;
    if (at < 0)
        return jinja_undefined_why(j, value.kind == JINJA_LIST ? "list object has no such element"
                                                               : "object has no such element");
    return value.list->items[at];
}

struct jinja_value jinja_item(struct jinja *j, struct jinja_value value, struct jinja_value key)
{
    if (value.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, value);
    if (value.kind == JINJA_DICT && jinja_can_hash(key)) {
        const struct jinja_value *item = jinja_dict_get(j, value.dict, key);
        if (item)
            return *item;
    }
    if (jinja_is_number(key))
        return item_by_number(j, value, jinja_number(key));
    if (key.kind != JINJA_TEXT)
        return jinja_undefined_why(j, "object has no such element");
    struct jinja_value found = get_attribute(j, value, key.text);
    return found.kind != JINJA_ABSENT ? found : jinja_undefined(j, key.text, owner_of(value));
}

/* A bound of a slice; none is `absent`. */
static int64_t bound(struct jinja *j, struct jinja_value value, int64_t n, int64_t low, int64_t high,
                     int64_t absent)
{
    if (value.kind == JINJA_NONE)
        return absent;
    if (!jinja_is_number(value))
        jinja_raise(j, KT_E_UNSUPPORTED,
                    "slice indices must be integers or None or have an __index__ method");
    int64_t at = jinja_number(value);
    if (at < 0)
        at += n;
    return at < low ? low : at > high ? high : at;
}

static struct jinja_value slice_text(struct jinja *j, const struct jinja_text *text, int64_t from, int64_t to,
                                     int64_t step)
{
    if (step == 1)
        return jinja_text(
            jinja_slice(j, text, jinja_offset(text, from), jinja_offset(text, to > from ? to : from)));
    struct jinja_buffer *out = jinja_buffer_new(j);
    struct jinja_list *chars = jinja_iterate(j, jinja_text(text));
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        jinja_add(j, out, chars->items[i].text);
    return jinja_text(jinja_as_markup(j, jinja_buffer_text(j, out), text->markup));
}

struct jinja_value jinja_slice_value(struct jinja *j, struct jinja_value value, struct jinja_value from,
                                     struct jinja_value to, struct jinja_value step)
{
    if (value.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, value);
    bool can = value.kind == JINJA_TEXT || (value.kind == JINJA_LIST && value.list->form <= JINJA_IS_TUPLE);
    if (!can)
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' object is not subscriptable by a slice", jinja_type(value));
    int64_t by = bound(j, step, 0, -(INT64_C(1) << 40), INT64_C(1) << 40, 1);
    if (by == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "slice step cannot be zero");
    int64_t n = jinja_length(j, value), low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
    int64_t first = bound(j, from, n, low, high, by < 0 ? high : low);
    int64_t end = bound(j, to, n, low, high, by < 0 ? low : high);
    jinja_charge(j, value.kind == JINJA_TEXT ? value.text->length : 0);
    if (value.kind == JINJA_TEXT)
        return slice_text(j, value.text, first, end, by);
    struct jinja_list *list = jinja_list_new(j, value.list->form, 0);
    for (int64_t i = first; by > 0 ? i < end : i > end; i += by) {
        jinja_charge(j, 0);
        jinja_list_add(j, list, value.list->items[i]);
    }
    return jinja_list(list);
}
