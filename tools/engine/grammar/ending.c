/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.c - the shortest way to the end of an answer, for a model that wants to end and may not: without it,
 * it would write whatever is likely next, in a string or in its reasoning forever.
 */
#include "tools/engine/base/fail.h"
#include "tools/engine/grammar/place.h"

#include <stdlib.h>
#include <string.h>

#define MOST_COST 500000  /* of kt_machine.cost: some 6 ms */
#define MOST_PLACES 8192  /* that are looked at */
#define MOST_STATES 16384 /* of the machine */
#define NEVER (1u << 28)
#define MOST_PASSES 64

/* A place that was reached, and how. */
struct reached {
    uint32_t state, before, length, rank;
    uint8_t byte;
};

/* The least first. */
struct search {
    struct kt_constraint *c;
    struct reached *reached;
    uint32_t *heap;
    uint8_t *seen, *path; /* the path stands backwards */
    size_t n, n_heap;
};

/* ---- distances ---- */

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a + b < NEVER ? a + b : NEVER;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t distance(const struct kt_program *p, const uint32_t *known, const struct kt_op *op)
{
    uint32_t found = NEVER;
    switch (op->kind) {
    case KT_OP_BYTE:
        return sum(1, known[op->next]);
    case KT_OP_SWITCH:
        for (uint32_t i = 0; i < op->other; i++)
            found = least(found, sum(1, known[p->ranges[op->arg + i].target]));
        return found;
    case KT_OP_JUMP:
    case KT_OP_COUNT:
        return known[op->next];
    case KT_OP_SPLIT:
    case KT_OP_LESS: /* what the counter is nobody knows here */
        return least(known[op->next], known[op->other]);
    case KT_OP_CALL:
        return sum(known[op->other], known[op->next]);
    case KT_OP_RETURN:
        return 0;
    default:
        return NEVER;
    }
}

/* A program is written backwards, so few passes do. */
static uint32_t *measure(const struct kt_program *p)
{
    uint32_t *known = calloc(p->n_ops + 1, sizeof(*known));
    bool changed = known != NULL;
    for (size_t i = 0; known && i < p->n_ops; i++)
        known[i] = NEVER;
    for (unsigned pass = 0; changed && pass < MOST_PASSES; pass++) {
        changed = false;
        for (size_t i = 1; i < p->n_ops; i++) {
            uint32_t found = distance(p, known, &p->ops[i]);
            changed = changed || found < known[i];
            known[i] = least(found, known[i]);
        }
    }
    return known;
}

/* Bytes from a state to the end, at least. */
static uint32_t rest_of(const struct kt_constraint *c, uint32_t number)
{
    const struct kt_machine *m = &c->machine;
    const struct kt_state *state = &m->states[number];
    uint32_t found = state->accepts ? 0 : NEVER;
    for (uint32_t i = 0; i < state->n; i++) {
        uint32_t all = 0;
        for (uint32_t at = m->members[state->first + i]; at; at = m->frames[at].parent)
            all = sum(all, c->distances[m->frames[at].op]);
        found = least(found, all);
    }
    return found;
}

/* ---- the search ---- */

static bool is_before(const struct search *s, size_t a, size_t b)
{
    return s->reached[s->heap[a]].rank < s->reached[s->heap[b]].rank;
}

static void swap(struct search *s, size_t a, size_t b)
{
    uint32_t kept = s->heap[a];
    s->heap[a] = s->heap[b];
    s->heap[b] = kept;
}

static void push(struct search *s, uint32_t place)
{
    size_t at = s->n_heap++;
    s->heap[at] = place;
    for (; at > 0 && is_before(s, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(s, at, (at - 1) / 2);
}

static uint32_t pop(struct search *s)
{
    uint32_t first = s->heap[0];
    s->heap[0] = s->heap[--s->n_heap];
    for (size_t at = 0, child; (child = 2 * at + 1) < s->n_heap; at = child) {
        child += child + 1 < s->n_heap && is_before(s, child + 1, child);
        if (!is_before(s, child, at))
            break;
        swap(s, at, child);
    }
    return first;
}

/* Bytes that may lead to different places: of each range one. */
static size_t list_bytes(const struct kt_machine *m, uint32_t number, uint8_t bytes[256])
{
    const struct kt_state *state = &m->states[number];
    bool known[256] = {false};
    size_t n = 0;
    for (uint32_t i = 0; i < state->n; i++) {
        const struct kt_op *op = &m->program->ops[m->frames[m->members[state->first + i]].op];
        uint32_t n_ranges = op->kind == KT_OP_SWITCH ? op->other : 1;
        for (uint32_t k = 0; k < n_ranges; k++) {
            uint8_t byte =
                op->kind == KT_OP_SWITCH ? m->program->ranges[op->arg + k].first : (uint8_t)op->arg;
            if (!known[byte])
                bytes[n++] = byte;
            known[byte] = true;
        }
    }
    return n;
}

/* A state that was not seen yet. */
static void reach(struct search *s, uint32_t state, uint32_t before, uint8_t byte)
{
    if (state == 0 || state >= MOST_STATES || s->n >= MOST_PLACES || s->seen[state / 8] >> state % 8 & 1)
        return;
    s->seen[state / 8] |= (uint8_t)(1 << state % 8);
    uint32_t length = s->n ? s->reached[before].length + 1 : 0;
    s->reached[s->n] = (struct reached){state, before, length, sum(length, rest_of(s->c, state)), byte};
    push(s, (uint32_t)s->n++);
}

/* The length of the path; 0: none was found in time. */
static size_t find_path(struct search *s)
{
    struct kt_machine *m = &s->c->machine;
    uint64_t most_cost = m->cost + MOST_COST;
    reach(s, s->c->state, 0, 0);
    while (s->n_heap > 0 && m->cost < most_cost && !m->failed) {
        uint32_t at = pop(s), state = s->reached[at].state;
        uint8_t bytes[256];
        if (m->states[state].accepts) {
            size_t length = 0;
            for (; at > 0; at = s->reached[at].before)
                s->path[length++] = s->reached[at].byte;
            return length;
        }
        size_t n = list_bytes(m, state, bytes);
        for (size_t i = 0; i < n; i++)
            reach(s, kt_machine_step(m, state, bytes[i], false), at, bytes[i]);
    }
    return 0;
}

/* ---- tokens ---- */

/* Those that are a beginning of the path. */
static bool mask_beginnings(struct search *s, size_t length)
{
    const struct kt_vocabulary *v = s->c->vocabulary;
    bool found = false;
    for (uint32_t id = 0; id < v->n; id++) {
        const struct kt_word *word = &v->words[id];
        bool fits = word->length > 0 && word->length <= length &&
                    (word->kind == KT_WORD_TEXT || word->kind == KT_WORD_TAG);
        for (uint32_t i = 0; i < word->length && fits; i++)
            fits = (uint8_t)v->bytes[word->text + i] == s->path[length - 1 - i];
        if (fits && kt_constraint_walk(s->c, (int32_t)id)) {
            kt_mask_set(s->c->closing, (int32_t)id);
            found = true;
        }
    }
    return found;
}

enum kt_status kt_constraint_closing(struct kt_constraint *c, const uint64_t **mask, struct kt_error *error)
{
    struct search s = {.c = c,
                       .reached = calloc(MOST_PLACES, sizeof(*s.reached)),
                       .heap = calloc(MOST_PLACES, sizeof(*s.heap)),
                       .seen = calloc(MOST_STATES / 8, 1),
                       .path = calloc(MOST_PLACES, 1)};
    bool found = false;
    c->distances = c->distances ? c->distances : measure(c->machine.program);
    free(c->closing);
    c->closing = calloc(kt_mask_words(c->vocabulary) + 1, sizeof(*c->closing));
    bool done = s.reached && s.heap && s.seen && s.path && c->closing && c->distances;
    if (done) {
        size_t length = find_path(&s);
        found = length > 0 && mask_beginnings(&s, length);
        done = !c->machine.failed;
    }
    free(s.reached);
    free(s.heap);
    free(s.seen);
    free(s.path);
    if (!done)
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a constraint");
    *mask = c->closing;
    return found ? KT_OK : kt_constraint_mask(c, mask, NULL, error);
}
