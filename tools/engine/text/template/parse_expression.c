/* SPDX-License-Identifier: Apache-2.0 */
/* parse_expression.c - operators, from the ones that bind least to those that bind most, as Jinja2 has them.
 */
#include "tools/engine/text/template/parser.h"

typedef const struct jinja_node *parse_fn(struct jinja_parser *p);

static parse_fn parse_or, parse_and, parse_not, parse_compare, parse_sum, parse_concat, parse_product,
    parse_power;

const struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool with_choice)
{
    jinja_parse_enter(p);
    const struct jinja_node *node = parse_or(p);
    while (with_choice && jinja_is_name(p, p->token, "if")) {
        struct jinja_node *choice = jinja_node_new(p, JINJA_NODE_CHOICE, p->token->at);
        p->token++;
        p->soft++;
        choice->a = node;
        choice->b = parse_or(p);
        if (jinja_skip_name(p, "else"))
            choice->c = jinja_parse_expression(p, true);
        p->soft--;
        node = jinja_node_done(p, choice);
    }
    p->depth--;
    return node;
}

/* a NAME b NAME c .. */
static const struct jinja_node *parse_words(struct jinja_parser *p, const char *name,
                                            enum jinja_node_kind kind, parse_fn *next)
{
    const struct jinja_node *first = next(p);
    if (!jinja_is_name(p, p->token, name))
        return first;
    struct jinja_node *node = jinja_node_new(p, kind, p->token->at);
    jinja_node_add(p, node, first);
    while (jinja_skip_name(p, name))
        jinja_node_add(p, node, next(p));
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_or(struct jinja_parser *p)
{
    return parse_words(p, "or", JINJA_NODE_OR, parse_and);
}

static const struct jinja_node *parse_and(struct jinja_parser *p)
{
    return parse_words(p, "and", JINJA_NODE_AND, parse_not);
}

static const struct jinja_node *parse_not(struct jinja_parser *p)
{
    if (!jinja_is_name(p, p->token, "not"))
        return parse_compare(p);
    jinja_parse_enter(p);
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_NOT, p->token->at);
    p->token++;
    node->a = parse_not(p);
    p->depth--;
    return jinja_node_done(p, node);
}

static void add_operator(struct jinja_parser *p, struct jinja_node *node, uint32_t operator,
                         const struct jinja_node * item)
{
    uint32_t n = node->n_items - 1;
    if ((n & (n - 1)) == 0)
        node->operators = jinja_grow(p->j, node->operators, n * sizeof *node->operators,
                                     (n ? 2 * n : 1) * sizeof *node->operators);
    ((uint16_t *)(uintptr_t)node->operators)[n] = (uint16_t) operator;
    jinja_node_add(p, node, item);
}

/* The operator of a comparison, read; 0: there is none. */
static uint32_t take_comparison(struct jinja_parser *p)
{
    uint32_t type = p->token->type;
    if (type == '<' || type == '>' || (type >= JINJA_TOKEN_EQUAL && type <= JINJA_TOKEN_NOT_MORE)) {
        p->token++;
        return type;
    }
    if (jinja_skip_name(p, "in"))
        return JINJA_OP_IN;
    if (jinja_is_name(p, p->token, "not") && jinja_is_name(p, p->token + 1, "in")) {
        p->token += 2;
        return JINJA_OP_NOT_IN;
    }
    return 0;
}

static const struct jinja_node *parse_compare(struct jinja_parser *p)
{
    uint32_t at = p->token->at;
    const struct jinja_node *first = parse_sum(p);
    struct jinja_node *node = NULL;
    for (uint32_t operator; (operator= take_comparison(p)) != 0;) {
        if (!node) {
            node = jinja_node_new(p, JINJA_NODE_COMPARE, at);
            jinja_node_add(p, node, first);
        }
        add_operator(p, node, operator, parse_sum(p));
    }
    return node ? jinja_node_done(p, node) : first;
}

/* Operators of one strength, from left to right. */
static const struct jinja_node *parse_chain(struct jinja_parser *p, const uint32_t operators[4],
                                            parse_fn *next)
{
    const struct jinja_node *first = next(p);
    struct jinja_node *node = NULL;
    for (;;) {
        uint32_t type = p->token->type, at = p->token->at;
        bool known = false;
        for (int i = 0; i < 4; i++)
            known = known || (operators[i] && operators[i] == type);
        if (!known)
            return node ? jinja_node_done(p, node) : first;
        if (!node) {
            node = jinja_node_new(p, JINJA_NODE_CHAIN, at);
            jinja_node_add(p, node, first);
        }
        p->token++;
        add_operator(p, node, type, next(p));
    }
}

static const struct jinja_node *parse_sum(struct jinja_parser *p)
{
    return parse_chain(p, (const uint32_t[4]){'+', '-'}, parse_concat);
}

static const struct jinja_node *parse_concat(struct jinja_parser *p)
{
    const struct jinja_node *first = parse_product(p);
    if (p->token->type != '~')
        return first;
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_CONCAT, p->token->at);
    jinja_node_add(p, node, first);
    while (jinja_skip(p, '~'))
        jinja_node_add(p, node, parse_product(p));
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_product(struct jinja_parser *p)
{
    return parse_chain(p, (const uint32_t[4]){'*', '/', JINJA_TOKEN_FLOOR, '%'}, parse_power);
}

static const struct jinja_node *parse_operand(struct jinja_parser *p)
{
    return jinja_parse_unary(p, true);
}

static const struct jinja_node *parse_power(struct jinja_parser *p)
{
    return parse_chain(p, (const uint32_t[4]){JINJA_TOKEN_POWER}, parse_operand);
}

/* What may end a tuple without brackets. */
static bool ends_tuple(const struct jinja_parser *p)
{
    uint32_t type = p->token->type;
    return type == JINJA_TOKEN_PRINT_END || type == JINJA_TOKEN_BLOCK_END || type == ')' ||
           type == JINJA_TOKEN_END || jinja_is_name(p, p->token, "recursive");
}

const struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool with_choice, bool in_brackets)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_TUPLE, p->token->at);
    bool comma = false;
    while (!ends_tuple(p)) {
        jinja_node_add(p, node, jinja_parse_expression(p, with_choice));
        comma = jinja_skip(p, ',');
        if (!comma)
            break;
    }
    if (node->n_items == 1 && !comma)
        return node->items[0];
    if (node->n_items == 0 && !in_brackets)
        jinja_parse_fail(p, "an expression");
    return jinja_node_done(p, node);
}
