/* SPDX-License-Identifier: Apache-2.0 */
/* text_questions.c - methods of texts that give numbers and truths. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/unicode.h"

/* The part that optional start and end leave, in bytes; false: none, not even an empty one. */
static bool part(struct jinja *j, struct jinja_call *call, uint64_t *from, uint64_t *to)
{
    int64_t n = jinja_chars(call->self.text), bounds[2] = {0, n};
    for (int i = 0; i < 2; i++) {
        if (call->arguments[1 + i].kind == JINJA_NONE)
            continue;
        bounds[i] = jinja_argument_int(j, call->arguments[1 + i], bounds[i]);
        if (bounds[i] < 0)
            bounds[i] = bounds[i] + n < 0 ? 0 : bounds[i] + n;
    }
    if (bounds[1] > n)
        bounds[1] = n;
    if (bounds[0] > bounds[1])
        return false;
    jinja_charge(j, call->self.text->length);
    *from = jinja_offset(call->self.text, bounds[0]);
    *to = jinja_offset(call->self.text, bounds[1]);
    return true;
}

static bool has_end(struct jinja *j, struct jinja_call *call, const struct jinja_text *what, bool at_end)
{
    uint64_t from, to;
    if (!part(j, call, &from, &to) || what->length > to - from)
        return false;
    return __builtin_memcmp(call->self.text->bytes + (at_end ? to - what->length : from), what->bytes,
                            what->length) == 0;
}

static struct jinja_value has_ends(struct jinja *j, struct jinja_call *call, bool at_end)
{
    struct jinja_value what = call->arguments[0];
    if (what.kind == JINJA_LIST && what.list->form == JINJA_IS_TUPLE) {
        for (uint64_t i = 0; i < what.list->n; i++)
            if (has_end(j, call, jinja_argument_text(j, what.list->items[i], ""), at_end))
                return jinja_bool(true);
        return jinja_bool(false);
    }
    return jinja_bool(has_end(j, call, jinja_argument_text(j, what, ""), at_end));
}

static struct jinja_value run_startswith(struct jinja *j, struct jinja_call *call)
{
    return has_ends(j, call, false);
}

static struct jinja_value run_endswith(struct jinja *j, struct jinja_call *call)
{
    return has_ends(j, call, true);
}

static int64_t find(struct jinja *j, struct jinja_call *call, bool reverse)
{
    uint64_t from, to;
    const struct jinja_text *what = jinja_argument_text(j, call->arguments[0], "");
    if (!part(j, call, &from, &to))
        return -1;
    const struct jinja_text *inside = jinja_slice(j, call->self.text, from, to);
    int64_t at = reverse ? jinja_find_last(j, inside, what, inside->length) : jinja_find(j, inside, what, 0);
    return at < 0 ? -1 : jinja_chars(jinja_slice(j, call->self.text, 0, from + (uint64_t)at));
}

static struct jinja_value run_find(struct jinja *j, struct jinja_call *call)
{
    return jinja_int(find(j, call, false));
}

static struct jinja_value run_rfind(struct jinja *j, struct jinja_call *call)
{
    return jinja_int(find(j, call, true));
}

static struct jinja_value run_index(struct jinja *j, struct jinja_call *call)
{
    int64_t at = find(j, call, false);
    if (at < 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "substring not found");
    return jinja_int(at);
}

static struct jinja_value run_rindex(struct jinja *j, struct jinja_call *call)
{
    int64_t at = find(j, call, true);
    if (at < 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "substring not found");
    return jinja_int(at);
}

static struct jinja_value run_count(struct jinja *j, struct jinja_call *call)
{
    uint64_t from, to;
    const struct jinja_text *what = jinja_argument_text(j, call->arguments[0], "");
    if (!part(j, call, &from, &to))
        return jinja_int(0);
    const struct jinja_text *inside = jinja_slice(j, call->self.text, from, to);
    if (what->length == 0)
        return jinja_int(jinja_chars(inside) + 1);
    int64_t n = 0;
    for (int64_t at = 0; (at = jinja_find(j, inside, what, (uint64_t)at)) >= 0; at += (int64_t)what->length)
        n++;
    return jinja_int(n);
}

/* Is each character as `fits` says, and is there one? */
static struct jinja_value all(struct jinja *j, struct jinja_call *call, bool (*fits)(uint32_t))
{
    const struct jinja_text *text = call->self.text;
    jinja_charge(j, 16 * text->length); /* a character takes as long as many bytes elsewhere */
    for (uint64_t at = 0, size; at < text->length; at += size)
        if (!fits(jinja_char(text, at, &size)))
            return jinja_bool(false);
    return jinja_bool(text->length > 0);
}

static bool is_word(uint32_t c)
{
    return jinja_is_letter(c) || jinja_is_digit(c) || jinja_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

static struct jinja_value run_isalpha(struct jinja *j, struct jinja_call *call)
{
    return all(j, call, jinja_is_letter);
}

static struct jinja_value run_isdecimal(struct jinja *j, struct jinja_call *call)
{
    return all(j, call, jinja_is_decimal);
}

static struct jinja_value run_isdigit(struct jinja *j, struct jinja_call *call)
{
    return all(j, call, jinja_is_digit);
}

static struct jinja_value run_isnumeric(struct jinja *j, struct jinja_call *call)
{
    return all(j, call, jinja_is_numeric);
}

static struct jinja_value run_isalnum(struct jinja *j, struct jinja_call *call)
{
    return all(j, call, is_word);
}

static struct jinja_value run_isspace(struct jinja *j, struct jinja_call *call)
{
    return all(j, call, jinja_is_space);
}

static struct jinja_value run_isascii(struct jinja *j, struct jinja_call *call)
{
    return jinja_bool(call->self.text->length == 0 || all(j, call, is_ascii).truth);
}

static struct jinja_value run_islower(struct jinja *j, struct jinja_call *call)
{
    return jinja_find_test("lower", 5)->run(j, call);
}

static struct jinja_value run_isupper(struct jinja *j, struct jinja_call *call)
{
    return jinja_find_test("upper", 5)->run(j, call);
}

const struct jinja_builtin jinja_shape_methods[] = {
    {"count", run_count, "sub [start end"},
    {"endswith", run_endswith, "suffix [start end"},
    {"find", run_find, "sub [start end"},
    {"index", run_index, "sub [start end"},
    {"isalnum", run_isalnum, ""},
    {"isalpha", run_isalpha, ""},
    {"isascii", run_isascii, ""},
    {"isdecimal", run_isdecimal, ""},
    {"isdigit", run_isdigit, ""},
    {"islower", run_islower, ""},
    {"isnumeric", run_isnumeric, ""},
    {"isspace", run_isspace, ""},
    {"isupper", run_isupper, ""},
    {"rfind", run_rfind, "sub [start end"},
    {"rindex", run_rindex, "sub [start end"},
    {"startswith", run_startswith, "prefix [start end"},
    {NULL, NULL, NULL},
};
