/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - the bounds that a schema sets to numbers, exactly, however many digits they have. */
#include "tools/engine/base/load.h"
#include "tools/engine/grammar/schema.h"

#include <math.h>
#include <stdio.h>

static json_t *get(const json_t *schema, const char *name)
{
    return json_object_get(schema, name);
}

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

uint32_t kt_form_number(struct kt_form_reader *reader, const json_t *schema, uint32_t types,
                        const struct kt_place *place, uint32_t next)
{
    double multiple = get(schema, "multipleOf") ? json_number_value(get(schema, "multipleOf")) : 1;
    struct kt_bound min = {.is_set = false}, max = {.is_set = false};
    if (multiple != floor(multiple) || multiple > KT_GRAMMAR_MOST_MULTIPLE) {
        kt_form_fail(reader, KT_E_UNSUPPORTED, place, "multipleOf is supported for whole numbers up to %d",
                     KT_GRAMMAR_MOST_MULTIPLE);
        return 0;
    }
    for (unsigned i = 0; i < 4; i++)
        add_bound(reader, schema, i, i < 2 ? &min : &max);
    if (types & KT_IS_NUMBER && !get(schema, "multipleOf")) /* else whole numbers, which are numbers, too */
        return min.is_set || max.is_set ? kt_op_number_range(reader->program, &min, &max, next)
                                        : kt_op_number(reader->program, false, next);
    return kt_op_integer_range(reader->program, min.is_set ? &min.whole : NULL,
                               max.is_set ? &max.whole : NULL, (uint32_t)multiple, next);
}
