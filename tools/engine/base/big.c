/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "tools/engine/base/big.h"
#include "tools/engine/base/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static size_t skip_digits(const char *text, size_t length, size_t at)
{
    while (at < length && text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

bool kt_json_is_number(const char *text, size_t length)
{
    size_t at = length > 0 && text[0] == '-', from = at;
    at = skip_digits(text, length, at);
    if (at == from || (text[from] == '0' && at > from + 1))
        return false;
    if (at < length && text[at] == '.') {
        from = ++at;
        at = skip_digits(text, length, at);
        if (at == from)
            return false;
    }
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < length && (text[at] == '+' || text[at] == '-');
        from = at;
        at = skip_digits(text, length, at);
        if (at == from)
            return false;
    }
    return at == length;
}

/* Behind a token that begins like a number. */
static size_t end_of_number(const char *text, size_t length, size_t at)
{
    while (at < length && text[at] && strchr("0123456789.eE+-", text[at]))
        at++;
    return at;
}

/* Would jansson refuse it, though it is one? 0: no; -1: no memory. */
static int is_big(const char *text, size_t length)
{
    bool is_whole = !memchr(text, '.', length) && !memchr(text, 'e', length) && !memchr(text, 'E', length);
    if (!kt_json_is_number(text, length) || (is_whole && length < 19))
        return 0;
    char *copy = strndup(text, length);
    if (!copy)
        return -1;
    errno = 0;
    bool is_beyond = is_whole ? strtoll(copy, NULL, 10) != 0 && errno == ERANGE : isinf(strtod(copy, NULL));
    free(copy);
    return is_beyond;
}

static bool add_number(struct kt_buffer *out, const char *text, size_t length)
{
    int big = is_big(text, length);
    if (big == 0)
        return kt_buffer_add(out, text, length);
    return big > 0 && kt_buffer_add_text(out, "{\"\\u0001number\":\"") && kt_buffer_add(out, text, length) &&
           kt_buffer_add_text(out, "\"}");
}

/* ---- strings ---- */

/* The UTF-16 unit of \uHHHH; 0: it is none. */
static unsigned unit_at(const char *text, size_t length, size_t at)
{
    char digits[5] = "";
    if (at + 6 > length || text[at] != '\\' || text[at + 1] != 'u')
        return 0;
    memcpy(digits, text + at + 2, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (unsigned)strtoul(digits, NULL, 16) : 0;
}

/* A string up to its closing quote. */
static bool add_string(struct kt_buffer *out, const char *text, size_t length, size_t *at)
{
    size_t i = *at + 1, from = *at;
    bool done = true;
    while (done && i < length && text[i] != '"') {
        unsigned unit = unit_at(text, length, i), next = unit_at(text, length, i + 6);
        size_t n = text[i] == '\\' ? 2 : 1;
        if (unit >= 0xd800 && unit < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
            n = 12;
        } else if (unit >= 0xd800 && unit < 0xe000) {
            done = kt_buffer_add(out, text + from, i - from) && kt_buffer_add_text(out, "\\uFFFD");
            n = 6;
            from = i + n;
        }
        i += n;
    }
    *at = i < length ? i + 1 : length;
    return done && kt_buffer_add(out, text + from, *at - from);
}

/* ---- texts ---- */

static bool mend(struct kt_buffer *out, const char *text, size_t length)
{
    bool done = true;
    for (size_t at = 0; done && at < length;) {
        bool is_number = text[at] == '-' || (text[at] >= '0' && text[at] <= '9');
        size_t end = at + 1;
        if (text[at] == '"') {
            done = add_string(out, text, length, &at);
            continue;
        }
        while (!is_number && end < length && text[end] != '"' && text[end] != '-' &&
               !(text[end] >= '0' && text[end] <= '9'))
            end++;
        end = is_number ? end_of_number(text, length, at) : end;
        done = is_number ? add_number(out, text + at, end - at) : kt_buffer_add(out, text + at, end - at);
        at = end;
    }
    return done;
}

json_t *kt_json_read(const char *text, size_t length, size_t flags, json_error_t *where)
{
    json_error_t other;
    struct kt_buffer mended = {.data = NULL};
    json_t *value = json_loadb(text, length, flags, where);
    if (value || (!memmem(text, length, "\\u", 2) && json_error_code(where) != json_error_numeric_overflow))
        return value;
    if (!mend(&mended, text, length))
        *where = (json_error_t){.line = 0, .text = ""}; /* as where jansson finds no memory */
    else if ((value = json_loadb(mended.data, mended.length, flags, &other)) == NULL &&
             json_error_code(where) == json_error_numeric_overflow)
        *where = other;
    kt_buffer_free(&mended);
    return value;
}

const char *kt_json_big(const json_t *value)
{
    const json_t *number =
        json_is_object(value) && json_object_size(value) == 1 ? json_object_get(value, KT_JSON_BIG) : NULL;
    return number && kt_json_is_number(json_string_value(number), json_string_length(number))
               ? json_string_value(number)
               : NULL;
}

bool kt_json_is_plain(const json_t *value)
{
    const char *name;
    json_t *one;
    size_t i;
    bool plain = !kt_json_big(value);
    if (json_is_string(value))
        return strlen(json_string_value(value)) == json_string_length(value);
    json_object_foreach ((json_t *)(uintptr_t)value, name, one)
        plain = plain && kt_json_is_plain(one);
    json_array_foreach (value, i, one)
        plain = plain && kt_json_is_plain(one);
    return plain;
}

size_t kt_json_unwrap(char *text, size_t length)
{
    static const char begin[] = "{\"\\u0001number\":";
    size_t from = 0, to = 0;
    char *found;
    if (!memmem(text, length, begin, sizeof(begin) - 1))
        return length;
    while ((found = memmem(text + from, length - from, begin, sizeof(begin) - 1)) != NULL) {
        size_t at = (size_t)(found - text), quote = at + sizeof(begin) - 1, end, brace;
        quote += strspn(text + quote, " \n");
        end = text[quote] == '"' ? end_of_number(text, length, quote + 1) : quote;
        brace = end + 1 < length && text[end] == '"' ? end + 1 + strspn(text + end + 1, " \n") : end;
        bool is_one = brace > end && brace < length && text[brace] == '}' &&
                      kt_json_is_number(text + quote + 1, end - quote - 1);
        memmove(text + to, text + from, at - from);
        to += at - from;
        if (is_one)
            memmove(text + to, text + quote + 1, end - quote - 1);
        else
            text[to] = '{';
        to += is_one ? end - quote - 1 : 1;
        from = is_one ? brace + 1 : at + 1;
    }
    memmove(text + to, text + from, length - from);
    to += length - from;
    text[to] = '\0';
    return to;
}
