/* SPDX-License-Identifier: Apache-2.0 */
/* parse_statement.c - {% .. %} and the text between. */
#include "tools/engine/text/template/parser.h"

#include "tools/engine/text/template/template.h"
#include "tools/engine/text/template/text.h"

#include <string.h>

static const struct jinja_node *parse_block(struct jinja_parser *p, const char *end, const char *other,
                                            const char *third);

static void end_block(struct jinja_parser *p)
{
    jinja_expect(p, JINJA_TOKEN_BLOCK_END, "the end of the tag");
}

/* The block up to {% end %}, whose name is read. */
static const struct jinja_node *parse_body(struct jinja_parser *p, const char *end)
{
    (void)jinja_skip(p, ':');
    end_block(p);
    const struct jinja_node *body = parse_block(p, end, NULL, NULL);
    p->token++;
    return body;
}

static const struct jinja_node *parse_if(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_IF, at);
    p->soft++;
    for (;;) {
        jinja_node_add(p, node, jinja_parse_tuple(p, false, false));
        (void)jinja_skip(p, ':');
        end_block(p);
        jinja_node_add(p, node, parse_block(p, "endif", "elif", "else"));
        if (jinja_skip_name(p, "elif"))
            continue;
        if (jinja_skip_name(p, "else")) {
            node->c = parse_body(p, "endif");
            break;
        }
        p->token++;
        break;
    }
    p->soft--;
    return jinja_node_done(p, node);
}

/* A name, or with `deep` ns.name; not a constant. */
static const struct jinja_node *parse_target_name(struct jinja_parser *p, bool deep)
{
    uint32_t at = p->token->at;
    if (p->token->type == '(' && deep) {
        p->token++;
        struct jinja_node *tuple = jinja_node_new(p, JINJA_NODE_TUPLE, at);
        bool has_comma = false;
        for (bool goes_on = true; goes_on; has_comma |= goes_on) {
            jinja_parse_enter(p);
            if (p->token->type != ')')
                jinja_node_add(p, tuple, parse_target_name(p, true));
            p->depth--;
            goes_on = jinja_skip(p, ',');
        }
        jinja_expect(p, ')', "')'");
        return tuple->n_items == 1 && !has_comma ? tuple->items[0] : jinja_node_done(p, tuple);
    }
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_is_name(p, p->token, constants[i]))
            jinja_parse_fail(p, "a name that can be assigned to");
    struct jinja_node *name = jinja_node_new(p, JINJA_NODE_NAME, at);
    name->name = jinja_take_name(p);
    if (!deep || p->token->type != '.')
        return name;
    p->token++;
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_ATTRIBUTE, at);
    node->a = name;
    node->name = jinja_take_name(p);
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_target(struct jinja_parser *p)
{
    const struct jinja_node *first = parse_target_name(p, true);
    if (p->token->type != ',')
        return first;
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_TUPLE, first->at);
    jinja_node_add(p, node, first);
    while (jinja_skip(p, ',')) {
        if (p->token->type == '=' || jinja_is_name(p, p->token, "in"))
            break;
        jinja_node_add(p, node, parse_target_name(p, true));
    }
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_for(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_FOR, at);
    node->a = parse_target(p);
    if (!jinja_skip_name(p, "in"))
        jinja_parse_fail(p, "'in'");
    node->b = jinja_parse_tuple(p, false, false);
    if (jinja_skip_name(p, "if"))
        node->d = jinja_parse_expression(p, true);
    if (jinja_is_name(p, p->token, "recursive")) {
        p->j->at = p->token->at;
        jinja_raise(p->j, KT_E_UNSUPPORTED, "recursive loops are not supported");
    }
    (void)jinja_skip(p, ':');
    end_block(p);
    p->loops++;
    node->body = parse_block(p, "endfor", "else", NULL);
    p->loops--;
    if (jinja_skip_name(p, "else"))
        node->c = parse_body(p, "endfor");
    else
        p->token++;
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_set(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_SET, at);
    node->a = parse_target(p);
    if (jinja_skip(p, '=')) {
        node->b = jinja_parse_tuple(p, true, false);
    } else {
        node->kind = JINJA_NODE_SET_BLOCK;
        if (p->token->type == '|')
            node->b = jinja_parse_filters(p, NULL, false);
        node->body = parse_body(p, "endset");
    }
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_macro(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_MACRO, at);
    node->name = parse_target_name(p, false)->name;
    bool varargs = p->sees_varargs, kwargs = p->sees_kwargs, caller = p->sees_caller;
    uint32_t loops = p->loops;
    p->sees_varargs = p->sees_kwargs = p->sees_caller = false;
    p->loops = 0;
    jinja_expect(p, '(', "'('");
    bool has_default = false;
    while (!jinja_skip(p, ')')) {
        if (node->n_keys)
            jinja_expect(p, ',', "','");
        const struct jinja_text *name = parse_target_name(p, false)->name;
        const struct jinja_node *value = NULL;
        if (jinja_skip(p, '='))
            value = jinja_parse_expression(p, true);
        else if (has_default)
            jinja_parse_fail(p, "a default, as an argument before has one");
        has_default = has_default || value;
        jinja_node_add_key(p, node, name, value);
    }
    node->body = parse_body(p, "endmacro");
    node->catches_varargs = p->sees_varargs;
    node->catches_kwargs = p->sees_kwargs;
    node->calls_caller = p->sees_caller;
    p->sees_caller = caller;
    p->sees_varargs = varargs;
    p->sees_kwargs = kwargs;
    p->loops = loops;
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_with(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_WITH, at);
    while (p->token->type != JINJA_TOKEN_BLOCK_END) {
        if (node->n_items)
            jinja_expect(p, ',', "','");
        jinja_node_add(p, node, parse_target_name(p, false));
        jinja_expect(p, '=', "'='");
        jinja_node_add(p, node, jinja_parse_expression(p, true));
    }
    node->body = parse_body(p, "endwith");
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_print(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_PRINT, at);
    node->a = jinja_parse_tuple(p, true, false);
    return jinja_node_done(p, node);
}

/* {% print a, b %} */
static const struct jinja_node *parse_prints(struct jinja_parser *p, uint32_t at)
{
    struct jinja_node *block = jinja_node_new(p, JINJA_NODE_BLOCK, at);
    do {
        struct jinja_node *node = jinja_node_new(p, JINJA_NODE_PRINT, p->token->at);
        node->a = jinja_parse_expression(p, true);
        jinja_node_add(p, block, jinja_node_done(p, node));
    } while (jinja_skip(p, ','));
    return jinja_node_done(p, block);
}

static const struct jinja_node *parse_jump(struct jinja_parser *p, uint32_t at, bool is_break)
{
    p->j->at = at;
    if (p->loops == 0)
        jinja_raise(p->j, KT_E_FORMAT, "'%s' outside of a loop", is_break ? "break" : "continue");
    return jinja_node_new(p, is_break ? JINJA_NODE_BREAK : JINJA_NODE_CONTINUE, at);
}

/* A statement whose "{%" is read; its "%}" is what comes next afterwards. */
static const struct jinja_node *parse_statement(struct jinja_parser *p)
{
    uint32_t at = p->token->at;
    if (jinja_skip_name(p, "if"))
        return parse_if(p, at);
    if (jinja_skip_name(p, "for"))
        return parse_for(p, at);
    if (jinja_skip_name(p, "set"))
        return parse_set(p, at);
    if (jinja_skip_name(p, "macro"))
        return parse_macro(p, at);
    if (jinja_skip_name(p, "with"))
        return parse_with(p, at);
    if (jinja_skip_name(p, "print"))
        return parse_prints(p, at);
    if (jinja_is_name(p, p->token, "break") || jinja_is_name(p, p->token, "continue"))
        return parse_jump(p, at, jinja_is_name(p, p->token++, "break"));
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_SCOPE, at);
    if (jinja_skip_name(p, "generation")) {
        node->body = parse_body(p, "endgeneration");
        return jinja_node_done(p, node);
    }
    if (jinja_skip_name(p, "filter")) {
        node->kind = JINJA_NODE_FILTER_BLOCK;
        node->b = jinja_parse_filters(p, NULL, true);
        node->body = parse_body(p, "endfilter");
        return jinja_node_done(p, node);
    }
    static const char *const others[] = {"import", "from",       "include", "extends", "block",
                                         "call",   "autoescape", "do",      "trans"};
    p->j->at = at;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (jinja_is_name(p, p->token, others[i]))
            jinja_raise(p->j, KT_E_UNSUPPORTED, "{%% %s %%} is not supported", others[i]);
    jinja_parse_fail(p, "a statement");
}

static bool ends_block(const struct jinja_parser *p, const char *end, const char *other, const char *third)
{
    return (end && jinja_is_name(p, p->token, end)) || (other && jinja_is_name(p, p->token, other)) ||
           (third && jinja_is_name(p, p->token, third));
}

/* Up to one of three names, which is the current token afterwards; without `end` up to the template's end. */
static const struct jinja_node *parse_block(struct jinja_parser *p, const char *end, const char *other,
                                            const char *third)
{
    struct jinja_node *block = jinja_node_new(p, JINJA_NODE_BLOCK, p->token->at);
    jinja_parse_enter(p);
    for (;;) {
        uint32_t at = p->token->at;
        if (p->token->type == JINJA_TOKEN_END) {
            if (end)
                jinja_parse_fail(p, end);
            break;
        }
        if (p->token->type == JINJA_TOKEN_DATA) {
            struct jinja_node *text = jinja_node_new(p, JINJA_NODE_TEXT, at);
            text->value = jinja_text(jinja_text_of(p->j, p->source + at, p->token->length, false));
            jinja_node_add(p, block, text);
            p->token++;
        } else if (jinja_skip(p, JINJA_TOKEN_PRINT_BEGIN)) {
            jinja_node_add(p, block, parse_print(p, at));
            jinja_expect(p, JINJA_TOKEN_PRINT_END, "'}}'");
        } else {
            jinja_expect(p, JINJA_TOKEN_BLOCK_BEGIN, "'{%'");
            if (ends_block(p, end, other, third))
                break;
            jinja_node_add(p, block, parse_statement(p));
            end_block(p);
        }
    }
    p->depth--;
    return jinja_node_done(p, block);
}

const struct jinja_node *jinja_parse(struct jinja *j)
{
    struct jinja_parser *p = jinja_new(j, sizeof *p);
    p->j = j;
    p->source = j->chat->source;
    p->token = jinja_lex(j)->list;
    const struct jinja_node *root = parse_block(p, NULL, NULL, NULL);
    jinja_hide(p, root);
    return root;
}
