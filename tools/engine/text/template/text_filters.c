/* SPDX-License-Identifier: Apache-2.0 */
/* text_filters.c - filters that make texts. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/shape.h"
#include "tools/engine/text/template/unicode.h"
#include "tools/engine/text/template/write.h"

#include <string.h>

static const struct jinja_text *plain(struct jinja *j, struct jinja_value value)
{
    return jinja_as_markup(j, jinja_str(j, value), false);
}

#define CASE(name, how)                                                            \
    static struct jinja_value run_##name(struct jinja *j, struct jinja_call *call) \
    {                                                                              \
        return jinja_text(jinja_change_case(j, jinja_str(j, call->self), how));    \
    }
CASE(upper, JINJA_UPPER)
CASE(lower, JINJA_LOWER)
CASE(capitalize, JINJA_CAPITALIZE)

/* A word begins behind one of -, space, (, {, [, <: not as str.title has it. */
static struct jinja_value run_title(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = jinja_str(j, call->self);
    struct jinja_buffer *out = jinja_buffer_new(j);
    for (uint64_t at = 0, size; at < text->length;) {
        uint64_t begin = at, first = 0;
        uint32_t c = jinja_char(text, at, &size);
        bool between = strchr("-({[<", (int)(c < 0x80 && c ? c : 'x')) || jinja_is_space(c);
        while (at < text->length) {
            c = jinja_char(text, at, &size);
            if ((strchr("-({[<", (int)(c < 0x80 && c ? c : 'x')) || jinja_is_space(c)) != between)
                break;
            first = first ? first : size;
            at += size;
        }
        jinja_add(j, out, jinja_change_case(j, jinja_slice(j, text, begin, begin + first), JINJA_UPPER));
        jinja_add(j, out, jinja_change_case(j, jinja_slice(j, text, begin + first, at), JINJA_LOWER));
    }
    return jinja_text(jinja_buffer_text(j, out));
}

static struct jinja_value run_trim(struct jinja *j, struct jinja_call *call)
{
    bool all = call->arguments[0].kind == JINJA_ABSENT || call->arguments[0].kind == JINJA_NONE;
    return jinja_text(jinja_strip(j, jinja_str(j, call->self),
                                  all ? NULL : jinja_argument_text(j, call->arguments[0], ""), true, true));
}

static struct jinja_value run_replace(struct jinja *j, struct jinja_call *call)
{
    int64_t limit =
        call->arguments[2].kind == JINJA_NONE ? -1 : jinja_argument_int(j, call->arguments[2], -1);
    return jinja_text(jinja_replace(j, plain(j, call->self), plain(j, call->arguments[0]),
                                    plain(j, call->arguments[1]), limit));
}

static struct jinja_value run_string(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_str(j, call->self));
}

static struct jinja_value run_safe(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_as_markup(j, jinja_str(j, call->self), true));
}

static struct jinja_value run_escape(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_escape(j, jinja_str(j, call->self)));
}

static struct jinja_value run_forceescape(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_escape(j, plain(j, call->self)));
}

static struct jinja_value run_center(struct jinja *j, struct jinja_call *call)
{
    return jinja_text(jinja_pad(j, jinja_str(j, call->self), jinja_argument_int(j, call->arguments[0], 80),
                                jinja_words(j, " "), 0));
}

static struct jinja_value run_format(struct jinja *j, struct jinja_call *call)
{
    if (call->n && call->n_keys)
        jinja_raise(j, KT_E_UNSUPPORTED, "can't handle positional and keyword arguments at the same time");
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_TUPLE, call->n);
    for (uint32_t i = 0; i < call->n; i++)
        jinja_list_add(j, list, call->arguments[i]);
    struct jinja_dict *dict = jinja_dict_new(j);
    for (uint32_t i = 0; i < call->n_keys; i++)
        jinja_dict_set(j, dict, jinja_text(call->keys[i]), call->keyed[i]);
    return jinja_format(j, jinja_str(j, call->self), call->n_keys ? jinja_dict(dict) : jinja_list(list));
}

/* Does it as str.splitlines does, which does not see a last empty line: so one newline is put behind. */
static struct jinja_value run_indent(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = jinja_argument_text(j, call->self, ""), *by;
    bool first = jinja_truth(call->arguments[1]), blank = jinja_truth(call->arguments[2]);
    struct jinja_buffer *spaces = jinja_buffer_new(j), *out = jinja_buffer_new(j);
    if (call->arguments[0].kind == JINJA_TEXT) {
        by = call->arguments[0].text;
    } else {
        jinja_add_repeated(j, spaces, jinja_words(j, " "), jinja_argument_int(j, call->arguments[0], 4));
        by = jinja_buffer_text(j, spaces);
    }
    struct jinja_list *lines =
        jinja_split_lines(j, jinja_join(j, text, jinja_as_markup(j, jinja_words(j, "\n"), text->markup)),
                          false);
    for (uint64_t i = 0; i < lines->n; i++) {
        if (i)
            jinja_add_words(j, out, "\n");
        if (i ? blank || lines->items[i].text->length : first)
            jinja_add(j, out, by);
        jinja_add(j, out, lines->items[i].text);
    }
    return jinja_text(jinja_as_markup(j, jinja_buffer_text(j, out), text->markup));
}

/* Python compares with fractions, too, and minds them only where it cuts. */
static double argument_real(struct jinja *j, struct jinja_value value, int64_t absent)
{
    return value.kind == JINJA_FLOAT ? value.real : (double)jinja_argument_int(j, value, absent);
}

static struct jinja_value run_truncate(struct jinja *j, struct jinja_call *call)
{
    double most = argument_real(j, call->arguments[0], 255);
    const struct jinja_text *end = jinja_argument_text(j, call->arguments[2], "...");
    double leeway = call->arguments[3].kind == JINJA_NONE ? 5 : argument_real(j, call->arguments[3], 5);
    if (!(most >= (double)jinja_chars(end)) || !(leeway >= 0))
        jinja_raise(j, KT_E_UNSUPPORTED, "expected length >= %lld", (long long)jinja_chars(end));
    int64_t n = jinja_length(j, call->self);
    if (n >= 0 && (double)n <= most + leeway)
        return call->self;
    const struct jinja_text *text = jinja_argument_text(j, call->self, "");
    int64_t length = jinja_argument_int(j, call->arguments[0], 255);
    const struct jinja_text *cut = jinja_slice(j, text, 0, jinja_offset(text, length - jinja_chars(end)));
    if (!jinja_truth(call->arguments[1]))
        cut = jinja_split(j, cut, jinja_words(j, " "), 1, true)->items[0].text;
    return jinja_text(jinja_join(j, cut, end));
}

static struct jinja_value run_wordcount(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = jinja_str(j, call->self);
    int64_t n = 0;
    bool inside = false;
    for (uint64_t at = 0, size; at < text->length; at += size) {
        uint32_t c = jinja_char(text, at, &size);
        bool word = c == '_' || jinja_is_letter(c) || jinja_is_digit(c) || jinja_is_numeric(c);
        n += word && !inside;
        inside = word;
    }
    jinja_charge(j, text->length);
    return jinja_int(n);
}

static struct jinja_value run_urlencode(struct jinja *j, struct jinja_call *call)
{
    static const char hex[] = "0123456789ABCDEF";
    if (call->self.kind == JINJA_DICT || call->self.kind == JINJA_LIST)
        jinja_raise(j, KT_E_UNSUPPORTED, "urlencode of a %s is not supported", jinja_type(call->self));
    const struct jinja_text *text = plain(j, call->self);
    struct jinja_buffer *out = jinja_buffer_new(j);
    for (uint64_t i = 0; i < text->length; i++) {
        unsigned char c = (unsigned char)text->bytes[i];
        bool stays = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c && strchr("_.-~/", c));
        char code[3] = {'%', hex[c >> 4], hex[c & 15]};
        if (stays)
            jinja_add_part(j, out, text, i, i + 1);
        else
            jinja_add_bytes(j, out, code, 3, jinja_mark(text, i));
    }
    return jinja_text(jinja_buffer_text(j, out));
}

static struct jinja_value run_tojson(struct jinja *j, struct jinja_call *call)
{
    struct jinja_value indent = call->arguments[1], separators = call->arguments[2];
    struct jinja_json_style style = {.ascii = jinja_truth(call->arguments[0]),
                                     .sort_keys = jinja_truth(call->arguments[3]),
                                     .comma = jinja_words(j, ", "),
                                     .colon = jinja_words(j, ": ")};
    if (indent.kind == JINJA_TEXT) {
        style.indent = indent.text;
    } else if (indent.kind != JINJA_NONE && indent.kind != JINJA_ABSENT) {
        struct jinja_buffer *spaces = jinja_buffer_new(j);
        jinja_add_repeated(j, spaces, jinja_words(j, " "), jinja_argument_int(j, indent, 0));
        style.indent = jinja_buffer_text(j, spaces);
    }
    if (style.indent)
        style.comma = jinja_words(j, ",");
    if (separators.kind != JINJA_NONE && separators.kind != JINJA_ABSENT) {
        const struct jinja_list *list = jinja_iterate(j, separators);
        if (list->n != 2)
            jinja_raise(j, KT_E_UNSUPPORTED, "tojson() needs two separators");
        style.comma = jinja_argument_text(j, list->items[0], "");
        style.colon = jinja_argument_text(j, list->items[1], "");
    }
    struct jinja_buffer *out = jinja_buffer_new(j);
    jinja_write_json(j, out, call->self, &style);
    return jinja_text(jinja_buffer_text(j, out));
}

static struct jinja_value run_from_json(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = jinja_argument_text(j, call->self, "");
    return jinja_read_json(j, text->bytes, text->length, jinja_has_content(text));
}

const struct jinja_builtin jinja_text_filters[] = {
    {"capitalize", run_capitalize, ""},
    {"center", run_center, "[width"},
    {"e", run_escape, ""},
    {"escape", run_escape, ""},
    {"forceescape", run_forceescape, ""},
    {"format", run_format, "*"},
    {"from_json", run_from_json, ""},
    {"indent", run_indent, "[width first blank"},
    {"lower", run_lower, ""},
    {"replace", run_replace, "old new [count"},
    {"safe", run_safe, ""},
    {"string", run_string, ""},
    {"title", run_title, ""},
    {"tojson", run_tojson, "[ensure_ascii indent separators sort_keys"},
    {"trim", run_trim, "[chars"},
    {"truncate", run_truncate, "[length killwords end leeway"},
    {"upper", run_upper, ""},
    {"urlencode", run_urlencode, ""},
    {"wordcount", run_wordcount, ""},
    {NULL, NULL, NULL},
};
