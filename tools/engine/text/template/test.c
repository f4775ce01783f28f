/* SPDX-License-Identifier: Apache-2.0 */
/* test.c - what stands behind `is`. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/lexer.h"
#include "tools/engine/text/template/unicode.h"
#include "tools/engine/text/template/write.h"

#define TEST(name, condition)                                                       \
    static struct jinja_value test_##name(struct jinja *j, struct jinja_call *call) \
    {                                                                               \
        struct jinja_value self = call->self, other = call->arguments[0];           \
        (void)j;                                                                    \
        (void)self;                                                                 \
        (void)other;                                                                \
        return jinja_bool(condition);                                               \
    }

static bool is_even(struct jinja *j, struct jinja_value value, struct jinja_value by)
{
    struct jinja_value rest = jinja_operate(j, '%', value, by);
    return jinja_equal(j, rest, jinja_int(0));
}

static bool is_true(struct jinja_value value, bool truth)
{
    return value.kind == JINJA_BOOL && value.truth == truth;
}

static bool is_iterable(struct jinja_value value)
{
    return value.kind == JINJA_TEXT || value.kind == JINJA_LIST || value.kind == JINJA_DICT ||
           value.kind == JINJA_UNDEFINED || value.kind == JINJA_LOOP;
}

/* Has it a length and can it be indexed? */
static bool is_sequence(struct jinja_value value)
{
    return value.kind == JINJA_TEXT || value.kind == JINJA_DICT || value.kind == JINJA_UNDEFINED ||
           (value.kind == JINJA_LIST &&
            (value.list->form <= JINJA_IS_TUPLE || value.list->form == JINJA_IS_RANGE));
}

/* str.islower and str.isupper: some letter has a case, and none the other one. */
static bool has_case(struct jinja *j, struct jinja_value value, bool upper)
{
    const struct jinja_text *text = jinja_str(j, value);
    bool found = false;
    jinja_charge(j, 16 * text->length); /* a character takes as long as many bytes elsewhere */
    for (uint64_t at = 0, size; at < text->length; at += size) {
        uint32_t c = jinja_char(text, at, &size);
        if (!jinja_is_cased(c))
            continue;
        found = true;
        if (upper ? !jinja_is_upper(c) : !jinja_is_lower(c))
            return false;
    }
    return found;
}

static bool is_same(struct jinja_value a, struct jinja_value b)
{
    if (a.kind != b.kind)
        return false;
    if (a.kind == JINJA_BOOL || a.kind == JINJA_INT)
        return jinja_number(a) == jinja_number(b);
    return a.kind == JINJA_NONE || a.text == b.text;
}

/* Names are looked up in a dict: what cannot be a key of one raises. */
static bool is_name(struct jinja *j, struct jinja_value value,
                    const struct jinja_builtin *(*find)(const char *, uint64_t))
{
    if (!jinja_can_hash(value))
        jinja_raise(j, KT_E_UNSUPPORTED, "unhashable type: '%s'", jinja_type(value));
    return value.kind == JINJA_TEXT && find(value.text->bytes, value.text->length);
}

TEST(boolean, self.kind == JINJA_BOOL)
TEST(callable, self.kind >= JINJA_MACRO || self.kind == JINJA_LOOP || self.kind == JINJA_UNDEFINED)
TEST(defined, self.kind != JINJA_UNDEFINED)
TEST(divisibleby, is_even(j, self, other))
TEST(eq, jinja_equal(j, self, other))
TEST(escaped, self.kind == JINJA_TEXT && self.text->markup)
TEST(even, is_even(j, self, jinja_int(2)))
TEST(false, is_true(self, false))
TEST(filter, is_name(j, self, jinja_find_filter))
TEST(float, self.kind == JINJA_FLOAT)
TEST(ge, jinja_compare(j, self, other, ">=") % 2 == 0 ? jinja_compare(j, self, other, ">=") == 0
                                                      : jinja_compare(j, self, other, ">=") == 1)
TEST(gt, jinja_compare(j, self, other, ">") == 1)
TEST(in, jinja_contains(j, other, self))
TEST(integer, self.kind == JINJA_INT || self.kind == JINJA_BIG)
TEST(iterable, is_iterable(self))
TEST(le, jinja_compare(j, self, other, "<=") <= 0)
TEST(lower, has_case(j, self, false))
TEST(lt, jinja_compare(j, self, other, "<") == -1)
TEST(mapping, self.kind == JINJA_DICT)
TEST(ne, !jinja_equal(j, self, other))
TEST(none, self.kind == JINJA_NONE)
TEST(number, jinja_is_number(self) || self.kind == JINJA_FLOAT || self.kind == JINJA_BIG)
TEST(odd, jinja_equal(j, jinja_operate(j, '%', self, jinja_int(2)), jinja_int(1)))
TEST(sameas, is_same(self, other))
TEST(sequence, is_sequence(self))
TEST(string, self.kind == JINJA_TEXT)
TEST(test, is_name(j, self, jinja_find_test))
TEST(true, is_true(self, true))
TEST(undefined, self.kind == JINJA_UNDEFINED)
TEST(upper, has_case(j, self, true))

const struct jinja_builtin *jinja_find_test(const char *name, uint64_t length)
{
    static const struct jinja_builtin tests[] = {
        {"!=", test_ne, "other"},
        {"<", test_lt, "other"},
        {"<=", test_le, "other"},
        {"==", test_eq, "other"},
        {">", test_gt, "other"},
        {">=", test_ge, "other"},
        {"boolean", test_boolean, ""},
        {"callable", test_callable, ""},
        {"defined", test_defined, ""},
        {"divisibleby", test_divisibleby, "num"},
        {"eq", test_eq, "other"},
        {"equalto", test_eq, "other"},
        {"escaped", test_escaped, ""},
        {"even", test_even, ""},
        {"false", test_false, ""},
        {"filter", test_filter, ""},
        {"float", test_float, ""},
        {"ge", test_ge, "other"},
        {"greaterthan", test_gt, "other"},
        {"gt", test_gt, "other"},
        {"in", test_in, "seq"},
        {"integer", test_integer, ""},
        {"iterable", test_iterable, ""},
        {"le", test_le, "other"},
        {"lessthan", test_lt, "other"},
        {"lower", test_lower, ""},
        {"lt", test_lt, "other"},
        {"mapping", test_mapping, ""},
        {"ne", test_ne, "other"},
        {"none", test_none, ""},
        {"number", test_number, ""},
        {"odd", test_odd, ""},
        {"sameas", test_sameas, "other"},
        {"sequence", test_sequence, ""},
        {"string", test_string, ""},
        {"test", test_test, ""},
        {"true", test_true, ""},
        {"undefined", test_undefined, ""},
        {"upper", test_upper, ""},
        {NULL, NULL, NULL},
    };
    return jinja_find_in(tests, name, length);
}
