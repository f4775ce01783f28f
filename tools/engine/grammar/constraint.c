/* SPDX-License-Identifier: Apache-2.0 */
/* constraint.c - tokens against a grammar. */
#include "tools/engine/base/fail.h"
#include "tools/engine/grammar/place.h"
#include "tools/engine/grammar/plain.h"
#include "tools/engine/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* What is remembered of an answer, before it is forgotten and begins again. */
#define MOST_STATES 2048
#define MOST_FRAMES 65536
#define MOST_MASKS 64
/* What an answer's masks may cost, of kt_machine.cost: so much at once (some 6 ms), and then what its tokens
 * have earned. Grammars of strangers with many alternatives at once get masks that lack tokens, instead of
 * holding up the answers beside them; tokens of one byte have something on top. */
#define MOST_COST 500000
#define COST_OF_TOKEN 50000
#define COST_OF_BYTES 50000
#define LANES 8 /* through the tree of tokens at once */

void kt_grammar_destroy(struct kt_grammar *grammar)
{
    if (!grammar || atomic_fetch_sub(&grammar->references, 1) != 1)
        return;
    kt_program_free(&grammar->program);
    free(grammar);
}

static enum kt_status no_memory(struct kt_error *error)
{
    return kt_engine_fail(error, KT_E_NOMEM, "no memory for a constraint");
}

static struct kt_constraint *make(struct kt_grammar *grammar, const struct kt_vocabulary *vocabulary)
{
    struct kt_constraint *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->grammar = grammar;
    c->vocabulary = vocabulary;
    c->credit = MOST_COST;
    atomic_fetch_add(&grammar->references, 1);
    c->path = calloc(LANES * ((size_t)vocabulary->deepest + 1), sizeof(*c->path));
    if (kt_machine_init(&c->machine, &grammar->program) && c->path)
        return c;
    kt_constraint_destroy(c);
    return NULL;
}

enum kt_status kt_constraint_create(struct kt_grammar *grammar, const struct kt_vocabulary *vocabulary,
                                    struct kt_constraint **constraint, struct kt_error *error)
{
    if (!grammar || !vocabulary || !constraint)
        return kt_engine_fail(error, KT_E_INVALID, "kt_constraint_create: %s is NULL",
                              !grammar      ? "grammar"
                              : !vocabulary ? "vocabulary"
                                            : "constraint");
    struct kt_constraint *c = make(grammar, vocabulary);
    if (c)
        c->state = kt_machine_start(&c->machine);
    if (!c || c->machine.failed) {
        kt_constraint_destroy(c);
        return no_memory(error);
    }
    *constraint = c;
    return KT_OK;
}

enum kt_status kt_constraint_fork(const struct kt_constraint *constraint, struct kt_constraint **fork,
                                  struct kt_error *error)
{
    if (!constraint || !fork)
        return kt_engine_fail(error, KT_E_INVALID, "kt_constraint_fork: %s is NULL",
                              constraint ? "fork" : "constraint");
    struct kt_constraint *c = make(constraint->grammar, constraint->vocabulary);
    if (c) {
        c->state = kt_machine_carry(&constraint->machine, constraint->state, &c->machine);
        c->has_ended = constraint->has_ended;
        c->credit = constraint->credit;
    }
    if (!c || c->machine.failed) {
        kt_constraint_destroy(c);
        return no_memory(error);
    }
    *fork = c;
    return KT_OK;
}

void kt_constraint_destroy(struct kt_constraint *c)
{
    if (!c)
        return;
    kt_machine_free(&c->machine);
    kt_grammar_destroy(c->grammar);
    free(c->path);
    free(c->closing);
    free(c->distances);
    free(c);
}

/* Forgets all but where the text is, when that has become much. */
static bool forget(struct kt_constraint *c)
{
    const struct kt_machine *m = &c->machine;
    if (m->n_states < MOST_STATES && m->n_frames < MOST_FRAMES && c->n_masks < MOST_MASKS)
        return true;
    struct kt_machine fresh;
    uint32_t state = 0;
    bool done = kt_machine_init(&fresh, m->program);
    if (done)
        state = kt_machine_carry(m, c->state, &fresh);
    if (!done || fresh.failed) {
        kt_machine_free(&fresh);
        return false;
    }
    kt_machine_free(&c->machine);
    c->machine = fresh;
    c->state = state;
    c->n_masks = 0;
    return true;
}

uint32_t kt_constraint_walk(struct kt_constraint *c, int32_t id)
{
    const struct kt_vocabulary *v = c->vocabulary;
    if (id < 0 || (uint32_t)id >= v->n || c->has_ended)
        return 0;
    const struct kt_word *word = &v->words[id];
    if (word->kind != KT_WORD_TEXT && word->kind != KT_WORD_TAG)
        return 0;
    uint32_t state = c->state;
    for (uint32_t i = 0; i < word->length && state; i++)
        state =
            kt_machine_step(&c->machine, state, (uint8_t)v->bytes[word->text + i], word->kind == KT_WORD_TAG);
    return state;
}

bool kt_constraint_is_end(const struct kt_constraint *c, int32_t id)
{
    return id >= 0 && (uint32_t)id < c->vocabulary->n && c->vocabulary->words[id].kind == KT_WORD_END;
}

static bool may_end(const struct kt_constraint *c)
{
    return c->has_ended || c->machine.states[c->state].accepts;
}

enum kt_status kt_constraint_allows(struct kt_constraint *c, int32_t id, uint32_t *allowed,
                                    struct kt_error *error)
{
    if (!forget(c))
        return no_memory(error);
    *allowed = kt_constraint_is_end(c, id) ? may_end(c) : kt_constraint_walk(c, id) != 0;
    return c->machine.failed ? no_memory(error) : KT_OK;
}

enum kt_status kt_constraint_accept(struct kt_constraint *c, int32_t id, struct kt_error *error)
{
    if (!forget(c))
        return no_memory(error);
    bool ends = kt_constraint_is_end(c, id) && may_end(c);
    uint32_t state = ends ? 0 : kt_constraint_walk(c, id);
    if (c->machine.failed)
        return no_memory(error);
    if (!ends && state == 0)
        return kt_engine_fail(error, KT_E_RANGE, "token %d may not come here", id);
    c->has_ended |= ends;
    c->state = state;
    c->credit = c->credit + COST_OF_TOKEN < MOST_COST ? c->credit + COST_OF_TOKEN : MOST_COST;
    return KT_OK;
}

enum kt_constraint_place kt_constraint_place(const struct kt_constraint *c)
{
    if (!may_end(c))
        return KT_CONSTRAINT_OPEN;
    return c->has_ended || c->machine.states[c->state].n == 0 ? KT_CONSTRAINT_DONE : KT_CONSTRAINT_MAY_END;
}

/* ---- masks ---- */

/* Characters that may come in any order: at most `most` of these groups. */
struct plain {
    uint32_t groups, most;
    bool is_all; /* of tokens with these groups alone, longer ones may not come in any other way */
};

/* Those of the string which we are in; of several, those of most groups. */
static struct plain find_plain(const struct kt_constraint *c)
{
    const struct kt_machine *m = &c->machine;
    const struct kt_state *state = &m->states[c->state];
    struct plain found = {0, 0, false};
    for (uint32_t i = 0; i < state->n; i++) {
        const struct kt_frame *frame = &m->frames[m->members[state->first + i]];
        const struct kt_op *op = &m->program->ops[frame->op];
        uint32_t left = op->flags & KT_OP_COUNTED ? op->limit - frame->counter : op->limit;
        int more = __builtin_popcount(op->plain) - __builtin_popcount(found.groups);
        if (op->plain && (more > 0 || (more == 0 && left > found.most)))
            found = (struct plain){op->plain, left,
                                   left >= UINT8_MAX || (op->flags & KT_OP_COUNTED && state->n == 1)};
    }
    return found;
}

static void fill_plain(const struct kt_vocabulary *v, struct plain plain, uint64_t *mask)
{
    uint64_t n_words = kt_mask_words(v);
    memcpy(mask, v->plain_mask, n_words * sizeof(*mask));
    for (uint32_t i = 0; i < KT_PLAIN_GROUPS; i++)
        for (uint64_t word = 0; word < n_words && !(plain.groups >> i & 1); word++)
            mask[word] &= ~v->with_group[i * n_words + word];
    for (uint64_t word = 0; word < n_words && plain.most < UINT8_MAX; word++) {
        uint64_t asked = plain.most < KT_PLAIN_SHORT ? mask[word] : mask[word] & v->long_mask[word];
        for (; asked; asked &= asked - 1) {
            uint64_t id = 64 * word + (uint64_t)__builtin_ctzll(asked);
            mask[word] &= ~((uint64_t)(v->n_characters[id] > plain.most) << (id % 64));
        }
    }
}

/* kt_machine_step; without a call where the byte is known to lead, and nowhere once `most_cost` is spent. */
static inline uint32_t step(struct kt_machine *m, uint32_t state, uint8_t byte, uint64_t most_cost)
{
    const int32_t *next = m->states[state].next;
    if (next && next[byte] >= 0)
        return (uint32_t)next[byte];
    return m->cost < most_cost ? kt_machine_step(m, state, byte, false) : 0;
}

/* Tokens of one byte. */
static void walk_bytes(struct kt_constraint *c, uint64_t *mask, uint64_t most_cost)
{
    const struct kt_trie *trie = &c->vocabulary->all;
    for (uint32_t i = 0; i < trie->n_nodes; i = trie->nodes[i].end) {
        const struct kt_trie_node *node = &trie->nodes[i];
        bool fits = step(&c->machine, c->state, node->byte, most_cost) != 0;
        for (uint32_t k = 0; k < node->n && fits; k++)
            kt_mask_set(mask, trie->ids[node->first + k]);
    }
}

/* A part of the tree: each visit waits for the one before it, so several go on beside each other. */
struct lane {
    uint32_t at, end; /* nodes */
    uint32_t *path;   /* states on the way to them */
};

/* Finds the states above the lane's first node; behind one that is dead nothing is left to visit. */
static void enter(struct kt_machine *m, const struct kt_trie *trie, struct lane *lane, uint64_t most_cost)
{
    for (uint32_t i = 0; i < lane->at;) {
        const struct kt_trie_node *node = &trie->nodes[i];
        if (node->end <= lane->at) {
            i = node->end;
            continue;
        }
        uint32_t state = step(m, lane->path[node->depth - 1], node->byte, most_cost);
        lane->path[node->depth] = state;
        if (state == 0)
            lane->at = node->end;
        i++;
    }
}

static inline void visit(struct kt_machine *m, const struct kt_trie *trie, uint64_t *mask, struct lane *lane,
                         struct plain plain, uint64_t most_cost)
{
    const struct kt_trie_node *node = &trie->nodes[lane->at];
    uint32_t state = step(m, lane->path[node->depth - 1], node->byte, most_cost);
    lane->path[node->depth] = state;
    /* Whether a node has a token, is dead, or is known to fit completely looks random: the CPU would
     * mispredict branches. */
    uint32_t id = (uint32_t)trie->ids[node->first];
    mask[id / 64] |= (uint64_t)(state != 0 && node->n > 0) << (id % 64);
    for (uint32_t k = 1; k < node->n && state; k++)
        kt_mask_set(mask, trie->ids[node->first + k]);
    uint32_t inside = lane->at + 1, behind = node->end;
    bool is_known = !(node->plain & ~plain.groups) && node->n_characters <= plain.most;
    lane->at = state && !is_known ? inside : behind;
}

/* The tokens of `plain` are in the mask. */
static void walk_tree(struct kt_constraint *c, const struct kt_trie *trie, uint64_t *mask, struct plain plain,
                      uint64_t most_cost)
{
    struct lane lanes[LANES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[n] = (struct lane){.at = (uint32_t)((uint64_t)trie->n_nodes * i / LANES),
                                 .end = (uint32_t)((uint64_t)trie->n_nodes * (i + 1) / LANES),
                                 .path = c->path + i * (c->vocabulary->deepest + 1u)};
        lanes[n].path[0] = c->state;
        enter(&c->machine, trie, &lanes[n], most_cost);
        n += lanes[n].at < lanes[n].end;
    }
    while (n > 0 && !c->machine.failed) {
        for (uint32_t i = 0; i < n; i++)
            visit(&c->machine, trie, mask, &lanes[i], plain, most_cost);
        for (uint32_t i = n; i > 0; i--)
            if (lanes[i - 1].at >= lanes[i - 1].end)
                lanes[i - 1] = lanes[--n];
    }
}

/* Tokens with more characters than `plain` has, of its groups alone: they may come in another way. */
static void walk_long(struct kt_constraint *c, uint64_t *mask, struct plain plain, uint64_t most_cost)
{
    const struct kt_vocabulary *v = c->vocabulary;
    for (uint64_t word = 0; word < kt_mask_words(v); word++)
        for (uint64_t asked = v->long_mask[word] & ~mask[word]; asked; asked &= asked - 1) {
            uint64_t id = 64 * word + (uint64_t)__builtin_ctzll(asked);
            const struct kt_word *text = &v->words[id];
            uint32_t state = v->n_characters[id] > plain.most ? c->state : 0;
            for (uint32_t i = 0; i < text->length && state; i++)
                state = step(&c->machine, state, (uint8_t)v->bytes[text->text + i], most_cost);
            mask[word] |= (uint64_t)(state != 0) << (id % 64);
        }
}

static bool has_tags(const struct kt_constraint *c)
{
    const struct kt_machine *m = &c->machine;
    const struct kt_state *state = &m->states[c->state];
    for (uint32_t i = 0; i < state->n; i++)
        if (m->program->ops[m->frames[m->members[state->first + i]].op].flags & KT_OP_TAG)
            return true;
    return false;
}

static bool is_blank(const uint64_t *mask, uint64_t n_words)
{
    while (n_words > 0 && mask[n_words - 1] == 0)
        n_words--;
    return n_words == 0;
}

static void fill(struct kt_constraint *c, uint64_t *mask)
{
    const struct kt_vocabulary *v = c->vocabulary;
    uint64_t before = c->machine.cost, most = before + c->credit;
    struct plain plain = find_plain(c);
    if (plain.groups)
        fill_plain(v, plain, mask);
    walk_bytes(c, mask, most + COST_OF_BYTES);
    if (is_blank(mask, kt_mask_words(v)))
        walk_bytes(c, mask, UINT64_MAX); /* there is always a byte that goes on */
    bool is_rest = plain.groups == KT_PLAIN_ALL && (plain.is_all || plain.most >= KT_PLAIN_SHORT);
    walk_tree(c, is_rest ? &v->rest : &v->all, mask, plain, most);
    if (is_rest && !plain.is_all)
        walk_long(c, mask, plain, most);
    for (uint32_t i = 0; i < v->n_tags && has_tags(c); i++)
        if (kt_constraint_walk(c, v->tags[i]))
            kt_mask_set(mask, v->tags[i]);
    for (uint32_t i = 0; i < v->n_ends && may_end(c); i++)
        kt_mask_set(mask, v->ends[i]);
    uint64_t spent = c->machine.cost - before;
    c->credit -= spent < c->credit ? spent : c->credit;
}

enum kt_status kt_constraint_mask(struct kt_constraint *c, const uint64_t **mask, uint64_t *n_words,
                                  struct kt_error *error)
{
    if (!forget(c))
        return no_memory(error);
    if (!c->machine.states[c->state].mask) {
        uint64_t *made = calloc(kt_mask_words(c->vocabulary) + 1, sizeof(*made));
        if (made)
            fill(c, made);
        if (!made || c->machine.failed) {
            free(made);
            return no_memory(error);
        }
        c->machine.states[c->state].mask = made;
        c->n_masks++;
    }
    *mask = c->machine.states[c->state].mask;
    if (n_words)
        *n_words = kt_mask_words(c->vocabulary);
    return KT_OK;
}
