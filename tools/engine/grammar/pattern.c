/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.c - regular expressions of strings: characters, classes, groups, alternatives, repetitions, and
 * anchors around the whole or its alternatives. Each character is written as JSON writes it. What engines see
 * differently (ECMA's, which JSON Schema means, and others) is left out: \d, \w and \s are ASCII's, and '.'
 * is no end of a line.
 */
#include "tools/engine/grammar/schema.h"
#include "tools/engine/grammar/spans.h"
#include "tools/engine/text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NODES 2048
#define MOST_REPEATS 1000
#define MOST_RANGES 64    /* of a class */
#define MOST_GROUPS 32    /* inside each other */
#define MOST_SIZED 200000 /* operations times lengths */
#define MOST_KEPT 4096    /* operations that read plain characters: a state may have all of them at once */

enum node_kind { EMPTY, SET, CAT, ALT, REPEAT };

struct node {
    enum node_kind kind;
    uint32_t a, b, min, max; /* nodes; of REPEAT how often; of SET the spans */
};

struct regex {
    struct kt_form_reader *reader;
    const struct kt_place *place;
    const char *text;
    size_t at, length;
    struct node *nodes;
    struct kt_span *spans;
    uint32_t n_nodes, n_spans, groups;
    size_t n_kept; /* operations of KT_OP_KEEP */
};

static uint32_t refuse(struct regex *r, const char *what)
{
    kt_form_fail(r->reader, KT_E_UNSUPPORTED, r->place, "the pattern '%.60s' has %s at character %zu",
                 r->text, what, r->at);
    return 0;
}

static uint32_t add_node(struct regex *r, struct node node)
{
    if (r->n_nodes == MOST_NODES)
        return refuse(r, "too many parts");
    r->nodes[r->n_nodes] = node;
    return r->n_nodes++;
}

/* ---- classes ---- */

struct class
{
    struct kt_span spans[MOST_RANGES];
    size_t n;
    bool is_ascii; /* has \d and the like, so its opposite is ASCII's only */
};

static bool add_span(struct regex *r, struct class *class, uint32_t first, uint32_t last)
{
    if (class->n == MOST_RANGES)
        return refuse(r, "too large a class");
    class->spans[class->n++] = (struct kt_span){first, last};
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct kt_span *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* What is in none of the spans. */
static bool invert(struct regex *r, struct class *class)
{
    struct class other = {.is_ascii = class->is_ascii};
    uint32_t from = 0, end = class->is_ascii ? 0x7f : 0x10ffff;
    qsort(class->spans, class->n, sizeof(class->spans[0]), compare);
    for (size_t i = 0; i < class->n; i++) {
        if (class->spans[i].first > from && from <= end &&
            !add_span(r, &other, from, class->spans[i].first - 1 < end ? class->spans[i].first - 1 : end))
            return false;
        from = class->spans[i].last + 1 > from ? class->spans[i].last + 1 : from;
    }
    if (from <= end && !add_span(r, &other, from, end))
        return false;
    *class = other;
    return true;
}

static bool add_named(struct regex *r, struct class *class, char name)
{
    struct class own = {.is_ascii = true};
    const char *spans = strchr("dD", name) ? "09" : strchr("wW", name) ? "09AZ__az" : "\t\r  ";
    for (; *spans; spans += 2)
        if (!add_span(r, &own, (uint8_t)spans[0], (uint8_t)spans[1]))
            return false;
    if (strchr("DWS", name) && !invert(r, &own))
        return false;
    for (size_t i = 0; i < own.n; i++)
        if (!add_span(r, class, own.spans[i].first, own.spans[i].last))
            return false;
    class->is_ascii = true;
    return true;
}

static bool read_hex(struct regex *r, size_t digits, uint32_t *code)
{
    *code = 0;
    for (size_t i = 0; i < digits; i++, r->at++) {
        char c = r->at < r->length ? r->text[r->at] : ' ';
        const char *all = "0123456789abcdef", *found = strchr(all, c | 0x20);
        if (!found || c < '0')
            return refuse(r, "a wrong escape");
        *code = *code * 16 + (uint32_t)(found - all);
    }
    return (*code < 0xd800 || *code > 0xdfff) || refuse(r, "a surrogate");
}

/* A character, or a class of its own (*code is then UINT32_MAX and *name its letter). */
static bool read_character(struct regex *r, uint32_t *code, char *name)
{
    static const char letters[] = "nrtfv", meanings[] = "\n\r\t\f\v";
    if (r->text[r->at] != '\\') {
        r->at += kt_utf8_read(r->text + r->at, r->length - r->at, code);
        return true;
    }
    char c = r->at + 1 < r->length ? r->text[r->at + 1] : 'B';
    r->at += 2;
    const char *letter = strchr(letters, c);
    if (strchr("dDwWsS", c)) {
        *name = c;
        *code = UINT32_MAX;
    } else if (letter) {
        *code = (uint8_t)meanings[letter - letters];
    } else if (c == 'x' || c == 'u') {
        return read_hex(r, c == 'x' ? 2 : 4, code);
    } else if ((uint8_t)c < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
               !(c >= 'a' && c <= 'z')) {
        *code = (uint8_t)c;
    } else {
        return refuse(r, "an escape that is not supported");
    }
    return true;
}

static uint32_t add_set(struct regex *r, const struct class *class)
{
    uint32_t first = r->n_spans;
    if (r->n_spans + class->n > MOST_NODES)
        return refuse(r, "too many classes");
    memcpy(r->spans + r->n_spans, class->spans, class->n * sizeof(class->spans[0]));
    r->n_spans += (uint32_t) class->n;
    return add_node(r, (struct node){.kind = SET, .a = first, .b = (uint32_t) class->n});
}

static uint32_t parse_class(struct regex *r)
{
    struct class class = {.n = 0};
    bool negates = r->at < r->length && r->text[r->at] == '^';
    r->at += negates;
    while (r->at < r->length && r->text[r->at] != ']') {
        uint32_t first, last;
        char name = 0;
        if (!read_character(r, &first, &name))
            return 0;
        bool is_span = r->at + 1 < r->length && r->text[r->at] == '-' && r->text[r->at + 1] != ']';
        last = first;
        if (is_span) {
            r->at++;
            if (!read_character(r, &last, &name))
                return 0;
        }
        if (is_span && (name || last < first))
            return refuse(r, "a wrong range");
        if (name ? !add_named(r, &class, name) : !add_span(r, &class, first, last))
            return 0;
    }
    if (r->at >= r->length)
        return refuse(r, "a class without an end");
    r->at++;
    return negates && !invert(r, &class) ? 0 : add_set(r, &class);
}

/* ---- syntax ---- */

static uint32_t parse_alternatives(struct regex *r);

static uint32_t any_character(struct regex *r)
{
    struct class class = {.n = 4, .spans = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}, {0xd800, 0xdfff}}};
    return invert(r, &class) ? add_set(r, &class) : 0;
}

static uint32_t parse_group(struct regex *r)
{
    if (r->at < r->length && r->text[r->at] == '?') {
        if (r->at + 1 >= r->length || r->text[r->at + 1] != ':')
            return refuse(r, "a group that looks ahead or has a name, which is not supported,");
        r->at += 2;
    }
    if (++r->groups > MOST_GROUPS)
        return refuse(r, "too many groups inside each other");
    uint32_t inner = parse_alternatives(r);
    r->groups--;
    if (r->at >= r->length || r->text[r->at] != ')')
        return refuse(r, "a group without an end");
    r->at++;
    return inner;
}

static uint32_t parse_atom(struct regex *r)
{
    struct class class = {.n = 0};
    uint32_t code;
    char name = 0, c = r->text[r->at];
    if (strchr("*+?{^$", c))
        return refuse(r, c == '^' || c == '$' ? "an anchor inside" : "a repetition of nothing");
    if (strchr("([.", c)) {
        r->at++;
        return c == '(' ? parse_group(r) : c == '[' ? parse_class(r) : any_character(r);
    }
    if (!read_character(r, &code, &name))
        return 0;
    bool done = name ? add_named(r, &class, name) : add_span(r, &class, code, code);
    return done ? add_set(r, &class) : 0;
}

static uint32_t read_number(struct regex *r)
{
    uint32_t n = 0;
    size_t start = r->at;
    for (; r->at < r->length && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        n = n > MOST_REPEATS ? n : n * 10 + (uint32_t)(r->text[r->at] - '0');
    return r->at == start ? UINT32_MAX : n;
}

/* {m}, {m,} or {m,n}. */
static bool read_braces(struct regex *r, uint32_t *min, uint32_t *max)
{
    r->at++;
    *min = *max = read_number(r);
    if (r->at < r->length && r->text[r->at] == ',') {
        r->at++;
        *max = read_number(r);
    }
    bool fits = *min <= MOST_REPEATS && (*max == UINT32_MAX || (*max <= MOST_REPEATS && *max >= *min));
    if (!fits || r->at >= r->length || r->text[r->at] != '}')
        return refuse(r, "a wrong repetition, or one above 1000,");
    r->at++;
    return true;
}

static uint32_t parse_piece(struct regex *r)
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
    return add_node(r, (struct node){.kind = REPEAT, .a = atom, .min = min, .max = max});
}

/* Up to a bar, a bracket or, outside of groups, the anchor at the end. */
static uint32_t parse_sequence(struct regex *r)
{
    uint32_t all = add_node(r, (struct node){.kind = EMPTY});
    while (r->reader->status == KT_OK && r->at < r->length && r->text[r->at] != '|' &&
           r->text[r->at] != ')') {
        if (r->groups == 0 && r->text[r->at] == '$')
            break;
        uint32_t piece = parse_piece(r);
        all = add_node(r, (struct node){.kind = CAT, .a = all, .b = piece});
    }
    return all;
}

/* Without anchors anything may stand around. */
static uint32_t parse_anchored(struct regex *r)
{
    uint32_t any = any_character(r);
    any = add_node(r, (struct node){.kind = REPEAT, .a = any, .max = UINT32_MAX});
    bool begins = r->at < r->length && r->text[r->at] == '^';
    r->at += begins;
    uint32_t all = parse_sequence(r);
    bool ends = r->at < r->length && r->text[r->at] == '$';
    r->at += ends;
    if (r->reader->status == KT_OK && r->at < r->length && r->text[r->at] != '|')
        return refuse(r, "something that is not supported");
    if (!begins)
        all = add_node(r, (struct node){.kind = CAT, .a = any, .b = all});
    return ends ? all : add_node(r, (struct node){.kind = CAT, .a = all, .b = any});
}

static uint32_t parse_alternatives(struct regex *r)
{
    bool is_whole = r->groups == 0;
    uint32_t all = is_whole ? parse_anchored(r) : parse_sequence(r);
    while (r->reader->status == KT_OK && r->at < r->length && r->text[r->at] == '|') {
        r->at++;
        uint32_t other = is_whole ? parse_anchored(r) : parse_sequence(r);
        all = add_node(r, (struct node){.kind = ALT, .a = all, .b = other});
    }
    return all;
}

/* ---- operations ---- */

static uint32_t emit(struct regex *r, uint32_t number, uint32_t next);

/* What may come `limit` times in a row, which masks make use of where it is a set. */
static uint32_t emit_repeated(struct regex *r, uint32_t number, uint32_t limit, uint32_t next)
{
    struct kt_program *p = r->reader->program;
    const struct node node = r->nodes[number];
    size_t first = p->n_ops;
    uint32_t op = emit(r, number, next);
    if (node.kind == SET)
        r->n_kept += kt_op_spans_plain(p, first, r->spans + node.a, node.b, limit);
    return op;
}

static uint32_t emit(struct regex *r, uint32_t number, uint32_t next)
{
    struct kt_program *p = r->reader->program;
    const struct node node = r->nodes[number];
    uint32_t op = 0;
    if (p->status != KT_OK)
        return 0;
    switch (node.kind) {
    case EMPTY:
        return next;
    case SET: /* each character ends with a mark, which kt_op_count is as long as lengths are counted */
        return kt_op_spans(p, r->spans + node.a, node.b, kt_op_count(p, 0, next));
    case CAT:
        return emit(r, node.a, emit(r, node.b, next));
    case ALT:
        return kt_op_split(p, emit(r, node.a, next), emit(r, node.b, next));
    case REPEAT:
        op = next;
        if (node.max == UINT32_MAX) {
            op = kt_op_reserve(p);
            kt_op_place(p, op, kt_op_split(p, next, emit_repeated(r, node.a, UINT32_MAX, op)));
        }
        for (uint32_t i = node.min; i < node.max && node.max != UINT32_MAX; i++)
            op = kt_op_split(p, next, emit_repeated(r, node.a, i - node.min + 1, op));
        for (uint32_t i = 0; i < node.min; i++)
            op = emit_repeated(r, node.a, node.max == UINT32_MAX ? UINT32_MAX : node.max - node.min + i + 1,
                               op);
        return op;
    }
    return 0;
}

/* ---- lengths ---- */

/* Copies of operations, one for each number of characters before them: so what cannot become long enough, or
 * short enough, is seen before it is begun. */
struct sized {
    struct kt_program *program;
    uint32_t first, end, min, max; /* operations first .. end - 1; lengths */
    uint32_t most;                 /* counts above it are one */
    uint32_t final, next;          /* the operation behind the text; where copies of it lead */
    uint32_t *copies;              /* [end - first][most + 1] */
    uint64_t *queue, n_queued;     /* places in `copies` that are only reserved */
};

static uint32_t copy(struct sized *s, uint32_t number, uint32_t n)
{
    if (number == s->final)
        return n >= s->min ? s->next : 0;
    if (number < s->first || number >= s->end)
        return 0;
    uint64_t place = (uint64_t)(number - s->first) * (s->most + 1) + n;
    if (s->copies[place] == 0) {
        s->copies[place] = kt_op_reserve(s->program);
        s->queue[s->n_queued++] = place;
    }
    return s->copies[place];
}

static uint32_t make_copy(struct sized *s, uint32_t number, uint32_t n)
{
    struct kt_program *p = s->program;
    const struct kt_op op = p->ops[number];
    struct kt_range ranges[256];
    switch ((enum kt_op_kind)op.kind) {
    case KT_OP_BYTE:
        return kt_op_byte(p, (uint8_t)op.arg, 0, copy(s, op.next, n));
    case KT_OP_SWITCH:
        for (uint32_t i = 0; i < op.other; i++) {
            ranges[i] = p->ranges[op.arg + i];
            ranges[i].target = copy(s, ranges[i].target, n);
        }
        return kt_op_switch(p, ranges, op.other, 0);
    case KT_OP_SPLIT:
        return kt_op_split(p, copy(s, op.next, n), copy(s, op.other, n));
    case KT_OP_JUMP:
        return copy(s, op.next, n);
    case KT_OP_COUNT:
        return n >= s->max ? 0 : copy(s, op.next, n < s->most ? n + 1 : n);
    default:
        return 0;
    }
}

static uint32_t size(struct regex *r, struct sized *s, uint32_t start)
{
    uint32_t op = 0;
    s->most = s->max == UINT32_MAX ? s->min : s->max;
    uint64_t room = (uint64_t)(s->end - s->first) * ((uint64_t)s->most + 1);
    if (room > MOST_SIZED) {
        kt_form_fail(r->reader, KT_E_RANGE, r->place,
                     "the pattern is too large to be counted up to %u characters", s->most);
        return 0;
    }
    s->copies = calloc((size_t)room + 1, sizeof(*s->copies));
    s->queue = calloc((size_t)room + 1, sizeof(*s->queue));
    if (!s->copies || !s->queue)
        kt_form_no_memory(r->reader);
    else
        op = copy(s, start, 0);
    for (uint64_t i = 0; i < s->n_queued && s->program->status == KT_OK; i++) {
        uint64_t place = s->queue[i], width = (uint64_t)s->most + 1;
        uint32_t made = make_copy(s, s->first + (uint32_t)(place / width), (uint32_t)(place % width));
        kt_op_place(s->program, s->copies[place], made);
    }
    free(s->copies);
    free(s->queue);
    return op;
}

uint32_t kt_form_pattern(struct kt_form_reader *reader, const char *pattern, const struct kt_place *place,
                         uint32_t min, uint32_t max, uint32_t next)
{
    struct regex r = {.reader = reader, .place = place, .text = pattern, .length = strlen(pattern)};
    struct kt_program *p = reader->program;
    uint32_t op = 0, root = 0;
    r.nodes = calloc(MOST_NODES, sizeof(*r.nodes));
    r.spans = calloc(MOST_NODES, sizeof(*r.spans));
    if (r.nodes && r.spans)
        root = parse_alternatives(&r);
    else
        kt_form_no_memory(reader);
    if (reader->status == KT_OK) {
        struct sized s = {.program = p, .min = min, .max = max};
        s.next = kt_op_byte(p, '"', 0, next);
        s.final = min > 0 || max != UINT32_MAX ? kt_op_return(p) : s.next;
        s.first = (uint32_t)p->n_ops;
        op = emit(&r, root, s.final);
        s.end = (uint32_t)p->n_ops;
        if (r.n_kept > MOST_KEPT)
            kt_op_forget_plain(p, s.first);
        if (s.final != s.next)
            op = size(&r, &s, op);
        op = op ? kt_op_byte(p, '"', 0, op) : 0;
    }
    free(r.nodes);
    free(r.spans);
    return op;
}
