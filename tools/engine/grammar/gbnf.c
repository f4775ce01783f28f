/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf.c - grammars in rules, as llama.cpp writes them: name ::= "text" [a-z] other-name ( .. | .. )* #
 * comment. The text is read as nodes, and these are written backwards as operations, a rule of the program
 * for each rule.
 */
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/schema.h"
#include "tools/engine/grammar/spans.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NODES 8192
#define MOST_RULES 1000
#define MOST_KEPT 4096
#define MOST_GROUPS 64     /* inside each other */
#define MOST_REPEATS 10000 /* the largest number in {} */

enum kind { EMPTY, BYTES, SET, RULE, CAT, ALT, REPEAT };

struct node {
    enum kind kind;
    uint32_t a, b, min, max; /* BYTES: first and length; SET: likewise, of spans; RULE: its number */
};

struct rule {
    const char *name;
    size_t length;
    uint32_t node, op; /* 0: not made yet; node 0 is the empty text */
    bool is_defined, is_empty;
    enum { NEW, OPEN, DONE } state; /* of the search for rules that begin with themselves */
};

struct reading {
    struct kt_form_reader *reader;
    const char *text, *at;
    struct node *nodes;
    struct rule *rules;
    struct kt_span *spans;
    struct kt_buffer bytes;
    size_t n_nodes, n_rules, n_spans, nodes_capacity, rules_capacity, spans_capacity;
    size_t n_kept; /* operations of KT_OP_KEEP: a state may have all of them at once */
    unsigned depth;
};

/* ---- failures ---- */

static uint32_t refuse(struct reading *r, const char *what, const char *name, size_t length)
{
    unsigned line = 1;
    for (const char *c = r->text; c < r->at; c++)
        line += *c == '\n';
    kt_form_fail(r->reader, KT_E_FORMAT, NULL, "line %u: %s%s%.*s%s", line, what, name ? " '" : "",
                 (int)(length < 60 ? length : 60), name ? name : "", name ? "'" : "");
    return 0;
}

static uint32_t add_node(struct reading *r, struct node node)
{
    struct node *grown = kt_array_grow(r->nodes, &r->nodes_capacity, r->n_nodes + 1, sizeof(*grown));
    if (!grown || r->n_nodes >= MOST_NODES) {
        r->nodes = grown ? grown : r->nodes;
        if (grown)
            refuse(r, "the rules have too many parts", NULL, 0);
        else
            kt_form_no_memory(r->reader);
        return 0;
    }
    r->nodes = grown;
    grown[r->n_nodes] = node;
    return (uint32_t)r->n_nodes++;
}

/* The number of a rule by its name, which may be defined later. */
static uint32_t find_rule(struct reading *r, const char *name, size_t length)
{
    for (uint32_t i = 0; i < r->n_rules; i++)
        if (r->rules[i].length == length && memcmp(r->rules[i].name, name, length) == 0)
            return i;
    struct rule *grown = kt_array_grow(r->rules, &r->rules_capacity, r->n_rules + 1, sizeof(*grown));
    if (!grown) {
        kt_form_no_memory(r->reader);
        return 0;
    }
    r->rules = grown;
    if (r->n_rules == MOST_RULES)
        return refuse(r, "there are too many rules", NULL, 0);
    grown[r->n_rules] = (struct rule){.name = name, .length = length};
    return (uint32_t)r->n_rules++;
}

/* ---- words ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t name_length(const char *text)
{
    size_t n = 0;
    while (is_name(text[n]))
        n++;
    return n;
}

/* Blanks and comments, and ends of lines where a rule goes on behind them. */
static void skip(struct reading *r, bool lines)
{
    for (;; r->at++) {
        if (*r->at == '#')
            r->at += strcspn(r->at, "\r\n");
        if (!*r->at || !strchr(lines ? " \t\r\n" : " \t", *r->at))
            return;
    }
}

static bool read_hex(struct reading *r, int digits, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        const char *all = "0123456789abcdef", *found = *r->at > ' ' ? strchr(all, *r->at | 0x20) : NULL;
        if (!found || *r->at < '0')
            return refuse(r, "an invalid escape", NULL, 0);
        *code = *code * 16 + (uint32_t)(found - all);
    }
    return (*code <= 0x10ffff && !(*code >= 0xd800 && *code <= 0xdfff)) ||
           refuse(r, "an escape of no character", NULL, 0);
}

/* A character of a text or class, or its escape. */
static bool read_character(struct reading *r, uint32_t *code)
{
    static const char letters[] = "nrt\\\"[]^-", meant[] = "\n\r\t\\\"[]^-";
    if (*r->at != '\\') {
        r->at += kt_utf8_read(r->at, strlen(r->at), code);
        return true;
    }
    char c = r->at[1];
    const char *found = c ? strchr(letters, c) : NULL;
    if (found) {
        *code = (uint8_t)meant[found - letters];
        r->at += 2;
        return true;
    }
    if (c != 'x' && c != 'u' && c != 'U')
        return refuse(r, "an escape that is not known", NULL, 0);
    r->at += 2;
    return read_hex(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
}

static uint32_t read_text(struct reading *r)
{
    struct node node = {.kind = BYTES, .a = (uint32_t)r->bytes.length};
    for (r->at++; *r->at && *r->at != '"';) {
        uint32_t code;
        char utf8[4];
        if (!read_character(r, &code))
            return 0;
        if (!kt_buffer_add(&r->bytes, utf8, kt_utf8_write(code, utf8)))
            return (uint32_t)kt_form_no_memory(r->reader);
    }
    if (!*r->at)
        return refuse(r, "a text without its closing quote", NULL, 0);
    r->at++;
    node.b = (uint32_t)r->bytes.length - node.a;
    return add_node(r, node);
}

static bool add_span(struct reading *r, uint32_t first, uint32_t last)
{
    struct kt_span *grown = kt_array_grow(r->spans, &r->spans_capacity, r->n_spans + 2, sizeof(*grown));
    if (!grown)
        return kt_form_no_memory(r->reader);
    r->spans = grown;
    grown[r->n_spans++] = (struct kt_span){first, last};
    return true;
}

static uint32_t add_set(struct reading *r, size_t first, bool negates)
{
    size_t n = kt_spans_merge(r->spans + first, r->n_spans - first);
    n = negates ? kt_spans_invert(r->spans + first, n) : n;
    r->n_spans = first + n;
    return add_node(r, (struct node){.kind = SET, .a = (uint32_t)first, .b = (uint32_t)n});
}

static uint32_t read_class(struct reading *r)
{
    size_t first = r->n_spans;
    r->at++;
    bool negates = *r->at == '^';
    r->at += negates;
    if (!add_span(r, 1, 0)) /* room for one that is inverted */
        return 0;
    r->n_spans--;
    while (*r->at && *r->at != ']') {
        uint32_t from, to;
        if (!read_character(r, &from))
            return 0;
        to = from;
        if (r->at[0] == '-' && r->at[1] && r->at[1] != ']') {
            r->at++;
            if (!read_character(r, &to))
                return 0;
        }
        if (to < from)
            return refuse(r, "an invalid range of characters", NULL, 0);
        if (!add_span(r, from, to))
            return 0;
    }
    if (!*r->at)
        return refuse(r, "a class without its closing bracket", NULL, 0);
    r->at++;
    return add_set(r, first, negates);
}

/* ---- rules ---- */

static uint32_t read_alternatives(struct reading *r, bool in_group);

static bool read_number(struct reading *r, uint32_t *number)
{
    const char *begin = r->at;
    for (*number = 0; *r->at >= '0' && *r->at <= '9'; r->at++)
        *number = *number > MOST_REPEATS ? *number : *number * 10 + (uint32_t)(*r->at - '0');
    return r->at > begin;
}

/* *, +, ? or {m,n} behind a part. */
static uint32_t read_repeat(struct reading *r, uint32_t part)
{
    char c = *r->at++;
    uint32_t min = c == '+', max = c == '?' ? 1 : UINT32_MAX;
    if (c == '{') {
        skip(r, false);
        bool has_min = read_number(r, &min), has_max = true;
        max = min;
        skip(r, false);
        if (*r->at == ',') {
            r->at++;
            skip(r, false);
            has_max = read_number(r, &max);
            max = has_max ? max : UINT32_MAX;
            skip(r, false);
        }
        if (!has_min || *r->at != '}' || min > max || min > MOST_REPEATS ||
            (max != UINT32_MAX && max > MOST_REPEATS))
            return refuse(r, "a wrong repetition, or one above 10000", NULL, 0);
        r->at++;
    }
    return add_node(r, (struct node){.kind = REPEAT, .a = part, .min = min, .max = max});
}

static uint32_t read_part(struct reading *r)
{
    size_t n = name_length(r->at);
    const char *name = r->at;
    if (*r->at == '"')
        return read_text(r);
    if (*r->at == '[')
        return read_class(r);
    if (*r->at == '.') {
        size_t first = r->n_spans;
        r->at++;
        return add_span(r, 0, 0x10ffff) ? add_set(r, first, false) : 0;
    }
    if (n > 0) {
        r->at += n;
        return add_node(r, (struct node){.kind = RULE, .a = find_rule(r, name, n)});
    }
    if (*r->at != '(')
        return refuse(r, "no part of a rule begins with", r->at, strcspn(r->at, "\r\n"));
    r->at++;
    if (++r->depth > MOST_GROUPS)
        return refuse(r, "groups nested too deeply", NULL, 0);
    if (*r->at == '?')
        return refuse(r, "a group that looks ahead, which is not supported", NULL, 0);
    uint32_t inner = read_alternatives(r, true);
    r->depth--;
    if (*r->at != ')') /* also after a failure, which stays */
        return refuse(r, "a group without its closing bracket", NULL, 0);
    r->at++;
    return inner;
}

/* Whether a line begins a rule: its name and "::=". */
static bool is_rule(const struct reading *r)
{
    struct reading ahead = *r;
    ahead.at += name_length(r->at);
    if (ahead.at == r->at)
        return false;
    skip(&ahead, true);
    return strncmp(ahead.at, "::=", 3) == 0;
}

static uint32_t read_sequence(struct reading *r, bool in_group)
{
    uint32_t all = 0;
    for (;;) {
        const char *line = r->at;
        skip(r, true); /* a rule goes on up to the next one */
        if (r->reader->status != KT_OK || !*r->at || strchr("|)", *r->at))
            return all;
        if (!in_group && is_rule(r)) {
            r->at = line;
            return all;
        }
        uint32_t part = read_part(r);
        for (skip(r, in_group); r->reader->status == KT_OK && *r->at && strchr("*+?{", *r->at);
             skip(r, in_group))
            part = read_repeat(r, part);
        all = all == 0 ? part : add_node(r, (struct node){.kind = CAT, .a = all, .b = part});
    }
}

static uint32_t read_alternatives(struct reading *r, bool in_group)
{
    uint32_t all = read_sequence(r, in_group);
    while (r->reader->status == KT_OK) {
        const char *end = r->at;
        skip(r, true); /* an alternative may stand on the next line */
        if (*r->at != '|') {
            r->at = in_group ? r->at : end;
            return all;
        }
        r->at++;
        skip(r, true);
        uint32_t other = !in_group && is_rule(r) ? 0 : read_sequence(r, in_group);
        all = add_node(r, (struct node){.kind = ALT, .a = all, .b = other});
    }
    return all;
}

static void read_rules(struct reading *r)
{
    for (skip(r, true); *r->at && r->reader->status == KT_OK; skip(r, true)) {
        size_t n = name_length(r->at);
        const char *name = r->at;
        if (!is_rule(r)) {
            refuse(r, "a rule, name ::= .., should stand here instead of", r->at, strcspn(r->at, "\r\n"));
            return;
        }
        uint32_t number = find_rule(r, name, n);
        r->at += n;
        skip(r, true);
        r->at += 3;
        skip(r, true);
        uint32_t node = is_rule(r) ? 0 : read_alternatives(r, false);
        if (r->reader->status != KT_OK)
            return;
        if (*r->at == ')')
            refuse(r, "an unmatched bracket", NULL, 0);
        else if (r->rules[number].is_defined)
            refuse(r, "there are two rules", name, n);
        r->rules[number].node = node;
        r->rules[number].is_defined = true;
    }
}

/* ---- rules that begin with themselves ---- */

static bool is_empty(const struct reading *r, uint32_t number)
{
    const struct node *node = &r->nodes[number];
    switch (node->kind) {
    case EMPTY:
        return true;
    case BYTES:
        return node->b == 0;
    case SET:
        return false;
    case RULE:
        return r->rules[node->a].is_empty;
    case CAT:
        return is_empty(r, node->b) && is_empty(r, node->a);
    case ALT:
        return is_empty(r, node->b) || is_empty(r, node->a);
    case REPEAT:
        return node->min == 0 || is_empty(r, node->a);
    }
    return false;
}

static void find_empty(struct reading *r)
{
    bool changes = true;
    for (uint64_t pass = 0; changes && kt_form_work(r->reader, NULL, r->n_nodes); pass++) {
        changes = false;
        for (size_t i = 0; i < r->n_rules; i++) {
            bool before = r->rules[i].is_empty;
            r->rules[i].is_empty = before || (r->rules[i].is_defined && is_empty(r, r->rules[i].node));
            changes = changes || r->rules[i].is_empty != before;
        }
    }
}

/* Follows what a node may begin with. */
static void follow(struct reading *r, uint32_t number)
{
    const struct node node = r->nodes[number];
    if (r->reader->status != KT_OK || !kt_form_work(r->reader, NULL, 1))
        return;
    if (node.kind == RULE) {
        struct rule *rule = &r->rules[node.a];
        if (rule->state == OPEN)
            kt_form_fail(r->reader, KT_E_UNSUPPORTED, NULL,
                         "the rule '%.*s' begins with itself, which is not supported; let it end with itself",
                         (int)(rule->length < 60 ? rule->length : 60), rule->name);
        if (rule->state != NEW)
            return;
        rule->state = OPEN;
        follow(r, rule->node);
        rule->state = DONE;
        return;
    }
    if (node.kind == CAT || node.kind == ALT || node.kind == REPEAT)
        follow(r, node.a);
    if (node.kind == ALT || (node.kind == CAT && is_empty(r, node.a)))
        follow(r, node.b);
}

/* ---- operations ---- */

static uint32_t emit(struct reading *r, uint32_t number, uint32_t next);

static uint32_t emit_rule(struct reading *r, uint32_t number, uint32_t next)
{
    struct kt_program *p = r->reader->program;
    struct rule *rule = &r->rules[number];
    if (rule->op == 0) {
        rule->op = kt_op_reserve(p);
        kt_op_place(p, rule->op, emit(r, rule->node, kt_op_return(p)));
    }
    return kt_op_call(p, rule->op, next);
}

static uint32_t emit_set(struct reading *r, const struct node *node, uint32_t next, bool is_repeated)
{
    struct kt_program *p = r->reader->program;
    size_t first = p->n_ops;
    uint32_t op = kt_op_spans(p, r->spans + node->a, node->b, next, next);
    if (is_repeated && op && r->n_kept < MOST_KEPT)
        r->n_kept += kt_op_spans_plain(p, first, r->spans + node->a, node->b, UINT32_MAX);
    return op;
}

static uint32_t emit_repeat(struct reading *r, const struct node *node, uint32_t next)
{
    struct kt_program *p = r->reader->program;
    const struct node inner = r->nodes[node->a];
    uint32_t op = next;
    if (node->max == UINT32_MAX) {
        op = kt_op_reserve(p);
        uint32_t again = inner.kind == SET ? emit_set(r, &inner, op, true) : emit(r, node->a, op);
        kt_op_place(p, op, kt_op_split(p, next, again));
    }
    for (uint32_t i = node->min; i < node->max && node->max != UINT32_MAX && p->status == KT_OK; i++)
        op = kt_op_split(p, next, emit(r, node->a, op));
    for (uint32_t i = 0; i < node->min && p->status == KT_OK; i++)
        op = emit(r, node->a, op);
    return op;
}

static uint32_t emit(struct reading *r, uint32_t number, uint32_t next)
{
    struct kt_program *p = r->reader->program;
    struct node node = r->nodes[number];
    uint32_t op = 0;
    if (p->status != KT_OK || next == 0)
        return 0;
    switch (node.kind) {
    case EMPTY:
        return next;
    case BYTES:
        return kt_op_text(p, r->bytes.data + node.a, node.b, 0, next);
    case SET:
        return emit_set(r, &node, next, false);
    case RULE:
        return emit_rule(r, node.a, next);
    case REPEAT:
        return emit_repeat(r, &node, next);
    case CAT:
        for (; node.kind == CAT; number = node.a, node = r->nodes[number])
            next = emit(r, node.b, next);
        return emit(r, number, next);
    case ALT:
        for (; node.kind == ALT; number = node.a, node = r->nodes[number])
            op = kt_op_split(p, emit(r, node.b, next), op);
        return kt_op_split(p, emit(r, number, next), op);
    }
    return 0;
}

/* ---- a grammar ---- */

static bool check_rules(struct reading *r)
{
    bool has_root = false;
    for (size_t i = 0; i < r->n_rules && r->reader->status == KT_OK; i++) {
        has_root = has_root || (r->rules[i].length == 4 && memcmp(r->rules[i].name, "root", 4) == 0);
        if (!r->rules[i].is_defined) {
            r->at = r->rules[i].name;
            refuse(r, "there is no rule", r->rules[i].name, r->rules[i].length);
        }
    }
    if (r->reader->status == KT_OK && !has_root)
        refuse(r, "there is no rule 'root' (rules are those of GBNF: name ::= ..)", NULL, 0);
    if (r->reader->status == KT_OK)
        find_empty(r);
    for (size_t i = 0; i < r->n_rules && r->reader->status == KT_OK; i++) {
        if (r->rules[i].state != NEW)
            continue;
        r->rules[i].state = OPEN;
        follow(r, r->rules[i].node);
        r->rules[i].state = DONE;
    }
    return r->reader->status == KT_OK;
}

uint32_t kt_form_rules(struct kt_form_reader *reader, const char *text, uint32_t next)
{
    struct reading r = {.reader = reader, .text = text, .at = text};
    uint32_t op = 0;
    (void)add_node(&r, (struct node){.kind = EMPTY});
    if (reader->status == KT_OK)
        read_rules(&r);
    if (reader->status == KT_OK && check_rules(&r))
        op = emit_rule(&r, find_rule(&r, "root", 4), next);
    free(r.nodes);
    free(r.rules);
    free(r.spans);
    kt_buffer_free(&r.bytes);
    return op;
}
