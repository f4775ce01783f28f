/* SPDX-License-Identifier: Apache-2.0 */
/* split.h - how a text is cut into words before pairs are joined: one regular expression after the other. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_SPLIT_H
#define KT_ENGINE_TEXT_TOKENIZER_SPLIT_H

#include "tools/engine/text/tokenizer/regex.h"

/** What becomes of the matches, and of what is between them (names of Hugging Face's tokenizers). */
enum kt_split_behavior {
    KT_SPLIT_ISOLATED,             /**< each is a piece */
    KT_SPLIT_REMOVED,              /**< matches are dropped */
    KT_SPLIT_MERGED_WITH_PREVIOUS, /**< a match goes to the piece before it */
    KT_SPLIT_MERGED_WITH_NEXT,
    KT_SPLIT_CONTIGUOUS /**< matches without anything between them are one piece */
};

struct kt_split_step {
    struct kt_regex regex;
    enum kt_split_behavior behavior;
    bool invert; /**< what is between matches counts as match */
};

#define KT_SPLIT_STEPS 16

/** Pieces of one step are cut by the next, each alone. */
struct kt_splitter {
    struct kt_split_step steps[KT_SPLIT_STEPS];
    size_t n;
};

/** Receives one word. */
typedef enum kt_status (*kt_word_fn)(void *data, const char *word, size_t length);

/** Adds a step. */
enum kt_status kt_split_add(struct kt_splitter *splitter, const char *pattern, size_t length,
                            enum kt_split_behavior behavior, bool invert, struct kt_error *error);
void kt_split_free(struct kt_splitter *splitter);

/** Gives the words of text, which is UTF-8, in order. */
enum kt_status kt_split_run(const struct kt_splitter *splitter, struct kt_regex_room *room, const char *text,
                            size_t length, kt_word_fn word, void *data, struct kt_error *error);

#endif
