/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - numbers within bounds: integers, multiples of a number among them, and decimal numbers. */
#include "tools/engine/grammar/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- integers ---- */

/* What all places of one range share. A place knows what its digits so far leave of `multiple`, and how many
 * digits follow: so what cannot become a multiple is not begun. */
struct whole {
    struct kt_program *program;
    uint32_t multiple, next;
    uint32_t *made; /* [KT_GRAMMAR_DIGITS + 1][multiple] any digits; 0: not made yet, 1: none fit */
};

/* A range of digits; those with the same target are one. */
static void add_digit(struct kt_range *ranges, size_t *n, char digit, uint32_t target)
{
    if (target == 0)
        return;
    if (*n > 0 && ranges[*n - 1].target == target && ranges[*n - 1].last + 1 == digit)
        ranges[*n - 1].last = (uint8_t)digit;
    else
        ranges[(*n)++] = (struct kt_range){(uint8_t)digit, (uint8_t)digit, target};
}

/* The n digits of low .. high; NULL: no bound on that side. `rest`: of the digits before them. */
static uint32_t between(struct whole *w, const char *low, const char *high, size_t n, uint32_t rest)
{
    struct kt_range ranges[10];
    size_t n_ranges = 0;
    bool is_free = !low && !high;
    if (n == 0)
        return rest == 0 ? w->next : 0;
    uint32_t *made = &w->made[n * w->multiple + rest];
    if (is_free && *made > 0)
        return *made > 1 ? *made : 0;
    for (char digit = low ? *low : '0'; digit <= (high ? *high : '9'); digit++)
        add_digit(ranges, &n_ranges, digit,
                  between(w, low && digit == *low ? low + 1 : NULL, high && digit == *high ? high + 1 : NULL,
                          n - 1, (rest * 10 + (uint32_t)(digit - '0')) % w->multiple));
    uint32_t op = n_ranges > 0 ? kt_op_switch(w->program, ranges, n_ranges, 0) : 0;
    if (is_free)
        *made = op > 0 ? op : 1;
    return op;
}

/* low .. high, neither below 0. */
static uint32_t natural_range(struct whole *w, uint64_t low, uint64_t high)
{
    char least[24], most[24];
    uint32_t op = 0;
    for (uint64_t from = low; from <= high;) {
        int n = snprintf(least, sizeof(least), "%llu", (unsigned long long)from);
        uint64_t end = 9; /* of the numbers with as many digits */
        for (int i = 1; i < n; i++)
            end = end * 10 + 9;
        end = end < high ? end : high;
        (void)snprintf(most, sizeof(most), "%llu", (unsigned long long)end);
        op = kt_op_split(w->program, between(w, least, most, (size_t)n, 0), op);
        from = end + 1;
    }
    return op;
}

static uint32_t whole_range(struct kt_program *p, uint64_t low, uint64_t high, uint32_t multiple,
                            uint32_t next)
{
    struct whole w = {p, multiple, next,
                      calloc((size_t)(KT_GRAMMAR_DIGITS + 1) * multiple, sizeof(uint32_t))};
    if (!w.made)
        p->status = p->status == KT_OK ? KT_E_NOMEM : p->status;
    uint32_t op = w.made ? natural_range(&w, low, high) : 0;
    free(w.made);
    return op;
}

uint32_t kt_op_integer_range(struct kt_program *p, int64_t min, int64_t max, uint32_t multiple, uint32_t next)
{
    const int64_t most = 999999999999999999; /* KT_GRAMMAR_DIGITS */
    if (min == INT64_MIN && max == INT64_MAX && multiple == 1)
        return kt_op_number(p, true, next);
    min = min < -most ? -most : min;
    max = max > most ? most : max;
    uint32_t op = 0;
    if (max >= 0 && min <= max)
        op = whole_range(p, min > 0 ? (uint64_t)min : 0, (uint64_t)max, multiple, next);
    if (min < 0 && min <= max) {
        uint64_t nearest = max < 0 ? (uint64_t)-max : 1;
        uint32_t below = whole_range(p, nearest, (uint64_t)-min, multiple, next);
        op = kt_op_split(p, op, below ? kt_op_byte(p, '-', 0, below) : 0);
    }
    return op;
}

/* ---- decimal numbers ---- */

#define PLACES 15 /* digits that doubles tell apart */
#define MOST_WHOLE UINT64_C(999999999999999)

/* A number that is not below 0, as it is written: whole, a point, places. */
struct decimal {
    uint64_t whole;
    char places[PLACES + 3];
    bool is_open;
};

/* Digits behind the point, from number `at` on; low, high: the digits so far are those of the bound. */
struct places {
    struct kt_program *program;
    const struct decimal *low, *high;
    int n; /* at most */
    uint32_t next;
};

static bool is_zero(const char *digits)
{
    return digits[strspn(digits, "0")] == '\0';
}

static uint32_t fraction(const struct places *f, int at, bool low, bool high)
{
    struct kt_program *p = f->program;
    struct kt_range ranges[10];
    size_t n_ranges = 0;
    if (!low && !high && at > 0)
        return kt_op_digits(p, f->n - at, f->next);
    /* It may end: zeros would follow. */
    bool ends = (!low || (is_zero(f->low->places + at) && !f->low->is_open)) &&
                (!high || !is_zero(f->high->places + at) || !f->high->is_open);
    uint32_t end = ends ? f->next : 0;
    char first = low ? f->low->places[at] : '0', last = high ? f->high->places[at] : '9';
    for (char digit = first; digit <= last && at < f->n; digit++)
        add_digit(ranges, &n_ranges, digit,
                  fraction(f, at + 1, low && digit == first, high && digit == last));
    uint32_t more = n_ranges > 0 ? kt_op_switch(p, ranges, n_ranges, 0) : 0;
    if (more && at == 0)
        more = kt_op_byte(p, '.', 0, more);
    return kt_op_split(p, end, more);
}

/* "1", "1." and "1.0": a point has a digit behind it. */
static uint32_t behind(struct kt_program *p, const struct decimal *low, const struct decimal *high,
                       uint64_t whole, uint32_t next)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)whole);
    const struct places f = {p, low, high, PLACES - n, next};
    uint32_t op;
    if (low || high)
        op = fraction(&f, 0, low != NULL, high != NULL);
    else
        op = f.n == 0
                 ? next
                 : kt_op_split(p, next,
                               kt_op_byte(p, '.', 0, kt_op_class(p, "09", kt_op_digits(p, f.n - 1, next))));
    return op;
}

static uint32_t with_whole(struct kt_program *p, const struct decimal *low, const struct decimal *high,
                           uint64_t whole, uint32_t next)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)whole);
    uint32_t op = behind(p, low, high, whole, next);
    return op ? kt_op_text(p, text, (size_t)n, 0, op) : 0;
}

/* low <= number <= high, neither below 0. */
static uint32_t decimal_range(struct kt_program *p, const struct decimal *low, const struct decimal *high,
                              uint32_t next)
{
    if (low->whole > high->whole)
        return 0;
    if (low->whole == high->whole)
        return with_whole(p, low, high, low->whole, next);
    uint32_t op = with_whole(p, low, NULL, low->whole, next);
    op = kt_op_split(p, op, with_whole(p, NULL, high, high->whole, next));
    for (uint64_t from = low->whole + 1; from < high->whole;) {
        uint64_t end = 9;
        while (end < from)
            end = end * 10 + 9;
        end = end < high->whole - 1 ? end : high->whole - 1;
        op = kt_op_split(p, op, whole_range(p, from, end, 1, behind(p, NULL, NULL, from, next)));
        from = end + 1;
    }
    return op;
}

/* A bound's magnitude; false: it has too many digits. What lies beyond all numbers here is the last of them.
 */
static bool read_decimal(double value, bool is_open, struct decimal *made)
{
    char text[64];
    *made = (struct decimal){.whole = MOST_WHOLE, .is_open = is_open};
    memset(made->places, value > (double)MOST_WHOLE ? '9' : '0', PLACES + 2);
    if (value > (double)MOST_WHOLE) {
        made->is_open = false;
        return true;
    }
    for (int n = 0; n <= PLACES + 2; n++) {
        (void)snprintf(text, sizeof(text), "%.*f", n, value);
        if (strtod(text, NULL) != value)
            continue;
        char *point = strchr(text, '.');
        made->whole = strtoull(text, NULL, 10);
        if (point)
            memcpy(made->places, point + 1, strlen(point + 1));
        return true;
    }
    return false;
}

bool kt_op_number_range(struct kt_program *p, const struct kt_bound *min, const struct kt_bound *max,
                        uint32_t next, uint32_t *op)
{
    double least = min->is_set ? min->value : -INFINITY, most = max->is_set ? max->value : INFINITY;
    struct decimal low, high;
    *op = 0;
    if (most >= 0) { /* upwards from 0, or from the lower bound */
        if (!read_decimal(least > 0 ? least : 0, least >= 0 && min->is_open, &low) ||
            !read_decimal(most, max->is_open, &high))
            return false;
        if (least <= most && least <= (double)MOST_WHOLE)
            *op = decimal_range(p, &low, &high, next);
    }
    if (least < 0) { /* downwards; -0 is 0 */
        if (!read_decimal(most < 0 ? -most : 0, most <= 0 && max->is_open, &low) ||
            !read_decimal(-least, min->is_open, &high))
            return false;
        uint32_t below =
            least <= most && -most <= (double)MOST_WHOLE ? decimal_range(p, &low, &high, next) : 0;
        *op = kt_op_split(p, *op, below ? kt_op_byte(p, '-', 0, below) : 0);
    }
    return true;
}
