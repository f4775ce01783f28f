/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - JSON's own grammar: blanks, strings, numbers, any value. */
#include "tools/engine/grammar/plain.h"
#include "tools/engine/grammar/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BLANKS 20 /* of an indented line */
#define DIGITS 18      /* before an exponent, at most */

uint32_t kt_op_blank(struct kt_program *p, uint32_t next)
{
    if (p->blank == 0) {
        uint32_t end = kt_op_return(p), loop = kt_op_reserve(p);
        uint32_t blank = kt_op_class(p, "  \t\t", kt_op_count(p, MOST_BLANKS, loop));
        kt_op_place(p, loop, kt_op_less(p, MOST_BLANKS, kt_op_split(p, end, blank), end));
        const struct kt_range first[] = {{' ', ' ', end}, {'\n', '\n', loop}};
        p->blank = kt_op_split(p, end, kt_op_switch(p, first, 2, 0));
    }
    return kt_op_call(p, p->blank, next);
}

/* ---- strings ---- */

static uint32_t hex_digits(struct kt_program *p, int n, uint32_t next)
{
    while (n-- > 0)
        next = kt_op_class(p, "09AFaf", next);
    return next;
}

uint32_t kt_op_escape(struct kt_program *p, uint32_t next)
{
    uint32_t two = hex_digits(p, 2, next), three = hex_digits(p, 1, two);
    uint32_t low = kt_op_class(p, "CFcf", two);
    low = kt_op_text(p, "\\u", 2, 0, kt_op_class(p, "DDdd", low));
    const struct kt_range second[] = {{'0', '7', two},
                                      {'8', '9', hex_digits(p, 2, low)},
                                      {'A', 'B', hex_digits(p, 2, low)},
                                      {'a', 'b', hex_digits(p, 2, low)}};
    uint32_t surrogate = kt_op_switch(p, second, 4, 0);
    const struct kt_range first[] = {{'0', '9', three},    {'A', 'C', three}, {'E', 'F', three},
                                     {'a', 'c', three},    {'e', 'f', three}, {'D', 'D', surrogate},
                                     {'d', 'd', surrogate}};
    uint32_t code = kt_op_switch(p, first, 7, 0);
    const struct kt_range kinds[] = {{'"', '"', next}, {'\\', '\\', next}, {'/', '/', next},
                                     {'b', 'b', next}, {'f', 'f', next},   {'n', 'n', next},
                                     {'r', 'r', next}, {'t', 't', next},   {'u', 'u', code}};
    return kt_op_switch(p, kinds, 9, 0);
}

/* A character of a string to `next`, or its end to `end` (0: it cannot end here). */
static uint32_t character(struct kt_program *p, uint32_t next, uint32_t end, uint32_t limit)
{
    struct kt_range ranges[5 + KT_UTF8_RANGES] = {{' ', '!', next},
                                                  {'#', '[', next},
                                                  {']', 0x7f, next},
                                                  {'\\', '\\', kt_op_escape(p, next)}};
    size_t n = 4 + kt_ranges_utf8(p, ranges + 4, next);
    if (end)
        ranges[n++] = (struct kt_range){'"', '"', end};
    uint32_t op = kt_op_switch(p, ranges, n, limit == UINT32_MAX ? 0 : KT_OP_COUNTED);
    kt_op_plain(p, op, KT_PLAIN_ALL, limit);
    return op;
}

uint32_t kt_op_string_rest(struct kt_program *p, uint32_t next)
{
    if (p->string == 0) {
        uint32_t loop = kt_op_reserve(p);
        kt_op_place(p, loop, character(p, loop, kt_op_return(p), UINT32_MAX));
        p->string = loop;
    }
    return kt_op_call(p, p->string, next);
}

uint32_t kt_op_string(struct kt_program *p, uint32_t next)
{
    return kt_op_byte(p, '"', 0, kt_op_string_rest(p, next));
}

uint32_t kt_op_string_sized(struct kt_program *p, uint32_t min, uint32_t max, uint32_t next)
{
    if (min == 0 && max == UINT32_MAX)
        return kt_op_string(p, next);
    uint32_t end = kt_op_return(p), loop = kt_op_reserve(p), quote = kt_op_byte(p, '"', 0, end);
    uint32_t go_on = kt_op_count(p, max == UINT32_MAX ? min : max, loop);
    uint32_t body = character(p, go_on, end, max);
    if (max != UINT32_MAX)
        body = kt_op_less(p, max, body, quote);
    if (min > 0)
        body = kt_op_less(p, min, character(p, go_on, 0, max), body);
    kt_op_place(p, loop, body);
    return kt_op_byte(p, '"', 0, kt_op_call(p, loop, next));
}

/* ---- numbers ---- */

/* 0 .. n digits. */
static uint32_t few_digits(struct kt_program *p, int n, uint32_t next, uint32_t last)
{
    uint32_t op = last;
    while (n-- > 0)
        op = kt_op_split(p, next, kt_op_class(p, "09", op));
    return op;
}

uint32_t kt_op_digits(struct kt_program *p, uint32_t next)
{
    if (p->digits == 0) {
        uint32_t end = kt_op_return(p), loop = kt_op_reserve(p);
        uint32_t digit = kt_op_class(p, "09", kt_op_count(p, KT_GRAMMAR_DIGITS, loop));
        kt_op_place(p, loop, kt_op_less(p, KT_GRAMMAR_DIGITS, kt_op_split(p, end, digit), end));
        p->digits = loop;
    }
    return kt_op_call(p, p->digits, next);
}

/* -1.5e+10: below 10^308, so that a double has it. */
static uint32_t exponent(struct kt_program *p, uint32_t next)
{
    uint32_t last = kt_op_class(p, "09", next), small = kt_op_class(p, "09", few_digits(p, 1, next, next));
    uint32_t large = kt_op_class(p, "12", kt_op_class(p, "08", last));
    uint32_t up = kt_op_split(p, small, large);
    const struct kt_range sign[] = {{'+', '+', up},
                                    {'-', '-', kt_op_class(p, "09", few_digits(p, 2, next, next))}};
    return kt_op_class(p, "eeEE", kt_op_split(p, up, kt_op_switch(p, sign, 2, 0)));
}

static uint32_t point(struct kt_program *p, uint32_t next)
{
    return kt_op_split(p, next, kt_op_byte(p, '.', 0, kt_op_class(p, "09", kt_op_digits(p, next))));
}

/* Whole numbers of many digits have no exponent: a double would not have them. */
uint32_t kt_op_number(struct kt_program *p, bool is_integer, uint32_t next)
{
    uint32_t *rule = is_integer ? &p->integer : &p->number;
    if (*rule == 0) {
        uint32_t end = kt_op_return(p), many = end;
        if (!is_integer) {
            many = point(p, end);
            end = point(p, kt_op_split(p, end, exponent(p, end)));
        }
        many = kt_op_digits(p, many);
        if (!is_integer)
            many = few_digits(p, DIGITS - 1, end, kt_op_split(p, end, kt_op_class(p, "09", many)));
        const struct kt_range first[] = {{'0', '0', end}, {'1', '9', many}};
        uint32_t whole = kt_op_switch(p, first, 2, 0);
        *rule = kt_op_split(p, whole, kt_op_byte(p, '-', 0, whole));
    }
    return kt_op_call(p, *rule, next);
}

/* ---- any value ---- */

/* [item, item, ..] of any values, or the members of an object. */
static uint32_t any_list(struct kt_program *p, uint8_t close, bool has_keys, uint32_t end)
{
    uint32_t after = kt_op_reserve(p), item = kt_op_call(p, p->value, after);
    if (has_keys)
        item = kt_op_string(p, kt_op_byte(p, ':', 0, kt_op_blank(p, item)));
    uint32_t last = kt_op_byte(p, close, 0, end);
    uint32_t more = kt_op_byte(p, ',', 0, kt_op_blank(p, item));
    kt_op_place(p, after, kt_op_split(p, kt_op_blank(p, last), more));
    return kt_op_blank(p, kt_op_split(p, last, item));
}

uint32_t kt_op_value(struct kt_program *p, uint32_t next)
{
    if (p->value == 0) {
        p->value = kt_op_reserve(p);
        uint32_t end = kt_op_return(p), number = kt_op_number(p, false, end);
        const struct kt_range first[] = {{'"', '"', kt_op_string_rest(p, end)},
                                         {'{', '{', any_list(p, '}', true, end)},
                                         {'[', '[', any_list(p, ']', false, end)},
                                         {'t', 't', kt_op_text(p, "rue", 3, 0, end)},
                                         {'f', 'f', kt_op_text(p, "alse", 4, 0, end)},
                                         {'n', 'n', kt_op_text(p, "ull", 3, 0, end)}};
        kt_op_place(p, p->value, kt_op_split(p, kt_op_switch(p, first, 6, 0), number));
    }
    return kt_op_call(p, p->value, next);
}
