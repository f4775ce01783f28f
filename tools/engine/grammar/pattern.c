/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.c - the text of a regular expression as nodes: characters, classes, groups, alternatives,
 * repetitions, anchors and borders of words. What is not computed is refused by its name: looking ahead from
 * elsewhere than the beginning, looking behind, references to groups, flags.
 */
#include "tools/engine/grammar/pattern.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MOST_GROUPS 32 /* inside each other */

uint32_t kt_regex_refuse(struct kt_regex *r, const char *what)
{
    kt_form_fail(r->reader, KT_E_UNSUPPORTED, r->place, "the pattern '%.60s' has %s at character %zu",
                 r->text, what, r->at);
    return 0;
}

uint32_t kt_regex_node(struct kt_regex *r, struct kt_node node)
{
    if (r->n_nodes == KT_REGEX_NODES)
        return kt_regex_refuse(r, "too many parts");
    r->nodes[r->n_nodes] = node;
    return r->n_nodes++;
}

/* ---- characters ---- */

/* The byte `ahead` bytes on; 0 at the end. */
static char look(const struct kt_regex *r, size_t ahead)
{
    return r->at + ahead < r->length ? r->text[r->at + ahead] : '\0';
}

static int hex_digit(char c)
{
    const char *all = "0123456789abcdef", *found = c > ' ' ? strchr(all, c | 0x20) : NULL;
    return found && c >= '0' ? (int)(found - all) : -1;
}

/* Digits up to `most`; at least one. */
static bool read_digits(struct kt_regex *r, size_t least, size_t most, uint32_t *code)
{
    size_t n = 0;
    *code = 0;
    for (; n < most && hex_digit(look(r, 0)) >= 0 && *code <= 0x10ffff; n++, r->at++)
        *code = *code * 16 + (uint32_t)hex_digit(look(r, 0));
    return (n >= least && *code <= 0x10ffff) || kt_regex_refuse(r, "an invalid escape");
}

/* What follows \x or \u; two surrogates are one character. */
static bool read_hex(struct kt_regex *r, bool is_short, uint32_t *code)
{
    uint32_t low;
    if (!is_short && look(r, 0) == '{') {
        r->at++;
        if (!read_digits(r, 1, SIZE_MAX, code))
            return false;
        if (look(r, 0) != '}')
            return kt_regex_refuse(r, "an invalid escape");
        r->at++;
    } else if (!read_digits(r, is_short ? 2 : 4, is_short ? 2 : 4, code)) {
        return false;
    }
    if (*code >= 0xd800 && *code <= 0xdbff && look(r, 0) == '\\' && look(r, 1) == 'u') {
        r->at += 2;
        if (!read_digits(r, 4, 4, &low))
            return false;
        if (low >= 0xdc00 && low <= 0xdfff)
            *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    }
    return *code < 0xd800 || *code > 0xdfff || kt_regex_refuse(r, "a surrogate");
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* An escape behind its backslash and letter. */
static bool read_escape(struct kt_regex *r, char c, uint32_t *code)
{
    static const char letters[] = "nrtfv", meanings[] = "\n\r\t\f\v";
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter) {
        *code = (uint8_t)meanings[letter - letters];
    } else if (c == 'x' || c == 'u') {
        return read_hex(r, c == 'x', code);
    } else if (c == 'c' && is_letter(look(r, 0))) {
        *code = (uint8_t)r->text[r->at++] % 32;
    } else if (c == '0' && !(look(r, 0) >= '0' && look(r, 0) <= '9')) {
        *code = 0;
    } else if ((c >= '1' && c <= '9') || c == 'k') {
        return kt_regex_refuse(r, "a reference to a group, which is not supported,");
    } else if ((uint8_t)c < 0x80 && c > ' ' && !(c >= '0' && c <= '9') && !is_letter(c)) {
        *code = (uint8_t)c;
    } else {
        return kt_regex_refuse(r, "an escape that is not supported");
    }
    return true;
}

/* A character, or a class of its own (*name is then its letter). */
static bool read_character(struct kt_regex *r, uint32_t *code, char *name)
{
    if (look(r, 0) != '\\') {
        r->at += kt_utf8_read(r->text + r->at, r->length - r->at, code);
        return true;
    }
    char c = look(r, 1);
    r->at += c ? 2 : 1;
    if (c && strchr("dDwWsSpP", c)) {
        *name = c;
        return true;
    }
    return read_escape(r, c, code);
}

static bool add_named(struct kt_regex *r, char name)
{
    return strchr("pP", name) ? kt_class_property(r, name) : kt_class_named(r, name);
}

static uint32_t parse_class(struct kt_regex *r)
{
    uint32_t begin = r->n_spans;
    bool negates = look(r, 0) == '^';
    r->at += negates;
    while (r->at < r->length && look(r, 0) != ']') {
        uint32_t first = '\b', last;
        char name = 0;
        if (look(r, 0) == '\\' && look(r, 1) == 'b')
            r->at += 2;
        else if (!read_character(r, &first, &name) || (name && !add_named(r, name)))
            return 0;
        bool is_span = look(r, 0) == '-' && look(r, 1) && look(r, 1) != ']', is_plain = !name;
        last = first;
        if (is_span) {
            r->at++;
            if (!read_character(r, &last, &name))
                return 0;
        }
        if (is_span && (name || last < first))
            return kt_regex_refuse(r, "an invalid range");
        if (is_plain && !kt_class_add(r, first, last))
            return 0;
    }
    if (r->at >= r->length)
        return kt_regex_refuse(r, "an unterminated class");
    r->at++;
    return negates && !kt_class_invert(r, begin) ? 0 : kt_class_node(r, begin);
}

/* ---- syntax ---- */

static uint32_t parse_alternatives(struct kt_regex *r);

/* Without `ends` that of '.': no end of a line. */
static uint32_t any_character(struct kt_regex *r, bool ends)
{
    uint32_t begin = r->n_spans;
    bool done = ends ? kt_class_add(r, 0, 0x10ffff)
                     : kt_class_add(r, '\n', '\n') && kt_class_add(r, '\r', '\r') &&
                           kt_class_add(r, 0x2028, 0x2029) && kt_class_invert(r, begin);
    return done ? kt_class_node(r, begin) : 0;
}

/* Behind "(?". */
static bool read_kind(struct kt_regex *r)
{
    char kind = look(r, 0), more = look(r, 1);
    if (kind == ':') {
        r->at++;
        return true;
    }
    if (kind == '=' || kind == '!' || (kind == '<' && (more == '=' || more == '!')))
        return kt_regex_refuse(r, kind == '<' ? "lookbehind, which is not supported,"
                                              : "lookahead, which is only supported after ^,");
    if (kind != '<' || !(is_letter(more) || more == '_' || more == '$'))
        return kt_regex_refuse(r, "a kind of group that is not supported");
    while (r->at < r->length && look(r, 0) != '>')
        r->at++;
    r->at++;
    return true;
}

static uint32_t parse_group(struct kt_regex *r)
{
    if (look(r, 0) == '?') {
        r->at++;
        if (!read_kind(r))
            return 0;
    }
    if (++r->groups > MOST_GROUPS)
        return kt_regex_refuse(r, "groups nested too deeply");
    uint32_t inner = parse_alternatives(r);
    r->groups--;
    if (look(r, 0) != ')')
        return kt_regex_refuse(r, "an unterminated group");
    r->at++;
    return inner;
}

static bool repeats(const struct kt_regex *r)
{
    return look(r, 0) && strchr("*+?{", look(r, 0));
}

/* ^, $, \b or \B. */
static uint32_t parse_here(struct kt_regex *r)
{
    char c = look(r, 0);
    enum kt_here here = c == '^' ? KT_HERE_BEGIN : c == '$' ? KT_HERE_END : KT_HERE_BORDER;
    if (c == '\\') {
        here = look(r, 1) == 'b' ? KT_HERE_BORDER : KT_HERE_NO_BORDER;
        r->at++;
    }
    r->at++;
    if (repeats(r))
        return kt_regex_refuse(r, "a repetition of nothing");
    r->has_places = true;
    return kt_regex_node(r, (struct kt_node){.kind = KT_NODE_HERE, .a = here});
}

static uint32_t parse_atom(struct kt_regex *r)
{
    uint32_t code, begin = r->n_spans;
    char name = 0, c = look(r, 0);
    if (strchr("*+?{", c))
        return kt_regex_refuse(r, "a repetition of nothing");
    if (strchr("^$", c) || (c == '\\' && (look(r, 1) == 'b' || look(r, 1) == 'B')))
        return parse_here(r);
    if (strchr("([.", c)) {
        r->at++;
        return c == '(' ? parse_group(r) : c == '[' ? parse_class(r) : any_character(r, false);
    }
    if (!read_character(r, &code, &name))
        return 0;
    bool done = name ? add_named(r, name) : kt_class_add(r, code, code);
    return done ? kt_class_node(r, begin) : 0;
}

static uint32_t read_number(struct kt_regex *r)
{
    uint32_t n = 0;
    size_t start = r->at;
    for (; r->at < r->length && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        n = n > KT_REGEX_REPEATS ? n : n * 10 + (uint32_t)(r->text[r->at] - '0');
    return r->at == start ? UINT32_MAX : n;
}

/* {m}, {m,} or {m,n}. */
static bool read_braces(struct kt_regex *r, uint32_t *min, uint32_t *max)
{
    r->at++;
    *min = *max = read_number(r);
    if (r->at < r->length && r->text[r->at] == ',') {
        r->at++;
        *max = read_number(r);
    }
    bool fits =
        *min <= KT_REGEX_REPEATS && (*max == UINT32_MAX || (*max <= KT_REGEX_REPEATS && *max >= *min));
    if (!fits || r->at >= r->length || r->text[r->at] != '}')
        return kt_regex_refuse(r, "an invalid repetition, or one above 1000,");
    r->at++;
    return true;
}

static uint32_t parse_piece(struct kt_regex *r)
{
    uint32_t atom = parse_atom(r), min = 1, max = 1;
    if (r->reader->status != KT_OK || r->at >= r->length || !strchr("*+?{", r->text[r->at]))
        return atom;
    char c = r->text[r->at];
    if (c == '{') {
        if (!read_braces(r, &min, &max))
            return 0;
    } else {
        min = c == '+';
        max = c == '?' ? 1 : UINT32_MAX;
        r->at++;
    }
    if (r->at < r->length && r->text[r->at] == '?') /* lazy: the same texts */
        r->at++;
    return kt_regex_node(r, (struct kt_node){.kind = KT_NODE_REPEAT, .a = atom, .min = min, .max = max});
}

/* Whether a $ here ends the text or one of its alternatives. */
static bool is_last(const struct kt_regex *r)
{
    return r->groups == 0 && look(r, 0) == '$' && (look(r, 1) == '\0' || look(r, 1) == '|');
}

/* Up to a bar, a bracket or the anchor at the end. */
static uint32_t parse_sequence(struct kt_regex *r)
{
    uint32_t all = kt_regex_node(r, (struct kt_node){.kind = KT_NODE_EMPTY});
    while (r->reader->status == KT_OK && r->at < r->length && look(r, 0) != '|' && look(r, 0) != ')' &&
           !is_last(r)) {
        uint32_t piece = parse_piece(r);
        all = kt_regex_node(r, (struct kt_node){.kind = KT_NODE_CAT, .a = all, .b = piece});
    }
    return all;
}

/* Without anchors anything may stand around. */
static uint32_t parse_anchored(struct kt_regex *r)
{
    uint32_t any = any_character(r, true);
    any = kt_regex_node(r, (struct kt_node){.kind = KT_NODE_REPEAT, .a = any, .max = UINT32_MAX});
    bool begins = look(r, 0) == '^';
    r->at += begins;
    if (begins && repeats(r))
        return kt_regex_refuse(r, "a repetition of nothing");
    uint32_t all = parse_sequence(r);
    bool ends = is_last(r);
    r->at += ends;
    if (r->reader->status == KT_OK && r->at < r->length && look(r, 0) != '|')
        return kt_regex_refuse(r, "an unmatched bracket");
    if (!begins)
        all = kt_regex_node(r, (struct kt_node){.kind = KT_NODE_CAT, .a = any, .b = all});
    return ends ? all : kt_regex_node(r, (struct kt_node){.kind = KT_NODE_CAT, .a = all, .b = any});
}

static uint32_t parse_alternatives(struct kt_regex *r)
{
    bool is_whole = r->groups == 0;
    uint32_t all = is_whole ? parse_anchored(r) : parse_sequence(r);
    while (r->reader->status == KT_OK && look(r, 0) == '|') {
        r->at++;
        uint32_t other = is_whole ? parse_anchored(r) : parse_sequence(r);
        all = kt_regex_node(r, (struct kt_node){.kind = KT_NODE_ALT, .a = all, .b = other});
    }
    return all;
}

uint32_t kt_form_pattern(struct kt_form_reader *reader, const char *pattern, const struct kt_place *place,
                         uint32_t min, uint32_t max, uint32_t next)
{
    struct kt_regex r = {.reader = reader, .place = place, .text = pattern, .length = strlen(pattern)};
    uint32_t op = 0, root = 0;
    if (kt_regex_looks_ahead(pattern)) {
        json_t *texts = json_pack("{s:i}", pattern, KT_TEXT_FOUND);
        op = texts ? kt_form_looked(reader, texts, NULL, place, min, max, next) : 0;
        if (!texts)
            kt_form_no_memory(reader);
        json_decref(texts);
        return op;
    }
    r.nodes = calloc(KT_REGEX_NODES, sizeof(*r.nodes));
    if (r.nodes)
        root = parse_alternatives(&r);
    else
        kt_form_no_memory(reader);
    if (reader->status == KT_OK)
        op = kt_regex_write(&r, root, min, max, next);
    free(r.nodes);
    free(r.spans);
    return op;
}
