/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/fields.h"
#include "tools/engine/base/big.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 100
#define MOST_VALUES (1U << 20)

/* Of jansson: an object takes 200 bytes, any other value up to 100; strings are copied. A number that is
 * longer than 64 bits may become an object with a string. */
uint64_t kt_fields_size(const char *text, size_t length)
{
    uint64_t size = length;
    unsigned n_digits = 0;
    for (size_t i = 0; i < length; i++) {
        n_digits = text[i] >= '0' && text[i] <= '9' ? n_digits + 1 : 0;
        size += text[i] == '{' || text[i] == '[' ? 200 : text[i] == ',' ? 100 : n_digits == 19 ? 400 : 0;
    }
    return size;
}

/* What parsing would take too much of: brackets outside of strings that nest too deep, since parsers and
 * templates take stack for each level; and values, each of which takes up to 100 bytes of memory. */
static bool check_size(const char *text, size_t length, struct kt_problem *problem)
{
    unsigned depth = 0, n = 0;
    bool is_string = false;
    for (size_t i = 0; i < length; i++) {
        if (is_string && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            is_string = !is_string;
        } else if (!is_string && (text[i] == '{' || text[i] == '[')) {
            n++;
            if (++depth > MOST_DEPTH)
                return kt_problem_set(problem, 400, NULL, NULL, "the body nests deeper than %d brackets",
                                      MOST_DEPTH);
        } else if (!is_string && (text[i] == '}' || text[i] == ']') && depth > 0) {
            depth--;
        } else if (!is_string && text[i] == ',') {
            n++;
        }
        if (n > MOST_VALUES)
            return kt_problem_set(problem, 400, NULL, NULL, "the body holds more than %u values",
                                  MOST_VALUES);
    }
    return true;
}

json_t *kt_fields_parse(const char *text, size_t length, struct kt_problem *problem)
{
    json_error_t place;
    if (length == 0) {
        kt_problem_set(problem, 400, NULL, NULL, "the body is empty; a JSON object is expected");
        return NULL;
    }
    if (!check_size(text, length, problem))
        return NULL;
    json_t *object = kt_json_read(text, length, JSON_ALLOW_NUL | JSON_DECODE_ANY, &place);
    if (!object) {
        kt_problem_set(problem, 400, NULL, NULL,
                       "the body is not valid JSON: line %d, column %d: "
                       "%s",
                       place.line, place.column, place.text);
        problem->told = (unsigned)strlen("the body is not valid JSON"); /* what follows quotes it */
        return NULL;
    }
    if (!json_is_object(object) || kt_json_big(object)) {
        kt_problem_set(problem, 400, NULL, NULL, "the body is %s; a JSON object is expected",
                       kt_fields_type(object));
        json_decref(object);
        return NULL;
    }
    return object;
}

const char *kt_fields_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return kt_json_big(value) ? "a number" : "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

static bool refuse(const struct kt_field *field, const json_t *value, const char *wanted,
                   struct kt_problem *problem)
{
    return kt_problem_field(problem, field->name, "'%s' must be %s, not %s", field->name, wanted,
                            kt_fields_type(value));
}

/* The lower 64 bits, of a seed: any number is one. */
static int64_t wrap(const char *digits)
{
    uint64_t number = 0;
    for (const char *digit = digits + (*digits == '-'); *digit; digit++)
        number = number * 10 + (uint64_t)(*digit - '0');
    return (int64_t)(*digits == '-' ? -number : number);
}

static bool read_number(const struct kt_field *field, const json_t *value, void *member,
                        struct kt_problem *problem)
{
    bool is_int = field->type == KT_FIELD_INT;
    const char *big = kt_json_big(value);
    double number = big ? strtod(big, NULL) : json_number_value(value);
    /* Languages without integers write 40.0; above 2^53 nobody knows which number was meant. */
    bool is_whole = json_is_integer(value) || (big && !strpbrk(big, ".eE")) ||
                    (json_is_real(value) && trunc(number) == number && fabs(number) <= 0x1p53);
    if (is_int ? !is_whole : !json_is_number(value) && !big)
        return refuse(field, value, is_int ? "an integer" : "a number", problem);
    if (!(number >= field->minimum && number <= field->maximum))
        return kt_problem_field(problem, field->name, "'%s' is %.10g; it must be in %.10g .. %.10g",
                                field->name, number, field->minimum, field->maximum);
    if (is_int && big)
        *(int64_t *)member = wrap(big);
    else if (is_int)
        *(int64_t *)member = json_is_integer(value) ? json_integer_value(value) : (int64_t)number;
    else
        *(double *)member = number;
    return true;
}

static bool read_text(const struct kt_field *field, const json_t *value, void *member,
                      struct kt_problem *problem)
{
    if (!json_is_string(value))
        return refuse(field, value, "a string", problem);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return kt_problem_field(problem, field->name, "'%s' holds a zero byte", field->name);
    *(const char **)member = json_string_value(value);
    return true;
}

static bool read_field(const struct kt_field *field, json_t *value, void *member, struct kt_problem *problem)
{
    switch (field->type) {
    case KT_FIELD_BOOL:
        if (!json_is_boolean(value))
            return refuse(field, value, "a boolean", problem);
        *(bool *)member = json_is_true(value);
        return true;
    case KT_FIELD_TEXT:
        return read_text(field, value, member, problem);
    case KT_FIELD_LIST:
    case KT_FIELD_OBJECT: {
        bool is_list = field->type == KT_FIELD_LIST;
        if (is_list ? !json_is_array(value) : !json_is_object(value) || kt_json_big(value))
            return refuse(field, value, is_list ? "an array" : "an object", problem);
        *(json_t **)member = value;
        return true;
    }
    default:
        return read_number(field, value, member, problem);
    }
}

bool kt_fields_read(const json_t *object, const struct kt_field *fields, void *values,
                    struct kt_problem *problem)
{
    for (const struct kt_field *field = fields; field->name; field++) {
        json_t *value = json_object_get(object, field->name);
        if (value && !json_is_null(value) &&
            !read_field(field, value, (char *)values + field->offset, problem))
            return false;
    }
    return true;
}
