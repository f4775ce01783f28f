/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c - statements. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/scope.h"
#include "tools/engine/text/template/template.h"
#include "tools/engine/text/template/write.h"

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum flow execute(struct jinja *j, const struct jinja_node *node);

static void assign(struct jinja *j, const struct jinja_node *target, struct jinja_value value)
{
    j->at = target->at;
    if (target->kind == JINJA_NODE_NAME) {
        jinja_scope_set(j, j->scope, target->name, value);
        return;
    }
    if (target->kind == JINJA_NODE_ATTRIBUTE) {
        struct jinja_value space = jinja_scope_get(j, target->a->name);
        if (space.kind != JINJA_NAMESPACE)
            jinja_raise(j, KT_E_UNSUPPORTED, "cannot assign attribute on non-namespace object");
        jinja_dict_set(j, space.dict, jinja_text(target->name), value);
        return;
    }
    if (value.kind == JINJA_UNDEFINED && target->n_items)
        jinja_raise(j, KT_E_UNSUPPORTED, "not enough values to unpack (expected %u, got 0)", target->n_items);
    const struct jinja_list *list = jinja_iterate(j, value);
    if (list->n != target->n_items)
        jinja_raise(j, KT_E_UNSUPPORTED, "%s values to unpack (expected %u, got %llu)",
                    list->n < target->n_items ? "not enough" : "too many", target->n_items,
                    (unsigned long long)list->n);
    for (uint32_t i = 0; i < target->n_items; i++)
        assign(j, target->items[i], list->items[i]);
}

/* With a scope of its own, into the output. */
static enum flow execute_inside(struct jinja *j, const struct jinja_node *body)
{
    struct jinja_scope *outer = j->scope;
    j->scope = jinja_scope_new(j, outer);
    enum flow flow = execute(j, body);
    j->scope = outer;
    return flow;
}

const struct jinja_text *jinja_capture(struct jinja *j, const struct jinja_node *body,
                                       struct jinja_scope *scope)
{
    struct jinja_scope *outer = j->scope;
    struct jinja_buffer *out = j->out;
    j->scope = scope;
    j->out = jinja_buffer_new(j);
    (void)execute(j, body);
    const struct jinja_text *text = jinja_buffer_text(j, j->out);
    j->out = out;
    j->scope = outer;
    return text;
}

/* Filters of a block, whose first one has no operand. */
static struct jinja_value filter_block(struct jinja *j, const struct jinja_node *filters,
                                       const struct jinja_text *text)
{
    jinja_enter(j);
    struct jinja_node node = *filters,
                      value = {.kind = JINJA_NODE_CONST, .value = jinja_text(text), .at = filters->at};
    if (filters->a)
        value.value = filter_block(j, filters->a, text);
    node.a = &value;
    struct jinja_value result = jinja_evaluate(j, &node);
    jinja_leave(j);
    return result;
}

static enum flow execute_if(struct jinja *j, const struct jinja_node *node)
{
    for (uint32_t i = 0; i < node->n_items; i += 2)
        if (jinja_truth(jinja_evaluate(j, node->items[i])))
            return execute(j, node->items[i + 1]);
    return node->c ? execute(j, node->c) : FLOW_ON;
}

/* Behind a condition, Jinja2 has made tuples of what was unpacked. */
static struct jinja_value repack(struct jinja *j, const struct jinja_node *target, struct jinja_value item)
{
    if (target->kind != JINJA_NODE_TUPLE)
        return item;
    const struct jinja_list *list = jinja_iterate(j, item);
    struct jinja_list *tuple = jinja_list_new(j, JINJA_IS_TUPLE, list->n);
    for (uint64_t i = 0; i < list->n; i++)
        jinja_list_add(j, tuple, list->items[i]);
    return jinja_list(tuple);
}

/* The items that the loop's own condition lets through. */
static struct jinja_list *choose(struct jinja *j, const struct jinja_node *node, struct jinja_list *all)
{
    struct jinja_scope *outer = j->scope;
    struct jinja_list *chosen = jinja_list_new(j, JINJA_IS_LIST, 0);
    for (uint64_t i = 0; i < all->n; i++) {
        jinja_charge(j, 0);
        j->scope = jinja_scope_new(j, outer);
        assign(j, node->a, all->items[i]);
        if (jinja_truth(jinja_evaluate(j, node->d)))
            jinja_list_add(j, chosen, repack(j, node->a, all->items[i]));
    }
    j->scope = outer;
    return chosen;
}

static enum flow execute_for(struct jinja *j, const struct jinja_node *node)
{
    static const struct jinja_text loop_name = {.bytes = "loop", .length = 4, .n_chars = 4};
    struct jinja_value over = jinja_evaluate(j, node->b);
    struct jinja_scope *outer = j->scope;
    j->at = node->b->at;
    struct jinja_list *list = jinja_iterate(j, over);
    if (node->d)
        list = choose(j, node, list);
    struct jinja_loop *loop = jinja_new(j, sizeof *loop);
    bool completed = false; /* Jinja2's `else` is for loops of which no round came to its end */
    loop->list = list;
    for (; loop->index < list->n; loop->index++) {
        jinja_charge(j, 0);
        j->scope = jinja_scope_new(j, outer);
        jinja_scope_set(j, j->scope, &loop_name, (struct jinja_value){.kind = JINJA_LOOP, .loop = loop});
        assign(j, node->a, list->items[loop->index]);
        enum flow flow = execute(j, node->body);
        completed = completed || flow == FLOW_ON;
        if (flow == FLOW_BREAK)
            break;
    }
    j->scope = outer;
    if (node->c && !completed)
        return execute_inside(j, node->c);
    return FLOW_ON;
}

/* What a block with a scope of its own becomes by its filters, which see what it has assigned. */
static struct jinja_value capture_filtered(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_scope *outer = j->scope, *inner = jinja_scope_new(j, outer);
    struct jinja_value value = jinja_text(jinja_capture(j, node->body, inner));
    j->scope = inner;
    if (node->b)
        value = filter_block(j, node->b, value.text);
    j->scope = outer;
    return value;
}

static enum flow execute_with(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_scope *outer = j->scope, *inner = jinja_scope_new(j, outer);
    for (uint32_t i = 0; i < node->n_items; i += 2) {
        struct jinja_value value = jinja_evaluate(j, node->items[i + 1]);
        j->scope = inner;
        assign(j, node->items[i], value);
        j->scope = outer;
    }
    j->scope = inner;
    enum flow flow = execute(j, node->body);
    j->scope = outer;
    return flow;
}

static enum flow execute_block(struct jinja *j, const struct jinja_node *node)
{
    for (uint32_t i = 0; i < node->n_keys; i++)
        jinja_scope_set(j, j->scope, node->keys[i], jinja_undefined(j, node->keys[i], NULL));
    for (uint32_t i = 0; i < node->n_items; i++) {
        enum flow flow = execute(j, node->items[i]);
        if (flow != FLOW_ON)
            return flow;
    }
    return FLOW_ON;
}

static void define_macro(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_macro *macro = jinja_alloc(j, sizeof *macro);
    *macro = (struct jinja_macro){node, j->scope};
    jinja_scope_set(j, j->scope, node->name, (struct jinja_value){.kind = JINJA_MACRO, .macro = macro});
}

static enum flow execute_inner(struct jinja *j, const struct jinja_node *node)
{
    switch (node->kind) {
    case JINJA_NODE_PRINT:
        jinja_write(j, j->out, jinja_evaluate(j, node->a));
        return FLOW_ON;
    case JINJA_NODE_BLOCK:
        return execute_block(j, node);
    case JINJA_NODE_IF:
        return execute_if(j, node);
    case JINJA_NODE_FOR:
        return execute_for(j, node);
    case JINJA_NODE_SET:
        assign(j, node->a, jinja_evaluate(j, node->b));
        return FLOW_ON;
    case JINJA_NODE_SET_BLOCK:
        assign(j, node->a, capture_filtered(j, node));
        return FLOW_ON;
    case JINJA_NODE_MACRO:
        define_macro(j, node);
        return FLOW_ON;
    case JINJA_NODE_WITH:
        return execute_with(j, node);
    case JINJA_NODE_FILTER_BLOCK:
        jinja_write(j, j->out, capture_filtered(j, node));
        return FLOW_ON;
    case JINJA_NODE_BREAK:
        return FLOW_BREAK;
    case JINJA_NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        return execute_inside(j, node->body);
    }
}

static enum flow execute(struct jinja *j, const struct jinja_node *node)
{
    j->at = node->at;
    if (node->kind == JINJA_NODE_TEXT) {
        jinja_add(j, j->out, node->value.text);
        return FLOW_ON;
    }
    jinja_charge(j, 0);
    jinja_enter(j);
    enum flow flow = execute_inner(j, node);
    jinja_leave(j);
    return flow;
}

const struct jinja_text *jinja_run(struct jinja *j)
{
    return jinja_capture(j, j->chat->root, jinja_scope_new(j, NULL));
}
