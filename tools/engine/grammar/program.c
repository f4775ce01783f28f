/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - operations, and how many frames each of them needs. */
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/program.h"

#include <stdlib.h>
#include <string.h>

static uint32_t add(struct kt_program *p, struct kt_op op)
{
    if (p->status != KT_OK)
        return 0;
    struct kt_op *grown = kt_array_grow(p->ops, &p->ops_capacity, p->n_ops + 1, sizeof(*grown));
    if (!grown || p->n_ops >= KT_GRAMMAR_MOST_OPS) {
        p->ops = grown ? grown : p->ops;
        p->status = grown ? KT_E_RANGE : KT_E_NOMEM;
        return 0;
    }
    p->ops = grown;
    grown[p->n_ops] = op;
    return (uint32_t)p->n_ops++;
}

void kt_program_init(struct kt_program *program)
{
    *program = (struct kt_program){.quote = '"'};
    (void)add(program, (struct kt_op){.kind = KT_OP_FAIL});
}

void kt_program_free(struct kt_program *program)
{
    free(program->ops);
    free(program->ranges);
    program->ops = NULL;
    program->ranges = NULL;
}

uint32_t kt_op_byte(struct kt_program *p, uint8_t byte, uint32_t flags, uint32_t next)
{
    return add(p, (struct kt_op){.kind = KT_OP_BYTE, .flags = (uint8_t)flags, .arg = byte, .next = next});
}

uint32_t kt_op_switch(struct kt_program *p, const struct kt_range *ranges, size_t n, uint32_t flags)
{
    struct kt_range *grown =
        p->status == KT_OK ? kt_array_grow(p->ranges, &p->ranges_capacity, p->n_ranges + n, sizeof(*grown))
                           : NULL;
    if (!grown) {
        p->status = p->status == KT_OK ? KT_E_NOMEM : p->status;
        return 0;
    }
    p->ranges = grown;
    memcpy(grown + p->n_ranges, ranges, n * sizeof(*ranges));
    p->n_ranges += n;
    return add(p, (struct kt_op){.kind = KT_OP_SWITCH,
                                 .flags = (uint8_t)flags,
                                 .arg = (uint32_t)(p->n_ranges - n),
                                 .other = (uint32_t)n});
}

uint32_t kt_op_split(struct kt_program *p, uint32_t next, uint32_t other)
{
    if (next == 0 || other == 0) /* KT_OP_FAIL */
        return next ? next : other;
    return add(p, (struct kt_op){.kind = KT_OP_SPLIT, .next = next, .other = other});
}

void kt_op_plain(struct kt_program *p, uint32_t op, uint32_t groups, uint32_t limit)
{
    if (p->status == KT_OK) {
        p->ops[op].plain = groups;
        p->ops[op].limit = limit;
    }
}

uint32_t kt_op_call(struct kt_program *p, uint32_t rule, uint32_t next)
{
    if (p->status == KT_OK && p->ops[next].kind == KT_OP_RETURN)
        return rule;
    return add(p, (struct kt_op){.kind = KT_OP_CALL, .next = next, .other = rule});
}

uint32_t kt_op_return(struct kt_program *p)
{
    return add(p, (struct kt_op){.kind = KT_OP_RETURN});
}

uint32_t kt_op_count(struct kt_program *p, uint32_t most, uint32_t next)
{
    return add(p, (struct kt_op){.kind = KT_OP_COUNT, .arg = most, .next = next});
}

uint32_t kt_op_less(struct kt_program *p, uint32_t bound, uint32_t next, uint32_t other)
{
    return add(p, (struct kt_op){.kind = KT_OP_LESS, .arg = bound, .next = next, .other = other});
}

uint32_t kt_op_reserve(struct kt_program *p)
{
    return add(p, (struct kt_op){.kind = KT_OP_JUMP});
}

void kt_op_place(struct kt_program *p, uint32_t reserved, uint32_t next)
{
    if (p->status == KT_OK)
        p->ops[reserved].next = next;
}

uint32_t kt_op_quote(struct kt_program *p, uint32_t next)
{
    if (p->quote != KT_GRAMMAR_BARE)
        return kt_op_byte(p, p->quote, 0, next);
    uint32_t op = kt_op_reserve(p);
    kt_op_place(p, op, next);
    return op;
}

uint32_t kt_op_text(struct kt_program *p, const char *text, size_t length, uint32_t flags, uint32_t next)
{
    while (length > 0)
        next = kt_op_byte(p, (uint8_t)text[--length], flags, next);
    return next;
}

uint32_t kt_op_class(struct kt_program *p, const char *ranges, uint32_t next)
{
    struct kt_range list[8];
    size_t n = 0;
    for (; ranges[2 * n] && n < 8; n++)
        list[n] = (struct kt_range){(uint8_t)ranges[2 * n], (uint8_t)ranges[2 * n + 1], next};
    return kt_op_switch(p, list, n, 0);
}

/* Unicode's table of well-formed UTF-8. */
size_t kt_ranges_utf8(struct kt_program *p, struct kt_range *ranges, uint32_t next)
{
    uint32_t one = kt_op_class(p, "\x80\xbf", next), two = kt_op_class(p, "\x80\xbf", one);
    const struct kt_range list[KT_UTF8_RANGES] = {{0xc2, 0xdf, one},
                                                  {0xe0, 0xe0, kt_op_class(p, "\xa0\xbf", one)},
                                                  {0xe1, 0xec, two},
                                                  {0xed, 0xed, kt_op_class(p, "\x80\x9f", one)},
                                                  {0xee, 0xef, two},
                                                  {0xf0, 0xf0, kt_op_class(p, "\x90\xbf", two)},
                                                  {0xf1, 0xf3, kt_op_class(p, "\x80\xbf", two)},
                                                  {0xf4, 0xf4, kt_op_class(p, "\x80\x8f", two)}};
    memcpy(ranges, list, sizeof(list));
    return KT_UTF8_RANGES;
}

/* ---- heights ---- */

#define NEVER UINT16_MAX

static uint16_t least(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static uint16_t height_of(const struct kt_program *p, const struct kt_op *op)
{
    uint16_t height = NEVER, inner;
    switch ((enum kt_op_kind)op->kind) {
    case KT_OP_FAIL:
        return NEVER;
    case KT_OP_RETURN:
        return 0;
    case KT_OP_BYTE:
    case KT_OP_JUMP:
    case KT_OP_COUNT:
        return p->ops[op->next].height;
    case KT_OP_SWITCH:
        for (uint32_t i = 0; i < op->other; i++)
            height = least(height, p->ops[p->ranges[op->arg + i].target].height);
        return height;
    case KT_OP_SPLIT:
    case KT_OP_LESS:
        return least(p->ops[op->next].height, p->ops[op->other].height);
    case KT_OP_CALL:
        inner = p->ops[op->other].height < NEVER - 1 ? (uint16_t)(p->ops[op->other].height + 1) : NEVER;
        return p->ops[op->next].height > inner ? p->ops[op->next].height : inner;
    }
    return NEVER;
}

static uint32_t count_targets(const struct kt_op *op)
{
    switch ((enum kt_op_kind)op->kind) {
    case KT_OP_FAIL:
    case KT_OP_RETURN:
        return 0;
    case KT_OP_SWITCH:
        return op->other;
    case KT_OP_SPLIT:
    case KT_OP_LESS:
    case KT_OP_CALL:
        return 2;
    default:
        return 1;
    }
}

static uint32_t target_of(const struct kt_program *p, const struct kt_op *op, uint32_t i)
{
    return op->kind == KT_OP_SWITCH ? p->ranges[op->arg + i].target : i > 0 ? op->other : op->next;
}

/* Which operations lead to each: from[first[i]] .. from[first[i + 1] - 1]; and two lists of operations, with
 * those of the second one marked. */
struct sources {
    uint32_t *first, *from, *now, *later;
    bool *waits;
};

static bool find_sources(const struct kt_program *p, struct sources *s)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_ops; i++)
        n += count_targets(&p->ops[i]);
    s->first = calloc(p->n_ops + 2, sizeof(*s->first));
    s->from = malloc((n + 1) * sizeof(*s->from));
    s->now = malloc((p->n_ops + 1) * sizeof(*s->now));
    s->later = malloc((p->n_ops + 1) * sizeof(*s->later));
    s->waits = calloc(p->n_ops + 1, sizeof(*s->waits));
    if (!s->first || !s->from || !s->now || !s->later || !s->waits)
        return false;
    for (size_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < count_targets(&p->ops[i]); k++)
            s->first[target_of(p, &p->ops[i], k) + 2]++;
    for (size_t i = 2; i < p->n_ops + 2; i++)
        s->first[i] += s->first[i - 1];
    for (size_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; k < count_targets(&p->ops[i]); k++)
            s->from[s->first[target_of(p, &p->ops[i], k) + 1]++] = (uint32_t)i;
    return true;
}

/* An operation of which a way to the end was found, higher than the ones that are done: it may get lower. */
static void wait(struct sources *s, uint32_t op, size_t *n_later)
{
    if (!s->waits[op])
        s->later[(*n_later)++] = op;
    s->waits[op] = true;
}

/* In the order of heights, so each operation is done once: those that lead to one of `height` have that
 * height, or, if they call it, one more, or that of what follows the call. */
static void compute_heights(struct kt_program *p, struct sources *s)
{
    size_t n = 0, n_later = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        p->ops[i].height = p->ops[i].kind == KT_OP_RETURN ? 0 : NEVER;
        if (p->ops[i].kind == KT_OP_RETURN)
            s->now[n++] = (uint32_t)i;
    }
    for (uint16_t height = 0; n > 0 || n_later > 0; height++) {
        for (size_t k = 0; k < n; k++) {
            uint32_t op = s->now[k];
            for (uint32_t e = s->first[op]; p->ops[op].height == height && e < s->first[op + 1]; e++) {
                struct kt_op *source = &p->ops[s->from[e]];
                uint16_t found = height_of(p, source);
                if (found < source->height && found == height)
                    s->now[n++] = s->from[e];
                else if (found < source->height)
                    wait(s, s->from[e], &n_later);
                source->height = least(found, source->height);
            }
        }
        size_t waiting = n_later;
        n = n_later = 0;
        for (size_t k = 0; k < waiting; k++) { /* but those that were found to be lower after all */
            uint32_t op = s->later[k];
            s->waits[op] = false;
            if (p->ops[op].height == height + 1)
                s->now[n++] = op;
            else if (p->ops[op].height > height)
                wait(s, op, &n_later);
        }
    }
}

static void judge_plain(struct kt_program *p)
{
    for (size_t i = 0; i < p->n_ops; i++) {
        struct kt_op *op = &p->ops[i];
        if (op->flags & KT_OP_ALIKE && (op->height == NEVER || op->height != p->ops[op->limit].height))
            p->ops[op->limit].plain = 0;
    }
    for (size_t i = 0; i < p->n_ops; i++) {
        struct kt_op *op = &p->ops[i];
        if (!(op->flags & KT_OP_ALIKE))
            continue;
        op->plain = p->ops[op->limit].plain ? op->plain : 0;
        op->limit = UINT32_MAX;
        op->flags &= (uint8_t)~KT_OP_ALIKE;
    }
}

static void free_sources(struct sources *s)
{
    free(s->first);
    free(s->from);
    free(s->now);
    free(s->later);
    free(s->waits);
}

enum kt_status kt_program_finish(struct kt_program *p, uint32_t start)
{
    struct sources s = {.first = NULL};
    if (p->status == KT_OK && find_sources(p, &s))
        compute_heights(p, &s);
    else if (p->status == KT_OK)
        p->status = KT_E_NOMEM;
    free_sources(&s);
    p->start = start;
    if (p->status != KT_OK)
        return p->status;
    judge_plain(p);
    return p->ops[start].height == NEVER             ? KT_E_INVALID
           : p->ops[start].height < KT_GRAMMAR_DEPTH ? KT_OK
                                                     : KT_E_RANGE;
}
