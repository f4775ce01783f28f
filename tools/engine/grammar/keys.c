/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - keys that fit regular expressions, and keys that do not. */
#include "tools/engine/grammar/keys.h"
#include "tools/engine/base/buffer.h"
#include "tools/engine/grammar/machine.h"

#include <stdlib.h>
#include <string.h>

/* Places of a product, sets of expressions that lead to different values, and the steps that a state of a
 * machine counts as, for its 1100 bytes. */
#define MOST_PLACES 32768
#define MOST_SETS (1 << KT_KEYS_MOST)
#define COST_OF_STATE 150
#define COST_OF_PLACE 32 /* for each expression */
enum { ANY, NAMES, PATTERNS, MOST_PARTS = PATTERNS + KT_KEYS_MOST };

/* A part reads strings with their quotes, as pattern.c writes characters: each in one way. */
struct part {
    struct kt_program program;
    struct kt_machine machine;
    uint32_t start; /* behind the opening quote; 0: nothing fits */
    bool is_open;
};

struct product {
    uint32_t states[MOST_PARTS];
    uint32_t op; /* reserved */
};

struct kt_form_keys {
    struct kt_form_reader *reader;
    struct kt_place own;
    const struct kt_place *place;
    struct part parts[MOST_PARTS];
    size_t n;       /* parts */
    uint32_t names; /* operation that reads the names left out, of parts[NAMES] */
    struct product *places;
    uint32_t *table; /* places by hash; 0: free, else its number + 1 */
    size_t n_places, places_capacity, n_slots;
    bool has_lengths; /* parts[ANY] counts characters */
    uint8_t quote;
    uint32_t sets[MOST_SETS], ops[MOST_SETS]; /* where keys of a set of expressions lead */
    size_t n_sets;
    uint32_t rest; /* any text and the closing quote, of a key that fits none; asked for once */
    bool has_rest;
    uint64_t cost; /* of its machines, as far as the reader knows */
};

/* ---- parts ---- */

static bool is_whole(struct kt_form_keys *keys, const struct kt_program *program, const char *what)
{
    if (program->status == KT_E_RANGE)
        return kt_form_fail(keys->reader, KT_E_RANGE, keys->place, "%s too many parts", what);
    return program->status == KT_OK || kt_form_no_memory(keys->reader);
}

/* Whether the request may go on after what the machines have done by now. */
static bool afford(struct kt_form_keys *keys)
{
    uint64_t cost = 0, before = keys->cost;
    for (size_t i = 0; i < keys->n; i++)
        cost += keys->parts[i].machine.cost + COST_OF_STATE * keys->parts[i].machine.n_states;
    keys->cost = cost;
    return kt_form_work(keys->reader, keys->place, cost - before);
}

static bool start_part(struct kt_form_keys *keys, struct part *part, uint32_t op)
{
    enum kt_status status =
        op && keys->reader->status == KT_OK ? kt_program_finish(&part->program, op) : KT_OK;
    if (!is_whole(keys, &part->program, "an expression of keys has"))
        return false;
    if (!op || status != KT_OK) /* nothing fits */
        return keys->reader->status == KT_OK;
    part->is_open = true;
    if (!kt_machine_init(&part->machine, &part->program))
        return kt_form_no_memory(keys->reader);
    part->start =
        kt_machine_step(&part->machine, kt_machine_start(&part->machine), part->program.quote, false);
    return !part->machine.failed || kt_form_no_memory(keys->reader);
}

static bool open_pattern(struct kt_form_keys *keys, const char *pattern, const struct kt_place *place,
                         uint32_t min, uint32_t max)
{
    struct part *part = &keys->parts[keys->n++];
    struct kt_program *program = keys->reader->program;
    kt_program_init(&part->program);
    part->program.quote = keys->quote;
    keys->reader->program = &part->program;
    uint32_t end = kt_op_return(&part->program);
    uint32_t op = kt_form_pattern(keys->reader, pattern, place, min, max, end);
    keys->reader->program = program;
    return start_part(keys, part, op);
}

struct kt_form_keys *kt_form_keys_open(struct kt_form_reader *reader, const json_t *patterns,
                                       const struct kt_place *object, const char *name, uint32_t min,
                                       uint32_t max)
{
    struct kt_form_keys *keys = calloc(1, sizeof(*keys));
    const char *pattern;
    json_t *schema;
    if (!keys) {
        kt_form_no_memory(reader);
        return NULL;
    }
    keys->reader = reader;
    keys->own = (struct kt_place){object, name, 0};
    keys->place = name ? &keys->own : object;
    keys->quote = reader->is_raw ? KT_GRAMMAR_RAW : '"';
    keys->has_lengths = min > 0 || max != UINT32_MAX;
    bool done = open_pattern(keys, "^[^]*$", keys->place, min, max);
    kt_program_init(&keys->parts[NAMES].program);
    keys->parts[NAMES].program.quote = keys->quote;
    keys->n = PATTERNS;
    if (json_object_size(patterns) > KT_KEYS_MOST)
        done = kt_form_fail(reader, KT_E_RANGE, keys->place, "more than %d expressions", KT_KEYS_MOST);
    json_object_foreach ((json_t *)(uintptr_t)patterns, pattern, schema) {
        const struct kt_place inner = {keys->place, pattern, 0};
        done = done && open_pattern(keys, pattern, name ? &inner : object, 0, UINT32_MAX);
    }
    if (done)
        return keys;
    kt_form_keys_free(keys);
    return NULL;
}

void kt_form_keys_free(struct kt_form_keys *keys)
{
    for (size_t i = 0; keys && i < keys->n; i++) {
        if (keys->parts[i].is_open)
            kt_machine_free(&keys->parts[i].machine);
        kt_program_free(&keys->parts[i].program);
    }
    if (keys) {
        free(keys->places);
        free(keys->table);
    }
    free(keys);
}

/* ---- names ---- */

/* A character below U+0080 as pattern.c writes it; returns its length. */
static size_t write_character(char c, uint8_t quote, char text[7])
{
    static const char meant[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\", hex[] = "0123456789abcdef";
    const char *found = strchr(meant, c);
    if (quote == KT_GRAMMAR_RAW || (!found && (uint8_t)c >= ' ')) {
        text[0] = c;
        return 1;
    }
    text[0] = '\\';
    if (found) {
        text[1] = letters[found - meant];
        return 2;
    }
    memcpy(text + 1, "u00", 3);
    text[4] = (uint8_t)c < 16 ? '0' : '1';
    text[5] = hex[(uint8_t)c % 16];
    return 6;
}

static uint32_t step_text(struct part *part, uint32_t state, const char *text, size_t n)
{
    for (size_t i = 0; i < n && state; i++)
        state = kt_machine_step(&part->machine, state, (uint8_t)text[i], false);
    return state;
}

static bool accepts(struct part *part, uint32_t state)
{
    char end = (char)part->program.quote;
    return state && (state = step_text(part, state, &end, 1)) && part->machine.states[state].accepts;
}

uint32_t kt_form_keys_find(struct kt_form_keys *keys, const char *name)
{
    uint32_t bits = 0;
    for (size_t i = PATTERNS; i < keys->n; i++) {
        uint32_t state = keys->parts[i].start;
        char text[7];
        for (const char *c = name; *c && state && afford(keys); c++)
            state = step_text(&keys->parts[i], state, text, write_character(*c, keys->quote, text));
        bits |= (uint32_t)accepts(&keys->parts[i], state) << (i - PATTERNS);
        if (keys->parts[i].machine.failed)
            kt_form_no_memory(keys->reader);
    }
    return bits;
}

bool kt_form_keys_leave_out(struct kt_form_keys *keys, const char *name)
{
    struct kt_program *p = &keys->parts[NAMES].program;
    char *text = malloc(6 * strlen(name) + 3);
    size_t n = 0;
    if (!text)
        return kt_form_no_memory(keys->reader);
    text[n++] = (char)keys->quote;
    for (const char *c = name; *c; c++)
        n += write_character(*c, keys->quote, text + n);
    text[n++] = (char)keys->quote;
    keys->names = kt_op_split(p, kt_op_text(p, text, n, 0, kt_op_return(p)), keys->names);
    free(text);
    return is_whole(keys, p, "the names of members have");
}

/* ---- the product ---- */

static uint32_t hash_of(const uint32_t *states, size_t n)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ states[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* Room for one more place, and for half as many in the table. */
static bool grow_places(struct kt_form_keys *keys)
{
    struct product *grown =
        kt_array_grow(keys->places, &keys->places_capacity, keys->n_places + 1, sizeof(*grown));
    size_t n_slots = keys->n_slots ? 2 * keys->n_slots : 64;
    keys->places = grown ? grown : keys->places;
    if (!grown || 2 * keys->n_places < keys->n_slots)
        return grown || kt_form_no_memory(keys->reader);
    uint32_t *table = calloc(n_slots, sizeof(*table));
    if (!table)
        return kt_form_no_memory(keys->reader);
    for (size_t i = 0; i < keys->n_places; i++) {
        size_t slot = hash_of(grown[i].states, keys->n) & (n_slots - 1);
        while (table[slot])
            slot = (slot + 1) & (n_slots - 1);
        table[slot] = (uint32_t)i + 1;
    }
    free(keys->table);
    keys->table = table;
    keys->n_slots = n_slots;
    return true;
}

static uint32_t find_place(struct kt_form_keys *keys, const uint32_t *states)
{
    if (!grow_places(keys))
        return 0;
    size_t slot = hash_of(states, keys->n) & (keys->n_slots - 1);
    for (; keys->table[slot]; slot = (slot + 1) & (keys->n_slots - 1)) {
        const struct product *known = &keys->places[keys->table[slot] - 1];
        if (memcmp(known->states, states, keys->n * sizeof(*states)) == 0)
            return known->op;
    }
    if (keys->n_places == MOST_PLACES) {
        kt_form_fail(keys->reader, KT_E_RANGE, keys->place,
                     "the expressions together need more than %d places", MOST_PLACES);
        return 0;
    }
    struct product *made = &keys->places[keys->n_places];
    memset(made, 0, sizeof(*made));
    memcpy(made->states, states, keys->n * sizeof(*states));
    made->op = kt_op_reserve(keys->reader->program);
    keys->table[slot] = (uint32_t)++keys->n_places;
    return made->op;
}

struct writing {
    struct kt_form_keys *keys;
    uint32_t (*value)(void *data, uint32_t bits);
    void *data;
};

static uint32_t lead(const struct writing *w, uint32_t bits)
{
    struct kt_form_keys *keys = w->keys;
    for (size_t i = 0; i < keys->n_sets; i++)
        if (keys->sets[i] == bits)
            return keys->ops[i];
    uint32_t op = w->value(w->data, bits);
    keys->sets[keys->n_sets] = bits;
    keys->ops[keys->n_sets++] = op;
    return op;
}

/* Where a byte leads that ends a key. */
static uint32_t end_key(const struct writing *w, const uint32_t *states)
{
    uint32_t bits = 0;
    for (size_t i = NAMES; i < w->keys->n; i++) {
        bool fits = states[i] && w->keys->parts[i].machine.states[states[i]].accepts;
        if (i == NAMES && fits)
            return 0;
        bits |= i >= PATTERNS ? (uint32_t)fits << (i - PATTERNS) : 0;
    }
    return lead(w, bits);
}

/* Nothing can be found any more, and a character is over: the key may go on as any text does. */
static uint32_t write_rest(const struct writing *w)
{
    struct kt_form_keys *keys = w->keys;
    if (!keys->has_rest) {
        uint32_t next = lead(w, 0);
        keys->rest = next ? kt_op_string_rest(keys->reader->program, next) : 0;
        keys->has_rest = true;
    }
    return keys->rest;
}

static uint32_t write_byte(const struct writing *w, const uint32_t *from, uint8_t byte)
{
    struct kt_form_keys *keys = w->keys;
    uint32_t states[MOST_PARTS] = {0}, others = 0;
    for (size_t i = 0; i < keys->n; i++) {
        states[i] = from[i] ? kt_machine_step(&keys->parts[i].machine, from[i], byte, false) : 0;
        if (from[i] && keys->parts[i].machine.failed) {
            kt_form_no_memory(keys->reader);
            return 0;
        }
        if (i == ANY && !states[i])
            return 0;
        others |= i == ANY ? 0 : states[i];
    }
    if (keys->parts[ANY].machine.states[states[ANY]].accepts)
        return end_key(w, states);
    bool is_free = others == 0 && !keys->has_lengths && keys->quote != KT_GRAMMAR_RAW &&
                   states[ANY] == keys->parts[ANY].start;
    return is_free ? write_rest(w) : find_place(keys, states);
}

static uint32_t write_place(const struct writing *w, const uint32_t *states)
{
    struct kt_range ranges[256];
    size_t n = 0;
    bool is_raw = w->keys->quote == KT_GRAMMAR_RAW;
    for (unsigned byte = 0; byte < 256u - is_raw && w->keys->reader->status == KT_OK; byte++) {
        uint32_t target = write_byte(w, states, (uint8_t)byte);
        if (target && n > 0 && ranges[n - 1].last + 1u == byte && ranges[n - 1].target == target)
            ranges[n - 1].last = (uint8_t)byte;
        else if (target)
            ranges[n++] = (struct kt_range){(uint8_t)byte, (uint8_t)byte, target};
    }
    uint32_t op = n > 0 ? kt_op_switch(w->keys->reader->program, ranges, n, 0) : 0;
    return is_raw ? kt_op_split(w->keys->reader->program, write_byte(w, states, KT_GRAMMAR_RAW), op) : op;
}

/* Where a key can continue with any character, wherever it is in the expressions, masks need not look at each
 * token. */
static void note_plain(struct kt_form_keys *keys)
{
    struct kt_program *p = keys->reader->program;
    const struct kt_program *any = &keys->parts[ANY].program;
    uint32_t groups = 0, first = p->ops[keys->places[0].op].next;
    for (size_t i = 0; i < any->n_ops; i++)
        groups |= any->ops[i].plain;
    if (groups == 0)
        return;
    uint32_t rest = 0;
    if (keys->has_rest) { /* an operation of its own, as many strings share what follows; 0: nothing may */
        rest = kt_op_reserve(p);
        kt_op_place(p, rest, keys->rest);
    }
    for (size_t i = 0; i < keys->n_places + keys->has_rest && p->status == KT_OK; i++) {
        struct kt_op *op = &p->ops[i < keys->n_places ? p->ops[keys->places[i].op].next : rest];
        bool is_begun = i < keys->n_places && keys->places[i].states[ANY] == keys->parts[ANY].start;
        op->flags |= KT_OP_KEEP | KT_OP_ALIKE;
        op->plain = is_begun ? groups : 0;
        op->limit = first;
    }
}

uint32_t kt_form_keys_write(struct kt_form_keys *keys, uint32_t (*value)(void *data, uint32_t bits),
                            void *data)
{
    struct writing w = {keys, value, data};
    struct kt_program *p = keys->reader->program;
    uint32_t states[MOST_PARTS] = {0}, first = 0;
    if (!start_part(keys, &keys->parts[NAMES], keys->names))
        return 0;
    for (size_t i = 0; i < keys->n; i++)
        states[i] = keys->parts[i].start;
    first = find_place(keys, states);
    for (size_t i = 0;
         i < keys->n_places && afford(keys) && keys->reader->status == KT_OK && p->status == KT_OK; i++) {
        const struct product from = keys->places[i]; /* which may move */
        if (!kt_form_work(keys->reader, keys->place, COST_OF_PLACE * keys->n))
            break;
        kt_op_place(p, from.op, write_place(&w, from.states));
    }
    if (keys->reader->status == KT_OK && p->status == KT_OK && !keys->has_lengths &&
        keys->quote != KT_GRAMMAR_RAW)
        note_plain(keys);
    if (keys->quote == KT_GRAMMAR_RAW)
        return first;
    return first ? kt_op_byte(p, '"', 0, first) : 0;
}
