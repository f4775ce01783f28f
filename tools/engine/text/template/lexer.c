/* SPDX-License-Identifier: Apache-2.0 */
/* lexer.c - whitespace as trim_blocks and lstrip_blocks want it, which is how Hugging Face sets Jinja2 up. */
#include "tools/engine/text/template/lexer.h"

#include "tools/engine/text/template/template.h"
#include "tools/engine/text/template/unicode.h"

#include <string.h>

enum { NESTING = 256 };

struct lexer {
    struct jinja *j;
    struct jinja_tokens *tokens;
    const char *source;
    uint32_t length;
    uint32_t at;
    uint32_t n_open;
    char open[NESTING]; /* the brackets that will close */
};

static void add_token(struct lexer *l, uint32_t type, uint32_t from, uint32_t to)
{
    struct jinja_tokens *tokens = l->tokens;
    if (tokens->n == tokens->room) {
        tokens->room = tokens->room ? 2 * tokens->room : 64;
        tokens->list = jinja_grow(l->j, tokens->list, tokens->n * sizeof *tokens->list,
                                  (uint64_t)tokens->room * sizeof *tokens->list);
    }
    tokens->list[tokens->n++] = (struct jinja_token){type, from, to - from};
}

_Noreturn static void fail(struct lexer *l, uint32_t at, const char *what)
{
    l->j->at = at;
    jinja_raise(l->j, KT_E_FORMAT, "%s", what);
}

static bool is(const struct lexer *l, uint32_t at, const char *what)
{
    size_t length = strlen(what);
    return at <= l->length && length <= l->length - at && memcmp(l->source + at, what, length) == 0;
}

static uint32_t skip_spaces(const struct lexer *l, uint32_t at)
{
    const struct jinja_text text = {.bytes = l->source, .length = l->length};
    uint64_t size;
    while (at < l->length && jinja_is_space(jinja_char(&text, at, &size)))
        at += (uint32_t)size;
    return at;
}

static uint32_t strip_end(const struct lexer *l, uint32_t from, uint32_t to)
{
    const struct jinja_text text = {.bytes = l->source, .length = l->length};
    uint64_t size;
    while (to > from) {
        uint32_t at = to - 1;
        while (at > from && ((unsigned char)l->source[at] & 0xc0) == 0x80)
            at--;
        if (!jinja_is_space(jinja_char(&text, at, &size)))
            break;
        to = at;
    }
    return to;
}

/* The text before a tag at `to`: "-" takes all spaces off its end; else those between the line's beginning
 * and a tag that is no {{ go. */
static void add_data(struct lexer *l, uint32_t from, uint32_t to, char sign, bool is_print)
{
    uint32_t end = to;
    if (sign == '-') {
        end = strip_end(l, from, to);
    } else if (sign != '+' && !is_print) {
        uint32_t line = to;
        while (line > from && l->source[line - 1] != '\n')
            line--;
        bool begins = line > from || from == 0 || l->source[from - 1] == '\n';
        if (begins && skip_spaces(l, line) >= to)
            end = line;
    }
    if (end > from)
        add_token(l, JINJA_TOKEN_DATA, from, end);
}

/* The end of a tag, "%}" with or without a sign, at `at`: what follows it; 0: there is none. */
static uint32_t end_tag(const struct lexer *l, uint32_t at, const char *end)
{
    bool is_print = *end == '}';
    if (is(l, at, "-") && is(l, at + 1, end))
        return skip_spaces(l, at + 3);
    if (is(l, at, "+") && !is_print && is(l, at + 1, end))
        return at + 3;
    if (!is(l, at, end))
        return 0;
    return at + 2 + (!is_print && is(l, at + 2, "\n"));
}

static uint32_t skip_sign(const struct lexer *l, uint32_t at)
{
    return is(l, at, "-") || is(l, at, "+") ? at + 1 : at;
}

static void lex_comment(struct lexer *l, uint32_t tag)
{
    for (uint32_t at = skip_sign(l, tag + 2); at < l->length; at++) {
        uint32_t next = end_tag(l, at, "#}");
        if (next) {
            l->at = next;
            return;
        }
    }
    fail(l, tag, "Missing end of comment tag");
}

/* {% raw %} ends without care for a newline; false: the tag at `tag` is another one. */
static bool lex_raw(struct lexer *l, uint32_t tag)
{
    uint32_t at = skip_spaces(l, skip_sign(l, tag + 2));
    if (!is(l, at, "raw"))
        return false;
    at = skip_spaces(l, at + 3);
    if (is(l, at, "-%}"))
        l->at = skip_spaces(l, at + 3);
    else if (is(l, at, "%}"))
        l->at = at + 2;
    else
        return false;
    for (uint32_t end = l->at; end < l->length; end++) {
        if (!is(l, end, "{%"))
            continue;
        uint32_t word = skip_spaces(l, skip_sign(l, end + 2));
        uint32_t next = is(l, word, "endraw") ? end_tag(l, skip_spaces(l, word + 6), "%}") : 0;
        if (next) {
            add_data(l, l->at, end, l->source[end + 2], false);
            l->at = next;
            return true;
        }
    }
    fail(l, tag, "Missing end of raw directive");
}

static bool is_word(const struct lexer *l, uint32_t at)
{
    unsigned char c = at < l->length ? (unsigned char)l->source[at] : ' ';
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c >= 0x80;
}

static bool is_digit(const struct lexer *l, uint32_t at, const char *digits)
{
    return at < l->length && l->source[at] && strchr(digits, l->source[at]);
}

/* Digits with single _ between them; `at` itself where there are none. */
static uint32_t skip_digits(const struct lexer *l, uint32_t at, const char *digits)
{
    while (is_digit(l, at, digits))
        at += is(l, at + 1, "_") && is_digit(l, at + 2, digits) ? 2 : 1;
    return at;
}

static uint32_t skip_real(const struct lexer *l, uint32_t at)
{
    static const char digits[] = "0123456789";
    uint32_t whole = skip_digits(l, at, digits), end = whole;
    if (whole == at || (at > 0 && l->source[at - 1] == '.'))
        return at;
    if (is(l, whole, ".") && is_digit(l, whole + 1, digits))
        end = skip_digits(l, whole + 1, digits);
    if (is(l, end, "e") || is(l, end, "E")) {
        uint32_t exponent = skip_sign(l, end + 1);
        if (is_digit(l, exponent, digits))
            return skip_digits(l, exponent, digits);
    }
    return end > whole ? end : at;
}

static uint32_t skip_integer(const struct lexer *l, uint32_t at)
{
    static const char *const prefixes[][3] = {{"0b", "0B", "01"},
                                              {"0o", "0O", "01234567"},
                                              {"0x", "0X", "0123456789abcdefABCDEF"}};
    for (int i = 0; i < 3; i++)
        if (is(l, at, prefixes[i][0]) || is(l, at, prefixes[i][1])) {
            uint32_t digits = at + 2 + is(l, at + 2, "_");
            if (is_digit(l, digits, prefixes[i][2]))
                return skip_digits(l, digits, prefixes[i][2]);
        }
    return skip_digits(l, at, is(l, at, "0") ? "0" : "0123456789");
}

static uint32_t skip_string(struct lexer *l, uint32_t at)
{
    char quote = l->source[at];
    for (uint32_t i = at + 1; i < l->length; i++) {
        if (l->source[i] == '\\')
            i++;
        else if (l->source[i] == quote)
            return i + 1;
    }
    fail(l, at, "a string that does not end");
}

static void lex_operator(struct lexer *l)
{
    static const char doubles[][3] = {"//", "**", "==", "!=", ">=", "<="};
    for (uint32_t i = 0; i < 6; i++)
        if (is(l, l->at, doubles[i])) {
            add_token(l, JINJA_TOKEN_FLOOR + i, l->at, l->at + 2);
            l->at += 2;
            return;
        }
    char c = l->source[l->at];
    if (!c || !strchr("+-/*%~[](){}<>=.:|,;", c))
        fail(l, l->at, "a character that no expression has");
    if (c == '(' || c == '[' || c == '{') {
        if (l->n_open == NESTING)
            fail(l, l->at, "more than 256 brackets are open");
        l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (l->n_open == 0 || l->open[l->n_open - 1] != c)
            fail(l, l->at, "a bracket that closes none");
        l->n_open--;
    }
    add_token(l, (unsigned char)c, l->at, l->at + 1);
    l->at++;
}

/* What stands within a tag, up to its end. */
static void lex_tag(struct lexer *l, uint32_t tag, bool is_print)
{
    l->n_open = 0;
    l->at = skip_sign(l, tag + 2);
    for (;;) {
        uint32_t begin = l->at;
        uint32_t next = l->n_open ? 0 : end_tag(l, begin, is_print ? "}}" : "%}");
        if (next) {
            add_token(l, is_print ? JINJA_TOKEN_PRINT_END : JINJA_TOKEN_BLOCK_END, begin, begin + 2);
            l->at = next;
            return;
        }
        l->at = skip_spaces(l, begin);
        if (l->at >= l->length)
            fail(l, tag, "a tag that does not end");
        if (l->at > begin)
            continue;
        uint32_t type = JINJA_TOKEN_REAL;
        next = skip_real(l, begin);
        if (next == begin) {
            type = JINJA_TOKEN_INTEGER;
            next = skip_integer(l, begin);
        }
        if (next == begin && is_word(l, begin)) {
            type = JINJA_TOKEN_NAME;
            while (is_word(l, next))
                next++;
        }
        if (next == begin && (l->source[begin] == '"' || l->source[begin] == '\'')) {
            type = JINJA_TOKEN_STRING;
            next = skip_string(l, begin);
        }
        if (next > begin) {
            add_token(l, type, begin, next);
            l->at = next;
        } else {
            lex_operator(l);
        }
    }
}

struct jinja_tokens *jinja_lex(struct jinja *j)
{
    struct lexer l = {.j = j, .source = j->chat->source, .length = j->chat->length};
    l.tokens = jinja_new(j, sizeof *l.tokens);
    while (l.at < l.length) {
        uint32_t tag = l.at;
        while (tag < l.length && !is(&l, tag, "{{") && !is(&l, tag, "{%") && !is(&l, tag, "{#"))
            tag++;
        if (tag >= l.length) {
            add_token(&l, JINJA_TOKEN_DATA, l.at, l.length);
            break;
        }
        char kind = l.source[tag + 1];
        add_data(&l, l.at, tag, tag + 2 < l.length ? l.source[tag + 2] : ' ', kind == '{');
        if (kind == '#') {
            lex_comment(&l, tag);
        } else if (kind == '{' || !lex_raw(&l, tag)) {
            add_token(&l, kind == '{' ? JINJA_TOKEN_PRINT_BEGIN : JINJA_TOKEN_BLOCK_BEGIN, tag, tag + 2);
            lex_tag(&l, tag, kind == '{');
        }
    }
    add_token(&l, JINJA_TOKEN_END, l.length, l.length);
    return l.tokens;
}
