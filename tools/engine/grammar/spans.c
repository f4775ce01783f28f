/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/grammar/spans.h"
#include "tools/engine/grammar/plain.h"

#include <stdlib.h>
#include <string.h>

/* Groups from which on it is sooner known which tokens have no others than walked to them: most tokens do not
 * fit a smaller set, and their walk ends soon. */
#define WORTH 8
#define LAST 0x10ffffu

static int compare(const void *a, const void *b)
{
    const struct kt_span *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

size_t kt_spans_merge(struct kt_span *spans, size_t n)
{
    size_t left = 0;
    if (n > 1)
        qsort(spans, n, sizeof(*spans), compare);
    for (size_t i = 0; i < n; i++) {
        if (left == 0 || spans[i].first > spans[left - 1].last + 1)
            spans[left++] = spans[i];
        else if (spans[i].last > spans[left - 1].last)
            spans[left - 1].last = spans[i].last;
    }
    return left;
}

size_t kt_spans_invert(struct kt_span *spans, size_t n)
{
    size_t left = 0;
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        const struct kt_span span = spans[i];
        if (span.first > from)
            spans[left++] = (struct kt_span){from, span.first - 1};
        from = span.last + 1;
    }
    if (from <= LAST)
        spans[left++] = (struct kt_span){from, LAST};
    return left;
}

/* The first span that does not end before a code point; n: none. */
static size_t find(const struct kt_span *spans, size_t n, uint32_t code)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (spans[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has(const struct kt_span *spans, size_t n, uint32_t code)
{
    size_t at = find(spans, n, code);
    return at < n && spans[at].first <= code;
}

static bool covers(const struct kt_span *spans, size_t n, uint32_t from, uint32_t to)
{
    size_t at = find(spans, n, from);
    return at < n && spans[at].first <= from && spans[at].last >= to;
}

/* A range of bytes behind the others; where it touches one with the same target, they are one. */
static void add_range(struct kt_range *ranges, size_t *n, uint32_t byte, uint32_t target)
{
    if (target == 0)
        return;
    if (*n > 0 && ranges[*n - 1].target == target && ranges[*n - 1].last + 1u == byte)
        ranges[*n - 1].last = (uint8_t)byte;
    else
        ranges[(*n)++] = (struct kt_range){(uint8_t)byte, (uint8_t)byte, target};
}

static uint32_t add_switch(struct kt_program *p, const struct kt_range *ranges, size_t n)
{
    if (n == 1 && ranges[0].first == ranges[0].last)
        return kt_op_byte(p, ranges[0].first, 0, ranges[0].target);
    return n > 0 ? kt_op_switch(p, ranges, n, 0) : 0;
}

/* ---- characters below U+0080 ---- */

/* Those that have an escape, behind its backslash. */
static uint32_t escapes(struct kt_program *p, const struct kt_span *spans, size_t n, uint32_t next)
{
    static const char letters[] = "\"\\bfnrt", meant[] = "\"\\\b\f\n\r\t", hex[] = "0123456789abcdef";
    struct kt_range kinds[sizeof(letters)], digits[16], tens[2];
    size_t n_kinds = 0, n_tens = 0;
    for (size_t i = 0; letters[i]; i++)
        if (has(spans, n, (uint8_t)meant[i]))
            kinds[n_kinds++] = (struct kt_range){(uint8_t)letters[i], (uint8_t)letters[i], next};
    for (uint32_t ten = 0; ten < 2; ten++) {
        size_t n_digits = 0;
        for (uint32_t one = 0; one < 16; one++) {
            uint32_t code = 16 * ten + one;
            if (has(spans, n, code) && !(code && strchr(meant, (int)code)))
                add_range(digits, &n_digits, (uint8_t)hex[one], next);
        }
        add_range(tens, &n_tens, '0' + ten, add_switch(p, digits, n_digits));
    }
    uint32_t numbers = add_switch(p, tens, n_tens);
    if (numbers)
        kinds[n_kinds++] = (struct kt_range){'u', 'u', kt_op_text(p, "00", 2, 0, numbers)};
    return add_switch(p, kinds, n_kinds);
}

static bool is_word(uint32_t code)
{
    return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') ||
           code == '_';
}

/* Ranges of bytes, at most 64, and escapes. */
static size_t add_ascii(struct kt_program *p, const struct kt_span *spans, size_t n, struct kt_range *ranges,
                        uint32_t next, uint32_t word)
{
    size_t n_ranges = 0;
    for (uint32_t code = 0; code < 0x80; code++)
        if (has(spans, n, code) && (p->quote != '"' || kt_plain_group(code) != KT_PLAIN_NOT))
            add_range(ranges, &n_ranges, code, is_word(code) ? word : next);
    if (p->quote == '"')
        add_range(ranges, &n_ranges, '\\', escapes(p, spans, n, next));
    return n_ranges;
}

/* ---- characters above U+007F ---- */

struct tree {
    struct kt_program *program;
    const struct kt_span *spans;
    size_t n;
    uint32_t least;  /* of the characters whose UTF-8 is as long */
    uint32_t any[4]; /* what reads any bytes, by their number; 0: not made yet */
};

static uint32_t any_bytes(struct tree *t, unsigned n)
{
    if (t->any[n] == 0)
        t->any[n] = kt_op_class(t->program, "\x80\xbf", any_bytes(t, n - 1));
    return t->any[n];
}

/* The last n bytes of the characters from `from` on; 0: none of them is meant. */
static uint32_t last_bytes(struct tree *t, uint32_t from, unsigned n)
{
    uint32_t to = from + ((1u << (6 * n)) - 1);
    size_t at = find(t->spans, t->n, from), n_ranges = 0;
    struct kt_range ranges[64];
    bool is_surrogate = from <= 0xdfff && to >= 0xd800;
    if (at == t->n || t->spans[at].first > to || to < t->least || from > LAST || (n < 2 && is_surrogate))
        return 0;
    if (n == 0 || (covers(t->spans, t->n, from, to) && from >= t->least && !is_surrogate))
        return any_bytes(t, n);
    for (uint32_t i = 0; i < 64; i++)
        add_range(ranges, &n_ranges, 0x80 + i, last_bytes(t, from + (i << (6 * (n - 1))), n - 1));
    return add_switch(t->program, ranges, n_ranges);
}

static size_t add_wide(struct kt_program *p, const struct kt_span *spans, size_t n, struct kt_range *ranges,
                       uint32_t next)
{
    static const struct {
        uint32_t first, last, least;
        unsigned n; /* bytes behind it */
    } leads[] = {{0xc2, 0xdf, 0x80, 1}, {0xe0, 0xef, 0x800, 2}, {0xf0, 0xf4, 0x10000, 3}};
    struct tree t = {p, spans, n, 0, {next}};
    size_t n_ranges = 0;
    for (size_t k = 0; k < 3; k++) {
        t.least = leads[k].least;
        for (uint32_t byte = leads[k].first; byte <= leads[k].last; byte++)
            add_range(ranges, &n_ranges, byte,
                      last_bytes(&t, (byte & (0x3fu >> leads[k].n)) << (6 * leads[k].n), leads[k].n));
    }
    return n_ranges;
}

uint32_t kt_op_spans(struct kt_program *p, const struct kt_span *spans, size_t n, uint32_t next,
                     uint32_t word)
{
    struct kt_range ranges[64 + 1 + 64];
    size_t n_ranges = 0;
    if (next == 0 && word == 0)
        return 0;
    n_ranges = add_ascii(p, spans, n, ranges, next, word);
    if (next && n > 0 && spans[n - 1].last >= 0x80)
        n_ranges += add_wide(p, spans, n, ranges + n_ranges, next);
    return n_ranges > 0 ? kt_op_switch(p, ranges, n_ranges, 0) : 0;
}

/* ---- what masks need not look at ---- */

/* Whether it has all characters above U+007F that have a group. */
static bool is_wide(const struct kt_span *spans, size_t n)
{
    for (size_t i = 0; i < KT_PLAIN_WIDE_SPANS; i++)
        if (!covers(spans, n, kt_plain_wide[i][0], kt_plain_wide[i][1]))
            return false;
    return true;
}

size_t kt_op_spans_plain(struct kt_program *p, size_t first, const struct kt_span *spans, size_t n,
                         uint32_t limit)
{
    uint32_t groups = is_wide(spans, n) ? KT_PLAIN_ALL : KT_PLAIN_ALL & ~KT_PLAIN_WIDE;
    size_t n_kept = 0;
    for (uint32_t code = 0; code < 0x80; code++)
        groups &= has(spans, n, code) ? KT_PLAIN_ALL : ~kt_plain_group(code);
    if (first == p->n_ops || p->status != KT_OK || __builtin_popcount(groups) < WORTH)
        return 0;
    for (size_t i = first; i < p->n_ops; i++) {
        struct kt_op *op = &p->ops[i];
        bool is_switch = op->kind == KT_OP_SWITCH;
        /* Where characters begin, which was made last, and where those above U+007F go on. */
        if (i + 1 == p->n_ops || (is_switch && p->ranges[op->arg].first >= 0x80) ||
            (op->kind == KT_OP_BYTE && op->arg >= 0x80)) {
            op->flags |= KT_OP_KEEP;
            n_kept++;
        }
    }
    kt_op_plain(p, (uint32_t)p->n_ops - 1, groups, limit);
    return n_kept;
}

void kt_op_forget_plain(struct kt_program *p, size_t first)
{
    for (size_t i = first; i < p->n_ops; i++) {
        p->ops[i].flags &= (uint8_t)~KT_OP_KEEP;
        p->ops[i].plain = 0;
    }
}
