/* SPDX-License-Identifier: Apache-2.0 */
/* format.c - text % arguments: %s %r %d %i %f %x and their like, with names and widths; text.format(..). */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct format {
    struct jinja *j;
    struct jinja_buffer *out;
    const struct jinja_text *text;
    uint64_t at;
    struct jinja_value arguments;
    uint64_t taken;
    char flags[8];
    int64_t width, precision; /* -1: none */
};

static struct jinja_value take(struct format *f)
{
    bool many = f->arguments.kind == JINJA_LIST && f->arguments.list->form == JINJA_IS_TUPLE;
    if (f->taken >= (many ? f->arguments.list->n : 1))
        jinja_raise(f->j, KT_E_UNSUPPORTED, "not enough arguments for format string");
    return many ? f->arguments.list->items[f->taken++] : (f->taken++, f->arguments);
}

static char peek(const struct format *f)
{
    if (f->at >= f->text->length)
        jinja_raise(f->j, KT_E_UNSUPPORTED, "incomplete format");
    return f->text->bytes[f->at];
}

static int64_t read_count(struct format *f, int64_t absent)
{
    int64_t count = absent;
    if (peek(f) == '*') {
        f->at++;
        return jinja_argument_int(f->j, take(f), 0);
    }
    while (peek(f) >= '0' && peek(f) <= '9') {
        count = (count < 0 ? 0 : count) * 10 + (f->text->bytes[f->at++] - '0');
        if (count > 1000000)
            jinja_raise(f->j, KT_E_RANGE, "a width of more than a million");
    }
    return count;
}

/* Pads to the width; zeros go behind a sign. */
static void add_padded(struct format *f, const struct jinja_text *text, bool number)
{
    int64_t missing = f->width - jinja_chars(text);
    bool left = strchr(f->flags, '-'), zeros = number && !left && strchr(f->flags, '0');
    uint64_t sign = zeros && text->length && strchr("+- ", text->bytes[0]) ? 1 : 0;
    jinja_add_part(f->j, f->out, text, 0, sign);
    if (!left)
        jinja_add_repeated(f->j, f->out, jinja_words(f->j, zeros ? "0" : " "), missing);
    jinja_add_part(f->j, f->out, text, sign, text->length);
    if (left)
        jinja_add_repeated(f->j, f->out, jinja_words(f->j, " "), missing);
}

static void add_number(struct format *f, char kind, struct jinja_value value)
{
    char pattern[32], *digits;
    size_t used = 1;
    bool real = strchr("eEfFgG", kind) != NULL;
    if (value.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(f->j, value);
    if (!jinja_is_number(value) && value.kind != JINJA_FLOAT)
        jinja_raise(f->j, KT_E_UNSUPPORTED, "%%%c format: a number is required, not %s", kind,
                    jinja_type(value));
    if (!real && value.kind == JINJA_FLOAT &&
        (kind == 'x' || kind == 'X' || kind == 'o' || !(fabs(value.real) < 9e18)))
        jinja_raise(f->j, KT_E_UNSUPPORTED, "%%%c format: an integer is required, not float", kind);
    if (f->precision > 400)
        jinja_raise(f->j, KT_E_RANGE, "a precision of more than 400");
    pattern[0] = '%';
    for (const char *c = "+ #"; *c; c++)
        if (strchr(f->flags, *c))
            pattern[used++] = *c;
    digits = jinja_alloc(f->j, 1024);
    if (real) {
        double number = value.kind == JINJA_FLOAT ? value.real : (double)jinja_number(value);
        (void)snprintf(pattern + used, sizeof pattern - used, ".*%c", kind);
        (void)snprintf(digits, 1024, pattern, (int)(f->precision < 0 ? 6 : f->precision), number);
    } else {
        int64_t number = value.kind == JINJA_FLOAT ? (int64_t)value.real : jinja_number(value);
        bool minus = number < 0 && kind != 'd' && kind != 'i' && kind != 'u';
        if (minus)
            number = -number;
        (void)snprintf(pattern + used, sizeof pattern - used, ".*%s", PRId64);
        pattern[strlen(pattern) - 1] = kind == 'u' ? 'd' : kind;
        digits[0] = '-';
        (void)snprintf(digits + minus, 1023, pattern, (int)(f->precision < 0 ? 1 : f->precision), number);
    }
    add_padded(f, jinja_words(f->j, digits), true);
}

static void add_value(struct format *f, char kind, struct jinja_value value)
{
    if (kind != 's' && kind != 'r' && kind != 'c') {
        add_number(f, kind, value);
        return;
    }
    const struct jinja_text *text;
    if (kind == 'c' && !(value.kind == JINJA_TEXT && jinja_chars(value.text) == 1))
        jinja_raise(f->j, KT_E_UNSUPPORTED, "%%c requires a character");
    if (kind == 'r') {
        struct jinja_buffer *out = jinja_buffer_new(f->j);
        jinja_write_repr(f->j, out, value);
        text = jinja_buffer_text(f->j, out);
    } else {
        text = jinja_str(f->j, value);
        if (f->text->markup)
            text = jinja_escape(f->j, text);
    }
    if (f->precision >= 0 && f->precision < jinja_chars(text))
        text = jinja_slice(f->j, text, 0, jinja_offset(text, f->precision));
    add_padded(f, text, false);
}

/* What follows a %. */
static void add_directive(struct format *f)
{
    struct jinja_value value = {.kind = JINJA_ABSENT};
    size_t n = 0;
    f->width = f->precision = -1;
    if (peek(f) == '(') {
        uint64_t begin = ++f->at;
        while (peek(f) != ')')
            f->at++;
        if (f->arguments.kind != JINJA_DICT)
            jinja_raise(f->j, KT_E_UNSUPPORTED, "format requires a mapping");
        const struct jinja_value *item =
            jinja_dict_get(f->j, f->arguments.dict, jinja_text(jinja_slice(f->j, f->text, begin, f->at++)));
        if (!item)
            jinja_raise(f->j, KT_E_UNSUPPORTED, "a key of the format string is missing");
        value = *item;
    }
    while (peek(f) && strchr("+- #0", peek(f))) {
        if (n + 1 < sizeof f->flags)
            f->flags[n++] = f->text->bytes[f->at];
        f->at++;
    }
    f->flags[n] = 0;
    f->width = read_count(f, -1);
    if (peek(f) == '.') {
        f->at++;
        f->precision = read_count(f, 0);
    }
    while (peek(f) && strchr("hlL", peek(f)))
        f->at++;
    char kind = peek(f);
    f->at++;
    if (kind == '%') {
        jinja_add_words(f->j, f->out, "%");
        return;
    }
    if (!kind || !strchr("srcdiuoxXeEfFgG", kind))
        jinja_raise(f->j, KT_E_UNSUPPORTED, "unsupported format character");
    add_value(f, kind, value.kind == JINJA_ABSENT ? take(f) : value);
}

struct jinja_value jinja_format(struct jinja *j, const struct jinja_text *text, struct jinja_value arguments)
{
    struct format f = {.j = j, .out = jinja_buffer_new(j), .text = text, .arguments = arguments};
    uint64_t done = 0;
    while (f.at < text->length) {
        if (text->bytes[f.at] != '%') {
            f.at++;
            continue;
        }
        jinja_add_part(j, f.out, text, done, f.at++);
        add_directive(&f);
        done = f.at;
    }
    jinja_add_part(j, f.out, text, done, text->length);
    bool many = arguments.kind == JINJA_LIST && arguments.list->form == JINJA_IS_TUPLE;
    bool loose = arguments.kind == JINJA_DICT || arguments.kind == JINJA_UNDEFINED ||
                 (arguments.kind == JINJA_LIST &&
                  (arguments.list->form == JINJA_IS_LIST || arguments.list->form == JINJA_IS_RANGE));
    if (f.taken < (many ? arguments.list->n : 1) && !loose)
        jinja_raise(j, KT_E_UNSUPPORTED, "not all arguments converted during string formatting");
    return jinja_text(jinja_as_markup(j, jinja_buffer_text(j, f.out), text->markup));
}

/* ---- text.format(..) ---- */

struct fields {
    struct jinja *j;
    const struct jinja_call *call;
    uint64_t next;             /* argument of {} */
    bool has_auto, has_number; /* {}, {0} */
};

static struct jinja_value numbered(struct fields *f, uint64_t number, bool is_auto)
{
    *(is_auto ? &f->has_auto : &f->has_number) = true;
    if (f->has_auto && f->has_number)
        jinja_raise(f->j, KT_E_UNSUPPORTED, "cannot switch from %s",
                    is_auto ? "manual field specification to automatic field numbering"
                            : "automatic field numbering to manual field specification");
    if (number >= f->call->n)
        jinja_raise(f->j, KT_E_UNSUPPORTED, "Replacement index %llu out of range for positional args tuple",
                    (unsigned long long)number);
    return f->call->arguments[number];
}

/* The argument that {name} names: none, a number or a key. */
static struct jinja_value find_field(struct fields *f, const char *name, uint64_t length)
{
    uint64_t number = 0, n_digits = 0;
    if (length == 0)
        return numbered(f, f->next++, true);
    while (n_digits < length && n_digits < 9 && name[n_digits] >= '0' && name[n_digits] <= '9')
        number = number * 10 + (uint64_t)(name[n_digits++] - '0');
    if (n_digits == length)
        return numbered(f, number, false);
    for (uint64_t i = 0; i < length; i++)
        if (strchr(".[", name[i]))
            jinja_raise(f->j, KT_E_UNSUPPORTED, "a part of an argument in format() is not supported");
    for (uint32_t i = 0; i < f->call->n_keys; i++)
        if (f->call->keys[i]->length == length && memcmp(f->call->keys[i]->bytes, name, length) == 0)
            return f->call->keyed[i];
    jinja_raise(f->j, KT_E_UNSUPPORTED, "'%.*s'", (int)(length < 100 ? length : 100), name);
}

/* What stands between braces, as text. */
static const struct jinja_text *format_field(struct fields *f, const char *field, uint64_t length)
{
    const char *end = field + length, *mark = field;
    while (mark < end && *mark != '!' && *mark != ':')
        mark++;
    struct jinja_value value = find_field(f, field, (uint64_t)(mark - field));
    bool quotes = end - mark == 2 && memcmp(mark, "!r", 2) == 0;
    bool is_plain = mark == end || (end - mark == 1 && *mark == ':') || quotes ||
                    (end - mark == 2 && memcmp(mark, "!s", 2) == 0);
    if (!is_plain)
        jinja_raise(f->j, KT_E_UNSUPPORTED, "'%.*s' in format() is not supported",
                    (int)(end - mark < 100 ? end - mark : 100), mark);
    const struct jinja_text *text;
    if (quotes) {
        struct jinja_buffer *out = jinja_buffer_new(f->j);
        jinja_write_repr(f->j, out, value);
        text = jinja_buffer_text(f->j, out);
    } else {
        text = jinja_str(f->j, value);
    }
    return f->call->self.text->markup ? jinja_escape(f->j, text) : text;
}

struct jinja_value jinja_format_fields(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *text = call->self.text;
    struct jinja_buffer *out = jinja_buffer_new(j);
    struct fields f = {.j = j, .call = call};
    uint64_t done = 0;
    jinja_charge(j, text->length);
    for (uint64_t at = 0; at < text->length; at++) {
        char brace = text->bytes[at];
        if (brace != '{' && brace != '}')
            continue;
        bool is_last = at + 1 == text->length;
        if (!is_last && text->bytes[at + 1] == brace) { /* a pair stands for one */
            jinja_add_part(j, out, text, done, ++at);
            done = at + 1;
            continue;
        }
        if (brace == '}' || is_last)
            jinja_raise(j, KT_E_UNSUPPORTED, "Single '%c' encountered in format string", brace);
        jinja_add_part(j, out, text, done, at);
        const char *field = text->bytes + at + 1, *end = memchr(field, '}', text->length - at - 1);
        if (!end)
            jinja_raise(j, KT_E_UNSUPPORTED, "expected '}' before end of string");
        if (memchr(field, '{', (size_t)(end - field)))
            jinja_raise(j, KT_E_UNSUPPORTED, "a field in a field of format() is not supported");
        jinja_add(j, out, format_field(&f, field, (uint64_t)(end - field)));
        at += (uint64_t)(end - field) + 1;
        done = at + 1;
    }
    jinja_add_part(j, out, text, done, text->length);
    return jinja_text(jinja_as_markup(j, jinja_buffer_text(j, out), text->markup));
}
