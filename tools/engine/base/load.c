/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/base/load.h"
#include "tools/engine/base/buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FROM 9.2e18 /* integers that are larger may be beyond 64 bits */

struct copy {
    struct kt_buffer text;
    json_t *digits; /* by the double in hexadecimal; NULL: nobody asks */
    json_error_t *where;
};

static void write_key(double value, char key[40])
{
    (void)snprintf(key, 40, "%a", value);
}

const char *kt_json_digits(const json_t *digits, double value)
{
    char key[40];
    write_key(value, key);
    return json_string_value(json_object_get(digits, key));
}

/* Behind a number that begins at `at`; *is_whole: it has neither point nor exponent. */
static size_t end_of_number(const char *text, size_t length, size_t at, bool *is_whole)
{
    *is_whole = true;
    for (at += text[at] == '-'; at < length && text[at] && strchr("0123456789.eE+-", text[at]); at++)
        *is_whole = *is_whole && !strchr(".eE", text[at]);
    return at;
}

static size_t end_of_string(const char *text, size_t length, size_t at)
{
    for (at++; at < length && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at + 1;
}

/* False: no memory, or it cannot be told from another one. */
static bool add_number(struct copy *copy, const char *text, size_t n, bool is_whole)
{
    char number[KT_JSON_DIGITS + 2], key[40];
    if (!kt_buffer_add(&copy->text, text, n))
        return false;
    if (n > KT_JSON_DIGITS)
        return true;
    memcpy(number, text, n);
    number[n] = '\0';
    double value = strtod(number, NULL);
    const char *known = kt_json_digits(copy->digits, value);
    if (fabs(value) < FROM || (!is_whole && !known))
        return true;
    if (known && strcmp(known, number) != 0) {
        (void)snprintf(copy->where->text, sizeof(copy->where->text) - 1,
                       "%.50s and %.50s are one number as doubles, which is not supported", known, number);
        return false;
    }
    write_key(value, key);
    return kt_buffer_add(&copy->text, ".0", 2) &&
           (!copy->digits || json_object_set_new(copy->digits, key, json_string(number)) == 0);
}

/* The text with such integers as reals. */
static bool add_text(struct copy *copy, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        bool is_whole = false, is_number = text[at] == '-' || (text[at] >= '0' && text[at] <= '9');
        size_t end = text[at] == '"' ? end_of_string(text, length, at)
                     : is_number     ? end_of_number(text, length, at, &is_whole)
                                     : at + 1;
        end = end < length ? end : length;
        if (is_number ? !add_number(copy, text + at, end - at, is_whole)
                      : !kt_buffer_add(&copy->text, text + at, end - at))
            return false;
        at = end;
    }
    return true;
}

json_t *kt_json_load(const char *text, size_t length, size_t flags, json_t **digits, json_error_t *where)
{
    struct copy copy = {.digits = NULL, .where = where};
    json_t *document = json_loadb(text, length, flags, where);
    if (document || json_error_code(where) != json_error_numeric_overflow)
        return document;
    if (digits)
        copy.digits = *digits = *digits ? *digits : json_object();
    bool done = (!digits || copy.digits) && add_text(&copy, text, length);
    copy.text.length = 0; /* again, so that reals before an integer are compared with it, too */
    if (done && add_text(&copy, text, length))
        document = json_loadb(copy.text.data, copy.text.length, flags, where);
    kt_buffer_free(&copy.text);
    return document;
}
