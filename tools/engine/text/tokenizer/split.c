/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/text/tokenizer/split.h"

#include "tools/engine/base/fail.h"

enum kt_status kt_split_add(struct kt_splitter *splitter, const char *pattern, size_t length,
                            enum kt_split_behavior behavior, bool invert, struct kt_error *error)
{
    if (splitter->n == KT_SPLIT_STEPS)
        return kt_engine_fail(error, KT_E_UNSUPPORTED, "more than %d steps that cut text into words",
                              KT_SPLIT_STEPS);
    struct kt_split_step *step = &splitter->steps[splitter->n];
    enum kt_status status = kt_regex_create(pattern, length, &step->regex, error);
    if (status != KT_OK)
        return status;
    step->behavior = behavior;
    step->invert = invert;
    splitter->n++;
    return KT_OK;
}

void kt_split_free(struct kt_splitter *splitter)
{
    for (size_t i = 0; i < splitter->n; i++)
        kt_regex_free(&splitter->steps[i].regex);
    splitter->n = 0;
}

/* A step at work on one piece. */
struct cut {
    const struct kt_splitter *splitter;
    struct kt_regex_room *room;
    kt_word_fn word;
    void *data;
    struct kt_error *error;
};

static enum kt_status run_step(const struct cut *cut, size_t number, const char *text, size_t length);

/* Pieces that may still grow. */
struct pending {
    size_t begin, end; /* equal where all that there is is an empty match */
    bool is_match, is_there;
};

static enum kt_status flush(const struct cut *cut, size_t number, const char *text, struct pending *pending)
{
    size_t begin = pending->begin, end = pending->end;
    pending->is_there = false;
    return end > begin ? run_step(cut, number + 1, text + begin, end - begin) : KT_OK;
}

/* The next match, which may be empty, or what is between two of them. */
static enum kt_status take(const struct cut *cut, size_t number, const char *text, struct pending *pending,
                           size_t begin, size_t end, bool is_match)
{
    const struct kt_split_step *step = &cut->splitter->steps[number];
    bool joins = false, has_pending = pending->is_there;
    if (begin == end && !is_match)
        return KT_OK;
    is_match ^= step->invert;
    if (step->behavior == KT_SPLIT_ISOLATED || step->behavior == KT_SPLIT_REMOVED)
        return begin == end || (is_match && step->behavior == KT_SPLIT_REMOVED)
                   ? KT_OK
                   : run_step(cut, number + 1, text + begin, end - begin);
    if (step->behavior == KT_SPLIT_MERGED_WITH_PREVIOUS)
        joins = has_pending && is_match && !pending->is_match;
    else if (step->behavior == KT_SPLIT_MERGED_WITH_NEXT)
        joins = has_pending && !is_match && pending->is_match;
    else
        joins = has_pending && is_match == pending->is_match;
    enum kt_status status = joins ? KT_OK : flush(cut, number, text, pending);
    if (!joins)
        pending->begin = begin;
    pending->end = end;
    pending->is_match = is_match;
    pending->is_there = true;
    return status;
}

/* A match may be empty: it cuts, too, and the search goes on behind the next character. */
static size_t skip_character(const char *text, size_t length, size_t at)
{
    for (at++; at < length && ((unsigned char)text[at] & 0xC0) == 0x80; at++)
        ;
    return at;
}

static enum kt_status run_step(const struct cut *cut, size_t number, const char *text, size_t length)
{
    if (number == cut->splitter->n)
        return cut->word(cut->data, text, length);
    const struct kt_split_step *step = &cut->splitter->steps[number];
    struct pending pending = {.is_there = false};
    size_t done = 0, at = 0;
    enum kt_status status = KT_OK;
    while (status == KT_OK && at < length) {
        size_t begin = 0, end = 0;
        bool found;
        status = kt_regex_find(&step->regex, cut->room, text, length, at, &found, &begin, &end, cut->error);
        if (status != KT_OK || !found)
            break;
        at = end > begin ? end : skip_character(text, length, end);
        if (end == begin && done == begin) /* right behind a match: it is none */
            continue;
        status = take(cut, number, text, &pending, done, begin, false);
        if (status == KT_OK)
            status = take(cut, number, text, &pending, begin, end, true);
        done = end;
    }
    if (status == KT_OK)
        status = take(cut, number, text, &pending, done, length, false);
    return status == KT_OK ? flush(cut, number, text, &pending) : status;
}

enum kt_status kt_split_run(const struct kt_splitter *splitter, struct kt_regex_room *room, const char *text,
                            size_t length, kt_word_fn word, void *data, struct kt_error *error)
{
    struct cut cut = {splitter, room, word, data, error};
    return length > 0 ? run_step(&cut, 0, text, length) : KT_OK;
}
