/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - frames, states, and what a byte does to them. */
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/machine.h"

#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

/* ---- frames ---- */

static uint32_t hash_frame(const struct kt_frame *frame)
{
    return mix(mix(mix(1, frame->op), frame->counter), frame->parent);
}

static bool grow_frame_table(struct kt_machine *m)
{
    size_t slots = m->frame_slots ? 2 * m->frame_slots : 256;
    uint32_t *table = calloc(slots, sizeof(*table));
    if (!table)
        return false;
    for (uint32_t i = 1; i < m->n_frames; i++) {
        size_t at = hash_frame(&m->frames[i]) & (slots - 1);
        while (table[at])
            at = (at + 1) & (slots - 1);
        table[at] = i;
    }
    free(m->frame_table);
    m->frame_table = table;
    m->frame_slots = slots;
    return true;
}

/* The number of a frame; 0: no memory. */
static uint32_t find_frame(struct kt_machine *m, uint32_t op, uint32_t counter, uint32_t parent)
{
    struct kt_frame frame = {.op = op, .counter = counter, .parent = parent};
    if (2 * m->n_frames >= m->frame_slots && !grow_frame_table(m)) {
        m->failed = true;
        return 0;
    }
    size_t at = hash_frame(&frame) & (m->frame_slots - 1);
    for (; m->frame_table[at]; at = (at + 1) & (m->frame_slots - 1)) {
        const struct kt_frame *known = &m->frames[m->frame_table[at]];
        if (known->op == op && known->counter == counter && known->parent == parent)
            return m->frame_table[at];
    }
    struct kt_frame *grown = kt_array_grow(m->frames, &m->frames_capacity, m->n_frames + 1, sizeof(*grown));
    if (!grown) {
        m->failed = true;
        return 0;
    }
    m->frames = grown;
    frame.depth = grown[parent].depth + 1;
    grown[m->n_frames] = frame;
    m->frame_table[at] = (uint32_t)m->n_frames;
    return (uint32_t)m->n_frames++;
}

/* ---- states ---- */

static uint32_t hash_state(const uint32_t *members, size_t n, bool accepts)
{
    uint32_t hash = accepts;
    for (size_t i = 0; i < n; i++)
        hash = mix(hash, members[i]);
    return hash;
}

static bool grow_state_table(struct kt_machine *m)
{
    size_t slots = m->state_slots ? 2 * m->state_slots : 64;
    uint32_t *table = calloc(slots, sizeof(*table));
    if (!table)
        return false;
    for (uint32_t i = 1; i < m->n_states; i++) {
        size_t at = m->states[i].hash & (slots - 1);
        while (table[at])
            at = (at + 1) & (slots - 1);
        table[at] = i;
    }
    free(m->state_table);
    m->state_table = table;
    m->state_slots = slots;
    return true;
}

/* The state of the members from `first` on, which are given back if it is known. */
static uint32_t find_state(struct kt_machine *m, size_t first, bool accepts)
{
    size_t n = m->n_members - first;
    if (n == 0 && !accepts)
        return 0;
    uint32_t hash = hash_state(m->members + first, n, accepts);
    if (2 * m->n_states >= m->state_slots && !grow_state_table(m)) {
        m->failed = true;
        return 0;
    }
    size_t at = hash & (m->state_slots - 1);
    for (; m->state_table[at]; at = (at + 1) & (m->state_slots - 1)) {
        const struct kt_state *known = &m->states[m->state_table[at]];
        if (known->hash == hash && known->n == n && known->accepts == accepts &&
            memcmp(m->members + known->first, m->members + first, n * sizeof(*m->members)) == 0) {
            m->n_members = first;
            return m->state_table[at];
        }
    }
    struct kt_state *grown = kt_array_grow(m->states, &m->states_capacity, m->n_states + 1, sizeof(*grown));
    if (!grown) {
        m->failed = true;
        return 0;
    }
    m->states = grown;
    grown[m->n_states] =
        (struct kt_state){.first = (uint32_t)first, .n = (uint32_t)n, .hash = hash, .accepts = accepts};
    m->state_table[at] = (uint32_t)m->n_states;
    return (uint32_t)m->n_states++;
}

/* ---- following ---- */

static void push(struct kt_machine *m, uint32_t op, uint32_t counter, uint32_t parent)
{
    const struct kt_program *p = m->program;
    if (m->frames[parent].depth + 1 + p->ops[op].height > KT_GRAMMAR_DEPTH)
        return;
    uint32_t frame = find_frame(m, op, counter, parent);
    if (frame == 0 || m->frames[frame].seen == m->seen)
        return;
    uint32_t *grown = kt_array_grow(m->work, &m->work_capacity, m->n_work + 1, sizeof(*grown));
    if (!grown) {
        m->failed = true;
        return;
    }
    m->work = grown;
    grown[m->n_work++] = frame;
    m->frames[frame].seen = m->seen;
}

static bool add_member(struct kt_machine *m, size_t first, uint32_t frame)
{
    if (m->n_members - first >= KT_MACHINE_MOST_STACKS &&
        !(m->program->ops[m->frames[frame].op].flags & KT_OP_KEEP))
        return true;
    uint32_t *grown = kt_array_grow(m->members, &m->members_capacity, m->n_members + 1, sizeof(*grown));
    if (!grown)
        return false;
    m->members = grown;
    grown[m->n_members++] = frame;
    return true;
}

/* One operation that reads nothing; true if it does read. */
static bool follow(struct kt_machine *m, uint32_t number, bool *accepts)
{
    const struct kt_frame frame = m->frames[number];
    const struct kt_op *op = &m->program->ops[frame.op];
    switch ((enum kt_op_kind)op->kind) {
    case KT_OP_BYTE:
    case KT_OP_SWITCH:
        return true;
    case KT_OP_FAIL:
        break;
    case KT_OP_JUMP:
        push(m, op->next, frame.counter, frame.parent);
        break;
    case KT_OP_SPLIT:
        push(m, op->other, frame.counter, frame.parent);
        push(m, op->next, frame.counter, frame.parent);
        break;
    case KT_OP_CALL: {
        uint32_t caller = find_frame(m, op->next, frame.counter, frame.parent);
        if (caller)
            push(m, op->other, 0, caller);
        break;
    }
    case KT_OP_RETURN:
        if (frame.parent == 0)
            *accepts = true;
        else
            push(m, m->frames[frame.parent].op, m->frames[frame.parent].counter,
                 m->frames[frame.parent].parent);
        break;
    case KT_OP_COUNT:
        push(m, op->next, frame.counter < op->arg ? frame.counter + 1 : frame.counter, frame.parent);
        break;
    case KT_OP_LESS:
        push(m, frame.counter < op->arg ? op->next : op->other, frame.counter, frame.parent);
        break;
    }
    return false;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The state of all that is reached from the frames in `work`. */
static uint32_t close_state(struct kt_machine *m)
{
    size_t first = m->n_members;
    bool accepts = false;
    while (m->n_work > 0 && !m->failed) {
        uint32_t frame = m->work[--m->n_work];
        m->cost++;
        if (follow(m, frame, &accepts) && !add_member(m, first, frame))
            m->failed = true;
    }
    m->n_work = 0;
    if (m->failed) {
        m->n_members = first;
        return 0;
    }
    if (m->n_members - first > 1)
        qsort(m->members + first, m->n_members - first, sizeof(*m->members), compare);
    return find_state(m, first, accepts);
}

uint32_t kt_machine_start(struct kt_machine *m)
{
    m->seen++;
    push(m, m->program->start, 0, 0);
    return close_state(m);
}

/* Where an operation goes with a byte; 0: nowhere. */
static uint32_t target_of(const struct kt_program *p, const struct kt_op *op, uint8_t byte)
{
    if (op->kind == KT_OP_BYTE)
        return op->arg == byte ? op->next : 0;
    const struct kt_range *ranges = p->ranges + op->arg;
    for (uint32_t i = 0; i < op->other; i++)
        if (byte >= ranges[i].first && byte <= ranges[i].last)
            return ranges[i].target;
    return 0;
}

static uint32_t compute(struct kt_machine *m, uint32_t number, uint8_t byte, bool is_tag)
{
    const struct kt_state state = m->states[number];
    m->seen++;
    for (uint32_t i = 0; i < state.n && !m->failed; i++) {
        const struct kt_frame frame = m->frames[m->members[state.first + i]];
        const struct kt_op *op = &m->program->ops[frame.op];
        uint32_t target = !is_tag || (op->flags & KT_OP_TAG) ? target_of(m->program, op, byte) : 0;
        m->cost++;
        if (target)
            push(m, target, frame.counter, frame.parent);
    }
    return close_state(m);
}

uint32_t kt_machine_step(struct kt_machine *m, uint32_t state, uint8_t byte, bool is_tag)
{
    if (state == 0)
        return 0;
    if (is_tag)
        return compute(m, state, byte, true);
    if (!m->states[state].next) {
        int32_t *next = malloc(256 * sizeof(*next));
        if (!next) {
            m->failed = true;
            return 0;
        }
        memset(next, 0xff, 256 * sizeof(*next));
        m->states[state].next = next;
    }
    if (m->states[state].next[byte] < 0) {
        uint32_t found = compute(m, state, byte, false);
        if (m->failed)
            return 0;
        m->states[state].next[byte] = (int32_t)found;
    }
    return (uint32_t)m->states[state].next[byte];
}

/* ---- a machine's life ---- */

bool kt_machine_init(struct kt_machine *m, const struct kt_program *program)
{
    *m = (struct kt_machine){.program = program, .n_frames = 1, .n_states = 1};
    m->frames = kt_array_grow(NULL, &m->frames_capacity, 1, sizeof(*m->frames));
    m->states = kt_array_grow(NULL, &m->states_capacity, 1, sizeof(*m->states));
    m->members = kt_array_grow(NULL, &m->members_capacity, 1, sizeof(*m->members));
    if (m->frames)
        m->frames[0] = (struct kt_frame){.depth = 0};
    if (m->states)
        m->states[0] = (struct kt_state){.n = 0};
    return m->frames && m->states && m->members;
}

void kt_machine_free(struct kt_machine *m)
{
    for (size_t i = 0; i < m->n_states && m->states; i++) {
        free(m->states[i].next);
        free(m->states[i].mask);
    }
    free(m->frames);
    free(m->states);
    free(m->members);
    free(m->frame_table);
    free(m->state_table);
    free(m->work);
}

static uint32_t carry_frame(const struct kt_machine *from, uint32_t number, struct kt_machine *to)
{
    uint32_t chain[KT_GRAMMAR_DEPTH + 1], n = 0, copy = 0;
    for (; number; number = from->frames[number].parent)
        chain[n++] = number;
    while (n > 0 && !to->failed) {
        const struct kt_frame *frame = &from->frames[chain[--n]];
        copy = find_frame(to, frame->op, frame->counter, copy);
    }
    return copy;
}

uint32_t kt_machine_carry(const struct kt_machine *from, uint32_t number, struct kt_machine *to)
{
    const struct kt_state *state = &from->states[number];
    size_t first = to->n_members;
    for (uint32_t i = 0; i < state->n && !to->failed; i++) {
        uint32_t frame = carry_frame(from, from->members[state->first + i], to);
        if (!to->failed && !add_member(to, first, frame))
            to->failed = true;
    }
    if (to->failed)
        return 0;
    if (state->n > 1)
        qsort(to->members + first, to->n_members - first, sizeof(*to->members), compare);
    return find_state(to, first, state->accepts);
}
