/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/scope.h"
#include "tools/engine/text/template/write.h"

#include <string.h>

enum { MOST = 8 /* parameters of a builtin */ };

const struct jinja_builtin *jinja_find_in(const struct jinja_builtin *table, const char *name,
                                          uint64_t length)
{
    for (; table->name; table++)
        if (strlen(table->name) == length && memcmp(table->name, name, length) == 0)
            return table;
    return NULL;
}

/* The parameters' names; how many must be given. */
static uint32_t split(const char *parameters, const char *names[MOST], size_t lengths[MOST],
                      uint32_t *required)
{
    uint32_t n = 0;
    *required = MOST;
    for (const char *c = parameters; *c;) {
        if (*c == '[') {
            *required = n;
            c++;
        }
        lengths[n] = strcspn(c, " ");
        names[n++] = c;
        c += lengths[n - 1];
        c += *c == ' ';
    }
    if (*required > n)
        *required = n;
    return n;
}

struct jinja_value jinja_call_builtin(struct jinja *j, const struct jinja_builtin *builtin,
                                      struct jinja_call *call)
{
    const char *names[MOST];
    size_t lengths[MOST];
    uint32_t required;
    if (*builtin->parameters == '*')
        return builtin->run(j, call);
    uint32_t n = split(builtin->parameters, names, lengths, &required);
    struct jinja_value bound[MOST] = {{.kind = JINJA_ABSENT}};
    if (call->n > n)
        jinja_raise(j, KT_E_UNSUPPORTED, "%s() takes at most %u arguments (%u given)", builtin->name, n,
                    call->n);
    if (call->n)
        memcpy(bound, call->arguments, call->n * sizeof *bound);
    for (uint32_t i = 0; i < call->n_keys; i++) {
        const struct jinja_text *key = call->keys[i];
        uint32_t at = 0;
        while (at < n && !(lengths[at] == key->length && memcmp(names[at], key->bytes, key->length) == 0))
            at++;
        if (at == n || bound[at].kind != JINJA_ABSENT)
            jinja_raise(j, KT_E_UNSUPPORTED, "%s() got %s argument '%.*s'", builtin->name,
                        at == n ? "an unexpected keyword" : "multiple values for",
                        (int)(key->length < 100 ? key->length : 100), key->bytes);
        bound[at] = call->keyed[i];
    }
    for (uint32_t i = 0; i < required; i++)
        if (bound[i].kind == JINJA_ABSENT)
            jinja_raise(j, KT_E_UNSUPPORTED, "%s() misses the argument '%.*s'", builtin->name,
                        (int)lengths[i], names[i]);
    struct jinja_call inner = {.self = call->self, .arguments = bound, .n = n};
    return builtin->run(j, &inner);
}

struct jinja_value jinja_call_value(struct jinja *j, struct jinja_value callee, struct jinja_call *call)
{
    switch (callee.kind) {
    case JINJA_FUNCTION:
        return jinja_call_builtin(j, callee.function, call);
    case JINJA_METHOD:
        call->self = callee.method->self;
        return jinja_call_builtin(j, callee.method->builtin, call);
    case JINJA_MACRO:
        return jinja_call_macro(j, callee.macro, call);
    case JINJA_UNDEFINED:
        jinja_raise_undefined(j, callee);
    default:
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' object is not callable", jinja_type(callee));
    }
}

static void bind_rest(struct jinja *j, const struct jinja_node *node, struct jinja_call *call,
                      const bool *used, struct jinja_scope *scope)
{
    static const struct jinja_text varargs = {.bytes = "varargs", .length = 7, .n_chars = 7};
    static const struct jinja_text kwargs = {.bytes = "kwargs", .length = 6, .n_chars = 6};
    int shown = (int)(node->name->length < 100 ? node->name->length : 100);
    if (call->n > node->n_keys && !node->catches_varargs)
        jinja_raise(j, KT_E_UNSUPPORTED, "macro '%.*s' takes not more than %u argument(s)", shown,
                    node->name->bytes, node->n_keys);
    if (node->catches_varargs) {
        struct jinja_list *rest = jinja_list_new(j, JINJA_IS_TUPLE, 0);
        for (uint32_t i = node->n_keys; i < call->n; i++)
            jinja_list_add(j, rest, call->arguments[i]);
        jinja_scope_set(j, scope, &varargs, jinja_list(rest));
    }
    struct jinja_dict *rest = jinja_dict_new(j);
    for (uint32_t i = 0; i < call->n_keys; i++) {
        if (used[i])
            continue;
        if (!node->catches_kwargs)
            jinja_raise(j, KT_E_UNSUPPORTED, "macro '%.*s' takes no keyword argument '%.*s'", shown,
                        node->name->bytes, (int)(call->keys[i]->length < 100 ? call->keys[i]->length : 100),
                        call->keys[i]->bytes);
        jinja_dict_set(j, rest, jinja_text(call->keys[i]), call->keyed[i]);
    }
    if (node->catches_kwargs)
        jinja_scope_set(j, scope, &kwargs, jinja_dict(rest));
}

static void bind(struct jinja *j, const struct jinja_node *node, struct jinja_call *call,
                 struct jinja_scope *scope)
{
    bool *used = jinja_new(j, call->n_keys + 1);
    struct jinja_value *values = jinja_new(j, (node->n_keys + 1) * sizeof *values);
    for (uint32_t i = 0; i < node->n_keys; i++) {
        if (i < call->n)
            values[i] = call->arguments[i];
        for (uint32_t k = 0; k < call->n_keys && i >= call->n; k++) {
            jinja_charge(j, 0);
            if (!used[k] && jinja_text_equal(call->keys[k], node->keys[i])) {
                values[i] = call->keyed[k];
                used[k] = true;
            }
        }
    }
    bind_rest(j, node, call, used, scope);
    for (uint32_t i = 0; i < node->n_keys; i++)
        jinja_scope_set(j, scope, node->keys[i],
                        values[i].kind == JINJA_ABSENT ? jinja_undefined(j, node->keys[i], NULL) : values[i]);
    /* A default sees all arguments, those without a value yet as undefined. */
    struct jinja_scope *outer = j->scope;
    j->scope = scope;
    for (uint32_t i = 0; i < node->n_keys; i++)
        if (values[i].kind == JINJA_ABSENT && node->keyed[i])
            jinja_scope_set(j, scope, node->keys[i], jinja_evaluate(j, node->keyed[i]));
    j->scope = outer;
}

struct jinja_value jinja_call_macro(struct jinja *j, const struct jinja_macro *macro, struct jinja_call *call)
{
    if (++j->macros > j->max_depth)
        jinja_raise(j, KT_E_RANGE, "macros call each other more than %u levels deep", j->max_depth);
    struct jinja_scope *scope = jinja_scope_new(j, macro->scope);
    bind(j, macro->node, call, scope);
    const struct jinja_text *text = jinja_capture(j, macro->node->body, scope);
    j->macros--;
    return jinja_text(text);
}

int64_t jinja_argument_int(struct jinja *j, struct jinja_value value, int64_t absent)
{
    if (value.kind == JINJA_ABSENT)
        return absent;
    if (value.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, value);
    if (!jinja_is_number(value))
        jinja_raise(j, KT_E_UNSUPPORTED, "'%s' object cannot be interpreted as an integer",
                    jinja_type(value));
    return jinja_number(value);
}

const struct jinja_text *jinja_argument_text(struct jinja *j, struct jinja_value value, const char *absent)
{
    if (value.kind == JINJA_ABSENT)
        return jinja_words(j, absent);
    if (value.kind != JINJA_TEXT)
        jinja_raise(j, KT_E_UNSUPPORTED, "expected str, got %s", jinja_type(value));
    return value.text;
}
