/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - the bounds that a schema sets to numbers, exactly, however many digits they have. */
#include "tools/engine/base/load.h"
#include "tools/engine/grammar/schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_UNDIVIDED 4

const char *kt_form_literal(const struct kt_form_reader *reader, const json_t *value)
{
    return json_is_real(value) ? kt_json_digits(reader->literals, json_real_value(value)) : NULL;
}

json_t *kt_form_load(struct kt_form_reader *reader, const char *text, size_t length, size_t flags,
                     json_error_t *where)
{
    json_t *document = kt_json_load(text, length, flags, &reader->literals, where);
    if (!document && reader->literals && json_error_code(where) == json_error_numeric_overflow)
        kt_form_fail(reader, KT_E_UNSUPPORTED, NULL, "%s", where->text);
    return document;
}

/* ---- bounds ---- */

static const char *const names[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"};

/* The last integer within a bound. */
static void read_whole(const struct kt_form_reader *reader, const json_t *given, bool is_least, bool is_open,
                       struct kt_whole *whole)
{
    const char *literal = kt_form_literal(reader, given);
    double value = json_number_value(given), last = is_least ? ceil(value) : floor(value);
    char text[KT_JSON_DIGITS + 8];
    if (json_is_integer(given))
        (void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(given));
    else
        (void)snprintf(text, sizeof(text), "%.0f", last);
    kt_whole_read(whole, literal ? literal : text);
    if (is_open && (json_is_integer(given) || last == value))
        kt_whole_step(whole, is_least);
}

/* What both keywords of a side leave; `bound` may be set by one. */
static void add_bound(const struct kt_form_reader *reader, const json_t *schema, unsigned name,
                      struct kt_bound *bound)
{
    const json_t *given = get(schema, names[name]);
    bool is_least = name < 2, is_open = name % 2 == 1;
    double value = json_number_value(given);
    struct kt_whole whole;
    if (!given)
        return;
    read_whole(reader, given, is_least, is_open, &whole);
    if (!bound->is_set || kt_whole_compare(&whole, &bound->whole) * (is_least ? 1 : -1) > 0)
        bound->whole = whole;
    if (!bound->is_set || (is_least ? value >= bound->value : value <= bound->value)) {
        bound->is_open = is_open || (bound->is_set && bound->is_open && value == bound->value);
        bound->value = value;
    }
    bound->is_set = true;
}

/* What a schema asks of numbers. */
struct asked {
    struct kt_program *program;
    uint32_t types, multiple, next;
    bool is_multiple; /* of anything */
    uint32_t not_multiple[MOST_UNDIVIDED];
    size_t n_not;
};

static uint32_t range(const struct asked *a, const struct kt_bound *min, const struct kt_bound *max)
{
    struct kt_program *p = a->program;
    bool has_fractions = a->types & KT_IS_NUMBER && !a->is_multiple, is_bounded = min->is_set || max->is_set;
    bool has_whole = a->types & KT_IS_INTEGER;
    if (has_fractions && has_whole && a->n_not == 0)
        return is_bounded ? kt_op_number_range(p, min, max, false, a->next) : kt_op_number(p, false, a->next);
    uint32_t op = has_fractions ? kt_op_number_range(p, min, max, true, a->next) : 0;
    const struct kt_divisors divisors = {a->multiple, a->not_multiple, a->n_not};
    if (has_whole)
        op = kt_op_split(p, op,
                         kt_op_integer_range(p, min->is_set ? &min->whole : NULL,
                                             max->is_set ? &max->whole : NULL, &divisors, a->next));
    return op;
}

static int compare(const void *a, const void *b)
{
    long double x = kt_form_exactly(*(json_t *const *)a), y = kt_form_exactly(*(json_t *const *)b);
    return (x > y) - (x < y);
}

/* The bounds with one more. */
static struct kt_bound with(const struct kt_form_reader *reader, const struct kt_bound *bound, unsigned name,
                            json_t *value)
{
    struct kt_bound made = *bound;
    json_t *schema = json_pack("{s:O}", names[name], value);
    add_bound(reader, schema, name, &made);
    json_decref(schema);
    return made;
}

/* Numbers between those that are left out. */
static uint32_t ranges(struct kt_form_reader *reader, const struct asked *a, const json_t *none,
                       struct kt_bound min, const struct kt_bound *max)
{
    json_t **numbers = calloc(json_array_size(none) + 1, sizeof(*numbers)), *one;
    size_t i, n = 0;
    uint32_t op = 0;
    if (!numbers) {
        kt_form_no_memory(reader);
        return 0;
    }
    json_array_foreach (none, i, one) {
        if (json_is_number(one))
            numbers[n++] = one;
    }
    qsort(numbers, n, sizeof(*numbers), compare);
    for (i = 0; i < n; i++) {
        struct kt_bound below = with(reader, max, 3, numbers[i]);
        op = kt_op_split(a->program, range(a, &min, &below), op);
        min = with(reader, &min, 1, numbers[i]);
    }
    free(numbers);
    return kt_op_split(a->program, range(a, &min, max), op);
}

/* A whole number up to the most, or one that divides all integers where there are only these. */
static bool read_divisor(struct kt_form_reader *reader, const json_t *value, uint32_t types,
                         const struct kt_place *place, uint32_t *divisor)
{
    double number = value ? json_number_value(value) : 1;
    *divisor = 1;
    if (!(types & KT_IS_NUMBER) && number < 1 && 1 / number == floor(1 / number))
        return true;
    if (number != floor(number) || number > KT_GRAMMAR_MOST_MULTIPLE)
        return kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                            "multipleOf is supported for whole numbers up to %d", KT_GRAMMAR_MOST_MULTIPLE);
    *divisor = (uint32_t)number;
    return true;
}

uint32_t kt_form_number(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                        const struct kt_place *place, uint32_t next)
{
    struct asked a = {.program = reader->program, .types = types, .next = next};
    struct kt_bound min = {.is_set = false}, max = {.is_set = false};
    const json_t *given = get(schema, "multipleOf"), *one;
    size_t i;
    bool done = read_divisor(reader, given, types, place, &a.multiple);
    a.is_multiple = given != NULL;
    json_array_foreach (get(schema, KT_FORM_UNDIVIDED), i, one) {
        if (done && a.n_not == MOST_UNDIVIDED)
            done = kt_form_fail(reader, KT_E_UNSUPPORTED, place, "more than %d 'not' of multipleOf",
                                MOST_UNDIVIDED);
        done = done && read_divisor(reader, one, KT_IS_NUMBER, place, &a.not_multiple[a.n_not]);
        a.n_not += done;
    }
    uint64_t common = a.multiple;
    for (i = 0; i < a.n_not && done; i++)
        common *= a.not_multiple[i];
    if (done && common > KT_GRAMMAR_MOST_MULTIPLE)
        done =
            kt_form_fail(reader, KT_E_UNSUPPORTED, place,
                         "multipleOf, and 'not' of it, are supported for numbers whose product is up to %d",
                         KT_GRAMMAR_MOST_MULTIPLE);
    for (unsigned k = 0; k < 4; k++)
        add_bound(reader, schema, k, k < 2 ? &min : &max);
    return done ? ranges(reader, &a, get(schema, KT_FORM_NONE), min, &max) : 0;
}
