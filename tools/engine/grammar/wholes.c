/* SPDX-License-Identifier: Apache-2.0 */
/* wholes.c - integers within bounds of any size, and multiples of a number. */
#include "tools/engine/grammar/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bounds ---- */

void kt_whole_read(struct kt_whole *w, const char *text)
{
    w->is_negative = *text == '-';
    text += w->is_negative;
    text += strspn(text, "0");
    w->n = strnlen(text, KT_WHOLE_DIGITS);
    memcpy(w->digits, w->n ? text : "0", w->n ? w->n : 1);
    w->is_negative = w->is_negative && w->n > 0;
    w->n += w->n == 0;
    w->digits[w->n] = '\0';
}

static int compare_digits(const struct kt_whole *a, const struct kt_whole *b)
{
    return a->n != b->n ? (a->n > b->n) - (a->n < b->n) : memcmp(a->digits, b->digits, a->n);
}

int kt_whole_compare(const struct kt_whole *a, const struct kt_whole *b)
{
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    return a->is_negative ? compare_digits(b, a) : compare_digits(a, b);
}

void kt_whole_step(struct kt_whole *w, bool up)
{
    char text[KT_WHOLE_DIGITS + 4] = "-0";
    size_t n = w->n + 2, i = n;
    bool grows = up != w->is_negative;
    memcpy(text + 2, w->digits, w->n + 1);
    if (!grows && strcmp(w->digits, "0") == 0) {
        kt_whole_read(w, "-1");
        return;
    }
    while (text[--i] == (grows ? '9' : '0'))
        text[i] = grows ? '0' : '9';
    text[i] = (char)(text[i] + (grows ? 1 : -1));
    kt_whole_read(w, text + !w->is_negative);
}

/* ---- digits ---- */

/* What all places of one range share. A place knows what its digits so far leave of `multiple`, and how many
 * digits follow: so what cannot become a multiple is not begun. */
struct range {
    struct kt_program *program;
    const struct kt_divisors *divisors;
    uint32_t multiple, next; /* remainders are those of this number */
    uint32_t *made;          /* [most digits][multiple] any digits; 0: not made yet, 1: none fit */
    uint32_t *loops;         /* [multiple] any number of digits; NULL: none */
};

static bool may_end(const struct range *r, uint32_t rest)
{
    bool may = !r->divisors || rest % r->divisors->multiple == 0;
    for (size_t i = 0; r->divisors && i < r->divisors->n; i++)
        may = may && rest % r->divisors->others[i] != 0;
    return may;
}

void kt_add_digit(struct kt_range *ranges, size_t *n, char digit, uint32_t target)
{
    if (target == 0)
        return;
    if (*n > 0 && ranges[*n - 1].target == target && ranges[*n - 1].last + 1 == digit)
        ranges[*n - 1].last = (uint8_t)digit;
    else
        ranges[(*n)++] = (struct kt_range){(uint8_t)digit, (uint8_t)digit, target};
}

/* The n digits of low .. high; NULL: no bound on that side, but the first one is `first` at least. `rest`: of
 * the digits before them. */
static uint32_t between(struct range *r, const char *low, const char *high, char first, size_t n,
                        uint32_t rest)
{
    struct kt_range ranges[10];
    size_t n_ranges = 0;
    bool is_free = !low && !high && first == '0';
    if (n == 0)
        return r->loops ? kt_op_call(r->program, r->loops[rest], r->next) : may_end(r, rest) ? r->next : 0;
    uint32_t *made = &r->made[n * r->multiple + rest];
    if (is_free && *made > 0)
        return *made > 1 ? *made : 0;
    for (char digit = low ? *low : first; digit <= (high ? *high : '9'); digit++)
        kt_add_digit(ranges, &n_ranges, digit,
                     between(r, low && digit == *low ? low + 1 : NULL,
                             high && digit == *high ? high + 1 : NULL, '0', n - 1,
                             (rest * 10 + (uint32_t)(digit - '0')) % r->multiple));
    uint32_t op = n_ranges > 0 ? kt_op_switch(r->program, ranges, n_ranges, 0) : 0;
    if (is_free)
        *made = op > 0 ? op : 1;
    return op;
}

/* For each rest what reads further digits: no more than many, where it may end. */
static bool make_loops(struct range *r)
{
    struct kt_program *p = r->program;
    uint32_t end = kt_op_return(p);
    r->loops = calloc(2 * (size_t)r->multiple, sizeof(*r->loops));
    if (!r->loops)
        return false;
    uint32_t *counts = r->loops + r->multiple;
    for (uint32_t rest = 0; rest < r->multiple; rest++) {
        r->loops[rest] = kt_op_reserve(p);
        counts[rest] = kt_op_count(p, KT_GRAMMAR_DIGITS, r->loops[rest]);
    }
    for (uint32_t rest = 0; rest < r->multiple && p->status == KT_OK; rest++) {
        struct kt_range ranges[10];
        size_t n = 0;
        for (uint32_t digit = 0; digit < 10; digit++)
            kt_add_digit(ranges, &n, (char)('0' + digit), counts[(10 * rest + digit) % r->multiple]);
        uint32_t op = kt_op_switch(p, ranges, n, 0);
        if (may_end(r, rest))
            op = kt_op_less(p, KT_GRAMMAR_DIGITS, kt_op_split(p, end, op), end);
        kt_op_place(p, r->loops[rest], op);
    }
    return true;
}

/* low .. high, neither below 0; high NULL: no bound. */
static uint32_t natural_range(struct kt_program *p, const struct kt_whole *low, const struct kt_whole *high,
                              const struct kt_divisors *divisors, uint32_t next)
{
    size_t most = high ? high->n : low->n;
    uint32_t multiple = divisors ? divisors->multiple : 1;
    for (size_t i = 0; divisors && i < divisors->n; i++)
        multiple *= divisors->others[i];
    struct range r = {p, divisors, multiple, next, calloc((most + 1) * multiple, sizeof(uint32_t)), NULL};
    uint32_t op = 0;
    bool done = r.made != NULL;
    for (size_t n = low->n; n <= most && done; n++)
        op = kt_op_split(p,
                         between(&r, n == low->n ? low->digits : NULL,
                                 high && n == most ? high->digits : NULL, n == 1 ? '0' : '1', n, 0),
                         op);
    if (done && !high) { /* and longer ones */
        memset(r.made, 0, (most + 1) * multiple * sizeof(*r.made));
        done = make_loops(&r);
        struct kt_range ranges[10];
        size_t n_ranges = 0;
        for (char digit = '1'; digit <= '9' && done; digit++)
            kt_add_digit(ranges, &n_ranges, digit,
                         between(&r, NULL, NULL, '0', most, (uint32_t)(digit - '0') % multiple));
        if (n_ranges > 0)
            op = kt_op_split(p, kt_op_switch(p, ranges, n_ranges, 0), op);
    }
    free(r.made);
    free(r.loops);
    if (!done)
        p->status = p->status == KT_OK ? KT_E_NOMEM : p->status;
    return op;
}

uint32_t kt_op_integer_range(struct kt_program *p, const struct kt_whole *min, const struct kt_whole *max,
                             const struct kt_divisors *divisors, uint32_t next)
{
    struct kt_whole low, high;
    bool is_any = !divisors || (divisors->multiple == 1 && divisors->n == 0);
    uint32_t op = 0;
    if (!min && !max && is_any)
        return kt_op_number(p, true, next);
    if (min && max && kt_whole_compare(min, max) > 0)
        return 0;
    if (!max || !max->is_negative) {
        kt_whole_read(&low, min && !min->is_negative ? min->digits : "0");
        op = natural_range(p, &low, max, divisors, next);
    }
    if (!min || min->is_negative) {
        kt_whole_read(&low, max && max->is_negative ? max->digits : "1");
        if (min)
            kt_whole_read(&high, min->digits);
        uint32_t below = natural_range(p, &low, min ? &high : NULL, divisors, next);
        op = kt_op_split(p, op, below ? kt_op_byte(p, '-', 0, below) : 0);
    }
    return op;
}
