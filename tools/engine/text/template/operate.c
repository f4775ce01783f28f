/* SPDX-License-Identifier: Apache-2.0 */
/* operate.c - + - * / // % ** with Python's meaning. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/lexer.h"
#include "tools/engine/text/template/write.h"

#include <math.h>

static const char *sign_of(uint32_t operation)
{
    switch (operation) {
    case '+':
        return "+";
    case '-':
        return "-";
    case '*':
        return "*";
    case '/':
        return "/";
    case '%':
        return "%";
    case JINJA_TOKEN_FLOOR:
        return "//";
    default:
        return "** or pow()";
    }
}

_Noreturn static void refuse(struct jinja *j, uint32_t operation, struct jinja_value a, struct jinja_value b)
{
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, a.kind == JINJA_UNDEFINED ? a : b);
    if (operation == '+' && a.kind == JINJA_TEXT)
        jinja_raise(j, KT_E_UNSUPPORTED, "can only concatenate str (not \"%s\") to str", jinja_type(b));
    jinja_raise(j, KT_E_UNSUPPORTED, "unsupported operand type(s) for %s: '%s' and '%s'", sign_of(operation),
                jinja_type(a), jinja_type(b));
}

_Noreturn static void refuse_zero(struct jinja *j)
{
    jinja_raise(j, KT_E_UNSUPPORTED, "division by zero");
}

static int64_t power(struct jinja *j, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    bool over = false;
    while (exponent > 0 && !over) {
        if (exponent & 1)
            over = __builtin_mul_overflow(result, base, &result);
        exponent >>= 1;
        if (exponent && !over)
            over = __builtin_mul_overflow(base, base, &base);
    }
    if (over)
        jinja_raise(j, KT_E_UNSUPPORTED, "an integer of more than 64 bits");
    return result;
}

static int64_t floor_divide(struct jinja *j, int64_t a, int64_t b, int64_t *rest)
{
    if (b == 0)
        refuse_zero(j);
    if (b == -1 && a == INT64_MIN)
        jinja_raise(j, KT_E_UNSUPPORTED, "an integer of more than 64 bits");
    int64_t quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *rest += b;
        quotient--;
    }
    return quotient;
}

static struct jinja_value operate_integers(struct jinja *j, uint32_t operation, int64_t a, int64_t b)
{
    int64_t result = 0, rest;
    bool over = false;
    switch (operation) {
    case '+':
        over = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case '/':
        if (b == 0)
            refuse_zero(j);
        return jinja_float((double)((long double)a / (long double)b));
    case '%':
        (void)floor_divide(j, a, b, &result);
        break;
    case JINJA_TOKEN_FLOOR:
        result = floor_divide(j, a, b, &rest);
        break;
    default:
        if (b < 0 && a == 0)
            refuse_zero(j);
        if (b < 0)
            return jinja_float(pow((double)a, (double)b));
        result = power(j, a, b);
    }
    if (over)
        jinja_raise(j, KT_E_UNSUPPORTED, "an integer of more than 64 bits");
    return jinja_int(result);
}

static double floor_rest(double a, double b)
{
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    return rest != 0 ? rest : copysign(0.0, b);
}

static double floor_quotient(double a, double b)
{
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0.0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static struct jinja_value operate_reals(struct jinja *j, uint32_t operation, double a, double b)
{
    switch (operation) {
    case '+':
        return jinja_float(a + b);
    case '-':
        return jinja_float(a - b);
    case '*':
        return jinja_float(a * b);
    case '/':
        if (b == 0)
            refuse_zero(j);
        return jinja_float(a / b);
    case '%':
        if (b == 0)
            refuse_zero(j);
        return jinja_float(floor_rest(a, b));
    case JINJA_TOKEN_FLOOR:
        if (b == 0)
            refuse_zero(j);
        return jinja_float(floor_quotient(a, b));
    default:
        if (a == 0 && b < 0)
            refuse_zero(j);
        if (a < 0 && b != floor(b) && isfinite(a) && isfinite(b))
            jinja_raise(j, KT_E_UNSUPPORTED, "a complex number");
        double result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            jinja_raise(j, KT_E_UNSUPPORTED, "a result that is too large");
        return jinja_float(result);
    }
}

static struct jinja_value add_texts(struct jinja *j, const struct jinja_text *a, const struct jinja_text *b)
{
    if (a->markup != b->markup) {
        const struct jinja_text *x = jinja_escape(j, a), *y = jinja_escape(j, b);
        return jinja_text(jinja_join(j, a->markup ? a : x, b->markup ? b : y));
    }
    return jinja_text(jinja_join(j, a, b));
}

static struct jinja_value add_lists(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b)
{
    struct jinja_list *list = jinja_list_new(j, a->form, a->n + b->n);
    jinja_charge(j, (a->n + b->n) * sizeof *list->items);
    for (uint64_t i = 0; i < a->n; i++)
        jinja_list_add(j, list, a->items[i]);
    for (uint64_t i = 0; i < b->n; i++)
        jinja_list_add(j, list, b->items[i]);
    return jinja_list(list);
}

static struct jinja_value repeat(struct jinja *j, struct jinja_value what, int64_t times)
{
    if (what.kind == JINJA_TEXT) {
        struct jinja_buffer *out = jinja_buffer_new(j);
        jinja_add_repeated(j, out, what.text, times);
        return jinja_text(jinja_as_markup(j, jinja_buffer_text(j, out), what.text->markup));
    }
    struct jinja_list *list = jinja_list_new(j, what.list->form, 0);
    for (int64_t i = 0; i < times && what.list->n; i++) {
        jinja_charge(j, what.list->n * sizeof *list->items);
        for (uint64_t k = 0; k < what.list->n; k++)
            jinja_list_add(j, list, what.list->items[k]);
    }
    return jinja_list(list);
}

static bool is_sequence(struct jinja_value value)
{
    return value.kind == JINJA_TEXT || (value.kind == JINJA_LIST && value.list->form <= JINJA_IS_TUPLE);
}

struct jinja_value jinja_operate(struct jinja *j, uint32_t operation, struct jinja_value a,
                                 struct jinja_value b)
{
    bool whole_a = jinja_is_number(a), whole_b = jinja_is_number(b);
    if (whole_a && whole_b)
        return operate_integers(j, operation, jinja_number(a), jinja_number(b));
    if ((whole_a || a.kind == JINJA_FLOAT) && (whole_b || b.kind == JINJA_FLOAT))
        return operate_reals(j, operation, whole_a ? (double)jinja_number(a) : a.real,
                             whole_b ? (double)jinja_number(b) : b.real);
    if (operation == '+' && a.kind == JINJA_TEXT && b.kind == JINJA_TEXT)
        return add_texts(j, a.text, b.text);
    if (operation == '+' && is_sequence(a) && a.kind == b.kind && a.kind == JINJA_LIST &&
        a.list->form == b.list->form)
        return add_lists(j, a.list, b.list);
    if (operation == '*' && is_sequence(a) && whole_b)
        return repeat(j, a, jinja_number(b));
    if (operation == '*' && is_sequence(b) && whole_a)
        return repeat(j, b, jinja_number(a));
    if (operation == '%' && a.kind == JINJA_TEXT)
        return jinja_format(j, a.text, b);
    refuse(j, operation, a, b);
}
