/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/write.h"

#include "tools/engine/text/template/call.h"
#include "tools/engine/text/template/unicode.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* snprintf and strtod write and read the decimal point of the locale. */
bool jinja_read_real(const char *text, uint64_t length, double *real)
{
    char copy[512];
    const char *point = localeconv()->decimal_point;
    size_t used = 0;
    for (uint64_t i = 0; i < length; i++) {
        if (used + strlen(point) + 1 >= sizeof copy)
            return false;
        if (text[i] == '.') {
            memcpy(copy + used, point, strlen(point));
            used += strlen(point);
        } else {
            copy[used++] = text[i];
        }
    }
    copy[used] = 0;
    char *end;
    *real = strtod(copy, &end);
    return used > 0 && *end == 0;
}

/* Digits without a point, and the exponent of the first one. */
static int shortest_digits(double real, char digits[24], int *exponent)
{
    for (int precision = 0;; precision++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%.*e", precision, real);
        if (precision < 16 && strtod(text, NULL) != real)
            continue;
        int n = 0;
        const char *c = text;
        for (; *c && *c != 'e'; c++)
            if (*c >= '0' && *c <= '9')
                digits[n++] = *c;
        *exponent = atoi(c + 1);
        while (n > 1 && digits[n - 1] == '0')
            n--;
        return n;
    }
}

void jinja_real_text(double real, char text[JINJA_REAL_ROOM])
{
    char digits[24] = "0";
    int exponent, at = 0;
    if (isnan(real) || isinf(real)) {
        (void)snprintf(text, JINJA_REAL_ROOM, "%s", isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(real))
        text[at++] = '-';
    int n = shortest_digits(fabs(real), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        text[at++] = digits[0];
        if (n > 1)
            text[at++] = '.';
        memcpy(text + at, digits + 1, (size_t)n - 1);
        at += n - 1;
        (void)snprintf(text + at, (size_t)(JINJA_REAL_ROOM - at), "e%c%02d", exponent < 0 ? '-' : '+',
                       abs(exponent));
        return;
    }
    if (exponent < 0) {
        memcpy(text + at, "0.000", (size_t)(1 - exponent));
        at += 1 - exponent;
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        if (i == exponent + 1 && exponent >= 0)
            text[at++] = '.';
        text[at++] = i < n ? digits[i] : '0';
    }
    if (exponent >= n - 1) {
        text[at++] = '.';
        text[at++] = '0';
    }
    text[at] = 0;
}

static void write_text_repr(struct jinja *j, struct jinja_buffer *out, const struct jinja_text *text)
{
    char quote =
        memchr(text->bytes, '\'', text->length) && !memchr(text->bytes, '"', text->length) ? '"' : '\'';
    jinja_add_bytes(j, out, &quote, 1, false);
    uint64_t done = 0;
    for (uint64_t at = 0, size; at < text->length; at += size) {
        uint32_t c = jinja_char(text, at, &size);
        char escape[12] = {'\\', (char)c};
        size_t n = 2;
        if (c == '\n' || c == '\r' || c == '\t')
            escape[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
        else if (c == '\\' || c == (uint32_t)quote)
            n = 2;
        else if (jinja_is_printable(c))
            continue;
        else
            n = (size_t)snprintf(escape, sizeof escape,
                                 c < 0x100     ? "\\x%02x"
                                 : c < 0x10000 ? "\\u%04x"
                                               : "\\U%08x",
                                 c);
        jinja_add_part(j, out, text, done, at);
        jinja_add_bytes(j, out, escape, n, jinja_mark(text, at));
        done = at + size;
    }
    jinja_add_part(j, out, text, done, text->length);
    jinja_add_bytes(j, out, &quote, 1, false);
}

static void write_list(struct jinja *j, struct jinja_buffer *out, const struct jinja_list *list)
{
    static const char *const before[] = {"[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const after[] = {"]", ")", "", "])", "])", "])"};
    char range[64];
    if (list->form == JINJA_IS_ONCE)
        jinja_raise(j, KT_E_UNSUPPORTED, "a %s cannot be shown: use list",
                    list->what ? list->what : "generator");
    if (list->form == JINJA_IS_RANGE) {
        int64_t begin = list->room ? list->items[list->n].number : 0, end = list->items[list->n + 1].number;
        int64_t step = list->items[list->n + 2].number;
        (void)snprintf(range, sizeof range,
                       step == 1 ? "range(%" PRId64 ", %" PRId64 ")"
                                 : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                       begin, end, step);
        jinja_add_bytes(j, out, range, strlen(range), false);
        return;
    }
    jinja_add_words(j, out, before[list->form]);
    for (uint64_t i = 0; i < list->n; i++) {
        jinja_add_words(j, out, i ? ", " : "");
        jinja_write_repr(j, out, list->items[i]);
    }
    jinja_add_words(j, out, list->form == JINJA_IS_TUPLE && list->n == 1 ? "," : "");
    jinja_add_words(j, out, after[list->form]);
}

static void write_dict(struct jinja *j, struct jinja_buffer *out, const struct jinja_dict *dict)
{
    jinja_add_words(j, out, "{");
    for (uint64_t i = 0; i < dict->n; i++) {
        jinja_add_words(j, out, i ? ", " : "");
        jinja_write_repr(j, out, dict->entries[i].key);
        jinja_add_words(j, out, ": ");
        jinja_write_repr(j, out, dict->entries[i].value);
    }
    jinja_add_words(j, out, "}");
}

void jinja_write_repr(struct jinja *j, struct jinja_buffer *out, struct jinja_value value)
{
    jinja_enter(j);
    if (value.kind == JINJA_TEXT && value.text->markup)
        jinja_add_words(j, out, "Markup(");
    if (value.kind == JINJA_TEXT)
        write_text_repr(j, out, value.text);
    else if (value.kind == JINJA_UNDEFINED)
        jinja_add_words(j, out, "Undefined");
    else
        jinja_write(j, out, value);
    if (value.kind == JINJA_TEXT && value.text->markup)
        jinja_add_words(j, out, ")");
    jinja_leave(j);
}

void jinja_write(struct jinja *j, struct jinja_buffer *out, struct jinja_value value)
{
    char number[JINJA_REAL_ROOM];
    switch (value.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        return;
    case JINJA_NONE:
        jinja_add_words(j, out, "None");
        return;
    case JINJA_BOOL:
        jinja_add_words(j, out, value.truth ? "True" : "False");
        return;
    case JINJA_INT:
        (void)snprintf(number, sizeof number, "%" PRId64, value.number);
        jinja_add_bytes(j, out, number, strlen(number), false);
        return;
    case JINJA_FLOAT:
        jinja_real_text(value.real, number);
        jinja_add_bytes(j, out, number, strlen(number), false);
        return;
    case JINJA_BIG:
    case JINJA_TEXT:
        jinja_add(j, out, value.text);
        return;
    case JINJA_LIST:
        write_list(j, out, value.list);
        return;
    case JINJA_DICT:
        write_dict(j, out, value.dict);
        return;
    case JINJA_NAMESPACE:
        jinja_add_words(j, out, "<Namespace ");
        write_dict(j, out, value.dict);
        jinja_add_words(j, out, ">");
        return;
    case JINJA_MACRO:
        jinja_add_words(j, out, "<Macro '");
        jinja_add(j, out, value.macro->node->name);
        jinja_add_words(j, out, "'>");
        return;
    default:
        jinja_raise(j, KT_E_UNSUPPORTED, "a %s cannot be shown", jinja_type(value));
    }
}

const struct jinja_text *jinja_str(struct jinja *j, struct jinja_value value)
{
    if (value.kind == JINJA_TEXT)
        return value.text;
    struct jinja_buffer *out = jinja_buffer_new(j);
    jinja_write(j, out, value);
    return jinja_buffer_text(j, out);
}
