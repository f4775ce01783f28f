/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/grammar/spans.h"
#include "tools/engine/grammar/plain.h"
#include "tools/engine/text/utf8.h"

#include <string.h>

/* Groups from which on it is sooner known which tokens have no others than walked to them: most tokens do not
 * fit a smaller set, and their walk ends soon. */
#define WORTH 8

/* Bytes of characters whose UTF-8 is as long as that of both ends. */
static uint32_t encoded(struct kt_program *p, const char *low, const char *high, size_t n, uint32_t next)
{
    if (n == 0)
        return next;
    uint8_t first = low ? (uint8_t)*low : 0x80, last = high ? (uint8_t)*high : 0xbf;
    struct kt_range ranges[3];
    size_t n_ranges = 0;
    if (low && high && first == last)
        return kt_op_byte(p, first, 0, encoded(p, low + 1, high + 1, n - 1, next));
    if (low) {
        ranges[n_ranges++] = (struct kt_range){first, first, encoded(p, low + 1, NULL, n - 1, next)};
        first++;
    }
    if (high) {
        ranges[n_ranges++] = (struct kt_range){last, last, encoded(p, NULL, high + 1, n - 1, next)};
        last--;
    }
    if (first <= last)
        ranges[n_ranges++] = (struct kt_range){first, last, encoded(p, NULL, NULL, n - 1, next)};
    return kt_op_switch(p, ranges, n_ranges, 0);
}

/* A character below U+0080 that has an escape, behind its backslash. */
static uint32_t escaped(struct kt_program *p, uint32_t code, uint32_t next)
{
    static const char meant[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\", hex[] = "0123456789abcdef";
    const char *found = code ? strchr(meant, (int)code) : NULL;
    if (found)
        return kt_op_byte(p, (uint8_t)letters[found - meant], 0, next);
    next = kt_op_byte(p, (uint8_t)hex[code % 16], 0, next);
    return kt_op_text(p, code < 16 ? "u000" : "u001", 4, 0, next);
}

static bool has(const struct kt_span *spans, size_t n, uint32_t code)
{
    for (size_t i = 0; i < n; i++)
        if (spans[i].first <= code && code <= spans[i].last)
            return true;
    return false;
}

/* Those below U+0080: ranges of bytes, at most 64, and escapes. */
static size_t add_ascii(struct kt_program *p, const struct kt_span *spans, size_t n, struct kt_range *ranges,
                        uint32_t next)
{
    size_t n_ranges = 0;
    uint32_t escapes = 0;
    for (uint32_t code = 0; code < 0x80; code++) {
        if (!has(spans, n, code))
            continue;
        if (kt_plain_group(code) == KT_PLAIN_NOT)
            escapes = kt_op_split(p, escaped(p, code, next), escapes);
        else if (n_ranges > 0 && ranges[n_ranges - 1].last + 1u == code)
            ranges[n_ranges - 1].last = (uint8_t)code;
        else
            ranges[n_ranges++] = (struct kt_range){(uint8_t)code, (uint8_t)code, next};
    }
    if (escapes)
        ranges[n_ranges++] = (struct kt_range){'\\', '\\', escapes};
    return n_ranges;
}

/* Whether it has all characters from `from` to `to`. */
static bool covers(const struct kt_span *spans, size_t n, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < n && from <= to; i++)
        if (spans[i].first <= from && spans[i].last >= from) {
            from = spans[i].last + 1;
            i = SIZE_MAX; /* and from the first one again */
        }
    return from > to;
}

static bool is_wide(const struct kt_span *spans, size_t n)
{
    return covers(spans, n, 0x80, 0x2027) && covers(spans, n, 0x202a, 0xd7ff) &&
           covers(spans, n, 0xe000, 0x10ffff);
}

/* All above U+007F, but for U+2028 and U+2029 if they are not meant: E2 80 A8 and E2 80 A9. */
static size_t add_wide(struct kt_program *p, struct kt_range *ranges, bool has_separators, uint32_t next)
{
    size_t n = kt_ranges_utf8(p, ranges, next);
    if (has_separators)
        return n;
    uint32_t one = ranges[0].target, third = kt_op_class(p, "\x80\xa7\xaa\xbf", next);
    const struct kt_range second[] = {{0x80, 0x80, third}, {0x81, 0xbf, one}};
    ranges[n++] = (struct kt_range){0xe2, 0xe2, kt_op_switch(p, second, 2, 0)};
    ranges[n++] = (struct kt_range){0xe3, 0xec, ranges[2].target};
    ranges[2].last = 0xe1; /* it was E1 .. EC */
    return n;
}

/* Characters above U+007F by how long their UTF-8 is. */
static uint32_t emit_span(struct kt_program *p, const struct kt_span *span, uint32_t next)
{
    static const struct kt_span lengths[] = {{0x80, 0x7ff},
                                             {0x800, 0xd7ff},
                                             {0xe000, 0xffff},
                                             {0x10000, 0x10ffff}};
    uint32_t op = 0;
    for (size_t i = 0; i < 4; i++) {
        char low[4], high[4];
        uint32_t first = span->first > lengths[i].first ? span->first : lengths[i].first;
        uint32_t last = span->last < lengths[i].last ? span->last : lengths[i].last;
        if (first > last)
            continue;
        size_t size = kt_utf8_write(first, low);
        (void)kt_utf8_write(last, high);
        op = kt_op_split(p, encoded(p, low, high, size, next), op);
    }
    return op;
}

uint32_t kt_op_spans(struct kt_program *p, const struct kt_span *spans, size_t n, uint32_t next)
{
    struct kt_range ranges[64 + 1 + KT_UTF8_RANGES + 2];
    size_t n_ranges = add_ascii(p, spans, n, ranges, next);
    bool wide = is_wide(spans, n), separators = has(spans, n, 0x2028);
    uint32_t op = 0;
    if (wide && separators == has(spans, n, 0x2029))
        n_ranges += add_wide(p, ranges + n_ranges, separators, next);
    else
        for (size_t i = 0; i < n; i++)
            op = kt_op_split(p, emit_span(p, &spans[i], next), op);
    return n_ranges ? kt_op_split(p, kt_op_switch(p, ranges, n_ranges, 0), op) : op;
}

size_t kt_op_spans_plain(struct kt_program *p, size_t first, const struct kt_span *spans, size_t n,
                         uint32_t limit)
{
    uint32_t groups = is_wide(spans, n) ? KT_PLAIN_ALL : KT_PLAIN_ALL & ~KT_PLAIN_WIDE;
    size_t n_kept = 0, begin = p->n_ops;
    for (uint32_t code = 0; code < 0x80; code++)
        groups &= has(spans, n, code) ? KT_PLAIN_ALL : ~kt_plain_group(code);
    for (size_t i = first; i < p->n_ops; i++) {
        struct kt_op *op = &p->ops[i];
        bool is_switch = op->kind == KT_OP_SWITCH;
        if (is_switch && p->ranges[op->arg].first < 0x80)
            begin = i; /* where characters begin; what goes on is above, and escapes are bytes */
        if (is_switch || (op->kind == KT_OP_BYTE && op->arg >= 0x80)) {
            op->flags |= KT_OP_KEEP;
            n_kept++;
        }
    }
    if (begin == p->n_ops || __builtin_popcount(groups) < WORTH) {
        kt_op_forget_plain(p, first);
        return 0;
    }
    kt_op_plain(p, (uint32_t)begin, groups, limit);
    return n_kept;
}

void kt_op_forget_plain(struct kt_program *p, size_t first)
{
    for (size_t i = first; i < p->n_ops; i++) {
        p->ops[i].flags &= (uint8_t)~KT_OP_KEEP;
        p->ops[i].plain = 0;
    }
}
