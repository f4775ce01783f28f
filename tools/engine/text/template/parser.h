/* SPDX-License-Identifier: Apache-2.0 */
/* parser.h - what the parsers of expressions and of statements share. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_PARSER_H
#define KT_ENGINE_TEXT_TEMPLATE_PARSER_H

#include "tools/engine/text/template/lexer.h"
#include "tools/engine/text/template/node.h"

/** A name of the template. */
struct jinja_name {
    struct jinja_text text; /* first, so that the name is found by its text */
    struct jinja_name *next;
    uint32_t hash;
    uint32_t level; /* of the innermost open scope that names it, from 1; 0: none does (hide.c) */
};

/** By hash; a power of two of chains. */
struct jinja_names {
    struct jinja_name **chains;
    uint32_t n_chains;
    uint32_t n;
};

struct jinja_parser {
    struct jinja *j;
    const char *source;
    const struct jinja_token *token; /* the current one */
    uint32_t depth;
    uint32_t soft; /* within `if`: a filter that nobody knows is an error when it is used */
    uint32_t loops;
    bool sees_varargs; /* in the macro */
    bool sees_kwargs;
    bool sees_caller;
    struct jinja_names names;
};

_Noreturn void jinja_parse_fail(struct jinja_parser *p, const char *expected);
/** Around whatever calls itself. */
void jinja_parse_enter(struct jinja_parser *p);
bool jinja_is_name(const struct jinja_parser *p, const struct jinja_token *token, const char *name);
bool jinja_skip_name(struct jinja_parser *p, const char *name);
bool jinja_skip(struct jinja_parser *p, uint32_t type);
void jinja_expect(struct jinja_parser *p, uint32_t type, const char *what);
/** Of the text of a name that was taken. */
struct jinja_name *jinja_find_name(const struct jinja_text *text);
/** The current token, a name, as the one text that all names of its kind share. */
const struct jinja_text *jinja_take_name(struct jinja_parser *p);

struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind, uint32_t at);
/** The depth of a node whose children are set. */
const struct jinja_node *jinja_node_done(struct jinja_parser *p, struct jinja_node *node);
void jinja_node_add(struct jinja_parser *p, struct jinja_node *node, const struct jinja_node *item);
void jinja_node_add_key(struct jinja_parser *p, struct jinja_node *node, const struct jinja_text *key,
                        const struct jinja_node *value);

const struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool with_choice);
/** Of items with commas: a tuple, else the one item. */
const struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool with_choice, bool in_brackets);
/** Filters behind `node`, which may be NULL. `begun`: the first | was read. */
const struct jinja_node *jinja_parse_filters(struct jinja_parser *p, const struct jinja_node *node,
                                             bool begun);
const struct jinja_node *jinja_parse_primary(struct jinja_parser *p);
const struct jinja_node *jinja_parse_postfix(struct jinja_parser *p, const struct jinja_node *node);
const struct jinja_node *jinja_parse_unary(struct jinja_parser *p, bool with_filter);
/** Finds the names that are undefined where their scopes begin, though the variables have them. */
void jinja_hide(struct jinja_parser *p, const struct jinja_node *root);
/** A string of the source, with its escapes read. */
const struct jinja_text *jinja_parse_string(struct jinja_parser *p, const struct jinja_token *token);

#endif
