/* SPDX-License-Identifier: Apache-2.0 */
/* value_filters.c - filters of numbers, and of any value. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/shape.h"
#include "tools/engine/text/template/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct jinja_value run_default(struct jinja *j, struct jinja_call *call)
{
    bool replaced =
        call->self.kind == JINJA_UNDEFINED || (jinja_truth(call->arguments[1]) && !jinja_truth(call->self));
    if (!replaced)
        return call->self;
    return call->arguments[0].kind == JINJA_ABSENT ? jinja_text(jinja_words(j, "")) : call->arguments[0];
}

static struct jinja_value run_abs(struct jinja *j, struct jinja_call *call)
{
    if (call->self.kind == JINJA_FLOAT)
        return jinja_float(fabs(call->self.real));
    if (call->self.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, call->self);
    if (!jinja_is_number(call->self))
        jinja_raise(j, KT_E_UNSUPPORTED, "bad operand type for abs(): '%s'", jinja_type(call->self));
    int64_t number = jinja_number(call->self);
    return number < 0 ? jinja_operate(j, '-', jinja_int(0), call->self) : jinja_int(number);
}

static struct jinja_value run_attr(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *name = jinja_argument_text(j, call->arguments[0], "");
    if (call->self.kind == JINJA_DICT && !jinja_find_method(call->self, name))
        return jinja_undefined(j, name, "dict object"); /* attributes, not items */
    return jinja_attribute(j, call->self, name);
}

/* Digits with single _ between them, without spaces around; false: it is none. */
static bool read_integer(struct jinja *j, const struct jinja_text *text, int64_t base, int64_t *number)
{
    text = jinja_strip(j, text, NULL, true, true);
    uint64_t i = 0;
    bool minus = false, digit_before = false;
    *number = 0;
    if (text->length && (text->bytes[0] == '-' || text->bytes[0] == '+'))
        minus = text->bytes[i++] == '-';
    char prefix = i + 1 < text->length && text->bytes[i] == '0' ? (char)(text->bytes[i + 1] | 0x20) : 0;
    if ((prefix == 'x' && base == 16) || (prefix == 'o' && base == 8) || (prefix == 'b' && base == 2)) {
        i += 2;
        digit_before = i < text->length && text->bytes[i] == '_';
    }
    if (i >= text->length)
        return false;
    for (; i < text->length; i++) {
        char c = text->bytes[i];
        if (c == '_' && digit_before && i + 1 < text->length) {
            digit_before = false;
            continue;
        }
        char small = (char)(c | 0x20);
        int digit = c >= '0' && c <= '9' ? c - '0' : small >= 'a' && small <= 'z' ? small - 'a' + 10 : 99;
        if (digit >= base)
            return false;
        if (__builtin_mul_overflow(*number, base, number) ||
            __builtin_add_overflow(*number, minus ? -digit : digit, number))
            jinja_raise(j, KT_E_UNSUPPORTED, "an integer of more than 64 bits");
        digit_before = true;
    }
    return digit_before;
}

static bool read_real(struct jinja *j, const struct jinja_text *text, double *real)
{
    char digits[512];
    size_t n = 0;
    text = jinja_strip(j, text, NULL, true, true);
    if (text->length >= sizeof digits || text->length == 0)
        return false;
    for (uint64_t i = 0; i < text->length; i++) {
        char c = text->bytes[i];
        bool between = i > 0 && i + 1 < text->length && text->bytes[i - 1] >= '0' &&
                       text->bytes[i - 1] <= '9' && text->bytes[i + 1] >= '0' && text->bytes[i + 1] <= '9';
        if (c == '_' && between)
            continue;
        if (!strchr("0123456789+-.eEinfatyINFATY", c) || !c)
            return false;
        digits[n++] = c;
    }
    return jinja_read_real(digits, n, real);
}

static struct jinja_value truncate_real(struct jinja *j, double real, struct jinja_value absent)
{
    if (isnan(real))
        return absent;
    if (isinf(real))
        jinja_raise(j, KT_E_UNSUPPORTED, "cannot convert float infinity to integer");
    if (!(fabs(real) < 9.2e18))
        jinja_raise(j, KT_E_UNSUPPORTED, "an integer of more than 64 bits");
    return jinja_int((int64_t)real);
}

static struct jinja_value run_int(struct jinja *j, struct jinja_call *call)
{
    struct jinja_value absent = call->arguments[0].kind == JINJA_ABSENT ? jinja_int(0) : call->arguments[0];
    int64_t base = jinja_argument_int(j, call->arguments[1], 10), number;
    double real;
    if (call->self.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, call->self);
    if (jinja_is_number(call->self))
        return jinja_int(jinja_number(call->self));
    if (call->self.kind == JINJA_FLOAT)
        return truncate_real(j, call->self.real, absent);
    if (call->self.kind != JINJA_TEXT)
        return absent;
    if (base >= 2 && base <= 36 && read_integer(j, call->self.text, base, &number))
        return jinja_int(number);
    return read_real(j, call->self.text, &real) ? truncate_real(j, real, absent) : absent;
}

static struct jinja_value run_float(struct jinja *j, struct jinja_call *call)
{
    double real;
    if (call->self.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, call->self);
    if (jinja_is_number(call->self))
        return jinja_float((double)jinja_number(call->self));
    if (call->self.kind == JINJA_FLOAT)
        return call->self;
    if (call->self.kind == JINJA_TEXT && read_real(j, call->self.text, &real))
        return jinja_float(real);
    return call->arguments[0].kind == JINJA_ABSENT ? jinja_float(0) : call->arguments[0];
}

/* To the nearest, ties to even, of what the digits say: as Python rounds. */
static double round_real(double real, int64_t digits)
{
    char text[512];
    double rounded;
    if (digits > 300 || !isfinite(real))
        return real;
    if (digits < 0) {
        double unit = pow(10, (double)-digits);
        return digits < -300 ? copysign(0, real) : rint(real / unit) * unit;
    }
    (void)snprintf(text, sizeof text, "%.*f", (int)digits, real);
    return sscanf(text, "%lf", &rounded) == 1 ? rounded : real;
}

static struct jinja_value run_round(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *method = jinja_argument_text(j, call->arguments[1], "common");
    bool up = jinja_text_is(method, "ceil");
    /* round(x, None) is a whole number */
    bool whole = call->arguments[0].kind == JINJA_NONE && jinja_text_is(method, "common");
    int64_t digits = whole ? 0 : jinja_argument_int(j, call->arguments[0], 0);
    if (!up && !jinja_text_is(method, "common") && !jinja_text_is(method, "floor"))
        jinja_raise(j, KT_E_UNSUPPORTED, "method must be common, ceil or floor");
    if (call->self.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, call->self);
    if (!jinja_is_number(call->self) && call->self.kind != JINJA_FLOAT)
        jinja_raise(j, KT_E_UNSUPPORTED, "type %s doesn't define __round__ method", jinja_type(call->self));
    if (jinja_text_is(method, "common")) {
        if (call->self.kind == JINJA_FLOAT && whole)
            return truncate_real(j, rint(call->self.real), jinja_none());
        if (call->self.kind == JINJA_FLOAT)
            return jinja_float(round_real(call->self.real, digits));
        if (digits >= 0)
            return jinja_int(jinja_number(call->self));
        return truncate_real(j, round_real((double)jinja_number(call->self), digits), jinja_none());
    }
    double unit = pow(10, (double)digits),
           real = call->self.kind == JINJA_FLOAT ? call->self.real : (double)jinja_number(call->self);
    if (!isfinite(real * unit))
        jinja_raise(j, KT_E_UNSUPPORTED, "cannot convert float infinity to integer");
    return jinja_float((up ? ceil(real * unit) : floor(real * unit)) / unit);
}

const struct jinja_builtin jinja_value_filters[] = {
    {"abs", run_abs, ""},
    {"attr", run_attr, "name"},
    {"d", run_default, "[default_value boolean"},
    {"default", run_default, "[default_value boolean"},
    {"float", run_float, "[default"},
    {"int", run_int, "[default base"},
    {"round", run_round, "[precision method"},
    {NULL, NULL, NULL},
};
