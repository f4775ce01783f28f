/* SPDX-License-Identifier: Apache-2.0 */
/* parser.c - tokens and nodes. */
#include "tools/engine/text/template/parser.h"

#include "tools/engine/text/template/template.h"
#include "tools/engine/text/template/text.h"

#include <string.h>

enum {
    NESTING = 60, /* of brackets and statements: a level takes a dozen calls of C functions */
    TREE = 200
};

void jinja_parse_fail(struct jinja_parser *p, const char *expected)
{
    const struct jinja_token *token = p->token;
    p->j->at = token->at;
    if (token->type == JINJA_TOKEN_END)
        jinja_raise(p->j, KT_E_FORMAT, "unexpected end of template, expected %s", expected);
    int length = token->length > 60 ? 60 : (int)token->length;
    jinja_raise(p->j, KT_E_FORMAT, "unexpected '%.*s', expected %s", length, p->source + token->at, expected);
}

void jinja_parse_enter(struct jinja_parser *p)
{
    p->j->at = p->token->at;
    if (++p->depth > NESTING)
        jinja_raise(p->j, KT_E_FORMAT, "nested more than %d levels deep", NESTING);
}

bool jinja_is_name(const struct jinja_parser *p, const struct jinja_token *token, const char *name)
{
    return token->type == JINJA_TOKEN_NAME && token->length == strlen(name) &&
           memcmp(p->source + token->at, name, token->length) == 0;
}

bool jinja_skip_name(struct jinja_parser *p, const char *name)
{
    bool found = jinja_is_name(p, p->token, name);
    p->token += found;
    return found;
}

bool jinja_skip(struct jinja_parser *p, uint32_t type)
{
    bool found = p->token->type == type;
    p->token += found && type != JINJA_TOKEN_END;
    return found;
}

void jinja_expect(struct jinja_parser *p, uint32_t type, const char *what)
{
    if (!jinja_skip(p, type))
        jinja_parse_fail(p, what);
}

struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind, uint32_t at)
{
    struct jinja_node *node = jinja_new(p->j, sizeof *node);
    node->kind = kind;
    node->at = at;
    node->depth = 1;
    return node;
}

static void deepen(struct jinja_node *node, const struct jinja_node *child)
{
    if (child && child->depth >= node->depth)
        node->depth = child->depth + 1;
}

const struct jinja_node *jinja_node_done(struct jinja_parser *p, struct jinja_node *node)
{
    deepen(node, node->a);
    deepen(node, node->b);
    deepen(node, node->c);
    deepen(node, node->d);
    deepen(node, node->body);
    for (uint32_t i = 0; i < node->n_items; i++)
        deepen(node, node->items[i]);
    for (uint32_t i = 0; i < node->n_keys; i++)
        deepen(node, node->keyed[i]);
    p->j->at = node->at;
    if (node->depth > TREE)
        jinja_raise(p->j, KT_E_FORMAT, "nested more than %d levels deep", TREE);
    return node;
}

/* Room doubles at powers of two. */
static bool is_full(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

void jinja_node_add(struct jinja_parser *p, struct jinja_node *node, const struct jinja_node *item)
{
    uint32_t n = node->n_items;
    if (is_full(n))
        node->items =
            jinja_grow(p->j, node->items, n * sizeof *node->items, (n ? 2 * n : 1) * sizeof *node->items);
    node->items[node->n_items++] = item;
}

void jinja_node_add_key(struct jinja_parser *p, struct jinja_node *node, const struct jinja_text *key,
                        const struct jinja_node *value)
{
    uint32_t n = node->n_keys, room = n ? 2 * n : 1;
    if (is_full(n)) {
        node->keys = jinja_grow(p->j, node->keys, n * sizeof *node->keys, room * sizeof *node->keys);
        node->keyed = jinja_grow(p->j, node->keyed, n * sizeof *node->keyed, room * sizeof *node->keyed);
    }
    node->keys[n] = key;
    node->keyed[n] = value;
    node->n_keys++;
}
