/* SPDX-License-Identifier: Apache-2.0 */
/* text_methods.c - methods of texts that give texts and lists of texts. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/shape.h"
#include "tools/engine/text/template/unicode.h"
#include "tools/engine/text/template/write.h"

#define CASE(name, how)                                                            \
    static struct jinja_value run_##name(struct jinja *j, struct jinja_call *call) \
    {                                                                              \
        return jinja_text(jinja_change_case(j, call->self.text, how));             \
    }
CASE(upper, JINJA_UPPER)
CASE(lower, JINJA_LOWER)
CASE(title, JINJA_TITLE)
CASE(capitalize, JINJA_CAPITALIZE)
CASE(swapcase, JINJA_SWAP)

/* A text, or NULL for None and for what was not given. */
static const struct jinja_text *text_or_null(struct jinja *j, struct jinja_value value)
{
    if (value.kind == JINJA_NONE || value.kind == JINJA_ABSENT)
        return NULL;
    return jinja_argument_text(j, value, "");
}

static struct jinja_value run_strip(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_strip(j, call->self.text, text_or_null(j, call->arguments[0]), true, true));
}

static struct jinja_value run_lstrip(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_strip(j, call->self.text, text_or_null(j, call->arguments[0]), true, false));
}

static struct jinja_value run_rstrip(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_strip(j, call->self.text, text_or_null(j, call->arguments[0]), false, true));
}

static struct jinja_value run_split(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(jinja_split(j, call->self.text, text_or_null(j, call->arguments[0]),
                                  jinja_argument_int(j, call->arguments[1], -1), false));
}

static struct jinja_value run_rsplit(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(jinja_split(j, call->self.text, text_or_null(j, call->arguments[0]),
                                  jinja_argument_int(j, call->arguments[1], -1), true));
}

static struct jinja_value run_splitlines(struct jinja *j, struct jinja_call *call)
{
    return jinja_list(jinja_split_lines(j, call->self.text, jinja_truth(call->arguments[0])));
}

/* A text; where the method is of markup, anything, as a text with escapes, as markupsafe 3 has it. */
static const struct jinja_text *added_text(struct jinja *j, const struct jinja_call *call,
                                           struct jinja_value value, const char *absent)
{
    if (!call->self.text->markup || value.kind == JINJA_ABSENT)
        return jinja_argument_text(j, value, absent);
    return jinja_escape(j, jinja_str(j, value));
}

static struct jinja_value run_replace(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *old = jinja_argument_text(j, call->arguments[0], ""),
                            *new = added_text(j, call, call->arguments[1], "");
    return jinja_text(
        jinja_replace(j, call->self.text, old, new, jinja_argument_int(j, call->arguments[2], -1)));
}

static struct jinja_value run_join(struct jinja *j, struct jinja_call *call)
{
    struct jinja_buffer *out = jinja_buffer_new(j);
    const struct jinja_list *list = jinja_iterate(j, call->arguments[0]);
    for (uint64_t i = 0; i < list->n; i++) {
        if (list->items[i].kind != JINJA_TEXT && !call->self.text->markup)
            jinja_raise(j, KT_E_UNSUPPORTED, "sequence item %llu: expected str instance, %s found",
                        (unsigned long long)i, jinja_type(list->items[i]));
        if (i)
            jinja_add(j, out, call->self.text);
        jinja_add(j, out, added_text(j, call, list->items[i], ""));
    }
    return jinja_text(jinja_as_markup(j, jinja_buffer_text(j, out), call->self.text->markup));
}

static struct jinja_value partition(struct jinja *j, struct jinja_call *call, bool reverse)
{
    const struct jinja_text *text = call->self.text,
                            *separator = jinja_argument_text(j, call->arguments[0], "");
    if (separator->length == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "empty separator");
    int64_t at =
        reverse ? jinja_find_last(j, text, separator, text->length) : jinja_find(j, text, separator, 0);
    uint64_t end = at < 0 ? 0 : (uint64_t)at + separator->length;
    const struct jinja_text *empty = jinja_slice(j, text, 0, 0);
    struct jinja_list *parts = jinja_list_new(j, JINJA_IS_TUPLE, 3);
    if (at < 0) {
        jinja_list_add(j, parts, jinja_text(reverse ? empty : text));
        jinja_list_add(j, parts, jinja_text(empty));
        jinja_list_add(j, parts, jinja_text(reverse ? text : empty));
    } else {
        jinja_list_add(j, parts, jinja_text(jinja_slice(j, text, 0, (uint64_t)at)));
        jinja_list_add(j, parts, jinja_text(jinja_slice(j, text, (uint64_t)at, end)));
        jinja_list_add(j, parts, jinja_text(jinja_slice(j, text, end, text->length)));
    }
    return jinja_list(parts);
}

static struct jinja_value run_partition(struct jinja *j, struct jinja_call *call)
{
    return partition(j, call, false);
}

static struct jinja_value run_rpartition(struct jinja *j, struct jinja_call *call)
{
    return partition(j, call, true);
}

static bool begins(struct jinja *j, const struct jinja_text *text, const struct jinja_text *what, bool at_end)
{
    jinja_charge(j, what->length);
    return what->length <= text->length &&
           __builtin_memcmp(text->bytes + (at_end ? text->length - what->length : 0), what->bytes,
                            what->length) == 0;
}

static struct jinja_value run_removeprefix(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = call->self.text, *what = jinja_argument_text(j, call->arguments[0], "");
    return jinja_text(begins(j, text, what, false) ? jinja_slice(j, text, what->length, text->length) : text);
}

static struct jinja_value run_removesuffix(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = call->self.text, *what = jinja_argument_text(j, call->arguments[0], "");
    return jinja_text(begins(j, text, what, true) ? jinja_slice(j, text, 0, text->length - what->length)
                                                  : text);
}

static struct jinja_value run_center(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_pad(j, call->self.text, jinja_argument_int(j, call->arguments[0], 0),
                                added_text(j, call, call->arguments[1], " "), 0));
}

static struct jinja_value run_ljust(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_pad(j, call->self.text, jinja_argument_int(j, call->arguments[0], 0),
                                added_text(j, call, call->arguments[1], " "), 1));
}

static struct jinja_value run_rjust(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_pad(j, call->self.text, jinja_argument_int(j, call->arguments[0], 0),
                                added_text(j, call, call->arguments[1], " "), -1));
}

static struct jinja_value run_zfill(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = call->self.text;
    uint64_t sign = text->length && (text->bytes[0] == '-' || text->bytes[0] == '+');
    int64_t missing = jinja_argument_int(j, call->arguments[0], 0) - jinja_chars(text);
    struct jinja_buffer *out = jinja_buffer_new(j);
    jinja_add_part(j, out, text, 0, sign);
    jinja_add_repeated(j, out, jinja_words(j, "0"), missing);
    jinja_add_part(j, out, text, sign, text->length);
    return jinja_text(jinja_buffer_text(j, out));
}

const struct jinja_builtin jinja_text_methods[] = {
    {"capitalize", run_capitalize, ""},
    {"center", run_center, "width [fillchar"},
    {"format", jinja_format_fields, "*"},
    {"join", run_join, "iterable"},
    {"ljust", run_ljust, "width [fillchar"},
    {"lower", run_lower, ""},
    {"lstrip", run_lstrip, "[chars"},
    {"partition", run_partition, "sep"},
    {"removeprefix", run_removeprefix, "prefix"},
    {"removesuffix", run_removesuffix, "suffix"},
    {"replace", run_replace, "old new [count"},
    {"rjust", run_rjust, "width [fillchar"},
    {"rpartition", run_rpartition, "sep"},
    {"rsplit", run_rsplit, "[sep maxsplit"},
    {"rstrip", run_rstrip, "[chars"},
    {"split", run_split, "[sep maxsplit"},
    {"splitlines", run_splitlines, "[keepends"},
    {"strip", run_strip, "[chars"},
    {"swapcase", run_swapcase, ""},
    {"title", run_title, ""},
    {"upper", run_upper, ""},
    {"zfill", run_zfill, "width"},
    {NULL, NULL, NULL},
};
