/* SPDX-License-Identifier: Apache-2.0 */
/* found.c - the nodes of a regular expression as operations. Each character is written as JSON writes it. */
#include "tools/engine/grammar/pattern.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SIZED 200000 /* operations times lengths and places */
#define MOST_KEPT 4096    /* operations that read plain characters: a state may have all of them at once */
#define MANY 32           /* spans: a set of more is read by a rule of its own */

/* What is behind and before a place between characters, and what is asked of the next one. */
enum { AT_BEGIN, AFTER_OTHER, AFTER_WORD, N_BEHIND };
enum { ANY, WORD, OTHER, END, N_AHEAD }; /* OTHER: no character of a word, or the end */
#define N_PLACES (N_BEHIND * N_AHEAD)

/* Operations of nodes, and copies of them, one for each number of characters before them: so what cannot
 * become long enough, or short enough, is seen before it is begun; and one for each kind of place, if the
 * expression asks for places. */
struct writer {
    struct kt_regex *regex;
    struct kt_program *program;
    size_t n_kept;                 /* operations of KT_OP_KEEP */
    uint32_t first, end, min, max; /* operations first .. end - 1; lengths */
    uint32_t most, n_places;       /* counts above it are one; places that are told apart */
    uint32_t final, next;          /* the operation behind the text; where copies of it lead */
    uint32_t leader;               /* the first copy that any number of characters may follow */
    uint32_t *copies;              /* [end - first][most + 1][n_places] */
    uint64_t *queue, n_queued;     /* places in `copies` that are only reserved */
};

/* ---- operations ---- */

static uint32_t emit(struct writer *w, uint32_t number, uint32_t next);

/* A set: each character ends with a mark, which kt_op_count is as long as lengths are counted; it says
 * whether the character is one of a word. */
static uint32_t emit_set(struct writer *w, uint32_t number, uint32_t next)
{
    struct kt_program *p = w->program;
    struct kt_node *node = &w->regex->nodes[number];
    const struct kt_span *spans = w->regex->spans + node->a;
    uint32_t other = kt_op_count(p, 0, next), word = w->n_places > 1 ? kt_op_count(p, 1, next) : other;
    if (next == 0 || node->b == 0)
        return 0;
    if (node->b <= MANY)
        return kt_op_spans(p, spans, node->b, other, word);
    struct kt_span ascii[MANY * 2 + 2];
    uint32_t n = 0;
    while (n < node->b && spans[n].first < 0x80) {
        ascii[n] = spans[n];
        ascii[n].last = ascii[n].last < 0x80 ? ascii[n].last : 0x7f;
        n++;
    }
    if (node->rule == 0) {
        struct kt_span *rest = malloc(node->b * sizeof(*rest));
        uint32_t n_rest = 0, end = kt_op_return(p);
        for (uint32_t i = 0; i < node->b && rest; i++)
            if (spans[i].last >= 0x80)
                rest[n_rest++] =
                    (struct kt_span){spans[i].first < 0x80 ? 0x80 : spans[i].first, spans[i].last};
        if (!rest)
            kt_form_no_memory(w->regex->reader);
        node->rule = rest ? kt_op_spans(p, rest, n_rest, end, end) : 0;
        free(rest);
    }
    uint32_t wide = node->rule ? kt_op_call(p, node->rule, other) : 0;
    return kt_op_split(p, kt_op_spans(p, ascii, n, other, word), wide);
}

/* What may come `limit` times in a row, which masks make use of where it is a set. */
static uint32_t emit_repeated(struct writer *w, uint32_t number, uint32_t limit, uint32_t next)
{
    const struct kt_node node = w->regex->nodes[number];
    size_t first = w->program->n_ops;
    uint32_t op = emit(w, number, next);
    if (node.kind == KT_NODE_SET && node.b <= MANY)
        w->n_kept += kt_op_spans_plain(w->program, first, w->regex->spans + node.a, node.b, limit);
    return op;
}

static uint32_t emit_repeat(struct writer *w, const struct kt_node *node, uint32_t next)
{
    struct kt_program *p = w->program;
    uint32_t op = next, max = node->max;
    if (max == UINT32_MAX) {
        op = kt_op_reserve(p);
        kt_op_place(p, op, kt_op_split(p, next, emit_repeated(w, node->a, UINT32_MAX, op)));
    }
    for (uint32_t i = node->min; i < max && max != UINT32_MAX; i++)
        op = kt_op_split(p, next, emit_repeated(w, node->a, i - node->min + 1, op));
    for (uint32_t i = 0; i < node->min; i++)
        op = emit_repeated(w, node->a, max == UINT32_MAX ? UINT32_MAX : max - node->min + i + 1, op);
    return op;
}

static uint32_t emit(struct writer *w, uint32_t number, uint32_t next)
{
    struct kt_program *p = w->program;
    const struct kt_node node = w->regex->nodes[number];
    if (p->status != KT_OK || next == 0)
        return 0;
    switch (node.kind) {
    case KT_NODE_EMPTY:
        return next;
    case KT_NODE_SET:
        return emit_set(w, number, next);
    case KT_NODE_CAT:
        return emit(w, node.a, emit(w, node.b, next));
    case KT_NODE_ALT:
        return kt_op_split(p, emit(w, node.a, next), emit(w, node.b, next));
    case KT_NODE_REPEAT:
        return emit_repeat(w, &node, next);
    case KT_NODE_HERE: /* a mark for copies */
        return kt_op_less(p, node.a, next, 0);
    }
    return 0;
}

/* ---- copies ---- */

/* Where a copy of an operation is: characters before it, and the kind of place. */
struct where {
    uint32_t n, behind, ahead;
};

static uint32_t copy(struct writer *w, uint32_t number, struct where at)
{
    if (number == w->final)
        return at.n >= w->min && at.ahead != WORD ? w->next : 0;
    if (number < w->first || number >= w->end)
        return 0;
    uint64_t place = ((uint64_t)(number - w->first) * (w->most + 1) + at.n) * w->n_places;
    place += w->n_places > 1 ? at.behind * N_AHEAD + at.ahead : 0;
    if (w->copies[place] == 0) {
        w->copies[place] = kt_op_reserve(w->program);
        w->queue[w->n_queued++] = place;
    }
    return w->copies[place];
}

/* Behind a character. */
static uint32_t copy_mark(struct writer *w, const struct kt_op *op, struct where at)
{
    bool is_word = op->arg == 1;
    if (at.n >= w->max || at.ahead == END || (at.ahead == WORD && !is_word) || (at.ahead == OTHER && is_word))
        return 0;
    at.n += at.n < w->most;
    at.behind = is_word ? AFTER_WORD : AFTER_OTHER;
    at.ahead = ANY;
    return copy(w, op->next, at);
}

static uint32_t copy_here(struct writer *w, const struct kt_op *op, struct where at)
{
    uint32_t asked = END;
    if (op->arg == KT_HERE_BEGIN)
        return at.behind == AT_BEGIN ? copy(w, op->next, at) : 0;
    if (op->arg != KT_HERE_END)
        asked = (op->arg == KT_HERE_BORDER) == (at.behind == AFTER_WORD) ? OTHER : WORD;
    if (at.ahead == ANY || (at.ahead == OTHER && asked == END))
        at.ahead = asked;
    else if (at.ahead != asked && !(at.ahead == END && asked == OTHER))
        return 0;
    return copy(w, op->next, at);
}

/* What is known of the original for masks holds for its copy, if all copies can be ended alike. */
static void copy_plain(struct writer *w, const struct kt_op *op, struct where at, uint32_t made)
{
    struct kt_program *p = w->program;
    if (made == 0 || p->status != KT_OK || w->most > 0 || at.ahead != ANY || !(op->flags & KT_OP_KEEP))
        return;
    p->ops[made].flags |= KT_OP_KEEP;
    w->n_kept++;
    if (op->plain == 0 || op->limit != UINT32_MAX)
        return;
    w->leader = w->leader ? w->leader : made;
    p->ops[made].flags |= KT_OP_ALIKE;
    kt_op_plain(p, made, op->plain, w->leader);
}

static uint32_t make_copy(struct writer *w, uint32_t number, struct where at)
{
    struct kt_program *p = w->program;
    const struct kt_op op = p->ops[number];
    struct kt_range ranges[256];
    uint32_t made = 0;
    switch ((enum kt_op_kind)op.kind) {
    case KT_OP_BYTE:
        made = kt_op_byte(p, (uint8_t)op.arg, 0, copy(w, op.next, at));
        break;
    case KT_OP_SWITCH:
        for (uint32_t i = 0; i < op.other; i++) {
            ranges[i] = p->ranges[op.arg + i];
            ranges[i].target = copy(w, ranges[i].target, at);
        }
        made = kt_op_switch(p, ranges, op.other, 0);
        break;
    case KT_OP_SPLIT:
        return kt_op_split(p, copy(w, op.next, at), copy(w, op.other, at));
    case KT_OP_JUMP:
        return copy(w, op.next, at);
    case KT_OP_CALL:
        return kt_op_call(p, op.other, copy(w, op.next, at));
    case KT_OP_COUNT:
        return copy_mark(w, &op, at);
    case KT_OP_LESS:
        return copy_here(w, &op, at);
    default:
        return 0;
    }
    copy_plain(w, &op, at, made);
    return made;
}

static uint32_t make_copies(struct writer *w, uint32_t start)
{
    struct kt_form_reader *reader = w->regex->reader;
    uint64_t width = ((uint64_t)w->most + 1) * w->n_places, room = (w->end - w->first) * width;
    uint32_t op = 0;
    w->n_kept = 0;
    if (room > MOST_SIZED) {
        kt_form_fail(
            reader, KT_E_RANGE, w->regex->place,
            "the pattern is too large to be counted up to %u characters, or to have \\b, ^ or $ inside",
            w->most);
        return 0;
    }
    w->copies = calloc((size_t)room + 1, sizeof(*w->copies));
    w->queue = calloc((size_t)room + 1, sizeof(*w->queue));
    if (!w->copies || !w->queue)
        kt_form_no_memory(reader);
    else
        op = copy(w, start, (struct where){0, AT_BEGIN, ANY});
    for (uint64_t i = 0; i < w->n_queued && w->program->status == KT_OK; i++) {
        uint64_t place = w->queue[i], rest = place % width, kind = rest % w->n_places;
        const struct where at = {(uint32_t)(rest / w->n_places), (uint32_t)(kind / N_AHEAD),
                                 (uint32_t)(kind % N_AHEAD)};
        uint32_t made = make_copy(w, w->first + (uint32_t)(place / width), at);
        kt_op_place(w->program, w->copies[place], made);
    }
    free(w->copies);
    free(w->queue);
    return op;
}

/* ---- the whole ---- */

/* Whether w->next is reached from an operation, and so any text fits. All that is between was made after it.
 */
static bool is_reached(const struct writer *w, uint32_t from)
{
    const struct kt_program *p = w->program;
    uint32_t base = w->next, n = 0;
    uint32_t *queue = malloc((p->n_ops - base + 1) * sizeof(*queue));
    bool *seen = calloc(p->n_ops - base + 1, sizeof(*seen));
    if (!queue || !seen)
        kt_form_no_memory(w->regex->reader);
    else
        seen[(queue[n++] = from) - base] = true;
    for (uint32_t i = 0; i < n && !seen[0]; i++) {
        const struct kt_op *op = &p->ops[queue[i]];
        bool is_switch = op->kind == KT_OP_SWITCH;
        for (uint32_t k = 0; k < (is_switch ? op->other : op->kind == KT_OP_SPLIT ? 2u : 1u); k++) {
            uint32_t target = is_switch ? p->ranges[op->arg + k].target : k == 0 ? op->next : op->other;
            if (target < base || seen[target - base])
                continue;
            seen[target - base] = true;
            queue[n++] = target;
        }
    }
    bool found = seen && seen[0];
    free(queue);
    free(seen);
    return found;
}

uint32_t kt_regex_write(struct kt_regex *r, uint32_t root, uint32_t min, uint32_t max, uint32_t next)
{
    struct kt_program *p = r->reader->program;
    struct writer w = {.regex = r, .program = p, .min = min, .max = max};
    bool copies = min > 0 || max != UINT32_MAX || r->has_places;
    w.most = max == UINT32_MAX ? min : max;
    w.n_places = r->has_places ? N_PLACES : 1;
    w.next = kt_op_quote(p, next);
    w.final = copies ? kt_op_return(p) : w.next;
    w.first = (uint32_t)p->n_ops;
    uint32_t op = emit(&w, root, w.final);
    w.end = (uint32_t)p->n_ops;
    if (w.n_kept > MOST_KEPT)
        kt_op_forget_plain(p, w.first);
    if (copies && op && p->status == KT_OK) {
        op = make_copies(&w, op);
        if (w.n_kept > MOST_KEPT)
            kt_op_forget_plain(p, w.end);
    }
    return op && p->status == KT_OK && is_reached(&w, op) ? kt_op_quote(p, op) : 0;
}
