/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h - names and their values: a scope for the template, each macro's call, each iteration of a loop. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_SCOPE_H
#define KT_ENGINE_TEXT_TEMPLATE_SCOPE_H

#include "tools/engine/text/template/node.h"

struct jinja_binding {
    const struct jinja_text *name;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_binding *bindings;
    uint32_t n;
    uint32_t room;
};

struct jinja_scope *jinja_scope_new(struct jinja *j, struct jinja_scope *parent);
void jinja_scope_set(struct jinja *j, struct jinja_scope *scope, const struct jinja_text *name,
                     struct jinja_value value);
/** Of the scopes, then of the variables, then the environment's; undefined. */
struct jinja_value jinja_scope_get(struct jinja *j, const struct jinja_text *name);

/** What a block of the tree writes, with a scope of its own around it. */
const struct jinja_text *jinja_capture(struct jinja *j, const struct jinja_node *body,
                                       struct jinja_scope *scope);

#endif
