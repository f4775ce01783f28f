/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - expressions. */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/lexer.h"
#include "tools/engine/text/template/scope.h"
#include "tools/engine/text/template/write.h"

static struct jinja_value evaluate_list(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_list *list =
        jinja_list_new(j, node->kind == JINJA_NODE_LIST ? JINJA_IS_LIST : JINJA_IS_TUPLE, node->n_items);
    for (uint32_t i = 0; i < node->n_items; i++)
        jinja_list_add(j, list, jinja_evaluate(j, node->items[i]));
    return jinja_list(list);
}

static struct jinja_value evaluate_dict(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_dict *dict = jinja_dict_new(j);
    for (uint32_t i = 0; i < node->n_items; i += 2) {
        struct jinja_value key = jinja_evaluate(j, node->items[i]);
        jinja_dict_set(j, dict, key, jinja_evaluate(j, node->items[i + 1]));
    }
    return jinja_dict(dict);
}

static struct jinja_value evaluate_chain(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(j, node->items[0]);
    for (uint32_t i = 1; i < node->n_items; i++) {
        struct jinja_value other = jinja_evaluate(j, node->items[i]);
        j->at = node->items[i]->at;
        value = jinja_operate(j, node->operators[i - 1], value, other);
    }
    return value;
}

static struct jinja_value evaluate_concat(struct jinja *j, const struct jinja_node *node)
{
    const struct jinja_text *text = NULL;
    for (uint32_t i = 0; i < node->n_items; i++) {
        const struct jinja_text *next =
            jinja_as_markup(j, jinja_str(j, jinja_evaluate(j, node->items[i])), false);
        text = text ? jinja_join(j, text, next) : next;
    }
    return jinja_text(text);
}

static bool compare(struct jinja *j, uint32_t operator, struct jinja_value a, struct jinja_value b)
{
    int order;
    switch (operator) {
    case JINJA_OP_IN:
        return jinja_contains(j, b, a);
    case JINJA_OP_NOT_IN:
        return !jinja_contains(j, b, a);
    case JINJA_TOKEN_EQUAL:
        return jinja_equal(j, a, b);
    case JINJA_TOKEN_UNEQUAL:
        return !jinja_equal(j, a, b);
    case '<':
        return jinja_compare(j, a, b, "<") == -1;
    case '>':
        return jinja_compare(j, a, b, ">") == 1;
    case JINJA_TOKEN_NOT_LESS:
        order = jinja_compare(j, a, b, ">=");
        return order == 0 || order == 1;
    default:
        order = jinja_compare(j, a, b, "<=");
        return order == 0 || order == -1;
    }
}

static struct jinja_value evaluate_compare(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_value left = jinja_evaluate(j, node->items[0]);
    for (uint32_t i = 1; i < node->n_items; i++) {
        struct jinja_value right = jinja_evaluate(j, node->items[i]);
        j->at = node->at;
        if (!compare(j, node->operators[i - 1], left, right))
            return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

static struct jinja_value evaluate_words(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_value value = jinja_none();
    for (uint32_t i = 0; i < node->n_items; i++) {
        value = jinja_evaluate(j, node->items[i]);
        if (jinja_truth(value) == (node->kind == JINJA_NODE_OR))
            break;
    }
    return value;
}

static struct jinja_value evaluate_sign(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(j, node->a);
    j->at = node->at;
    if (value.kind == JINJA_UNDEFINED)
        jinja_raise_undefined(j, value);
    bool minus = node->kind == JINJA_NODE_MINUS;
    if (value.kind == JINJA_FLOAT)
        return jinja_float(minus ? -value.real : value.real);
    if (!jinja_is_number(value))
        jinja_raise(j, KT_E_UNSUPPORTED, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                    jinja_type(value));
    return minus ? jinja_operate(j, '-', jinja_int(0), value) : jinja_int(jinja_number(value));
}

static struct jinja_value evaluate_choice(struct jinja *j, const struct jinja_node *node)
{
    if (jinja_truth(jinja_evaluate(j, node->b)))
        return jinja_evaluate(j, node->a);
    if (node->c)
        return jinja_evaluate(j, node->c);
    return jinja_undefined_why(
        j, "the inline if-expression evaluated to false and no else section was defined.");
}

static struct jinja_value evaluate_item(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(j, node->a), index[3];
    if (node->kind == JINJA_NODE_ATTRIBUTE) {
        j->at = node->at;
        return jinja_attribute(j, value, node->name);
    }
    const struct jinja_node *const parts[] = {node->b, node->c, node->d};
    for (int i = 0; i < 3; i++)
        index[i] = parts[i] ? jinja_evaluate(j, parts[i]) : jinja_none();
    j->at = node->at;
    if (node->kind == JINJA_NODE_SLICE)
        return jinja_slice_value(j, value, index[0], index[1], index[2]);
    return jinja_item(j, value, index[0]);
}

static struct jinja_value evaluate_call(struct jinja *j, const struct jinja_node *node)
{
    struct jinja_value callee = node->a ? jinja_evaluate(j, node->a) : jinja_none();
    struct jinja_call call = {.self = callee, .n = node->n_items, .n_keys = node->n_keys, .keys = node->keys};
    call.arguments = jinja_alloc(j, (call.n + 1) * sizeof *call.arguments);
    call.keyed = jinja_alloc(j, (call.n_keys + 1) * sizeof *call.keyed);
    for (uint32_t i = 0; i < call.n; i++)
        call.arguments[i] = jinja_evaluate(j, node->items[i]);
    for (uint32_t i = 0; i < call.n_keys; i++)
        call.keyed[i] = jinja_evaluate(j, node->keyed[i]);
    j->at = node->at;
    if (node->kind == JINJA_NODE_CALL)
        return jinja_call_value(j, callee, &call);
    if (!node->builtin)
        jinja_raise(j, KT_E_UNSUPPORTED, "No %s named '%.*s'.",
                    node->kind == JINJA_NODE_TEST ? "test" : "filter",
                    (int)(node->name->length < 200 ? node->name->length : 200), node->name->bytes);
    return jinja_call_builtin(j, node->builtin, &call);
}

static struct jinja_value evaluate_inner(struct jinja *j, const struct jinja_node *node)
{
    switch (node->kind) {
    case JINJA_NODE_LIST:
    case JINJA_NODE_TUPLE:
        return evaluate_list(j, node);
    case JINJA_NODE_DICT:
        return evaluate_dict(j, node);
    case JINJA_NODE_CHAIN:
        return evaluate_chain(j, node);
    case JINJA_NODE_CONCAT:
        return evaluate_concat(j, node);
    case JINJA_NODE_COMPARE:
        return evaluate_compare(j, node);
    case JINJA_NODE_AND:
    case JINJA_NODE_OR:
        return evaluate_words(j, node);
    case JINJA_NODE_NOT:
        return jinja_bool(!jinja_truth(jinja_evaluate(j, node->a)));
    case JINJA_NODE_MINUS:
    case JINJA_NODE_PLUS:
        return evaluate_sign(j, node);
    case JINJA_NODE_CHOICE:
        return evaluate_choice(j, node);
    case JINJA_NODE_ATTRIBUTE:
    case JINJA_NODE_ITEM:
    case JINJA_NODE_SLICE:
        return evaluate_item(j, node);
    default:
        return evaluate_call(j, node);
    }
}

struct jinja_value jinja_evaluate(struct jinja *j, const struct jinja_node *node)
{
    j->at = node->at;
    if (node->kind == JINJA_NODE_CONST)
        return node->value;
    if (node->kind == JINJA_NODE_NAME)
        return jinja_scope_get(j, node->name);
    jinja_charge(j, 0);
    jinja_enter(j);
    struct jinja_value value = evaluate_inner(j, node);
    jinja_leave(j);
    return value;
}
