/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/template/scope.h"

#include "tools/engine/text/template/call.h"

struct jinja_scope *jinja_scope_new(struct jinja *j, struct jinja_scope *parent)
{
    struct jinja_scope *scope = jinja_new(j, sizeof *scope);
    scope->parent = parent;
    return scope;
}

/* Names of the tree are one text each; "loop" and the like come from elsewhere. */
static bool same(const struct jinja_text *a, const struct jinja_text *b)
{
    return a == b || (a->length == b->length && jinja_text_equal(a, b));
}

static struct jinja_binding *find(const struct jinja_scope *scope, const struct jinja_text *name)
{
    for (uint32_t i = 0; i < scope->n; i++)
        if (same(scope->bindings[i].name, name))
            return &scope->bindings[i];
    return NULL;
}

void jinja_scope_set(struct jinja *j, struct jinja_scope *scope, const struct jinja_text *name,
                     struct jinja_value value)
{
    jinja_charge(j, scope->n * 16);
    struct jinja_binding *binding = find(scope, name);
    if (binding) {
        binding->value = value;
        return;
    }
    if (scope->n == scope->room) {
        scope->room = scope->room ? 2 * scope->room : 4;
        scope->bindings = jinja_grow(j, scope->bindings, scope->n * sizeof *scope->bindings,
                                     scope->room * sizeof *scope->bindings);
    }
    scope->bindings[scope->n++] = (struct jinja_binding){name, value};
}

struct jinja_value jinja_scope_get(struct jinja *j, const struct jinja_text *name)
{
    for (const struct jinja_scope *scope = j->scope; scope; scope = scope->parent) {
        jinja_charge(j, scope->n * 16);
        const struct jinja_binding *binding = find(scope, name);
        if (binding)
            return binding->value;
    }
    if (jinja_text_is(name, "self")) /* Jinja's way to a template's blocks */
        jinja_raise(j, KT_E_UNSUPPORTED, "'self', the template, is not supported");
    const struct jinja_value *value = jinja_dict_get(j, j->variables, jinja_text(name));
    if (value)
        return *value;
    const struct jinja_builtin *function = jinja_find_function(name->bytes, name->length);
    if (function)
        return (struct jinja_value){.kind = JINJA_FUNCTION, .function = function};
    return jinja_undefined(j, name, NULL);
}
