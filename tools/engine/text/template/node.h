/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - the tree of a template. It is written once and read by any number of renderings. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_NODE_H
#define KT_ENGINE_TEXT_TEMPLATE_NODE_H

#include "tools/engine/text/template/value.h"

enum jinja_node_kind {
    /* expressions */
    JINJA_NODE_CONST,     /* value */
    JINJA_NODE_NAME,      /* name */
    JINJA_NODE_LIST,      /* items */
    JINJA_NODE_TUPLE,     /* items */
    JINJA_NODE_DICT,      /* items: key, value .. */
    JINJA_NODE_CHAIN,     /* items with operators between them, from left to right: + - or * / // % or ** */
    JINJA_NODE_CONCAT,    /* items */
    JINJA_NODE_AND,       /* items */
    JINJA_NODE_OR,        /* items */
    JINJA_NODE_COMPARE,   /* items with operators: a < b < c */
    JINJA_NODE_NOT,       /* a */
    JINJA_NODE_MINUS,     /* a */
    JINJA_NODE_PLUS,      /* a */
    JINJA_NODE_CHOICE,    /* a if b else c, which may be NULL */
    JINJA_NODE_ATTRIBUTE, /* a.name */
    JINJA_NODE_ITEM,      /* a[b] */
    JINJA_NODE_SLICE,     /* a[b:c:d], each of which may be NULL */
    JINJA_NODE_CALL,      /* a(items, keys = keyed) */
    JINJA_NODE_FILTER,    /* a|name(..); a is NULL in blocks */
    JINJA_NODE_TEST,      /* a is name(..) */
    /* statements */
    JINJA_NODE_TEXT,         /* value */
    JINJA_NODE_PRINT,        /* a */
    JINJA_NODE_BLOCK,        /* items; keys are undefined at its begin */
    JINJA_NODE_IF,           /* items: test, block ..; c is the block of else */
    JINJA_NODE_FOR,          /* for a in b if d: body, else c */
    JINJA_NODE_SET,          /* a = b */
    JINJA_NODE_SET_BLOCK,    /* a, filters b or NULL, body */
    JINJA_NODE_MACRO,        /* name, keys are the arguments, keyed their defaults or NULL, body */
    JINJA_NODE_WITH,         /* items: target, value ..; body */
    JINJA_NODE_FILTER_BLOCK, /* filters b, body */
    JINJA_NODE_SCOPE,        /* body */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE
};

enum { JINJA_OP_IN = 1, JINJA_OP_NOT_IN = 2 }; /* the other operators are their tokens */

struct jinja_node {
    enum jinja_node_kind kind;
    uint32_t at;
    uint32_t depth; /* of the tree below */
    uint32_t n_items;
    uint32_t n_keys;
    bool catches_varargs; /* of macros */
    bool catches_kwargs;
    bool calls_caller;
    const struct jinja_node *a, *b, *c, *d;
    const struct jinja_node *body;
    const struct jinja_node **items;
    const uint16_t *operators;     /* [n_items - 1] */
    const struct jinja_text *name; /* of names: one for all that are equal */
    const struct jinja_text **keys;
    const struct jinja_node **keyed;
    const struct jinja_builtin *builtin; /* of filters and tests */
    struct jinja_value value;
};

/** Parses j->chat->source. */
const struct jinja_node *jinja_parse(struct jinja *j);

#endif
