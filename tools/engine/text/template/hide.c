/* SPDX-License-Identifier: Apache-2.0 */
/* hide.c - Jinja2 makes variables of Python of a scope's names. One that the scope assigns before it reads it
 * itself, and that no scope around it names, is undefined at first: for loops and macros within the scope,
 * too, even if the template was given a variable of this name. */
#include "tools/engine/text/template/parser.h"

/* A scope whose names are being looked at; what is within it comes afterwards, so that all its names count.
 */
struct frame {
    struct jinja_parser *p;
    struct jinja_node *body;
    struct change *changes; /* of levels, to be undone at its end */
    struct inner *inner, **last_inner;
    uint32_t level;
    uint32_t branches; /* open: what is assigned in one comes from outside otherwise */
};

struct change {
    struct change *next;
    struct jinja_name *name;
    uint32_t level;
};

/* A scope within. */
struct inner {
    struct inner *next;
    const struct jinja_node *node, *body;
};

static void look_into(struct jinja_parser *p, const struct jinja_node *node, const struct jinja_node *body,
                      uint32_t level);

static void set_level(struct frame *frame, struct jinja_name *name)
{
    struct change *change = jinja_alloc(frame->p->j, sizeof *change);
    *change = (struct change){frame->changes, name, name->level};
    frame->changes = change;
    name->level = frame->level;
}

static void load(struct frame *frame, const struct jinja_text *text)
{
    struct jinja_name *name = jinja_find_name(text);
    if (name->level == 0)
        set_level(frame, name);
}

static void store(struct frame *frame, const struct jinja_text *text, bool is_given)
{
    struct jinja_name *name = jinja_find_name(text);
    if (name->level == frame->level)
        return;
    if (name->level == 0 && frame->branches == 0 && !is_given)
        jinja_node_add_key(frame->p, frame->body, text, NULL);
    set_level(frame, name);
}

static void store_target(struct frame *frame, const struct jinja_node *target, bool is_given)
{
    if (target->kind == JINJA_NODE_NAME)
        store(frame, target->name, is_given);
    else if (target->kind == JINJA_NODE_ATTRIBUTE)
        load(frame, target->a->name);
    for (uint32_t i = 0; i < target->n_items; i++)
        store_target(frame, target->items[i], is_given);
}

static void add_inner(struct frame *frame, const struct jinja_node *node, const struct jinja_node *body)
{
    struct inner *inner = jinja_new(frame->p->j, sizeof *inner);
    inner->node = node;
    inner->body = body;
    *frame->last_inner = inner;
    frame->last_inner = &inner->next;
}

static void look_at(struct frame *frame, const struct jinja_node *node);

static void look_at_all(struct frame *frame, const struct jinja_node *node)
{
    look_at(frame, node->a);
    look_at(frame, node->b);
    look_at(frame, node->c);
    look_at(frame, node->d);
    for (uint32_t i = 0; i < node->n_items; i++)
        look_at(frame, node->items[i]);
    for (uint32_t i = 0; i < node->n_keys; i++)
        look_at(frame, node->keyed[i]);
}

static void look_at_if(struct frame *frame, const struct jinja_node *node)
{
    look_at(frame, node->items[0]);
    frame->branches++;
    for (uint32_t i = 1; i < node->n_items; i++)
        look_at(frame, node->items[i]);
    look_at(frame, node->c);
    frame->branches--;
}

static void look_at_with(struct frame *frame, const struct jinja_node *node)
{
    for (uint32_t i = 1; i < node->n_items; i += 2)
        look_at(frame, node->items[i]);
    add_inner(frame, node, node->body);
}

static void look_at(struct frame *frame, const struct jinja_node *node)
{
    if (!node)
        return;
    switch (node->kind) {
    case JINJA_NODE_NAME:
        load(frame, node->name);
        return;
    case JINJA_NODE_IF:
        look_at_if(frame, node);
        return;
    case JINJA_NODE_FOR:
        look_at(frame, node->b);
        add_inner(frame, node, node->body);
        if (node->c)
            add_inner(frame, NULL, node->c);
        return;
    case JINJA_NODE_SET:
        look_at(frame, node->b);
        store_target(frame, node->a, false);
        return;
    case JINJA_NODE_SET_BLOCK:
        store_target(frame, node->a, false);
        add_inner(frame, NULL, node->body);
        return;
    case JINJA_NODE_MACRO:
        store(frame, node->name, false);
        add_inner(frame, node, node->body);
        return;
    case JINJA_NODE_WITH:
        look_at_with(frame, node);
        return;
    case JINJA_NODE_FILTER_BLOCK:
        look_at(frame, node->b);
        add_inner(frame, NULL, node->body);
        return;
    case JINJA_NODE_SCOPE:
        add_inner(frame, NULL, node->body);
        return;
    default:
        look_at_all(frame, node);
    }
}

/* What a loop, a macro or `with` gives its scope. */
static void store_given(struct frame *frame, const struct jinja_node *node)
{
    if (node->kind == JINJA_NODE_FOR)
        store_target(frame, node->a, true);
    for (uint32_t i = 0; i < node->n_items; i += 2)
        store_target(frame, node->items[i], true);
    for (uint32_t i = 0; i < node->n_keys; i++)
        store(frame, node->keys[i], true);
    for (uint32_t i = 0; i < node->n_keys; i++)
        look_at(frame, node->keyed[i]);
}

static void look_into(struct jinja_parser *p, const struct jinja_node *node, const struct jinja_node *body,
                      uint32_t level)
{
    struct frame frame = {.p = p, .body = (struct jinja_node *)(uintptr_t)body, .level = level};
    frame.last_inner = &frame.inner;
    if (node)
        store_given(&frame, node);
    look_at_all(&frame, body);
    for (const struct inner *inner = frame.inner; inner; inner = inner->next)
        look_into(p, inner->node, inner->body, level + 1);
    for (; frame.changes; frame.changes = frame.changes->next)
        frame.changes->name->level = frame.changes->level;
}

void jinja_hide(struct jinja_parser *p, const struct jinja_node *root)
{
    look_into(p, NULL, root, 1);
}
