/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.c - stop strings in a text that comes in pieces, by an Aho-Corasick automaton: its state is the
 * longest end of the text that a stop string begins with, which is just what must be held back.
 */
#include "tools/engine/base/buffer.h"
#include "tools/engine/base/fail.h"
#include "tools/engine/text/utf8.h"

#include <kt/sampling.h>
#include <stdlib.h>
#include <string.h>

struct state {
    uint32_t depth;          /* bytes of stop strings that it stands for */
    uint32_t fail;           /* the state of the longest end of these that is a state, too */
    uint32_t child, sibling; /* 0: none, as state 0 is no child */
    int64_t found;           /* the longest stop string that ends here; -1: none */
    uint32_t length;         /* its bytes */
    uint8_t byte;
};

struct kt_stop {
    struct state *states;
    uint32_t n_states, at;
    bool keeps;
    int64_t found;
    struct kt_buffer text; /* what is held back, behind what the last call showed */
    size_t shown;
};

static uint32_t find_child(const struct kt_stop *stop, uint32_t at, uint8_t byte)
{
    uint32_t child = stop->states[at].child;
    while (child != 0 && stop->states[child].byte != byte)
        child = stop->states[child].sibling;
    return child;
}

static void add_stop_text(struct kt_stop *stop, const struct kt_stop_text *text, int64_t index)
{
    uint32_t at = 0;
    for (uint64_t i = 0; i < text->length; i++) {
        uint8_t byte = (uint8_t)text->text[i];
        uint32_t child = find_child(stop, at, byte);
        if (child == 0) {
            child = stop->n_states++;
            stop->states[child] = (struct state){.depth = stop->states[at].depth + 1,
                                                 .sibling = stop->states[at].child,
                                                 .found = -1,
                                                 .byte = byte};
            stop->states[at].child = child;
        }
        at = child;
    }
    if (stop->states[at].found < 0) {
        stop->states[at].found = index;
        stop->states[at].length = (uint32_t)text->length;
    }
}

static uint32_t step(const struct kt_stop *stop, uint32_t at, uint8_t byte)
{
    uint32_t next = find_child(stop, at, byte);
    while (next == 0 && at != 0) {
        at = stop->states[at].fail;
        next = find_child(stop, at, byte);
    }
    return next;
}

/* States by their depth, so that shorter ones are done: a state's fail is one step from its parent's. */
static void link_states(struct kt_stop *stop, uint32_t *queue)
{
    uint32_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t parent = queue[head++];
        for (uint32_t child = stop->states[parent].child; child != 0; child = stop->states[child].sibling) {
            struct state *state = stop->states + child;
            state->fail = parent == 0 ? 0 : step(stop, stop->states[parent].fail, state->byte);
            if (state->found < 0) {
                state->found = stop->states[state->fail].found;
                state->length = stop->states[state->fail].length;
            }
            queue[tail++] = child;
        }
    }
}

static enum kt_status check_texts(const struct kt_stop_text *texts, uint64_t n_texts, uint64_t *total,
                                  struct kt_error *error)
{
    *total = 0;
    for (uint64_t i = 0; i < n_texts; i++) {
        if (!texts[i].text || texts[i].length == 0)
            return kt_engine_fail(error, KT_E_INVALID, "stop string %llu is empty", (unsigned long long)i);
        if (texts[i].length > (1u << 30) || *total > (1u << 30))
            return kt_engine_fail(error, KT_E_INVALID, "stop strings are longer than 1 GiB");
        if (kt_utf8_valid(texts[i].text, (size_t)texts[i].length) != texts[i].length)
            return kt_engine_fail(error, KT_E_INVALID, "stop string %llu is not UTF-8",
                                  (unsigned long long)i);
        *total += texts[i].length;
    }
    return KT_OK;
}

enum kt_status kt_stop_create(const struct kt_stop_text *texts, uint64_t n_texts, uint32_t flags,
                              struct kt_stop **stop, struct kt_error *error)
{
    uint64_t total;
    if (!stop || (!texts && n_texts > 0) || flags > KT_STOP_KEEP)
        return kt_engine_fail(error, KT_E_INVALID, "kt_stop_create: %s",
                              flags > KT_STOP_KEEP ? "flags has an unknown bit" : "a pointer is NULL");
    enum kt_status status = check_texts(texts, n_texts, &total, error);
    if (status != KT_OK)
        return status;
    struct kt_stop *made = calloc(1, sizeof(*made));
    uint32_t *queue = malloc((size_t)(total + 1) * sizeof(*queue));
    if (made)
        made->states = malloc((size_t)(total + 1) * sizeof(*made->states));
    if (!made || !made->states || !queue) {
        free(queue);
        kt_stop_destroy(made);
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for %llu stop strings",
                              (unsigned long long)n_texts);
    }
    made->keeps = flags & KT_STOP_KEEP;
    made->found = -1;
    made->states[0] = (struct state){.found = -1};
    made->n_states = 1;
    for (uint64_t i = 0; i < n_texts; i++)
        add_stop_text(made, texts + i, (int64_t)i);
    link_states(made, queue);
    free(queue);
    *stop = made;
    return KT_OK;
}

void kt_stop_destroy(struct kt_stop *stop)
{
    if (!stop)
        return;
    kt_buffer_free(&stop->text);
    free(stop->states);
    free(stop);
}

static void forget_shown(struct kt_stop *stop)
{
    if (stop->shown > 0)
        memmove(stop->text.data, stop->text.data + stop->shown, stop->text.length - stop->shown);
    stop->text.length -= stop->shown;
    stop->shown = 0;
}

/* Bytes at the end that may become a character. */
static size_t cut_off(const char *text, size_t length)
{
    size_t most = length < 3 ? length : 3;
    for (size_t n = 1; n <= most; n++) {
        uint8_t byte = (uint8_t)text[length - n];
        if (byte >= 0x80 && byte < 0xC0)
            continue; /* not a first one */
        bool is_cut = false;
        uint32_t code;
        if (kt_utf8_read(text + length - n, n, &code) == 0)
            (void)kt_utf8_broken(text + length - n, n, &is_cut);
        return is_cut ? n : 0;
    }
    return 0;
}

/* How much of the text can be shown, which is all but what may become a stop string or a character. */
static size_t count_safe(const struct kt_stop *stop)
{
    size_t safe = stop->text.length - stop->states[stop->at].depth;
    size_t whole = stop->text.length - cut_off(stop->text.data, stop->text.length);
    return safe < whole ? safe : whole;
}

enum kt_status kt_stop_add(struct kt_stop *stop, const char *piece, uint64_t length, const char **text,
                           uint64_t *text_length, int64_t *found, struct kt_error *error)
{
    if (!stop || (!piece && length > 0) || !text || !text_length || !found)
        return kt_engine_fail(error, KT_E_INVALID, "kt_stop_add: a pointer is NULL");
    if (stop->found >= 0)
        return kt_engine_fail(error, KT_E_STATE,
                              "kt_stop_add: the text has ended with stop string %lld; kt_stop_end() begins "
                              "another one",
                              (long long)stop->found);
    forget_shown(stop);
    size_t from = stop->text.length;
    if (length > SIZE_MAX || !kt_buffer_add(&stop->text, piece ? piece : "", (size_t)length))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for %llu bytes of text",
                              (unsigned long long)length);
    for (size_t i = from; i < stop->text.length && stop->found < 0; i++) {
        stop->at = step(stop, stop->at, (uint8_t)stop->text.data[i]);
        const struct state *state = stop->states + stop->at;
        stop->found = state->found;
        if (stop->found >= 0)
            stop->text.length = i + 1 - (stop->keeps ? 0 : state->length);
    }
    stop->shown = stop->found >= 0 ? stop->text.length : count_safe(stop);
    *text = stop->text.data ? stop->text.data : "";
    *text_length = stop->shown;
    *found = stop->found;
    return KT_OK;
}

enum kt_status kt_stop_end(struct kt_stop *stop, const char **text, uint64_t *text_length,
                           struct kt_error *error)
{
    if (!stop || !text || !text_length)
        return kt_engine_fail(error, KT_E_INVALID, "kt_stop_end: a pointer is NULL");
    forget_shown(stop);
    *text = stop->text.data ? stop->text.data : "";
    *text_length = stop->text.length;
    stop->shown = stop->text.length;
    stop->at = 0;
    stop->found = -1;
    return KT_OK;
}
