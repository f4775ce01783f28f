/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.c - decimal numbers within bounds. Those below 10^15 have digits behind the point, and their bounds
 * are the shortest decimals of doubles: what is not below a bound as it is written is not below it as a
 * double. Larger ones are whole, and their bounds exact.
 */
#include "tools/engine/grammar/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_FROM 1e15
#define MOST_WHOLE "999999999999999"
#define MOST_ZEROS 15 /* behind all places of an upper bound */
#define PLACES 352    /* of the smallest double, 17 behind 323 zeros */

/* A number that is not below 0, as it is written: whole, a point, places without zeros behind them. */
struct decimal {
    uint64_t whole;
    size_t n;
    char places[PLACES];
    bool is_positive; /* a lower bound, 0, that is not meant itself */
    bool is_free;     /* an upper bound: all below 10^15 */
};

/* Digits behind the point. */
struct places {
    struct kt_program *program;
    const struct decimal *low, *high;
    uint32_t next, digits, zeros, positive; /* made when they are needed */
};

/* The magnitude of a double below 10^15, with as few digits as give it again. */
static void read_decimal(double value, struct decimal *made)
{
    char text[40] = "", digits[32] = "", *end;
    size_t n = 0, at = 0;
    *made = (struct decimal){.whole = 0};
    for (int more = 0; more < 17; more++) {
        (void)snprintf(text, sizeof(text), "%.*e", more, value);
        if (strtod(text, NULL) == value)
            break;
    }
    for (end = text; *end && *end != 'e'; end++) /* whatever the locale's point is */
        if (*end >= '0' && *end <= '9')
            digits[n++] = *end;
    long shift = *end ? strtol(end + 1, NULL, 10) : 0;
    for (; shift >= 0; shift--)
        made->whole = made->whole * 10 + (uint64_t)(at < n ? digits[at++] - '0' : 0);
    for (; shift < -1 && made->n < PLACES - 20; shift++)
        made->places[made->n++] = '0';
    while (at < n)
        made->places[made->n++] = digits[at++];
    while (made->n > 0 && made->places[made->n - 1] == '0')
        made->n--;
}

/* A zero behind the whole number is no place, so that "1." is not one. */
static uint32_t any_places(struct places *f)
{
    struct kt_program *p = f->program;
    f->digits = f->digits ? f->digits : kt_op_digits(p, f->next);
    return f->digits;
}

static uint32_t only_zeros(struct places *f)
{
    for (uint32_t i = 0; i < MOST_ZEROS && (i > 0 || f->zeros == 0); i++)
        f->zeros =
            kt_op_split(f->program, f->next, kt_op_byte(f->program, '0', 0, f->zeros ? f->zeros : f->next));
    return f->zeros;
}

/* Zeros, and one digit at least that is none. */
static uint32_t positive_places(struct places *f)
{
    struct kt_program *p = f->program;
    if (f->positive == 0) {
        uint32_t end = kt_op_return(p), loop = kt_op_reserve(p);
        const struct kt_range ranges[] = {{'0', '0', kt_op_count(p, KT_GRAMMAR_DIGITS, loop)},
                                          {'1', '9', end}};
        kt_op_place(p, loop,
                    kt_op_less(p, KT_GRAMMAR_DIGITS, kt_op_switch(p, ranges, 2, 0),
                               kt_op_switch(p, ranges + 1, 1, 0)));
        f->positive = kt_op_call(p, loop, any_places(f));
    }
    return f->positive;
}

/* From place `at` on; low, high: the digits so far are those of the bound. */
static uint32_t fraction(struct places *f, size_t at, bool low, bool high)
{
    struct kt_range ranges[10];
    size_t n_ranges = 0;
    bool is_positive = low && f->low->is_positive;
    low = low && (is_positive || at < f->low->n);
    if (!low && !high)
        return any_places(f);
    if (is_positive && !high)
        return positive_places(f);
    if (high && at >= f->high->n)
        return low ? 0 : only_zeros(f);
    char first = low && !is_positive ? f->low->places[at] : '0', last = high ? f->high->places[at] : '9';
    for (char digit = first; digit <= last; digit++)
        kt_add_digit(ranges, &n_ranges, digit,
                     fraction(f, at + 1, low && digit == (is_positive ? '0' : first), high && digit == last));
    uint32_t more = n_ranges > 0 ? kt_op_switch(f->program, ranges, n_ranges, 0) : 0;
    return low ? more : kt_op_split(f->program, f->next, more);
}

/* What follows a whole number: "1", "1.5" and "1.0", but not "1.". NULL: no bound on that side. */
static uint32_t behind(struct kt_program *p, const struct decimal *low, const struct decimal *high,
                       uint32_t next)
{
    struct places f = {.program = p, .low = low, .high = high, .next = next};
    bool asks = low && (low->n > 0 || low->is_positive), is_full = high && high->n == 0;
    uint32_t more = 0;
    if (!asks && !high)
        more = kt_op_class(p, "09", any_places(&f));
    else if (!asks && is_full)
        more = kt_op_byte(p, '0', 0, only_zeros(&f));
    else if (!asks) { /* it may end; with a point it has a digit */
        struct kt_range ranges[10];
        size_t n = 0;
        for (char digit = '0'; digit <= high->places[0]; digit++)
            kt_add_digit(ranges, &n, digit, fraction(&f, 1, false, digit == high->places[0]));
        more = kt_op_switch(p, ranges, n, 0);
    } else
        more = fraction(&f, 0, true, high != NULL);
    more = more ? kt_op_byte(p, '.', 0, more) : 0;
    return asks ? more : kt_op_split(p, next, more);
}

static uint32_t with_whole(struct kt_program *p, const struct decimal *low, const struct decimal *high,
                           uint64_t whole, uint32_t next)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)whole);
    uint32_t op = behind(p, low, high, next);
    return op ? kt_op_text(p, text, (size_t)n, 0, op) : 0;
}

/* low <= number <= high, neither below 0, both below 10^15. */
static uint32_t decimal_range(struct kt_program *p, const struct decimal *low, const struct decimal *high,
                              bool is_fraction, uint32_t next)
{
    static const struct decimal positive = {.is_positive = true};
    struct decimal first = *low;
    first.is_positive = first.is_positive || (is_fraction && first.n == 0);
    low = &first;
    struct kt_whole from, to;
    char text[24];
    if (!high->is_free && low->whole > high->whole)
        return 0;
    if (!high->is_free && low->whole == high->whole)
        return with_whole(p, low, high, low->whole, next);
    uint32_t op = with_whole(p, low, NULL, low->whole, next);
    if (!high->is_free)
        op = kt_op_split(p, op, with_whole(p, is_fraction ? &positive : NULL, high, high->whole, next));
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)low->whole);
    kt_whole_read(&from, text);
    kt_whole_step(&from, true);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)high->whole);
    kt_whole_read(&to, high->is_free ? MOST_WHOLE : text);
    if (!high->is_free)
        kt_whole_step(&to, false);
    if (kt_whole_compare(&from, &to) <= 0)
        op = kt_op_split(p, op,
                         kt_op_integer_range(p, &from, &to, NULL,
                                             behind(p, is_fraction ? &positive : NULL, NULL, next)));
    return op;
}

/* Magnitudes below 10^15. An open bound is the double next to it, but for 0. */
static uint32_t small_range(struct kt_program *p, double least, bool least_open, double most, bool most_open,
                            bool is_fraction, uint32_t next)
{
    struct decimal low, high;
    double from = least_open && least > 0 ? nextafter(least, INFINITY) : least;
    double to = most_open && most < INFINITY ? nextafter(most, -INFINITY) : most;
    if (from >= WHOLE_FROM || to < from)
        return 0;
    read_decimal(from, &low);
    low.is_positive = least_open && least == 0;
    if (to < WHOLE_FROM)
        read_decimal(to, &high);
    else
        high = (struct decimal){.is_free = true};
    return decimal_range(p, &low, &high, is_fraction, next);
}

/* Whole numbers of 16 digits and more. */
static uint32_t large_range(struct kt_program *p, bool is_negative, const struct kt_whole *min,
                            const struct kt_whole *max, uint32_t next)
{
    struct kt_whole from;
    kt_whole_read(&from, is_negative ? "-1000000000000000" : "1000000000000000");
    if (is_negative) {
        max = !max || kt_whole_compare(max, &from) > 0 ? &from : max;
        return kt_op_integer_range(p, min, max, NULL, next);
    }
    min = !min || kt_whole_compare(min, &from) < 0 ? &from : min;
    return kt_op_integer_range(p, min, max, NULL, next);
}

uint32_t kt_op_number_range(struct kt_program *p, const struct kt_bound *min, const struct kt_bound *max,
                            bool is_fraction, uint32_t next)
{
    double least = min->is_set ? min->value : -INFINITY, most = max->is_set ? max->value : INFINITY;
    const struct kt_whole *low = min->is_set ? &min->whole : NULL, *high = max->is_set ? &max->whole : NULL;
    uint32_t op = 0, below = 0;
    if (least > most)
        return 0;
    if (most >= 0) /* upwards from 0, or from the lower bound */
        op = small_range(p, least > 0 ? least : 0, least >= 0 && min->is_open, most, max->is_open,
                         is_fraction, next);
    if (least < 0) /* downwards; -0 is 0 */
        below = small_range(p, most < 0 ? -most : 0, most <= 0 && max->is_open, -least, min->is_open,
                            is_fraction, next);
    op = kt_op_split(p, op, below ? kt_op_byte(p, '-', 0, below) : 0);
    if (most >= WHOLE_FROM && !is_fraction)
        op = kt_op_split(p, large_range(p, false, low, high, next), op);
    if (least <= -WHOLE_FROM && !is_fraction)
        op = kt_op_split(p, large_range(p, true, low, high, next), op);
    return op;
}
