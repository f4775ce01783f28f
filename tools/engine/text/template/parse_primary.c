/* SPDX-License-Identifier: Apache-2.0 */
/* parse_primary.c - literals, names, and what follows them: .name, [key], (arguments), |filter, is test. */
#include "tools/engine/text/template/parser.h"

#include "tools/engine/text/template/call.h"
#include "tools/engine/text/template/text.h"
#include "tools/engine/text/template/write.h"

#include <string.h>

/* \x41, \u0041, \U00000041, \101: the character, and its end in *at; what is none stays as it is. */
static bool read_code(const char *bytes, uint64_t length, uint64_t *at, uint32_t *character)
{
    char kind = bytes[*at];
    uint64_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    uint64_t i = *at + (digits > 0);
    *character = 0;
    if (digits == 0) {
        for (uint64_t end = i + 3; i < length && i < end && bytes[i] >= '0' && bytes[i] <= '7'; i++)
            *character = *character * 8 + (uint32_t)(bytes[i] - '0');
        bool found = i > *at;
        *at = i;
        return found;
    }
    for (uint64_t end = i + digits; i < end; i++) {
        static const char hex[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = i < length ? memchr(hex, bytes[i], sizeof hex - 1) : NULL;
        if (!digit)
            return false;
        *character = *character * 16 + ((uint32_t)(digit - hex) & 15);
    }
    *at = i;
    return *character < 0x110000 && !(*character >= 0xd800 && *character < 0xe000);
}

const struct jinja_text *jinja_parse_string(struct jinja_parser *p, const struct jinja_token *token)
{
    static const char letters[] = "n\nt\tr\ra\ab\bf\fv\v";
    const char *bytes = p->source + token->at + 1;
    uint64_t length = token->length - 2, done = 0;
    if (!memchr(bytes, '\\', length)) {
        const struct jinja_text *text = jinja_text_of(p->j, bytes, length, false);
        (void)jinja_chars(text);
        return text;
    }
    struct jinja_buffer *out = jinja_buffer_new(p->j);
    for (uint64_t at = 0; at < length;) {
        if (bytes[at] != '\\') {
            at++;
            continue;
        }
        jinja_add_bytes(p->j, out, bytes + done, at - done, false);
        char c = bytes[at + 1];
        const char *letter = NULL;
        for (size_t i = 0; i + 1 < sizeof letters; i += 2)
            letter = letters[i] == c ? letters + i + 1 : letter;
        uint32_t character = 0;
        uint64_t end = at + 1;
        if (letter || c == '\\' || c == '\'' || c == '"') {
            jinja_add_bytes(p->j, out, letter ? letter : &bytes[at + 1], 1, false);
            end = at + 2;
        } else if (c == '\n') {
            end = at + 2;
        } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
            p->j->at = token->at;
            if (!read_code(bytes, length, &end, &character))
                jinja_raise(p->j, KT_E_FORMAT, "an escape in a string that is not a character");
            jinja_add_char(p->j, out, character, false);
        } else {
            jinja_add_bytes(p->j, out, "\\", 1, false);
        }
        at = done = end;
    }
    jinja_add_bytes(p->j, out, bytes + done, length - done, false);
    const struct jinja_text *text = jinja_buffer_text(p->j, out);
    (void)jinja_chars(text);
    /* Renderings share it, so none may write behind it. */
    ((struct jinja_text *)(uintptr_t)text)->owner = NULL;
    return text;
}

static const struct jinja_node *make_const(struct jinja_parser *p, uint32_t at, struct jinja_value value)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_CONST, at);
    node->value = value;
    return node;
}

static const struct jinja_node *parse_strings(struct jinja_parser *p)
{
    uint32_t at = p->token->at;
    const struct jinja_text *text = jinja_parse_string(p, p->token++);
    if (p->token->type != JINJA_TOKEN_STRING)
        return make_const(p, at, jinja_text(text));
    struct jinja_buffer *out = jinja_buffer_new(p->j);
    jinja_add(p->j, out, text);
    while (p->token->type == JINJA_TOKEN_STRING)
        jinja_add(p->j, out, jinja_parse_string(p, p->token++));
    const struct jinja_text *all = jinja_buffer_text(p->j, out);
    (void)jinja_chars(all);
    ((struct jinja_text *)(uintptr_t)all)->owner = NULL;
    return make_const(p, at, jinja_text(all));
}

static const struct jinja_node *parse_number(struct jinja_parser *p)
{
    const struct jinja_token *token = p->token++;
    char digits[256];
    uint64_t n = 0;
    p->j->at = token->at;
    for (uint32_t i = 0; i < token->length; i++) {
        if (p->source[token->at + i] == '_')
            continue;
        if (n + 1 == sizeof digits)
            jinja_raise(p->j, KT_E_UNSUPPORTED, "a number of more than 255 digits");
        digits[n++] = p->source[token->at + i];
    }
    digits[n] = 0;
    if (token->type == JINJA_TOKEN_REAL) {
        double real = 0;
        (void)jinja_read_real(digits, n, &real);
        return make_const(p, token->at, jinja_float(real));
    }
    char prefix = n > 1 ? (char)(digits[1] | 0x20) : 0;
    int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    int64_t number = 0;
    for (uint64_t i = base == 10 ? 0 : 2; i < n; i++) {
        int digit = digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 0x20) - 'a' + 10;
        if (__builtin_mul_overflow(number, base, &number) || __builtin_add_overflow(number, digit, &number))
            jinja_raise(p->j, KT_E_UNSUPPORTED, "the integer %s has more than 64 bits", digits);
    }
    return make_const(p, token->at, jinja_int(number));
}

static const struct jinja_node *parse_list(struct jinja_parser *p)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_LIST, p->token++->at);
    while (p->token->type != ']') {
        if (node->n_items)
            jinja_expect(p, ',', "','");
        if (p->token->type == ']')
            break;
        jinja_node_add(p, node, jinja_parse_expression(p, true));
    }
    p->token++;
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_dict(struct jinja_parser *p)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_DICT, p->token++->at);
    while (p->token->type != '}') {
        if (node->n_items)
            jinja_expect(p, ',', "','");
        if (p->token->type == '}')
            break;
        jinja_node_add(p, node, jinja_parse_expression(p, true));
        jinja_expect(p, ':', "':'");
        jinja_node_add(p, node, jinja_parse_expression(p, true));
    }
    p->token++;
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_name(struct jinja_parser *p)
{
    static const struct {
        const char *name;
        struct jinja_value value;
    } constants[] = {{"true", {.kind = JINJA_BOOL, .truth = true}},
                     {"True", {.kind = JINJA_BOOL, .truth = true}},
                     {"false", {.kind = JINJA_BOOL, .truth = false}},
                     {"False", {.kind = JINJA_BOOL, .truth = false}},
                     {"none", {.kind = JINJA_NONE}},
                     {"None", {.kind = JINJA_NONE}}};
    uint32_t at = p->token->at;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_skip_name(p, constants[i].name))
            return make_const(p, at, constants[i].value);
    p->sees_varargs = p->sees_varargs || jinja_is_name(p, p->token, "varargs");
    p->sees_kwargs = p->sees_kwargs || jinja_is_name(p, p->token, "kwargs");
    p->sees_caller = p->sees_caller || jinja_is_name(p, p->token, "caller");
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_NAME, at);
    node->name = jinja_take_name(p);
    return node;
}

const struct jinja_node *jinja_parse_primary(struct jinja_parser *p)
{
    const struct jinja_node *node;
    switch (p->token->type) {
    case JINJA_TOKEN_NAME:
        return parse_name(p);
    case JINJA_TOKEN_STRING:
        return parse_strings(p);
    case JINJA_TOKEN_INTEGER:
    case JINJA_TOKEN_REAL:
        return parse_number(p);
    case '(':
        p->token++;
        node = jinja_parse_tuple(p, true, true);
        jinja_expect(p, ')', "')'");
        return node;
    case '[':
        return parse_list(p);
    case '{':
        return parse_dict(p);
    default:
        jinja_parse_fail(p, "an expression");
    }
}

/* (a, b, key = c), into `node`. */
static void parse_arguments(struct jinja_parser *p, struct jinja_node *node)
{
    jinja_expect(p, '(', "'('");
    for (bool first = true; !jinja_skip(p, ')'); first = false) {
        if (!first) {
            jinja_expect(p, ',', "','");
            if (jinja_skip(p, ')'))
                return;
        }
        if (p->token->type == '*' || p->token->type == JINJA_TOKEN_POWER) {
            p->j->at = p->token->at;
            jinja_raise(p->j, KT_E_UNSUPPORTED,
                        "arguments from a list or a dict (*name, **name) are not supported");
        }
        if (p->token->type == JINJA_TOKEN_NAME && p->token[1].type == '=') {
            const struct jinja_text *key = jinja_take_name(p);
            p->token++;
            jinja_node_add_key(p, node, key, jinja_parse_expression(p, true));
        } else if (node->n_keys) {
            jinja_parse_fail(p, "an argument with its name");
        } else {
            jinja_node_add(p, node, jinja_parse_expression(p, true));
        }
    }
}

/* One index of [..]: an expression or a slice. */
static const struct jinja_node *parse_index(struct jinja_parser *p, const struct jinja_node *of, uint32_t at)
{
    const struct jinja_node *parts[3] = {NULL};
    int n = 0;
    if (p->token->type == ']') /* an empty tuple */
        parts[0] = jinja_node_done(p, jinja_node_new(p, JINJA_NODE_TUPLE, at));
    else if (p->token->type != ':')
        parts[0] = jinja_parse_expression(p, true);
    bool slice = p->token->type == ':';
    while (n < 2 && jinja_skip(p, ':')) {
        n++;
        if (p->token->type != ':' && p->token->type != ']' && p->token->type != ',')
            parts[n] = jinja_parse_expression(p, true);
    }
    struct jinja_node *node = jinja_node_new(p, slice ? JINJA_NODE_SLICE : JINJA_NODE_ITEM, at);
    node->a = of;
    node->b = parts[0];
    node->c = parts[1];
    node->d = parts[2];
    if (!slice && p->token->type == ',') {
        struct jinja_node *tuple = jinja_node_new(p, JINJA_NODE_TUPLE, at);
        jinja_node_add(p, tuple, parts[0]);
        while (jinja_skip(p, ','))
            jinja_node_add(p, tuple, jinja_parse_expression(p, true));
        node->b = jinja_node_done(p, tuple);
    }
    jinja_expect(p, ']', "']'");
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_attribute(struct jinja_parser *p, const struct jinja_node *of,
                                                uint32_t at)
{
    if (p->token->type == JINJA_TOKEN_NAME) {
        struct jinja_node *node = jinja_node_new(p, JINJA_NODE_ATTRIBUTE, at);
        node->a = of;
        node->name = jinja_take_name(p);
        return jinja_node_done(p, node);
    }
    if (p->token->type != JINJA_TOKEN_INTEGER)
        jinja_parse_fail(p, "a name or a number");
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_ITEM, at);
    node->a = of;
    node->b = parse_number(p);
    return jinja_node_done(p, node);
}

static const struct jinja_node *parse_call(struct jinja_parser *p, const struct jinja_node *of)
{
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_CALL, p->token->at);
    node->a = of;
    parse_arguments(p, node);
    return jinja_node_done(p, node);
}

const struct jinja_node *jinja_parse_postfix(struct jinja_parser *p, const struct jinja_node *node)
{
    for (;;) {
        uint32_t at = p->token->at;
        if (jinja_skip(p, '.'))
            node = parse_attribute(p, node, at);
        else if (jinja_skip(p, '['))
            node = parse_index(p, node, at);
        else if (p->token->type == '(')
            node = parse_call(p, node);
        else
            return node;
    }
}

static void find_builtin(struct jinja_parser *p, struct jinja_node *node, const char *what)
{
    const struct jinja_text *name = node->name;
    node->builtin = node->kind == JINJA_NODE_FILTER ? jinja_find_filter(name->bytes, name->length)
                                                    : jinja_find_test(name->bytes, name->length);
    p->j->at = node->at;
    if (!node->builtin && p->soft == 0)
        jinja_raise(p->j, KT_E_UNSUPPORTED, "No %s named '%.*s'.", what,
                    (int)(name->length < 200 ? name->length : 200), name->bytes);
}

static const struct jinja_node *parse_test(struct jinja_parser *p, const struct jinja_node *of)
{
    uint32_t at = p->token->at;
    bool negated = jinja_skip_name(p, "not");
    struct jinja_node *node = jinja_node_new(p, JINJA_NODE_TEST, at);
    node->a = of;
    node->name = jinja_take_name(p);
    uint32_t type = p->token->type;
    if (type == '(') {
        parse_arguments(p, node);
    } else if ((type == JINJA_TOKEN_NAME || type == JINJA_TOKEN_STRING || type == JINJA_TOKEN_INTEGER ||
                type == JINJA_TOKEN_REAL || type == '[' || type == '{') &&
               !jinja_is_name(p, p->token, "else") && !jinja_is_name(p, p->token, "or") &&
               !jinja_is_name(p, p->token, "and")) {
        if (jinja_is_name(p, p->token, "is"))
            jinja_parse_fail(p, "one test");
        jinja_parse_enter(p);
        jinja_node_add(p, node, jinja_parse_postfix(p, jinja_parse_primary(p)));
        p->depth--;
    }
    find_builtin(p, node, "test");
    const struct jinja_node *test = jinja_node_done(p, node);
    if (!negated)
        return test;
    struct jinja_node *not = jinja_node_new(p, JINJA_NODE_NOT, at);
    not ->a = test;
    return jinja_node_done(p, not );
}

const struct jinja_node *jinja_parse_filters(struct jinja_parser *p, const struct jinja_node *node,
                                             bool begun)
{
    while (begun || jinja_skip(p, '|')) {
        struct jinja_node *filter = jinja_node_new(p, JINJA_NODE_FILTER, p->token->at);
        begun = false;
        filter->a = node;
        filter->name = jinja_take_name(p);
        if (p->token->type == '(')
            parse_arguments(p, filter);
        find_builtin(p, filter, "filter");
        node = jinja_node_done(p, filter);
    }
    return node;
}

const struct jinja_node *jinja_parse_unary(struct jinja_parser *p, bool with_filter)
{
    const struct jinja_node *node;
    uint32_t at = p->token->at, type = p->token->type;
    jinja_parse_enter(p);
    if (type == '-' || type == '+') {
        struct jinja_node *sign = jinja_node_new(p, type == '-' ? JINJA_NODE_MINUS : JINJA_NODE_PLUS, at);
        p->token++;
        sign->a = jinja_parse_unary(p, false);
        node = jinja_node_done(p, sign);
    } else {
        node = jinja_parse_primary(p);
    }
    node = jinja_parse_postfix(p, node);
    while (with_filter) {
        if (p->token->type == '|')
            node = jinja_parse_filters(p, node, false);
        else if (jinja_skip_name(p, "is"))
            node = parse_test(p, node);
        else if (p->token->type == '(')
            node = parse_call(p, node);
        else
            break;
    }
    p->depth--;
    return node;
}
