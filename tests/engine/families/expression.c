/* SPDX-License-Identifier: Apache-2.0 */
/* expression.c - sums, products and comparisons of numbers, 'texts' and names, as tables have them. */
#include "tests/engine/families/family.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct family *family;
    const struct scope *scope;
    const char *whole, *at;
};

/* Every bit of a hash that a double can hold. */
static double number_of_text(const char *text)
{
    return (double)(numbers_hash(text) >> 12);
}

json_t *expression_find(const struct family *family, const char *path)
{
    json_t *value = family->config;
    char key[80];
    while (value && *path) {
        size_t length = strcspn(path, ".");
        (void)snprintf(key, sizeof(key), "%.*s", (int)length, path);
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key)) : json_object_get(value, key);
        path += length + (path[length] == '.');
    }
    return value;
}

static double look_up(const struct reader *r, const char *name)
{
    const struct {
        const char *name;
        int value;
    } own[] = {{"l", r->scope->layer}, {"e", r->scope->expert}, {"i", r->scope->index}};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(name, own[i].name) == 0)
            return own[i].value;
    for (int i = 0; i < r->family->n_lines; i++) {
        const struct line *line = &r->family->lines[i];
        if (strcmp(line->word[0], "let") == 0 && strcmp(line->word[1], name) == 0)
            return expression_value(r->family, r->scope, line->word[2]);
    }
    const json_t *value = expression_find(r->family, name);
    if (json_is_string(value))
        return number_of_text(json_string_value(value));
    return json_is_true(value) ? 1 : json_number_value(value);
}

static double read_comparison(struct reader *r);

static double read_atom(struct reader *r)
{
    char word[160];
    if (*r->at == '(') {
        r->at++;
        double value = read_comparison(r);
        if (*r->at++ != ')')
            die("'%s' lacks a )", r->whole);
        return value;
    }
    if (*r->at == '\'') {
        size_t length = strcspn(r->at + 1, "'");
        (void)snprintf(word, sizeof(word), "%.*s", (int)length, r->at + 1);
        r->at += length + 2;
        return number_of_text(word);
    }
    if (isdigit((unsigned char)*r->at)) {
        char *end;
        double value = strtod(r->at, &end);
        r->at = end;
        return value;
    }
    size_t length = 0;
    while (isalnum((unsigned char)r->at[length]) || r->at[length] == '_' || r->at[length] == '.')
        length++;
    if (length == 0)
        die("'%s' is not an expression, from '%s' on", r->whole, r->at);
    (void)snprintf(word, sizeof(word), "%.*s", (int)length, r->at);
    r->at += length;
    return look_up(r, word);
}

static double read_product(struct reader *r)
{
    double value = read_atom(r);
    for (;;) {
        char sign = *r->at;
        if (sign != '*' && sign != '/' && sign != '%')
            return value;
        r->at++;
        double other = read_atom(r);
        value = sign == '*' ? value * other : sign == '/' ? floor(value / other) : fmod(value, other);
    }
}

static double read_sum(struct reader *r)
{
    double value = read_product(r);
    while (*r->at == '+' || *r->at == '-') {
        double sign = *r->at++ == '+' ? 1 : -1;
        value += sign * read_product(r);
    }
    return value;
}

static double read_comparison(struct reader *r)
{
    double value = read_sum(r);
    char sign = *r->at;
    if (sign != '=' && sign != '<' && sign != '>')
        return value;
    bool has_equal = r->at[1] == '=';
    r->at += 1 + has_equal;
    double other = read_sum(r);
    if (has_equal && value == other)
        return 1;
    return sign == '<' ? value < other : sign == '>' ? value > other : 0;
}

double expression_value(const struct family *family, const struct scope *scope, const char *text)
{
    char filled[400];
    expression_fill(family, scope, text, filled, sizeof(filled));
    struct reader r = {family, scope, filled, filled};
    double value = read_comparison(&r);
    if (*r.at)
        die("'%s' is not an expression, from '%s' on", text, r.at);
    return value;
}

void expression_fill(const struct family *family, const struct scope *scope, const char *text, char *out,
                     size_t size)
{
    size_t n = 0;
    while (*text) {
        if (n + 24 > size)
            die("'%s' is too long", text);
        if (*text != '{') {
            out[n++] = *text++;
            continue;
        }
        char inner[160];
        size_t length = strcspn(text, "}");
        (void)snprintf(inner, sizeof(inner), "%.*s", (int)length - 1, text + 1);
        n += (size_t)snprintf(out + n, size - n, "%lld", (long long)expression_value(family, scope, inner));
        text += length + (text[length] == '}');
    }
    out[n] = '\0';
}
